# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of one brood: one memory, several seals. What the spawner and the zygote do for forks."""
import errno
import fcntl
import os
import socket
import struct

import pytest

import covetest
from spawner_protocol_test import APART, BROOD, DESTROY, NOT_FOUND, SEALED, message
from zygotes import FRAME, READY, Session, host, memory_file, pytestmark  # noqa: F401

ISOLATION = 8


def begin_brood(host, zygote):
    host.serial += 1
    host.send(message(BROOD, host.serial, body=struct.pack("<Q", zygote)))
    return host.next_reply()


def brood(host, zygote, count):
    """The sessions of a brood, when it is gone; only the first has a kernel."""
    answer = begin_brood(host, zygote)
    assert answer.failure is None, answer.failure
    assert host.news(SEALED, answer.sandbox).failure is None
    made = []
    for _ in range(count):
        one = host.ask_warm(answer.sandbox)
        assert one.failure is None, one.failure
        session = Session(one)
        news = host.news(SEALED, one.sandbox)
        assert news.failure is None, news.failure
        session.layers, session.host_uid, session.uid = news.uids
        made.append(session)
    assert host.ask(DESTROY, answer.sandbox).failure is None
    assert made[0].frame()[0] == READY
    return made


def test_the_first_runs_code_and_the_others_wait(host):
    zygote = host.zygote()
    first, *heirs = brood(host, zygote, 3)
    assert first.run("x = 20\nprint(x + 1)") == "21\n"
    assert len({session.host_uid for session in [first, *heirs]}) == 3
    assert len({session.layers for session in [first, *heirs, host.session(zygote)]}) == 1
    for session in [first, *heirs]:
        host.destroy(session)
    host.end()


FORK, REPLY, BEAR = 10, 67, b"B"
COPIER = covetest.BUILD / "cove_checkpoint.so"


def sealed_file(data):
    fd = os.memfd_create("copier", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def fork(parent, heir, program=None, open_program=sealed_file):
    """Has the heir fork the parent's kernel; the heir's session is the fork then."""
    gate, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    copier = open_program(program or COPIER.read_bytes())
    parent.generation += 1
    socket.send_fds(parent.channel, [FRAME.pack(0, FORK, 0, parent.generation, 0)], [theirs.fileno(), copier])
    theirs.close()
    os.close(copier)
    gate.settimeout(covetest.PATIENCE)
    assert gate.recv(1) == b"s", parent.frame()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(heir.channel, [BEAR], [theirs.fileno()])
    theirs.close()
    pid, spare = struct.unpack("<ii", heir.channel.recv(64))
    assert (pid, spare) == (3, 0)
    gate.send(b"o")
    gate.close()
    assert parent.frame()[0] == REPLY and parent.finish() is None
    ours.settimeout(covetest.PATIENCE)
    heir.channel.close()
    heir.channel = ours
    assert heir.frame()[0] == READY
    return heir


def test_an_heir_becomes_a_fork(host):
    parent, heir, other = brood(host, host.zygote(), 3)
    parent.run("x = [1, 2]; import os; opened = open('/dev/null')")
    child = fork(parent, heir)
    assert child.run("x.append(3); print(x, os.getpid(), os.getppid(), opened.fileno() > 2, opened.read())") == \
        "[1, 2, 3] 3 1 True \n"
    assert parent.run("print(x, os.getpid())") == "[1, 2] 2\n"
    parent.run("x = 'later'")
    second = fork(parent, other)
    assert second.run("print(x)") == "later\n" and child.run("print(x)") == "[1, 2, 3]\n"
    host.destroy(parent)
    assert child.run("print(x)") == "[1, 2, 3]\n"
    host.destroy(child)
    host.end()


def apart(host, session):
    return host.ask(APART, session.id).failure


def test_a_fork_is_seen_to_be_apart_and_an_heir_not_to_be(host):
    parent, heir, other = brood(host, host.zygote(), 3)
    code, _, layer, step = apart(host, heir)
    assert (code, layer, step) == (ISOLATION, -1, "the fork has no memory of its own")
    assert parent.run("print(1)") == "1\n", "it goes on: nothing stays frozen"
    child = fork(parent, heir)
    assert apart(host, child) is None
    assert apart(host, other) is not None, "it still shares that of the parent"
    assert parent.run("print(2)") == "2\n" and child.run("print(3)") == "3\n"
    host.end()


FOOLED = COPIER.read_bytes().replace(b"/proc/self/maps", b"/workspace/maps") if COPIER.exists() else b""
BEFORE = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.shmat.restype = ctypes.c_void_p
def call(name, *args):
    done = getattr(libc, name)(*args)
    assert done not in (-1, ctypes.c_void_p(-1).value), (name, os.strerror(ctypes.get_errno()))
    return done
def place(fd, flags, rights=3):
    return call("mmap", None, ctypes.c_size_t(4096), rights, flags, fd, ctypes.c_size_t(0))
def own_file(open_flags=os.O_RDWR):
    fd = os.open("/workspace/file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 4096)
    os.close(fd)
    return os.open("/workspace/file", open_flags)
SHARED, PRIVATE, NOBODYS = mmap.MAP_SHARED, mmap.MAP_PRIVATE, -1
"""
SHARED = {
    "memory": "place(NOBODYS, SHARED | mmap.MAP_ANONYMOUS)",
    "memory that is only read just now": "call('mprotect', ctypes.c_void_p(place(NOBODYS, SHARED | mmap.MAP_ANONYMOUS)), 4096, 1)",
    "memory without any right just now": "call('mprotect', ctypes.c_void_p(place(NOBODYS, SHARED | mmap.MAP_ANONYMOUS)), 4096, 0)",
    "a file of the workspace": "place(own_file(), SHARED)",
    "a file of the workspace, to read": "place(own_file(os.O_RDONLY), SHARED, 1)",
    "a copy of a file of the workspace": "place(own_file(), PRIVATE)",
    "a copy of one that has no name any more": "fd = own_file(); place(fd, PRIVATE); os.close(fd); os.remove('/workspace/file')",
    "a copy of a file in memory": "fd = os.memfd_create('cove'); os.ftruncate(fd, 4096); place(fd, PRIVATE); os.close(fd)",
    "a segment of System V": "call('shmat', call('shmget', 0, 4096, 0o1600), None, 0)",
}
OWN = {
    "a file of the image": "place(os.open(sys.executable, os.O_RDONLY), SHARED, 1)",
    "a copy of zeros": "place(os.open('/dev/zero', os.O_RDWR), PRIVATE)",
    "a sealed file in memory": "import fcntl; fd = os.memfd_create('x', os.MFD_ALLOW_SEALING); os.ftruncate(fd, 4096); "
                               "fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE); place(fd, PRIVATE); os.close(fd)",
    "what was changed": "x = bytearray(1 << 20); import json, decimal",
}


@pytest.mark.parametrize("what", [*SHARED, *OWN])
def test_nothing_of_a_fork_can_be_written_by_the_other(host, what):
    """Code that has the interpreter's own look see another list of maps."""
    parent, heir, other = brood(host, host.zygote(), 3)
    parent.run("import pathlib; pathlib.Path('/workspace/maps').write_text('1000-2000 r--p 00000000 00:00 0\\n')")
    assert parent.run(BEFORE + (SHARED | OWN)[what] + "\nprint('made')") == "made\n"
    child = fork(parent, heir, FOOLED)
    refusal = apart(host, child)
    assert (refusal is None) == (what in OWN), refusal
    if refusal:
        assert (refusal[0], refusal[3]) == (ISOLATION, "the fork has no memory of its own")
    assert parent.run("print(1)") == "1\n" and child.run("print(2)") == "2\n", "nobody stays frozen"
    host.end()


def test_a_program_in_memory_that_is_not_sealed_is_shared(host):
    parent, heir = brood(host, host.zygote(), 2)
    child = fork(parent, heir, open_program=memory_file)
    assert apart(host, child)[3] == "the fork has no memory of its own"
    host.end()


def test_a_process_whose_first_thread_has_ended_is_looked_at(host):
    """The kernel says of that thread that it has no memory; the others have it still."""
    parent, heir = brood(host, host.zygote(), 2)
    child = fork(parent, heir)
    child.run(BEFORE + """
import threading, time
pid = os.fork()
if pid == 0:
    os.closerange(1, 300)  # or the output would have no end
    place(NOBODYS, SHARED | mmap.MAP_ANONYMOUS)
    threading.Thread(target=time.sleep, args=(1000,)).start()
    libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
while open(f"/proc/{pid}/stat").read().split(") ")[1][0] != "Z": pass
""")
    assert apart(host, child)[3] == "the fork has no memory of its own"
    host.end()


@pytest.mark.parametrize("name", ["mem", "environ", "maps", "pagemap"])
def test_a_fork_has_no_descriptor_that_shows_another_memory(host, name):
    """An heir that code has taken over could open its own before it forks, and it would go on showing the parent's."""
    parent, heir, other = brood(host, host.zygote(), 3)
    parent.run("file = open('/workspace/file', 'w')")
    child = fork(parent, heir)
    assert apart(host, child) is None, "a file of the workspace is none"
    child.run(f"shown = open('/proc/self/{name}', 'rb')")
    assert apart(host, child)[3] == "the fork has no memory of its own"
    host.end()


def test_nor_one_in_the_queue_of_a_socket(host):
    parent, heir = brood(host, host.zygote(), 2)
    child = fork(parent, heir)
    child.run("import socket; a, b = socket.socketpair(); a.send(b'text'); c, d = socket.socketpair()")
    assert apart(host, child) is None, "text is none"
    child.run("with open('/proc/self/mem', 'rb') as f: socket.send_fds(c, [b'x'], [f.fileno()])\nc.close()")
    assert apart(host, child)[3] == "the fork has no memory of its own"
    host.end()


def test_nor_one_in_a_connection_that_nobody_has_accepted(host):
    parent, heir = brood(host, host.zygote(), 2)
    child = fork(parent, heir)
    child.run("import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0s'); s.listen()\n"
              "c = socket.socket(socket.AF_UNIX); c.connect('\\0s')")
    assert apart(host, child) is None, "a connection is none"
    child.run("with open('/proc/self/mem', 'rb') as f: socket.send_fds(c, [b'x'], [f.fileno()])\nc.close()")
    assert apart(host, child)[3] == "the fork has no memory of its own"
    host.end()


def test_a_zygote_with_a_spare_makes_a_brood(host):
    """It sleeps until that is wanted or gone."""
    zygote = host.zygote()
    host.session(zygote)
    covetest.wait_for(host.has_spare, "a spare")
    parent, heir = brood(host, zygote, 2)
    assert parent.run("print(1)") == "1\n"
    assert host.session(zygote).run("print(2)") == "2\n"
    host.end()


def test_looks_are_counted(host):
    """Each is a process of the spawner's."""
    parent, heir = brood(host, host.zygote(), 2)
    for _ in range(40):
        host.serial += 1
        host.send(message(APART, host.serial, sandbox=heir.id))
    steps = [host.receive().failure[3] for _ in range(40)]
    assert set(steps) == {"the fork has no memory of its own", "too many looks at a time"}
    assert parent.run("print(1)") == "1\n"
    host.end()


def test_an_heir_forks_nobody_who_does_not_stand(host):
    parent, heir = brood(host, host.zygote(), 2)
    parent.run("x = 1")
    _, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for order, fds in ((BEAR, [theirs.fileno()]), (BEAR, []), (b"?", [])):
        socket.send_fds(heir.channel, [order], fds)
        assert struct.unpack("<ii", heir.channel.recv(64)) == (-errno.EAGAIN, 0)
    assert fork(parent, heir).run("print(x)") == "1\n"
    host.end()


def test_no_code_runs_before_the_brood_is_gone(host):
    zygote = host.zygote()
    answer = begin_brood(host, zygote)
    host.news(SEALED, answer.sandbox)
    first = Session(host.ask_warm(answer.sandbox))
    host.news(SEALED, first.id)
    first.channel.settimeout(.3)
    with pytest.raises(TimeoutError):
        first.channel.recv(1)
    privileged = [pid for pid in host.find("python3") if pid not in host.zygote_pids()]
    assert privileged, "the brood"
    assert host.ask(DESTROY, answer.sandbox).failure is None
    first.channel.settimeout(covetest.PATIENCE)
    assert first.frame()[0] == READY
    assert not any(os.path.exists(f"/proc/{pid}") for pid in privileged)
    host.end()


def test_a_brood_may_end_before_it_made_anything(host):
    zygote = host.zygote()
    for _ in range(5):
        answer = begin_brood(host, zygote)
        assert host.ask(DESTROY, answer.sandbox).failure is None
    assert host.session(zygote).run("print(1)") == "1\n"
    host.end()


def test_sandboxes_outlive_their_brood_and_its_zygote(host):
    zygote = host.zygote()
    parent, heir = brood(host, zygote, 2)
    assert host.ask(DESTROY, zygote).failure is None
    parent.run("x = 1")
    assert fork(parent, heir).run("print(x)") == "1\n"
    host.end()


def test_broods_that_do_not_fit_are_refused(host):
    zygote = host.zygote()
    assert begin_brood(host, 999).failure[0] == NOT_FOUND
    inner = begin_brood(host, zygote)
    host.news(SEALED, inner.sandbox)
    assert begin_brood(host, inner.sandbox).failure[3] == "the zygote is not ready"
    plain = host.session(zygote)
    assert apart(host, plain)[3] == "the sandbox has no kin, or is over"
    assert host.ask(APART, 999).failure[0] == NOT_FOUND
    host.end()


@pytest.mark.parametrize("data", [
    message(BROOD, 7, body=struct.pack("<QB", 1, 1)),
    message(BROOD, 7, sandbox=1, body=struct.pack("<Q", 1)),
    message(APART, 7),
    message(APART, 7, sandbox=1, body=b"\1"),
], ids=["more behind the zygote", "a sandbox is named", "no sandbox is named", "a body"])
def test_what_is_malformed_ends_the_connection(host, data):
    host.send(data)
    assert host.receive() is None
    assert host.process.wait(covetest.PATIENCE) == 0
