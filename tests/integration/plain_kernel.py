# SPDX-License-Identifier: Apache-2.0
"""A kernel of the plain form, started as in a sandbox: by cove-init, with the shim beside it.

kernel_driver.py is the host. The pipes of an execution are opened by path inside, where they belong to
somebody else, so they are made open to everyone (docs/PROTOCOL-kernel.md, "The plain form").
"""
import array
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess

import covetest
import kernel_driver
import spawner_protocol_test as spawning

# src/wire/guest.h: what stands first in a message; the rest of it is 0 here.
GUEST = struct.Struct("<IiiiIIII")
GUEST_READY, GUEST_START, GUEST_STARTED, GUEST_EXITED, GUEST_SIGNAL, GUEST_KILL = range(1, 7)
START_PLAIN = 1
STORE = pathlib.Path("/var/lib/cove/images")
KERNELS = covetest.ROOT / "images"


def image_root(name):
    """The root directory of an image, or None where it was not built."""
    tag = STORE / "tags" / name
    if not shutil.which("bwrap") or not tag.exists():
        return None
    return STORE / tag.read_text().strip() / "rootfs"


def message(verb, value=0, argc=0, envc=0, strings=0, flags=0):
    return GUEST.pack(verb, value, 0, 0, argc, envc, strings, flags).ljust(spawning.GUEST.size, b"\0")


class Box:
    """cove-init in bubblewrap: the image, namespaces, and a uid that owns nothing of the test's."""

    def __init__(self, root, workspace):
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def take_place():
            os.dup2(inner.fileno(), 3)
            os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])

        self.process = subprocess.Popen(
            ["bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-pid", "--unshare-net", "--as-pid-1",
             "--die-with-parent", "--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
             "--ro-bind", str(covetest.BUILD / "cove-init"), "/tmp/init", "--bind", str(workspace), "/workspace",
             "/tmp/init"],
            stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=take_place)
        inner.close()

    def end(self):
        self.control.close()  # init ends, and the kernel takes the rest of its namespace
        self.process.wait(covetest.PATIENCE)

    def processes(self):
        """The names of all processes in the box."""
        children = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, _, rest = entry.read_text().partition(" (")
            except (FileNotFoundError, ProcessLookupError):
                continue
            name, _, rest = rest.rpartition(") ")
            children.setdefault(int(rest.split()[1]), []).append((int(pid), name))
        found, todo = [], [self.process.pid]
        while todo:
            for pid, name in children.get(todo.pop(), []):
                found.append(name)
                todo.append(pid)
        return found


class Sandbox:
    """The real thing, with cove-spawner; needs root."""

    def __init__(self, name):
        self.spawner = spawning.Spawner()
        self.spawner.hello()
        made = self.spawner.create(bytes.fromhex((STORE / "tags" / name).read_text().strip()))
        assert made.failure is None, made.failure
        self.id, self.control = made.sandbox, socket.socket(fileno=made.fds[0])

    def process_count(self):
        return self.spawner.ask(spawning.STATS, self.id).stats["pids_now"]

    def end(self):
        self.control.close()
        assert self.spawner.ask(spawning.DESTROY, self.id).failure is None
        self.spawner.socket.close()
        assert self.spawner.process.wait(covetest.PATIENCE) == 0, self.spawner.stderr()


class PlainKernel(kernel_driver.Kernel):
    """The same as its parent, but for how the process begins, is signalled and ends."""

    def __init__(self, box, argv, program, env=None):
        """`box` has the control socket of a cove-init, and end()."""
        self.generation, self.ready, self.status, self.rest, self.box = 0, None, None, b"", box
        self.control = box.control
        self.control.settimeout(covetest.PATIENCE)
        assert self.hear()[0] == GUEST_READY
        self._start(argv, program, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/workspace"} | (env or {}))

    def _start(self, argv, program, env):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        strings = ["/workspace", *argv, *(f"{name}={value}" for name, value in env.items())]
        data = b"".join(text.encode() + b"\0" for text in strings)
        nowhere, text = os.open("/dev/null", os.O_RDWR), kernel_driver._memory_file(program)
        self.control.sendmsg(
            [message(GUEST_START, 0, len(argv), len(env), len(data), START_PLAIN) + data],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [nowhere] * 3 + [theirs.fileno(), text]))])
        theirs.close()
        os.close(nowhere)
        os.close(text)
        answer = self.hear()
        assert answer[:2] == (GUEST_STARTED, 0), os.strerror(answer[1])

    def hear(self):
        """The next message of cove-init's."""
        return GUEST.unpack_from(self.control.recv(4096))

    def tell(self, verb, value=0):
        self.control.send(message(verb, value))

    def send(self, type, body=b"", generation=None, fds=()):
        for fd in fds:
            os.fchmod(fd, 0o666)
        super().send(type, body, generation, fds)

    def interrupt(self):
        self.tell(GUEST_SIGNAL, signal.SIGINT)

    def wait(self, seconds=covetest.PATIENCE):
        """The exit code of the kernel as cove-init tells it, negative for a signal."""
        if self.status is None:
            verb, _, code, number = self.hear()[:4]
            assert verb == GUEST_EXITED
            self.status = -number if number else code
        return self.status

    def kill(self):
        self.close()
        self.box.end()
