"""Two sandboxes that share nothing but the image: "watch" watches and locks files of it, directories and nodes of /dev until
its input ends, then tells what it saw; "act" uses the same ones, and tells what held it up. What only watches or locks
in its own sandbox must work there, else nothing was tried."""
import ctypes
import errno
import fcntl
import importlib.util
import os
import signal
import struct
import subprocess
import sys

from guard import attempt, fact, finish

# Nobody but "act" uses these.
MODULE = os.path.dirname(importlib.util.find_spec("sqlite3").origin)
FILES = ("/usr/bin/base64", "/etc/debian_version", "/dev/full", f"{MODULE}/dbapi2.py")
FOLDERS = (MODULE, "/usr/share/zoneinfo")
IN_ALL_EVENTS, IN_NONBLOCK = 0xfff, os.O_NONBLOCK
F_NOTIFY, DN_ACCESS, DN_MULTISHOT = 1026, 1, 0x80000000
F_OFD_SETLK, FLOCK = 37, "hhqqi4x"

libc = ctypes.CDLL(None, use_errno=True)


def use():
    """What leaves an event of every kind that reading can leave, in its own file system."""
    for path in FILES:
        with open(path, "rb") as file:
            file.read(64)
    for path in FOLDERS:
        os.listdir(path)
    subprocess.run(["/usr/bin/base64", "--version"], stdout=subprocess.DEVNULL, check=True)


class Inotify:
    def __init__(self):
        self.fd = libc.inotify_init1(IN_NONBLOCK)
        self.error = "" if self.fd >= 0 else errno.errorcode[ctypes.get_errno()]
        for path in (*FILES, *FOLDERS) if self.fd >= 0 else ():
            if libc.inotify_add_watch(self.fd, path.encode(), IN_ALL_EVENTS) < 0:
                self.error = errno.errorcode[ctypes.get_errno()]

    def count(self):
        """How many events there were since the last time."""
        try:
            data, found = os.read(self.fd, 65536), 0
        except BlockingIOError:
            return 0
        while data:
            data, found = data[16 + struct.unpack_from("iIII", data)[3]:], found + 1
        return found


class Dnotify:
    def __init__(self):
        self.seen, self.error, self.fds = 0, "", []
        signal.signal(signal.SIGIO, self.on_signal)
        try:
            for path in FOLDERS:
                self.fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
                fcntl.fcntl(self.fds[-1], F_NOTIFY, DN_ACCESS | DN_MULTISHOT)
        except OSError as error:
            self.error = errno.errorcode[error.errno]

    def on_signal(self, *_):
        self.seen += 1

    def count(self):
        seen, self.seen = self.seen, 0
        return seen


def lock_open_file(fd, kind):
    fcntl.fcntl(fd, F_OFD_SETLK, struct.pack(FLOCK, kind, os.SEEK_SET, 0, 0, 0))


def lock_all(say):
    """Takes each kind of lock; answers what has to stay open. `say` reports one attempt."""
    kept = []
    for path in (*FILES, *FOLDERS, "/", "/usr/bin", "/dev", "/proc", "/dev/pts"):
        kept.append(os.open(path, os.O_RDONLY))
        say(f"flock:{path}", fcntl.flock, kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    for path in ("/dev/full", "/dev/null"):
        kept.append(os.open(path, os.O_RDWR))
        say(f"posix:{path}", fcntl.lockf, kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    for path in ("/dev/zero", "/dev/random"):
        kept.append(os.open(path, os.O_RDWR))
        say(f"open-file:{path}", lock_open_file, kept[-1], fcntl.F_WRLCK)
    say("lease", fcntl.fcntl, kept[0], fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return kept


def watch():
    watchers = {"inotify": Inotify(), "dnotify": Dnotify()}
    kept = lock_all(attempt)
    other = os.open(FILES[0], os.O_RDONLY)
    attempt("own-lock", fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for watcher in watchers.values():
        if not watcher.error:
            watcher.count()
    print("ready", flush=True)
    sys.stdin.read()
    for name, watcher in watchers.items():
        fact(f"{name}:of-others", watcher.error or watcher.count())
    use()
    for name, watcher in watchers.items():
        fact(f"{name}:own", watcher.error or watcher.count())
    del kept


def act():
    use()
    import sqlite3
    sqlite3.connect(":memory:").execute("select 1")
    lock_all(attempt)


if sys.argv[1:] == ["watch"]:
    watch()
else:
    act()
finish()
