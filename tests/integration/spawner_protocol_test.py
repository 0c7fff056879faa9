# SPDX-License-Identifier: Apache-2.0
"""cove-spawner, spoken to directly: what it takes, what it refuses, and that nothing is left whatever comes."""
import array
import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess

import pytest

import covetest
from covetest import BUILD, CGROUP_PARENT, PATIENCE, nothing_is_left, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

# src/wire/spawn.h
VERSION, MESSAGE, HEADER = 4, 256, struct.Struct("<IHHQQ")
BODY = MESSAGE - HEADER.size
(HELLO, CREATE, STATS, KILL, DESTROY, PROBE, PING, EXITED, SEALED, ZYGOTE, FREEZE, THAW, CULL, KEEP, LIST,
 TAKE, BROOD, APART, PROXY, EGRESS, SEAL_LAYER, FIND_LAYER, PULSE) = range(1, 24)
VERBS = 24
REPLY, FAILED = 1, 2
ALLOW_DEGRADED, UNCOUNTED = 1, 2
LIMITS = ("memory_bytes", "disk_bytes", "inodes", "cpu_milli", "pids", "open_files", "lifetime_ms")
CREATE_BODY = struct.Struct("<32sQQQIIIIIIQ32s")
KEEP_BODY = struct.Struct("<II16sI96s")
ENTRY = struct.Struct("<I3I16s96sIIIIIIQIIQQQQQIIIII")
FAILURE = struct.Struct("<iii96s")
SEALED_BODY = struct.Struct("<IIIIIIQ")
STATS_BODY = struct.Struct("<QQQQQIIIII")
USUAL = {"memory_bytes": 256 << 20, "disk_bytes": 64 << 20, "inodes": 4096, "cpu_milli": 500, "pids": 64,
         "open_files": 256, "lifetime_ms": 120_000}
# enum error_code
INVALID, NOT_FOUND, CONFLICT, UNAVAILABLE, ISOLATION = 1, 2, 3, 7, 8
# src/wire/guest.h
GUEST = struct.Struct("<IiiiIIIIq")
GUEST_READY, GUEST_START, GUEST_STARTED, GUEST_EXITED, GUEST_KILL = 1, 2, 3, 4, 6


def image():
    """The digest of the bash image, as `cove image list` tells it."""
    done = covetest.Cove()("image", "list", "--json")
    rows = json.loads(done.stdout)["images"]
    return bytes.fromhex(next(row["digest"] for row in rows if row["name"] == "bash").split(":")[-1])


def message(verb, serial=1, flags=0, sandbox=0, reserved=0, body=b""):
    return HEADER.pack(serial, verb, flags, sandbox, reserved) + body.ljust(BODY, b"\0")


def keep_body(slot, count, label=b"", note=None):
    """`note` None: that of the sandbox stays as it is."""
    return KEEP_BODY.pack(slot, count, label, note is not None, note or b"")


def create_body(digest, flags=0, zygote=0, reserved=0, packages=b"", **limits):
    return CREATE_BODY.pack(digest, *((USUAL | limits)[name] for name in LIMITS), flags, reserved, zygote, packages)


def cull_body(*keep, count=None):
    return struct.pack(f"<I{len(keep)}i", len(keep) if count is None else count, *keep)


class Answer:
    def __init__(self, data, fds):
        self.serial, self.verb, self.flags, self.sandbox, self.reserved = HEADER.unpack(data[:HEADER.size])
        self.body, self.fds = data[HEADER.size:], fds

    @property
    def failure(self):
        """(error code, errno, layer, step), or None."""
        if not self.flags & FAILED:
            return None
        code, number, layer, step = FAILURE.unpack(self.body[:FAILURE.size])
        return code, number, layer, step.split(b"\0")[0].decode()

    @property
    def uids(self):
        return SEALED_BODY.unpack(self.body[:SEALED_BODY.size])[:3]

    @property
    def stats(self):
        names = ("cpu_us", "memory_peak", "disk_used", "disk_free", "inodes_free", "oom_kills", "pids_refused",
                 "pids_now", "is_over", "lifetime_over")
        return dict(zip(names, STATS_BODY.unpack(self.body[:STATS_BODY.size])))


class Spawner:
    """A cove-spawner whose only client we are."""

    def __init__(self, *options, is_patient=True):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        theirs.setblocking(is_patient)
        self.errors = os.memfd_create("stderr")

        def take_place():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen(
            [str(BUILD / "cove-spawner"), "--cgroup-parent", CGROUP_PARENT, "--store", "/var/lib/cove/images", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors, close_fds=False,
            preexec_fn=take_place, env={"ASAN_OPTIONS": "detect_leaks=1:exitcode=99"})
        theirs.close()
        self.serial = 0

    def send(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], rights)

    def receive(self):
        """The next message, or None at the end."""
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MESSAGE + 1, 4)
        except ConnectionResetError:
            return None
        if not data:
            return None
        assert len(data) == MESSAGE
        return Answer(data, fds)

    def ask(self, verb, sandbox=0, body=b""):
        self.serial += 1
        self.send(message(verb, self.serial, sandbox=sandbox, body=body))
        answer = self.receive()
        while answer and answer.verb in (EXITED, SEALED) and verb not in (EXITED, SEALED):
            answer = self.receive()
        assert answer, f"it hung up on verb {verb}"
        assert (answer.serial, answer.verb, answer.flags & REPLY) == (self.serial, verb, REPLY)
        return answer

    def hello(self, keeps_fds=False):
        answer = self.ask(HELLO, body=struct.pack("<I", VERSION))
        assert answer.failure is None, answer.failure
        for fd in () if keeps_fds else answer.fds:
            os.close(fd)
        return answer

    def create(self, digest, flags=0, **limits):
        """The answer, with the body of the news that follows it: sealed, or not."""
        answer = self.ask(CREATE, body=create_body(digest, flags, **limits))
        if answer.failure is None:
            news = self.receive()
            assert (news.verb, news.serial, news.sandbox) == (SEALED, 0, answer.sandbox)
            answer.flags |= news.flags
            answer.body = news.body
        return answer

    def stderr(self):
        os.lseek(self.errors, 0, os.SEEK_SET)
        return os.read(self.errors, 65536).decode(errors="replace")

    def end(self):
        """Hangs up and waits for a clean exit that leaves nothing."""
        self.socket.close()
        assert self.process.wait(PATIENCE) == 0, self.stderr()
        assert self.stderr() == ""
        nothing_is_left()

    def is_ended_by(self, data, fds=()):
        """Sends something bad: the spawner must hang up without an answer and go."""
        self.send(data, fds)
        answer = self.receive()
        assert answer is None, f"answered with verb {answer.verb}, failure {answer.failure}"
        self.end()


@pytest.fixture(scope="module")
def digest():
    return image()


@pytest.fixture
def fresh():
    spawner = Spawner()
    yield spawner
    spawner.socket.close()
    covetest.kill_quietly(spawner.process.pid)
    spawner.process.wait()
    os.close(spawner.errors)


@pytest.fixture
def spawner(fresh):
    fresh.hello()
    return fresh


# --- what it takes ------------------------------------------------------------------------------


def test_hello_comes_first_and_tells_the_uids(fresh):
    version, is_rootless, first, count = struct.unpack("<IIII", fresh.hello().body[:16])
    assert (version, is_rootless, first, count) == (VERSION, 0, covetest.SANDBOX_UIDS.start, len(covetest.SANDBOX_UIDS))
    assert fresh.ask(PING).failure is None
    fresh.end()


def test_a_client_can_read_the_counters_itself(fresh, digest):
    """The directories come with the hello, the place of the group with the seal."""
    hello = fresh.hello(keeps_fds=True)
    versions = hello.body[16:19]
    assert len(hello.fds) == 3 and set(versions) <= {1, 2}
    made = fresh.create(digest)
    slot, nest = SEALED_BODY.unpack(made.body[:SEALED_BODY.size])[3:5]
    assert nest == 0xFFFFFFFF
    peak = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}[versions[0]]
    with open(f"/proc/self/fd/{hello.fds[0]}/{slot}/{peak}") as file:
        assert 0 < int(file.read()) <= fresh.ask(STATS, made.sandbox).stats["memory_peak"]
    for fd in hello.fds:
        os.close(fd)
    fresh.end()


def test_a_sandbox_lives_until_it_is_destroyed(spawner, digest):
    made = spawner.create(digest)
    assert made.failure is None and made.sandbox != 0 and len(made.fds) == 1
    layers, host_uid, inside_uid = made.uids
    assert host_uid in covetest.SANDBOX_UIDS and inside_uid == 1000
    alive = covetest.sandboxed()
    assert len(alive) == 1 and covetest.uids_of(alive[0]) == {host_uid}
    stats = spawner.ask(STATS, made.sandbox).stats
    assert (stats["is_over"], stats["pids_now"]) == (0, 1)
    gone = spawner.ask(DESTROY, made.sandbox)
    assert gone.failure is None and gone.stats["is_over"]
    assert covetest.sandboxed() == [] and covetest.sandbox_groups() == [], "answered when all is gone"
    os.close(made.fds[0])
    spawner.end()


def test_init_says_ready_on_the_control_socket(spawner, digest):
    made = spawner.create(digest)
    with socket.socket(fileno=made.fds[0]) as control:
        control.settimeout(PATIENCE)
        assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
        start_sleeper(control)
        assert spawner.ask(STATS, made.sandbox).stats["pids_now"] == 2
    spawner.end()


def start_sleeper(control):
    start_program(control, "/bin/sleep", "1000")


def start_program(control, *argv):
    strings = b"\0".join([b"/workspace", *map(str.encode, argv), b""])
    null = os.open("/dev/null", os.O_RDWR)
    socket.send_fds(control, [GUEST.pack(GUEST_START, 0, 0, 0, len(argv), 0, len(strings), 0, 0) + strings], [null] * 3)
    os.close(null)
    verb, value = GUEST.unpack(control.recv(4096))[:2]
    assert (verb, value) == (GUEST_STARTED, 0)


def test_its_tables_cannot_be_written(spawner):
    """What the linker marked read-only after relocation is so, whatever C library it was built with."""
    listed = subprocess.run(["readelf", "-lW", str(BUILD / "cove-spawner")], capture_output=True, text=True, check=True)
    relro = next(line.split() for line in listed.stdout.splitlines() if "GNU_RELRO" in line)
    program = os.path.realpath(BUILD / "cove-spawner")
    maps = [line.split() for line in open(f"/proc/{spawner.process.pid}/maps") if line.rstrip().endswith(program)]
    base = min(int(line[0].split("-")[0], 16) for line in maps)
    start, size = base + int(relro[2], 16), int(relro[5], 16)
    end = (start + size) & ~0xfff
    covering = [line for line in maps if int(line[0].split("-")[0], 16) < end and int(line[0].split("-")[1], 16) > start]
    assert covering and all("w" not in line[1] for line in covering), covering
    spawner.end()


def test_nothing_is_kept_for_a_client_that_is_the_only_one(spawner, digest):
    made = spawner.create(digest)
    asked = [spawner.ask(KEEP, made.sandbox, keep_body(0, 0)), spawner.ask(LIST), spawner.ask(TAKE, made.sandbox)]
    assert [answer.failure[3] for answer in asked] == ["nothing is kept for this client"] * 3
    assert spawner.ask(STATS, made.sandbox).stats["is_over"] == 0
    spawner.end()


def test_a_door_is_opened_in_one_sandbox_and_nowhere_else(spawner, digest):
    """It listens on the loopback of that network namespace; another time, when the first one is closed."""
    made, other = spawner.create(digest), spawner.create(digest)
    for _ in range(2):
        answer = spawner.ask(EGRESS, made.sandbox)
        assert answer.failure is None and len(answer.fds) == 1
        with socket.socket(fileno=answer.fds[0]) as door:
            assert door.getsockname() == ("127.0.0.1", 808) and door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            cookie = door.getsockopt(socket.SOL_SOCKET, 71, 8)  # SO_NETNS_COOKIE
            assert spawner.ask(EGRESS, made.sandbox).failure[0] == UNAVAILABLE  # there is one
            second = spawner.ask(EGRESS, other.sandbox)
            with socket.socket(fileno=second.fds[0]) as elsewhere, socket.socket() as own:
                cookies = {cookie, elsewhere.getsockopt(socket.SOL_SOCKET, 71, 8), own.getsockopt(socket.SOL_SOCKET, 71, 8)}
                assert len(cookies) == 3
    assert spawner.ask(KILL, made.sandbox).failure is None
    wait_for(lambda: spawner.ask(STATS, made.sandbox).stats["is_over"], "its end")
    assert spawner.ask(EGRESS, made.sandbox).failure[0] == CONFLICT
    for one in (made, other):
        os.close(one.fds[0])
    spawner.end()


def test_without_a_proxy_there_is_none_to_start(spawner):
    assert spawner.ask(PROXY).failure[0] == NOT_FOUND
    spawner.end()


def test_two_sandboxes_share_nothing(spawner, digest):
    made = [spawner.create(digest) for _ in range(2)]
    assert made[0].sandbox != made[1].sandbox
    assert made[0].uids[1] != made[1].uids[1]
    pids = covetest.sandboxed()
    assert len(pids) == 2
    for space in ("pid", "mnt", "net", "ipc", "uts", "user", "cgroup"):
        links = {os.readlink(f"/proc/{pid}/ns/{space}") for pid in pids} | {os.readlink(f"/proc/self/ns/{space}")}
        assert len(links) == 3, space
    assert len({tuple(covetest.groups_of(pid).items()) for pid in pids}) == 2
    spawner.ask(DESTROY, made[0].sandbox)
    assert spawner.ask(STATS, made[1].sandbox).stats["is_over"] == 0
    spawner.end()


def test_kill_is_followed_by_exited_and_the_counters_stay(spawner, digest):
    made = spawner.create(digest)
    spawner.ask(KILL, made.sandbox)
    told = spawner.receive()
    assert (told.verb, told.serial, told.sandbox, told.flags) == (EXITED, 0, made.sandbox, 0)
    assert told.stats["is_over"] and not told.stats["lifetime_over"]
    assert spawner.ask(STATS, made.sandbox).stats["is_over"]
    assert spawner.ask(DESTROY, made.sandbox).failure is None
    spawner.end()


def test_probe_tries_the_layers(spawner):
    states = spawner.ask(PROBE).body[:38:2]
    assert set(states) == {1}, "each of the nineteen holds here"
    spawner.end()


# --- freezing -----------------------------------------------------------------------------------


class Spinning:
    """A sandbox whose program uses all the CPU time that it gets."""
    program = ("/bin/bash", "-c", "while :; do :; done")

    def __init__(self, spawner, digest, **limits):
        self.spawner, made = spawner, spawner.create(digest, **limits)
        assert made.failure is None, made.failure
        self.id = made.sandbox
        self.control = socket.socket(fileno=made.fds[0])
        self.control.settimeout(PATIENCE)
        assert GUEST.unpack(self.control.recv(4096))[0] == GUEST_READY
        start_program(self.control, *self.program)

    def cpu_us(self):
        return self.spawner.ask(STATS, self.id).stats["cpu_us"]

    def is_frozen(self):
        """As the kernel tells it, by whichever version of cgroups."""
        events = [covetest.read_text(path / "cgroup.events") for path in covetest.sandbox_groups()]
        states = [covetest.read_text(path / "freezer.state") for path in covetest.sandbox_groups()]
        return any("frozen 1" in text for text in events) or "FROZEN\n" in states

    def wait_frozen(self):
        assert self.spawner.ask(FREEZE, self.id).failure is None
        wait_for(self.is_frozen, "the sandbox to stand still")

    def wait_work(self):
        before = self.cpu_us()
        wait_for(lambda: self.cpu_us() > before + 10_000, "the program to work")


@pytest.fixture
def spinning(spawner, digest):
    made = Spinning(spawner, digest)
    made.wait_work()
    yield made
    made.control.close()


def test_a_frozen_sandbox_stands_still_and_goes_on(spawner, spinning):
    for _ in range(3):
        spinning.wait_frozen()
        before = wait_for(lambda: (a := spinning.cpu_us()) == spinning.cpu_us() and a, "all that it used to be counted")
        for _ in range(200):  # each is a turn of the spawner's, in which it could have worked
            assert spawner.ask(PING).failure is None
        assert spinning.cpu_us() == before
        assert spawner.ask(THAW, spinning.id).failure is None
        spinning.wait_work()
    assert not spinning.is_frozen()
    spawner.end()


def test_freeze_and_thaw_can_be_said_twice(spawner, spinning):
    assert spawner.ask(THAW, spinning.id).failure is None, "one that runs"
    spinning.wait_work()
    for _ in range(2):
        assert spawner.ask(FREEZE, spinning.id).failure is None
    wait_for(spinning.is_frozen, "the sandbox to stand still")
    for _ in range(2):
        assert spawner.ask(THAW, spinning.id).failure is None
    spinning.wait_work()
    spawner.end()


def test_a_frozen_sandbox_is_not_its_neighbour(spawner, digest, spinning):
    other = Spinning(spawner, digest)
    spinning.wait_frozen()
    other.wait_work()
    other.control.close()
    spawner.end()


def test_a_frozen_sandbox_can_be_killed(spawner, spinning):
    spinning.wait_frozen()
    assert spawner.ask(KILL, spinning.id).failure is None
    told = spawner.receive()
    assert (told.verb, told.sandbox, told.stats["is_over"]) == (EXITED, spinning.id, 1)
    for verb in (FREEZE, THAW):
        assert spawner.ask(verb, spinning.id).failure == (CONFLICT, 0, -1, "the sandbox is not sealed, or over")
    assert spawner.ask(DESTROY, spinning.id).failure is None
    assert covetest.sandboxed() == [] and covetest.sandbox_groups() == []
    spawner.end()


def test_a_frozen_sandbox_can_be_destroyed(spawner, spinning):
    spinning.wait_frozen()
    assert spawner.ask(DESTROY, spinning.id).stats["is_over"]
    assert covetest.sandboxed() == [] and covetest.sandbox_groups() == []
    for verb in (FREEZE, THAW):
        assert spawner.ask(verb, spinning.id).failure[0] == NOT_FOUND
    spawner.end()


def test_a_frozen_sandbox_goes_with_its_client(spawner, spinning):
    spinning.wait_frozen()
    spawner.end()


def test_a_frozen_sandbox_goes_with_its_spawner(spawner, spinning):
    """The kernel kills pid 1 with the spawner; whoever comes next removes the group."""
    spinning.wait_frozen()
    spawner.process.kill()
    spawner.process.wait()
    covetest.Cove().good("-l", "bash", "-c", "")
    nothing_is_left()


def test_a_frozen_sandbox_has_its_lifetime(spawner, digest):
    spinning = Spinning(spawner, digest, lifetime_ms=1500)
    assert spawner.ask(FREEZE, spinning.id).failure is None
    told = spawner.receive()
    assert (told.verb, told.sandbox, told.stats["lifetime_over"]) == (EXITED, spinning.id, 1)
    spinning.control.close()
    spawner.end()


# --- the end of all but some --------------------------------------------------------------------

FAMILY = "sleep 1000 & sleep 1001 & (sleep 1002 & sleep 1003) & setsid sleep 1004 & wait"


class Family(Spinning):
    """A sandbox with several processes, known by their arguments."""
    program = ("/bin/bash", "-c", FAMILY)

    def sleepers(self):
        """{argument: (pid outside, pid inside)}"""
        inside = {pid: covetest.status_of(pid).get("NSpid") for pid in covetest.sandboxed() if covetest.is_alive(pid)}
        words = {pid: covetest.read_text(f"/proc/{pid}/cmdline").split("\0") for pid in inside if inside[pid]}  # else it is gone
        return {argv[1]: (pid, int(inside[pid].split()[-1])) for pid, argv in words.items() if os.path.basename(argv[0]) == "sleep"}


@pytest.fixture
def family(spawner, digest):
    made = Family(spawner, digest)
    wait_for(lambda: len(made.sleepers()) == 5, "the processes")
    yield made
    made.control.close()


def test_a_cull_ends_all_but_pid_1_and_those_named(spawner, family):
    before = family.sleepers()
    kept = [before[name][1] for name in ("1001", "1004")]
    assert spawner.ask(CULL, family.id, cull_body(*kept)).failure is None
    wait_for(lambda: set(family.sleepers()) == {"1001", "1004"}, "the end of the others")
    assert all(family.sleepers()[name] == before[name] for name in ("1001", "1004"))
    told = GUEST.unpack(family.control.recv(4096))
    assert (told[0], told[3]) == (GUEST_EXITED, signal.SIGKILL), "init lives, and tells of the program"
    start_program(family.control, "/bin/sleep", "1005")
    wait_for(lambda: set(family.sleepers()) == {"1001", "1004", "1005"}, "what was started after it")
    assert spawner.ask(CULL, family.id, cull_body()).failure is None
    wait_for(lambda: not family.sleepers(), "the end of all")
    assert spawner.ask(STATS, family.id).stats["is_over"] == 0
    assert spawner.ask(DESTROY, family.id).failure is None
    spawner.end()


def test_a_cull_of_another_sandbox_is_not_felt(spawner, digest, family):
    other = Spinning(spawner, digest)
    assert spawner.ask(CULL, other.id, cull_body()).failure is None
    assert GUEST.unpack(other.control.recv(4096))[0] == GUEST_EXITED
    assert len(family.sleepers()) == 5
    other.control.close()
    spawner.end()


def test_a_cull_thaws_and_is_refused_when_all_is_over(spawner, spinning):
    spinning.wait_frozen()
    assert spawner.ask(CULL, spinning.id, cull_body()).failure is None
    assert GUEST.unpack(spinning.control.recv(4096))[0] == GUEST_EXITED
    assert not spinning.is_frozen()
    assert spawner.ask(CULL, spinning.id, cull_body(count=57)).failure[0] == INVALID
    assert spawner.ask(KILL, spinning.id).failure is None
    assert spawner.receive().verb == EXITED
    assert spawner.ask(CULL, spinning.id, cull_body()).failure[0] == CONFLICT
    spawner.end()


def test_a_cull_ends_a_fork_bomb_at_once(spawner, digest):
    """Those that cannot be looked into, too."""
    class Bomb(Spinning):
        program = ("/bin/bash", "-c", "bomb() { bomb | bomb & }; bomb; while :; do :; done")
    bomb = Bomb(spawner, digest, pids=64, cpu_milli=1000)
    for _ in range(5):
        wait_for(lambda: spawner.ask(STATS, bomb.id).stats["pids_now"] >= 60, "the bomb")
        assert spawner.ask(CULL, bomb.id, cull_body()).failure is None
        wait_for(lambda: GUEST.unpack(bomb.control.recv(4096))[0] == GUEST_EXITED, "the end of the program")
        if spawner.ask(STATS, bomb.id).stats["pids_now"] > 1:  # forked in that moment; init's turn comes, now
            bomb.control.send(GUEST.pack(GUEST_KILL, 0, 0, 0, 0, 0, 0, 0, 0))
        wait_for(lambda: spawner.ask(STATS, bomb.id).stats["pids_now"] == 1, "the end of all but init")
        start_program(bomb.control, *bomb.program)
    bomb.control.close()
    spawner.end()


# --- what ends the connection -------------------------------------------------------------------


@pytest.mark.parametrize("verb", [CREATE, STATS, KILL, DESTROY, PROBE, PING, FREEZE, THAW, CULL])
def test_anything_before_hello_ends_it(fresh, verb):
    fresh.is_ended_by(message(verb, sandbox=int(verb in (STATS, KILL, DESTROY, FREEZE, THAW, CULL))))


def test_hello_of_another_version_is_answered_and_ends_it(fresh):
    fresh.send(message(HELLO, 1, body=struct.pack("<I", VERSION + 1)))
    answer = fresh.receive()
    assert answer.failure and answer.failure[3] == "protocol version"
    assert fresh.receive() is None
    fresh.end()


def bad_messages():
    good = message(PING, 5)
    yield "empty", b"\0"
    yield "short", good[:-1]
    yield "long", good + b"\0"
    yield "very long", good * 300
    yield "second hello", message(HELLO, 5, body=struct.pack("<I", VERSION))
    yield "verb 0", message(0, 5)
    yield "verb of its own", message(EXITED, 5)
    yield "the other verb of its own", message(SEALED, 5)
    yield "unknown verb", message(40, 5)
    yield "zygote without descriptors", message(ZYGOTE, 5, body=create_body(bytes(32)))
    yield "keep of nothing", message(KEEP, 5, body=keep_body(0, 0))
    yield "keep without its descriptors", message(KEEP, 5, sandbox=1, body=keep_body(0, 1))
    yield "byte behind a keep", message(KEEP, 5, sandbox=1, body=keep_body(0, 0) + b"\1")
    yield "list of a sandbox", message(LIST, 5, sandbox=1)
    yield "byte behind a list", message(LIST, 5, body=b"\0" * 8 + b"\1")
    yield "take of nothing", message(TAKE, 5)
    yield "byte behind a take", message(TAKE, 5, sandbox=1, body=b"\1")
    yield "reserved of a create", message(CREATE, 5, body=create_body(bytes(32), reserved=1))
    yield "verb of 16 bits", message(0xFFFF, 5)
    yield "serial 0", message(PING, 0)
    yield "flags", message(PING, 5, flags=REPLY)
    yield "high flags", message(PING, 5, flags=0x8000)
    yield "reserved", message(PING, 5, reserved=1)
    yield "high reserved", message(PING, 5, reserved=1 << 63)
    yield "sandbox where none belongs", message(PING, 5, sandbox=1)
    yield "no sandbox", message(STATS, 5)
    yield "no sandbox to freeze", message(FREEZE, 5)
    yield "no sandbox to thaw", message(THAW, 5)
    yield "no sandbox to cull", message(CULL, 5)
    yield "a byte behind a cull", message(CULL, 5, sandbox=1, body=bytes(228) + b"\1")
    yield "a body behind a freeze", message(FREEZE, 5, sandbox=1, body=b"\1")
    yield "a body behind a thaw", message(THAW, 5, sandbox=1, body=bytes(BODY - 1) + b"\1")
    for at in (0, 1, BODY // 2, BODY - 1):
        yield f"byte {at} behind an empty body", message(PING, 5, body=b"\0" * at + b"\1")
    for at in (CREATE_BODY.size, CREATE_BODY.size + 3, CREATE_BODY.size + 4, BODY - 1):
        yield f"byte {at} behind a create", message(CREATE, 5, body=create_body(bytes(32)).ljust(at, b"\0") + b"\1")


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in bad_messages()])
def test_malformed_messages_end_it(spawner, digest, data):
    made = spawner.create(digest)
    assert made.failure is None
    spawner.is_ended_by(data)


@pytest.mark.parametrize("count", [1, 3, 12, 13, 16, 17])
def test_descriptors_end_it(spawner, count):
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        spawner.is_ended_by(message(PING, 5), [fd] * count)
    finally:
        os.close(fd)


# --- what is refused with a reason --------------------------------------------------------------


@pytest.mark.parametrize("name, value", [
    ("memory_bytes", 0), ("memory_bytes", (4 << 20) - 1), ("memory_bytes", (1 << 30) + 1), ("memory_bytes", 2**64 - 1),
    ("disk_bytes", 0), ("disk_bytes", 65535), ("disk_bytes", (1 << 29) + 1), ("disk_bytes", 2**64 - 1),
    ("inodes", 0), ("inodes", 15), ("inodes", 1_000_001), ("inodes", 2**64 - 1),
    ("cpu_milli", 0), ("cpu_milli", 9), ("cpu_milli", 4001), ("cpu_milli", 2**32 - 1),
    ("pids", 0), ("pids", 1), ("pids", 1001), ("pids", 2**32 - 1),
    ("open_files", 0), ("open_files", 15), ("open_files", 5001), ("open_files", 2**32 - 1),
    ("lifetime_ms", 0), ("lifetime_ms", 3_600_001), ("lifetime_ms", 2**32 - 1),
])
def test_limits_out_of_range_are_refused(digest, name, value):
    """Against the ceilings of the one who started it, not of the client."""
    spawner = Spawner("--max-memory", "1G", "--max-disk", "512M", "--max-inodes", "1000000", "--max-cpus", "4",
                      "--max-pids", "1000", "--max-open-files", "5000", "--max-lifetime", "1h")
    spawner.hello()
    code, _, _, step = spawner.create(digest, **{name: value}).failure
    assert code == INVALID and step.split()[0] == {"cpu_milli": "cpu", "pids": "process", "inodes": "inode",
                                                   "open_files": "open", "memory_bytes": "memory",
                                                   "disk_bytes": "disk", "lifetime_ms": "lifetime"}[name]
    assert spawner.create(digest).failure is None, "and it goes on"
    spawner.end()


def test_unknown_flags_of_create_are_refused(spawner, digest):
    for flags in (4, 8, 1 << 31):
        assert spawner.create(digest, flags=flags).failure[0] == INVALID
    spawner.end()


def test_unknown_images_are_refused(spawner, digest):
    for unknown in (bytes(32), b"\xff" * 32, digest[:-1] + bytes([digest[-1] ^ 1])):
        assert spawner.create(unknown).failure[0] == NOT_FOUND
    assert spawner.create(digest).failure is None
    spawner.end()


@pytest.mark.parametrize("verb", [STATS, KILL, DESTROY, FREEZE, THAW, CULL, EGRESS])
def test_unknown_sandboxes_are_refused(spawner, digest, verb):
    made = spawner.create(digest)
    for sandbox in (made.sandbox + 1, 2**64 - 1):
        assert spawner.ask(verb, sandbox).failure[0] == NOT_FOUND
    assert spawner.ask(STATS, made.sandbox).stats["is_over"] == 0
    spawner.end()


def test_destroy_twice(spawner, digest):
    made = spawner.create(digest)
    assert spawner.ask(DESTROY, made.sandbox).failure is None
    assert spawner.ask(DESTROY, made.sandbox).failure[0] == NOT_FOUND
    assert spawner.create(digest).sandbox != made.sandbox, "ids are not used again"
    spawner.end()


# --- how it ends --------------------------------------------------------------------------------


def busy(spawner, digest, count=3):
    """Sandboxes with a program that would run for long; answers their control sockets."""
    controls = []
    for _ in range(count):
        control = socket.socket(fileno=spawner.create(digest).fds[0])
        control.settimeout(PATIENCE)
        assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
        start_sleeper(control)
        controls.append(control)
    assert len(covetest.sandboxed()) == 2 * count
    return controls


def test_all_is_gone_when_the_client_disappears(spawner, digest):
    controls = busy(spawner, digest)
    spawner.end()
    assert controls, "kept open until now: their end alone must not matter"


def unread_replies():
    """How many answers a client may leave unread, and then still be one."""
    spawner = Spawner(is_patient=False)
    spawner.hello()
    with contextlib.suppress(ConnectionError):
        while True:
            spawner.send(message(PING, 1))
    assert spawner.process.wait(PATIENCE) == 0
    count = 0
    while spawner.receive():
        count += 1
    os.close(spawner.errors)
    return count


def test_all_is_gone_when_the_last_answer_of_a_turn_finds_no_reader(digest):
    """That a sandbox is gone is told after everything else of a turn, so the next one must stop the others."""
    count = unread_replies()
    assert count > 0
    spawner = Spawner(is_patient=False)
    spawner.hello()
    controls = busy(spawner, digest)
    last = spawner.create(digest).sandbox
    for _ in range(count):
        spawner.send(message(PING, 1))
    spawner.send(message(DESTROY, 2, sandbox=last))
    assert spawner.process.wait(PATIENCE) == 0
    assert controls
    spawner.end()
    os.close(spawner.errors)


def test_client_disappears_while_a_sandbox_is_being_made(digest):
    for _ in range(10):
        spawner = Spawner()
        spawner.hello()
        spawner.send(message(CREATE, 2, body=create_body(digest)))
        spawner.end()
        os.close(spawner.errors)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_all_is_gone_after_a_signal(spawner, digest, number):
    controls = busy(spawner, digest)
    spawner.process.send_signal(number)
    assert spawner.process.wait(PATIENCE) == 0
    assert controls and covetest.sandboxed() == [] and covetest.sandbox_groups() == []


def test_all_is_gone_after_a_kill(spawner, digest):
    controls = busy(spawner, digest)
    spawner.process.kill()
    spawner.process.wait()
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-l", "bash", "-c", "")
    assert controls
    nothing_is_left()


def test_a_keyboards_interrupt_is_not_for_it(spawner):
    spawner.process.send_signal(signal.SIGINT)
    assert spawner.ask(PING).failure is None
    spawner.end()


def test_the_lifetime_ends_a_sandbox_without_the_client(spawner, digest):
    made = spawner.create(digest, lifetime_ms=1)
    if made.failure is None:  # it may also be over before it is sealed
        told = spawner.receive()
        assert (told.verb, told.sandbox) == (EXITED, made.sandbox)
        assert told.stats["lifetime_over"] == 1
    longer = spawner.create(digest, lifetime_ms=max(2000, 700 * covetest.SLOWNESS))  # time enough to be sealed
    assert longer.failure is None
    told = spawner.receive()
    assert (told.verb, told.sandbox, told.stats["lifetime_over"]) == (EXITED, longer.sandbox, 1)
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    spawner.end()


def test_an_idle_sandbox_holds_three_descriptors(spawner, digest):
    """The hard limit of open files may be 20,000, and 5,000 sandboxes shall fit."""
    def held():
        return len(os.listdir(f"/proc/{spawner.process.pid}/fd"))

    spawner.ask(DESTROY, sandbox=spawner.create(digest).sandbox)  # what the first one opens stays
    before = held()
    made = [spawner.create(digest) for _ in range(4)]
    assert all(one.failure is None for one in made)
    assert held() - before <= 3 * len(made)
    for one in made:
        spawner.ask(DESTROY, sandbox=one.sandbox)
    assert held() == before
    spawner.end()


def test_it_refuses_to_start_without_a_client():
    done = subprocess.run([str(BUILD / "cove-spawner")], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == covetest.EXIT_INVALID and "started by cove" in done.stderr


# --- nonsense -----------------------------------------------------------------------------------


def random_message(dice, digest, sandbox):
    """Mostly well-formed, so that it gets past the first checks; sometimes pure noise."""
    kind = dice.random()
    if kind < 0.02:
        return dice.randbytes(dice.choice([1, 24, 255, MESSAGE, MESSAGE, 257, 5000]))
    verb = dice.choice([STATS, KILL, DESTROY, PING, CREATE] * 5 + [FREEZE, THAW, CULL, KEEP, LIST, TAKE, BROOD, APART, EGRESS, PROXY, PULSE] * 2 +
                       [PROBE, HELLO, dice.randrange(VERBS + 2)])
    flags = dice.choice([0] * 30 + [dice.getrandbits(16)])
    serial = dice.choice([0] + [dice.getrandbits(32) or 1] * 30)
    names = verb in (STATS, KILL, DESTROY, FREEZE, THAW, CULL, KEEP, TAKE, APART, EGRESS)
    target = dice.choice([sandbox] * 4 + [dice.getrandbits(64), 0]) if names else 0
    body = b""
    if verb == CREATE:
        odd = {name: dice.choice([0, 1, 2**32 - 1, dice.getrandbits(32)]) for name in LIMITS if dice.random() < 0.1}
        body = create_body(dice.choice([digest] * 3 + [dice.randbytes(32)]), dice.choice([0] * 5 + [1, 2]), **odd)
    elif verb == CULL:
        body = cull_body(*(dice.choice([1, 2, 3, -1, dice.getrandbits(31)]) for _ in range(dice.randrange(57))),
                         count=dice.choice([None, None, 57, 2**32 - 1]))
    elif verb == KEEP:
        body = keep_body(dice.choice([0, 1, 2, 3, dice.getrandbits(32)]), dice.choice([0] * 9 + [dice.getrandbits(32)]),
                         dice.randbytes(16), dice.choice([None, dice.randbytes(96)]))
    elif verb in (LIST, BROOD):
        body = struct.pack("<Q", dice.choice([0, sandbox, dice.getrandbits(64)]))
    elif verb == HELLO:
        body = struct.pack("<I", dice.choice([VERSION, dice.getrandbits(32)]))
    data = bytearray(message(verb, serial, flags, target, body=body))
    if dice.random() < 0.03:
        data[dice.randrange(MESSAGE)] ^= 1 << dice.randrange(8)
    return bytes(data)


class Talk:
    """One connection: counts what is still to be answered, and remembers the sandbox made last."""

    def __init__(self, dice):
        self.spawner, self.sandbox, self.waiting, self.is_open, self.made = Spawner(), 1, 0, True, 0
        if dice.random() < 0.95:
            self.spawner.hello()

    def take(self):
        answer = self.spawner.receive()
        if answer is None:
            self.is_open = False
            return
        self.waiting -= bool(answer.flags & REPLY)
        for fd in answer.fds:
            os.close(fd)
            self.sandbox, self.made = answer.sandbox, self.made + 1

    def say(self, data):
        """Sends; what is not answered ends the connection."""
        try:
            self.spawner.send(data)
        except (BrokenPipeError, ConnectionResetError):
            self.is_open = False
        self.waiting += 1

    def settle(self):
        while self.is_open and (self.waiting or select.select([self.spawner.socket], [], [], 0)[0]):
            self.take()

    def end(self):
        self.spawner.socket.close()
        assert self.spawner.process.wait(PATIENCE) == 0, self.spawner.stderr()
        assert self.spawner.stderr() == ""
        os.close(self.spawner.errors)


def test_random_messages_never_crash_it_and_leave_nothing(digest, is_long):
    dice = random.Random(20261)
    left, made, talks = 20_000 if is_long else 2_000, 0, 0
    while left > 0:
        talk = Talk(dice)
        while talk.is_open and left > 0:
            burst = dice.choice([1, 1, 1, 5])
            for _ in range(burst):
                talk.say(random_message(dice, digest, talk.sandbox))
            left -= burst
            talk.settle()
        talk.end()
        made, talks = made + talk.made, talks + 1
    nothing_is_left()
    assert made > 50 and talks > 20, "the dice try both sides"
