# SPDX-License-Identifier: Apache-2.0
"""Frozen sessions, checkpoints and rollbacks, through `cove repl --json`."""
import json
import pathlib
import subprocess

import pytest

import covetest
from covetest import wait_for


class Repl:
    """One session; each request waits for its answer."""

    def __init__(self, *args, **kwargs):
        self.process = covetest.Cove().start("repl", "--json", *args, stdin=subprocess.PIPE, text=True, **kwargs)
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
        done = self.ask("execute", code=code, **more)
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
    return [path for root in roots for path in (root / covetest.CGROUP_PARENT).glob("**/cgroup.freeze")
            if (path.parent / "cgroup.procs").read_text()]


def is_frozen():
    return [path for path in groups() if "frozen 1" in (path.parent / "cgroup.events").read_text()]


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
        assert repl.run("import os; print(a, len([p for p in os.listdir('/proc') if p.isdigit()]))") == "1 2"


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
        assert len(repl.ask("delete_checkpoint", checkpoint=ids[3])["checkpoints"]) == 7
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
