# SPDX-License-Identifier: Apache-2.0
"""Programs for a session that send its host descriptors of all kinds, over the channel of their own kernel. The last who closes
one may have to wait, for as long as its maker likes."""
import socket

SO_PASSRIGHTS = 83

TOOLS = r'''
import array, fcntl, os, select, signal, socket, struct

def tcp(reads=False):
    """Full, and it lingers for a day; its other end, which does not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    near.setblocking(False)
    try:
        while not reads:
            near.send(bytes(65536))
    except BlockingIOError:
        pass
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 86400))
    return near.detach(), far.detach()

def queued(*fds):
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    send(far, fds)
    for fd in fds:
        os.close(fd)
    far.close()
    return near.detach()

def send(sock, fds, copies=1):
    rights = array.array("i", list(fds) * min(copies, 253 // len(fds)))
    sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

def ring():
    """Sockets in flight that nobody has any more: only the collector finds them, in whoever closes the next one."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fds = tcp()
    send(far, [near.fileno(), *fds])
    send(near, [far.fileno()])
    for fd in fds:
        os.close(fd)
    near.close()
    far.close()
    return os.dup(1)

def file(*how):
    fd = os.open("held", os.O_RDWR | os.O_CREAT)
    os.write(fd, bytes(4096))
    for call, word in how:
        call(fd, word)
    return fd

def pipe_file():
    if not os.path.exists("fifo"):
        os.mkfifo("fifo")
    return os.open("fifo", os.O_RDWR)

def sealed():
    fd = os.memfd_create("f", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return fd

def half_closed():
    near, far = tcp()
    with socket.socket(fileno=os.dup(near)) as s:
        s.shutdown(socket.SHUT_WR)
    os.close(far)
    return near

def listener(family, kind, address):
    s = socket.socket(family, kind)
    s.bind(address)
    if kind != socket.SOCK_DGRAM:
        s.listen()
    return s.detach()

def polled():
    inner, outer = select.epoll(), select.epoll()
    outer.register(inner)
    keep.append(inner)
    return os.dup(outer.fileno())

keep = []
KINDS = {
    "a TCP socket that lingers": lambda: tcp()[:1],
    "both ends of one": tcp,
    "one in a queue": lambda: [queued(tcp()[0])],
    "both ends in a queue in a queue": lambda: [queued(queued(*tcp()))],
    "both ends in rings of sockets": lambda: [ring() for _ in range(20)],
    "one that is half closed": lambda: [half_closed()],
    "one that listens": lambda: [listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))],
    "TCP over IPv6": lambda: [listener(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))],
    "UDP": lambda: [listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))],
    "a unix socket that listens": lambda: [listener(socket.AF_UNIX, socket.SOCK_STREAM, "\0%d" % os.getpid())],
    "a pipe": os.pipe,
    "a named pipe": lambda: [pipe_file()],
    "a terminal": os.openpty,
    "a memory file with a lease and seals": lambda: [sealed()],
    "a file with locks and a lease": lambda: [file((fcntl.flock, fcntl.LOCK_EX))],
    "a file with a lease": lambda: [file((lambda fd, how: fcntl.fcntl(fd, fcntl.F_SETLEASE, how), fcntl.F_WRLCK))],
    "an epoll of an epoll": lambda: [polled()],
    "an event": lambda: [os.eventfd(0)],
    "a process": lambda: [os.pidfd_open(os.getpid())],
    "a folder": lambda: [os.open("/proc", os.O_RDONLY)],
    "a device": lambda: [os.open("/dev/zero", os.O_RDWR)],
    "itself": lambda: [os.dup(3)],
}

def attack(kind):
    host = socket.socket(fileno=os.dup(3))
    for copies in (1, 100):
        fds = KINDS[kind]()
        try:
            send(host, fds, copies)
            print("sent")
        except PermissionError:
            print("refused")
        for fd in fds:
            os.close(fd)
'''
KINDS = [line.split('"')[1] for line in TOOLS.partition("KINDS = {")[2].partition("\n}")[0].splitlines() if '"' in line]


def attack(kind):
    """The code."""
    return f"{TOOLS}\nattack({kind!r})"


def kernel_refuses():
    """Whether a socket can refuse descriptors on this machine: then it is the sender who is told."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            return False
    return True
