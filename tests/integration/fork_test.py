# SPDX-License-Identifier: Apache-2.0
"""Forks of a live session, through `cove repl --json --forks`."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import struct
import subprocess

import pytest

import covetest
from checkpoint_test import Repl
from covetest import nothing_is_left, wait_for

WHY_NOT = ("this build has no zygote" if not (covetest.BUILD / "cove_zygote.so").exists() else
           "forks need groups that can be frozen, and so root" if not covetest.IS_ROOT else "")
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
needs_root = pytest.mark.skipif(not covetest.IS_ROOT, reason="looks at groups and uids of the root spawner")


class Family(Repl):
    """A session, and its forks as sessions beside it."""

    def __init__(self, *args, forks=2, **kwargs):
        super().__init__("--forks", str(forks), *args, **kwargs)

    def fork(self):
        answer = self.ask("fork")
        assert answer.get("session", {}).get("state") == "ready", answer
        return Fork(self, answer["session"])

    def refusal(self, **more):
        answer = self.ask("fork", **more)
        assert list(answer) == ["error"], answer
        return answer["error"]

    def close_session(self):
        answer = self.ask("close", session=self.session["id"])
        assert answer["session"]["state"] == "terminated", answer

    def spawner(self):
        return next(pid for pid in covetest.children_of(self.process.pid) if covetest.name_of(pid) == "cove-spawner")


class Fork(Family):
    """Speaks through the process of its family."""

    def __init__(self, family, session):
        self.family, self.process, self.session = family, family.process, session

    def send(self, op, **more):
        super().send(op, **{"session": self.session["id"], **more})


# --- what comes along ---------------------------------------------------------------------------


def test_both_go_on_independently():
    with Family() as parent:
        parent.run("x = [1]; import os; y = {'a': x}\ndef f(): return x, y")
        child = parent.fork()
        assert child.session["id"] != parent.session["id"]
        child.run("x.append('child'); z = 1")
        parent.run("x.append('parent')")
        assert child.run("print(f())") == "([1, 'child'], {'a': [1, 'child']})"
        assert parent.run("print(f(), 'z' in globals())") == "([1, 'parent'], {'a': [1, 'parent']}) False"


def test_a_fork_is_of_the_moment_in_which_it_was_asked_for():
    with Family(forks=3) as parent:
        children = []
        for n in range(3):
            parent.run(f"n = {n}")
            children.append(parent.fork())
        assert [child.run("print(n)") for child in children] == ["0", "1", "2"]


def test_files_are_copied_and_then_apart():
    with Family() as parent:
        parent.run("import os, pathlib\nos.makedirs('d/e'); os.chdir('d')\n"
                   "pathlib.Path('e/one').write_text('1' * 100000); os.symlink('e/one', 'link'); os.mkfifo('pipe')\n"
                   "os.chmod('e/one', 0o640); os.utime('e/one', (1, -5)); os.mkdir('closed'); os.chmod('closed', 0o500)\n"
                   "with open('sparse', 'wb') as f: f.truncate(1 << 26); f.seek(1 << 25); _ = f.write(b'x')")
        child = parent.fork()
        look = ("st = os.stat('e/one')\nprint(os.getcwd(), sorted(os.listdir()), os.readlink('link'), len(open('link').read()),"
                "oct(st.st_mode), st.st_mtime, oct(os.stat('closed').st_mode), os.stat('sparse').st_size, st.st_uid)")
        assert child.run(look) == parent.run(look)
        child.run("open('e/one', 'w').write('child'); open('new', 'w').close()")
        parent.run("open('e/one', 'w').write('parent')")
        assert child.run("print(open('e/one').read(), os.path.exists('new'))") == "child True"
        assert parent.run("print(open('e/one').read(), os.path.exists('new'))") == "parent False"


def test_files_that_came_along_are_no_artifacts_of_the_fork():
    with Family() as parent:
        parent.run("open('old', 'w').write('x')")
        child = parent.fork()
        done = child.ask("execute", code="open('made', 'w').write('y')")
        assert [artifact["path"] for artifact in done["artifacts"]] == ["made"]


def test_open_files_are_open_again_and_sockets_are_dead():
    with Family() as parent:
        parent.run("import os, socket, select\nf = open('text', 'w+'); f.write('0123456789'); f.flush(); f.seek(3)\n"
                   "a, b = socket.socketpair(); r, w = os.pipe(); e = select.epoll(); null = open('/dev/null', 'rb')")
        child = parent.fork()
        assert child.run("print(f.read(), a.recv(10), os.read(r, 1), null.read())") == "3456789 b'' b'' b''"
        assert child.run("f.seek(0); f.write('child'); f.flush(); print(open('text').read())") == "child56789"
        parent.run("a.send(b'here'); os.write(w, b'!')")
        assert parent.run("print(b.recv(10), os.read(r, 1), f.read())") == "b'here' b'!' 3456789"


def test_the_rest_of_a_process_comes_along():
    """Handlers of signals, the mask of new files, the name: what is neither memory nor file."""
    look = "print(os.umask(0o77), signal.getsignal(signal.SIGUSR1).__name__, seen, hash('x'), open('/proc/self/comm').read())"
    with Family() as parent:
        parent.run("import os, signal, ctypes, threading\nseen = []\ndef handler(*_): seen.append(1)\n"
                   "signal.signal(signal.SIGUSR1, handler); os.umask(0o77); ctypes.CDLL(None).prctl(15, b'mine')")
        child = parent.fork()
        assert child.run(look) == parent.run(look)
        assert child.run("os.kill(os.getpid(), signal.SIGUSR1); print(seen)") == "[1]"
        assert parent.run("print(seen)") == "[]"


def test_a_fork_is_a_whole_session():
    """Threads, processes, interrupts, time limits, reset: as in any other."""
    with Family(forks=6) as parent:
        parent.run("import threading, subprocess, os, asyncio, time")
        child = parent.fork()
        assert child.run("t = threading.Thread(target=print, args=('t',)); t.start(); t.join()") == "t"
        assert child.run("print(threading.main_thread().native_id == os.getpid() == threading.get_native_id())") == "True"
        assert child.run("print(subprocess.run(['echo', 'p'], capture_output=True, text=True).stdout)") == "p"
        assert child.run("pid = os.fork()\nif not pid: os._exit(3)\nprint(os.waitpid(pid, 0)[1] >> 8)") == "3"
        assert child.run("print(asyncio.run(asyncio.sleep(0, 'a')))") == "a"
        for child in itertools.chain([child], (parent.fork() for _ in range(5))):
            child.send("execute", code="print('on', flush=True)\nwhile True: time.sleep(.01)", timeout=0.3)
            assert child.read()["reason"]["kind"] == "timeout"
            if "state" in child.ask("execute", code="1"):
                break  # else it had no turn on a busy machine, before it was killed: another one
        assert child.value("1 + 1") == "2", "SIGINT was enough"
        stubborn = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2])\nwhile True: time.sleep(.01)"
        assert child.ask("execute", code=stubborn, timeout=0.3)["duration_ms"] < 10_000, "and where it is not, it is killed"
        assert child.ask("reset")["session"]["state"] == "ready"
        assert child.run("print('threading' in globals())") == "False"
        assert parent.run("print('threading' in globals())") == "True"


def test_a_fork_has_checkpoints():
    with Family() as parent:
        parent.run("import os")
        child = parent.fork()
        assert child.ask("checkpoint", name="c")["checkpoint"]
        child.run("later = 1")
        assert child.ask("rollback", checkpoint="c")["checkpoint"]
        assert child.run("print('later' in globals(), 'os' in globals())") == "False True"


def test_randomness_differs():
    code = ("import os, random, ssl, uuid, numpy, multiprocessing\n"
            "print([random.random(), numpy.random.random(), ssl.RAND_bytes(8).hex(), uuid.uuid4().hex, uuid.uuid1().hex,"
            " multiprocessing.current_process().authkey.hex()])")
    with Family() as parent:
        parent.run(code)
        sessions = [parent, parent.fork(), parent.fork()]
        drawn = [eval(session.run(code)) for session in sessions]
        for kind in zip(*drawn):
            assert len(set(kind)) == 3, kind


def test_500_mb_are_forked_quickly_and_by_copy_on_write():
    """The machine may be busy once, but not each time."""
    with Family("--memory", "1200M", forks=3) as parent:
        parent.run("import numpy; a = numpy.ones(500 << 17)")
        took = []
        while not took or (min(took) >= 500 and len(took) < 3):
            child = parent.fork()
            took.append(child.session["timings"]["create_ms"])
            assert child.run("a[7] = 2; print(a.sum())") == parent.run("print(a.sum() + 1)")
            done = child.ask("execute", code="len(a)")
            assert done["usage"]["peak_memory_bytes"] < 200 << 20, "what both share counts in the first"
        assert min(took) < 500 * covetest.SLOWNESS, f"a copy would take that: {took}"


@needs_root
def test_100_mb_go_on_in_both_and_the_first_is_closed_first():
    with Family("--memory", "400M", forks=1) as parent:
        parent.run("x = bytearray(b'1' * (100 << 20)); open('file', 'w').write('both')")
        child = parent.fork()
        parent.run("x[0] = ord('p'); open('file', 'w').write('parent')")
        child.run("x[-1] = ord('c'); open('file', 'w').write('child')")
        look = "print(len(x) >> 20, chr(x[0]), chr(x[-1]), open('file').read())"
        assert (parent.run(look), child.run(look)) == ("100 p 1 parent", "100 1 c child")
        parent.close_session()
        assert child.run(look) == "100 1 c child"
        child.close_session()
    nothing_is_left()


# --- lives --------------------------------------------------------------------------------------


def test_the_parent_can_be_closed_first():
    with Family() as parent:
        parent.run("import numpy; a = numpy.arange(1 << 22); open('file', 'w').write('kept')")
        child, other = parent.fork(), parent.fork()
        parent.close_session()
        assert child.run("print(a.sum(), open('file').read())") == "8796090925056 kept"
        assert other.run("a[:] = 0; print(a.sum())") == "0"
        assert child.run("print(a.sum())") == "8796090925056"
        other.close_session()
        assert child.run("print(a[-1])") == "4194303"


def test_the_fork_can_be_closed_first():
    with Family() as parent:
        parent.run("x = 1")
        child = parent.fork()
        child.close_session()
        assert parent.run("print(x)") == "1"
        assert parent.fork().run("print(x)") == "1"


@pytest.mark.parametrize("victim", ["parent", "child"])
def test_the_death_of_one_is_nothing_to_the_other(victim):
    with Family() as parent:
        parent.run("import os; x = 1")
        child = parent.fork()
        dead, alive = (parent, child) if victim == "parent" else (child, parent)
        assert dead.ask("execute", code="os.kill(-1, 9); os._exit(3)")["state"] == "failed"
        assert alive.run("print(x)") == "1"


@needs_root
def test_memory_over_the_limit_of_one_is_nothing_to_the_other():
    with Family("--memory", "200M") as parent:
        parent.run("x = bytearray(50 << 20)")
        child = parent.fork()
        assert child.ask("execute", code="y = b'1' * (300 << 20)")["reason"]["kind"] == "oom"
        assert parent.run("print(len(x))") == str(50 << 20)


def memory_groups():
    """Bytes by group, of the groups in which a sandbox's memory is counted."""
    names = ("memory.usage_in_bytes", "memory.current")
    return [int((group / name).read_text()) for group in map(pathlib.Path, covetest.sandbox_groups()) for name in names
            if (group / name).exists()]


@needs_root
def test_what_a_fork_shares_stays_counted_when_the_parent_is_gone():
    with Family("--memory", "400M", forks=1) as parent:
        parent.run("x = b'1' * (100 << 20)")
        child = parent.fork()
        parent.close_session()
        assert any(used >= 100 << 20 for used in memory_groups()), "in the group of the session that is gone"
        assert child.run("print(len(x))") == str(100 << 20)
        child.close_session()
    nothing_is_left()


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code, why", [
    ("import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start()", "2 threads are running"),
    ("import subprocess; p = subprocess.Popen(['sleep', '100'])", "processes that the code has started"),
    ("import mmap; m = mmap.mmap(-1, 4096)", "memory is shared"),
    ("import mmap, ctypes; m = mmap.mmap(-1, 4096); p = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
     "assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(p), 4096, mmap.PROT_READ) == 0", "memory is shared"),
    ("import mmap; f = open('file', 'w+b'); f.write(bytes(4096)); f.flush()\n"
     "m = mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE)", "a file of the workspace"),
    ("f = open('/proc/self/mem', 'rb')", "a file of /proc is open"),
    ("import tempfile; f = tempfile.TemporaryFile()", "an open file has no name"),
    ("import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  import time; time.sleep(100)\n os._exit(0)\n"
     "os.wait()", "other processes are running"),
])
def test_what_cannot_be_forked_is_refused_with_the_reason(code, why):
    with Family(forks=1) as parent:
        parent.run("x = 1\n" + code)
        refusal = parent.refusal()
        assert why in refusal["message"] and refusal["hint"], refusal
        assert parent.run("print(x)") == "1", "it goes on"


def test_a_session_that_has_no_heirs_is_refused():
    with Repl() as repl:
        refusal = repl.ask("fork")["error"]
        assert "not opened as one that can be forked" in refusal["message"] and "--forks" in refusal["hint"]


def test_forks_are_counted():
    with Family(forks=1) as parent:
        child = parent.fork()
        refusal = parent.refusal()
        assert refusal["code"] == "limit" and "all its forks have been made" in refusal["message"]
        assert "--forks, up to 8" in refusal["hint"]
        refusal = child.refusal()
        assert refusal["message"] == "the session is a fork, and cannot be forked again"
        assert refusal["hint"] == "fork the session that it comes from once more"


def test_after_a_reset_there_are_no_forks():
    with Family() as parent:
        assert parent.ask("reset")["session"]["state"] == "ready"
        refusal = parent.refusal()
        assert "started anew" in refusal["message"] and refusal["hint"].startswith("open a new session")


def test_after_a_rollback_there_are_no_forks():
    with Family() as parent:
        parent.ask("checkpoint", name="c")
        assert parent.ask("rollback", checkpoint="c")["checkpoint"]
        assert "started anew" in parent.refusal()["message"]


def test_a_workspace_that_does_not_fit_fails_the_fork_alone():
    """Hard links become files of their own."""
    with Family("--disk", "8M") as parent:
        parent.run("import os\nx = 1; open('one', 'wb').write(bytes(5 << 20))\nos.link('one', 'two')")
        assert "the disk is full" in parent.refusal()["message"]
        assert parent.run("print(x)") == "1"
        parent.run("os.remove('two')")
        assert parent.fork().run("print(os.listdir())") == "['one']"


def test_other_languages_are_refused():
    done = covetest.Cove()("repl", "--json", "--forks", "1", "--language", "bash", check=False)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == covetest.EXIT_INVALID and error["message"] == "a session of bash cannot be forked"
    assert "only python" in error["hint"]


def test_forks_without_json_are_refused():
    done = covetest.Cove()("repl", "--forks", "1", check=False)
    assert done.returncode == covetest.EXIT_INVALID and "--forks needs --json" in done.stderr
    assert "cove repl --json --forks 2" in done.stderr


# --- equally sealed -----------------------------------------------------------------------------


@needs_root
def test_a_fork_has_every_layer_of_a_cold_start():
    look = pathlib.Path(__file__).with_name("sealreport.py").read_text()
    with Repl() as cold, Family() as parent:
        usual, warm, fork = (json.loads(session.run(look)) for session in (cold, parent, parent.fork()))
        assert fork == warm
        # The larger part of its filter is the zygote's own.
        assert int(fork["status"].pop("Seccomp_filters")) == int(usual["status"].pop("Seccomp_filters")) + 1
        assert fork == usual


@needs_root
def test_nothing_is_shared_but_memory_that_nobody_writes():
    """Uids, namespaces and groups of the two, seen from the host."""
    with Family(forks=1) as parent:
        parent.run("import ctypes; ctypes.CDLL(None).prctl(15, b'forked')")
        parent.fork()
        pids = [pid for pid in covetest.descendants(parent.spawner()) if covetest.name_of(pid) == "forked"]
        assert len(pids) == 2
        one, two = ({k: v.strip() for k, v in covetest.status_of(pid).items()} for pid in pids)
        assert one["Uid"] != two["Uid"]
        for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb", "Seccomp", "Seccomp_filters", "NoNewPrivs", "Groups"):
            assert one[name] == two[name], name
        assert int(one["CapBnd"], 16) == 0 and one["Seccomp"] == "2" and one["NoNewPrivs"] == "1"
        for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
            assert os.readlink(f"/proc/{pids[0]}/ns/{kind}") != os.readlink(f"/proc/{pids[1]}/ns/{kind}"), kind
        groups = [pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines() for pid in pids]
        assert all(a != b or a.endswith(":/") for a, b in zip(*groups) if covetest.CGROUP_PARENT in a)
        maps = [pathlib.Path(f"/proc/{pid}/uid_map").read_text().split() for pid in pids]
        assert maps[0][0] == maps[1][0] == "1000" and maps[0][1] != maps[1][1] and maps[0][2] == maps[1][2] == "1"


@needs_root
def test_no_process_of_one_can_be_seen_or_reached_by_the_other():
    with Family() as parent:
        parent.run("import os")
        child = parent.fork()
        for session in (parent, child):
            assert session.run("print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()))") == "[]"
            code = ("seen = []\nfor pid in range(2, 400):\n if pid != os.getpid():\n  try: os.kill(pid, 0); seen.append(pid)\n"
                    "  except ProcessLookupError: pass\n  except PermissionError: seen.append(-pid)\nprint(seen)")
            assert session.run(code) == "[]"


@needs_root
def test_no_process_shares_memory_with_the_other_session():
    """The heir that made the fork is gone, and the two interpreters have two memories."""
    with Family(forks=1) as parent:
        parent.run("import ctypes; ctypes.CDLL(None).prctl(15, b'forked')")
        parent.fork()
        pids = [pid for pid in covetest.descendants(parent.spawner()) if covetest.name_of(pid) not in ("cove-init",)]
        libc = __import__("ctypes").CDLL(None, use_errno=True)
        same = [(a, b) for a in pids for b in pids if a < b and libc.syscall(312, a, b, 1, 0, 0) == 0]
        assert len(pids) >= 2 and same == []


@needs_root
def test_heirs_sleep_without_power_and_cost_the_session_nothing():
    with Family(forks=4) as parent:
        assert parent.run("import os; print(len([n for n in os.listdir('/proc') if n.isdigit()]))") == "1"
        done = parent.ask("execute", code="x = bytearray(64 << 20)")
        assert 64 << 20 <= done["usage"]["peak_memory_bytes"], "charged to its own group, not to an heir's"


TAKE_OVER = '''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
# write(3, {2, 0}, 8): "I have forked, and the fork is pid 2", which is the heir itself; then pause() for ever.
shell = bytes.fromhex("4883ec40 c7042402000000 c744240400000000 bf03000000 4889e6 ba08000000 b801000000 0f05 b822000000 0f05 ebf7")
taken = 0
for line in open("/proc/self/maps"):
    span, rights, offset = line.split()[:3]
    if rights == "r-xp" and "memfd:cove" in line:
        start, end = (int(part, 16) for part in span.split("-"))
        at = start + PLACE - int(offset, 16)
        if start <= at and at + SIZE <= end and libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 7) == 0:
            ctypes.memmove(at, bytes([0x90]) * (SIZE - len(shell)) + shell, SIZE)
            taken += 1
print(taken)
'''


def symbols_of(path):
    """Name, place and size of each function of an ELF file; not all places where this runs have nm."""
    data = path.read_bytes()
    table, (size, count) = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + at * size) for at in range(count)]
    for _, kind, _, _, offset, length, link, _, _, each in sections:
        for at in range(offset, offset + length, each) if kind == 2 else ():
            name, info, _, _, place, extent = struct.unpack_from("<IBBHQQ", data, at)
            if info & 0xF == 2:
                text = sections[link][4] + name
                yield data[text:data.index(b"\0", text)].decode(), place, extent


def code_of_heirs():
    """Where in the extension they sleep: place and size. The kernel's own code, beside it, is left as it is."""
    places = [(place, size) for name, place, size in symbols_of(covetest.BUILD / "cove_zygote.so") if name == "park"]
    assert len(places) == 1, places
    return places[0]


def take_over():
    return "PLACE, SIZE = {}, {}\n".format(*code_of_heirs()) + TAKE_OVER


@needs_root
def test_an_heir_that_code_has_taken_over_is_found_out():
    """It does not fork, and says that it did: it would be a process with a foot in each of two sandboxes."""
    with Family(forks=2) as parent:
        assert parent.run(take_over()) == "1"
        refusal = parent.refusal()
        assert (refusal["code"], refusal["message"]) == ("isolation", "the fork has no memory of its own")
        assert parent.run("print('alive')") == "alive", "nothing of it stays frozen"
    nothing_is_left()


# --- ends ---------------------------------------------------------------------------------------


@needs_root
def test_an_heir_that_is_killed_costs_the_fork_alone():
    with Family(forks=2) as parent:
        parent.run("x = 1; import ctypes; ctypes.CDLL(None).prctl(15, b'parent')")
        mine = {pid for pid in covetest.descendants(parent.spawner())
                if covetest.status_of(pid).get("NSpid", "").split()[-1:] == ["2"] and covetest.name_of(pid) != "parent"}
        heirs = [pid for pid in mine if int(covetest.status_of(pid)["Uid"].split()[0]) > 1000]
        assert len(heirs) == 2
        for pid in heirs:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in heirs), "the heirs to be gone")
        assert "fork" in parent.refusal()["message"]
        assert parent.run("print(x)") == "1"


@needs_root
@pytest.mark.parametrize("victim", ["cove", "spawner"])
def test_whoever_dies_nothing_is_left(victim):
    parent = Family()
    parent.run("x = bytearray(1 << 20)")
    parent.fork().run("y = 1")
    os.kill(parent.process.pid if victim == "cove" else parent.spawner(), signal.SIGKILL)
    parent.process.wait(covetest.PATIENCE)
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-c", "")  # removes the groups that a killed spawner leaves
    nothing_is_left()


@needs_root
def test_after_the_end_nothing_is_left():
    with Family(forks=3) as parent:
        parent.fork().run("x = 1")
        parent.close_session()
    nothing_is_left()


@needs_root
@pytest.mark.parametrize("victim", ["cove", "spawner"])
def test_a_kill_at_any_moment_leaves_nothing(victim):
    dice = random.Random(victim)
    for _ in range(6):
        process = covetest.Cove().start("repl", "--json", "--forks", "2", stdin=subprocess.PIPE)
        process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in [
            {"op": "execute", "code": "x = bytearray(1 << 24)"}, {"op": "fork"}, {"op": "fork"},
            {"op": "execute", "code": "x[0] = 1", "session": 1}, {"op": "execute", "code": "input()", "session": 2}]))
        process.stdin.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(.05, .5))
        if victim == "spawner":
            for pid in covetest.children_of(process.pid):
                covetest.kill_quietly(pid)
        process.stdin.close()
        covetest.kill_quietly(process.pid) if victim == "cove" else process.wait(covetest.PATIENCE)
        process.wait(covetest.PATIENCE)
        wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-c", "")
    nothing_is_left()


@pytest.mark.parametrize("kind", ["subids", "single"])
def test_an_ordinary_user_forks_where_groups_can_be_frozen(kind):
    if not covetest.IS_ROOT or covetest.why_no_rootless(kind):
        pytest.skip(covetest.why_no_rootless(kind) if covetest.IS_ROOT else "root takes the part of the user")
    with Family(forks=1, cove=covetest.rootless(kind)) as parent:
        parent.run("x = 1")
        answer = parent.ask("fork")
        if "error" in answer:
            assert answer["error"]["message"] == "this host cannot tell whether a fork is apart"
            assert "run as root" in answer["error"]["hint"]
        else:
            assert Fork(parent, answer["session"]).run("print(x)") == "1"
        assert parent.run("print(x)") == "1"
