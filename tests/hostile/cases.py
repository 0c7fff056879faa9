"""The table: one row per hostile program, how it is run, and what must come of it."""
from __future__ import annotations

from dataclasses import dataclass, replace

import checks
from checks import (at_most, bounded, ended_within, every, facts, flooded, left_behind, refused,
                    said, worked)

GB = 1_000_000_000
DONE = frozenset({"completed"})
FAILED = frozenset({"failed"})
TIMEOUT = frozenset({"timeout"})
EITHER = frozenset({"completed", "failed"})
ANY = frozenset({"completed", "failed", "timeout"})
NONE = frozenset({None})


@dataclass(frozen=True)
class Case:
    """`rows` are the ids of the catalogue; `kinds` the accepted reason.kind (None: no reason)."""

    rows: str
    name: str
    program: str
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    states: frozenset = DONE
    kinds: frozenset = NONE
    exit_code: int | None = None  # of the program; None: not looked at
    check: checks.Check | None = None
    seconds: float = 20.0  # `cove run` itself must be gone by then
    beside: bool = False  # a second sandbox must keep its speed meanwhile
    flat: bool = True  # the host side's memory is looked at
    stdin: str = "null"
    out: bool = False
    long: bool = False
    rootless: str = ""  # why the row does not apply to an ordinary user
    asan: str = ""  # why the row cannot work under a sanitizer build

    @property
    def id(self) -> str:
        return f"{self.rows.replace(' ', '_')}-{self.name}"


def kinds(*names: str | None) -> frozenset:
    return frozenset(names)


def limits(**options) -> tuple[str, ...]:
    """limits(timeout=3, memory="64M") as command-line words."""
    return tuple(word for key, value in options.items() for word in (f"--{key}", str(value)))


PROCESSES = [
    Case("A1", "shell-fork-bomb", "forkbomb.sh", options=limits(timeout=3, pids=40),
         states=frozenset({"timeout", "failed"}), kinds=kinds("timeout", "pids"), beside=True),
    Case("A2", "deaf-session-fork-bomb", "stubborn.c", ("scatter-bomb",),
         limits(timeout=3, pids=40), states=frozenset({"timeout", "failed"}),
         kinds=kinds("timeout", "pids"), beside=True),
    Case("A2 B85", "orphans-deaf-to-all", "stubborn.c", ("scatter",), limits(timeout=10),
         check=said("done"), seconds=8),
    Case("A2 B85", "orphans-then-exit-7", "stubborn.c", ("orphan-exit",), limits(timeout=10),
         states=FAILED, kinds=kinds("exit"), exit_code=7, seconds=8),
    Case("A4", "ten-thousand-threads", "kernel_objects.c", ("threads",),
         limits(timeout=10, pids=64), states=EITHER, kinds=kinds(None, "pids"),
         check=every(at_most("threads.count", 64, at_least=10),
                     refused("threads.end", {"EAGAIN"}))),
    Case("A4", "ten-thousand-processes", "kernel_objects.c", ("processes",),
         limits(timeout=10, pids=64), states=EITHER, kinds=kinds(None, "pids"),
         check=every(at_most("processes.count", 64, at_least=10),
                     refused("processes.end", {"EAGAIN"}))),
    Case("A30", "straggler-keeps-stdout", "background.sh", ("0",), limits(timeout=15),
         check=said("done"), seconds=6),
    Case("A30", "straggler-after-exit-7", "background.sh", ("7",), limits(timeout=15),
         states=FAILED, kinds=kinds("exit"), exit_code=7, seconds=6),
    Case("A31", "closes-all-then-exits", "closed.sh", ("exit",), limits(timeout=10),
         states=FAILED, kinds=kinds("exit"), exit_code=7, check=ended_within(9000, 900)),
    Case("A31", "closes-all-then-spins", "closed.sh", ("spin",), limits(timeout=2),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(2250, 2000)),
    Case("A36", "vfork-parent-waits", "stubborn.c", ("vfork",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A36", "stops-itself", "stubborn.c", ("stopped",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A37", "signal-storm", "stubborn.c", ("storm",), limits(timeout=10),
         check=refused("kill.init", {"ok", "EPERM", "ESRCH"}, 3), beside=True),
    Case("A37", "straggler-kills-all-that-follows", "stubborn.c", ("assassin",),
         limits(timeout=10), check=left_behind("left"), out=True, seconds=8),
    Case("A37", "kills-own-group", "stubborn.c", ("suicide",), limits(timeout=10),
         states=FAILED, kinds=kinds("signal"), check=said("ready")),
    Case("A38", "blocks-every-signal", "stubborn.c", ("deaf",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A38", "python-ignores-every-signal", "hang.py", ("deaf",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
]


def bounded_fill(run) -> None:
    """Killed, or refused before it had more than its limit."""
    lines = run.lines()
    if run.document["state"] == "completed" or "filled_mb" in lines:
        at_most("filled_mb", 144)(run)


def bounded_queues(run) -> None:
    """The same for messages (16 kB a queue) and semaphores (2 MB a set), with a limit of 64 MB."""
    if run.document["state"] == "completed":
        at_most("mqueue.count", 100)(run)
        at_most("msg.count", 5000)(run)
        at_most("sem.count", 40)(run)


SMALL = limits(timeout=20, memory="128M", disk="64M")
OOM_OR_REFUSED = dict(states=EITHER, kinds=kinds(None, "oom", "disk"), check=bounded_fill,
                      seconds=15)

# Asked for are 192 MB. The counter is the machine's, so others' sockets may be in it.
SOCKETS_HELD = dict(options=limits(timeout=2, memory="64M", disk="32M"), states=frozenset({"timeout", "failed"}),
                    kinds=kinds("timeout", "oom"), check=checks.sockets_held(96), seconds=15)

MEMORY = [
    Case("A6", "hundred-gigabytes-at-once", "memory.py", ("grab",),
         limits(timeout=10, memory="128M", disk="64M"), states=FAILED,
         kinds=kinds("oom", "exit", "exception")),
    Case("A6", "touches-page-by-page", "memory.py", ("touch",), SMALL,
         states=FAILED, kinds=kinds("oom"), beside=True),
    Case("A6", "in-a-child", "memory.py", ("child",), SMALL,
         states=EITHER, kinds=kinds(None, "oom")),
    Case("A7", "creeps-below-the-limit", "memory.py", ("hold", "80", "2"),
         SMALL, check=said("done"), beside=True),
    Case("A8", "fills-tmp", "fill.c", ("tmp",), SMALL,
         **OOM_OR_REFUSED),
    Case("A8 A10", "fills-dev-shm", "fill.c", ("shm",), SMALL,
         **OOM_OR_REFUSED),
    Case("A9", "fills-memfd", "fill.c", ("memfd",), SMALL,
         **OOM_OR_REFUSED),
    Case("A10", "fills-shared-mappings", "fill.c", ("shared",), SMALL,
         **OOM_OR_REFUSED),
    Case("A10", "fills-sysv-segments", "fill.c", ("sysv",), SMALL,
         **OOM_OR_REFUSED),
    Case("A14", "fills-socket-buffers", "fill.c", ("sockets",), SMALL,
         **OOM_OR_REFUSED),
    Case("A14", "fills-pipes", "fill.c", ("pipes",), SMALL,
         **OOM_OR_REFUSED),
    Case("A14", "fills-udp-buffers", "fill.c", ("udp",), **SOCKETS_HELD),
    Case("A14", "fills-tcp-buffers", "fill.c", ("tcp",), **SOCKETS_HELD),
    Case("A6", "fills-page-tables", "fill.c", ("tables",), limits(timeout=5, memory="64M", disk="32M"),
         states=FAILED, kinds=kinds("oom"), check=checks.few_page_tables(128), seconds=15),
    Case("A12", "ten-times-memory-to-disk", "pagecache.sh", (),
         limits(timeout=30, memory="64M", disk="32M", cpus=2), states=EITHER,
         kinds=kinds(None, "disk", "oom"), beside=True, seconds=25),
]

OBJECTS = [
    Case("A16", "no-descriptor-left", "descriptors.py", ("exit",), limits(timeout=20),
         states=FAILED, kinds=kinds("exit"), exit_code=5,
         check=every(refused("next", {"EMFILE"}), facts(errno="24"))),
    Case("A16", "no-descriptor-left-then-raises", "descriptors.py", ("raise",), limits(timeout=20),
         states=FAILED, kinds=kinds("exit", "exception"), exit_code=1,
         check=said("no descriptor left", "stderr")),
    Case("A16", "two-million-descriptors", "kernel_objects.c", ("fds",), limits(timeout=20),
         check=every(at_most("fds.count", 1 << 20, 16), refused("fds.end", {"EMFILE"}))),
    Case("A18", "timers-and-queued-signals", "kernel_objects.c", ("timers",), limits(timeout=20),
         check=every(at_most("timers.count", 256, at_least=100), at_most("signals.count", 256),
                     at_most("inotify.count", 0), refused("inotify.end", {"EMFILE"}),
                     refused("timers.end", checks.ENDINGS),
                     refused("signals.end", checks.ENDINGS))),
    Case("A19", "queues-and-semaphores", "kernel_objects.c", ("queues",),
         limits(timeout=20, memory="64M", disk="32M"), states=EITHER, kinds=kinds(None, "oom"),
         check=bounded_queues, seconds=15),
    Case("A39 B71 B72 B85", "raises-its-privileges", "privileges.c", (), limits(timeout=20),
         check=every(refused("priority.", {"EPERM", "EACCES", "ENOMEM", "ENOSYS"}, 14),
                     refused("identity.", {"EPERM", "EINVAL", "ENOSYS", "EACCES"}, 14),
                     refused("file.", {"EPERM", "EOPNOTSUPP", "ENOTSUP", "EACCES", "EINVAL"}, 2),
                     refused("mknod.", {"EPERM", "EROFS", "EACCES", "ENOENT"}, 45),
                     refused("opendev.", {"ENOENT", "ENXIO", "EACCES", "EPERM", "ENODEV"}, 46),
                     facts(CapInh="0" * 16, CapPrm="0" * 16, CapEff="0" * 16, CapBnd="0" * 16,
                           CapAmb="0" * 16, NoNewPrivs="1", Seccomp="2", groups="0"))),
    Case("A39 B71", "asks-for-what-nobody-needs", "options.py", (), limits(timeout=20),
         check=every(refused("option.", {"ENOPROTOOPT"}, 70),
                     refused("linger.", {"ok"}, 6), refused("lingers.", {"=0"}, 6),
                     refused("urgent.", {"EOPNOTSUPP", "ENOTSUP"}, 36),
                     refused("huge.", {"ENOMEM", "ENOSYS"}, 9), refused("priority.", {"EPERM"}, 6),
                     worked("usual.nodelay", "usual.keepalive", "usual.nice", "usual.priority",
                            "usual.affinity", "usual.map"))),
    Case("A40 A45", "crashes-a-hundred-times", "core.c", ("100",), limits(timeout=20),
         check=every(checks.no_core, worked("control.getrlimit"))),
]

DISK = [
    Case("A20", "one-big-file", "disk.py", ("fill",), limits(timeout=20, disk="20M"),
         states=FAILED, kinds=kinds("disk"), check=at_most("written_mb", 20, at_least=10)),
    Case("A21", "a-million-names", "disk.py", ("names",), limits(timeout=20, inodes=2000),
         states=FAILED, kinds=kinds("disk"), check=at_most("names", 2000, at_least=500)),
    Case("A21", "a-million-names-in-tmp", "disk.py", ("names", "/tmp"), limits(timeout=20),
         states=FAILED, kinds=kinds("disk", "exit", "exception", "oom"),
         check=at_most("names", 1_000_000, 100)),
    # The deeper the chain, the longer the kernel takes to judge a path: the clock may come first.
    Case("A22", "hundred-thousand-deep", "deep.c", ("100000",),
         limits(timeout=6, cpus=2, inodes=200_000, memory="512M", disk="256M"), states=ANY,
         kinds=kinds(None, "disk", "timeout"), check=at_most("depth", 100_000, 500), seconds=11),
    Case("A22", "deep-in-tmp", "deep.c", ("100000", "/tmp"), limits(timeout=3, cpus=2), states=ANY,
         kinds=kinds(None, "disk", "oom", "timeout"), check=at_most("depth", 100_000, 500),
         seconds=8),
    Case("A23", "twenty-thousand-entries", "disk.py", ("entries", "20000"),
         limits(timeout=20, inodes=30_000, memory="512M", disk="256M"), check=said("done"),
         out=True, seconds=18),
    Case("A24", "sparse-giants", "sparse.py", (), limits(timeout=20, disk="50M"), states=EITHER,
         kinds=kinds(None, "disk"), check=every(said("done"), checks.small_on_disk(50)), out=True,
         seconds=18),
    Case("A42", "syncs-without-end", "disk.py", ("sync", "2"), limits(timeout=20, disk="50M"),
         check=said("done"), beside=True),
]

OUTPUT = [
    Case("A26", "flood-on-stdout", "flood.c", ("out", str(GB), "lines"),
         limits(timeout=60, cpus=2), states=EITHER, kinds=kinds(None, "output"),
         check=flooded(GB, "stdout"), seconds=60),
    Case("A26", "ten-gigabytes-on-stdout", "flood.c", ("out", str(10 * GB)),
         limits(timeout=120, cpus=2), states=EITHER, kinds=kinds(None, "output"),
         check=flooded(10 * GB, "stdout"), seconds=120),
    Case("A27", "flood-on-stderr", "flood.c", ("err", str(GB), "lines"),
         limits(timeout=60, cpus=2), states=EITHER, kinds=kinds(None, "output"),
         check=flooded(GB, "stderr"), seconds=60),
    Case("A27", "flood-on-both", "flood.c", ("both", str(GB // 2), "lines"),
         limits(timeout=60, cpus=2), states=EITHER, kinds=kinds(None, "output"),
         check=flooded(GB // 2, "stdout", "stderr"), seconds=60),
    Case("A27", "one-line-of-two-gigabytes", "flood.c", ("out", str(2 * GB)),
         limits(timeout=60, cpus=2), states=EITHER, kinds=kinds(None, "output"),
         check=flooded(2 * GB, "stdout"), seconds=60),
    Case("A26", "endless-flood-meets-the-clock", "flood.c", ("both", str(10**15)),
         limits(timeout=2, cpus=2), states=frozenset({"timeout"}), kinds=kinds("timeout"),
         check=every(bounded("stdout"), bounded("stderr")), seconds=10),
]

TIME = [
    Case("A32", "spins-in-sixteen-processes", "hang.py", ("processes",), limits(timeout=3),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(3250, 3000), beside=True),
    Case("A32", "spins-in-64-threads", "hang.py", ("threads",), limits(timeout=3),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(3250, 3000), beside=True),
    Case("A33", "regular-expression-holds-the-lock", "hang.py", ("regex",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A33", "javascript-regular-expression", "bombs.js", ("regex",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A34", "sleeps", "hang.py", ("sleep",), limits(timeout=1), states=TIMEOUT,
         kinds=kinds("timeout"), check=ended_within(1250, 1000)),
    Case("A34", "reads-an-input-that-never-comes", "hang.py", ("stdin",), limits(timeout=1),
         states=TIMEOUT, kinds=kinds("timeout"), check=ended_within(1250, 1000), stdin="open"),
    Case("A43", "draws-random-numbers", "hang.py", ("random",), limits(timeout=2), states=TIMEOUT,
         kinds=kinds("timeout"), check=ended_within(2250, 2000), beside=True),
]

UNHAPPY = kinds("exit", "exception", "signal", "oom")

INTERPRETERS = [
    Case("A46", "python-recursion", "bombs.py", ("recursion",), limits(timeout=10), states=FAILED,
         kinds=kinds("exit", "exception"), check=said("RecursionError", "stderr")),
    Case("A46", "python-recursion-unlimited", "bombs.py", ("deep-recursion",), limits(timeout=10),
         states=frozenset({"failed", "timeout"}), kinds=UNHAPPY | kinds("timeout")),
    Case("A46", "python-power", "bombs.py", ("power",), limits(timeout=2),
         states=frozenset({"failed", "timeout"}), kinds=kinds("timeout", "oom", "exit",
                                                              "exception")),
    Case("A46", "python-billion-element-repr", "bombs.py", ("repr",), limits(timeout=10),
         states=FAILED, kinds=kinds("oom", "exit", "exception")),
    Case("A46", "python-traceback-of-50-mb", "bombs.py", ("traceback",), limits(timeout=20),
         states=FAILED, kinds=kinds("exit", "exception", "oom"), check=bounded("stderr")),
    Case("A46", "python-nested-list", "bombs.py", ("nested",), limits(timeout=10), states=FAILED,
         kinds=UNHAPPY),
    Case("A46", "python-parser", "bombs.py", ("parser",), limits(timeout=10), states=FAILED,
         kinds=UNHAPPY),
    Case("A46", "python-exception-chain", "bombs.py", ("chain",), limits(timeout=20),
         states=FAILED, kinds=UNHAPPY, check=bounded("stderr")),
    Case("A46", "python-never-leaves-its-exit-hook", "bombs.py", ("exit-hooks",),
         limits(timeout=2), states=TIMEOUT, kinds=kinds("timeout")),
    *[Case("A46", f"javascript-{mode}", "bombs.js", (mode,), limits(timeout=15),
           states=frozenset({"failed", "completed"}), kinds=UNHAPPY | NONE,
           check=every(bounded("stdout"), bounded("stderr")))
      for mode in ("recursion", "heap", "buffer", "string", "error", "reject")],
    Case("A46", "javascript-tick", "bombs.js", ("tick",), limits(timeout=1), states=TIMEOUT,
         kinds=kinds("timeout")),
]

KERNEL = [
    Case("B51 B52 B54 B55 B56 B64 B65 B66 B67 B68 B81", "refused-system-calls", "syscalls.c", (),
         limits(timeout=20),
         check=every(refused("mount.", at_least=20), refused("setns.", at_least=10),
                     refused("surface.", at_least=12), refused("keys.", at_least=4),
                     refused("handle.", at_least=2), refused("admin.", at_least=20),
                     refused("x86.", at_least=5), refused("ptrace.", at_least=10))),
    Case("B49", "every-namespace-by-every-call", "namespaces.c", (), limits(timeout=20),
         check=every(refused("unshare.", {"EPERM"}, 18), refused("clone.", {"EPERM"}, 30),
                     refused("clone3.", {"EPERM", "ENOSYS"}, 19), worked("control.fork"))),
    Case("B57 B59", "every-socket-family", "sockets.c", (), limits(timeout=30),
         check=checks.sockets),
    Case("B60 B61", "32-bit-and-x32-calls", "ia32.c", (), limits(timeout=30),
         check=every(refused("int80.", {"killed-SIGSYS", "killed-SIGKILL", "killed-SIGSEGV",
                                        "ENOSYS"}, 50), facts(**{"x32.answered": "0"}))),
    Case("B63", "pages-of-read-only-files", "readonly.c",
         ("/bin/sh", "/etc/passwd", "/usr/lib/x86_64-linux-gnu/libc.so.6"), limits(timeout=20),
         check=checks.readonly_files),
    Case("B70", "types-into-a-terminal", "tty.c", (), limits(timeout=20), stdin="tty",
         check=every(refused("tiocsti.", {"EPERM"}, 9), refused("tioclinux.", {"EPERM"}, 9),
                     refused("tiocsetd.", {"EPERM"}, 90), worked("control.ptmx", "control.pty"),
                     refused("controlling.tty", {"ENXIO", "EPERM", "EACCES", "ENOENT"}),
                     facts(fd0="not-a-tty", fd1="not-a-tty", fd2="not-a-tty"))),
    Case("B73 B74 B79 B80 B93", "long-lists-of-paths", "paths.py", (), limits(timeout=20),
         check=checks.paths),
    Case("B75 B86", "writes-wherever-it-can", "writable.py", (), limits(timeout=60),
         check=every(checks.writable, worked("control.workspace", "control.tmp", "control.null")),
         seconds=60),
    Case("B54 B77 C91", "looks-into-other-processes", "processes.py", (), limits(timeout=20),
         check=checks.processes),
    Case("B78", "leaked-descriptors", "fds.c", (), limits(timeout=20),
         check=checks.only_standard_fds),
    Case("B83", "runs-from-memory", "memexec.c", (), limits(timeout=20),
         check=refused("inner.", checks.REFUSED | {"EAFNOSUPPORT"}, 6)),
]

PYTHON_ENVIRONMENT = {
    "PATH", "HOME", "LANG", "MPLBACKEND", "MPLCONFIGDIR", "PYTHONDONTWRITEBYTECODE",
    "PYTHONNOUSERSITE", "PYTHONUNBUFFERED",
}
SHELL_ENVIRONMENT = {"PATH", "HOME", "LANG"}

DOORS_SHUT = every(
    refused("stream:", {"ENOENT", "EACCES", "EPERM", "ECONNREFUSED"}, 9),
    refused("dgram:", {"ENOENT", "EACCES", "EPERM", "ECONNREFUSED", "EPROTOTYPE"}, 9),
    refused("abstract:", {"ECONNREFUSED", "EPERM", "EACCES"}, 3),
    refused("tcp", {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES",
                    "EADDRNOTAVAIL", "EINVAL"}, 20),
    refused("udp:", {"ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES"}, 5),
    refused("name:", {"gaierror"}, 3),
    refused("ioctl.", {"EPERM", "EACCES", "ENOTTY", "EINVAL"}, 3),
    facts(sockets=""), worked("control.loopback"))

LEAKS = [
    Case("C90", "python-environment", "environment.py", (), limits(timeout=10),
         check=checks.environment(PYTHON_ENVIRONMENT)),
    Case("C90", "shell-environment", "environment.sh", (), limits(timeout=10),
         check=checks.environment(SHELL_ENVIRONMENT, frozenset({"PWD", "SHLVL", "_"}))),
    Case("C94", "doors-of-the-host", "reach.py", (), limits(timeout=60), check=DOORS_SHUT,
         seconds=60),
    Case("C98 C99", "who-is-the-host", "identity.py", (), limits(timeout=30),
         check=checks.identity, seconds=30),
    Case("C100 C105", "links-for-the-host-to-follow", "artifacts.py", (), limits(timeout=20),
         check=checks.fetched, out=True),
]

# With a way out there is one more door, the proxy's, and every other is as shut as before.
NETWORK = [
    Case("D106 D107 D108 D111", "doors-beside-the-proxy", "reach.py", (),
         limits(timeout=60, network="allow", allow="example.com"), check=DOORS_SHUT, seconds=60),
    Case("D106 D107 D108 D111", "doors-beside-package-indexes", "reach.py", (),
         limits(timeout=60, network="packages"), check=DOORS_SHUT, seconds=60),
]

# What holds these back is the same code in both modes, so one mode tries them.
ALIKE = {
    "python-recursion", "python-traceback-of-50-mb", "python-nested-list", "python-parser",
    "python-exception-chain", "python-never-leaves-its-exit-hook", "javascript-recursion",
    "javascript-error", "javascript-reject", "javascript-tick", "javascript-regular-expression",
    "flood-on-stderr", "one-line-of-two-gigabytes", "ten-gigabytes-on-stdout",
    "ten-times-memory-to-disk", "draws-random-numbers", "syncs-without-end",
}


def once(case: Case) -> Case:
    if case.name not in ALIKE:
        return case
    return replace(case, rootless="the same code as in root mode, tried there")


TABLE = [*PROCESSES, *MEMORY, *OBJECTS, *DISK, *OUTPUT, *TIME, *INTERPRETERS, *KERNEL, *LEAKS, *NETWORK]
CASES = [once(case) for case in TABLE]
assert ALIKE <= {case.name for case in TABLE}
