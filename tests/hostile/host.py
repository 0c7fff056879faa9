"""What the host looks like: processes, cgroups, mounts, namespaces, files. Read-only."""
from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path

from covetest import CGROUP_PARENT, SANDBOX_UIDS, children_of

STATE_DIR = "/run/cove"
STATE_FILES = {"slots"}  # stay between runs
SHARED_DIRS = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # those that apart.py has made our own
# The runner makes these, a run does not.
TOOL_FILES = ("cove-hostile-", "cove-test-")
OUR_PLACES = (*(f"{top}/" for top in SHARED_DIRS), "/var/lib/cove/")
PF_EXITING = 0x4


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    name: str
    state: str
    uids: tuple[int, ...]
    namespaces: int  # depth of its pid namespace: 1 is the host's
    peak_kb: int
    cgroup: str
    start: int
    is_ending: bool = False  # it may be in no cgroup any more, and has nothing left but its number

    @property
    def groups(self) -> list[str]:
        return [line.split(":", 2)[-1] for line in self.cgroup.splitlines()]

    @property
    def is_in_our_group(self) -> bool:
        return any(is_our_group(path) for path in self.groups)

    @property
    def is_in_anothers_group(self) -> bool:
        """Of another run, or of a person's `cove`: each has its sandboxes below a parent of its own."""
        return not self.is_in_our_group and any(re.search(r"/cove[^/]*(/[0-9]+)+$", path) for path in self.groups)

    @property
    def is_sandboxed(self) -> bool:
        return self.is_in_our_group or any(uid in SANDBOX_UIDS for uid in self.uids)


def is_our_group(path: str) -> bool:
    """Whether it is a parent of this run, or below one; a server of a test has one of its own."""
    return any(name == CGROUP_PARENT or name.startswith(f"{CGROUP_PARENT}-") for name in path.split("/"))


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def read_process(pid: int) -> Process | None:
    stat, status = read_text(f"/proc/{pid}/stat"), read_text(f"/proc/{pid}/status")
    if not stat or not status:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    tail = stat.rsplit(")", 1)[1].split()
    return Process(
        pid=pid,
        parent=int(tail[1]),
        name=fields["Name"].strip(),
        state=tail[0],
        uids=tuple(int(word) for word in fields["Uid"].split()),
        namespaces=len(fields.get("NSpid", "0").split()),
        peak_kb=int(fields.get("VmHWM", "0 kB").split()[0]),
        cgroup=read_text(f"/proc/{pid}/cgroup"),
        start=int(tail[19]),
        is_ending=tail[0] in "ZX" or bool(int(tail[6]) & PF_EXITING),
    )


def processes() -> dict[int, Process]:
    found = (read_process(int(pid)) for pid in os.listdir("/proc") if pid.isdigit())
    return {process.pid: process for process in found if process}


def outside_of(root: int) -> tuple[list[Process], list[Process]]:
    """A process and what it has started: those in the host's pid namespace, and the first ones in another. Next to nothing to
    look at, where processes() reads all that a fork bomb has made, and those of everybody else."""
    found: list[Process] = []
    inside: list[Process] = []
    queue = [root]
    while queue:
        process = read_process(queue.pop())
        if process and process.namespaces == 1:
            found.append(process)
            queue += children_of(process.pid)
        elif process:
            inside.append(process)
    return found, inside


def descendants(table: dict[int, Process], root: int) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found, queue = [], [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child.pid)
    return found


def line_of(table: dict[int, Process], process: Process | None) -> list[Process]:
    """The process and its ancestors, as far as they were seen."""
    found: list[Process] = []
    while process and process not in found:
        found.append(process)
        process = table.get(process.parent)
    return found


def mounts() -> set[tuple[str, ...]]:
    """Mounts as (root, mount point, type, source): without their ids, which are reused, and without that somebody has
    removed what is mounted, as a service may do in /run."""
    found = set()
    for line in read_text("/proc/self/mountinfo").splitlines():
        left, right = line.split(" - ", 1)
        root, point = left.split()[3:5]
        found.add((root.removesuffix("//deleted"), point, *right.split()[:2]))
    return found


def cgroup_directories(parents: bool = False) -> set[str]:
    """Cgroup directories of this run in every hierarchy, without the parents that stay as long as it does."""
    tops = {m[1] for m in mounts() if m[2] in ("cgroup", "cgroup2")}
    found = {path for top in tops for path, _, _ in os.walk(top) if is_our_group(os.path.relpath(path, top))}
    return {path for path in found if parents or os.path.basename(path) != CGROUP_PARENT}


def cgroup_pids(path: str) -> set[int]:
    found: set[int] = set()
    for top, _, _ in os.walk(path):
        found.update(int(pid) for pid in read_text(f"{top}/cgroup.procs").split())
    return found


def namespaces(pids) -> set[str]:
    """Network and mount namespaces that a process, an open descriptor or a mount holds."""
    found = set()
    for pid in pids:
        paths = [f"/proc/{pid}/ns/net", f"/proc/{pid}/ns/mnt", *glob.iglob(f"/proc/{pid}/fd/*")]
        for path in paths:
            try:
                link = os.readlink(path)
            except OSError:
                continue
            if link.startswith(("net:[", "mnt:[")):
                found.add(link)
    return found | {m[0] for m in mounts() if m[2] == "nsfs"}


def loop_devices() -> set[str]:
    """Those of files that are ours, or that cannot be seen from here; a file elsewhere is that of whoever keeps it there."""
    found = set()
    for path in glob.iglob("/sys/block/loop*/loop/backing_file"):
        backing = read_text(path).strip()
        if backing.startswith(OUR_PLACES) or not os.path.exists(backing):
            found.add(path)
    return found


def socket_mb() -> float:
    """What TCP and UDP buffers hold, as the kernel counts them for the machine, whoever pays for them or nobody."""
    pages = re.findall(r"^(?:TCP|UDP):.* mem (\d+)$", read_text("/proc/net/sockstat"), re.MULTILINE)
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def page_tables_mb(pid: int) -> float:
    """Those of pid 1 of a sandbox and of its first children."""
    pids = [pid, *children_of(pid)[:8]]
    found = (re.search(r"^VmPTE:\s+(\d+) kB$", read_text(f"/proc/{one}/status"), re.MULTILINE) for one in pids)
    return sum(int(line[1]) for line in found if line) / 1024


def ipc_objects() -> set[str]:
    found = set()
    for kind in ("shm", "msg", "sem"):
        for line in read_text(f"/proc/sysvipc/{kind}").splitlines()[1:]:
            found.add(f"{kind}:{line.split()[1]}")
    return found


def private_files(tops: list[Path]) -> set[str]:
    found = set()
    for top in tops:
        for path, names, leaves in os.walk(top):
            found.update(os.path.join(path, name) for name in names + leaves)
    return found


def shared_files() -> set[str]:
    """What lies in the places that every run has to itself, and what a spawner has left beside its slots."""
    found = set()
    for top in SHARED_DIRS:
        entries = os.scandir(top) if os.path.isdir(top) else ()
        found.update(entry.path for entry in entries if not entry.name.startswith(TOOL_FILES))
    for path, names, leaves in os.walk(STATE_DIR):
        found.update(os.path.join(path, name) for name in names + leaves if name not in STATE_FILES)
    return found


class KernelLog:
    """What the kernel logs from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self.fd, 0, os.SEEK_END)

    def read(self) -> list[bytes]:
        """The lines since; what was overwritten meanwhile counts as one."""
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 16384))
            except BlockingIOError:
                os.close(self.fd)
                return lines
            except BrokenPipeError:
                lines.append(b"")
