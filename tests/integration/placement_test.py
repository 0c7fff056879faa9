# SPDX-License-Identifier: Apache-2.0
"""Sandboxes stand in groups below the one that their program was started in, whose limits hold for all of them."""
import json
import os

import pytest

import covetest
from covetest import CGROUP_PARENT, Cove, Unit, descendants, groups_of, is_in_group, read_text, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="makes groups")

WAITS = "import time; print('ready', flush=True); time.sleep(1000)"
HELD_BYTES = 96 << 20  # by each of two, of which there is room for one
HOLDS = f"import time; held = bytearray(b'x') * {HELD_BYTES}; print('ready', flush=True); time.sleep(1000)"


@pytest.fixture
def unit():
    place = Unit()
    yield place
    covetest.end_started()
    wait_for(lambda: not place.groups("cove/[0-9]*"), "no group of a sandbox")
    place.close()


def end(process):
    process.terminate()
    process.communicate(timeout=covetest.PATIENCE)


def test_sandboxes_stand_in_the_group_that_their_program_was_started_in(unit):
    process = unit.start("run", "--timeout", "10m", "-c", WAITS)
    assert process.stdout.readline() == b"ready\n", process.stderr.read()
    found = [groups_of(pid) for pid in descendants(process.pid) if any(uid in covetest.SANDBOX_UIDS for uid in covetest.uids_of(pid))]
    assert found
    for groups in found:
        below = {name for name, path in groups.items() if f"/{unit.name}/cove/" in path}
        assert below >= {"memory", "pids", "cpu"} or "" in below, groups
    end(process)


def test_its_limit_holds_for_all_of_them_together(unit):
    """Which of the two is killed is up to the kernel."""
    path, names = next(
        (path, names) for path in unit.paths
        for names in (("memory.limit_in_bytes", "memory.max_usage_in_bytes"), ("memory.max", "memory.peak")) if (path / names[1]).exists())
    limit = HELD_BYTES * 7 // 4
    (path / names[0]).write_text(str(limit))
    one = unit.start("run", "--memory", "512M", "--timeout", "10m", "-c", HOLDS)
    assert one.stdout.readline() == b"ready\n", one.stderr.read()
    two = unit.start("run", "--memory", "512M", "--timeout", "10m", "-c", HOLDS)
    two.stdout.readline()
    wait_for(lambda: one.poll() is not None or two.poll() is not None, "one that had no room")
    assert HELD_BYTES < int(read_text(path / names[1])) <= limit
    loser, winner = (two, one) if one.poll() is None else (one, two)
    assert b"the group that all sandboxes are in, had no memory left" in loser.stderr.read()
    end(winner)


def test_a_name_that_was_given_is_at_the_top(unit):
    process = unit.start("run", "--cgroup-parent", CGROUP_PARENT, "--timeout", "10m", "-c", WAITS)
    assert process.stdout.readline() == b"ready\n", process.stderr.read()
    assert covetest.sandbox_groups() and not unit.groups("cove/*")
    assert any(is_in_group(pid, CGROUP_PARENT) for pid in descendants(process.pid))
    end(process)
    covetest.nothing_is_left()


def test_the_doctor_says_where_they_are(unit):
    report = json.loads(unit("doctor", "--json").stdout)
    assert (report["cgroup_place"], report["cgroup_path"]) == ("own", f"/{unit.name}/cove")
    assert f"below /{unit.name}/cove: in the group" in unit("doctor").stdout
    report = json.loads(Cove()("doctor", "--json").stdout)
    assert (report["cgroup_place"], report["cgroup_path"]) == ("named", f"/{CGROUP_PARENT}")


def test_the_next_run_removes_what_a_crash_left_there(unit):
    process = unit.start("run", "--timeout", "10m", "-c", WAITS)
    assert process.stdout.readline() == b"ready\n", process.stderr.read()
    stale = unit.groups("cove/[0-9]*")
    assert stale
    covetest.kill_quietly(next(pid for pid in descendants(process.pid) if covetest.name_of(pid) == "cove-spawner"))
    process.communicate(timeout=covetest.PATIENCE)
    assert unit.groups("cove/[0-9]*") == stale
    assert unit.good("-c", "print('next')") == "next\n"
    wait_for(lambda: not unit.groups("cove/[0-9]*"), "the groups to be gone")


def test_a_namespace_of_its_own_changes_nothing(unit):
    """As in a container: what is above cannot be seen, and the tree is mounted as a whole."""
    argv = unit.argv("doctor", "--json")
    at = argv.index("--") + 1
    done = covetest.subprocess.run(argv[:at] + ["unshare", "-C", "--"] + argv[at:], env=covetest.environment(), capture_output=True, text=True,
                                   timeout=covetest.PATIENCE, cwd="/", check=False)
    assert json.loads(done.stdout)["tier"] == "T1", done.stdout + done.stderr
    assert os.listdir(unit.paths[0]), done.stdout
