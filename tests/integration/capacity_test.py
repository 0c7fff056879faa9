# SPDX-License-Identifier: Apache-2.0
"""A machine that is full refuses another sandbox, and says what it lacks and when to come again."""
import json
import os
import pathlib

import covetest
import pytest

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="makes a cgroup to be full")

EXIT_LIMIT = 75


@pytest.fixture
def full(request):
    """-> starts a program in a group that has room for hardly anything but itself"""
    top = next((p for p in covetest.cgroup_mounts() if (p / "pids.max").exists() or list(p.glob("*/pids.max"))), None)
    if top is None:
        pytest.skip("no pids controller")
    group = pathlib.Path(top / f"{covetest.CGROUP_PARENT}-full")
    group.mkdir()
    (group / "pids.max").write_text("4")
    yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    covetest.wait_for(lambda: not (group / "cgroup.procs").read_text(), "nobody in the group")
    group.rmdir()


def test_a_full_machine_says_what_it_lacks(cove, full):
    done = cove("repl", preexec_fn=full)
    assert done.returncode == EXIT_LIMIT, done.stderr
    assert done.stdout == ""
    assert "no room for another sandbox: processes:" in done.stderr
    assert "close sessions that nobody needs" in done.stderr
    covetest.nothing_is_left()


def test_a_program_is_told_when_to_try_again(cove, full):
    done = cove("repl", "--json", preexec_fn=full)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == EXIT_LIMIT
    assert error["code"] == "limit"
    assert error["retry_ms"] > 0


def test_the_most_sandboxes_are_an_option(cove):
    assert cove.good("--max-sandboxes", "1", "-c", "print(1)") == "1\n"
    assert cove("run", "--max-sandboxes", "0", "-c", "print(1)").returncode == covetest.EXIT_INVALID
