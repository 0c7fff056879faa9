"""A39 B71: socket options, flags and neighbours that code alone on its loopback needs for nothing: memory that the whole machine has
together, closes that wait, rare code of the kernel, and the priority of processes that are not the code's."""
import ctypes
import mmap
import os
import socket
import struct

from guard import attempt, fact, finish

libc = ctypes.CDLL(None, use_errno=True)
SOL_SOCKET, TCP, UDP, IPV6 = socket.SOL_SOCKET, 6, 17, 41


def call(name, *args):
    ctypes.set_errno(0)
    done = getattr(libc, name)(*args)
    if done == -1:
        raise OSError(ctypes.get_errno(), name)
    return done


# One instruction, "take the packet", and where it lies.
instruction = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0xFFFF))
program = struct.pack("@HP", 1, ctypes.addressof(instruction))
one, none = struct.pack("=i", 1), struct.pack("=i", -1)
label = b"\0" * 15 + b"\1" + struct.pack(">I", 0x12345) + struct.pack("=BBHHHI", 0, 255, 1, 60, 6, 0)
key = struct.pack("=H2sI120sBBHi80s", socket.AF_INET, b"\0\1", 0x0100007F, b"", 0, 0, 4, 0, b"same")

OPTIONS = {
    "attach_filter": (SOL_SOCKET, 26, program), "attach_bpf": (SOL_SOCKET, 50, none),
    "attach_reuseport_cbpf": (SOL_SOCKET, 51, program), "attach_reuseport_ebpf": (SOL_SOCKET, 52, none),
    "zerocopy": (SOL_SOCKET, 60, one), "tcp_ulp": (TCP, 31, b"tls\0"), "tcp_md5sig": (TCP, 14, key),
    "tcp_md5sig_ext": (TCP, 32, key), "tcp_ao_add_key": (TCP, 38, b"\0" * 288), "udp_encap": (UDP, 100, struct.pack("=i", 2)),
    "flow_label": (IPV6, 32, label),
}
for family, of in ((socket.AF_INET, "4"), (socket.AF_INET6, "6"), (socket.AF_UNIX, "unix")):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as s:
            if family != socket.AF_UNIX:
                s.setsockopt(SOL_SOCKET, socket.SO_REUSEPORT, 1)
                s.bind(("localhost", 0))
            for name, (level, option, value) in OPTIONS.items():
                attempt(f"option.{name}.{of}.{kind.name}", s.setsockopt, level, option, value)
            # Upper halves, which the kernel does not read.
            attempt(f"option.upper.{of}.{kind.name}", call, "syscall", 54 if os.uname().machine == "x86_64" else 208,
                    s.fileno(), ctypes.c_ulong(0xFFFFFFFF00000001), ctypes.c_ulong(0x5555555500000000 + 26), program,
                    ctypes.c_ulong(len(program)), 0)
            attempt(f"linger.{of}.{kind.name}", s.setsockopt, SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 100000))
            fact(f"lingers.{of}.{kind.name}", struct.unpack("@ii", s.getsockopt(SOL_SOCKET, socket.SO_LINGER, 8))[0])
    attempt(f"option.receive_zerocopy.{of}", lambda: socket.socket(family).getsockopt(TCP, 35, 64))

# Both ends of a connection, which would take it.
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer = server.accept()[0]
byte = ctypes.create_string_buffer(b"!", 1)
part = struct.pack("@PN", ctypes.addressof(byte), 1)
vector = ctypes.create_string_buffer(part)
head = ctypes.create_string_buffer(struct.pack("@PIxxxxPNPNixxxxIxxxx", 0, 0, ctypes.addressof(vector), 1, 0, 0, 0, 0))
for name, (a, b) in {"tcp": (client, peer), "unix": socket.socketpair()}.items():
    for flags in (socket.MSG_OOB, socket.MSG_OOB | socket.MSG_DONTWAIT, socket.MSG_OOB | socket.MSG_PEEK):
        attempt(f"urgent.{name}.send.{flags}", a.send, b"!", flags)
        attempt(f"urgent.{name}.sendmsg.{flags}", a.sendmsg, [b"!"], [], flags)
        attempt(f"urgent.{name}.sendmmsg.{flags}", call, "sendmmsg", a.fileno(), head, 1, flags)
        attempt(f"urgent.{name}.recv.{flags}", b.recv, 1, flags)
        attempt(f"urgent.{name}.recvmsg.{flags}", b.recvmsg, 1, 0, flags)
        attempt(f"urgent.{name}.recvmmsg.{flags}", call, "recvmmsg", b.fileno(), head, 1, flags, None)

# Pages that the operator keeps for somebody else: refused as if there were none, whether there are some or not.
LENGTH = 2 << 20
for size in (0, 21 << 26, 30 << 26):
    attempt(f"huge.map.{size >> 26}", lambda: mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000 | size))
    attempt(f"huge.file.{size >> 26}", os.memfd_create, "huge", 4 | size)
    attempt(f"huge.segment.{size >> 26}", call, "shmget", 0, ctypes.c_size_t(LENGTH), 0o1600 | 0o4000 | size)

child = os.fork()
if child == 0:
    call("pause")
for name, pid in {"init": 1, "child": child, "own_number": os.getpid()}.items():
    attempt(f"priority.{name}", os.setpriority, os.PRIO_PROCESS, pid, 19)
attempt("priority.group", os.setpriority, os.PRIO_PGRP, 0, 19)
attempt("priority.everybody", os.setpriority, os.PRIO_USER, 0, 19)
attempt("priority.affinity", os.sched_setaffinity, 1, {min(os.sched_getaffinity(1))})
os.kill(child, 9)
os.waitpid(child, 0)

# What programs do need.
with socket.create_server(("127.0.0.1", 0)) as s:
    attempt("usual.nodelay", s.setsockopt, TCP, socket.TCP_NODELAY, 1)
    attempt("usual.keepalive", s.setsockopt, SOL_SOCKET, socket.SO_KEEPALIVE, 1)
attempt("usual.nice", os.nice, 1)
attempt("usual.priority", os.setpriority, os.PRIO_PROCESS, 0, 19)
attempt("usual.affinity", os.sched_setaffinity, 0, os.sched_getaffinity(0))
attempt("usual.map", mmap.mmap, -1, LENGTH)
finish()
