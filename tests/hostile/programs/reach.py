"""C94, and the loopback part of D: doors of the host that the runner holds open beside the sandbox:
a socket in the file system, an abstract one, a port on every loopback address."""
import ctypes
import os
import socket
import stat

from guard import attempt, fact, finish

path, abstract = os.environ["HOSTILE_SOCKET"], os.environ["HOSTILE_ABSTRACT"]
port = int(os.environ["HOSTILE_PORT"])


def connect(family, kind, address):
    with socket.socket(family, kind) as door:
        door.settimeout(1)
        door.connect(address)
        door.send(b"hostile")


found = []
for top, names, leaves in os.walk("/"):
    if top == "/proc":
        names[:] = []
        continue
    for leaf in leaves:
        full = os.path.join(top, leaf)
        try:
            if stat.S_ISSOCK(os.lstat(full).st_mode):
                found.append(full)
        except OSError:
            pass
fact("sockets", ",".join(found))
for name in [path, "/run/dbus/system_bus_socket", "/run/docker.sock", "/run/systemd/private",
             "/run/systemd/journal/stdout", "/run/systemd/notify", "/run/cove/cove.sock",
             "/tmp/.X11-unix/X0", "/dev/log"] + found:
    attempt(f"stream:{name}", connect, socket.AF_UNIX, socket.SOCK_STREAM, name)
    attempt(f"dgram:{name}", connect, socket.AF_UNIX, socket.SOCK_DGRAM, name)
for name in (abstract, "/tmp/.X11-unix/X0", "/org/freedesktop/systemd1/notify"):
    attempt(f"abstract:{name}", connect, socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name)
for host in ("127.0.0.1", "127.0.0.53", "127.1.2.3", "0.0.0.0", os.environ["HOSTILE_ADDRESS"],
             "169.254.169.254", "100.100.100.200", "168.63.129.16", "10.0.0.1", "172.17.0.1",
             "192.168.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255", "8.8.8.8"):
    attempt(f"tcp:{host}", connect, socket.AF_INET, socket.SOCK_STREAM, (host, port))
for host in ("169.254.169.254", "10.0.0.1", "224.0.0.1", "255.255.255.255", "8.8.8.8"):
    attempt(f"udp:{host}", connect, socket.AF_INET, socket.SOCK_DGRAM, (host, 53))
for host in ("::1", "::", "::ffff:127.0.0.1", "fd00:ec2::254", "fe80::1%lo",
             "2001:4860:4860::8888"):
    attempt(f"tcp6:{host}", connect, socket.AF_INET6, socket.SOCK_STREAM, (host, port, 0, 0))
for host in ("metadata.google.internal", "localhost.localdomain", "host.docker.internal"):
    attempt(f"name:{host}", socket.getaddrinfo, host, 80)

# Bringing another interface up, or a route, is not for this program either.
libc = ctypes.CDLL(None, use_errno=True)


def control(command):
    with socket.socket() as door:
        request = ctypes.create_string_buffer(b"lo", 64)
        if libc.ioctl(door.fileno(), ctypes.c_ulong(command), request) != 0:
            raise OSError(ctypes.get_errno(), "ioctl")


attempt("ioctl.SIOCSIFFLAGS", control, 0x8914)
attempt("ioctl.SIOCADDRT", control, 0x890B)
attempt("ioctl.SIOCBRADDBR", control, 0x89A0)


def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(socket.AF_INET, socket.SOCK_STREAM, server.getsockname())


attempt("control.loopback", loopback)
finish()
