# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: starting the built programs, and looking at the host."""
import contextlib
import ctypes
import fcntl
import functools
import itertools
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COVE_BUILD_DIR") or ROOT / "build").resolve()
IS_ASAN = os.environ.get("COVE_ASAN") == "1" or BUILD.name.endswith("asan")
# How much longer things may take than on the machine that a promise of time is made for.
SLOWNESS = int(os.environ.get("COVE_TEST_SLOWNESS") or (4 if IS_ASAN else 1))
IS_EMULATED = "COVE_TEST_SLOWNESS" in os.environ
IS_ROOT = os.geteuid() == 0
SANDBOX_UIDS = range(1_900_000_000, 1_900_065_536)
PATIENCE = int(os.environ.get("COVE_TEST_PATIENCE", "120"))  # seconds that a loaded machine may take for anything
# Every test run has cgroups of its own, so that other sandboxes of this machine do not disturb it.
CGROUP_PARENT = f"cove-test-{os.getpid()}"
PLAIN_USER, SUBID_USER = "cove-test", "cove-test-subids"
SUBIDS = "1700000000-1700065535"
LOCKS = pathlib.Path("/run/lock")  # of what the test runs of a machine share

PR_SET_CHILD_SUBREAPER = 36
EXIT_INVALID, EXIT_NOT_FOUND, EXIT_UNAVAILABLE, EXIT_ISOLATION, EXIT_DENIED = 64, 66, 69, 71, 77
EXIT_TIMEOUT, EXIT_KILLED, EXIT_INTERRUPTED = 124, 137, 130


def wait_for(condition, what, seconds=PATIENCE):
    """Answers the first true value of condition()."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s in vain for: {what}"
        time.sleep(0.005)  # between two looks; nothing is assumed about what happens meanwhile


# --- starting Cove ------------------------------------------------------------------------------


def environment(home="/nonexistent", **more):
    """Nothing of the caller's configuration, but what sanitizers are told."""
    kept = {k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_"))}
    kept |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home,
             "COVE_CGROUP_PARENT": CGROUP_PARENT}
    return kept | more


def without_quarantine():
    """The sanitizer keeps freed memory for a while, which is not what a test of memory looks at."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return {"ASAN_OPTIONS": options + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}


started = []  # processes that the current test has begun


def end_started():
    """Ends what a test left running, which can only be one that failed."""
    while started:
        process = started.pop()
        if process.poll() is None:
            process.terminate()  # so that it takes its sandbox with it
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


class Cove:
    """The programs of one build, and as whom they are started."""

    def __init__(self, build=BUILD, user=None, cwd="/"):
        self.program, self.user, self.cwd = build / "cove", user, cwd
        self.spawner = build / "cove-spawner"
        # Root keeps its state elsewhere, and its own configuration must not matter here.
        self.home = pwd.getpwnam(user).pw_dir if user else "/nonexistent" if IS_ROOT else os.environ["HOME"]

    def argv(self, *args):
        prefix = []
        if self.user:
            entry = pwd.getpwnam(self.user)
            prefix = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return [*prefix, str(self.program), *map(str, args)]

    def start(self, *args, env=None, **kwargs):
        kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                  "cwd": self.cwd} | kwargs
        process = subprocess.Popen(self.argv(*args), env=environment(self.home, **(env or {})), **kwargs)
        started.append(process)
        return process

    def __call__(self, *args, env=None, seconds=PATIENCE, **kwargs):
        """Runs it to its end; text unless text=False."""
        kwargs = {"text": True, "cwd": self.cwd} | kwargs
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.argv(*args), env=environment(self.home, **(env or {})),
                              capture_output=True, timeout=seconds, **kwargs)

    def run(self, *args, **kwargs):
        return self("run", *args, **kwargs)

    def good(self, *args, **kwargs):
        """Output of a program that must end well and say nothing on stderr."""
        done = self.run(*args, **kwargs)
        assert done.returncode == 0, f"{args}\nstatus {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr, done.stderr
        return done.stdout

    def json(self, *args, status=0, **kwargs):
        done = self.run("--json", *args, **kwargs)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


def make_user(name, subids):
    """Makes an ordinary user for the rootless tests when it is missing. Other runs of tests have the same ones, and
    may be about to make them."""
    LOCKS.mkdir(exist_ok=True)
    with open(LOCKS / "cove-test-users.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            pwd.getpwnam(name)
        except KeyError:
            subprocess.run(["useradd", "--system", "--create-home", "--shell", "/usr/sbin/nologin", name], check=True)
        known = f"{name}:" in (read_text("/etc/subuid") + read_text("/etc/subgid"))
        if subids and not known:
            subprocess.run(["usermod", "--add-subuids", subids, "--add-subgids", subids, name], check=True)
    return name


@functools.cache
def public_build():
    """The programs where an ordinary user can read them; removed by the session's fixture."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-"))
    folder.chmod(0o755)
    (folder / "bin").mkdir()
    for name in ("cove", "cove-client", "cove-spawner", "coved", "cove-init", "cove_zygote.so", "zygote.py",
                 "cove_checkpoint.so", "cove-egress"):
        if (BUILD / name).exists():  # the zygote is not in every build
            shutil.copy(BUILD / name, folder / "bin" / name)
    if (BUILD / "installers").exists():
        shutil.copytree(BUILD / "installers", folder / "bin" / "installers")
    shutil.copytree(ROOT / "images", folder / "images")  # for the kernels
    return folder / "bin"


def has_subids():
    """Whether the ordinary user who runs the tests, with no other to choose, has subordinate ids of its own."""
    if IS_ROOT or not shutil.which("newuidmap"):
        return False
    name = pwd.getpwuid(os.getuid()).pw_name
    lines = pathlib.Path("/etc/subuid").read_text().splitlines() if os.path.exists("/etc/subuid") else []
    return any(line.split(":")[0] in (name, str(os.getuid())) for line in lines)


def rootless(kind):
    """Cove as an ordinary user: 'plain', or 'subids' with a range of subordinate ids."""
    name = make_user(PLAIN_USER, None) if kind == "plain" else make_user(SUBID_USER, SUBIDS)
    return Cove(public_build(), name)


def why_no_rootless(kind):
    """Why that kind of rootless cannot be tried here, or None."""
    if not IS_ROOT:
        return "becoming another user needs root"
    if kind == "subids" and not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return "uidmap is not installed"
    return None


# --- looking at the host ------------------------------------------------------------------------


def read_text(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def status_of(pid):
    return dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/status").splitlines() if ":" in line)


def own_memory(pid):
    """Bytes; pages of its programs that it happens to have touched, and that are nobody's growth, are not in it."""
    status = status_of(pid)
    return sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def uids_of(pid):
    return {int(word) for word in status_of(pid).get("Uid", "").split()}


def children_of(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it is gone
        return []
    return [int(word) for thread in threads for word in read_text(f"/proc/{pid}/task/{thread}/children").split()]


@contextlib.contextmanager
def orphans_come_to_us():
    """Who reaps the children of a killed spawner, and how soon, is not for pid 1 of this machine to say."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0
        wait_for(lambda: not reap_strangers(), "the end of orphans")


def reap_strangers():
    """Those of our children that have the uid of a sandbox came as orphans; -> which are still there. One that nobody
    reaps keeps pid 1 of its namespace from ending."""
    strangers = [pid for pid in children_of(os.getpid()) if any(uid in SANDBOX_UIDS for uid in uids_of(pid))]
    for pid in strangers:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return strangers


def reap(*known):
    for pid in children_of(os.getpid()):
        if pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def descendants(pid):
    found = []
    for child in children_of(pid):
        found += [child, *descendants(child)]
    return found


def name_of(pid):
    return read_text(f"/proc/{pid}/comm").strip()


def is_alive(pid):
    """A dead first thread is no end: what the others still have to leave is open, a port among it."""
    status = status_of(pid)
    return status.get("State", "Z").split()[0] not in "ZX" or int(status.get("Threads", "1")) > 1


def groups_of(pid):
    """{controllers: path} of a process."""
    rows = (line.split(":", 2) for line in read_text(f"/proc/{pid}/cgroup").splitlines())
    return {row[1]: row[2] for row in rows}


def throttled_us(pid):
    """How long the group of a process was kept from the processors for having had its share: unlike the time that its work takes, not
    more where the machine does other work."""
    files = [top / path.lstrip("/") / "cpu.stat" for top in cgroup_mounts() for path in groups_of(pid).values()]
    found = [int(value) // {"usec": 1, "time": 1000}[unit]  # its name in version 1 does not say that these are nanoseconds
             for file in files for unit, value in re.findall(r"^throttled_(usec|time) (\d+)$", read_text(file), re.M)]
    return max(found)  # where it is in no group of its own, that of the first group of all is 0


def is_in_group(pid, parent):
    return any(parent in path.split("/") for path in groups_of(pid).values())


def inside(place, name):
    """Processes of that name in the sandboxes of a server; where there are no groups, of all that it has started."""
    if not IS_ROOT:
        return [pid for pid in descendants(place.process.pid) if name_of(pid) == name]
    return [pid for pid in pids() if is_in_group(pid, place.group) and name_of(pid) == name]


def ancestors_of(pid):
    """From its parent on, to the first process that it can see."""
    while (pid := int(status_of(pid).get("PPid", "0"))) > 0:
        yield pid


def sandboxed(parent=CGROUP_PARENT):
    """Processes of our sandboxes: by cgroup, or with a sandbox's uid and in nobody else's. One that is just ending is in no
    group any more: it is somebody else's below a process outside of sandboxes that is none of ours, be it a program of Cove
    or who takes its orphans. Those of ours come to this process or to an ancestor of it."""
    ours = {os.getpid(), 1, *ancestors_of(os.getpid())}

    def is_anothers(pid):
        has_stranger = False
        for one in ancestors_of(pid):
            if one in ours:
                return has_stranger and one != os.getpid()
            has_stranger = has_stranger or len(status_of(one).get("NSpid", "").split()) == 1
        return has_stranger

    found = []
    for pid in pids():
        if is_in_group(pid, parent):
            found.append(pid)
        elif any(uid in SANDBOX_UIDS for uid in uids_of(pid)):
            foreign = any(re.search(r"/cove[^/]*(/\d+)+$", path) for path in groups_of(pid).values())
            if not foreign and is_alive(pid) and not is_anothers(pid):
                found.append(pid)
    return found


@functools.cache
def cgroup_mounts():
    rows = (line.split(" - ") for line in read_text("/proc/self/mountinfo").splitlines())
    return [pathlib.Path(left.split()[4]) for left, right in rows if right.split()[0] in ("cgroup", "cgroup2")]


def sandbox_groups(parent=CGROUP_PARENT):
    return [path for top in cgroup_mounts() if (top / parent).is_dir()
            for path in (top / parent).iterdir() if path.is_dir()]  # the parent stays as long as the tests run


def is_removed(path):
    with contextlib.suppress(OSError):  # what was in it may still be ending; its spawner may remove it, too
        path.rmdir()
    return not path.is_dir()


def remove_groups(parent=CGROUP_PARENT):
    for top in cgroup_mounts():
        for path in [*sandbox_groups(parent), top / parent]:
            wait_for(lambda path=path: is_removed(path), f"the end of {path}")


class Unit(Cove):
    """Programs that are started in groups of their own, as a service manager does, and where nobody says where those of sandboxes are."""

    numbers = itertools.count(1)
    # Where version 2 hands controllers down nobody can come in any more: who comes later follows those who were there.
    ENTER = """while [ "$1" != -- ]; do
        echo 0 2> /dev/null > "$1/cgroup.procs" || echo 0 > "$1/cove-server/cgroup.procs" || exit
        shift
    done
    shift; exec "$@" """

    def __init__(self, build=BUILD):
        super().__init__(build)
        self.name = f"{CGROUP_PARENT}-unit-{next(self.numbers)}"
        self.paths = [top / self.name for top in cgroup_mounts() if not (top / "cpuset.cpus").exists()]
        for path in self.paths:
            if (path.parent / "cgroup.subtree_control").exists():
                for name in (path.parent / "cgroup.controllers").read_text().split():
                    (path.parent / "cgroup.subtree_control").write_text(f"+{name}")
            path.mkdir()

    def argv(self, *args):
        return ["env", "-u", "COVE_CGROUP_PARENT", "sh", "-c", self.ENTER, "unit", *map(str, self.paths), "--", *super().argv(*args)]

    def groups(self, name):
        """Those below it whose path ends like that, as a pattern."""
        return sorted(found for path in self.paths for found in path.glob(name))

    def close(self):
        """Nothing is in them but what the programs that are over left empty for the next."""
        for path in self.paths:
            for name in ("cove", "cove-server", ""):
                wait_for(lambda path=path / name: is_removed(path), f"the end of {path / name}")


def nothing_is_left():
    """Waits until no process and no cgroup of our sandboxes is there."""
    wait_for(lambda: not sandboxed(), "no process of a sandbox")
    wait_for(lambda: not sandbox_groups(), "no cgroup of a sandbox")


def remembers(pid, word):
    """Whether a process has these bytes anywhere in the memory that it may write. One that has ended has none."""
    try:
        memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    with memory:
        for line in read_text(f"/proc/{pid}/maps").splitlines():
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if "w" not in line.split()[1] or line.endswith(("[vvar]", "[vsyscall]")):
                continue
            try:
                if word in os.pread(memory.fileno(), end - start, start):
                    return True
            except OSError:  # gone meanwhile
                continue
    return False


def kill_quietly(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
