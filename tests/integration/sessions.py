# SPDX-License-Identifier: Apache-2.0
"""A session as a program has it: `cove repl --json`, a line of JSON for each request and each answer."""
import json
import os
import select
import subprocess
import time

from covetest import PATIENCE, children_of, descendants, name_of, read_text, wait_for
from execution_object import check_shape

FORMS = ["main", "data"]


def check_execution(run, session_id):
    """What holds of every execution of a session."""
    check_shape(run | {"session_id": None, "results": [], "error": None})
    assert run["session_id"] == session_id
    assert all(list(result) == FORMS and result["data"] for result in run["results"])
    assert run["error"] is None or list(run["error"]) == ["name", "value", "traceback"]
    return run


class Session:
    def __init__(self, cove, *options, **kwargs):
        self.process = cove.start("repl", "--json", *options, stdin=subprocess.PIPE, **kwargs)
        self.buffer = bytearray()
        self.info = self.receive()["session"]

    # --- lines ----------------------------------------------------------------------------------

    def send_line(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, op, **request):
        self.send_line(json.dumps({"op": op} | request))

    def receive_line(self, seconds=PATIENCE):
        """The next line, or None at the end."""
        end, seen = time.monotonic() + seconds, 0
        while (at := self.buffer.find(b"\n", seen)) < 0:
            seen = len(self.buffer)
            ready = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))[0]
            assert ready, f"no answer within {seconds} s"
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                return None
            self.buffer += part
        line = bytes(self.buffer[:at])
        del self.buffer[:at + 1]
        return line

    def receive(self, seconds=PATIENCE):
        line = self.receive_line(seconds)
        assert line is not None, f"ended: {self.process.wait()}, {self.process.stderr.read().decode()}"
        return json.loads(line)

    def ask(self, op, seconds=PATIENCE, **request):
        self.send(op, **request)
        return self.receive(seconds)

    # --- requests -------------------------------------------------------------------------------

    def run(self, code, seconds=PATIENCE, **request):
        """The execution object."""
        answer = self.ask("execute", seconds, code=code, **request)
        assert "error" not in answer or "id" in answer, answer
        return check_execution(answer, self.info["id"])

    def good(self, code, **request):
        """The execution object of code that must end well."""
        run = self.run(code, **request)
        assert run["state"] == "completed", run
        return run

    def value(self, code, **request):
        """The text of the last expression's value."""
        results = self.good(code, **request)["results"]
        assert results and results[-1]["main"], results
        return results[-1]["data"]["text/plain"]

    def printed(self, code, **request):
        return self.good(code, **request)["stdout"]

    def answer(self, op, **request):
        answer = self.ask(op, **request)
        assert list(answer) == ["answer"], answer
        return answer["answer"]

    def refusal(self, op, **request):
        answer = self.ask(op, **request)
        assert list(answer) == ["error"], answer
        return answer["error"]

    def reset(self):
        answer = self.ask("reset")
        assert answer["session"]["state"] == "ready", answer

    # --- the host side --------------------------------------------------------------------------

    def wait_inside(self, name):
        """Waits until code inside calls itself so (see CALL)."""
        wait_for(lambda: any(name_of(pid) == name for pid in descendants(self.process.pid)), f"'{name}' inside")

    def spawner(self):
        return next(pid for pid in children_of(self.process.pid) if name_of(pid) == "cove-spawner")

    def host_kb(self, field="VmRSS"):
        """Memory of cove itself, in KiB."""
        text = read_text(f"/proc/{self.process.pid}/status")
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith(field)))

    def host_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self, status=0):
        """The end of the input ends the session."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        line = self.receive_line()
        assert line is None, f"nobody asked for {line}"
        assert self.process.wait(PATIENCE) == status
        assert not self.process.stderr.read()
