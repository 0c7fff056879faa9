# SPDX-License-Identifier: Apache-2.0
"""What the tests of zygotes share: a spawner that has them, and the sessions that they make."""
import array
import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess

import pytest

import covetest
from spawner_protocol_test import CREATE, DESTROY, GUEST, GUEST_READY, SEALED, ZYGOTE, Spawner, create_body, message

PATIENCE = covetest.PATIENCE
HERE = pathlib.Path(__file__).resolve().parent
KERNEL = covetest.ROOT / "images/python/kernel.py"
ENV = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace", "MPLBACKEND": "Agg"}
# As old as it may take a busy machine to make one call of hundreds fail after the other.
LIMITS = {"memory_bytes": 512 << 20, "cpu_milli": 2000, "lifetime_ms": 3_600_000}
# docs/PROTOCOL-kernel.md
FRAME = struct.Struct("<IHHII")
EXECUTE, READY, ERROR, DONE = 2, 64, 66, 68
GUEST_SIGNAL = 5
SPEAK = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b"", ("127.0.0.1", 9))
"""  # so that its network namespace is nobody else's afterwards

pytestmark = [
    pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root"),
    pytest.mark.skipif(not (covetest.BUILD / "cove_zygote.so").exists(), reason="this build has no zygote"),
]


def digest_of(name):
    rows = json.loads(covetest.Cove()("image", "list", "--json").stdout)["images"]
    return bytes.fromhex(next(row["digest"] for row in rows if row["name"] == name).split(":")[-1])


def memory_file(data):
    fd = os.memfd_create("given")
    os.write(fd, data)
    return fd


class Session:
    """The kernel of one sandbox, as its host sees it."""

    def __init__(self, answer):
        self.id, self.generation, self.rest = answer.sandbox, 0, b""
        self.control, self.channel = (socket.socket(fileno=fd) for fd in answer.fds)
        for one in (self.control, self.channel):
            one.settimeout(PATIENCE)

    def frame(self):
        """Type and body, or None at the end."""
        try:
            self.rest = self.rest or self.channel.recv(70_000)
        except ConnectionResetError:
            return None
        if not self.rest:
            return None
        length, kind = FRAME.unpack(self.rest[:FRAME.size])[:2]
        body, self.rest = self.rest[FRAME.size:FRAME.size + length], self.rest[FRAME.size + length:]
        return kind, body

    def begin(self, code, stdin=b""):
        """Sends code; answers the pipe with what it prints."""
        self.generation += 1
        ours, theirs = os.pipe()
        given = memory_file(stdin)
        os.lseek(given, 0, os.SEEK_SET)
        code = code.encode()
        for at in range(0, len(code) or 1, 65_520):
            piece = code[at:at + 65_520]
            flags = 1 if at + 65_520 < len(code) else 0
            head = FRAME.pack(len(piece), EXECUTE, flags, self.generation, 0)
            rights = [given, theirs, theirs] if at == 0 else []
            self.channel.sendmsg([head, piece], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))])
        os.close(given)
        os.close(theirs)
        return open(ours, encoding="utf-8", errors="replace")

    def finish(self):
        """Waits for DONE; answers the error, or None."""
        error = None
        while True:
            frame = self.frame()
            assert frame, "the kernel went away"
            if frame[0] == ERROR:
                error = json.loads(frame[1])
            if frame[0] == DONE:
                return error

    def run(self, code):
        """What the code prints; it must end well."""
        with self.begin(code) as output:
            error = self.finish()
            text = output.read()
        assert error is None, f"{error['name']}: {error['value']}\n{error.get('traceback')}\n{text}"
        return text

    def value(self, code):
        return json.loads(self.run(f"import json\n{code}"))

    def control_message(self, wanted):
        while True:
            data = self.control.recv(4096)
            assert data, "init went away"
            fields = GUEST.unpack(data)
            if fields[0] == wanted:
                return fields

    def close(self):
        self.control.close()
        self.channel.close()


class Host(Spawner):
    """A spawner with zygotes."""

    def __init__(self, *options):
        super().__init__(*options)
        self.hello()
        self.digest = digest_of("python")
        self.errors_of_zygote = os.memfd_create("zygote")

    def begin_zygote(self, preload=(), kernel=None, config=None, digest=None, zygote=0, **limits):
        config = config if config is not None else json.dumps({"env": ENV, "preload": list(preload)}).encode()
        fds = [memory_file(KERNEL.read_bytes() if kernel is None else kernel), memory_file(config),
               os.dup(self.errors_of_zygote)]
        self.serial += 1
        body = create_body(digest or self.digest, zygote=zygote, **(LIMITS | limits))
        self.send(message(ZYGOTE, self.serial, body=body), fds)
        for fd in fds:
            os.close(fd)
        return self.next_reply()

    def next_reply(self):
        answer = self.receive()
        while answer and answer.serial != self.serial:
            answer = self.receive()
        assert answer, "it hung up"
        return answer

    def news(self, verb, sandbox):
        while True:
            news = self.receive()
            assert news, "it hung up"
            if (news.verb, news.sandbox) == (verb, sandbox):
                return news

    def zygote(self, *args, **kwargs):
        answer = self.begin_zygote(*args, **kwargs)
        assert answer.failure is None, answer.failure
        news = self.news(SEALED, answer.sandbox)
        assert news.failure is None, (news.failure, self.zygote_errors())
        return answer.sandbox

    def zygote_errors(self):
        os.lseek(self.errors_of_zygote, 0, os.SEEK_SET)
        return os.read(self.errors_of_zygote, 65536).decode(errors="replace")

    def ask_warm(self, zygote, **limits):
        self.serial += 1
        self.send(message(CREATE, self.serial, body=create_body(self.digest, zygote=zygote, **(LIMITS | limits))))
        return self.next_reply()

    def session(self, zygote, **limits):
        answer = self.ask_warm(zygote, **limits)
        assert answer.failure is None, answer.failure
        session = Session(answer)
        news = self.news(SEALED, answer.sandbox)
        assert news.failure is None, news.failure
        session.layers, session.host_uid, session.uid = news.uids
        assert session.frame()[0] == READY
        session.control_message(GUEST_READY)  # only then init has its name: the exec, and the kernel, came before
        return session

    def destroy(self, session):
        assert self.ask(DESTROY, session.id).failure is None
        session.close()

    def find(self, name, parent=None):
        return [pid for pid in covetest.children_of(parent or self.process.pid) if covetest.name_of(pid) == name]

    def init_of(self, session):
        """The kernel leaves one out of its list whose neighbour ends while it is read."""
        def find():
            return next((pid for pid in self.find("cove-init") if covetest.uids_of(pid) == {session.host_uid}), None)
        return covetest.wait_for(find, "the init of the session")

    def zygote_pids(self):
        """Not the process that seals the next sandbox, and is called so, too."""
        return [pid for pid in self.find("python3") if covetest.status_of(pid).get("NSpid", "").split()[1:] == ["300"]]

    def has_spare(self):
        """The next sandbox, made in advance: it waits until it is wanted. One that has failed, and is about to end, does not."""
        others = set(self.find("python3")) - set(self.zygote_pids())
        return len(others) == 1 and covetest.status_of(others.pop()).get("State", "").split()[:1] == ["S"]


@contextlib.contextmanager
def running_host(*options):
    host = Host(*options)
    yield host
    host.socket.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        host.process.wait(PATIENCE)
    covetest.kill_quietly(host.process.pid)
    host.process.wait()
    os.close(host.errors)
    os.close(host.errors_of_zygote)


@pytest.fixture
def host():
    with running_host() as host:
        yield host


@pytest.fixture
def thrifty_host():
    """One that keeps groups for the next sandbox however long a busy machine takes to ask for it."""
    with running_host("--group-wait", "10m") as host:
        yield host


@pytest.fixture
def hasty_host():
    """One that gives a zygote less time than it does by default; enough for all that go well."""
    with running_host("--seal-limit", "3s") as host:
        yield host
