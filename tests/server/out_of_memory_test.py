# SPDX-License-Identifier: Apache-2.0
"""coved runs out of memory: the kernel kills it, or an allocation fails anywhere. Another one takes over, what was told is
kept, sessions know what they knew, and nothing is left."""
import contextlib
import itertools
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import covetest
from covetest import IS_ASAN, read_text, wait_for
from crashers import BROKEN, ENDS, SESSIONS, Home, create, execute, pages, read, side_by_side, value

HERE = pathlib.Path(__file__).resolve().parent
ROOM = 1 << 20  # more than coved has already
DEATHS = 3
CLIENTS = 4
LONG = "#" * 500_000


@pytest.fixture
def home():
    with covetest.orphans_come_to_us():
        home = Home()
        try:
            yield home
            home.end()
        finally:
            home.release()


class Told:
    """What a client has heard: its sessions with what they know, and the ends of executions."""

    def __init__(self, home, count):
        self.home, self.ends, self.numbers = home, [], itertools.count(1)
        self.sessions = {create(home.server)["id"]: {0} for _ in range(count)}
        for session in self.sessions:
            self.run(session)

    def run(self, session, more=""):
        """Sets x to a new number; who hears nothing does not know whether."""
        number = next(self.numbers)
        self.sessions[session].add(number)
        doc = execute(self.home.server, session, f"x = {number}; print(x)\n{more}", queue=True)
        assert doc["stdout"] == f"{number}\n", doc
        self.ends.append(doc)
        self.sessions[session] = {number}

    def check(self):
        server = self.home.server
        for doc in self.ends:
            assert read(server, doc["id"]) == doc
        for session, numbers in self.sessions.items():
            assert int(value(server, session, "x")) in numbers
        assert {doc["id"] for doc in pages(server, f"{SESSIONS}?live=true", "sessions")} == set(self.sessions)


# --- the kernel kills it --------------------------------------------------------------------------


def memory_top():
    """Where cgroups of the memory controller can be made, or None."""
    for top in covetest.cgroup_mounts():
        if (top / "memory.oom_control").exists() or (top / "memory.stat").exists():
            return top  # version 1
        if "memory" in read_text(top / "cgroup.subtree_control").split():
            return top
    return None


@contextlib.contextmanager
def small_group(parent):
    """A cgroup whose processes get ROOM more bytes than they have when they come; and how often it has killed."""
    path = memory_top() / f"{parent}-small"
    path.mkdir()
    is_old = (path / "memory.limit_in_bytes").exists()
    (path / ("memory.limit_in_bytes" if is_old else "memory.max")).write_text(str(ROOM))
    (path / ("memory.swappiness" if is_old else "memory.swap.max")).write_text("0")
    try:
        yield path, lambda: int(re.search(r"oom_kill (\d+)", read_text(path / ("memory.oom_control" if is_old else "memory.events")))[1])
    finally:
        wait_for(lambda: covetest.is_removed(path), "the end of its cgroup")


def until_it_dies(told, coved):
    """Requests that need memory, until one of them is too many."""
    def client(session):
        while told.home.server.find_coved() == coved:
            with contextlib.suppress(*BROKEN):
                told.run(session, LONG)
    side_by_side(client, list(told.sessions))


@pytest.mark.skipif(not covetest.IS_ROOT or not memory_top(), reason="needs root and cgroups that count memory")
def test_a_server_that_the_kernel_kills_for_its_memory_is_replaced(home):
    server, spawner = home.server, home.server.process.pid
    told = Told(home, CLIENTS)
    inside = [int(value(server, session, "open('/proc/self/oom_score_adj').read()")) for session in told.sessions]
    outside = [int(read_text(f"/proc/{pid}/oom_score_adj")) for pid in (spawner, server.coved)]
    assert max(outside) < min(inside), "a machine without memory takes code of strangers first"
    with small_group(server.group) as (group, kills):
        for death in range(1, DEATHS + 1):
            coved, count = server.coved, len(server.addresses())
            (group / "cgroup.procs").write_text(str(coved))
            until_it_dies(told, coved)
            server.wait_ready(count + 1)
            assert kills() == death
            told.check()
    assert server.process.pid == spawner and server.process.poll() is None
