# SPDX-License-Identifier: Apache-2.0
"""A warm python that forks into sandboxes: as sealed as a cold start, alike in nothing that must differ, gone when it should."""
import array
import contextlib
import json
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time

import pytest

import covetest
import failclosed_test
from covetest import wait_for
from spawner_protocol_test import (CONFLICT, CREATE, DESTROY, EXITED, FAILED, FREEZE, GUEST, GUEST_EXITED, GUEST_READY,
                                   INVALID, ISOLATION, KILL, NOT_FOUND, SEALED, STATS, THAW, UNAVAILABLE, USUAL, ZYGOTE,
                                   Spawner, create_body, message)

PATIENCE = covetest.PATIENCE
HERE = pathlib.Path(__file__).resolve().parent
KERNEL = covetest.ROOT / "images/python/kernel.py"
ENV = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace", "MPLBACKEND": "Agg"}
LIMITS = {"memory_bytes": 512 << 20, "cpu_milli": 2000}
# docs/PROTOCOL-kernel.md
FRAME = struct.Struct("<IHHII")
EXECUTE, READY, ERROR, DONE = 2, 64, 66, 68
GUEST_SIGNAL = 5

pytestmark = [
    pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root"),
    pytest.mark.skipif(not (covetest.BUILD / "cove_zygote.so").exists(), reason="this build has no zygote"),
]


def digest_of(name):
    rows = json.loads(covetest.Cove()("image", "list", "--json").stdout)["images"]
    return bytes.fromhex(next(row["digest"] for row in rows if row["name"] == name).split(":")[-1])


def memory_file(data):
    fd = os.memfd_create("given")
    os.write(fd, data)
    return fd


class Session:
    """The kernel of one sandbox, as its host sees it."""

    def __init__(self, answer):
        self.id, self.generation, self.rest = answer.sandbox, 0, b""
        self.control, self.channel = (socket.socket(fileno=fd) for fd in answer.fds)
        for one in (self.control, self.channel):
            one.settimeout(PATIENCE)

    def frame(self):
        """Type and body, or None at the end."""
        try:
            self.rest = self.rest or self.channel.recv(70_000)
        except ConnectionResetError:
            return None
        if not self.rest:
            return None
        length, kind = FRAME.unpack(self.rest[:FRAME.size])[:2]
        body, self.rest = self.rest[FRAME.size:FRAME.size + length], self.rest[FRAME.size + length:]
        return kind, body

    def begin(self, code, stdin=b""):
        """Sends code; answers the pipe with what it prints."""
        self.generation += 1
        ours, theirs = os.pipe()
        given = memory_file(stdin)
        os.lseek(given, 0, os.SEEK_SET)
        code = code.encode()
        for at in range(0, len(code) or 1, 65_520):
            piece = code[at:at + 65_520]
            flags = 1 if at + 65_520 < len(code) else 0
            head = FRAME.pack(len(piece), EXECUTE, flags, self.generation, 0)
            rights = [given, theirs, theirs] if at == 0 else []
            self.channel.sendmsg([head, piece], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))])
        os.close(given)
        os.close(theirs)
        return open(ours, encoding="utf-8", errors="replace")

    def finish(self):
        """Waits for DONE; answers the error, or None."""
        error = None
        while True:
            frame = self.frame()
            assert frame, "the kernel went away"
            if frame[0] == ERROR:
                error = json.loads(frame[1])
            if frame[0] == DONE:
                return error

    def run(self, code):
        """What the code prints; it must end well."""
        with self.begin(code) as output:
            error = self.finish()
            text = output.read()
        assert error is None, f"{error['name']}: {error['value']}\n{error.get('traceback')}\n{text}"
        return text

    def value(self, code):
        return json.loads(self.run(f"import json\n{code}"))

    def control_message(self, wanted):
        while True:
            data = self.control.recv(4096)
            assert data, "init went away"
            fields = GUEST.unpack(data)
            if fields[0] == wanted:
                return fields

    def close(self):
        self.control.close()
        self.channel.close()


class Host(Spawner):
    """A spawner with zygotes."""

    def __init__(self, *options):
        super().__init__(*options)
        self.hello()
        self.digest = digest_of("python")
        self.errors_of_zygote = os.memfd_create("zygote")

    def begin_zygote(self, preload=(), kernel=None, config=None, digest=None, zygote=0, **limits):
        config = config if config is not None else json.dumps({"env": ENV, "preload": list(preload)}).encode()
        fds = [memory_file(KERNEL.read_bytes() if kernel is None else kernel), memory_file(config),
               os.dup(self.errors_of_zygote)]
        self.serial += 1
        body = create_body(digest or self.digest, zygote=zygote, **(LIMITS | limits))
        self.send(message(ZYGOTE, self.serial, body=body), fds)
        for fd in fds:
            os.close(fd)
        return self.next_reply()

    def next_reply(self):
        answer = self.receive()
        while answer and answer.serial != self.serial:
            answer = self.receive()
        assert answer, "it hung up"
        return answer

    def news(self, verb, sandbox):
        while True:
            news = self.receive()
            assert news, "it hung up"
            if (news.verb, news.sandbox) == (verb, sandbox):
                return news

    def zygote(self, *args, **kwargs):
        answer = self.begin_zygote(*args, **kwargs)
        assert answer.failure is None, answer.failure
        news = self.news(SEALED, answer.sandbox)
        assert news.failure is None, (news.failure, self.zygote_errors())
        return answer.sandbox

    def zygote_errors(self):
        os.lseek(self.errors_of_zygote, 0, os.SEEK_SET)
        return os.read(self.errors_of_zygote, 65536).decode(errors="replace")

    def ask_warm(self, zygote, **limits):
        self.serial += 1
        self.send(message(CREATE, self.serial, body=create_body(self.digest, zygote=zygote, **(LIMITS | limits))))
        return self.next_reply()

    def session(self, zygote, **limits):
        answer = self.ask_warm(zygote, **limits)
        assert answer.failure is None, answer.failure
        session = Session(answer)
        news = self.news(SEALED, answer.sandbox)
        assert news.failure is None, news.failure
        session.layers, session.host_uid, session.uid = news.uids
        assert session.frame()[0] == READY
        return session

    def destroy(self, session):
        assert self.ask(DESTROY, session.id).failure is None
        session.close()

    def find(self, name, parent=None):
        return [pid for pid in covetest.children_of(parent or self.process.pid) if covetest.name_of(pid) == name]

    def zygote_pids(self):
        """Not the process that seals the next sandbox, and is called so, too."""
        return [pid for pid in self.find("python3") if covetest.status_of(pid).get("NSpid", "").split()[1:] == ["300"]]


@contextlib.contextmanager
def running_host(*options):
    host = Host(*options)
    yield host
    host.socket.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        host.process.wait(PATIENCE)
    covetest.kill_quietly(host.process.pid)
    host.process.wait()
    os.close(host.errors)
    os.close(host.errors_of_zygote)


@pytest.fixture
def host():
    with running_host() as host:
        yield host


@pytest.fixture
def hasty_host():
    """One that gives a zygote less time than it does by default; enough for all that go well."""
    with running_host("--seal-limit", "3s") as host:
        yield host


# --- it works -----------------------------------------------------------------------------------


def test_a_zygote_makes_sandboxes_that_run_code(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    assert first.run("x = 20\nprint(x + 1)") == "21\n"
    assert second.run("print('x' in globals())") == "False\n"
    assert first.run("print(x)") == "20\n", "the namespace lives on"
    for session in (first, second):
        assert GUEST.unpack(session.control.recv(4096))[0] == GUEST_READY
        host.destroy(session)
    host.end()


def test_modules_are_there_before_they_are_imported(host):
    zygote = host.zygote(preload=["json", "decimal"])
    session = host.session(zygote)
    assert session.run("import sys; print('decimal' in sys.modules, 'csv' in sys.modules)") == "True False\n"
    assert session.run("import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(3)}).a.sum())") == "3\n"
    host.end()


def test_many_one_after_the_other_and_at_once(host):
    zygote = host.zygote()
    for _ in range(20):
        host.destroy(host.session(zygote))
    sessions = [host.session(zygote) for _ in range(20)]
    assert [session.run(f"print({n})") for n, session in enumerate(sessions)] == [f"{n}\n" for n in range(20)]
    assert len({session.host_uid for session in sessions}) == 20
    for session in sessions:
        host.destroy(session)
    host.end()


def test_what_programs_do_works_in_a_copy(host):
    """Threads, processes, locks, clocks: all that a fork may break."""
    session = host.session(host.zygote(preload=["threading", "logging", "concurrent.futures", "asyncio"]))
    assert session.run(HYGIENE) == "fine\n"
    host.end()


HYGIENE = """
import asyncio, concurrent.futures, ctypes, logging, multiprocessing, os, queue, sqlite3, subprocess, sys, tempfile, threading, time
results = queue.Queue()
threads = [threading.Thread(target=results.put, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(results.queue) == [0, 1, 2, 3]
assert threading.main_thread().native_id == os.getpid() == threading.get_native_id()
assert threading.current_thread() is threading.main_thread()
lock = threading.RLock()
with lock: assert lock._is_owned()
assert subprocess.run([sys.executable, "-c", "print(6)"], capture_output=True, text=True).stdout == "6\\n"
pid = os.fork()
if pid == 0: os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
with concurrent.futures.ThreadPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, 2])) == [1, 2]
with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
async def wait():
    await asyncio.sleep(0.001)
    return 5
loop = asyncio.new_event_loop(); assert loop.run_until_complete(wait()) == 5; loop.close()
logging.getLogger("x").warning("to stderr")if False else None
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
with tempfile.NamedTemporaryFile() as file: file.write(b"x")
assert os.sched_getaffinity(0) and ctypes.CDLL(None).sched_getcpu() in os.sched_getaffinity(0)
assert abs(time.process_time()) < 60
print("fine")
"""


def test_an_interrupt_ends_the_code_and_not_the_kernel(host):
    session = host.session(host.zygote())
    with session.begin("print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)") as output:
        assert output.readline() == "on\n"
        session.control.send(struct.pack("<Ii", GUEST_SIGNAL, signal.SIGINT).ljust(GUEST.size, b"\0"))
        assert session.finish()["name"] == "KeyboardInterrupt"
    assert session.run("print(1)") == "1\n"
    host.end()


@pytest.mark.parametrize("code, exit_code, number", [("import os; os._exit(3)", 3, 0),
                                                     ("import os; os.kill(os.getpid(), 9)", 0, 9)])
def test_init_tells_how_the_kernel_ended(host, code, exit_code, number):
    session = host.session(host.zygote())
    session.begin(code).close()
    verb, _, code, ended_by = session.control_message(GUEST_EXITED)[:4]
    assert (code, ended_by) == (exit_code, number)
    host.destroy(session)
    host.end()


# --- it is as sealed as a cold one --------------------------------------------------------------


def test_a_copy_is_sealed_like_a_cold_start(host):
    code = (HERE / "sealreport.py").read_text()
    session = host.session(host.zygote())
    with session.begin(code) as output:
        assert session.finish() is None
        warm = json.loads(output.read())
    cold = json.loads(covetest.Cove().run("--cpus", "2", "--memory", "512M", "--disk", "64M", HERE / "sealreport.py").stdout)
    # Their limits are those of the request; a kernel has a channel and a spare /dev/null.
    for report in (warm, cold):
        for name in ("limits", "open", "fds"):
            report.pop(name)
        report["mounts"] = [line for line in report["mounts"] if "tmpfs none rw,size=" not in line]
    # The zygote's own /proc lies below the sandbox's: the kernel lets nobody mount one without.
    hidden = [line for line in set(warm["mounts"]) if warm["mounts"].count(line) == 2]
    assert len(hidden) == 1 and " /proc " in hidden[0]
    warm["mounts"].remove(hidden[0])
    assert warm == cold
    host.end()


def test_limits_are_those_of_the_create(host):
    session = host.session(host.zygote(), open_files=99, pids=17, disk_bytes=1 << 20)
    assert session.value("import resource as r; print(json.dumps([r.getrlimit(x) for x in "
                         "(r.RLIMIT_NOFILE, r.RLIMIT_NPROC, r.RLIMIT_FSIZE, r.RLIMIT_CORE)]))") == \
        [[99, 99], [17 + 64, 17 + 64], [2 << 20, 2 << 20], [1, 1]]
    assert "No space left" in session.run("try:\n open('/tmp/x', 'wb').write(bytes(2 << 20))\nexcept OSError as e: print(e)")
    host.end()


def test_the_groups_hold_the_copy_and_its_init(host):
    session = host.session(host.zygote())
    session.run("import subprocess; child = subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3)")
    assert host.ask(STATS, session.id).stats["pids_now"] == 3
    inside = [pid for pid in covetest.sandboxed() if covetest.uids_of(pid) == {session.host_uid}]
    assert len(inside) == 3
    paths = [covetest.groups_of(pid) for pid in inside]
    assert paths[0] == paths[1] == paths[2]
    ended = [path for path in paths[0].values() if covetest.CGROUP_PARENT in path]
    assert ended and {pathlib.PurePath(path).name for path in ended} == {str(session.host_uid - covetest.SANDBOX_UIDS.start)}
    host.end()


def test_memory_over_the_limit_ends_the_kernel_and_nobody_else(host):
    zygote = host.zygote()
    other = host.session(zygote)
    session = host.session(zygote, memory_bytes=64 << 20, disk_bytes=1 << 20)
    session.begin("x = bytearray(200 << 20)").close()
    assert session.control_message(GUEST_EXITED)[3] == signal.SIGKILL
    assert host.ask(STATS, session.id).stats["oom_kills"] >= 1
    assert other.run("print(1)") == "1\n"
    assert host.session(zygote).run("print(2)") == "2\n"
    host.end()


def test_a_copy_sees_nobody_and_holds_nothing(host):
    session = host.session(host.zygote())
    seen = session.value("""
import os
def link(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}")
    except OSError: return None
print(json.dumps({
  "pids": [n for n in os.listdir("/proc") if n.isdigit()], "pid": os.getpid(), "parent": os.getppid(),
  "fds": {fd: link(fd).split(":")[0] for fd in os.listdir("/proc/self/fd") if link(fd)},
  "sid": os.getsid(0), "group": os.getpgid(0), "cwd": os.getcwd(), "argv": __import__("sys").argv,
  "signals": [l.split()[1] for l in open("/proc/self/status") if l.startswith(("SigBlk", "SigIgn"))],
  "env": dict(os.environ), "oom": open("/proc/self/oom_score_adj").read(), "threads": len(os.listdir("/proc/self/task")),
  "maps": [l.split()[-1] for l in open("/proc/self/maps") if "/" in l and not l.split()[-1].startswith(("/usr/", "/memfd"))],
}))""")
    assert seen["pids"] == ["2"] and (seen["pid"], seen["parent"], seen["sid"], seen["group"]) == (2, 1, 2, 2)
    assert seen["fds"].pop("3") == "socket"
    assert set(seen["fds"].values()) <= {"/dev/null", "pipe", "/memfd"}, seen["fds"]
    assert seen["cwd"] == "/workspace" and seen["oom"] == "500\n" and seen["threads"] == 1
    assert seen["signals"] == ["0" * 16, "0000000001001000"], "none is blocked; python ignores SIGPIPE and SIGXFSZ"
    assert seen["env"] == ENV
    assert all(path.startswith(("/dev/null", "(deleted)", "/lib")) for path in seen["maps"]), seen["maps"]
    host.end()


def test_neither_init_nor_the_zygote_can_be_reached(host):
    session = host.session(host.zygote())
    refused = session.value("""
import os, signal
found = {}
for path in ("/proc/1/mem", "/proc/1/maps", "/proc/1/environ", "/proc/1/fd", "/proc/1/root", "/proc/300/mem"):
    try:
        os.listdir(path) if path.endswith(("fd", "root")) else open(path, "rb").read(1)
        found[path] = 0
    except OSError as error: found[path] = error.errno
for pid in (1, 300):
    try: os.kill(pid, signal.SIGKILL); found[pid] = 0
    except OSError as error: found[pid] = error.errno
print(json.dumps(found))""")
    assert refused.pop("1") == 0, "a signal to init is taken, and dropped"
    assert refused.pop("300") == 3
    assert set(refused.values()) <= {1, 2, 13}, refused
    assert session.run("print(1)") == "1\n"
    host.end()


def test_the_zygote_itself_has_no_power_over_the_host(host):
    """What it may do, it may do to its own sandboxes only."""
    zygote = host.zygote()
    host.session(zygote)
    pid, = host.zygote_pids()
    status = covetest.status_of(pid)
    own = next(iter(covetest.uids_of(pid)))
    assert covetest.uids_of(pid) == {own} and own in covetest.SANDBOX_UIDS
    caps = {1 << n for n in (6, 7, 8, 12, 21)}  # setgid, setuid, setpcap, net_admin, sys_admin
    assert int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == sum(caps)
    assert status["NoNewPrivs"].strip() == "1" and status["Groups"].strip() == ""
    for space in ("user", "mnt", "net", "ipc", "uts", "pid"):
        assert os.readlink(f"/proc/{pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"), space
    outside = {int(line.split()[1]) for line in covetest.read_text(f"/proc/{pid}/uid_map").splitlines()}
    assert outside <= set(covetest.SANDBOX_UIDS), "root of the host is not among its ids"
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    # While it waits for its next sandbox to be wanted, it holds the sockets and the group of that one.
    group = f"/{covetest.CGROUP_PARENT}/"
    assert all(link.startswith(("/dev/null", "socket:", "/memfd:")) or group in link for link in links), links
    assert len([link for link in links if link.startswith("socket:")]) <= 4
    host.end()


# --- it fails closed ----------------------------------------------------------------------------


# Calls of the sealing process that may fail with no effect on the seal.
HARMLESS = {"close", "rseq"}


SPEAK = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b"", ("127.0.0.1", 9))
"""  # so that its network namespace is nobody else's afterwards


class Watched:
    """One sandbox, in whose sealing one call may fail: whether it was sealed, and how."""

    def __init__(self, tracer, host, zygote, number, index=-1):
        pid, = host.zygote_pids()
        if number > 0:  # the spare of the one before must not be the one that is watched
            wait_for(lambda: len(host.find("python3")) == 2, "a spare")
        watcher = tracer.watch(pid, index)
        answer = host.ask_warm(zygote, open_files=100 + number)  # which the spare does not fit
        assert answer.failure is None, answer.failure
        news = host.news(SEALED, answer.sandbox)
        assert watcher.wait(PATIENCE) == 0
        watcher.stdout.close()
        self.calls, self.failure, self.report = tracer.calls(), news.failure, None
        session = Session(answer)
        if self.failure is None:
            assert session.frame()[0] == READY
            with session.begin((HERE / "sealreport.py").read_text() + SPEAK) as output:
                assert session.finish() is None
                self.report = json.loads(output.read())
            self.report.pop("limits")
            host.destroy(session)
        else:
            while session.frame():  # READY at most, from a sealed copy whose init did not come up
                pass
            session.close()


def test_to_enter_a_used_network_namespace_fails_closed(host, tmp_path):
    tracer = failclosed_test.Tracer(tmp_path)
    zygote = host.zygote()

    def watch(number, index=-1):
        host.destroy(host.session(zygote, open_files=99))  # which leaves one
        return Watched(tracer, host, zygote, number, index)

    usual = watch(1)
    names = [call.name for call in usual.calls]
    assert names.count("setns") == 1 and "ioctl" not in names
    failed = watch(2, names.index("setns"))
    assert failed.calls[names.index("setns")].name == "setns"
    assert failed.failure and failed.report is None
    assert host.session(zygote).run("print(1)") == "1\n"
    host.end()


def test_each_call_of_the_seal_fails_closed(host, tmp_path, is_long):
    tracer = failclosed_test.Tracer(tmp_path)
    zygote = host.zygote()
    usual = Watched(tracer, host, zygote, 0)
    names = [call.name for call in usual.calls]
    assert names[-1] == "execveat" and {"unshare", "setresuid", "seccomp", "landlock_restrict_self", "clone"} <= set(names)
    chosen = failclosed_test.choose("child", usual.calls, is_long)
    wrong = []
    for number, call in enumerate(chosen, 1):
        one = Watched(tracer, host, zygote, number, call.index)
        assert one.calls[call.index].name == call.name
        if one.failure is None and call.name not in HARMLESS:
            wrong.append(f"{call}: it was sealed")
        elif one.report not in (None, usual.report):
            wrong.append(f"{call}: sealed otherwise")
    assert not wrong, "\n".join(wrong)
    assert host.session(zygote).run("print(1)") == "1\n", "the zygote has lived through all of it"
    host.end()


# --- siblings share nothing ---------------------------------------------------------------------


CHANCE = """
import random, secrets, uuid, os, tempfile
import numpy, ssl
print(json.dumps([random.random(), random.getrandbits(64), list(numpy.random.rand(2)), float(numpy.random.default_rng().random()),
  secrets.token_hex(), str(uuid.uuid4()), uuid.uuid1().hex, ssl.RAND_bytes(16).hex(), os.urandom(8).hex(),
  next(tempfile._get_candidate_names()), random.Random().random(), random.SystemRandom().random()]))
"""


def test_siblings_share_no_randomness(host):
    """With everything loaded, seeded and used before the fork: the worst case."""
    kernel = KERNEL.read_bytes() + b"\nimport random, ssl, uuid, tempfile\nrandom.seed(1); random.random(); ssl.RAND_bytes(16)\n" \
        b"uuid.uuid1(); uuid.uuid4(); tempfile._get_candidate_names()\nimport numpy\nnumpy.random.seed(1); numpy.random.rand(3)\n"
    zygote = host.zygote(preload=["numpy", "ssl", "uuid", "random", "secrets"], kernel=kernel)
    drawn = [host.session(zygote).value(CHANCE) for _ in range(4)]
    for column in zip(*drawn):
        assert len({json.dumps(value) for value in column}) == len(drawn), column
    host.end()


def test_a_copys_own_forks_have_the_hooks_of_all_modules(host):
    """Those that the copy itself had no need of, too."""
    session = host.session(host.zygote(["logging", "random", "threading"]))
    code = ("import os, random, threading\nlock = threading.Event()\nthreading.Thread(target=lock.wait, daemon=True).start()\n"
            "r, w = os.pipe()\nstate = random.getstate()\npid = os.fork()\nif pid == 0:\n"
            " os.write(w, repr((threading.active_count(), random.getstate() == state)).encode()); os._exit(0)\n"
            "os.waitpid(pid, 0); lock.set(); print(os.read(r, 100).decode())")
    assert session.run(code) == "(1, False)\n"
    host.end()


def test_siblings_share_no_file_and_no_namespace(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    first.run("[open(f'{d}/mine', 'w') for d in ('/workspace', '/tmp', '/dev/shm')]\n"
              "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0name'); t = socket.create_server(('127.0.0.1', 5000))")
    assert second.run("import os; print([os.listdir(d) for d in ('/workspace', '/data', '/tmp', '/dev/shm')])") == \
        "[[], [], [], []]\n"
    assert second.run("import socket\nfor f, a in ((socket.AF_UNIX, '\\0name'), (socket.AF_INET, ('127.0.0.1', 5000))):\n"
                      " try: socket.socket(f).connect(a); print('reached')\n except OSError as e: print(e.errno)") == "111\n111\n"
    inits = {s.host_uid: next(p for p in host.find("cove-init") if covetest.uids_of(p) == {s.host_uid}) for s in (first, second)}
    kernels = [covetest.children_of(pid)[0] for pid in inits.values()]
    for space in ("pid", "mnt", "net", "ipc", "uts", "user", "cgroup"):
        links = [os.readlink(f"/proc/{pid}/ns/{space}") for pid in [*inits.values(), *kernels, *host.zygote_pids()]]
        assert links[0] == links[2] and links[1] == links[3], "a kernel lives where its init does"
        assert len({links[0], links[1], links[4]}) == 3, space
    host.end()


SO_NETNS_COOKIE = 71  # a number that, unlike an inode's, is never used again


def network(session):
    """Which one it is, and everything that a tenant can see of it but what is the whole machine's."""
    return session.value("""
import os, socket
shown = {}
for place, _, names in os.walk("/proc/self/net"):
    for name in names:
        if name not in ("sockstat", "sockstat6", "protocols", "softnet_stat", "ptype", "netlink"):
            try: shown[name] = open(f"{place}/{name}").read()
            except OSError as e: shown[name] = e.errno
with socket.socket() as s: print(json.dumps([s.getsockopt(socket.SOL_SOCKET, %d, 8).hex(), shown]))""" % SO_NETNS_COOKIE)


QUIET = {
    "nothing": "",
    "a server that nobody asks": "import socket; s = socket.create_server(('127.0.0.1', 5000)); s.close()",
    "names of sockets": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0name')",
    "sockets that are open to the end": "import socket; s = [socket.socket(f, k) for f in (socket.AF_INET, socket.AF_INET6)"
                                        " for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]; s[0].bind(('', 5001)); s[0].listen()",
}
LOUD = {
    "a datagram": SPEAK,
    "a datagram over IPv6": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'1', ('::1', 9))",
    "a connection": "import socket\nwith socket.create_server(('127.0.0.1', 5000)) as s, socket.create_connection(('127.0.0.1', 5000)) as c: s.accept()",
    "a refused connection": "import socket; socket.socket().connect_ex(('127.0.0.1', 5000))",
    "an address that cannot be reached": "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
}


@pytest.mark.parametrize("code", QUIET.values(), ids=QUIET)
def test_a_network_in_which_nothing_happened_is_used_again(host, code):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    fresh = network(second)
    first.run(code)
    which = network(first)[0]
    host.destroy(first)
    found = [network(host.session(zygote)) for _ in range(2)]  # one was made in advance
    assert which != fresh[0] and [shown for _, shown in found] == [fresh[1]] * 2
    assert which in [each for each, _ in found]
    host.end()


@pytest.mark.parametrize("code", LOUD.values(), ids=LOUD)
def test_a_network_in_which_something_happened_is_nobodys_after(host, code):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    fresh = network(second)
    first.run(code)
    which, shown = network(first)
    assert shown != fresh[1], "it can be seen"
    host.destroy(first)
    found = [network(host.session(zygote)) for _ in range(3)]
    assert [shown for _, shown in found] == [fresh[1]] * 3
    assert which not in [each for each, _ in found]
    host.end()


def test_a_socket_that_is_still_on_its_way_keeps_its_network_to_itself(host):
    """Sent to the host, which has not looked, it outlives its process."""
    zygote = host.zygote()
    first = host.session(zygote)
    which = network(first)[0]
    with first.begin("import socket, array\nchannel = socket.socket(fileno=3)\n"
              "secret = socket.socket(socket.AF_UNIX); secret.bind('\\0name'); secret.listen()\n"
              "channel.sendmsg([b''.ljust(16, b'\\0')], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [secret.fileno()]))])"):
        assert select.select([first.channel], [], [], PATIENCE)[0]
    assert host.ask(DESTROY, first.id).failure is None  # and the host's end of the channel stays open
    after = [host.session(zygote) for _ in range(3)]
    assert which not in [network(session)[0] for session in after]
    for session in after:
        assert session.run("import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0name')\n"
                           "except OSError as e: print(e.errno)") == "111\n"
    first.close()
    host.end()


def kernel_of(host, session):
    init = next(pid for pid in host.find("cove-init") if covetest.uids_of(pid) == {session.host_uid})
    kernel, = covetest.children_of(init)
    return kernel


def open_things(pid):
    """What it has open, by what it is; a device of everybody's is nothing shared."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        st = os.stat(f"/proc/{pid}/fd/{fd}")
        if not stat.S_ISCHR(st.st_mode):
            found[st.st_dev, st.st_ino] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def test_siblings_share_no_pid_and_no_descriptor(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    kernels = [kernel_of(host, session) for session in (first, second)]
    mine, others = (open_things(pid) for pid in kernels)
    assert mine and others and not mine.keys() & others.keys(), (mine, others)
    for pid in host.zygote_pids():
        assert not open_things(pid).keys() & (mine.keys() | others.keys())
    # Every pid is tried, and all at once; what is reached would be gone, or be told.
    assert first.value("""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reached = []
for pid in range(3, 40_000):
    try: os.kill(pid, signal.SIGKILL); reached.append(pid)
    except ProcessLookupError: pass
try: os.kill(-1, signal.SIGTERM)
except ProcessLookupError: pass
print(json.dumps([reached, os.listdir("/proc").count("2"), [n for n in os.listdir("/proc") if n.isdigit()]]))""") == [[], 1, ["2"]]
    assert second.run("print(1)") == "1\n"
    assert host.session(zygote).run("print(2)") == "2\n", "the zygote lives, too"
    host.end()


def test_a_zygote_learns_nothing_from_its_sandboxes(host):
    """Whatever a tenant has in memory, in files or in its streams is in no other sandbox, and not in the zygote."""
    zygote = host.zygote()
    first = host.session(zygote)
    word = first.run("import os; word = os.urandom(20).hex(); open('file', 'w').write(word); os.environ['WORD'] = word; print(word)")
    word = word.strip().encode()
    assert covetest.remembers(kernel_of(host, first), word), "or the search would find nothing anywhere"
    beside = host.session(zygote)
    host.destroy(first)
    after = [host.session(zygote) for _ in range(2)]  # one of them was a spare then, the other is new
    pids = [kernel_of(host, session) for session in (beside, *after)] + host.find("cove-init") + host.find("python3")
    assert len(pids) >= 8 and not [pid for pid in pids if covetest.remembers(pid, word)]
    host.end()


# --- how things end -----------------------------------------------------------------------------


def test_sandboxes_outlive_their_zygote(host):
    zygote = host.zygote()
    session = host.session(zygote)
    assert host.ask(DESTROY, zygote).failure is None
    wait_for(lambda: not host.zygote_pids(), "the end of the zygote")
    assert session.run("print(1)") == "1\n"
    code, _, _, step = host.ask_warm(zygote).failure
    assert (code, step) == (NOT_FOUND, "no such zygote")
    assert host.ask(DESTROY, zygote).failure[0] == NOT_FOUND
    other = host.zygote()
    assert host.session(other).run("print(2)") == "2\n"
    assert session.run("print(3)") == "3\n"
    host.destroy(session)
    host.end()


def test_a_killed_zygote_is_told_and_creates_fail(host):
    zygote = host.zygote()
    session = host.session(zygote)
    pid, = host.zygote_pids()
    os.kill(pid, signal.SIGKILL)
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    assert session.run("print(1)") == "1\n"
    host.end()


def test_a_zygote_killed_at_work_fails_the_create(host):
    zygote = host.zygote()
    for _ in range(10):
        pid, = host.zygote_pids()
        host.serial += 1
        host.send(message(CREATE, host.serial, body=create_body(host.digest, zygote=zygote, **LIMITS)))
        os.kill(pid, signal.SIGKILL)
        answer = host.next_reply()
        if answer.failure is None:  # then it is sealed or not, and nothing between
            host.news(SEALED, answer.sandbox)
            for fd in answer.fds:
                os.close(fd)
        zygote = host.zygote()
    host.end()


def test_the_end_of_the_spawner_is_the_end_of_all(host):
    zygote = host.zygote()
    host.session(zygote)
    assert len(covetest.sandboxed()) >= 3
    host.process.kill()
    host.process.wait()
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-l", "bash", "-c", "")  # whoever comes next removes the groups
    covetest.nothing_is_left()


def test_destroyed_before_it_was_sealed(host):
    zygote = host.zygote()
    for number in range(20):
        limits = {"open_files": 100 + number % 2}  # each second one finds a spare that does not fit
        answer = host.ask_warm(zygote, **limits)
        assert answer.failure is None
        assert host.ask(DESTROY, answer.sandbox).failure is None
        for fd in answer.fds:
            os.close(fd)
    assert host.session(zygote).run("print(1)") == "1\n"
    host.end()


def test_kill_is_followed_by_exited(host):
    session = host.session(host.zygote())
    host.ask(KILL, session.id)
    assert host.news(EXITED, session.id).stats["is_over"]
    host.destroy(session)
    host.end()


def test_a_client_that_leaves_at_any_moment_leaves_nothing(host):
    host.begin_zygote()
    host.end()


# --- zygotes that hang --------------------------------------------------------------------------

UNLIKE = {"open_files": 99}  # no spare fits: it is the zygote itself that is asked


def stop(host):
    """Stops the zygote, with a spare beside it, until which is wanted or gone it waits in the kernel; -> its pid."""
    wait_for(lambda: len(host.find("python3")) == 2, "a spare")
    pid, = host.zygote_pids()
    os.kill(pid, signal.SIGSTOP)
    return pid


def close_all(answer):
    for fd in answer.fds:
        os.close(fd)


def test_a_zygote_that_is_never_ready_ends_with_its_lifetime(host):
    answer = host.begin_zygote(kernel=b"import time\ntime.sleep(1000)", lifetime_ms=1500)
    assert host.news(SEALED, answer.sandbox).failure == (UNAVAILABLE, 0, -1, "the zygote was not ready in time")
    wait_for(lambda: not covetest.sandboxed(), "no process of it")
    assert host.ask(DESTROY, answer.sandbox).failure[0] == NOT_FOUND
    host.end()


def test_a_zygote_that_is_stopped_while_it_starts_ends_with_its_lifetime(host):
    answer = host.begin_zygote(kernel=b"import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", lifetime_ms=1500)
    assert host.news(SEALED, answer.sandbox).failure == (UNAVAILABLE, 0, -1, "the zygote was not ready in time")
    host.end()


def test_a_lifetime_ends_a_zygote_that_is_ready(host):
    answer = host.begin_zygote(lifetime_ms=4000)
    assert host.news(SEALED, answer.sandbox).failure is None
    assert host.news(EXITED, answer.sandbox).stats["is_over"]
    assert host.ask_warm(answer.sandbox).failure[0] == NOT_FOUND
    host.end()


def test_a_stopped_zygote_fails_what_waits_for_it_in_time(host):
    zygote = host.zygote()
    session = host.session(zygote)
    stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    assert answer.failure is None
    for verb in (FREEZE, THAW):
        assert host.ask(verb, answer.sandbox).failure == (CONFLICT, 0, -1, "the sandbox is not sealed, or over")
    began = time.monotonic()
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.news(SEALED, answer.sandbox).failure[0] == ISOLATION
    assert 9 < time.monotonic() - began < 15 * covetest.SLOWNESS, "ten seconds by default"
    close_all(answer)
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    assert session.run("print(1)") == "1\n", "what it had made lives on"
    assert host.session(host.zygote()).run("print(2)") == "2\n"
    host.end()


def test_what_a_stopped_zygote_made_in_advance_is_sealed_in_time_or_not_at_all(hasty_host):
    """It has the zygote's memory until it is let go, and the zygote its sockets."""
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    stop(host)
    answer = host.ask_warm(zygote)
    assert answer.failure is None
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.news(SEALED, answer.sandbox).failure == (ISOLATION, 0, -1, "it was not sealed in time")
    close_all(answer)
    host.end()


def test_a_stopped_zygote_can_be_destroyed(host):
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    host.serial += 1
    host.send(message(DESTROY, host.serial, sandbox=zygote))
    heard = {(news.verb, news.sandbox): news.failure for news in (host.receive(), host.receive())}
    assert heard.pop((DESTROY, zygote)) is None and not os.path.exists(f"/proc/{pid}"), "answered when it is gone"
    assert heard[SEALED, answer.sandbox][0] == ISOLATION
    close_all(answer)
    host.end()


def test_one_that_waits_for_a_stopped_zygote_can_be_destroyed(hasty_host):
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    host.serial += 1
    host.send(message(DESTROY, host.serial, sandbox=answer.sandbox))
    os.kill(pid, signal.SIGCONT)
    assert host.next_reply().failure is None
    close_all(answer)
    assert host.session(zygote).run("print(1)") == "1\n"
    stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    assert host.ask(DESTROY, answer.sandbox).failure is None, "also when it goes on no more"
    close_all(answer)
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    host.end()


def test_a_client_that_leaves_a_stopped_zygote_leaves_nothing(host):
    zygote = host.zygote()
    host.session(zygote)
    stop(host)
    close_all(host.ask_warm(zygote, **UNLIKE))
    host.end()


def test_a_zygote_that_dies_before_it_seals_fails_the_create(host):
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    os.kill(pid, signal.SIGKILL)
    assert host.news(SEALED, answer.sandbox).failure[0] == ISOLATION
    close_all(answer)
    host.end()


def test_a_process_that_dies_while_it_is_sealed_fails_the_create(host):
    zygote = host.zygote()
    host.session(zygote)
    wait_for(lambda: len(host.find("python3")) == 2, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGKILL)
    answer = host.ask_warm(zygote)  # may be refused at once, or be told
    failure = answer.failure or host.news(SEALED, answer.sandbox).failure
    assert failure, "it is sealed, and dead"
    close_all(answer)
    assert host.session(zygote).run("print(1)") == "1\n", "the zygote makes others"
    host.end()


def test_a_process_that_is_stopped_while_it_is_sealed_fails_the_create_in_time(hasty_host):
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    wait_for(lambda: len(host.find("python3")) == 2, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGSTOP)
    began = time.monotonic()
    answer = host.ask_warm(zygote)
    failure = answer.failure or host.news(SEALED, answer.sandbox).failure
    assert failure and time.monotonic() - began < 15 * covetest.SLOWNESS, failure
    close_all(answer)
    host.end()


def test_a_client_that_leaves_a_process_stopped_at_birth_leaves_nothing(host):
    zygote = host.zygote()
    host.session(zygote)
    wait_for(lambda: len(host.find("python3")) == 2, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGSTOP)
    host.end()


# --- what is refused ----------------------------------------------------------------------------


def failing(host, **kwargs):
    answer = host.begin_zygote(**kwargs)
    assert answer.failure is None, answer.failure
    news = host.news(SEALED, answer.sandbox)
    assert news.flags & FAILED
    return news.failure[3]


def test_what_cannot_be_imported_is_told(host):
    assert failing(host, preload=["nonesuch"]) == "zygote: ModuleNotFoundError: No module named 'nonesuch'"
    assert "ModuleNotFoundError" in host.zygote_errors(), "the whole story goes to its standard error"
    assert "SyntaxError" in failing(host, kernel=b"this is no python")
    assert "JSONDecodeError" in failing(host, config=b"{")
    thread = b"import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    assert failing(host, kernel=thread) == "zygote: RuntimeError: an imported module has started a thread"
    assert failing(host, kernel=b"import os; os._exit(0)") == "the zygote died"
    assert host.session(host.zygote()).run("print(1)") == "1\n"
    host.end()


def test_an_image_without_python_is_told(host):
    assert failing(host, digest=digest_of("bash")) == "zygote: exec python3"
    host.end()


def test_creates_that_do_not_fit_are_refused(host):
    zygote = host.zygote()
    host.serial += 1
    host.send(message(CREATE, host.serial, body=create_body(digest_of("bash"), zygote=zygote)))
    assert host.next_reply().failure == (INVALID, 0, -1, "the zygote runs another image")
    assert host.ask_warm(zygote + 1).failure[0] == NOT_FOUND
    assert host.ask_warm(zygote, open_files=1).failure[0] == INVALID
    assert host.begin_zygote(zygote=zygote).failure[0] == INVALID
    assert host.begin_zygote(digest=bytes(32)).failure[0] == NOT_FOUND
    assert host.begin_zygote(memory_bytes=1).failure[0] == INVALID
    host.end()


def test_a_zygote_is_none_before_it_is_ready(host):
    answer = host.begin_zygote(kernel=b"import time\ntime.sleep(1000)")
    assert host.ask_warm(answer.sandbox).failure[3] == "the zygote is not ready"
    assert host.ask(DESTROY, answer.sandbox).failure is None
    host.end()


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_another_number_of_descriptors_ends_the_connection(host, count):
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        host.is_ended_by(message(ZYGOTE, 50, body=create_body(host.digest)), [fd] * count)
    finally:
        os.close(fd)


# --- as an ordinary user ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_an_ordinary_user_has_zygotes_too(kind):
    reason = covetest.why_no_rootless(kind)
    if reason:
        pytest.skip(reason)
    cove = covetest.rootless(kind)
    build = covetest.public_build()
    for path in (HERE / "warm_client.py", KERNEL):
        shutil.copy(path, build / path.name)
    run_dir = tempfile.mkdtemp(prefix="cove-test-run-")
    entry = pwd.getpwnam(cove.user)
    os.chown(run_dir, entry.pw_uid, entry.pw_gid)
    try:
        code = "import os; print(os.getuid(), os.getpid(), sorted(os.listdir('/proc'))[0])"
        done = subprocess.run(
            ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "/usr/bin/python3", "-B",
             str(build / "warm_client.py"), str(cove.spawner), str(build / KERNEL.name), code,
             "--store", "/var/lib/cove/images", "--run-dir", run_dir],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, cwd="/",
            env={"ASAN_OPTIONS": "detect_leaks=0"})
        result = json.loads(done.stdout)
        assert (result["failure"], result["status"]) == (None, 0), (result, done.stderr)
        assert [made["output"] for made in result["made"]] == ["1000 2 2\n"] * 3
        uids = {made["host_uid"] for made in result["made"]}
        assert len(uids) == (3 if kind == "subids" else 1)
    finally:
        shutil.rmtree(run_dir)
