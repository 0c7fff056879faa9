# SPDX-License-Identifier: Apache-2.0
"""What the other tests take for a leftover: what is ours, and nothing that others have on the same machine."""
import contextlib
import os
import subprocess

import pytest

import covetest
from covetest import kill_quietly, sandboxed, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="only root can have the uids of sandboxes")

UID = covetest.SANDBOX_UIDS[-77]
SLEEPER = ["setpriv", f"--reuid={UID}", "--clear-groups", "sleep", "60"]


@contextlib.contextmanager
def joined(parent, pid):
    """A process in a cgroup of this parent; as in a sandbox, that is the only one of its kind."""
    top = next(top for top in covetest.cgroup_mounts() if not (top / "cpuset.cpus").exists())
    group = top / parent / "77"
    group.mkdir(parents=True)
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        kill_quietly(pid)
        wait_for(lambda: covetest.reap() or covetest.is_removed(group), "the end of the group")
        covetest.is_removed(group.parent)


def sleeper(pid):
    wait_for(lambda: covetest.uids_of(pid) == {UID}, "its uid")
    return pid


@pytest.fixture
def child():
    process = subprocess.Popen(SLEEPER)
    yield sleeper(process.pid)
    process.kill()
    process.wait()


@pytest.fixture
def stranger():
    """The child of a program that is none of ours: who began it has ended. It ends with its input."""
    script = '"$@" > /dev/null & echo $!; read end; kill -9 $!; wait'
    argv = ["sh", "-c", 'exec 3<&0; "$@" <&3 &', "parent", "sh", "-c", script, "stranger", *SLEEPER]
    parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    parent.wait()
    yield sleeper(int(parent.stdout.readline()))
    parent.stdin.close()
    assert parent.stdout.read() == ""


def test_a_child_with_the_uid_of_a_sandbox_is_ours(child):
    assert child in sandboxed()


def test_whoever_is_in_our_group_is_ours(stranger):
    with joined(covetest.CGROUP_PARENT, stranger):
        assert stranger in sandboxed()


def test_whoever_is_in_anothers_group_is_his(child):
    with joined(f"cove-test-stranger-{os.getpid()}", child):
        assert child not in sandboxed()


def test_the_child_of_another_program_is_no_sandbox_of_ours(stranger):
    assert stranger not in sandboxed()
