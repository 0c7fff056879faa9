# SPDX-License-Identifier: Apache-2.0
"""`cove mcp` as a client starts it: lines to its standard input, lines from its standard output.

    with Stdio() as stdio:
        stdio.initialize()
        result = stdio.call("run_code", {"code": "print(6 * 7)"})

Everything that comes out must be a line of JSON; anything else fails the test, whenever it comes."""
import itertools
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading

import covetest
import server as serving
from covetest import PATIENCE, wait_for
from mcp_client import LEGACY, message

numbers = itertools.count()


class Stdio:
    """Starts at once; nothing is sent before it is asked for."""

    def __init__(self, *args, cove=None, env=None, data_dir=None, group=None):
        if cove is None:
            cove = covetest.Cove(covetest.BUILD if serving.is_public(covetest.BUILD) else covetest.public_build())
        self.group = group or f"{covetest.CGROUP_PARENT}-mcp-{next(numbers)}"  # others look for leftovers in theirs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-mcp-"))
        self.folder.chmod(0o755)
        self.data_dir = pathlib.Path(data_dir or self.folder / "data")
        self.log_path, self.error_path = self.folder / "state/cove/mcp.log", self.folder / "stderr"
        if cove.user:
            entry = pwd.getpwnam(cove.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.environment = covetest.environment(
            cove.home, **{"COVE_CGROUP_PARENT": self.group, "XDG_STATE_HOME": str(self.folder / "state"),
                          "COVE_DATA_DIR": str(self.data_dir)} | (env or {}))
        with open(self.error_path, "wb") as errors:
            self.process = subprocess.Popen(cove.argv("mcp", *args), env=self.environment, cwd=cove.cwd, stderr=errors,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ids = itertools.count(1)
        self.lines, self.messages, self.strays = [], [], []  # as they came; as objects; what is no JSON
        self.news = threading.Condition()
        self.is_over = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    # --- its life ---------------------------------------------------------------------------------

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.release()
        if kind is None:
            self.check_lines()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line)
                try:
                    self.messages.append(json.loads(line))
                except ValueError:
                    self.strays.append(line)
                self.news.notify_all()
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def check_lines(self):
        assert not self.strays, self.strays
        assert all(line.endswith(b"\n") and m["jsonrpc"] == "2.0" for line, m in zip(self.lines, self.messages))

    @property
    def errors(self):
        return self.error_path.read_text()

    @property
    def log(self):
        """What its server has logged, as objects."""
        return [json.loads(line) for line in covetest.read_text(self.log_path).splitlines()]

    def say(self):
        return f"status {self.process.poll()}\n{self.lines[-5:]}\n{self.errors}\n{covetest.read_text(self.log_path)[-4000:]}"

    @property
    def spawner(self):
        return wait_for(lambda: self.find(self.process.pid, "cove-spawner"), "a spawner")

    @property
    def coved(self):
        return wait_for(lambda: self.find(self.spawner, "coved"), "a coved")

    @staticmethod
    def find(pid, name):
        return next((child for child in covetest.children_of(pid) if covetest.name_of(child) == name), None)

    def rooms(self):
        """The folders of private servers that are there."""
        folder = self.data_dir / "mcp"
        return [path for path in folder.iterdir()] if folder.is_dir() else []

    def close(self):
        """The end of its input, as a client ends it; answers the exit status."""
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return status

    def nothing_is_left(self):
        wait_for(lambda: not [pid for pid in covetest.pids() if covetest.is_in_group(pid, self.group)],
                 "no process of a sandbox")
        wait_for(lambda: not covetest.sandbox_groups(self.group), "no cgroup of a sandbox")
        wait_for(lambda: not self.rooms(), "no folder of a server")

    def release(self):
        try:
            self.close()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if covetest.IS_ROOT:
            covetest.remove_groups(self.group)
        shutil.rmtree(self.folder)

    # --- talking to it ----------------------------------------------------------------------------

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *documents):
        self.write(b"".join(json.dumps(document).encode() + b"\n" for document in documents))

    def wait(self, condition, what):
        """The first message for which the condition holds; those that came already count."""
        with self.news:
            found = lambda: next((m for m in self.messages if condition(m)), None)
            self.news.wait_for(lambda: found() or self.is_over, PATIENCE)
            assert found(), f"waited in vain for: {what}\n{self.say()}"
            return found()

    def begin(self, method, params=None):
        """Sends a request; answers its id."""
        number = next(self.ids)
        self.send(message(method, params or {}, id=number))
        return number

    def answer(self, number):
        return self.wait(lambda m: m.get("id") == number and "method" not in m, f"the answer to {number}")

    def ask(self, method, params=None):
        return self.answer(self.begin(method, params))

    def tell(self, method, params=None):
        self.send(message(method, params))

    def initialize(self, version=LEGACY, capabilities=None):
        params = {"protocolVersion": version, "capabilities": capabilities or {},
                  "clientInfo": {"name": "test", "version": "1"}}
        self.welcome = self.ask("initialize", params)["result"]
        self.tell("notifications/initialized")
        return self.welcome

    def begin_call(self, tool, arguments):
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool, arguments):
        """The result of a tool."""
        answer = self.answer(self.begin_call(tool, arguments))
        assert "result" in answer, answer
        return answer["result"]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)
