# SPDX-License-Identifier: Apache-2.0
"""coved runs out of memory: the kernel kills it, or an allocation fails anywhere. Another one takes over, what was told is
kept, sessions know what they knew, and nothing is left."""
import contextlib
import http.client
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import covetest
from covetest import IS_ASAN, is_alive, read_text, wait_for
from crashers import BROKEN, SESSIONS, Home, create, execute, pages, read, side_by_side, value

HERE = pathlib.Path(__file__).resolve().parent
FAILING_SPAWNER = covetest.BUILD / "tests/failing-spawner"
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
            assert int(value(server, session, "globals().get('x', 0)")) in numbers
        assert set(self.sessions) <= {doc["id"] for doc in pages(server, f"{SESSIONS}?live=true", "sessions")}


# --- the kernel kills it --------------------------------------------------------------------------


def memory_top():
    """Where cgroups of the memory controller can be made, or None."""
    for top in covetest.cgroup_mounts():
        is_old = (top / "memory.limit_in_bytes").exists()  # version 1
        if is_old or "memory" in read_text(top / "cgroup.subtree_control").split():
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


# --- an allocation fails --------------------------------------------------------------------------

OF_SERVER, OF_SPAWNER = ((1, 30, 300, 1000), 2), ((1, 16), 1.5)  # while it starts; then by a factor
LONG_FACTOR, FAR = 1.1, 3
TURNS = 4  # of the load
NAMES = {f"__{kind}_{name}": f"{prefix}{name}" for name in ("malloc", "calloc", "realloc")
         for kind, prefix in (("wrap", ""), ("real", "__libc_"))}


class Refusing:
    """A build whose coved, when it is armed, is refused one allocation; the next one is as ever."""

    def __init__(self, folder):
        self.bin, self.armed = folder / "build/bin", folder / "armed/number"
        self.pid = folder / "armed/pid"
        self.armed.parent.mkdir()
        self.armed.parent.chmod(0o777)
        shutil.copytree(covetest.public_build().parent, self.bin.parent)
        library, coved, whole = folder / "failmalloc.so", self.bin / "coved", self.bin / "whole/coved"
        subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-fno-builtin", "-o", library,
                        *(f"-D{name}={real}" for name, real in NAMES.items()),
                        HERE.parent / "integration/failmalloc.c"], check=True)
        whole.parent.mkdir()
        coved.rename(whole)
        coved.write_text(f"#!/bin/sh\nnumber=$(cat {self.armed} 2>&-) && rm {self.armed} && echo $$ > {self.pid} &&\n"
                         f"    export LD_PRELOAD={library} COVE_TEST_ALLOCATION=$number\nexec {whole}\n")
        coved.chmod(0o755)

    def wrap_spawner(self, number):
        """A spawner that is refused this allocation, beside what it looks for there."""
        program, wrapper = self.bin / "failing-spawner", self.bin / "wrapper"
        if not program.exists():
            shutil.copy(FAILING_SPAWNER, program)
        wrapper.write_text(f'#!/bin/sh\nexport COVE_TEST_ALLOCATION={number}\nexec {program} "$@"\n')
        wrapper.chmod(0o755)
        return wrapper

    def processes(self):
        return [pid for pid in covetest.pids() if program_of(pid).startswith(str(self.bin))]


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:  # it is gone, or a thread of the kernel's
        return ""


class Hardened(Told):
    """Takes an error for an answer, and then does not know what became of the request."""

    def __init__(self, home):
        super().__init__(home, 0)
        self.failures = 0

    def attempt(self, act, *args):
        if self.failures:
            return
        try:
            act(*args)
        except BROKEN:
            self.failures += 1
        except AssertionError as error:
            self.failures += 1
            if not re.search(r"<50[037] b", str(error)):
                raise

    def load(self):
        """A bit of everything, until something fails."""
        for _ in range(TURNS):
            self.attempt(self.begin)
            for session in list(self.sessions):
                self.attempt(self.run, session)
            self.attempt(self.once)

    def begin(self):
        self.sessions[create(self.home.server)["id"]] = {0}

    def once(self):
        answer = self.home.server.post("/execute", {"code": "print(1)"})
        assert answer.status == 200 and answer.json["stdout"] == "1\n", answer


@pytest.fixture
def refusing():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-memory-"))
    folder.chmod(0o755)
    yield Refusing(folder)
    shutil.rmtree(folder)


def sweep(numbers, is_long, attempt):
    """Lets one allocation after the other fail, until far behind the last of which attempt() noticed something."""
    first, factor = numbers
    number = last = first[-1]
    noticed = sum(attempt(early) for early in first)
    while (number := int(number * (LONG_FACTOR if is_long else factor))) < FAR * last:
        if attempt(number):
            last, noticed = number, noticed + 1
    assert noticed >= len(first)


def has_started(home):
    """Whether it lived until it answered."""
    try:
        home.start()
    except http.client.HTTPException:  # it died in its first answer
        return False
    except AssertionError:
        assert home.server.process.poll() is not None, home.server.say()
        return False
    return True


@pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")
@pytest.mark.skipif(IS_ASAN, reason="the sanitizer has an allocator of its own")
def test_a_server_that_is_refused_an_allocation_is_replaced(refusing, is_long):
    with covetest.orphans_come_to_us():
        home = Home(cove=covetest.Cove(refusing.bin))

        def attempt(number):
            home.server.stop()
            home.server.release()
            refusing.armed.write_text(str(number))
            if not has_started(home) and home.server.process.poll() is not None:
                assert "the server cannot start" in home.server.say()
                home.server.release()
                home.start()
            told = Hardened(home)
            told.load()
            is_noticed = told.failures > 0 or not is_alive(int(read_text(refusing.pid)))
            home.kill("coved")  # whatever it is: from here on nothing fails
            told.check()
            return is_noticed
        try:
            sweep(OF_SERVER, is_long, attempt)
            home.end()
        finally:
            home.release()


@pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")
@pytest.mark.skipif(not FAILING_SPAWNER.exists(), reason="this build has no programs of tests")
def test_a_spawner_that_is_refused_an_allocation_takes_all_with_it(refusing, is_long):
    """And loses nothing that was told; the next one clears up."""
    ends = []
    with covetest.orphans_come_to_us():
        home = Home("--spawner", refusing.wrap_spawner(0), cove=covetest.Cove(refusing.bin))

        def attempt(number):
            home.server.process.kill()
            home.bury(None)
            wait_for(lambda: covetest.reap() or not refusing.processes(), "the end of all of its programs")
            refusing.wrap_spawner(number)
            told = Hardened(home)
            is_noticed = not has_started(home)
            if not is_noticed:
                told.load()
            ends.extend(told.ends)
            return is_noticed or told.failures > 0
        try:
            sweep(OF_SPAWNER, is_long, attempt)
            attempt(0)
            for doc in ends:
                assert read(home.server, doc["id"]) == doc
            home.end()
        finally:
            home.release()
