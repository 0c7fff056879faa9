"""What one run of the suite has to itself, so that whatever appears there is its own.

Others work on this machine meanwhile: programs that make files, a person's `cove`, a second run of the suite. So a run
has mounts, System V objects and folders for what is temporary of its own, a parent of cgroups (covetest.CGROUP_PARENT),
and in rootless mode a user. Everything else is told apart by whose child it is (invariants.py): the run is the one that
orphans of its own come to."""
from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import covetest

PR_SET_CHILD_SUBREAPER = 36
CLONE_FS, CLONE_NEWNS, CLONE_NEWIPC = 0x200, 0x20000, 0x8000000
MS_BIND, MS_REC = 0x1000, 0x4000
# Where programs leave what is temporary. Nothing of the host shows there, but where the suite itself lies.
EMPTIED = ("/tmp", "/var/tmp", "/dev/shm")
# Where services have their sockets: all of it shows, but what comes later.
RUN = "/run"
# The numbers of sandboxes are the machine's: of the folder of spawners this file is shared, and nothing else.
SLOTS = Path("/run/cove/slots")
DEFAULT_USER = "cove-hostile"

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def bind(fd: int, over: Path) -> None:
    source = f"/proc/self/fd/{fd}".encode()
    check(libc.mount(source, os.fsencode(over), None, MS_BIND | MS_REC, None), f"mount '{over}'")


def take_orphans(takes: bool = True) -> None:
    """Orphans of a run come to this process, so that none can get lost."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, int(takes), 0, 0, 0), "become a subreaper")


def make_slots() -> None:
    """As the first spawner on a machine does."""
    SLOTS.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(SLOTS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def needed(place: Path, paths: list[str]) -> list[str]:
    """What stands in `place` and holds one of the paths."""
    full = [Path(path).resolve() for path in paths]
    names = {path.relative_to(place).parts[0] for path in full if place in path.parents}
    return sorted(name for name in names if os.path.lexists(place / name))


class Apart:
    """Mounts and objects of this process's own, from the beginning until leave()."""

    def __init__(self, paths: list[str]):
        """`paths` of files and folders that must stay as they are, wherever they lie."""
        self.cwd, self.tmpdir = os.getcwd(), os.environ.get("TMPDIR")
        covetest.LOCKS.mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="cove-hostile-apart-"))
        # Of the host, for the way back and for tests that play another program of this machine.
        self.outside = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "ipc")}
        check(libc.unshare(CLONE_NEWNS | CLONE_NEWIPC), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        self._cover(paths + [self.cwd, sys.prefix])
        # Shared among our children, so that a mount which a run forgets to keep private comes back here.
        subprocess.run(["mount", "--make-rshared", "/"], check=True)
        os.environ["TMPDIR"], tempfile.tempdir = "/tmp", None
        os.chdir(self.cwd)

    def _cover(self, paths: list[str]) -> None:
        make_slots()
        kept = {Path(place): needed(Path(place), paths) for place in EMPTIED if os.path.isdir(place)}
        kept |= {Path(RUN): sorted(set(os.listdir(RUN)) - {SLOTS.parent.name}), SLOTS.parent: [SLOTS.name]}
        # Before anything is covered: the folder lies in one of the places itself.
        own, old, what = {}, {}, {place: os.stat(place) for place in kept}
        for place, names in kept.items():
            own_place = self.folder / place.relative_to("/")
            own_place.mkdir(parents=True, exist_ok=True)
            own[place] = os.open(own_place, os.O_PATH | os.O_CLOEXEC)
            old |= {place / name: os.open(place / name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for name in names}
        for place in kept:
            bind(own[place], place)
            os.chown(place, what[place].st_uid, what[place].st_gid)
            os.chmod(place, stat.S_IMODE(what[place].st_mode))
        for path, fd in old.items():
            uncover(fd, path)
        for fd in (*own.values(), *old.values()):
            os.close(fd)

    def leave(self) -> None:
        """Back to the mounts of the host, where reports are written and the folder can be removed."""
        check(libc.unshare(CLONE_FS), "unshare")
        check(libc.setns(self.outside["mnt"], CLONE_NEWNS), "setns")
        os.chdir(self.cwd)
        tempfile.tempdir = None
        os.environ.pop("TMPDIR")
        if self.tmpdir is not None:
            os.environ["TMPDIR"] = self.tmpdir
        shutil.rmtree(self.folder)


def uncover(fd: int, at: Path) -> None:
    """Shows what was there before."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISLNK(mode):
        at.symlink_to(os.readlink("", dir_fd=fd))
    elif stat.S_ISDIR(mode):
        at.mkdir(exist_ok=True)
        bind(fd, at)
    else:
        at.touch()
        bind(fd, at)


# --- an ordinary user ---------------------------------------------------------------------------


def lock_user(name: str, waits: bool):
    """An open file that holds the user for this process, or None."""
    lock = open(covetest.LOCKS / f"cove-hostile-user-{name}.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        lock.close()
        return None
    return lock


def take_user(wanted: str):
    """-> the name of an ordinary user whom no other run of the suite has, and what holds him; end it with the run.

    Runs must not share one: processes, messages and namespaces are counted for each user, so that a bomb of the one
    would fail the other, and a process with his uid is held against whoever has him. One that was asked for by name is
    waited for; of the default there are as many as there are runs at a time."""
    if wanted != DEFAULT_USER:
        lock = lock_user(wanted, True)
        if subprocess.run(["id", wanted], capture_output=True).returncode != 0:
            raise LookupError(f"there is no user '{wanted}'")
        return wanted, lock
    names = itertools.chain([wanted], (f"{wanted}-{number}" for number in itertools.count(2)))
    name, lock = next((name, lock) for name in names if (lock := lock_user(name, False)))
    try:
        covetest.make_user(name, None)
    except subprocess.CalledProcessError as error:
        raise LookupError(f"the user '{name}' cannot be made: {error}") from None
    return name, lock
