# SPDX-License-Identifier: Apache-2.0
"""Frozen sessions, checkpoints and rollbacks, through `cove repl --json`."""
import json
import os
import pathlib
import select
import signal
import subprocess

import pytest

import covetest
from covetest import kill_quietly, wait_for


class Repl:
    """One session; each request waits for its answer."""

    def __init__(self, *args, cove=None, **kwargs):
        self.process = (cove or covetest.Cove()).start("repl", "--json", *args, stdin=subprocess.PIPE, text=True, **kwargs)
        self.session = self.read()["session"]

    def read(self):
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.process.stderr.read()}"
        return json.loads(line)

    def send(self, op, **more):
        self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
        self.process.stdin.flush()

    def ask(self, op, **more):
        self.send(op, **more)
        return self.read()

    def run(self, code, **more):
        """What the code prints; it must end well."""
        done = self.ask("execute", **{"code": code, "timeout": covetest.PATIENCE, **more})
        assert done.get("state") == "completed", done
        return done["stdout"].strip()

    def value(self, code):
        done = self.ask("execute", code=code)
        assert done.get("state") == "completed", done
        return done["results"][-1]["data"]["text/plain"]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(covetest.PATIENCE) == 0, self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()


def groups():
    """The version 2 groups of this test run's sandboxes."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    roots = [pathlib.Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    # A group may go while it is looked at, which neither pathlib's glob nor open() bears.
    found = [pathlib.Path(folder) for root in roots for folder, _, _ in os.walk(root / covetest.CGROUP_PARENT)]
    return [path / "cgroup.freeze" for path in found if covetest.read_text(path / "cgroup.procs")]


def is_frozen():
    return [path for path in groups() if "frozen 1" in covetest.read_text(path.parent / "cgroup.events")]


# --- freezing -----------------------------------------------------------------------------------

needs_groups = pytest.mark.skipif(not covetest.IS_ROOT, reason="looks at cgroups of the root spawner")


@needs_groups
def test_an_idle_session_is_frozen_and_wakes_up():
    with Repl("--idle-freeze", "50ms") as repl:
        repl.run("import threading, time; n = 0\n"
                 "def count():\n global n\n while True: n += 1; time.sleep(.001)\n"
                 "threading.Thread(target=count, daemon=True).start()")
        wait_for(is_frozen, "the session to be frozen")
        assert repl.run("print('awake')") == "awake"
        wait_for(is_frozen, "the session to be frozen again")
        assert repl.ask("variables")["answer"]["variables"]
        wait_for(is_frozen, "the session to be frozen once more")
        assert repl.ask("reset")["session"]["state"] == "ready"
        wait_for(is_frozen, "the new interpreter to be frozen")


@needs_groups
def test_a_frozen_session_can_be_closed_and_killed():
    repl = Repl("--idle-freeze", "20ms")
    wait_for(is_frozen, "the session to be frozen")
    repl.close()
    assert not groups()
    repl = Repl("--idle-freeze", "20ms")
    wait_for(is_frozen, "the session to be frozen")
    repl.process.kill()
    wait_for(lambda: not groups(), "the group to be gone")


# --- the interpreter ------------------------------------------------------------------------------


def checkpoint(repl, name=None):
    done = repl.ask("checkpoint", **({"name": name} if name else {}))
    assert "checkpoint" in done, done
    return done["checkpoint"]


def rollback(repl, name):
    done = repl.ask("rollback", checkpoint=name)
    assert "checkpoint" in done, done
    return done["checkpoint"]


def refusal(repl, op="checkpoint", **more):
    done = repl.ask(op, **more)
    assert "error" in done, done
    return done["error"]


def test_variables_come_back_and_again():
    with Repl() as repl:
        repl.run("import os, random; a = [1]; before = random.getstate()")
        made = checkpoint(repl, "one")
        assert made["name"] == "one" and not made["lost"]
        pid = repl.run("a.append(2); b = 1; print(os.getpid())")
        for _ in range(3):
            rollback(repl, "one")
            assert repl.run("print(a, 'b' in globals(), random.getstate() == before)") == "[1] False True"
            assert repl.run(f"print(os.getpid() != {pid}, os.getppid(), os.getcwd())") == "True 1 /workspace"
            repl.run("a.append(3); random.random()")
        rollback(repl, made["id"])
        assert repl.run("print(a)") == "[1]"


def test_everybody_has_checkpoints(any_cove):
    with Repl(cove=any_cove) as repl:
        repl.run("a = 1; open('x', 'w').write('one')")
        checkpoint(repl, "one")
        repl.run("a = 2; open('x', 'w').write('two'); open('y', 'w').close()")
        rollback(repl, "one")
        assert repl.run("import os; print(a, open('x').read(), os.listdir())") == "1 one ['x']"


def test_code_never_meets_the_copies_as_children():
    with Repl() as repl:
        checkpoint(repl, "one")
        rollback(repl, "one")
        assert repl.run("import os\ntry: os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError: print('none')") == "none"


def test_functions_classes_and_awaiting_go_on():
    with Repl() as repl:
        repl.run("import asyncio\nclass C:\n def f(self): return 7\nc = C()\nawait asyncio.sleep(0)")
        checkpoint(repl, "one")
        repl.run("del c")
        rollback(repl, "one")
        assert repl.run("await asyncio.sleep(0)\nprint(c.f())") == "7"
        assert repl.ask("execute", code="c.nope")["error"]["name"] == "AttributeError"
        assert repl.ask("complete", code="c.")["answer"]["matches"]


def test_a_dead_interpreter_comes_back():
    with Repl() as repl:
        repl.run("a = 1")
        checkpoint(repl, "one")
        assert repl.ask("execute", code="import os; os._exit(3)")["state"] == "failed"
        rollback(repl, "one")
        assert repl.run("print(a)") == "1"
        assert repl.ask("execute", code="while True: pass", timeout=.2)["state"] == "timeout"
        rollback(repl, "one")
        assert repl.run("print(a)") == "1"
        assert repl.ask("reset")["session"]["state"] == "ready"
        assert repl.ask("execute", code="a")["error"]["name"] == "NameError"
        rollback(repl, "one")
        assert repl.run("print(a)") == "1"


def test_an_interpreter_that_blocks_every_signal_is_killed_all_the_same():
    with Repl() as repl:
        repl.run("a = 1")
        checkpoint(repl, "one")
        repl.run("import signal, os\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
                 "for _ in range(5):\n if os.fork() == 0:\n  os.setsid()\n  os.fork()\n  while True: signal.pause()")
        rollback(repl, "one")
        # The interpreter, the copy, and a fork that it may have made in advance; pid 1 cannot be seen.
        assert repl.run("import os; print(a, len([p for p in os.listdir('/proc') if p.isdigit()]) <= 3)") == "1 True"


def test_several_checkpoints_and_a_limit():
    with Repl() as repl:
        ids = []
        for number in range(8):
            repl.run(f"n = {number}")
            ids.append(checkpoint(repl)["id"])
        assert refusal(repl)["code"] == "limit"
        assert [row["id"] for row in repl.ask("checkpoints")["checkpoints"]] == ids
        for number in (5, 0, 7, 3):
            rollback(repl, ids[number])
            assert repl.run("print(n)") == str(number)
        assert repl.ask("delete_checkpoint", checkpoint=ids[3])["checkpoint"]["id"] == ids[3]
        assert len(repl.ask("checkpoints")["checkpoints"]) == 7
        assert refusal(repl, "rollback", checkpoint=ids[3])["code"] == "not_found"
        checkpoint(repl)
        rollback(repl, ids[6])
        assert repl.run("print(n)") == "6"


def test_open_files_keep_their_places():
    with Repl() as repl:
        repl.run("f = open('notes', 'w+'); f.write('abcdef'); f.flush(); f.seek(3)\n"
                 "g = open('notes', 'rb'); g.read(2)\nimport os; d = os.open('.', os.O_RDONLY)")
        checkpoint(repl, "one")
        repl.run("f.seek(0); g.read(); g.close()")
        rollback(repl, "one")
        assert repl.run("print(f.tell(), g.tell(), g.read(), f.read(), os.listdir(d))") == "3 2 b'cdef' def ['notes']"


def test_sockets_and_pipes_are_dead_afterwards():
    with Repl() as repl:
        repl.run("import os, socket; r, w = os.pipe(); a, b = socket.socketpair()")
        checkpoint(repl, "one")
        assert repl.run("os.write(w, b'x'); print(os.read(r, 1))") == "b'x'"
        rollback(repl, "one")
        assert repl.run("print(os.read(r, 1), a.recv(1))") == "b'' b''"
        assert repl.ask("execute", code="os.write(w, b'x')")["error"]["name"] == "BrokenPipeError"


REASONS = {
    "threads": ("import threading; e = threading.Event(); threading.Thread(target=e.wait, daemon=True).start()", "threads"),
    "a shared mapping": ("import mmap; m = mmap.mmap(-1, 4096)", "shared"),
    "a file without a name": ("import tempfile; t = tempfile.TemporaryFile()", "no name"),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_cannot_be_saved_is_refused(name):
    code, word = REASONS[name]
    with Repl() as repl:
        repl.run(f"a = 1\n{code}")
        error = refusal(repl)
        assert error["code"] == "conflict" and word in error["message"], error
        assert repl.run("print(a)") == "1"
        assert repl.ask("checkpoints")["checkpoints"] == []


def test_a_copy_that_code_kills_is_lost():
    with Repl() as repl:
        repl.run("import os, signal; a = 1")
        checkpoint(repl, "one")
        checkpoint(repl, "two")
        repl.run("for p in os.listdir('/proc'):\n"
                 " if p.isdigit() and 'checkpoint' in open(f'/proc/{p}/comm').read(): os.kill(int(p), 9); break")
        wait_for(lambda: any(row["lost"] for row in repl.ask("checkpoints")["checkpoints"]), "the loss to be told")
        lost, = [row for row in repl.ask("checkpoints")["checkpoints"] if row["lost"]]
        error = refusal(repl, "rollback", checkpoint=lost["id"])
        assert error["code"] == "unavailable" and "lost" in error["message"]
        assert repl.run("print(a)") == "1"
        other, = [row for row in repl.ask("checkpoints")["checkpoints"] if not row["lost"]]
        rollback(repl, other["id"])
        assert repl.run("print(a)") == "1"


@pytest.mark.parametrize("language", ["bash", "node"])
def test_other_languages_say_that_they_cannot(language):
    with Repl("--language", language) as repl:
        assert refusal(repl)["code"] in ("unavailable", "conflict")


# --- the workspace --------------------------------------------------------------------------------

LIST_TREE = """
import hashlib, os, stat
def tree():
    rows = []
    for folder, folders, files in os.walk('/workspace'):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ''
            if stat.S_ISREG(st.st_mode):
                what = (st.st_size, st.st_mtime_ns, hashlib.sha256(open(path, 'rb').read()).hexdigest())
            rows.append((path, oct(st.st_mode), what))
    return sorted(rows, key=str)
"""

MAKE_TREE = """
os.makedirs('a/b/c'); os.makedirs('empty'); os.symlink('../x', 'a/link'); os.mkfifo('pipe')
for i in range(50): open(f'a/b/{i}', 'w').write(str(i) * i)
open('x', 'w').write('x'); os.chmod('x', 0o444); open('prog', 'wb').write(os.urandom(100_000)); os.chmod('prog', 0o755)
s = open('sparse', 'wb'); s.seek(1 << 20); s.write(b'end'); s.close(); os.utime('x', (1, 1)); os.chmod('empty', 0o500)
"""

SPOIL_TREE = """
import shutil
os.rename('a/b', 'moved'); shutil.rmtree('a'); os.remove('x'); os.mkdir('x'); open('x/y', 'w').write('y')
open('prog', 'r+b').write(b'spoiled'); os.remove('pipe'); open('pipe', 'w').close(); os.symlink('/etc', 'empty2')
deep = '/workspace'
for i in range(300): os.mkdir('d'); os.chdir('d'); open('f', 'w').close()
os.chdir('/workspace'); os.chmod('moved', 0)
"""


def test_files_come_back_and_again():
    with Repl() as repl:
        repl.run(LIST_TREE + MAKE_TREE + "before = tree()")
        checkpoint(repl, "one")
        for _ in range(3):
            repl.run(SPOIL_TREE)
            rollback(repl, "one")
            assert repl.run("now = tree(); print([row for row in now if row not in before], len(now) == len(before))") == "[] True"
            assert repl.run("print(os.stat('sparse').st_blocks < 100, oct(os.stat('/workspace').st_mode))") == "True 0o40700"


def test_each_checkpoint_has_its_own_files():
    with Repl() as repl:
        repl.run("open('same', 'w').write('same')")
        for number in range(5):
            repl.run(f"open('n', 'w').write('{number}'); open('file-{number}', 'w').close()")
            checkpoint(repl, f"c{number}")
        for number in (3, 0, 4, 1, 1, 2):
            repl.run("open('n', 'a').write('spoiled'); open('same', 'a').write('!')")
            rollback(repl, f"c{number}")
            assert repl.run("import os; print(open('n').read(), open('same').read(), len(os.listdir()))") == f"{number} same {number + 3}"
        assert "checkpoint" in repl.ask("delete_checkpoint", checkpoint="c1")
        rollback(repl, "c4")
        assert repl.run("print(open('n').read(), open('same').read())") == "4 same"


def test_a_change_in_the_same_tick_of_the_clock_is_seen():
    with Repl() as repl:
        for number in range(30):
            repl.run(f"open('f', 'w').write('{number:03}')")
            checkpoint(repl, "now")
            repl.run("open('f', 'w').write('xyz')")
            if number % 2:
                checkpoint(repl, "later")
            rollback(repl, "now")
            assert repl.run("print(open('f').read())") == f"{number:03}"
            if number % 2:
                rollback(repl, "later")
                assert repl.run("print(open('f').read())") == "xyz"
            for row in repl.ask("checkpoints")["checkpoints"]:
                repl.ask("delete_checkpoint", checkpoint=row["id"])


def test_what_is_deleted_gives_its_room_back():
    with Repl("--disk", "32M", "--memory", "256M") as repl:
        repl.run("import os; open('big', 'wb').write(os.urandom(10 << 20))")
        for _ in range(5):
            checkpoint(repl, "one")
            assert "checkpoint" in repl.ask("delete_checkpoint", checkpoint="one")
        repl.run("open('big2', 'wb').write(os.urandom(10 << 20))")
        error = refusal(repl)
        assert error["code"] == "limit" and "disk" in error["message"], error
        assert repl.run("print(os.path.getsize('big'))") == str(10 << 20)
        repl.run("os.remove('big2')")
        checkpoint(repl, "one")
        repl.run("f = open('filler', 'wb')\ntry:\n while True: f.write(bytes(1 << 16)); f.flush()\nexcept OSError: pass")
        rollback(repl, "one")
        assert repl.run("print(os.listdir())") == "['big']"


def test_other_processes_stand_in_the_way():
    with Repl() as repl:
        repl.run("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
        error = refusal(repl)
        assert error["code"] == "conflict" and "processes" in error["message"]
        repl.run("p.kill(); p.wait()\nimport os, time\npid = os.fork()\nif pid == 0:\n os.setsid()\n"
                 " if os.fork(): os._exit(0)\n os.execvp('sleep', ['sleep', '1000'])\nos.waitpid(pid, 0)")
        error = refusal(repl)
        assert error["code"] == "conflict" and "processes" in error["message"]
        repl.run("for p in filter(str.isdigit, os.listdir('/proc')):\n"
                 " try: os.kill(int(p), 9 * (open(f'/proc/{p}/comm').read() == 'sleep\\n'))\n"
                 " except OSError: pass")
        wait_for(lambda: "checkpoint" in repl.ask("checkpoint", name="one"), "the other process to be gone")
        for _ in range(10):
            repl.run("subprocess.Popen(['sh', '-c', 'while true; do echo x >> spoiled; done'])")
            rollback(repl, "one")
            assert repl.run("import os; print(os.listdir())") == "[]"


def init_of(repl):
    found, = [pid for pid in covetest.descendants(repl.process.pid) if covetest.status_of(pid).get("NSpid", "").split()[-1:] == ["1"]]
    return found


def copies_of(init):
    """All that lies in the copies of the workspace, as the host sees it."""
    return [path for path in pathlib.Path(f"/proc/{init}/root/dev/shm/.cove").rglob("*") if not path.is_dir()]


def stop_worker(repl, init, count):
    """Lets the worker come in short steps to where files are being copied, and stops it there; -> the kernel's pid."""
    kernel, = covetest.children_of(init)

    def is_told():
        return select.select([repl.process.stdout], [], [], 0)[0]

    def is_copying():
        for worker in (pid for pid in covetest.children_of(init) if covetest.name_of(pid) == "cove-init"):
            kill_quietly(worker, signal.SIGSTOP)
            wait_for(lambda worker=worker: covetest.status_of(worker).get("State", "X").split()[0] in "TZX", "the worker to stop")
            if not is_told() and 0 < len(copies_of(init)) < count:
                return True
            kill_quietly(worker, signal.SIGCONT)
        return is_told()

    for _ in range(6):
        repl.send("checkpoint", name="half")
        wait_for(is_copying, "the first file of the copy")
        if not is_told():
            break
        assert "checkpoint" in repl.read(), "on a busy machine it may come to its end between two looks"
        assert "checkpoint" in repl.ask("delete_checkpoint", checkpoint="half")
    return kernel


DEATHS = {
    "killed": lambda kernel: os.kill(kernel, signal.SIGKILL),
    "ended": lambda kernel: os.kill(kernel, signal.SIGTERM),
}


@needs_groups
@pytest.mark.parametrize("end", DEATHS.values(), ids=DEATHS.keys())
def test_an_interpreter_that_dies_while_files_are_saved_leaves_no_half_copy(end):
    with Repl("--disk", "64M", "--inodes", "20000") as repl:
        repl.run("import os\nfor i in range(6000): open(f'f{i}', 'w').write('x')")
        init = init_of(repl)
        kernel = stop_worker(repl, init, 6000)
        assert 0 < len(copies_of(init)) < 6000, "it was stopped half-way"
        end(kernel)
        error = repl.read()["error"]
        assert error["code"] == "unavailable" and "ended by signal" in error["message"], error
        assert copies_of(init) == [] and covetest.children_of(init) == [], "told when all is gone"
        assert repl.ask("checkpoints")["checkpoints"] == []
        assert refusal(repl, "execute", code="1")["code"] == "conflict"
        assert repl.ask("reset")["session"]["state"] == "ready"
        checkpoint(repl, "whole")
        repl.run("import os; os.remove('f1')")
        rollback(repl, "whole")
        assert repl.run("import os; print(len(os.listdir()))") == "6000"


# --- memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("megabytes", [100, 500])
def test_arrays_come_back(megabytes):
    with Repl("--memory", "2G") as repl:
        repl.run(f"import numpy as np; a = np.ones({megabytes} << 17); a[12345] = 7; total = a.sum()")
        checkpoint(repl, "one")
        repl.run("a[:1 << 17] = 0; a[-1] = 9")
        for _ in range(2):
            rollback(repl, "one")
            assert repl.run("print(a.sum() == total, a[12345])") == "True 7.0"
            repl.run("a[5] = 100")


@pytest.mark.skipif(not covetest.IS_ROOT, reason="without a cgroup the watch ends the whole sandbox, checkpoints and all")
def test_code_that_takes_all_memory_is_undone():
    with Repl("--memory", "256M") as repl:
        repl.run("a = bytearray(50 << 20); a[0] = 1")
        checkpoint(repl, "one")
        done = repl.ask("execute", code="b = []\nwhile True: b.append(bytearray(b'x' * (1 << 20)))")
        assert done["state"] in ("failed", "memory_limit", "killed"), done
        rollback(repl, "one")
        assert repl.run("print(a[0], len(a), 'b' in globals())") == f"1 {50 << 20} False"


# --- hostile code -----------------------------------------------------------------------------------

FIND_KERNEL = """
import gc, os, sys
kernel = next(o for o in gc.get_objects() if type(o).__name__ == 'Kernel' and hasattr(o, 'channel'))
"""


def test_lies_about_the_copy_hurt_nobody_else():
    with Repl() as repl:
        for lie in ("{'ok': True, 'pid': 1}", "{'ok': True, 'pid': -5}", "{'ok': True, 'pid': 1 << 40}", "{'ok': True}", "[]",
                    "{'pid': 'x' * 100_000}"):
            repl.run(FIND_KERNEL + "kernel.checkpoint = lambda fds: (list(map(os.close, fds)), "
                                   f"kernel.channel.reply({lie}), kernel.channel.done())")
            assert refusal(repl)["code"] in ("unavailable", "invalid", "too_large", "conflict", "limit")
            assert repl.run("print('well')") == "well"
        # A pid of nobody's, and of the kernel's own: the copy is lost, and the next reset works.
        for pid in ("4000000", "os.getpid()"):
            repl.run(FIND_KERNEL + "kernel.checkpoint = lambda fds: (list(map(os.close, fds)), "
                                   f"kernel.channel.reply({{'ok': True, 'pid': {pid}}}), kernel.channel.done())")
            answer = repl.ask("checkpoint")
            if "checkpoint" in answer:
                wait_for(lambda: all(row["lost"] for row in repl.ask("checkpoints")["checkpoints"]), "the loss")
                assert refusal(repl, "rollback", checkpoint=answer["checkpoint"]["id"])["code"] == "unavailable"
            assert repl.ask("reset")["session"]["state"] == "ready"
            assert repl.run("print('well')") == "well"


def test_a_copy_that_lies_about_its_kernel_fails_the_rollback():
    liar = FIND_KERNEL + """
import socket, struct, time
def lie(fds):
    pid = os.fork()
    if pid == 0:
        channel = socket.socket(fileno=fds[0])
        while channel.recv(1) != b'B':
            channel.send(struct.pack('<ii', 0, 0))
        channel.send(ANSWER)
        time.sleep(1000)
    kernel.channel.reply({'ok': True, 'pid': pid}); kernel.channel.done()
kernel.checkpoint = lie
"""
    with Repl() as repl:
        answers = ("b''.ljust(100, b'x')", "struct.pack('<ii', -12, 0)", "struct.pack('<ii', 1, 0)",
                   "struct.pack('<ii', 77777, 0)", "struct.pack('<ii', 0, 0)")
        for answer in answers:
            repl.run("x = 1")
            checkpoint(repl, "good")
            # The liar is no child of init's, so that the workspace is saved as if it were not there.
            repl.run(liar.replace("ANSWER", answer))
            bad = checkpoint(repl, "bad")
            error = refusal(repl, "rollback", checkpoint=bad["id"])
            assert error["code"] in ("unavailable", "internal", "limit", "conflict"), error
            assert repl.ask("execute", code="1")["error"]["code"] == "conflict"
            rollback(repl, "good")
            assert repl.run("print(x)") == "1"
            for row in repl.ask("checkpoints")["checkpoints"]:
                repl.ask("delete_checkpoint", checkpoint=row["id"])


def inside_of(repl):
    """All processes of the sandbox, pid 1 and frozen copies too."""
    return [pid for pid in covetest.descendants(repl.process.pid) if len(covetest.status_of(pid).get("NSpid", "").split()) > 1]


@needs_groups
def test_a_checkpoint_is_of_its_session_only():
    with Repl() as one, Repl() as other:
        word = one.run("import os; word = os.urandom(20).hex(); open('file', 'w').write(word); print(word)").encode()
        made = checkpoint(one, "mine")
        checkpoint(other, "mine")
        one.run("del word; os.remove('file')")
        rollback(other, "mine")
        assert any(covetest.remembers(pid, word) for pid in inside_of(one)), "or the search would find nothing anywhere"
        assert len(inside_of(other)) >= 3 and not [pid for pid in inside_of(other) if covetest.remembers(pid, word)]
        assert other.run("import os; print('word' in globals(), os.listdir())") == "False []"
        for op in ("rollback", "delete_checkpoint"):
            assert refusal(other, op, checkpoint=made["id"])["code"] == "not_found"
        rollback(one, made["id"])
        assert one.run("print(word, open('file').read())") == f"{word.decode()} {word.decode()}"


def test_spoiled_copies_of_files_are_told():
    with Repl() as repl:
        repl.run("import os; os.symlink('/workspace', '/dev/shm/.cove'); open('x', 'w').close()")
        assert refusal(repl)["code"] == "conflict"
        assert repl.run("print(os.listdir())") == "['x']"
        repl.run("os.remove('/dev/shm/.cove')")
        checkpoint(repl, "one")
        repl.run("import shutil; shutil.rmtree('/dev/shm/.cove')")
        error = refusal(repl, "rollback", checkpoint="one")
        assert "workspace" in error["message"], error
        assert repl.ask("reset")["session"]["state"] == "ready"
        assert repl.run("import os; print(os.listdir())") == "['x']"
