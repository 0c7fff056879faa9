# SPDX-License-Identifier: Apache-2.0
"""Runs in the machine, as root: does the checks of the machines that it is and prints a line for each.

Nothing but this program runs there, so that whatever is new after a run was left behind by it.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import tempfile
import time

import machines

COVE = "/payload/bin/cove"
TESTS = "/payload/tests/integration"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
DELEGATED_PREFIX = "delegated-"
SLOWNESS_S = 90  # what may come on top of the time of any command
SETTLE_S = 5  # until a process that has ended is gone
KERNEL_THREADS = 2  # parent of all of them
CLONE_NEWNS, CLONE_NEWCGROUP, MS_REC, MS_PRIVATE = 0x00020000, 0x02000000, 16384, 1 << 18
MANAGED = (machines.NESTED, machines.UNMOUNTED, machines.SCOPE, machines.SHELL, machines.MARKED, machines.DELEGATED)  # in a group that was made for them
LEAF = "cove-server"  # of those who stood in the way
HELD_BYTES = 96 << 20  # by each of two, of which there is room for one


class Failure(Exception):
    """A check does not hold; the text says what was seen instead."""


def expect(is_true, text):
    if not is_true:
        raise Failure(text)


# --- starting Cove -------------------------------------------------------------------------------

def delegated_cgroup(who):
    """Gives the user a new cgroup, as a service manager does for each service"""
    for name in ("memory", "pids", "cpu"):
        if name in (CGROUPS / "cgroup.controllers").read_text().split():
            (CGROUPS / "cgroup.subtree_control").write_text(f"+{name}")
    user = pwd.getpwnam("cove" if who == machines.DELEGATED else "root")
    group = pathlib.Path(tempfile.mkdtemp(prefix=DELEGATED_PREFIX, dir=CGROUPS))
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(group / name, user.pw_uid, user.pw_gid)
    return group


def remove_delegated_cgroups():
    for group in CGROUPS.glob(DELEGATED_PREFIX + "*"):
        for path, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # not empty: it was reported as left behind
                os.rmdir(path)


def is_root(who):
    return who not in (machines.USER, machines.DELEGATED)


def enter_group(group):
    """Where controllers are handed down nobody can come in, so one follows those who were there, as runc's exec does."""
    try:
        (group / "cgroup.procs").write_text("0")
    except OSError:
        (group / LEAF / "cgroup.procs").write_text("0")


def enter_namespace(is_mounted):
    """As container programs do: the group that we are in is the root of all from now on."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name, *arguments):
        if getattr(libc, name)(*arguments) != 0:
            raise OSError(ctypes.get_errno(), name)

    call("unshare", CLONE_NEWNS | CLONE_NEWCGROUP)
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    if is_mounted:
        call("umount2", str(CGROUPS).encode(), 2)
        call("mount", b"cgroup2", str(CGROUPS).encode(), b"cgroup2", ctypes.c_ulong(0), None)


bystanders = []


def end_bystanders():
    """-> whether each is where it belongs: moved aside only out of what was delegated"""
    are_there = True
    while bystanders:
        process, place = bystanders.pop()
        where = pathlib.Path(f"/proc/{process.pid}/cgroup").read_text().strip().removeprefix("0::/")
        are_there = are_there and CGROUPS / where == place
        process.kill()
        process.wait()
    return are_there


def become(who, group=None):
    """-> what a child does before it executes Cove"""
    if who == machines.ROOT:
        return None
    user = pwd.getpwnam("root" if is_root(who) else "cove")
    group = group or (delegated_cgroup(who) if who in MANAGED else None)
    if who in (machines.SHELL, machines.MARKED):
        bystander = subprocess.Popen(["sleep", "60"])
        bystanders.append((bystander, group / LEAF if who == machines.MARKED else group))
        (group / "cgroup.procs").write_text(str(bystander.pid))
    if who == machines.MARKED:
        os.setxattr(group, "user.delegate", b"1")

    def change():
        if group:
            enter_group(group)
        if who in (machines.NESTED, machines.UNMOUNTED):
            enter_namespace(who == machines.NESTED)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return change


def environment(who):
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    if is_root(who):
        return dict(env, HOME="/root")
    return dict(env, HOME="/home/cove", USER="cove", XDG_RUNTIME_DIR="/run/user/1000")


def start(who, arguments, out, err, group=None):
    return subprocess.Popen([COVE, *arguments], env=environment(who), preexec_fn=become(who, group),
                            cwd="/tmp", stdin=subprocess.DEVNULL, stdout=out, stderr=err)


def cove(who, *arguments, limit_s=0):
    """-> a CompletedProcess. Output goes to files: a pipe ends only with all who hold it, and a
    process that Cove left running would look like Cove being slow."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(who, arguments, out, err)
        try:
            process.wait(limit_s + SLOWNESS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failure(f"cove {arguments[0]} hung for {limit_s + SLOWNESS_S} s") from None
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, process.returncode, out.read(), err.read())


def parse(done, what):
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failure(f"{what} printed no JSON: exit {done.returncode}, {done.stdout[-300:]!r}, "
                      f"{done.stderr[-500:]!r}") from None


# --- what is there -------------------------------------------------------------------------------

def processes():
    """All but the kernel's own, as {pid: name}"""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text() if entry.isdigit() else ""
        except OSError:
            continue
        if not stat:
            continue
        name, rest = stat.split("(", 1)[1].rsplit(")", 1)
        parent = int(rest.split()[1])
        if parent != KERNEL_THREADS and int(entry) != KERNEL_THREADS:
            found[int(entry)] = name
    return found


def cgroups():
    """Those of single sandboxes, and others with something in them; empty parents may stay."""
    found = set()
    for path, _, _ in os.walk(CGROUPS):
        try:
            populated = pathlib.Path(path, "cgroup.procs").read_text() != ""
        except OSError:
            continue
        if populated or os.path.basename(path).isdigit():
            found.add(f"cgroup {path}")
    return found


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return {f"mount {line.split()[4]} ({line.split(' - ')[1].split()[0]})" for line in lines}


def things():
    return {f"process {pid} ({name})" for pid, name in processes().items()} | cgroups() | mounts()


def left_behind(before):
    """What is new, once all that is about to end has had time for it"""
    end = time.monotonic() + SETTLE_S
    while (left := things() - before) and time.monotonic() < end:
        pass
    return sorted(left)


# --- one function for each kind of check ---------------------------------------------------------

def layers_of(report):
    return {layer["name"]: layer for layer in report["layers"]}


def check_doctor(check):
    done = cove(check.who, "doctor", "--json")
    report = parse(done, "doctor")
    layers = layers_of(report)
    not_held = [name for name, layer in layers.items() if not layer["holds"]]
    place, path = report.get("cgroup_place"), report.get("cgroup_path")  # which no one looks for where no sandbox can be made
    expect(report["tier"] == check.tier, f"tier {report['tier']}, not held: {not_held}; {place}, {path}")
    expect(check.place in (None, place), f"groups are {place}, {path}")
    is_default = check.tier in ("T1", "T2")
    expect((done.returncode == 0) == is_default, f"exit code {done.returncode}")
    for name in check.holding:
        expect(layers[name]["holds"] is True, f"{name} does not hold: {layers[name]}")
    for name in check.missing:
        layer = layers[name]
        expect(layer["holds"] is False, f"{name} is said to hold: {layer}")
        expect(layer["required"] == (not is_default), f"{name}: required is {layer['required']}")
        expect(layer["hint"], f"{name} has no hint")
    text = cove(check.who, "doctor")
    expect((text.returncode == 0) == is_default, f"exit code {text.returncode} without --json")
    for name in check.missing:
        expect(name in text.stdout, f"{name} is not in {text.stdout!r}")


def is_expected_end(check, result):
    kind = (result["reason"] or {}).get("kind")
    if kind is None:
        return None in check.kinds and result["exit_code"] == 0 and result["state"] == "completed"
    if kind == "exit":
        return check.or_error is not None and check.or_error in result["stderr"]
    return kind in check.kinds and result["state"] in ("failed", "timeout")


def check_run(check):
    done = cove(check.who, "run", "--json", "-l", check.language, "--timeout", str(check.timeout_s),
                *check.options, "-c", check.code, limit_s=check.timeout_s)
    result = parse(done, "run")
    seen = {name: result.get(name) for name in ("state", "exit_code", "signal", "reason", "stdout")}
    seen["stderr"] = result["stderr"][-500:]
    expect(is_expected_end(check, result), f"ended as {seen}; {done.stderr[-300:]!r}")
    expect(check.stdout in (None, result["stdout"]), f"ended as {seen}")


def check_refused(check):
    hints = layers_of(parse(cove(check.who, "doctor", "--json"), "doctor"))
    done = cove(check.who, "run", *check.options, "-c", "print('started')")
    expect("started" not in done.stdout, "the program was started")
    expect(done.returncode != 0, "exit code 0")
    # Which of several missing layers is named first does not matter; one must be, with its hint.
    named = [name for name in check.layers if name in done.stderr]
    expect(named, f"no missing layer is named in {done.stderr!r}")
    helps = ["cove doctor", *(hints[name]["hint"] for name in named)]
    expect(any(text in done.stderr for text in helps), f"no hint in {done.stderr!r}")


def check_killed(check):
    code = "import time; print('started', flush=True); time.sleep(1000)"
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(check.who, ["run", "-c", code], out, err)
        end = time.monotonic() + SLOWNESS_S
        while os.pread(out.fileno(), 100, 0) != b"started\n" and time.monotonic() < end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
        is_running = process.poll() is None
        process.kill()
        process.wait()
        err.seek(0)
        expect(is_running, f"it ended by itself: {err.read()[-300:]!r}")


def wait_for_text(file, text, process):
    end = time.monotonic() + SLOWNESS_S
    while text not in os.pread(file.fileno(), 1000, 0).decode() and process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    return text in os.pread(file.fileno(), 1000, 0).decode()


def check_shared(check):
    """The second one has no room: who is killed for that is up to the kernel, which counts for the group of both."""
    code = f"import time; held = bytearray(b'x') * {HELD_BYTES}; print('held', flush=True); time.sleep(1000)"
    group = delegated_cgroup(check.who)
    limit = HELD_BYTES * 7 // 4
    (group / "memory.max").write_text(str(limit))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        runs = [start(check.who, ["run", "--memory", "256M", "-c", code], out, err, group)]
        try:
            expect(wait_for_text(out, "held", runs[0]), f"the first one ended by itself: {os.pread(err.fileno(), 1000, 0)}")
            runs.append(start(check.who, ["run", "--memory", "256M", "-c", code], out, err, group))
            wait_for_text(out, "held\nheld", runs[1])
        finally:
            end = time.monotonic() + SETTLE_S  # a run that lost its sandbox says so and ends
            while all(run.poll() is None for run in runs) and time.monotonic() < end:
                pass
            has_ended = any(run.poll() is not None for run in runs)
            for run in runs:
                run.kill()
                run.wait()
    events = dict(line.split() for line in (group / "memory.events").read_text().splitlines())
    peak = int((group / "memory.peak").read_text())
    expect(peak <= limit and peak > HELD_BYTES, f"the group held {peak} bytes, and may hold {limit}")
    expect(int(events["oom_kill"]) > 0 and has_ended, f"two had room: {events}, peak {peak}")


WARM_CODE = """
import os
fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(os.getuid(), os.getpid(), *(fields[n].strip() for n in ("NoNewPrivs", "Seccomp")), int(fields["CapBnd"], 16))
"""


def offered(score, then):
    """For preexec_fn: the first to be killed when memory is short, then `then`."""
    def offer():
        pathlib.Path("/proc/self/oom_score_adj").write_text(str(score))
        if then:
            then()
    return offer


def check_warm(check):
    run_dir = tempfile.mkdtemp(prefix="run-", dir="/tmp")
    if not is_root(check.who):
        user = pwd.getpwnam("cove")
        os.chown(run_dir, user.pw_uid, user.pw_gid)
    done = subprocess.run(
        ["python3", "-B", f"{TESTS}/warm_client.py", "/payload/bin/cove-spawner", "/payload/images/python/kernel.py", WARM_CODE,
         "--store", "/var/lib/cove/images", "--run-dir", run_dir, *check.options],
        env=environment(check.who), preexec_fn=offered(check.oom_score, become(check.who)), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=4 * SLOWNESS_S)
    result = parse(done, "warm_client")
    if check.failure:
        expect(check.failure in (result["failure"] or ""), f"ended as {result}; {done.stderr[-500:]!r}")
        return
    expect(result["failure"] is None and result["status"] == 0, f"ended as {result}; {done.stderr[-500:]!r}")
    outputs = [made["output"] for made in result["made"]]
    expect(outputs == ["1000 2 1 2 0\n"] * 3, f"ended as {result}")


def check_pool(check):
    """Every session that is taken was parked, ran its code and went."""
    env = environment(machines.ROOT) | {"COVE_SPAWNER": "/payload/bin/cove-spawner"}
    done = subprocess.run(["/payload/bin/bench-session", "pooled", str(check.count)], env=env, cwd="/payload", text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=4 * SLOWNESS_S)
    expect(done.returncode == 0, f"ended as {done.returncode}: {done.stderr[-500:]!r}")
    rows = {row["what"]: row for row in map(json.loads, done.stdout.splitlines())}
    expect("create, pooled" in rows and rows["create, pooled"]["count"] == check.count, f"it measured {rows}")


def check_tests(check):
    """The sum in the last line is all that pytest is asked for; a test that is skipped shows nothing here."""
    env = environment(machines.ROOT) | {
        "COVE_BUILD_DIR": "/payload/bin", "COVE_TEST_SLOWNESS": str(machines.SLOWNESS),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(["python3", "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
                           "-k", " or ".join(f"({word})" for word in check.words), check.file],
                          env=env, cwd=TESTS, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=4 * SLOWNESS_S)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    expect(done.returncode == 0 and "skipped" not in last, f"{last}\n{done.stdout[-4000:]}\n{done.stderr[-500:]}")


KINDS = {
    machines.Tests: (check_tests, lambda c: c.title),
    machines.Pool: (check_pool, lambda c: f"a pool gives {c.count} sessions"),
    machines.Doctor: (check_doctor, lambda c: f"doctor says {c.tier or 'no tier'}"
                      + (f" without {', '.join(c.missing)}" if c.missing else "")),
    machines.Run: (check_run, lambda c: " ".join(
        [c.title, *(o for o in c.options if o == "--allow-degraded")])),
    machines.Refused: (check_refused, lambda c: " ".join(["run is refused", *c.options])),
    machines.Warm: (check_warm, lambda c: f"no zygote: {c.failure}" if c.failure else "a zygote makes sandboxes"
                    + (" that the kernel is to kill first" if c.oom_score else "")),
    machines.Shared: (check_shared, lambda c: "a group's limit holds for all sandboxes together"),
    machines.Killed: (check_killed, lambda c: "nothing is left when cove is killed"),
}


def perform(run, check):
    """-> what is wrong: with the check, and with what it left behind"""
    before, pids = things(), processes().keys()
    problems = []
    try:
        run(check)
    except Failure as failure:
        problems.append(str(failure))
    except Exception as error:  # of the answer's shape, say: the other checks go on
        problems.append(f"{type(error).__name__}: {error}")
    if not end_bystanders():
        problems.append("somebody else is not where he belongs")
    if left := left_behind(before):
        problems.append(f"left behind: {', '.join(left)}")
    for pid in processes().keys() - pids:  # they would spoil the next check
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    remove_delegated_cgroups()
    return "; ".join(problems)


def main():
    failed = 0
    for machine, check in ((m, check) for m in machines.MACHINES if m.name in sys.argv[1:] for check in m.checks):
        run, describe = KINDS[type(check)]
        begin = time.monotonic()
        problem = perform(run, check)
        failed += bool(problem)
        line = f"{machine.name}: as {check.who}: {describe(check)} ({time.monotonic() - begin:.1f} s)"
        print(f"FAIL {line}: {problem}" if problem else f"ok   {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
