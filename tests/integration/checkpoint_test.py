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
