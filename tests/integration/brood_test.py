# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of one brood: one memory, several seals. What the spawner and the zygote do for forks."""
import os
import socket
import struct

import covetest
from spawner_protocol_test import DESTROY, NOT_FOUND, SEALED, message
from zygote_test import FRAME, READY, Session, host, memory_file, pytestmark  # noqa: F401

BROOD = 13


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


def fork(parent, heir):
    """Has the heir fork the parent's kernel; the heir's session is the fork then."""
    gate, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    copier = memory_file(COPIER.read_bytes())
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
