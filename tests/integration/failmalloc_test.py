# SPDX-License-Identifier: Apache-2.0
"""Each allocation of cove-spawner is made to fail once, in a run of one sandbox from the spawner's start to its end. User code
does not start, or is sealed as ever, and nothing is left."""
import json
import shutil
import subprocess

import pytest

import covetest
from covetest import BUILD, PATIENCE, Cove, nothing_is_left
from failclosed_test import HERE, first_line, look_from_outside

FAILING = BUILD / "tests/failing-spawner"
pytestmark = [pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root"),
              pytest.mark.skipif(not FAILING.exists(), reason="this build has no programs of tests")]

BEYOND = 5  # so many that change nothing: it makes no more
MANY = 200


class Runs:
    """Runs whose spawner may be refused one allocation."""

    def __init__(self, folder):
        self.spawner = folder / "wrapper"
        shutil.copy(FAILING, folder / "cove-spawner")
        shutil.copy(BUILD / "cove-init", folder / "cove-init")  # is looked for beside it

    def run(self, number):
        """What the program told of its seal, or None; and the status and last words of the run."""
        self.spawner.write_text(f"#!/bin/sh\nexport COVE_TEST_ALLOCATION={number} ASAN_OPTIONS=detect_leaks=0\n"
                                f'exec {self.spawner.parent}/cove-spawner "$@"\n')
        self.spawner.chmod(0o755)
        process = Cove().start("run", "--spawner", self.spawner, HERE / "sealreport.py", stdin=subprocess.PIPE)
        line = first_line(process)
        report = json.loads(line) | look_from_outside(process.pid) if line else None
        _, said = process.communicate(timeout=PATIENCE)
        return report, process.returncode, said.decode()


def test_each_allocation_of_the_spawner_fails_closed(tmp_path):
    runs, refused, unhindered, number = Runs(tmp_path), 0, 0, 0
    usual, status, said = runs.run(0)
    assert usual and status == 0, said
    while unhindered < BEYOND:
        number += 1
        assert number < MANY
        report, status, said = runs.run(number)
        assert report in (None, usual), f"another seal when allocation {number} fails: {report}"
        assert (report is None) == (status != 0) and (report or said), (number, status, said)
        refused += report is None
        unhindered = unhindered + 1 if report else 0
    print(f"{refused} of {number - BEYOND} allocations")
    assert refused > 10, "it makes some for each sandbox, and more at its start"
    nothing_is_left()
