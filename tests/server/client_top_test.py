# SPDX-License-Identifier: Apache-2.0
"""`cove top` in a terminal, against a server that is played."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios

import pytest

import covetest
from covetest import PATIENCE, wait_for
from played_server import EXIT_UNAVAILABLE, client, error, server, session  # noqa: F401


# --- top ------------------------------------------------------------------------------------------

HEALTH = {"status": "ok", "version": "1", "uptime_seconds": 7300, "tier": "T1",
          "capacity": {"sessions": 2, "max_sessions": 480}, "load": {"sessions": 2, "running": 1, "queued": 0}}


def show_sessions(server, count):
    server.script["GET /health"] = HEALTH
    server.script["GET /sessions"] = {"next_cursor": None, "sessions": [
        session(name=f"number-{i}", state="busy" if i == 0 else "ready") for i in range(count)]}


def test_top_without_a_terminal_is_one_snapshot(client, server):
    show_sessions(server, 2)
    lines = client.good("top").splitlines()
    assert lines[0] == f"cove at {server.url}: ok, up 2h, tier T1   running 1   queued 0"
    assert lines[1] == "2 of 480 sessions: 1 busy, 1 ready"
    assert [line.split()[1] for line in lines[4:]] == ["number-0", "number-1"]
    assert server.requests[1]["query"]["live"] == "true"
    assert json.loads(client.good("top", "--json"))["health"] == HEALTH
    server.script["GET /health"] = (503, error("unavailable"))
    assert client("top").returncode == EXIT_UNAVAILABLE


class Terminal:
    """A command on a terminal, and what it has written there so far."""

    def __init__(self, client, *args, rows=10, columns=100):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        env = covetest.environment(**client.env, TERM="xterm")
        self.process = subprocess.Popen(client.cove.argv(*args), env=env, stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, start_new_session=True, cwd="/")
        covetest.started.append(self.process)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.text

    def frames(self):
        """The pictures that are complete."""
        return [part.split("\x1b[?2026l")[0] for part in self.read().split("\x1b[?2026h")[1:] if "\x1b[?2026l" in part]

    def wait(self, condition, what):
        return wait_for(lambda: next((f for f in reversed(self.frames()) if condition(f)), None), what)

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def top(client, server):
    show_sessions(server, 30)
    terminal = Terminal(client, "top", "-i", "200ms")
    terminal.wait(lambda frame: "number-0" in frame, "a picture")
    yield terminal
    terminal.close()


def test_top_fits_the_window_and_follows_its_size(top):
    frame = top.frames()[0]
    assert frame.count("\r\n") == 9 and "number-5" in frame and "number-6" not in frame
    assert not frame.endswith("\r\n") and "\x1b[2J" not in top.text
    top.resize(20, 40)
    os.kill(top.process.pid, signal.SIGWINCH)  # the terminal tells its own session only
    frame = top.wait(lambda frame: "…" in frame and frame.count("\r\n") == 19, "a picture of the new size")
    assert "TEMPLATE" not in frame
    lines = [line.replace("\x1b[K", "") for line in frame.split("\r\n")]
    plain = [line for line in lines if "\x1b[" not in line]
    assert plain and all(len(line) <= 40 for line in plain)


def test_top_moves_through_the_sessions(top):
    top.type("\x1b[B\x1b[B")
    top.wait(lambda frame: "number-2 " in frame and "number-1 " not in frame and "number-7" in frame, "two rows further")
    top.type("G")
    top.wait(lambda frame: "number-29" in frame, "the last rows")
    top.type("g")
    top.wait(lambda frame: "number-0" in frame, "the first rows")


def test_top_looks_again(top, server):
    show_sessions(server, 1)
    top.wait(lambda frame: "1 of 480 sessions" in frame and "number-1" not in frame, "another picture")


def test_top_goes_on_without_its_server(top, server):
    server.script["GET /health"] = (503, error("unavailable", "the disk is full"))
    frame = top.wait(lambda frame: "the disk is full" in frame, "the problem")
    assert "number-0" in frame
    show_sessions(server, 30)
    top.wait(lambda frame: "the disk is full" not in frame, "no problem")


@pytest.mark.parametrize("leave", ["q", "\x03", signal.SIGTERM])
def test_top_leaves_the_terminal_as_it_was(top, leave):
    if isinstance(leave, str):
        top.type(leave)
    else:
        top.process.send_signal(leave)
    if leave == "\x03":  # no session of the terminal's: nobody makes a signal of it
        top.process.send_signal(signal.SIGINT)
    assert top.process.wait(PATIENCE) == 0
    assert top.read().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l\x1b[?2004l")
    assert termios.tcgetattr(top.slave) == top.before
