# SPDX-License-Identifier: Apache-2.0
"""Programs that Debian does not have, from PyPI, each in an environment of its own below the build.

They are an optional part: where they cannot be had, the test that wants one is skipped and says why.
"""
import hashlib
import os
import shutil
import subprocess

import pytest

from covetest import BUILD

PIP = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15"]


def _run(*argv):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, env=os.environ | {"PYTHONNOUSERSITE": "1"})


def python_with(*packages):
    """The python of an environment with these packages ("name==version"); or the test is skipped."""
    name = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    place = BUILD / "pypi" / name
    python, mark = place / "bin/python", place / "whole"
    if mark.exists():
        return python
    shutil.rmtree(place, ignore_errors=True)  # of a run that was cut short
    for argv in (["/usr/bin/python3", "-m", "venv", place],
                 [python, "-m", "pip", "install", *PIP, *packages]):
        made = _run(*map(str, argv))
        if made.returncode != 0:
            shutil.rmtree(place, ignore_errors=True)
            lines = made.stdout.strip().splitlines() or ["nothing was said"]
            pytest.skip(f"{packages[0]} cannot be installed: {lines[-1][:200]}")
    mark.touch()
    return python
