"""Runs every hostile program of the table, in each mode, and looks at the host afterwards."""
from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

import checks
import covetest
import harness
import host
from cases import CASES, Case, limits
from invariants import Baseline, assert_invariants

PEAK_LIMIT_KB = 64 * 1024
BESIDE_SLACK_SECONDS = 1.5
SLACK_MS = 250  # between a time limit and the end of what ran into it; the limits of cases.py have it within
BUSY_SLACK_MS = 2250  # what is added on a machine that does other work; --long judges the promise itself
TRIES = 3


def take_baseline(bench) -> Baseline:
    for path in bench.doors.out.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    bench.doors.take_hits()
    users = {bench.cove.mode.uid} if bench.cove.mode.user else set()
    return Baseline([bench.doors.tmp, bench.doors.cwd], users, bench.doors.canaries,
                    bench.cove.children)


def host_words(bench) -> list[str]:
    """What names a place of the host: where Cove and its images are, and where a group stands."""
    return [str(bench.cove.program.parent), str(harness.PROGRAMS.parents[2]), "/var/lib/cove", "/sys/fs/cgroup/"]


def check_host(bench, base: Baseline, run=None, flat=True) -> None:
    secrets = [bench.doors.secret, bench.doors.env_secret]
    peak = PEAK_LIMIT_KB if flat and not bench.is_asan else None
    assert_invariants(base, run, secrets, bench.doors.take_hits(), peak)


def job_beside(bench, running) -> float:
    """A second sandbox does a fixed job while the first one misbehaves; -> seconds."""
    running.wait_inside()
    allowed = 2 * bench.usual() + BESIDE_SLACK_SECONDS
    took = bench.job()
    if took > allowed and running.process.poll() is None:
        took = min(took, bench.job())  # the machine is shared: once more before complaining
    return took


def check_neighbour(bench, took: float) -> None:
    """What the job takes alone is measured again before anybody complains: other work may have come meanwhile."""
    usual = bench.usual()
    if took > 2 * usual + BESIDE_SLACK_SECONDS:
        usual = max(usual, bench.job())
    assert took <= 2 * usual + BESIDE_SLACK_SECONDS, f"a neighbour took {took:.2f} s, usually {usual:.2f} s"


def slack_ms(bench) -> float:
    """What an end may be later than cases.py says."""
    return SLACK_MS * (covetest.SLOWNESS - 1) + (0 if bench.long else BUSY_SLACK_MS)


def skip_reason(case: Case, bench) -> str:
    if case.long and not bench.long:
        return "takes long: give --long"
    if bench.is_asan and case.asan:
        return f"sanitizer build: {case.asan}"
    if bench.cove.mode.user and case.rootless:
        return f"rootless: {case.rootless}"
    return ""


def check_verdict(case: Case, run: harness.Run) -> None:
    state = run.document["state"]
    assert state in case.states, f"state '{state}', expected {set(case.states)}"
    assert run.kind in case.kinds, f"reason '{run.kind}', expected {set(case.kinds)}"
    if case.exit_code is not None:
        assert run.document["exit_code"] == case.exit_code
        assert run.exit_code == case.exit_code
    assert run.exit_code != 99, "the probe's guard did not take this for a sandbox"
    assert run.wall <= case.seconds, f"took {run.wall:.1f} s, at most {case.seconds} expected"
    assert run.typed == b"", f"typed into the terminal: {run.typed!r}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_hostile_program(case: Case, bench):
    """The machine may be too busy for an end in time, but not each time; all else holds in every try."""
    reason = skip_reason(case, bench)
    if reason:
        pytest.skip(reason)
    late: list[float] = []
    while not late or (min(late) > slack_ms(bench) and len(late) < TRIES):
        late_ms, run = try_program(case, bench)
        late.append(late_ms)
    assert min(late) <= slack_ms(bench), f"each time ended too late, by {late} ms\n\n{run.describe()}"


def try_program(case: Case, bench) -> tuple[float, harness.Run]:
    """One run, and the host after it; -> by how many milliseconds it ended too late, if that is all that is wrong."""
    options = case.options + (("--out", str(bench.doors.out)) if case.out else ())
    # An ordinary user has no cpu cgroup: nobody promises his neighbours their share.
    has_neighbour = case.beside and not bench.cove.mode.user
    if has_neighbour:
        bench.usual()
    base = take_baseline(bench)
    argv = bench.cove.command(case.program, case.args, options)
    running = bench.cove.start(argv, case.stdin)
    beside_s = job_beside(bench, running) if has_neighbour else 0.0
    run = running.finish(case.seconds + harness.SLACK_SECONDS)
    late_ms = 0.0
    try:
        check_host(bench, base, run, case.flat)
        check_verdict(case, run)
        try:
            if case.check:
                case.check(run)
        except checks.Late as late:
            late_ms = late.late_ms
        check_neighbour(bench, beside_s)
    except AssertionError as error:
        raise AssertionError(f"{error}\n\n{run.describe()}") from None
    return late_ms, run


def run_checked(bench, program, **kwargs) -> harness.Run:
    """One run that must complete, with the host checked after it."""
    base = take_baseline(bench)
    run = bench.cove.run(program, **kwargs)
    check_host(bench, base, run)
    assert run.document["state"] == "completed", run.describe()
    return run


def program_digests(bench) -> dict[str, str]:
    """Of the programs and libraries of Cove on the host."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in bench.cove.program.parent.glob("cove*") if path.is_file()}


def test_B77_programs_of_the_host_stay_as_they_are(bench):
    before = program_digests(bench)
    run_checked(bench, "processes.py", options=limits(timeout=20))
    assert before and program_digests(bench) == before


def test_C95_a_neighbour_sees_nothing(bench):
    base = take_baseline(bench)
    secret = bench.doors.secret
    argv = bench.cove.command("neighbour.py", ("victim",), limits(timeout=30),
                              env={"HOSTILE_SECRET": secret})
    victim = bench.cove.start(argv, "open")
    try:
        victim.wait_inside()
        thief = bench.cove.run("neighbour.py", args=("thief",), options=limits(timeout=20))
    finally:
        victim.input.close()
        kept = victim.finish(40)
    check_host(bench, base, thief)
    lines = checks.complete(thief)
    assert "victim ready" in kept.text and kept.document["state"] == "completed", kept.describe()
    for path in ("/workspace", "/tmp", "/dev/shm"):
        assert lines[f"read:{path}/neighbour"] == "ENOENT"
        assert "neighbour," not in lines[f"list:{path}"] + ","
    assert lines["abstract"] == "ECONNREFUSED" and lines["tcp"] == "ECONNREFUSED"
    assert "stranger" not in lines, thief.describe()


def test_C103_two_interpreters_share_no_chance(bench):
    first = checks.complete(run_checked(bench, "sameness.py", options=limits(timeout=10)))
    second = checks.complete(run_checked(bench, "sameness.py", options=limits(timeout=10)))
    same = [k for k in first if k != "done" and first[k] == second.get(k)]
    assert not same, f"the same in both: {same}"


def test_B87_random_system_calls(bench):
    seed = int(os.environ.get("COVE_FUZZ_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
    seconds, rounds = (60, 10) if bench.long else (5, 2)
    for number in range(rounds):
        base = take_baseline(bench)
        run = bench.cove.run("fuzz.c", args=(str(seed + number), str(seconds)), limit=seconds + 60,
                             options=limits(timeout=seconds + 15, pids=64))
        print(f"seed {seed + number}: {run.text.split()} {run.document and run.document['state']}")
        check_host(bench, base, run)
        assert "seed" in run.lines(), run.describe()


def test_A44_many_short_runs_leave_no_dying_cgroups(bench):
    if not bench.long:
        pytest.skip("takes long: give --long")

    def dying() -> int:
        total = 0
        for top in covetest.cgroup_mounts():
            for line in host.read_text(top / covetest.CGROUP_PARENT / "cgroup.stat").splitlines():
                if line.startswith("nr_dying_descendants "):
                    total += int(line.split()[1])
        return total

    base, before = take_baseline(bench), dying()
    for _ in range(100):
        run = bench.cove.run("disk.py", args=("entries", "50"), options=limits(timeout=20))
        assert run.document["state"] == "completed", run.describe()
    check_host(bench, base)
    assert dying() - before < 20


def host_side(running) -> list:
    """The processes of a run that live outside its sandbox."""
    table = host.processes()
    mine = host.descendants(table, running.process.pid)
    return [p for p in [table.get(running.process.pid), *mine] if p and p.namespaces == 1]


def start_hanging(bench, env=None):
    argv = bench.cove.command("hang.py", ("sleep",), limits(timeout=30), env=env)
    running = bench.cove.start(argv)
    running.wait_inside()
    return running


def test_C101_secrets_stay_out_of_titles_and_environments(bench):
    base, secret = take_baseline(bench), harness.secrets.token_hex(16)
    running = start_hanging(bench, {"HOSTILE_SECRET": secret})
    try:
        table = host.processes()
        titles = environments = b""
        for process in host.descendants(table, running.process.pid):
            titles += Path(f"/proc/{process.pid}/cmdline").read_bytes()
            if process.namespaces > 1:
                environments += Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        running.process.send_signal(signal.SIGKILL)
        running.finish(20)
    assert secret.encode() not in titles, "a variable's value shows in a process title"
    assert bench.doors.env_secret.encode() not in environments, "the host's environment is inside"
    check_host(bench, base)


# Each in its own way a text of an interpreter, a library or Cove itself.
ERRORS = {
    "python": ["1/0", "import nothing", "open('/etc/shadow')", "def f(: pass", "raise SystemExit(3)", "bytearray(10**12)",
               "import ctypes; ctypes.CDLL('nothing.so')", "import numpy; numpy.load('nothing')",
               "import subprocess; subprocess.run(['nothing'])", "import traceback; traceback.print_stack(); print(__file__)",
               "import sqlite3; sqlite3.connect('/nothing/x')", "import sys; sys.setrecursionlimit(10**6)\ndef f(): f()\nf()",
               "import os; os.kill(os.getpid(), 11)", "import faulthandler, os; faulthandler.enable(); os.abort()",
               "while True: pass", "import multiprocessing as m; m.Process(target=lambda: 1/0).start()"],
    "javascript": ["null.x", "require('nothing')", "await import('/nothing.mjs')", "syntax error", "process.exit(3)",
                   "require('fs').readFileSync('/nothing')", "new Array(-1)", "console.log(__filename, new Error().stack)"],
    "bash": ["nothing", "cat /nothing", "((", "exit 3", "source nothing", "kill -11 $$", "caller; echo $0 $BASH_SOURCE"],
}


@pytest.mark.parametrize("language", ERRORS)
def test_C100_no_error_names_a_place_of_the_host(bench, language):
    base, words = take_baseline(bench), [word.encode() for word in host_words(bench)]
    for code in ERRORS[language]:
        for form in (["--json"], []):
            argv = [*bench.cove.mode.prefix(), str(bench.cove.program), "run", *form, "-l", language, "--timeout", "2", "-c", code]
            run = bench.cove.start(argv).finish(30)
            assert not run.hung, code
            said = run.stdout + run.stderr
            told = [word for word in words if word in said]
            assert not told, f"{code}: {told} in {said[-500:]!r}"
    check_host(bench, base)


@pytest.fixture(scope="session")
def copied_image(cache):
    """-> a folder of images with a copy of one, which nobody writes"""
    images, copied = Path("/var/lib/cove/images"), cache / "images"
    digest = (images / "tags" / "bash").read_text().strip()
    (copied / "tags").mkdir(parents=True)
    shutil.copytree(images / digest, copied / digest, symlinks=True)
    shutil.copy2(images / "tags" / "bash", copied / "tags" / "bash")
    return copied


@pytest.fixture
def own_image(bench, copied_image):
    """-> a data directory with a copy of an image, and the copy's root; made of links to files that nobody writes"""
    if bench.cove.mode.user:
        pytest.skip("the images of an ordinary user are his own")
    store = bench.doors.tmp / "store"
    digest = (copied_image / "tags" / "bash").read_text().strip()
    shutil.copytree(copied_image, store / "images", symlinks=True, copy_function=os.link)
    bench.doors.tmp.chmod(0o755)
    yield store, store / "images" / digest / "rootfs"
    shutil.rmtree(store)


def run_in(bench, store) -> harness.Run:
    argv = [*bench.cove.mode.prefix(), str(bench.cove.program), "run", "--data-dir", str(store), "--json", "-l", "bash",
            "-c", "touch /tmp/x x; echo ran"]
    run = bench.cove.start(argv).finish(30)
    assert not run.hung, run.describe()
    return run


def test_B75_the_copy_of_an_image_runs(bench, own_image):
    assert run_in(bench, own_image[0]).document["stdout"] == "ran\n"


@pytest.mark.parametrize("place", ["proc", "dev", "tmp", "workspace", "data", "mnt/data"])
@pytest.mark.parametrize("target", ["outside", "inside", "itself"])
def test_B75_links_in_an_image_lead_no_mount_astray(bench, own_image, place, target):
    """An image whose mount points are links: none is followed, neither out of it nor within."""
    store, root = own_image
    canary, point = store / "canary", root / place
    canary.mkdir()
    (canary / "file").write_text("kept")
    shutil.rmtree(point)
    point.symlink_to({"outside": canary, "inside": "/etc", "itself": point.name}[target])
    mounts, etc = host.mounts(), sorted(os.listdir(root / "etc"))
    run = run_in(bench, store)
    assert run.exit_code == 71 and b"ran" not in run.stdout, run.describe()
    assert os.listdir(canary) == ["file"] and sorted(os.listdir(root / "etc")) == etc
    assert host.mounts() == mounts


def test_A45_crashes_do_not_flood_the_log_of_the_kernel(bench):
    """It takes ten lines of a kind in five seconds, whoever makes it."""
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("the log of the kernel cannot be read here")
    base, log = take_baseline(bench), host.KernelLog()
    run = bench.cove.run("core.c", args=("1000",), options=limits(timeout=60), limit=90)
    assert run.document["state"] == "completed", run.describe()
    check_host(bench, base, run)
    lines = [line for line in log.read() if b"segfault" in line or b"probe[" in line]
    assert len(lines) <= 10 * (2 + run.wall / 5) * 3, f"{len(lines)} lines of a thousand crashes in {run.wall:.1f} s"
    assert sum(map(len, lines)) < 64 << 10


def test_killed_cove_takes_its_sandbox_along(bench):
    base = take_baseline(bench)
    running = start_hanging(bench)
    running.process.send_signal(signal.SIGKILL)
    running.finish(20)
    check_host(bench, base)


def test_killed_spawner_takes_its_sandbox_along(bench):
    """Its cgroup may stay until the next start, which must find and remove it."""
    base = take_baseline(bench)
    running = start_hanging(bench)
    spawners = [p for p in host_side(running) if p.name.startswith("cove-spawner")]
    assert spawners
    for process in spawners:
        os.kill(process.pid, signal.SIGKILL)
    run = running.finish(20)
    assert not run.hung and run.exit_code != 0, run.describe()
    bench.job()
    check_host(bench, base)


HOARDERS = 9


def hoarders_inside(running) -> list[int]:
    """The pids of those that have all that they can have, by the name that they gave themselves."""
    inside = host.outside_of(running.process.pid)[1]
    pids = [pid for process in inside for pid in (process.pid, *covetest.children_of(process.pid))]
    return [pid for pid in pids if host.read_text(f"/proc/{pid}/comm").strip() == "hoarder"]


def signals_held(pid) -> tuple[int, int]:
    """-> signals and timers of the user of this process, and its limit, as the host counts them"""
    line = next(line for line in host.read_text(f"/proc/{pid}/status").splitlines() if line.startswith("SigQ:"))
    held, limit = line.split()[1].split("/")
    return int(held), int(limit)


def can_watch_files() -> bool:
    """Whether this process, which is root, gets one more instance of inotify."""
    fd = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def test_A18_counters_of_the_kernel_are_not_for_one_alone(bench):
    """Nine take all that they can have; a tenth has as much as each of them, and so has root."""
    base = take_baseline(bench)
    argv = bench.cove.command("kernel_objects.c", ("hoard",), limits(timeout=60))
    running = [bench.cove.start(argv) for _ in range(HOARDERS)]
    try:
        found = [covetest.wait_for(lambda one=one: hoarders_inside(one), "a sandbox that has all it can have")[0]
                 for one in running]
        held = [signals_held(pid) for pid in found]
        honest = bench.cove.run("kernel_objects.c", args=("timers",), options=limits(timeout=20))
        of_root = signals_held("self")
        assert can_watch_files()
    finally:
        for one in running:
            one.process.send_signal(signal.SIGKILL)
            one.finish(20)
    check_host(bench, base)
    lines = checks.complete(honest)
    assert 100 <= int(lines["timers.count"][1:]) <= 256, honest.describe()
    assert all(100 <= got <= 256 for got, _ in held), held
    assert of_root[0] < of_root[1] / 4, f"root has {of_root[0]} of {of_root[1]} signals left to queue"


def test_many_attacks_at_once(bench):
    """Several programs that never end, all killed by the clock at the same moment."""
    base = take_baseline(bench)
    argv = bench.cove.command("stubborn.c", ("scatter-bomb",), limits(timeout=2, pids=24))
    running = [bench.cove.start(argv) for _ in range(4)]
    finished: list[harness.Run] = []
    threads = [threading.Thread(target=lambda r=r: finished.append(r.finish(40))) for r in running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in finished:
        check_host(bench, base, run)
        assert run.kind in ("timeout", "pids"), run.describe()


def test_probes_refuse_to_run_on_a_host(cache):
    """The guard is what makes these programs safe to keep: each kind must refuse here."""
    probe = harness.compile_program(harness.PROGRAMS / "syscalls.c", cache)
    commands = [[str(probe)], ["/usr/bin/python3", str(harness.PROGRAMS / "memory.py"), "touch"],
                ["bash", "-c", f"cd {harness.PROGRAMS} && . ./forkbomb.sh"]]
    if shutil.which("node"):
        commands.append(["node", str(harness.PROGRAMS / "bombs.js"), "recursion"])
    for argv in commands:
        for env in ({}, {"COVE_HOSTILE": "1"}):
            done = harness.subprocess.run(argv, env={"PATH": os.environ["PATH"],
                                                     "PYTHONDONTWRITEBYTECODE": "1"} | env,
                                          capture_output=True, text=True, timeout=20)
            assert done.returncode == 99 and "refusing to run" in done.stderr, (argv, done)
            assert done.stdout == ""


def test_every_probe_has_a_guard_and_a_case():
    used = {case.program for case in CASES} | {"neighbour.py", "sameness.py", "fuzz.c", "forge.py", "egress.py", "pair.py", "glances.py", "pages.c"}
    programs = {p.name for p in harness.PROGRAMS.iterdir() if p.suffix in harness.LANGUAGES}
    programs -= {"guard.py", "guard.sh"}
    assert programs == used
    for name in programs:
        text = (harness.PROGRAMS / name).read_text()
        assert any(word in text for word in ("guard();", "import guard", "from guard import",
                                             ". ./guard.sh", "COVE_HOSTILE !== '1'", "_inside() or")), name
