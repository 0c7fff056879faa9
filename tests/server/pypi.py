# SPDX-License-Identifier: Apache-2.0
"""Programs that Debian does not have, from PyPI, each in an environment of its own in the cache.

They are an optional part: where they cannot be had, the test that wants one is skipped and says why.
"""
import os
import platform
import subprocess

import pytest

import fetched

PIP = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15"]


class OutOfReach(Exception):
    """Why they cannot be had here."""


def _run(*argv):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, env=os.environ | {"PYTHONNOUSERSITE": "1"})


def _fill(place, packages):
    for argv in (["/usr/bin/python3", "-m", "venv", place],
                 [place / "bin/python", "-m", "pip", "install", *PIP, *packages]):
        made = _run(*map(str, argv))
        if made.returncode != 0:
            lines = made.stdout.strip().splitlines() or ["nothing was said"]
            raise OutOfReach(f"{packages[0]} cannot be installed: {lines[-1][:200]}")


def python_with(*packages):
    """The python of an environment with these packages ("name==version"); or the test is skipped."""
    try:
        with fetched.folder("pypi", platform.python_version(), *packages) as (place, is_whole):
            if not is_whole:
                _fill(place, packages)
    except OutOfReach as why:
        pytest.skip(str(why))
    return place / "bin/python"
