# SPDX-License-Identifier: Apache-2.0
"""Where programs stay that tests fetch from a registry: one folder for every copy of this tree, filled once."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cove"

failures = {}  # why a folder could not be filled: who asks again in the same run is told at once


@contextlib.contextmanager
def folder(kind, *wanted):
    """-> a folder for exactly these, and whether it is whole already; nobody else fills it meanwhile. What was filled
    without an exception is whole from then on; the rest of one that was cut short is gone."""
    place = CACHE / f"{kind}-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:16]}"
    mark = place / "whole"
    if place in failures:
        raise failures[place]
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.exists():
            yield place, True
            return
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place, False
        except Exception as why:
            failures[place] = why
            raise
        mark.touch()
