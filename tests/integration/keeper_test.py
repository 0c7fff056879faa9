# SPDX-License-Identifier: Apache-2.0
"""cove-spawner as a server: it starts its client, outlives it, and keeps what the next one needs.

The client here is a relay that hands its end of the socket to the test and lives until it is told to end."""
import contextlib
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

import covetest
from covetest import BUILD, CGROUP_PARENT, PATIENCE, nothing_is_left, wait_for
from spawner_protocol_test import (CREATE, DESTROY, ENTRY, EXITED, GUEST, GUEST_READY, INVALID, KEEP, LIST,
                                   MESSAGE, NOT_FOUND, PING, PULSE, SEALED, STATS, TAKE, Answer, Spawner, image, keep_body,
                                   message, random_message, start_sleeper)

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

NOBODY = 65534
EXIT_ALONE = 69
LIVE, OVER = 1, 2
LABEL, OTHER_LABEL = b"a session of ours"[:16], bytes(range(16))

RELAY = """
import json, os, socket, sys
status = {line.split(":")[0]: line.split(":")[1].strip() for line in open("/proc/self/status")}
facts = {"pid": os.getpid(), "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
         "caps": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
         "no_new_privs": status["NoNewPrivs"], "blocked": status["SigBlk"], "fds": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
         "mount_ns": os.readlink("/proc/self/ns/mnt"), "arguments": sys.argv[2:], "greeting": os.environ.get("GREETING")}
up = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
up.connect("\\0" + sys.argv[1])
socket.send_fds(up, [json.dumps(facts).encode()], [3])
os._exit(int(up.recv(16) or b"1"))
"""


class Client(Spawner):
    """What the relay passed on: one connection of the server."""

    def __init__(self, link, data, fd):
        self.link, self.facts, self.serial = link, json.loads(data), 0
        self.socket = socket.socket(fileno=fd)
        self.socket.settimeout(PATIENCE)

    def close(self):
        self.socket.close()
        self.link.close()

    def die(self):
        """Its process is killed; the socket ends a little later, as one that another process holds would."""
        covetest.kill_quietly(self.facts["pid"])
        self.close()

    def leave(self, status):
        self.link.send(str(status).encode())
        self.close()

    def is_hung_up_on(self):
        while self.receive() is not None:
            pass
        return True

    def keep(self, sandbox, slot, *fds, label=LABEL, note=None):
        self.serial += 1
        self.send(message(KEEP, self.serial, sandbox=sandbox, body=keep_body(slot, len(fds), label, note)), fds)
        answer = self.receive()
        while answer and answer.verb in (EXITED, SEALED):
            answer = self.receive()
        assert answer and (answer.serial, answer.verb) == (self.serial, KEEP)
        return answer

    def list(self):
        found, after = [], 0
        while True:
            answer = self.ask(LIST, body=struct.pack("<Q", after))
            if answer.sandbox == 0:
                return found
            assert answer.sandbox > after
            after = answer.sandbox
            found.append((answer.sandbox, Entry(answer)))

    def take(self, sandbox):
        answer = self.ask(TAKE, sandbox)
        return answer if answer.failure else Entry(answer)

    def receive(self):
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MESSAGE + 1, 16)
        except ConnectionResetError:
            return None
        return Answer(data, fds) if data else None


class Entry:
    def __init__(self, answer):
        fields = ENTRY.unpack(answer.body[:ENTRY.size])
        self.state, self.counts, self.label = fields[0], list(fields[1:4]), fields[4]
        self.note = fields[5].rstrip(b"\0")
        self.layers, self.host_uid, self.inside_uid = fields[6:9]
        self.left_ms = fields[13]
        self.is_over, self.lifetime_over = fields[-2:]
        self.fds = answer.fds

    def close(self):
        for fd in self.fds:
            os.close(fd)


class Server:
    names = 0

    def __init__(self, *options, grace="60s"):
        Server.names += 1
        name = f"cove-keeper-{os.getpid()}-{Server.names}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen()
        self.listener.settimeout(PATIENCE)
        self.errors = os.memfd_create("stderr")
        self.process = subprocess.Popen(
            [str(BUILD / "cove-spawner"), "--cgroup-parent", CGROUP_PARENT, "--store", "/var/lib/cove/images",
             "--uid", str(NOBODY), "--gid", str(NOBODY), "--grace", grace, "--serve", "/usr/bin/python3", *options,
             "--", "-I", "-c", RELAY, name, "--serve"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            env={"ASAN_OPTIONS": "detect_leaks=1:exitcode=99", "GREETING": "hello"})

    def client(self):
        link, _ = self.listener.accept()
        link.settimeout(PATIENCE)
        data, fds, _, _ = socket.recv_fds(link, 65536, 1)
        return Client(link, data, fds[0])

    def stderr(self):
        os.lseek(self.errors, 0, os.SEEK_SET)
        return os.read(self.errors, 65536).decode(errors="replace")

    def ends(self, status=0):
        assert self.process.wait(PATIENCE) == status, self.stderr()
        nothing_is_left()

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def has_fds(self, count):
        wait_for(lambda: self.fd_count() == count, f"{count} descriptors, not {self.fd_count()}")

    def release(self):
        self.listener.close()
        covetest.kill_quietly(self.process.pid)
        self.process.wait()
        os.close(self.errors)


@pytest.fixture(scope="module")
def digest():
    return image()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.release()


@pytest.fixture
def client(server):
    client = server.client()
    client.hello()
    return client


# --- the client's process -----------------------------------------------------------------------


def test_the_client_has_nothing_of_the_spawners_power(server):
    facts = server.client().facts
    assert facts["uid"] == facts["gid"] == [NOBODY] * 3 and facts["groups"] == []
    assert {int(word, 16) for word in facts["caps"]} == {0} and facts["no_new_privs"] == "1"
    assert facts["fds"] == [0, 1, 2, 3] and int(facts["blocked"], 16) == 0
    assert facts["mount_ns"] == os.readlink("/proc/self/ns/mnt"), "it sees the mounts that are made later"
    assert facts["arguments"] == ["--serve"] and facts["greeting"] == "hello"


@pytest.mark.parametrize("options", [["--serve", "python3", "--uid", "1", "--gid", "1"], ["--serve", "/bin/true"],
                                     ["--serve", "/bin/true", "--uid", "1"], ["--serve", "/bin/true", "--gid", "1"]])
def test_a_client_that_would_be_root_is_not_started(options):
    done = subprocess.run([str(BUILD / "cove-spawner"), *options], capture_output=True, text=True)
    assert done.returncode == covetest.EXIT_INVALID and "--serve" in done.stderr


def test_a_goodbye_ends_everything(server, client, digest):
    client.create(digest)
    client.leave(0)
    server.ends()


def test_a_signal_goes_to_the_client_first(server, client, digest):
    client.create(digest)
    server.process.terminate()
    server.ends()
    assert not covetest.is_alive(client.facts["pid"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_client_that_dies_as_it_was_asked_to_has_no_successor(server, client, digest, number):
    client.keep(client.create(digest).sandbox, 0)
    os.kill(client.facts["pid"], number)
    server.ends()


def test_a_second_signal_does_not_wait_for_it(server, client, digest):
    client.create(digest)
    os.kill(client.facts["pid"], signal.SIGSTOP)
    wait_for(lambda: covetest.status_of(client.facts["pid"])["State"].split()[0] == "T", "it to stop: SIGTERM would overtake")
    server.process.terminate()
    wait_for(lambda: int(covetest.status_of(client.facts["pid"])["ShdPnd"], 16) & 1 << signal.SIGTERM - 1, "the first to arrive")
    assert client.ask(PING).failure is None, "it is still being served"
    server.process.terminate()
    server.ends()
    assert not covetest.is_alive(client.facts["pid"])


def test_all_is_gone_after_a_kill(server, client, digest):
    client.create(digest)
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not covetest.is_alive(client.facts["pid"]), "the end of the client")
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-l", "bash", "-c", "")
    nothing_is_left()


# --- outliving it -------------------------------------------------------------------------------


def test_a_sandbox_outlives_its_client(server, client, digest):
    made = client.create(digest)
    alive = covetest.sandboxed()
    client.keep(made.sandbox, 0)
    client.die()
    second = server.client()
    assert second.facts["pid"] != client.facts["pid"]
    second.hello()
    (number, entry), = second.list()
    assert number == made.sandbox and covetest.sandboxed() == alive
    assert (entry.state, entry.label, entry.counts) == (LIVE, LABEL, [0, 0, 0])
    assert (entry.layers, entry.host_uid, entry.inside_uid) == made.uids and 0 < entry.left_ms <= 120_000
    taken = second.take(made.sandbox)
    os.close(made.fds[0])
    with socket.socket(fileno=os.dup(taken.fds[0])) as control:
        control.settimeout(PATIENCE)
        assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
        start_sleeper(control)
    assert second.ask(STATS, made.sandbox).stats["pids_now"] == 2
    assert second.ask(DESTROY, made.sandbox).failure is None and second.list() == []
    taken.close()
    second.leave(0)
    server.ends()


def test_a_note_is_for_the_next_client_until_another_takes_its_place(server, client, digest):
    made = client.create(digest)
    client.keep(made.sandbox, 0, note=b"first")
    client.keep(made.sandbox, 0)
    client.die()
    second = server.client()
    second.hello()
    assert [entry.note for _, entry in second.list()] == [b"first"]
    second.keep(made.sandbox, 0, note=b"second")
    assert [entry.note for _, entry in second.list()] == [b"second"]
    os.close(made.fds[0])
    second.leave(0)
    server.ends()


def test_each_client_says_hello_first(server, client, digest):
    made = client.create(digest)
    client.die()
    second = server.client()
    second.send(message(PING))
    assert second.is_hung_up_on()
    third = server.client()
    third.hello()
    assert [number for number, _ in third.list()] == [made.sandbox]
    third.leave(0)
    server.ends()


@pytest.mark.parametrize("data", [b"\1", message(40, 5), message(PING, 5) + b"\0", message(KEEP, 5, sandbox=1, body=b"\0\0\0\0\1")],
                         ids=["short", "unknown", "long", "keep without descriptors"])
def test_nonsense_costs_the_client_its_life_and_nobody_else(server, client, digest, data):
    made = client.create(digest)
    client.send(data)
    assert client.is_hung_up_on()
    wait_for(lambda: not covetest.is_alive(client.facts["pid"]), "the end of the client")
    second = server.client()
    second.hello()
    assert [number for number, _ in second.list()] == [made.sandbox]
    second.leave(0)
    server.ends()


def test_one_that_does_not_read_any_more_is_replaced(server, client, digest):
    made = client.create(digest)
    client.socket.settimeout(2)  # until the spawner waits for us, too
    with pytest.raises((TimeoutError, BrokenPipeError)):
        for serial in range(1, 1_000_000):
            client.send(message(PING, serial))
    second = server.client()
    second.hello()
    assert [number for number, _ in second.list()] == [made.sandbox]
    second.leave(0)
    server.ends()


def test_answers_for_one_client_are_not_given_to_the_next(server, client, digest):
    made = client.create(digest)
    client.send(message(DESTROY, 77, sandbox=made.sandbox))
    client.die()
    second = server.client()
    second.hello()
    nothing_is_left()
    assert second.ask(PING).failure is None and second.list() == []
    second.leave(0)
    server.ends()


def test_the_last_words_of_a_client_count(server, client, digest):
    """What it had sent is done, though its answers, and the news of its death, are there first."""
    made = client.create(digest)
    reader, writer = os.pipe()
    server.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: "T" in covetest.status_of(server.process.pid)["State"], "a spawner that stands still")
    for serial in range(10, 15):
        client.send(message(STATS, serial, sandbox=made.sandbox))
    client.send(message(KEEP, 20, sandbox=made.sandbox, body=keep_body(1, 1, LABEL)), [reader])
    client.die()
    os.close(reader)
    wait_for(lambda: not covetest.is_alive(client.facts["pid"]), "the end of the client")
    server.process.send_signal(signal.SIGCONT)
    second = server.client()
    second.hello()
    (_, entry), = second.list()
    assert (entry.label, entry.counts) == (LABEL, [0, 1, 0]) and os.write(writer, b"x") == 1
    second.leave(0)
    server.ends()


def test_an_end_meanwhile_is_told_to_the_next(server, client, digest):
    made = client.create(digest)
    client.die()
    second = server.client()  # has not said hello: to the spawner, nobody is there
    os.kill(covetest.sandboxed()[0], signal.SIGKILL)
    wait_for(lambda: not covetest.sandboxed(), "the end of the sandbox")
    second.hello()
    (number, entry), = second.list()
    assert (number, entry.state, entry.is_over, entry.lifetime_over) == (made.sandbox, OVER, 1, 0)
    assert second.ask(STATS, made.sandbox).stats["is_over"]
    assert second.take(made.sandbox).is_over
    second.leave(0)
    server.ends()


def test_a_lifetime_ends_without_a_client_too(server, client, digest):
    made = client.create(digest, lifetime_ms=1500)
    assert made.failure is None
    client.die()
    second = server.client()
    wait_for(lambda: not covetest.sandboxed(), "the end of the sandbox")
    second.hello()
    (number, entry), = second.list()
    assert (number, entry.state, entry.lifetime_over, entry.left_ms) == (made.sandbox, OVER, 1, 0)
    second.leave(0)
    server.ends()


def test_without_a_hello_within_the_grace_time_all_ends(digest):
    server = Server(grace="5s")
    client = server.client()
    client.hello()
    client.create(digest)
    client.die()
    silent = server.client()
    server.ends(EXIT_ALONE)
    assert "grace" in server.stderr() and silent.is_hung_up_on()
    server.release()


def test_a_client_that_cannot_start_is_tried_a_few_times(digest):
    done = subprocess.run([str(BUILD / "cove-spawner"), "--cgroup-parent", CGROUP_PARENT, "--uid", str(NOBODY), "--gid", str(NOBODY),
                           "--grace", "1s", "--serve", "/nonexistent"], capture_output=True, text=True)
    assert done.returncode == EXIT_ALONE and 3 <= done.stderr.count("could not be started") <= 6, done.stderr


# --- what is kept -------------------------------------------------------------------------------


def test_what_is_kept_comes_back_slot_by_slot(server, client, digest):
    made = client.create(digest)
    reader, writer = os.pipe()
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memory = os.memfd_create("output")
    os.write(memory, b"spliced")
    os.write(writer, b"in the pipe")
    assert client.keep(made.sandbox, 2, reader, memory, label=OTHER_LABEL).failure is None
    assert client.keep(made.sandbox, 0, left.fileno()).failure is None
    os.close(reader), os.close(memory), left.close()
    client.die()
    second = server.client()
    second.hello()
    (_, entry), = second.list()
    assert (entry.label, entry.counts, entry.fds) == (LABEL, [1, 0, 2], [])
    for _ in range(2):  # it can be taken any number of times
        taken = second.take(made.sandbox)
        assert taken.counts == [1, 0, 2] and len(taken.fds) == 4
        right.send(b"over the channel")
        with socket.socket(fileno=os.dup(taken.fds[1])) as channel:
            assert channel.recv(100) == b"over the channel"
        assert os.pread(taken.fds[3], 100, 0) == b"spliced"
        taken.close()
    taken = second.take(made.sandbox)
    assert os.read(taken.fds[2], 100) == b"in the pipe", "the spawner has not read it"
    taken.close()
    second.leave(0)
    server.ends()


def settled_fds(server, client):
    """After its first sandbox the spawner looks for what others have left; two answers later that is over."""
    client.ask(PING), client.ask(PING)
    return server.fd_count()


def test_what_is_replaced_or_cleared_is_closed(server, client, digest):
    made, before = client.create(digest), settled_fds(server, client)
    pipes = [os.pipe() for _ in range(3)]
    for reader, _ in pipes:
        assert client.keep(made.sandbox, 1, reader).failure is None
        os.close(reader)
    server.has_fds(before + 1)
    with pytest.raises(BrokenPipeError):
        os.write(pipes[0][1], b"x")
    assert os.write(pipes[2][1], b"x") == 1
    assert client.keep(made.sandbox, 1).failure is None
    with pytest.raises(BrokenPipeError):
        os.write(pipes[2][1], b"x")
    server.has_fds(before)
    reader, writer = os.pipe()
    client.keep(made.sandbox, 0, reader)
    os.close(reader)
    client.ask(DESTROY, made.sandbox)
    with pytest.raises(BrokenPipeError):  # those of a sandbox go with it
        os.write(writer, b"x")
    client.leave(0)
    server.ends()


def odd_descriptors():
    yield "a file", lambda: os.open("/etc/passwd", os.O_RDONLY)
    yield "a folder", lambda: os.open("/", os.O_RDONLY)
    yield "a device", lambda: os.open("/dev/null", os.O_RDWR)
    yield "a socket that may linger", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()
    yield "an event", lambda: os.eventfd(0)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in odd_descriptors()])
def test_descriptors_that_could_stop_the_spawner_are_refused(server, client, digest, make):
    made, fd, reader = client.create(digest), make(), os.pipe()[0]
    before = settled_fds(server, client)
    assert client.keep(made.sandbox, 0, reader, fd).failure[0] == INVALID
    assert client.list()[0][1].counts == [0, 0, 0]
    server.has_fds(before)
    os.close(fd)
    client.leave(0)
    server.ends()


# --- what waits when it is closed ---------------------------------------------------------------


@contextlib.contextmanager
def lingering():
    """A descriptor whose close waits for ages, to be given away before ours is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(65536))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000))
    yield sender.detach()
    peer.close()  # which ends every wait


def in_a_queue(fd):
    """A socket that has this one in its queue, and that nobody can send to any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(theirs, [b"x"], [fd])
    theirs.close()
    return ours.detach()


@pytest.mark.parametrize("depth", [1, 3])
def test_what_lies_in_a_kept_socket_stops_nobody(server, client, digest, depth):
    made = client.create(digest)
    for _ in range(3):
        with lingering() as fd:
            for _ in range(depth):
                inner, fd = fd, in_a_queue(fd)
                os.close(inner)
            assert client.keep(made.sandbox, 0, fd).failure is None
            os.close(fd)
            assert client.ask(PING).failure is None
            assert client.keep(made.sandbox, 0).failure is None, "it is closed"
            assert client.ask(PING).failure is None
    client.leave(0)
    server.ends()


def send_and_close(server, client, data, fd, copies=1):
    """The spawner is the last who has it, also when it reads sooner than we can close."""
    os.kill(server.process.pid, signal.SIGSTOP)
    client.send(data, [fd] * copies)
    os.close(fd)
    os.kill(server.process.pid, signal.SIGCONT)


def test_what_comes_with_a_message_stops_nobody(server, client, digest):
    made = client.create(digest)
    with lingering() as refused, lingering() as unwanted:
        send_and_close(server, client, message(KEEP, 76, sandbox=made.sandbox, body=keep_body(0, 1, LABEL, None)), refused)
        answer = client.receive()
        assert (answer.serial, answer.failure[0]) == (76, INVALID)
        assert client.ask(PING).failure is None
        send_and_close(server, client, message(PING, 77), unwanted, copies=200)  # which has none to bring
        assert client.is_hung_up_on()
        client.close()
        second = server.client()
        second.hello()
        assert [number for number, _ in second.list()] == [made.sandbox]
        second.leave(0)
        server.ends()


# --- who stands still ---------------------------------------------------------------------------

WATCH = "1s"


@pytest.fixture
def watched():
    server = Server("--watch", WATCH)
    yield server
    server.release()


def client_of(server):
    client = server.client()
    client.hello()
    return client


def test_a_client_that_stands_still_is_replaced(watched, digest):
    client = client_of(watched)
    made = client.create(digest)
    assert client.keep(made.sandbox, 0).failure is None
    assert client.ask(PULSE).failure is None  # and not once more
    second = watched.client()
    second.hello()
    assert [number for number, _ in second.list()] == [made.sandbox], "its sandboxes stay"
    assert "the client has not turned its loop for" in watched.stderr()
    second.leave(0)
    watched.ends()
    client.close()


def test_a_client_that_turns_is_not(watched):
    client = client_of(watched)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert client.ask(PULSE).failure is None
    assert "loop" not in watched.stderr()
    client.leave(0)
    watched.ends()


def test_a_spawner_that_stands_still_is_told_of(watched, digest):
    client = client_of(watched)
    made = client.create(digest)
    os.kill(watched.process.pid, signal.SIGSTOP)
    wait_for(lambda: "its loop has not turned for" in watched.stderr(), "the line that tells of it")
    os.kill(watched.process.pid, signal.SIGCONT)
    assert client.ask(STATS, made.sandbox).failure is None, "it goes on"
    client.leave(0)
    watched.ends()


def test_a_spawner_that_goes_on_standing_is_killed(watched, digest):
    client = client_of(watched)
    made = client.create(digest)
    with socket.socket(fileno=os.dup(made.fds[0])) as control:
        control.settimeout(PATIENCE)
        assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
        start_sleeper(control)
    os.kill(watched.process.pid, signal.SIGSTOP)
    assert watched.process.wait(PATIENCE) == -signal.SIGKILL
    assert "killing it, and with it all sandboxes" in watched.stderr()
    assert client.is_hung_up_on()
    client.close()
    wait_for(lambda: not covetest.is_alive(client.facts["pid"]), "its client is gone, too")


@pytest.mark.parametrize("slot, count", [(3, 0), (2**32 - 1, 1), (0, 5), (1, 12)])
def test_slots_and_counts_out_of_range_are_refused(server, client, digest, slot, count):
    made, reader = client.create(digest), os.pipe()[0]
    assert client.keep(made.sandbox, slot, *[reader] * count).failure[0] == INVALID
    assert client.take(made.sandbox).counts == [0, 0, 0]
    client.leave(0)
    server.ends()


def test_a_spawner_without_room_refuses_and_goes_on(server, client, digest):
    made, readers = client.create(digest), [os.pipe()[0] for _ in range(4)]
    settled_fds(server, client)
    used = {int(name) for name in os.listdir(f"/proc/{server.process.pid}/fd")}
    free = min(set(range(max(used) + 2)) - used)
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (free + 2, limits[1]))
    assert client.keep(made.sandbox, 1, *readers).failure[3] == "receive fds"
    assert client.ask(PING).failure is None
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
    assert client.keep(made.sandbox, 1, *readers).failure is None
    client.leave(0)
    server.ends()


def test_only_what_is_there_can_be_kept_and_taken(server, client):
    assert client.keep(12345, 0).failure[0] == NOT_FOUND
    assert client.take(12345).failure[0] == NOT_FOUND
    assert client.list() == []
    client.leave(0)
    server.ends()


# --- nonsense -----------------------------------------------------------------------------------


def talk_nonsense(client, dice, digest):
    """Until it is hung up on, or has said enough; answers how many sandboxes that made."""
    known, made = [number for number, _ in client.list()] or [1], 0
    for _ in range(60):
        try:
            client.send(random_message(dice, digest, dice.choice(known)))
        except (BrokenPipeError, ConnectionResetError):
            break
        answer = client.receive()
        while answer and answer.flags == 0:
            answer = client.receive()
        if answer is None:
            break
        made += answer.verb == CREATE and len(answer.fds)
        for fd in answer.fds:
            os.close(fd)
    return made


def test_random_messages_of_many_clients(digest, is_long):
    """Each client says hello and then mostly sense; whatever it says, the next one is served."""
    dice, made = random.Random(160), 0
    for _ in range(7 if is_long else 1):
        servers = [Server() for _ in range(8)]  # their clients end so soon that the pauses between them grow
        for server in servers * 8:
            client = server.client()
            client.hello()
            made += talk_nonsense(client, dice, digest)
            client.die()
        for server in servers:
            last = server.client()
            last.hello()
            for number, _ in last.list():
                assert last.ask(DESTROY, number).failure is None
            last.leave(0)
        for server in servers:
            server.ends()
            server.release()
    assert made > 2, "the dice try both sides"
