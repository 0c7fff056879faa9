"""What must hold on the host after every hostile run, whatever the program did."""
from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import host

GRACE_SECONDS = 2.0
TERMINAL_STATES = {"completed", "failed", "timeout", "cancelled", "lost"}
KINDS = {
    "timeout", "oom", "pids", "disk", "output", "cancelled", "signal", "exception", "exit",
    "egress_denied", "syscall_denied", "runner_died", "infrastructure",
}
SANITIZER_WORDS = (b"AddressSanitizer", b"LeakSanitizer", b"ThreadSanitizer", b"runtime error:",
                   b"UndefinedBehaviorSanitizer")


class Violation(AssertionError):
    """An invariant that did not hold; the message lists all that did not."""


def fingerprint(path: Path) -> tuple:
    """Bytes, owner, mode and times of a file or directory: all but the time of the last read."""
    info = os.lstat(path)
    data = path.read_bytes() if path.is_file() else "\n".join(sorted(os.listdir(path))).encode()
    return (hashlib.sha256(data).hexdigest(), info.st_ino, info.st_mode, info.st_uid, info.st_gid,
            info.st_mtime_ns, info.st_ctime_ns)


def is_foreign(table, process) -> bool:
    """Whether a process is nobody of ours: orphans of ours come to us, so what is ours is our descendant. All that a
    look at the table can miss is a parent that ended meanwhile. So it needs a reason to be another's: his cgroup, an
    end without us, or an ancestor outside of sandboxes that is not one of our own."""
    line = host.line_of(table, process)
    if any(p.pid == os.getpid() for p in line):
        return False
    ours = {p.pid for p in host.line_of(table, table.get(os.getpid()))} | {1}
    return (process.is_in_anothers_group or process.is_ending
            or any(p.namespaces == 1 and p.pid not in ours for p in line[1:]))


def is_anothers_user(table, process) -> bool:
    """Whether a living `cove` that this test did not start has it run as an ordinary user; whatever else runs as the
    user of this run is held against it, also what a service has started."""
    line = host.line_of(table, process)
    return any(p.name.startswith("cove") for p in line) and not any(p.pid == os.getpid() for p in line)


def suspects(table, owned: set[int]) -> list[int]:
    """The processes that may hold something of a run: this one, its children, sandboxes."""
    mine = [p.pid for p in host.descendants(table, os.getpid()) if p.pid not in owned]
    strays = [p.pid for p in table.values() if p.is_sandboxed and not is_foreign(table, p)]
    return [os.getpid(), *mine, *strays]


@dataclass
class Baseline:
    """The host before a run. Everything that is there already is not the run's fault."""

    private: list[Path]
    users: set[int]
    canaries: list[Path]
    owned: set[int] = field(default_factory=set)  # children of the test that are not the run's

    def __post_init__(self):
        self.processes = {(p.pid, p.start) for p in host.processes().values()}
        self.cgroups = host.cgroup_directories()
        self.mounts = host.mounts()
        self.namespaces = host.namespaces(suspects(host.processes(), self.owned))
        self.loops = host.loop_devices()
        self.ipc = host.ipc_objects()
        self.files = host.private_files(self.private) | host.shared_files()
        self.prints = {path: fingerprint(path) for path in self.canaries}


def reap_orphans(owned: set[int]) -> None:
    """Collects what was orphaned to this process (a subreaper) and has ended since."""
    for process in host.descendants(host.processes(), os.getpid()):
        if process.parent == os.getpid() and process.state == "Z" and process.pid not in owned:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                pass


def describe(process: host.Process) -> str:
    return (f"process {process.pid} '{process.name}' state {process.state} "
            f"uids {process.uids[:2]} parent {process.parent}")


def own_leftovers(base: Baseline) -> list[str]:
    """What is there now, was not before, and can only come from the run."""
    reap_orphans(base.owned)
    table = host.processes()
    excused = set(base.owned)
    for pid in base.owned:
        excused.update(p.pid for p in host.descendants(table, pid))
    mine = {p.pid for p in host.descendants(table, os.getpid())}
    found = []
    for p in table.values():
        suspect = any(uid in base.users for uid in p.uids) and not is_anothers_user(table, p)
        known = (p.pid, p.start) in base.processes or p.pid in excused
        if (suspect or p.pid in mine) and not known:
            found.append(describe(p))
    return found + [f"file {path}" for path in host.private_files(base.private) - base.files]


def likely_leftovers(base: Baseline) -> dict[tuple, str]:
    """What is there now and was not before, but may be the runner's own or another's at this moment: only what stays is
    held against the run."""
    table = host.processes()
    found: dict[tuple, str] = {}
    for process in table.values():
        known = (process.pid, process.start) in base.processes or process.pid in base.owned
        if process.is_sandboxed and not known and not is_foreign(table, process):
            found["process", process.pid, process.start] = describe(process)
    for path in host.cgroup_directories() - base.cgroups:
        found["cgroup", path] = f"cgroup '{path}' with {len(host.cgroup_pids(path))} processes"
    differences = {
        "mount": host.mounts() - base.mounts,
        "loop device": host.loop_devices() - base.loops,
        "ipc object": host.ipc_objects() - base.ipc,
        "namespace": host.namespaces(suspects(table, base.owned)) - base.namespaces,
        "file": host.shared_files() - base.files,
    }
    for kind, items in differences.items():
        found.update({(kind, item): f"{kind} {item}" for item in items})
    return found


def wait_for_nothing(base: Baseline, grace: float = GRACE_SECONDS) -> list[str]:
    """What is still left when the grace time is over."""
    end = time.monotonic() + grace
    likely = likely_leftovers(base)
    while True:
        own = own_leftovers(base)
        if not (own or likely) or time.monotonic() > end:
            return own + sorted(text for text in likely.values() if text not in own)
        time.sleep(0.02)
        now = likely_leftovers(base)
        likely = {key: now[key] for key in likely if key in now}


def check_canaries(base: Baseline) -> list[str]:
    found = []
    for path, before in base.prints.items():
        try:
            changed = fingerprint(path) != before
        except OSError as error:
            changed = bool(error)
        if changed:
            found.append(f"canary '{path}' changed")
    return found


def check_secrets(secrets: list[str], places: dict[str, bytes]) -> list[str]:
    return [
        f"a secret shows in {place}"
        for secret in secrets
        for place, data in places.items()
        if secret.encode() in data
    ]


def check_sanitizers(text: bytes) -> list[str]:
    return [f"sanitizer report: {word.decode()}" for word in SANITIZER_WORDS if word in text]


def check_verdict(document: dict, exit_code: int) -> list[str]:
    """Whether state, reason, exit code, signal and the process's own status tell one story."""
    state, reason = document.get("state"), document.get("reason")
    kind = reason.get("kind") if isinstance(reason, dict) else None
    found = []
    if state not in TERMINAL_STATES:
        return [f"state '{state}' is not terminal"]
    if kind is not None and kind not in KINDS:
        found.append(f"unknown reason '{kind}'")
    if state == "completed":
        if document.get("exit_code") != 0 or document.get("signal") is not None:
            found.append("completed, yet exit_code or signal says otherwise")
        if kind not in (None, "output") or exit_code != 0:
            found.append(f"completed, yet reason '{kind}' and status {exit_code}")
    if state == "failed" and (kind is None or exit_code == 0):
        found.append(f"failed with reason '{kind}' and status {exit_code}")
    if state == "timeout" and (kind != "timeout" or exit_code != 124):
        found.append(f"timeout with reason '{kind}' and status {exit_code}")
    if kind == "oom" and exit_code != 137:
        found.append(f"oom with status {exit_code}, not 137")
    if kind == "exit" and exit_code != document.get("exit_code"):
        found.append(f"status {exit_code} is not exit_code {document.get('exit_code')}")
    return found


def assert_invariants(base: Baseline, run=None, secrets=(), hits=(), peak_limit_kb=None,
                      grace: float = GRACE_SECONDS) -> None:
    """Raises Violation, naming everything of the host that a run changed, leaked or left.

    `base` was taken before the run; `run` is its outcome (see harness.Run), or None to look at the
    host alone; `hits` are the contacts that the runner's open doors have had.
    """
    found = []
    if run is not None and run.hung:
        found.append(f"'cove run' was still there after {run.wall:.1f} s")
    found += wait_for_nothing(base, grace) + check_canaries(base)
    found += [f"reached from inside: {hit}" for hit in hits]
    if run is not None:
        found += check_secrets(list(secrets), run.places())
        found += check_sanitizers(run.stderr)
        if run.document is None:
            found.append(f"no single execution object on stdout: {run.problem}")
        else:
            found += check_verdict(run.document, run.exit_code)
        if peak_limit_kb:
            found += [f"host side '{name}' grew to {peak} kB"
                      for name, peak in run.peaks_kb.items() if peak > peak_limit_kb]
    if found:
        raise Violation("\n".join(found))
