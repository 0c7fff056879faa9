# SPDX-License-Identifier: Apache-2.0
"""The machines, and what must be true of Cove on each: data for run (outside) and guest.py (inside).

All boot Debian 12's kernel with cgroup v2 alone. They differ by words on the kernel's command line
that take one layer away. Their clocks count instructions (tools/vm), so that an emulated processor
seems hardly slower than a real one from inside; a person waits several times as long.
"""
from __future__ import annotations

import dataclasses

ROOT = "root"  # the spawner runs as root
USER = "user"  # rootless, with no cgroup of its own
DELEGATED = "delegated"  # rootless, in a cgroup that was given to the user
NESTED = "nested"  # root in a container's cgroup namespace, which sees its own part of the tree alone
UNMOUNTED = "unmounted"  # the same, where only the whole tree is mounted
SCOPE = "scope"  # root in a group of its own, in the namespace of all
SHELL = "shell"  # the same beside somebody else, who stays where he is
MARKED = "marked"  # the same where the group is marked as delegated, so that he may be moved

USERNS = "user namespace"
LANDLOCK = "landlock"
MEMORY = "memory cgroup"
CGROUPS = (MEMORY, "pids cgroup", "cpu cgroup")
# For promises of time. While nothing runs inside, the clock goes with that of the host, so a host that is busy is felt when
# somebody is to be woken; twice the time is enough for that.
SLOWNESS = 2


@dataclasses.dataclass(frozen=True)
class Doctor:
    """`cove doctor`: the tier, and the layers that it must report as missing and as holding."""

    who: str
    tier: str | None  # T1 and T2 are what one gets by default: exit code 0 only then
    missing: tuple[str, ...] = ()
    holding: tuple[str, ...] = ()
    place: str | None = None  # of the groups of sandboxes; None: any


@dataclasses.dataclass(frozen=True)
class Run:
    """`cove run`: a program, and how it must end. Nothing may be left afterwards."""

    who: str
    title: str
    code: str
    language: str = "python"
    options: tuple[str, ...] = ()
    timeout_s: int = 60
    stdout: str | None = None  # exactly; None: anything
    kinds: tuple[str | None, ...] = (None,)  # reason.kind; None: it ended by itself
    or_error: str | None = None  # or it may fail by itself, with this on its stderr


@dataclasses.dataclass(frozen=True)
class Refused:
    """`cove run` must not start the program, and must say which layer is missing and what to do."""

    who: str
    layers: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Killed:
    """`cove run` is killed with SIGKILL while its program runs: nothing may be left even so."""

    who: str


@dataclasses.dataclass(frozen=True)
class Warm:
    """A zygote makes sandboxes; or there is none here, and the spawner says why."""

    who: str
    failure: str | None = None  # a part of it
    options: tuple[str, ...] = ()
    oom_score: int = 0  # oom_score_adj that the spawner is born with, and cannot lower


@dataclasses.dataclass(frozen=True)
class Pool:
    """A pool parks warm sessions, and each that is taken runs its code."""

    who: str
    count: int


@dataclasses.dataclass(frozen=True)
class Tests:
    """Tests of tests/integration that must pass here, too."""

    who: str
    title: str
    file: str
    words: tuple[str, ...]  # as pytest's -k has them; a test must match one


@dataclasses.dataclass(frozen=True)
class Shared:
    """Two `cove run`s, which may use as much memory as they want, in a group that has less."""

    who: str


@dataclasses.dataclass(frozen=True)
class Machine:
    name: str
    checks: tuple
    append: str = ""
    is_long: bool = False  # boots only when asked for


# --- programs ------------------------------------------------------------------------------------

MEMORY_BOMB = """
kept = []
while True:
    kept.append(bytearray(b"x" * (4 << 20)))
"""

FORK_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        pass
"""

# Asks for 200 MB in buffers as large as a machine gives them when nobody has raised its limit, and reads how much the kernel counts for the whole machine.
SOCKET_FILLER = """
import re, socket
held, block = [], b"x" * 60000
for _ in range(480):
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    here.bind(("127.0.0.1", 0))
    for _ in range(8):
        here.sendto(block, socket.MSG_DONTWAIT, here.getsockname())
    held.append(here)
counted = re.findall(r"^(?:TCP|UDP):.* mem (\\d+)$", open("/proc/self/net/sockstat").read(), re.MULTILINE)
assert len(counted) == 2 and sum(map(int, counted)) * 4096 < 96 << 20, counted
"""

# Gives up at the limit, so that the verdict must come from it.
FORKS = """
import os, time
while True:
    if os.fork() == 0:
        time.sleep(1000)
"""

DISK_FILLER = """
with open("filler", "wb") as out:
    while True:
        out.write(b"x" * (1 << 20))
"""

# What a program can see of its own seals.
SEALED = """
import os
fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
say = {name: fields[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd")}
print(say["NoNewPrivs"], say["Seccomp"], *(int(say[n], 16) for n in ("CapEff", "CapPrm", "CapBnd")))
print([line.split(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line])
print(os.getuid() != 0, [name for name in ("sys", "run", "home", "payload") if os.path.exists("/" + name)])
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
print(os.getpid() in pids, len(pids) < 5)
figures = ("sockstat", "softnet_stat", "protocols", "stat/rt_cache")  # of the whole machine
print([name for name in figures if os.access("/proc/self/net/" + name, os.R_OK)])
try:
    open("/usr/new", "w")
except OSError as error:
    print("root is sealed")
"""
SEALED_OUTPUT = "1 2 0 0 0\n['lo']\nTrue []\nTrue True\n[]\nroot is sealed\n"

NUMPY = "import numpy; print(int(numpy.arange(1000).sum()), numpy.linalg.det(numpy.eye(3)))"

FIGURE = """
import pandas, matplotlib.pyplot
pandas.DataFrame({"a": [1, 4, 9]}).plot()
matplotlib.pyplot.savefig("figure.png")
print(open("figure.png", "rb").read(4))
"""

ORDINARY = """
import multiprocessing, socket, sqlite3, subprocess, threading
def square(n):
    return n * n
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, [1, 2, 3]))
    door = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: door.accept()[0].sendall(b"over loopback"))
    thread.start()
    print(socket.create_connection(door.getsockname()).recv(100))
    thread.join()
    print(sqlite3.connect("file.db").execute("select 6 * 7").fetchone())
    print(subprocess.run(["echo", "child"], capture_output=True).stdout)
"""
ORDINARY_OUTPUT = "[1, 4, 9]\nb'over loopback'\n(42,)\nb'child\\n'\n"

TYPED = "const twice = (n: number): number => n * 2; console.log(twice(21))"

PIPELINE = "printf 'b\\na\\n' | sort | tr '\\n' ' '; echo $((6 * 7))"


def prints_one(who, *options):
    return Run(who, "prints 1", "print(1)", options=options, stdout="1\n")


def memory_bomb(who, *options, **more):
    return Run(who, "memory bomb is stopped as oom", MEMORY_BOMB,
               options=("--memory", "64M", "--disk", "16M", *options), kinds=("oom",), **more)


def socket_filler(who):
    return Run(who, "buffers of sockets are counted", SOCKET_FILLER, options=("--memory", "64M", "--disk", "16M"),
               kinds=(None, "oom"))


def fork_bomb(who):
    return Run(who, "fork bomb is stopped", FORK_BOMB, options=("--pids", "32"), timeout_s=2,
               kinds=("pids", "timeout"))


def too_many_processes(who):
    return Run(who, "too many processes are named as pids", FORKS, options=("--pids", "16"),
               kinds=("pids",))


def endless_loop(who, *options):
    return Run(who, "endless loop is stopped as timeout", "while True: pass", options=options, timeout_s=1,
               kinds=("timeout",))


def disk_filler(who):
    return Run(who, "disk filler is stopped as disk", DISK_FILLER, options=("--disk", "16M"),
               kinds=("disk",))


def lacking(who, tier, *layers):
    """The checks for a mode in which required layers are missing."""
    checks = [Doctor(who, tier, missing=layers), Refused(who, layers)]
    if tier is None:
        checks.append(Refused(who, layers, options=("--allow-degraded",)))
    else:
        checks += [prints_one(who, "--allow-degraded"), endless_loop(who, "--allow-degraded")]
    return tuple(checks)


# --- machines ------------------------------------------------------------------------------------

MACHINES = (
    Machine("sessions", checks=(
        Pool(ROOT, 4),
        Tests(ROOT, "state, files and neighbours of sessions", "session_test.py", (
            "lives_on", "has_state and bash", "its_own_artifacts", "exits", "forged_end", "each_other")),
        Tests(ROOT, "time limits and interrupts of sessions", "session_test.py", (
            "(time_limit or in_time) and (sleep or loop or input or query) and not child", "overtakes")),
        Tests(ROOT, "other limits of sessions", "session_test.py", (
            "memory_is_told", "is_ended and bomb", "ends_at and plain", "many_processes", "full_disk")),
    )),
    Machine("checkpoints", checks=(
        Tests(ROOT, "frozen sessions and checkpoints", "checkpoint_test.py", (
            "frozen", "everybody", "blocks_every_signal", "arrays_come_back and 100", "half_copy and killed")),
        Tests(ROOT, "nobody inside makes the host wait", "strays_test.py", (
            "lingers", "queue and both", "rings", "terminal", "itself")),
        Tests(ROOT, "the spawner freezes and culls", "spawner_protocol_test.py", ("a_frozen_sandbox", "a_cull")),
        Tests(ROOT, "shares of processors", "spawner_group_test.py", ("a_share",)),
        Tests(ROOT, "zygotes make sandboxes", "zygote_test.py", ("run_code",)),
        Tests(ROOT, "zygotes share nothing", "zygote_apart_test.py", ("siblings",)),
        Tests(ROOT, "zygotes may hang", "zygote_end_test.py", ("can_be_destroyed and not waits", "never_ready")),
        Tests(ROOT, "the terminal", "repl_test.py", ("greets", "ctrl_c_interrupts")),
    )),
    Machine("forks", checks=(
        Tests(ROOT, "a fork and its session go on apart", "fork_test.py", (
            "100_mb", "independently", "copied_and_then", "open_again", "comes_along")),
        Tests(ROOT, "memory of forks is counted", "fork_test.py", ("stays_counted", "over_the_limit_of_one")),
    )),
    Machine("forks-apart", checks=(
        Tests(ROOT, "forks are sealed, and apart", "fork_test.py", (
            "every_layer", "nobody_writes", "seen_or_reached", "shares_memory", "taken_over")),
        Tests(ROOT, "forks have no frame in common", "fork_frames_test.py", ("nothing or large or looked",)),
        Tests(ROOT, "forks that fail, and ends", "fork_test.py", (
            "refused_with_the_reason and (threads or mmap)", "does_not_fit", "after_a_reset", "closed_first", "death_of_one and parent",
            "heir_that_is_killed", "whoever_dies")),
        Tests(ROOT, "broods", "brood_test.py", (
            "an_heir_becomes", "seen_to_be_apart", "no_code_runs", "outlive", "before_it_made", "first_thread",
            "another_memory and mem", "written_by_the_other and (file or read)")),
    )),
    Machine("default", checks=(
        Doctor(ROOT, "T1", holding=(*CGROUPS, LANDLOCK, USERNS)),
        prints_one(ROOT),
        Run(ROOT, "is sealed on all sides", SEALED, stdout=SEALED_OUTPUT),
        Run(ROOT, "runs bash", PIPELINE, language="bash", stdout="a b 42\n"),
        Run(ROOT, "imports numpy", NUMPY, timeout_s=240, stdout="499500 1.0\n"),
        Run(ROOT, "threads, processes, sockets and sqlite work", ORDINARY, stdout=ORDINARY_OUTPUT),
        Run(ROOT, "runs typescript", TYPED, language="typescript", stdout="42\n"),
        memory_bomb(ROOT),
        too_many_processes(ROOT),
        fork_bomb(ROOT),
        endless_loop(ROOT),
        disk_filler(ROOT),
        socket_filler(ROOT),
        Killed(ROOT),
    )),
    Machine("rootless", checks=(
        Doctor(USER, "T2", holding=(LANDLOCK, USERNS)),
        prints_one(USER),
        Run(USER, "is sealed on all sides", SEALED, stdout=SEALED_OUTPUT),
        Run(USER, "runs bash", PIPELINE, language="bash", stdout="a b 42\n"),
        Run(USER, "threads, processes, sockets and sqlite work", ORDINARY, stdout=ORDINARY_OUTPUT),
        Run(USER, "runs typescript", TYPED, language="typescript", stdout="42\n"),
        memory_bomb(USER, or_error="MemoryError"),
        endless_loop(USER),
        disk_filler(USER),
        socket_filler(USER),
        Killed(USER),
        Doctor(DELEGATED, "T2", holding=(*CGROUPS, LANDLOCK, USERNS)),
        prints_one(DELEGATED),
        memory_bomb(DELEGATED),
        too_many_processes(DELEGATED),
        fork_bomb(DELEGATED),
        endless_loop(DELEGATED),
        disk_filler(DELEGATED),
        socket_filler(DELEGATED),
        Killed(DELEGATED),
    )),
    Machine("groups", checks=(
        Doctor(ROOT, "T1", holding=CGROUPS, place="own"),
        Doctor(NESTED, "T1", holding=CGROUPS, place="own"),
        prints_one(NESTED),
        memory_bomb(NESTED),
        too_many_processes(NESTED),
        Warm(NESTED),
        Killed(NESTED),
        Doctor(UNMOUNTED, "T1", holding=CGROUPS, place="own"),
        prints_one(UNMOUNTED),
        Doctor(SCOPE, "T1", holding=CGROUPS, place="own"),
        Shared(SCOPE),
        Killed(SCOPE),
        Doctor(SHELL, "T1", holding=CGROUPS, place="above"),
        prints_one(SHELL),
        Doctor(MARKED, "T1", holding=CGROUPS, place="own"),
        prints_one(MARKED),
        Tests(ROOT, "groups below our own", "placement_test.py", ("stand_in", "together", "at_the_top", "doctor", "crash_left")),
        Doctor(DELEGATED, "T2", holding=CGROUPS, place="own"),
        Shared(DELEGATED),
    )),
    Machine("zygote", checks=(
        Warm(ROOT),
        Warm(ROOT, oom_score=800),
        Warm(USER),
        Warm(DELEGATED),
    )),
    Machine("libraries", is_long=True, checks=(
        Run(ROOT, "draws a figure", FIGURE, timeout_s=240, stdout="b'\\x89PNG'\n"),
    )),
    Machine("no-landlock", append="lsm=lockdown,yama", checks=(
        *lacking(ROOT, "T3", LANDLOCK),
        *lacking(USER, "T3", LANDLOCK),
    )),
    Machine("no-userns", append="sysctl.user.max_user_namespaces=0", checks=(
        Doctor(ROOT, "T1", missing=(USERNS,)),
        prints_one(ROOT),
        Warm(ROOT, failure="zygote: user namespace"),
        *lacking(USER, None, USERNS),
    )),
    Machine("no-userns-for-users", append="sysctl.kernel.unprivileged_userns_clone=0", checks=(
        Doctor(ROOT, "T1"),
        prints_one(ROOT),
        Warm(ROOT, failure="user namespace"),
        *lacking(USER, None, USERNS),
    )),
    Machine("no-memory-cgroup", append="cgroup_disable=memory", checks=(
        *lacking(ROOT, "T3", MEMORY),
        memory_bomb(ROOT, "--allow-degraded", or_error="MemoryError"),
        Doctor(USER, "T2", missing=(MEMORY,)),
        prints_one(USER),
    )),
    Machine("no-cgroup", append="cgroup_disable=memory,pids,cpu,io", checks=(
        *lacking(ROOT, "T3", *CGROUPS),
        Doctor(USER, "T2", missing=CGROUPS),
        prints_one(USER),
    )),
)
