"""What the host looks like: processes, cgroups, mounts, namespaces, files. Read-only."""
from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

SANDBOX_UIDS = range(1_900_000_000, 1_900_065_536)
STATE_DIR = "/run/cove"
STATE_FILES = {"slots"}  # stay between runs
SHARED_DIRS = ("/tmp", "/var/tmp", "/dev/shm", "/run")
# Other tools of this repository make these, a run does not.
TOOL_FILES = ("cove-hostile-", "cove-test-", "cove-bench-", "cove-build-", "cove-vm")


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

    @property
    def is_sandboxed(self) -> bool:
        in_cgroup = any("cove" in line.split(":", 2)[-1].split("/")
                        for line in self.cgroup.splitlines())
        return in_cgroup or any(uid in SANDBOX_UIDS for uid in self.uids)


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
    )


def processes() -> dict[int, Process]:
    found = (read_process(int(pid)) for pid in os.listdir("/proc") if pid.isdigit())
    return {process.pid: process for process in found if process}


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


def has_ancestor(table: dict[int, Process], process: Process, wanted) -> bool:
    """Whether wanted(ancestor) holds for the process or one of its ancestors."""
    seen: Process | None = process
    while seen:
        if wanted(seen):
            return True
        seen = table.get(seen.parent)
    return False


def mounts() -> set[tuple[str, ...]]:
    """Mounts as (root, mount point, type, source): without their ids, which are reused."""
    found = set()
    for line in read_text("/proc/self/mountinfo").splitlines():
        left, right = line.split(" - ", 1)
        found.add((*left.split()[3:5], *right.split()[:2]))
    return found


def cgroup_directories() -> set[str]:
    """Cgroup directories of Cove in every hierarchy, without the parents that stay."""
    found = set()
    tops = {m[1] for m in mounts() if m[2] in ("cgroup", "cgroup2")}
    for top in tops:
        for path, names, _ in os.walk(top):
            if "cove" in os.path.relpath(path, top).split("/"):
                found.add(path)
    return {path for path in found if os.path.basename(path) != "cove"}


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
    return set(glob.glob("/sys/block/loop*/loop/backing_file"))


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


def shared_files(users: set[int]) -> set[str]:
    """Files in the shared directories that belong to a sandbox, to one of `users` or to Cove."""
    found = set()
    for top in SHARED_DIRS:
        for entry in os.scandir(top) if os.path.isdir(top) else ():
            try:
                owner = entry.stat(follow_symlinks=False).st_uid
            except OSError:
                continue
            ours = owner in SANDBOX_UIDS or owner in users or entry.name.startswith("cove-")
            if ours and not entry.name.startswith(TOOL_FILES):
                found.add(entry.path)
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
