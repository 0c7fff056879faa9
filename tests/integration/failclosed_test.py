# SPDX-License-Identifier: Apache-2.0
"""Every system call that seals a sandbox is made to fail once; user code must not start, or be sealed as ever.

A run without failures lists the calls of the sealing child (from its clone to the exec of cove-init)
and of the spawner (at its start, and from the request to its answer). Then each call fails alone, with EPERM, by
failcall.c. The program that would run says how it is sealed; the host adds what it sees from outside.
"""
import contextlib
import json
import os
import pathlib
import platform
import re
import select
import subprocess
import time

import pytest

import covetest
from covetest import CGROUP_PARENT, PATIENCE, Cove, read_text

HERE = pathlib.Path(__file__).resolve().parent
EPERM = 1

pytestmark = [
    pytest.mark.skipif(not covetest.IS_ROOT, reason="tracing the spawner needs root"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="failcall.c knows the registers of x86-64 only"),
]

# Calls that may fail with no effect on the seal: stretch, name, its texts, why. Everything else must
# keep user code from starting.
NO_REST = "a sandbox that cannot be waited for in the set is polled for"
CLOSE = "Linux lets go of the descriptor whatever close() answers"
STATISTICS = "a counter that is read: statistics"
LEFTOVERS = "looks for what a crashed spawner left"
CLOEXEC = "musl asks for close-on-exec again, for kernels that did not know the flag of open() and F_DUPFD_CLOEXEC"
HARMLESS = [
    ("child", "close", "", CLOSE),
    ("child", "fcntl", "^<.*> 0x2$", CLOEXEC),
    ("child", "rt_sigprocmask", "", "musl holds signals back while it changes ids"),
    ("start", "fcntl", "^</.*> 0x2$", CLOEXEC),
    ("create", "fcntl", "^</.*> 0x2$", CLOEXEC),
    ("start", "munmap", "", "memory that is not given back"),
    ("create", "close", "", CLOSE),
    ("create", "setsockopt", "", "a larger buffer for long command lines"),
    ("create", "fcntl", "slots> 0x25", "the lock of one slot: the next slot is taken"),
    ("create", "openat", r"(usage|oom_control|pids\.events|pids\.current|memory\.(peak|events)|cpu\.stat)", STATISTICS),
    ("create", "read", "", STATISTICS),
    ("create", "getrandom", "", "the name of a directory of our own, drawn once or, one time in twenty, twice"),
    ("start", "close", "", CLOSE),
    ("start", "openat", "/proc/self/uid_map", "root is taken for the machine's when the map does not tell"),
    ("start", "read", "uid_map", "root is taken for the machine's when the map does not tell"),
    ("start", "fsopen", '"overlay"', "asks whether there are overlays, of which each create makes one"),
    ("start", "getrandom", "", "which slot is tried first"),
    ("start", "openat", r'"\."', LEFTOVERS),
    ("start", "newfstatat", "cgroup", LEFTOVERS),
    ("start", "fcntl", "cgroup", LEFTOVERS),
    ("start", "getdents64", "", LEFTOVERS),
    ("start", "epoll_create1", "", NO_REST),
    *[(role, name, "kmem.tcp", "not there is one answer, no answer is another")
      for role in ("start", "create") for name in ("faccessat", "faccessat2")],  # musl's, and the other C library's
    ("create", "epoll_create1", "", NO_REST),
    ("create", "epoll_ctl", "", NO_REST),
    ("start", "prctl", "^0x4 ", "keeps other processes of root's from reading the spawner"),
]
# Hierarchies and files of cgroups that hold no limit on this host: time is counted, sessions are frozen, and all are killed at
# once, by other means too. A sandbox lacks the group then, and no other.
EXTRA_GROUPS = [("start", name, r"cpuacct|unified|cgroup\.|/proc/\w+/cgroup", "no limit depends on it")
                for name in ("open", "openat", "mkdirat", "read", "write")]
# As root the user namespace is an extra layer: without it the sandbox runs as its own host uid. These
# calls make it, or end the loop that prepares it.
USER_NAMESPACE = [
    ("child", "unshare", r"^0x10000000\b", "the user namespace itself"),
    ("child", "prctl", r"^0x18 0x(29|2a|2b)\b", "asks for the first capability that does not exist"),
]
# Without device nodes of its own a sandbox gets the host's harmless ones mounted, one by one.
DEVICE_NODES = [("create", "mknodat", "", "the host's node is mounted instead")]
# The overlay that hides an image's path on the host, which a kernel may not have for us: the calls from
# fsopen("overlay") to its fsmount.
VEIL_CALLS = {("create", name) for name in ("fsopen", "fsconfig", "fsmount")}
# The kernel has no way to fail these.
CANNOT_FAIL = {("child", "umask"), ("start", "geteuid"), ("start", "getuid"), ("start", "getpid"), ("start", "umask"),
               ("create", "geteuid"), ("create", "umask"), ("start", "capget")}  # of the own thread, with good pointers
# Always tried, every one of them; of other kinds the default run takes a sample.
ALWAYS = {"mount", "umount2", "pivot_root", "setresuid", "setresgid", "setgroups", "capset", "capget", "seccomp",
          "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "unshare", "write", "clone3",
          "fsopen", "fsmount", "move_mount", "mount_setattr", "open_tree", "setsid", "chdir", "fchdir", "chroot",
          "execveat", "close_range", "sendto", "recvfrom", "poll", "mkdirat", "fchownat", "openat2", "mknodat"}
SAMPLE = 6  # of each other kind, spread evenly


class Call:
    """One line of failcall's log."""

    def __init__(self, line, names):
        index, number, *rest = line.split(" ", 2)
        self.index, self.name = int(index), names.get(int(number), number)
        self.text = rest[0] if rest else ""
        # What stays the same from run to run.
        self.shape = (self.name, *re.findall(r'"([a-z_./]{2,})"', self.text)[:1])

    def __str__(self):
        return f"call {self.index}: {self.name}({self.text})"

    def matches(self, role, rules):
        return any(role == rule[0] and self.name == rule[1] and re.search(rule[2], self.text) for rule in rules)


class Outcome:
    """What became of one run."""

    def __init__(self, calls, report, status, stderr):
        self.calls, self.report, self.status, self.stderr = calls, report, status, stderr


class Tracer:
    """Runs the report inside a sandbox whose sealing is traced."""

    def __init__(self, folder):
        self.folder, self.program = folder, folder / "failcall"
        subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-o", str(self.program),
                        str(HERE / "failcall.c")], check=True)
        macros = subprocess.run(["gcc", "-dM", "-E", "-include", "sys/syscall.h", "-"], input="", text=True,
                                capture_output=True, check=True).stdout
        self.names = {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", macros)}

    def watch(self, zygote_pid, index=-1):
        """Lets one call of the next process that this zygote clones fail; answers the tracer, at work."""
        watcher = subprocess.Popen([self.program, "warm", str(index), str(EPERM), self.folder / "log", str(zygote_pid)],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert watcher.stdout.readline() == b"watching\n"
        return watcher

    @contextlib.contextmanager
    def watch_tree(self, pid, index=-1):
        """Lets one call of this process, or of those that it makes meanwhile, fail."""
        watcher = subprocess.Popen([self.program, "tree", str(index), str(EPERM), self.folder / "log", str(pid)],
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            assert watcher.stdout.readline() == b"watching\n"
            yield
        finally:
            watcher.terminate()
            watcher.wait()
            watcher.stdout.close()

    def calls(self):
        return [Call(text, self.names) for text in read_text(self.folder / "log").splitlines()]

    def run(self, role, index=-1):
        log, wrapper = self.folder / "log", self.folder / "spawner"
        log.unlink(missing_ok=True)
        wrapper.write_text(f"#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\n"
                           f'exec {self.program} {role} {index} {EPERM} {log} {Cove().spawner} "$@"\n')
        wrapper.chmod(0o755)
        process = Cove().start("run", "--spawner", wrapper, HERE / "sealreport.py", stdin=subprocess.PIPE)
        try:
            line = first_line(process)
            report = json.loads(line) | look_from_outside(process.pid) if line else None
            _, stderr = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        return Outcome(self.calls(), report, process.returncode, stderr.decode(errors="replace"))


def first_line(process):
    """The report, or nothing when the run ended without one."""
    end, data = time.monotonic() + PATIENCE, b""
    while not data.endswith(b"\n"):
        assert select.select([process.stdout], [], [], max(end - time.monotonic(), 0))[0], "neither report nor end"
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            break
        data += part
    return data


def look_from_outside(pid):
    """Cgroups, their limits, namespaces and uids of the program, as the host sees them."""
    inside = [p for p in covetest.descendants(pid) if len(covetest.status_of(p).get("NSpid", "").split()) > 1]
    assert len(inside) == 2, f"cove-init and one program, not {inside}"
    program = inside[-1]
    groups = {name: path for name, path in covetest.groups_of(program).items()}
    limits = {}
    for folder in covetest.sandbox_groups():
        for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes",
                     "memory.swappiness", "pids.max", "cpu.cfs_quota_us", "cpu.max", "memory.max", "memory.swap.max"):
            if (folder / name).exists():
                limits[name] = read_text(folder / name)
    spaces = {name: os.readlink(f"/proc/{program}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
              for name in ("cgroup", "ipc", "mnt", "net", "pid", "uts", "user")}
    user_space = spaces.pop("user")
    uids = covetest.uids_of(program)
    return {"host": {
        "groups": {name: re.sub(r"\d+$", "N", path) for name, path in groups.items() if CGROUP_PARENT in path},
        "limits": limits,
        "namespaces": spaces,
        "uid_of_its_own": len(uids) == 1 and uids.pop() in covetest.SANDBOX_UIDS,
    }, "user_namespace": user_space}


@pytest.fixture(scope="module")
def tracer(tmp_path_factory):
    return Tracer(tmp_path_factory.mktemp("failcall"))


@pytest.fixture(scope="module")
def normal(tracer):
    """Calls of both processes, and the report of a run in which nothing fails."""
    outcomes = {role: tracer.run(role) for role in ("child", "start", "create")}
    for outcome in outcomes.values():
        assert outcome.report and outcome.status == 0, outcome.stderr
        assert outcome.report == outcomes["child"].report, "the report is the same from run to run"
    return outcomes


def without_user_namespace(report):
    """What the user namespace changes, taken out."""
    return {key: value for key, value in report.items() if key not in ("ids", "user_namespace")}


def with_own_nodes(report):
    """Mounted device nodes, taken out; what they are stays in `devices`."""
    nodes = [row for row in report["mounts"] if re.search(r" /dev/(null|zero|full|random|urandom|tty) ", row)]
    devices = {name: kind.split()[-1] for name, kind in report["devices"].items()}
    return report | {"mounts": [row for row in report["mounts"] if row not in nodes], "devices": devices}


def with_limits_only(report):
    """Groups that hold no limit, taken out."""
    held = {name: path for name, path in report["host"]["groups"].items() if name not in ("cpuacct", "freezer", "")}
    return report | {"host": report["host"] | {"groups": held}}


def makes_veil(calls, call):
    """Whether this call belongs to the overlay's mount: the last fsopen before it says so."""
    opened = [c for c in calls[:call.index + 1] if c.name == "fsopen"]
    return bool(opened) and '"overlay"' in opened[-1].text


def without_veil(report):
    """The type, source and own options of the root's mount, taken out; its flags stay."""
    root = [row for row in report["mounts"] if row.split()[1] == "/"]
    assert len(root) == 1 and {"ro", "nosuid", "nodev"} <= set(root[0].split()[2].split(",")), root
    return report | {"mounts": [row for row in report["mounts"] if row not in root]}


def complaint(role, call, outcome, normal):
    """What is wrong with a run in which this call failed, or None."""
    seen, usual = outcome.report, normal[role].report
    if seen is None:
        if outcome.status == 0 or not outcome.stderr:
            return f"refused, but status {outcome.status} and {outcome.stderr!r} do not say so"
        return None
    if call.matches(role, USER_NAMESPACE):
        if seen["ids"]["is_root"] or seen["ids"]["uids"] != 1:
            return f"runs with the ids {seen['ids']}"
        seen, usual = without_user_namespace(seen), without_user_namespace(usual)
    elif call.matches(role, DEVICE_NODES):
        seen, usual = with_own_nodes(seen), with_own_nodes(usual)
    elif (role, call.name) in VEIL_CALLS and makes_veil(normal[role].calls, call):
        seen, usual = without_veil(seen), without_veil(usual)
    elif call.matches(role, EXTRA_GROUPS):
        seen, usual = with_limits_only(seen), with_limits_only(usual)
    elif not call.matches(role, HARMLESS):
        return "user code ran"
    if seen != usual:
        wrong = {key: (value, seen.get(key)) for key, value in usual.items() if seen.get(key) != value}
        return f"user code ran with another seal: {wrong}"
    return None


def choose(role, calls, is_long):
    """All calls, or all of the kinds that matter most and an even sample of the others."""
    calls = [call for call in calls if (role, call.name) not in CANNOT_FAIL]
    if is_long:
        return calls
    by_name = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    chosen = []
    for name, same in by_name.items():
        step = 1 if name in ALWAYS else max(len(same) // SAMPLE, 1)
        chosen += same[::step]
        if same[-1] not in chosen:
            chosen.append(same[-1])
    return sorted(chosen, key=lambda call: call.index)


def place_of(call, calls, usual):
    """Where this call is in another run's list: the same kind, for the same time."""
    turn = sum(other.shape == call.shape for other in usual[:call.index])
    same = [other.index for other in calls if other.shape == call.shape]
    return same[turn] if turn < len(same) else call.index


def fail_one(tracer, role, call, usual):
    """Makes exactly this call fail; what others do on the host (a slot that is taken) may shift the count."""
    index = call.index
    for _ in range(10):
        outcome = tracer.run(role, index)
        if index < len(outcome.calls) and outcome.calls[index].shape == call.shape:
            return outcome
        index = place_of(call, tracer.run(role).calls, usual)
    raise AssertionError(f"{call} is not made again; now it is {outcome.calls[index] if outcome.calls else None}")


def try_each(tracer, normal, role, calls):
    wrong = []
    for call in calls:
        outcome = fail_one(tracer, role, call, normal[role].calls)
        why = complaint(role, call, outcome, normal)
        if why:
            wrong.append(f"{call}: {why}")
        if "cove-spawner went away" in outcome.stderr:  # it crashed, and whoever comes next cleans up
            Cove().good("-c", "")
        covetest.nothing_is_left()
    assert not wrong, f"{len(wrong)} of {len(calls)} calls:\n" + "\n".join(wrong)
    return len(calls)


def test_the_listing_is_that_of_a_sealing_child(normal):
    names = [call.name for call in normal["child"].calls]
    for name in ("write", "unshare", "setsid", "mount", "move_mount", "fsmount", "pivot_root", "umount2", "prlimit64",
                 "setgroups", "setresgid", "setresuid", "prctl", "capset", "landlock_restrict_self", "close_range",
                 "seccomp"):
        assert name in names, name
    assert names[-1] == "execveat"
    assert names.index("pivot_root") < names.index("setresuid") < names.index("seccomp")


def test_a_normal_run_is_sealed(normal):
    report = normal["child"].report
    status = report["status"]
    assert {status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Groups"]) == ("1", "2", "")
    assert report["landlock"] == 13 and report["write_root"] in (13, 30)
    assert not report["ids"]["is_root"] and report["user_namespace"]
    assert report["open"] == [] and report["hostname"] == "cove"
    assert set(report["host"]["namespaces"].values()) == {True}
    assert report["host"]["uid_of_its_own"]
    assert report["host"]["limits"]["pids.max"] == "128\n"


def test_each_call_of_the_sealing_child_fails_closed(tracer, normal, is_long):
    try_each(tracer, normal, "child", choose("child", normal["child"].calls, is_long))


def test_each_call_of_the_create_path_fails_closed(tracer, normal, is_long):
    try_each(tracer, normal, "create", choose("create", normal["create"].calls, is_long))


def test_each_call_of_the_spawners_start_fails_closed(tracer, normal, is_long):
    try_each(tracer, normal, "start", choose("start", normal["start"].calls, is_long))


def test_root_without_capabilities_is_refused():
    """Rootless from there, code inside would have the uid of the host's root, whose processes no one counts."""
    weak = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run([*weak, *Cove().argv("run", "-c", "print('ran')")], env=covetest.environment(),
                          capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (covetest.EXIT_ISOLATION, "")
    assert "root without its capabilities" in done.stderr
