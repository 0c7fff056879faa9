# SPDX-License-Identifier: Apache-2.0
"""The cgroup of a sandbox that is gone serves the next one, and tells nothing of the one before."""
import contextlib
import os
import pathlib

import pytest

import covetest
from spawner_protocol_test import DESTROY, FREEZE, KILL, STATS, THAW
from zygotes import host, thrifty_host  # noqa: F401
from zygotes import pytestmark as zygote_marks

GROUPS = pathlib.Path("/sys/fs/cgroup")
MB = 1 << 20
BATCHES = 2 * 64 * 4096  # in which the kernel charges memory, on two processors
TRIES = 5  # the kernel may charge one in advance again

pytestmark = [*zygote_marks, pytest.mark.skipif(not (GROUPS / "memory").exists() or not (GROUPS / "unified").exists(),
                                                reason="groups are used again only where version 1 counts the memory")]

USED = {
    "nothing": "pass",
    "memory": "held = bytearray(200 << 20); del held",
    "processor": "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass",
    "processes": "import os\nfor _ in range(20):\n pid = os.fork()\n if pid == 0: os._exit(0)\n os.waitpid(pid, 0)",
    "files": "open('/workspace/large', 'wb').write(bytes(50 << 20))",
}
MARKED = {
    "a kill for memory": "import os\npid = os.fork()\nif pid == 0:\n held = bytearray(600 << 20); os._exit(0)\nos.waitpid(pid, 0)",
    "processes that were refused": "import os, signal\nmade = []\ntry:\n while True:\n  pid = os.fork()\n  if pid == 0: signal.pause()\n"
                                   "  made.append(pid)\nexcept OSError: pass\nfor pid in made: os.kill(pid, 9); os.waitpid(pid, 0)",
}


def stats(host, session):
    return host.ask(STATS, session.id).stats


def followers(host, zygote, count=3):
    """Those that could have the group of the last one that has ended: one was made in advance."""
    return [host.session(zygote) for _ in range(count)]


def is_drained():
    """Has the kernel give back what it has charged to groups in advance, which else it does when it wants, and what waits for RCU,
    which on a busy machine takes a while: a group that still has it is not used again."""
    charged = [0]
    for folder, _, _ in os.walk(GROUPS / "memory" / covetest.CGROUP_PARENT):
        with contextlib.suppress(OSError):  # it is gone
            if folder.rpartition("/")[2].isdigit() and not pathlib.Path(folder, "cgroup.procs").read_text():
                pathlib.Path(folder, "memory.force_empty").write_text("0")
                charged.append(int(pathlib.Path(folder, "memory.usage_in_bytes").read_text()))
    return max(charged) < BATCHES


def successor(host, zygote, code):
    """One that has the group in which `code` ran. Others wait before it."""
    for _ in range(TRIES):
        others, first = followers(host, zygote), host.session(zygote)
        first.run(code)
        for each in (*others, first):
            host.destroy(each)
        covetest.wait_for(is_drained, "groups at rest")
        made = []
        for _ in range(5):
            made.append(host.session(zygote))
            if made[-1].host_uid == first.host_uid:
                return made[-1]
            made[-1].run("print(1)")
        for each in made:
            host.destroy(each)
    pytest.fail("no group was used again")


@pytest.mark.parametrize("code", USED.values(), ids=USED)
def test_a_group_that_is_used_again_counts_from_nothing(thrifty_host, code):
    host = thrifty_host
    zygote = host.zygote()
    fresh = host.session(zygote)
    fresh.run("print(1)")
    wanted = stats(host, fresh)
    second = successor(host, zygote, code)
    second.run("print(1)")
    found = stats(host, second)
    assert abs(found["memory_peak"] - wanted["memory_peak"]) <= BATCHES + MB / 2
    assert found["cpu_us"] < 200_000 and found["pids_now"] == wanted["pids_now"]
    assert (found["oom_kills"], found["pids_refused"], found["disk_used"]) == (0, 0, wanted["disk_used"])
    host.end()


def test_a_group_that_is_used_again_holds_its_limits(thrifty_host):
    host = thrifty_host
    zygote = host.zygote()
    second = successor(host, zygote, "pass")
    second.run(MARKED["processes that were refused"])
    second.run(MARKED["a kill for memory"])
    found = stats(host, second)
    assert found["oom_kills"] == 1 and found["pids_refused"] >= 1 and found["memory_peak"] >= 500 * MB
    host.end()


@pytest.mark.parametrize("code", MARKED.values(), ids=MARKED)
def test_a_group_whose_counters_cannot_be_set_back_is_nobodys_after(host, code):
    zygote = host.zygote()
    first = host.session(zygote)
    first.run(code)
    host.destroy(first)
    made = followers(host, zygote)
    assert first.host_uid not in [each.host_uid for each in made]
    assert all(stats(host, each)["oom_kills"] == stats(host, each)["pids_refused"] == 0 for each in made)
    host.end()


@pytest.mark.parametrize("thaws", [True, False], ids=["thawed", "frozen to the end"])
def test_a_group_that_was_frozen_holds_nobody_up(host, thaws):
    zygote = host.zygote()
    first = host.session(zygote)
    assert host.ask(FREEZE, first.id).failure is None
    if thaws:
        assert host.ask(THAW, first.id).failure is None
    host.destroy(first)
    made = followers(host, zygote)
    assert [each.run("print(1)") for each in made] == ["1\n"] * len(made)
    assert thaws or first.host_uid not in [each.host_uid for each in made]
    host.end()


def test_a_group_that_was_killed_is_nobodys_after(host):
    """The kernel would kill whoever comes next."""
    zygote = host.zygote()
    first = host.session(zygote)
    assert host.ask(KILL, first.id).failure is None
    host.destroy(first)
    made = followers(host, zygote)
    assert first.host_uid not in [each.host_uid for each in made]
    host.end()


def test_many_processes_end_with_their_sandbox(host):
    zygote = host.zygote()
    first = host.session(zygote)
    first.run("import os, signal\nfor _ in range(30):\n if os.fork() == 0: os.close(1); os.close(2); signal.pause()")
    assert stats(host, first)["pids_now"] >= 30
    assert host.ask(DESTROY, first.id).stats["pids_now"] == 0
    assert first.host_uid not in [each.host_uid for each in followers(host, zygote)]
    host.end()


def test_a_group_with_other_limits_is_nobodys_after(host):
    zygote = host.zygote()
    first = host.session(zygote, pids=20)
    host.destroy(first)
    other = [host.session(zygote, pids=30) for _ in range(3)]
    assert first.host_uid not in [each.host_uid for each in other]
    host.end()


def groups():
    """Their numbers, in whichever tree; they may go while they are listed."""
    trees = GROUPS.glob(f"*/{covetest.CGROUP_PARENT}")
    return {name for tree in trees for _, folders, _ in os.walk(tree) for name in folders if name.isdigit()}


def test_groups_wait_for_a_moment_only(host):
    zygote = host.zygote()
    first = host.session(zygote)
    before = covetest.wait_for(lambda: len(groups()) == 3 and groups(), "one of the zygote, one of ours, one in advance")
    host.destroy(first)
    covetest.wait_for(lambda: len(groups()) == 2, "the end of a group that nobody wants")
    assert groups() < before and host.session(zygote).run("print(1)") == "1\n"
    host.end()
    covetest.wait_for(lambda: not groups(), "the end of all groups")
