"""Two sandboxes that share nothing but the image: "watch" writes down all that the kernel shows it of files, nodes, sockets,
names and counters, once before and once while another sandbox has its hands on the same ones ("act", until its input ends), and a last time
when it has done that itself: what shows nothing then was not tried."""
import ctypes
import fcntl
import json
import mmap
import os
import pathlib
import socket
import struct
import sys

from guard import attempt, finish

# Nobody but "act" uses these.
FILES = ("/usr/bin/base64", "/usr/bin/sha384sum", "/etc/debian_version")
NODES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero", "/dev/tty", "/dev/pts/ptmx", "/dev")
NAME, KEY, PORT = "cove-pair", 0x436F7665, 45455
PAGE = mmap.PAGESIZE
RWF_NOWAIT = 8
RNDGETENTCNT, TIOCGPTN, TIOCSPTLCK = 0x80045200, 0x80045430, 0x40045431
F_GETLEASE, F_ADD_SEALS = 1025, 1033
IPC_CREAT = 0o1000
SHM_INFO, MSG_INFO, SEM_INFO = 14, 12, 19
SYS = {"x86_64": {"fanotify_init": 300, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "cachestat": 451, "mq_open": 240},
       "aarch64": {"fanotify_init": 262, "perf_event_open": 241, "keyctl": 219, "add_key": 217, "cachestat": 451, "mq_open": 180}}[os.uname().machine]

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def checked(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")
    return answer


def call(name, *arguments):
    return checked(libc.syscall(SYS[name], *arguments))


# --- what is seen -------------------------------------------------------------------------------


def times_of(path):
    seen = os.stat(path)
    return [seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_nlink]


def resident(path):
    """What mincore() says of each page; none of them was touched by us."""
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    pages = (ctypes.c_ubyte * -(-size // PAGE))()
    try:
        checked(libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages))
    finally:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
        os.close(fd)
    return bytes(pages).hex()


def read_without_waiting(path):
    with open(path, "rb", buffering=0) as file:
        return os.preadv(file.fileno(), [bytearray(64)], 0, RWF_NOWAIT)


def lease_of(path):
    with open(path, "rb", buffering=0) as file:
        return fcntl.fcntl(file, F_GETLEASE)


def entropy():
    with open("/dev/random", "rb", buffering=0) as file:
        return struct.unpack("i", fcntl.ioctl(file, RNDGETENTCNT, bytes(4)))[0]


def next_terminal():
    with open("/dev/ptmx", "rb+", buffering=0) as file:
        return struct.unpack("I", fcntl.ioctl(file, TIOCGPTN, bytes(4)))[0]


def info_of(what, *arguments):
    """A table of System V: how many there are, and the rest that is told."""
    into = (ctypes.c_int * 64)()
    return [checked(what(*arguments, into)), *into[:20]]


def connect(family, address):
    with socket.socket(family) as one:
        one.connect(address)


def files_below(place):
    for folder, _, names in os.walk(place):
        for name in sorted(names):
            yield os.path.join(folder, name)


def text_of(path):
    return pathlib.Path(path).read_text()


def glance():
    """Name: what was seen, or the error."""
    seen = {}

    def note(name, look, *arguments):
        try:
            seen[name] = look(*arguments)
        except OSError as error:
            seen[name] = f"error {error.errno}"

    for path in (*FILES, *NODES, "/", "/usr/bin"):
        note(f"times:{path}", times_of, path)
    for path in FILES:
        note(f"mincore:{path}", resident, path)
        note(f"nowait:{path}", read_without_waiting, path)
        note(f"lease:{path}", lease_of, path)
    note("entropy", entropy)
    note("terminal", next_terminal)
    note("terminals", os.listdir, "/dev/pts")
    note("shm-names", lambda: sorted(os.listdir("/dev/shm")))
    note("sysv-shm", info_of, libc.shmctl, 0, SHM_INFO)
    note("sysv-msg", info_of, libc.msgctl, 0, MSG_INFO)
    note("sysv-sem", info_of, libc.semctl, 0, 0, SEM_INFO)
    note("sysv-key", lambda: checked(libc.shmget(KEY, 0, 0)) >= 0)
    note("abstract", connect, socket.AF_UNIX, f"\0{NAME}")
    note("proc", lambda: sorted(name for name in os.listdir("/proc") if not name.isdigit()))
    note("sysctl", os.listdir, "/proc/sys")
    for path in files_below("/proc/self/net"):
        note(path, text_of, path)
    return seen


# --- what is done -------------------------------------------------------------------------------


def talk(kept):
    """Packets of its own loopback; the sockets stay."""
    server = socket.create_server(("127.0.0.1", PORT))
    client = socket.create_connection(("127.0.0.1", PORT))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(200):
        client.send(bytes(100))
        datagrams.sendto(bytes(100), ("127.0.0.1", PORT))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(f"\0{NAME}")
    unix.listen()
    kept += [server, client, datagrams, unix]


def use_nodes(kept):
    for path in NODES[:5]:
        file = open(path, "rb+", buffering=0)
        file.read(1 << 16) if path != "/dev/full" else None
        if path in ("/dev/null", "/dev/zero"):
            file.write(bytes(1 << 16))
        kept.append(file)
    for _ in range(3):
        kept.append(open("/dev/ptmx", "rb+", buffering=0))
        fcntl.ioctl(kept[-1], TIOCSPTLCK, bytes(4))


def use_names(kept):
    """Errors are told: without a cgroup that counts memory there is no System V memory."""
    attempt("shmget", lambda: checked(libc.shmget(KEY, 1 << 20, IPC_CREAT | 0o600)))
    attempt("msgget", lambda: checked(libc.msgget(KEY, IPC_CREAT | 0o600)))
    attempt("semget", lambda: checked(libc.semget(KEY, 4, IPC_CREAT | 0o600)))
    attempt("shm-file", lambda: kept.append(open(f"/dev/shm/{NAME}", "wb")))
    memory = attempt("memfd", os.memfd_create, NAME, os.MFD_ALLOW_SEALING)
    if memory is not None:
        attempt("seal", fcntl.fcntl, memory, F_ADD_SEALS, 2)
    name = ctypes.create_string_buffer(NAME.encode())
    attempt("mq_open", call, "mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, None)
    attempt("fanotify_init", call, "fanotify_init", 0, 0)
    attempt("perf_event_open", call, "perf_event_open", bytes(128), 0, -1, -1, 0)
    attempt("keyctl", call, "keyctl", 0, -4, 0)
    attempt("add_key", call, "add_key", b"user", name, b"x", 1, -4)
    attempt("cachestat", call, "cachestat", 0, bytes(16), bytes(40), 0)


def act():
    kept = []
    for path in FILES:
        fd = os.open(path, os.O_RDONLY)
        kept.append(mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ))
        os.read(fd, 1 << 20)
        sum(kept[-1][::PAGE])
        kept.append(open("/workspace/leased", "wb"))
    own = os.open("/workspace/leased", os.O_RDONLY)
    attempt("lease-of-image", fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    del kept[1::2]  # a lease to read is given when nobody writes
    attempt("lease-of-its-own", fcntl.fcntl, own, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    attempt("touch", os.utime, "/dev/null", (1, 1))
    talk(kept)
    use_nodes(kept)
    use_names(kept)
    return kept


if sys.argv[1:] == ["watch"]:
    print("before " + json.dumps(glance()))
    print("ready", flush=True)
    sys.stdin.read()
    print("beside " + json.dumps(glance()))
    attempt("port", connect, socket.AF_INET, ("127.0.0.1", PORT))  # this one leaves traces in counters of its own
    hands = act()
    print("own " + json.dumps(glance()))
else:
    hands = act()
    print("ready", flush=True)
    sys.stdin.read()
finish()
