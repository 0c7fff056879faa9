"""Expectations about what a probe printed: each maker answers a function of the finished run."""
from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Callable

import host
from harness import Run

Check = Callable[[Run], None]

REFUSED = {"EPERM", "EACCES", "ENOSYS"}
NO_FILE = {"ENOENT", "ENOTDIR", "EACCES", "EPERM", "ENXIO", "EROFS"}
ENDINGS = {"EAGAIN", "ENOMEM", "ENOSPC", "EMFILE", "ENFILE", "EPERM", "ENOSYS", "EDQUOT", "EACCES"}


def complete(run: Run) -> dict[str, str]:
    """The probe's lines, which must run to its end."""
    lines = run.lines()
    assert "done" in lines, "the probe did not reach its end"
    return lines


def every(*checks: Check) -> Check:
    def check(run: Run) -> None:
        for one in checks:
            one(run)
    return check


def refused(prefix: str, allowed=frozenset(REFUSED), at_least: int = 1,
            but: dict[str, set[str]] | None = None) -> Check:
    """All attempts whose name starts with `prefix` were answered with one of `allowed`."""
    def check(run: Run) -> None:
        lines = {k: v for k, v in complete(run).items() if k.startswith(prefix)}
        assert len(lines) >= at_least, f"only {len(lines)} attempts at '{prefix}'"
        wrong = {k: v for k, v in lines.items() if v not in (but or {}).get(k, allowed)}
        assert not wrong, f"not refused as expected: {wrong}"
    return check


def worked(*names: str) -> Check:
    """Honest operations, which a sandbox must not break."""
    def check(run: Run) -> None:
        lines = complete(run)
        wrong = {name: lines.get(name) for name in names if lines.get(name) != "ok"}
        assert not wrong, f"an honest operation failed: {wrong}"
    return check


def facts(**expected: str) -> Check:
    def check(run: Run) -> None:
        lines = complete(run)
        wrong = {k: lines.get(k) for k, v in expected.items() if lines.get(k) != f"={v}"}
        assert not wrong, f"expected {expected}, saw {wrong}"
    return check


def at_most(name: str, limit: int, at_least: int = 0) -> Check:
    def check(run: Run) -> None:
        value = int(run.lines().get(name, "=-1")[1:])
        assert at_least <= value <= limit, f"{name} is {value}, expected {at_least}..{limit}"
    return check


def sockets_held(limit_mb: int) -> Check:
    """Told by the host's own counter: what no group counts, no told peak shows."""
    def check(run: Run) -> None:
        assert run.kind == "oom" or "sent_mb" in run.lines(), "the probe did not get so far"
        assert run.sockets_mb <= limit_mb, f"sockets held {run.sockets_mb:.0f} MB, expected up to {limit_mb}"
    return check


def few_page_tables(limit_mb: int) -> Check:
    """Of what ran inside, as the host counts them."""
    def check(run: Run) -> None:
        assert 1 <= run.tables_mb <= limit_mb, f"page tables of {run.tables_mb:.1f} MB, expected up to {limit_mb}"
    return check


def said(text: str, stream: str = "stdout") -> Check:
    def check(run: Run) -> None:
        assert text in ((run.document or {}).get(stream) or ""), f"'{text}' is not in {stream}"
    return check


class Late(AssertionError):
    """Of a check: nothing is wrong but that the end came so many milliseconds after its time."""

    def __init__(self, took_ms: float, limit_ms: float):
        super().__init__(f"took {took_ms} ms, expected up to {limit_ms}")
        self.late_ms = took_ms - limit_ms


def ended_within(limit_ms: float, at_least_ms: float = 0) -> Check:
    """The host's own measure of the execution. Raises Late where only the upper bound does not hold."""
    def check(run: Run) -> None:
        took = run.document["duration_ms"]
        assert took >= at_least_ms, f"took {took} ms, expected at least {at_least_ms}"
        if took > limit_ms:
            raise Late(took, limit_ms)
    return check


def flooded(total: int, *streams: str) -> Check:
    """Both ends of a flood are kept, and its true size is told."""
    def check(run: Run) -> None:
        for stream in streams:
            told = run.document["truncated"][stream]
            kept = run.document[stream]
            assert told["total_bytes"] == total, f"{stream}: {told}"
            assert told["kept_bytes"] <= 1 << 20, f"{stream}: {told}"
            assert len(kept) < 2 << 20, f"{stream} has {len(kept)} characters"
            assert kept.startswith("HEAD"), f"{stream} begins with {kept[:20]!r}"
            assert kept.rstrip().endswith("TAIL"), f"{stream} ends with {kept[-20:]!r}"
    return check


def bounded(stream: str, limit: int = 2 << 20) -> Check:
    def check(run: Run) -> None:
        size = len((run.document or {}).get(stream) or "")
        assert size <= limit, f"{stream} has {size} characters"
    return check


def sockets(run: Run) -> None:
    """Only unix and internet stream and datagram sockets open, with their own protocols."""
    allowed = {(1, t, 0) for t in (1, 2, 5)}
    allowed |= {(f, t, p) for f in (2, 10) for t, p in ((1, 0), (1, 6), (2, 0), (2, 17))}
    lines = complete(run)
    opened = set()
    for name, result in lines.items():
        if result == "ok":
            _, family, kind, protocol = name.split(":")
            opened.add((int(family, 16) & 0xFFFFFFFF, int(kind, 16) & 0xF, int(protocol)))
    assert opened <= allowed, f"opened (family, type, protocol): {sorted(opened - allowed)}"
    assert {(1, 1, 0), (2, 1, 0), (2, 2, 0)} <= opened, f"an honest socket failed: {opened}"
    answers = {name for name in lines if name.startswith("E")}
    fine = {"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL",
            "EOPNOTSUPP"}
    assert answers <= fine, f"unexpected answers: {answers - fine}"
    assert int(lines["tried"][1:]) > 7000


IMAGE_DIRECTORIES = {  # part of any root file system, and the image's own
    "/root", "/home", "/run", "/run/lock", "/boot", "/srv", "/media", "/mnt", "/opt", "/var/log",
    "/var/backups", "/var/mail", "/etc/systemd/system", "/etc/cron.d", "/lost+found",
    "/proc/thread-self/root/../../root", "/proc/self/fd/7/../..", "/sys",
}
MAY_HAVE_ENTRIES = {"/mnt": 1, "/opt": 1000, "/var/log": 1000, "/etc/systemd/system": 1000,
                    "/etc/cron.d": 1000}
IMAGE_FILES = {"/etc/fstab", "/etc/machine-id"}
DEVICES = set("null zero full random urandom tty pts shm ptmx fd stdin stdout stderr".split())


def paths(run: Run) -> None:
    """No device, kernel file, or file of the host can be opened."""
    lines = complete(run)
    wrong = []
    for name, result in lines.items():
        if ":" not in name:
            continue
        verb, _, rest = name.partition(".")
        group, _, path = rest.partition(":")
        if verb == "list" and group != "proc":
            if int(result[1:]) > MAY_HAVE_ENTRIES.get(path, 0):
                wrong.append(f"{name} {result}")
        elif verb == "read" and result == "ok":
            own = path in IMAGE_DIRECTORIES or path in IMAGE_FILES
            if not own and not path.startswith("/proc/self/net"):
                wrong.append(f"{name} {result}")
        elif verb == "write" and result not in NO_FILE | {"EISDIR"}:
            wrong.append(f"{name} {result}")
    assert not wrong, f"reachable: {wrong}"
    assert len(lines) > 400
    nodes = set(lines["dev.nodes"][1:].split(","))
    assert nodes <= DEVICES, f"more in /dev than there should be: {nodes - DEVICES}"


WRITABLE = {"/workspace", "/data", "/mnt/data", "/tmp", "/dev/shm", "/var/tmp"}


def writable(run: Run) -> None:
    """Only the workspace and the private temporary directories can be written."""
    lines = complete(run)
    dirs = set(lines["writable"][1:].split(","))
    assert dirs <= WRITABLE, f"writable: {dirs - WRITABLE}"
    assert {"/workspace", "/tmp"} <= dirs
    assert lines["special"] == "=", f"special or writable files: {lines['special']}"
    assert int(lines["files"][1:]) > 500, "the walk saw next to nothing"
    assert lines["canary.visible"] == "=0"
    attempts = {k: v for k, v in lines.items() if k.partition(":")[0] in
                "chmod utime chown xattr link unlink rename rmdir symlink".split()}
    assert len(attempts) > 100
    # Rootless, the sandbox owns its private instance of the terminals' file system.
    own = {"/workspace", "/dev/pts"}
    wrong = {k: v for k, v in attempts.items() if v == "ok" and k.partition(":")[2] not in own}
    assert not wrong, f"changed: {wrong}"


KNOWN_TO_ALL = set("""stat status comm cmdline limits cgroup loginuid wchan oom_score_adj task
    coredump_filter uid_map gid_map setgroups mountinfo mounts""".split())


def processes(run: Run) -> None:
    """Of pid 1 nothing can be read but what anyone may know, and nothing written; no process shows
    a descriptor, a namespace or a program that is not the sandbox's."""
    lines = complete(run)
    wrong = []
    for name, result in lines.items():
        part = name.split(".")
        if result == "ok" and part[0] in ("read", "link", "write", "exe") and part[1] == "1":
            if part[0] != "read" or part[2] not in KNOWN_TO_ALL:
                wrong.append(name)
    assert not wrong, f"open to the program: {wrong}"
    assert sum(name.startswith("read.1.") for name in lines) > 20
    for name in ("self.exe.write", "self.exe.reopen", "self.exe.fd"):
        assert lines[name] in NO_FILE | {"ETXTBSY"}, f"{name} {lines[name]}"
    for name in ("self.oom_score_adj", "self.uid_map", "self.gid_map", "self.setgroups"):
        assert lines[name] in NO_FILE | {"EINVAL"}, f"{name} {lines[name]}"
    entries = set(lines["entries"][1:].split(","))
    assert entries <= {"self", "thread-self", "net", "mounts"}, f"in /proc: {entries}"
    for line in lines["self.cgroup"][1:].strip("|").split("|"):
        assert line.endswith(":/"), f"a cgroup's place in the host: {line}"


def host_marks(run: Run) -> dict[str, str]:
    """Strings by which this host can be known: {what: string}."""
    found = {"machine id": host.read_text("/etc/machine-id").strip(),
             "boot id": host.read_text("/proc/sys/kernel/random/boot_id").strip(),
             "host name": host.read_text("/proc/sys/kernel/hostname").strip(),
             "kernel command line": host.read_text("/proc/cmdline").strip()}
    for path in glob.glob("/sys/class/net/*/address"):
        found[f"address {path}"] = host.read_text(path).strip()
    for path in glob.glob("/sys/class/dmi/id/*_uuid") + glob.glob("/sys/class/dmi/id/*_serial"):
        found[path] = host.read_text(path).strip()
    for path in glob.glob("/sys/block/*/serial") + glob.glob("/sys/block/*/device/serial"):
        found[path] = host.read_text(path).strip()
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")]:
        for name in re.findall(r"https?://(?:[^/@\s]*@)?([^/\s]+)", host.read_text(path)):
            found[f"package source {name}"] = name
    cove = Path(next(word for word in run.argv if word.endswith("cove")))
    found["build directory"] = str(cove.parent.resolve())
    found["repository"] = str(Path(__file__).resolve().parents[2])
    found["image store"] = "/var/lib/cove"
    found["user's store"] = "/.local/share/cove"
    trivial = {"00:00:00:00:00:00", "none", "default string", "not specified"}
    return {k: v for k, v in found.items()
            if len(v) > 5 and v.lower() not in trivial and not v.endswith(".debian.org")}  # everybody's source


def identity(run: Run) -> None:
    """Nothing printed names the host."""
    lines = complete(run)
    assert lines["nodename"] == "=cove"
    assert lines["interfaces"] == "=lo"
    wrong = []
    for what, mark in host_marks(run).items():
        wrong += [f"{what} in {name}" for name, text in lines.items() if mark in text]
    assert not wrong, f"the host shows: {wrong}"
    assert len(lines) > 60


def environment(allowed: set[str], added: frozenset = frozenset()) -> Check:
    """Exactly the variables that are listed; `added` are those that the interpreter itself sets."""
    def check(run: Run) -> None:
        lines = complete(run)
        given = {word.partition("=")[0] for option, word in zip(run.argv, run.argv[1:])
                 if option == "--env"}
        for view, own in (("env.", added), ("kernel.", frozenset())):
            names = {k[len(view):] for k in lines if k.startswith(view)}
            listed = given | allowed | own
            assert names == listed, f"{view} differs: {sorted(names ^ listed)}"
    return check


def only_standard_fds(run: Run) -> None:
    lines = complete(run)
    fds = {name: what for name, what in lines.items() if name.startswith("fd.")}
    assert set(fds) == {"fd.0", "fd.1", "fd.2"}, f"open: {fds}"
    for name, what in fds.items():
        assert what.startswith("=pipe:") or what == "=/dev/null", f"{name} is {what}"
    assert lines["cwd.same"] == "=1" and lines["root.same"] == "=1"
    opened = [k for k, v in lines.items() if k.startswith("chdir.") and v == "ok"]
    assert not opened, f"directories behind descriptors: {opened}"


def readonly_files(run: Run) -> None:
    lines = complete(run)
    changed = [k for k, v in lines.items() if k.startswith("unchanged.") and v != "=1"]
    assert not changed, f"a read-only file was changed: {changed}"
    assert sum(k.startswith("unchanged.") for k in lines) >= 2
    opened = [k for k, v in lines.items()
              if k.split(".")[0] in ("write", "reopen", "truncate") and v == "ok"]
    assert not opened, f"opened for writing: {opened}"


def no_core(run: Run) -> None:
    lines = complete(run)
    piped = host.read_text("/proc/sys/kernel/core_pattern").startswith("|")
    # A pipe helper ignores a limit of 0; 1 is the value that the kernel takes as "never".
    fine = {"=1"} if piped else {"=0", "=1"}
    assert lines["core.soft"] in fine and lines["core.hard"] in fine, f"core limit: {lines}"
    assert lines["core.after"] in fine, f"the core limit was changed to {lines['core.after']}"
    assert "dumped" not in lines
    left = [a["path"] for a in run.document["artifacts"] if "core" in a["path"]]
    assert not left, f"core files: {left}"


def fetched(run: Run) -> None:
    """--out holds regular files of the workspace only; no link leads anywhere else."""
    complete(run)
    names = {p.name: p for p in run.out.rglob("*")}
    assert (run.out / "honest.txt").read_text() == "honest"
    strange = [n for n, p in names.items()
               if not p.is_symlink() and not p.is_file() and not p.is_dir()]
    assert not strange, f"special files were copied out: {strange}"
    for name, path in names.items():
        if path.is_symlink():
            inside = str(path.resolve()).startswith(str(run.out.resolve()) + "/")
            assert inside, f"link {name!r} leads to {path.resolve()}"
    leaked = [n for n, p in names.items() if p.is_file() and b"root:" in p.read_bytes()]
    assert not leaked, f"a file that is not the workspace's: {leaked}"


def small_on_disk(limit_mb: int) -> Check:
    """What --out wrote takes no more room than the program was allowed."""
    def check(run: Run) -> None:
        used = sum(p.lstat().st_blocks * 512 for p in run.out.rglob("*"))
        assert used <= limit_mb << 20, f"--out takes {used >> 20} MB"
    return check


def left_behind(name: str) -> Check:
    """The file is listed, and was copied out."""
    def check(run: Run) -> None:
        listed = [artifact["path"] for artifact in run.document["artifacts"]]
        assert name in listed, f"'{name}' is not among the artifacts {listed[:20]}"
        assert (run.out / name).is_file(), f"'{name}' was not copied out"
    return check
