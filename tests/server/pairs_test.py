# SPDX-License-Identifier: Apache-2.0
"""Two sandboxes of different keys, made by one server of one image. Nothing that one of them watches, locks or counts tells it of
the other, or holds the other up, whether both are copies of one warm interpreter or made cold."""
import contextlib
import ctypes
import errno
import fcntl
import functools
import json
import mmap
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import covetest
from covetest import wait_for
from crashers import SESSIONS
from keys_test import key
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and device nodes of their own need root")

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "hostile/programs"
# The one who watches, until he may tell.
BEGIN = r"""
import subprocess
watcher = subprocess.Popen({}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for line in iter(watcher.stdout.readline, "ready\n"):
    assert line
    print(line, end="")
"""
WATCH = BEGIN.format('["python3", "pair.py", "watch"]')
TELL = "print(watcher.communicate()[0])"
ACT = "import os; assert os.system('python3 pair.py act') == 0"


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


class Tenant:
    """A session of a key of its own."""

    def __init__(self, server, token):
        self.server, self.token = server, token
        made = server.post(SESSIONS, {"env": {"COVE_HOSTILE": "1"}}, token=token)
        assert made.status == 201, made
        self.id = made.json["id"]
        for name in ("guard.py", "pair.py", "glances.py"):
            put = server.put(f"{SESSIONS}/{self.id}/files/{name}", (PROGRAMS / name).read_bytes(), token=token)
            assert put.status in (200, 201), put

    def run(self, code):
        """The lines of what it prints."""
        ran = self.server.post(f"{SESSIONS}/{self.id}/execute", {"code": code, "mode": "sync"}, token=self.token)
        assert ran.status == 200 and ran.json["state"] == "completed" and not ran.json["stderr"], (ran.json["stderr"], ran.json.get("error"))
        return ran.json["stdout"].splitlines()

    def facts(self, code):
        return dict(line.split(" ", 1) for line in self.run(code) if line)

    def file_systems(self):
        """The device number of each mount that it sees, and what that is."""
        rows = [line.split() for line in self.run("print(open('/proc/self/mountinfo').read())") if line]
        return {row[2]: " ".join(row[3:5]) for row in rows}

    def end(self):
        assert self.server.delete(f"{SESSIONS}/{self.id}", token=self.token).status == 200


@contextlib.contextmanager
def running(**options):
    with Server(**options) as server:
        yield server
        assert server.stop() == 0
        server.nothing_is_left()


@pytest.fixture(scope="module")
def warm_server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def cold_server():
    """Of a build without a zygote: each interpreter is started in its sandbox."""
    with tempfile.TemporaryDirectory(prefix="cove-test-cold-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        shutil.copytree(covetest.public_build().parent, folder / "build")
        (folder / "build/bin/cove_zygote.so").unlink(missing_ok=True)
        with running(cove=covetest.Cove(folder / "build/bin")) as server:
            yield server


@pytest.fixture(scope="module", params=["plain", "subids"])
def users_server(request):
    if why := covetest.why_no_rootless(request.param):
        pytest.skip(why)
    with running(cove=covetest.rootless(request.param)) as server:
        yield server


@contextlib.contextmanager
def two_tenants(server):
    with key(server) as first, key(server) as second:
        tenants = [Tenant(server, made["key"]) for made in (first, second)]
        yield tenants
        for tenant in tenants:
            tenant.end()


@pytest.fixture(params=["warm", "cold"])
def pair(request):
    if request.param == "warm" and not (covetest.BUILD / "cove_zygote.so").exists():
        pytest.skip("this build has no zygote")
    with two_tenants(request.getfixturevalue(f"{request.param}_server")) as tenants:
        yield tenants


def test_no_file_system_is_common_to_two_sandboxes(pair):
    """Marks, locks and times sit on inodes, and those belong to a file system."""
    first, second = (tenant.file_systems() for tenant in pair)
    assert len(first) >= 4 and first.keys().isdisjoint(second), [first, second]


def test_an_ordinary_users_sandboxes_have_nodes_of_the_host_in_common_and_nothing_else(users_server):
    """He cannot make any."""
    with two_tenants(users_server) as tenants:
        first, second = (tenant.file_systems() for tenant in tenants)
    common = {first[device] for device in first.keys() & second.keys()}
    assert len(first) >= 4 and all(place.startswith("/") and " /dev/" in place for place in common), [first, second]
    assert len(common) <= 1, "all nodes are of one file system"


def test_an_ordinary_users_sandboxes_show_each_other_nothing_else(users_server):
    """Nodes apart, which are the host's; and no counter of the machine."""
    with two_tenants(users_server) as tenants:
        readings, met, after = glances(tenants)
    for reading in readings:
        for name in [name for name in reading if name.startswith("times:/dev")]:
            del reading[name]
    check_glances(*readings, met, after)


def test_one_that_watches_sees_nothing_and_one_that_locks_holds_nobody_up(pair):
    spy, honest = pair
    taken = spy.facts(WATCH)
    met = honest.facts(ACT)
    seen = spy.facts(TELL)
    assert met.pop("lease") == taken.pop("lease") == "EACCES", "nobody has a lease on a file that is not his"
    assert taken.pop("own-lock") == "EAGAIN", "its own locks it does meet"
    del met["done"]
    assert len(taken) == 15 and set(taken.values()) == {"ok"}, taken
    assert met == taken
    for way in ("inotify", "dnotify"):
        if seen[f"{way}:own"] not in ("=EMFILE", "=EPERM"):  # it is there
            assert seen[f"{way}:own"] != "=0", f"{way} does not see what happens in its own sandbox"
            assert seen[f"{way}:of-others"] == "=0", seen


# What shows the machine's own figures, or what a sandbox's own doing changes in it without any other: its own packets.
SHOWS_ITS_OWN = {"terminal", "terminals", "shm-names", "sysv-shm", "sysv-msg", "sysv-sem", "sysv-key", "abstract",
                 "/proc/self/net/dev", "/proc/self/net/snmp", "/proc/self/net/netstat", "/proc/self/net/tcp", "/proc/self/net/unix"}
REFUSED = {"mq_open": "EMFILE", "fanotify_init": "EPERM", "perf_event_open": "EPERM", "keyctl": "EPERM", "add_key": "EPERM",
           "cachestat": "ENOSYS", "lease-of-image": "EACCES"}
# Each tells of the machine's sockets, packets and routes.
OF_THE_MACHINE = ("sockstat", "softnet_stat", "protocols", "stat/rt_cache")


def files_of_images(path):
    """Where that file of an image is on the host, for each image that has it."""
    found = list(pathlib.Path("/var/lib/cove/images").glob(f"*/rootfs{path}"))
    assert found
    return found


def open_quietly(path):
    """Leaves the time of its last reading as it is."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOATIME))


def forget_cached(path):
    """Drops what the host has of it in memory, as far as nobody has it mapped."""
    for found in files_of_images(path):
        with open_quietly(found) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_pages(path):
    """How many pages of it are in memory, as the host sees it."""
    return sum(map(cached_pages_of, files_of_images(path)))


def cached_pages_of(path):
    with open_quietly(path) as file:
        size = os.fstat(file.fileno()).st_size
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages) == 0
        assert libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size)) == 0
    return sum(page & 1 for page in pages)


@contextlib.contextmanager
def alone_with_images():
    """Servers of other runs have the same images: nobody else's tests look at what is in memory of them meanwhile."""
    with open(f"/tmp/cove-test-images-{os.geteuid()}", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begin_glances(spy, image):
    """What it sees while nobody has read that file; whoever looks through all files of an image may just have."""
    for tries_left in reversed(range(3)):
        forget_cached(image)
        before = spy.facts(BEGIN.format('["python3", "glances.py", "watch"]'))
        if cached_pages(image) <= 1 or not tries_left:
            break
        spy.run(TELL)
    assert cached_pages(image) <= 1, "only what was asked for without waiting could have been read"
    return before


def glances(tenants):
    """What the first sees before, beside and after; and what the second met."""
    spy, honest = tenants
    image = "/usr/bin/sha384sum"
    with alone_with_images():
        before = begin_glances(spy, image)
        met = honest.facts(BEGIN.format('["python3", "glances.py", "act"]'))
        assert cached_pages(image) > 1
    after = spy.facts(TELL)
    honest.run(TELL)
    return [json.loads(text) for text in (before["before"], after["beside"], after["own"])], met, after


def check_glances(before, beside, own, met, after):
    assert len(before) > 60
    seen = {name: (before[name], beside[name]) for name in before if before[name] != beside[name]}
    assert not seen, "what another sandbox does shows here"
    unseen = {name for name in SHOWS_ITS_OWN if before[name] == own[name]}
    if met["shmget"] == "ENOSYS":  # refused where no group counts memory
        unseen -= {"sysv-shm", "sysv-msg", "sysv-sem", "sysv-key"}
    assert not unseen, "not even its own doing shows here, so nothing was tried"
    assert after["port"] == "ECONNREFUSED"
    assert {name: met[name] for name in REFUSED} == REFUSED
    assert before["proc"] == ["self", "thread-self"] and before["sysctl"] == f"error {errno.ENOENT}"
    for name in OF_THE_MACHINE:
        assert before.get(f"/proc/self/net/{name}", f"error {errno.EACCES}") == f"error {errno.EACCES}", name
    for name in (name for name in before if name.startswith("nowait:")):
        assert before[name] == f"error {errno.EOPNOTSUPP}"
    for name in (name for name in before if name.startswith("mincore:")):
        assert set(before[name]) == {"0", "1"} and before[name] == "01" * (len(before[name]) // 2), "all pages, which says nothing"


def test_what_one_has_its_hands_on_shows_another_nothing(pair):
    readings, met, after = glances(pair)
    check_glances(*readings, met, after)
    assert met["lease-of-its-own"] == met["shmget"] == met["seal"] == "ok", met


DROP_CACHED = """
import os
file = os.open("/usr/bin/sha384sum", os.O_RDONLY)
print("dropped", os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED))
"""


def test_no_sandbox_drops_what_all_have_in_memory(pair):
    """Else it would see who reads it again."""
    with alone_with_images():
        for path in files_of_images("/usr/bin/sha384sum"):
            with open_quietly(path) as file:
                file.read()
        before = cached_pages("/usr/bin/sha384sum")
        assert pair[0].facts(DROP_CACHED) == {"dropped": "None"}
        assert cached_pages("/usr/bin/sha384sum") == before > 1


WHAT_IS_OPEN = """
import glob, os
for path in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/map_files/*"):
    try:
        file = os.stat(path)
        print(f"{file.st_dev}:{file.st_ino}:{os.readlink(path).replace(' ', '_')} {path}")
    except OSError:
        pass
memory = os.memfd_create("mine")
print(f"{os.fstat(memory).st_dev}:memory-files own")
"""


def test_no_open_file_is_common_to_two_sandboxes(pair):
    """Memory files stand in one file system for the whole machine: seals and locks on a common one would be a wire."""
    first, second = (tenant.facts(WHAT_IS_OPEN) for tenant in pair)
    common = first.keys() & second.keys()
    assert len(first) > 5 and len(common) == 1 and common.pop().endswith(":memory-files"), [first, second]


# --- what does cross: docs/THREAT-MODEL.md names it, with figures of bench/pages -----------------------

# Large enough, and nobody's who does not load it on purpose.
PAGES_FILE = "/usr/lib/x86_64-linux-gnu/openblas-serial/liblapack.so.3"
PAGES = """
import os, subprocess
os.chmod("pages", 0o755)
words = ["./pages", {way!r}, {side!r}, {file!r}, "{seconds}"]
"""
SEND = PAGES + "sender = subprocess.Popen(words, stdout=subprocess.DEVNULL)"
RECEIVE = PAGES + "print(subprocess.run(words, capture_output=True, text=True).stdout)"


@functools.cache
def pages_program():
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "pages"
        subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-static", "-o", target, PROGRAMS / "pages.c"], check=True)
        return target.read_bytes()


def send_through_pages(tenants, way, seconds):
    """What the first received of what the second sent: bits, how many of them wrong, and bits a second."""
    # Those who had it mapped may just be going.
    wait_for(lambda: forget_cached(PAGES_FILE) or not cached_pages(PAGES_FILE), "nothing of it in memory")
    for tenant in tenants:
        put = tenant.server.put(f"{SESSIONS}/{tenant.id}/files/pages", pages_program(), token=tenant.token)
        assert put.status in (200, 201), put
    order = {"way": way, "file": PAGES_FILE, "seconds": seconds}
    receiver, sender = tenants
    sender.run(SEND.format(side="send", **order))
    facts = receiver.facts(RECEIVE.format(side="receive", **order))
    sender.run("sender.kill(); sender.wait()")
    return [int(facts[name].removeprefix("=")) for name in ("bits", "wrong", "bits_per_second")]


@pytest.mark.parametrize("way", ["futex", "mapped", "cached"])
def test_what_crosses_through_pages_of_the_image_is_what_is_named(warm_server, way, is_long):
    """Should it cross no more, the threat model says too much."""
    if not is_long:
        pytest.skip("another server's sandboxes may have the file mapped, on a machine with other work: give --long")
    with two_tenants(warm_server) as tenants:
        bits, wrong, _ = send_through_pages(tenants, way, 0.5)
    assert bits > 1000 and wrong * 20 < bits


WHAT_IS_KEPT = """
import fcntl, os
try:
    file = os.open("/proc/self/exe", os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("exe ok")
except OSError as error:
    print("exe", error.errno)
device = lambda path: os.stat(path).st_dev
print("cwd", device(".") == device("/workspace"))
"""


def test_what_copies_of_one_interpreter_keep_of_it_is_no_wire(warm_server):
    """Its program's file stays that of the one they were copied from, and none of them can open it."""
    with two_tenants(warm_server) as tenants:
        first, second = (tenant.facts(WHAT_IS_KEPT) for tenant in tenants)
    assert first == second == {"exe": "13", "cwd": "True"}, [first, second]


# --- what the kernel counts -------------------------------------------------------------------------


# By a process that keeps them until its input ends.
QUEUE_SIGNALS = """
import subprocess, sys
HOLDER = '''
import ctypes, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
libc, count = ctypes.CDLL(None), 0
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0:
    count += 1
print("queued", count, flush=True)
sys.stdin.read()
'''
holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(holder.stdout.readline())
"""


def queued_by_root():
    """Signals that wait, as the kernel counts them for the user who runs the server."""
    return int(covetest.status_of("self")["SigQ"].split("/")[0])


def test_what_one_sandbox_has_queued_is_counted_for_nobody_else(pair):
    before = queued_by_root()
    first, second = (int(tenant.facts(QUEUE_SIGNALS)["queued"]) for tenant in pair)
    assert first == second > 100, "each has as many as there may be"
    assert queued_by_root() - before < 100
