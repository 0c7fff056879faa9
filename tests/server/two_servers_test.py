# SPDX-License-Identifier: Apache-2.0
"""Two servers of one machine, each with a folder of its own, run as the same user. What strangers speak to may be taken over: then it makes
calls that we never wrote, and none of them signals the other server's. Here it is a debugger that makes it do so."""
import contextlib
import ctypes
import errno
import os
import signal

import pytest

import covetest
from covetest import wait_for
from server import Server

pytestmark = [pytest.mark.skipif(not covetest.IS_ROOT, reason="a user of its own needs root"),
              pytest.mark.skipif(os.uname().machine != "x86_64", reason="knows the registers of that machine alone")]

SEIZE, INTERRUPT, GETREGS, SETREGS, SYSCALL, DETACH = 0x4206, 0x4207, 12, 13, 24, 17
WALL = 0x40000000
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()
CALLS = {"kill": 62, "tkill": 200, "tgkill": 234, "fcntl": 72, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_open": 434,
         "pidfd_send_signal": 424, "getpid": 39, "ioctl": 16}
F_GETFD, F_SETFL, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_NOTIFY, F_SETLEASE = 1, 4, 8, 10, 15, 1026, 1024
FIOSETOWN, SIOCSPGRP = 0x8901, 0x8902
NOBODY = 0x3fffffff

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS]


class Puppet:
    """A process that waits in a call, and makes others instead."""

    def __init__(self, pid):
        self.pid, self.saved = pid, Registers()

    def ptrace(self, what, address=None, data=None):
        assert libc.ptrace(what, self.pid, address, data) >= 0, os.strerror(ctypes.get_errno())

    def wait(self):
        _, status = os.waitpid(self.pid, WALL)
        assert os.WIFSTOPPED(status), status

    def __enter__(self):
        self.ptrace(SEIZE)
        self.ptrace(INTERRUPT)
        self.wait()
        self.ptrace(GETREGS, None, ctypes.addressof(self.saved))
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(self.saved.rip - 2)
            assert memory.read(2) == b"\x0f\x05", "it stands behind a call"
        return self

    def call(self, name, *arguments):
        """What the kernel answers it."""
        registers = Registers.from_buffer_copy(self.saved)
        registers.rip -= 2
        registers.rax, registers.orig_rax = CALLS[name], ctypes.c_ulonglong(-1).value
        for register, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), (*arguments, 0, 0, 0, 0, 0, 0)):
            setattr(registers, register, ctypes.c_ulonglong(value).value)
        self.ptrace(SETREGS, None, ctypes.addressof(registers))
        for _ in range(2):  # into the call, and out of it
            self.ptrace(SYSCALL)
            self.wait()
        self.ptrace(GETREGS, None, ctypes.addressof(registers))
        return ctypes.c_longlong(registers.rax).value

    def __exit__(self, *_):
        if ctypes.c_longlong(self.saved.rax).value in (-512, -513, -514, -516):  # which the kernel would begin again
            self.saved.rax = ctypes.c_ulonglong(-errno.EINTR).value
            self.saved.orig_rax = ctypes.c_ulonglong(-1).value
        self.ptrace(SETREGS, None, ctypes.addressof(self.saved))
        self.ptrace(DETACH)


def proxy_of(server):
    return next((pid for pid in covetest.children_of(server.process.pid) if covetest.name_of(pid) == "cove-egress"), None)


def check_signals_nobody(puppet, other):
    """`other` is of the same user. A process that is not there is told as one that is: no other wall is in between."""
    assert puppet.call("getpid") == puppet.pid
    assert puppet.call("tgkill", puppet.pid, puppet.pid, 0) == 0
    assert puppet.call("fcntl", 0, F_GETFD) >= 0
    for pid in (other, NOBODY, puppet.pid):
        for name, *arguments in (("kill", pid, 0), ("kill", pid, signal.SIGKILL), ("tkill", pid, 0), ("rt_sigqueueinfo", pid, 0, 0),
                                 ("rt_tgsigqueueinfo", pid, pid, 0, 0), ("pidfd_open", pid, 0), ("pidfd_send_signal", 0, 0, 0, 0),
                                 ("fcntl", 0, F_SETOWN, pid), ("fcntl", 0, F_SETOWN_EX, 0), ("fcntl", 0, F_SETSIG, signal.SIGKILL),
                                 ("fcntl", 0, F_NOTIFY, 1), ("fcntl", 0, F_SETLEASE, 0), ("ioctl", 0, FIOSETOWN, 0),
                                 ("ioctl", 0, SIOCSPGRP, 0)):
            assert puppet.call(name, *arguments) == -errno.EPERM, (name, arguments)
    for pid in (other, NOBODY):
        for number in (0, signal.SIGKILL):
            assert puppet.call("tgkill", pid, pid, number) == -errno.EPERM, (pid, number)


@contextlib.contextmanager
def two_servers():
    with Server() as first, Server() as second:
        pids = [first.coved, second.coved]
        assert covetest.uids_of(pids[0]) == covetest.uids_of(pids[1])
        yield first, second
        assert [first.coved, second.coved] == pids and first.is_answering() and second.is_answering()
        assert [server.stop() for server in (first, second)] == [0, 0]


def test_a_server_that_was_taken_over_signals_no_other_server():
    with two_servers() as (first, second):
        with Puppet(first.coved) as puppet:
            check_signals_nobody(puppet, second.coved)


def test_nor_does_its_proxy():
    with two_servers() as servers:
        for server in servers:
            made = server.post("/api/v1/sessions", {"network": {"policy": "allow", "allow": ["ok.test"]}})
            assert made.status == 201, made
        first, second = (wait_for(lambda server=server: proxy_of(server), "its proxy") for server in servers)
        assert covetest.uids_of(first) == covetest.uids_of(second)
        with Puppet(first) as puppet:
            check_signals_nobody(puppet, second)
        assert [proxy_of(server) for server in servers] == [first, second]
