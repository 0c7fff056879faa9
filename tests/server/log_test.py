# SPDX-License-Identifier: Apache-2.0
"""The log of a server where nobody takes it: a pipe that nobody reads, a disk that is full, a reader that has gone.

The server answers as always. What finds no room is counted, and told of when there is room again; what was written is whole."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import threading
import time

import pytest

import covetest
from covetest import PATIENCE, wait_for
from server import Server, free_port

ANSWER_S = 2 * covetest.SLOWNESS  # what an answer may take meanwhile
DROPPED = "lines of the log were dropped"
F_SETPIPE_SZ = 1031


def dropped(server):
    text = server.get("/metrics").body.decode()
    return int(re.search(r"^cove_log_lines_dropped_total (\d+)$", text, re.M).group(1))


class Pipe:
    """Standard error of a server; nobody reads it, until somebody does."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, F_SETPIPE_SZ, 4096)
        self.text, self.thread = b"", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.give()
        if self.thread:
            self.thread.join(PATIENCE)
        os.close(self.reader)

    def give(self):
        """Only the server has the other end from here on."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def read(self):
        """From now on, to its end."""
        self.thread = threading.Thread(target=self.read_all)
        self.thread.start()

    def read_all(self):
        while data := os.read(self.reader, 65536):
            self.text += data

    @property
    def lines(self):
        """Whole ones; each must be an object."""
        return [json.loads(line) for line in self.text[:self.text.rfind(b"\n") + 1].splitlines()]


def fill(server, enough=lambda server: dropped(server) > 0):
    """Requests, each with a line, until there is no room for more; -> how many."""
    asked, connection = 0, server.connect(ANSWER_S)
    until = time.monotonic() + PATIENCE
    while True:
        for _ in range(500):
            assert server.get("/health", connection=connection).status == 200
        asked += 500
        if enough(server):
            connection.close()
            return asked
        assert time.monotonic() < until, "the log has room without end"


def answers_as_always(server):
    answer = server.post("/execute", {"code": "print(6 * 7)"}, timeout=30 * covetest.SLOWNESS)
    assert answer.status == 200 and answer.json["stdout"] == "42\n"
    assert server.get("/health", timeout=ANSWER_S).json["status"] == "ok"


def told_of(lines):
    return [line for line in lines if line["message"] == DROPPED]


# --- a pipe ---------------------------------------------------------------------------------------

def test_nobody_reads_it():
    with Pipe() as pipe, Server(err=pipe.writer) as server:
        pipe.give()
        fill(server)
        answers_as_always(server)
        lost = dropped(server)
        pipe.read()
        wait_for(lambda: told_of(pipe.lines), "a line that tells of it")
        wait_for(lambda: server.get("/health").status == 200 and pipe.lines[-1].get("route") == "getHealth", "lines as before")
        wait_for(lambda: sum(line["lines"] for line in told_of(pipe.lines)) == dropped(server) >= lost, "the number that was counted")
        assert all(line["level"] == "warn" and re.match(r"20\d\d-.*Z$", line["since"]) for line in told_of(pipe.lines))
        assert [line["message"] for line in pipe.lines].count("serving") == 1


def test_each_line_is_there_or_counted():
    with Pipe() as pipe, Server(err=pipe.writer) as server:
        pipe.give()
        asked = fill(server)
        pipe.read()
        wait_for(lambda: told_of(pipe.lines), "a line that tells of it")
        assert server.stop() == 0
        pipe.thread.join(PATIENCE)
        served = [line for line in pipe.lines if line.get("route") == "getHealth"]
        counted = sum(line["lines"] for line in told_of(pipe.lines))
        # Other lines there were, too: the start, figures, the pools.
        assert asked <= len(served) + counted <= asked + 50


def test_a_server_that_is_replaced_begins_all_the_same():
    """Standard output is the same pipe, and the next coved has something to say there."""
    with Pipe() as pipe:
        address = f"127.0.0.1:{free_port()}"
        with Server(err=pipe.writer, out=pipe.writer, listen=address, is_ready=False) as server:
            server.url, server.token = f"http://{address}", None
            wait_for(lambda: (server.data_dir / "server/token").exists(), "a token")
            server.token = (server.data_dir / "server/token").read_text().strip()
            wait_for(lambda: answers(server), "an answer")
            pipe.give()
            fill(server)
            old = server.coved
            os.kill(old, signal.SIGKILL)
            wait_for(lambda: server.find_coved() not in (None, old) and answers(server), "the next one")
            answers_as_always(server)


def answers(server):
    try:
        return server.get("/health", timeout=ANSWER_S).status == 200
    except OSError:
        return False


def test_the_spawner_does_not_wait_either():
    """It tells of a coved that stands still, and replaces it."""
    with Pipe() as pipe, Server("--watchdog", "1s", err=pipe.writer) as server:
        pipe.give()
        fill(server)
        old, count = server.coved, len(server.addresses())
        os.kill(old, signal.SIGSTOP)
        wait_for(lambda: server.find_coved() not in (None, old), "another coved")
        server.wait_ready(count + 1)
        answers_as_always(server)


def test_it_ends_and_leaves_nothing():
    with Pipe() as pipe, Server(err=pipe.writer) as server:
        pipe.give()
        fill(server)
        assert server.stop() == 0
        pipe.read()
        pipe.thread.join(PATIENCE)
        assert not pipe.thread.is_alive(), "somebody has it open"


def test_a_spawner_that_is_killed_leaves_no_writer():
    with Pipe() as pipe, Server(err=pipe.writer) as server:
        pipe.give()
        fill(server)
        writer = server.find_log_writer()
        with covetest.orphans_come_to_us() if covetest.IS_ROOT else contextlib.nullcontext():
            server.process.kill()
            server.process.wait(PATIENCE)
            wait_for(lambda: not covetest.is_alive(writer), "the end of what writes the log")
            with contextlib.suppress(ChildProcessError):
                os.waitpid(writer, os.WNOHANG)
        with Server(group=server.group):  # which removes what the other one could not
            pass


def test_the_last_line_is_there_when_it_has_ended(server):
    assert server.stop() == 0
    assert server.log[-1]["message"] == "stopping"


def test_a_writer_that_is_killed_is_followed(server):
    first = server.find_log_writer()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: server.find_log_writer() not in (None, first), "another one")
    before = len(server.log)
    assert server.get("/health").status == 200
    wait_for(lambda: len(server.log) > before, "its line")


def test_what_a_shell_has_stays_as_it_is():
    """O_NONBLOCK is of the open file, which a shell and its other programs share with the server."""
    with Pipe() as pipe, Server(err=pipe.writer):
        assert not fcntl.fcntl(pipe.writer, fcntl.F_GETFL) & os.O_NONBLOCK
        pipe.give()
        pipe.read()


def test_a_terminal_that_somebody_has_stopped():
    main, terminal = pty.openpty()
    with Server(err=terminal) as server:
        assert not fcntl.fcntl(terminal, fcntl.F_GETFL) & os.O_NONBLOCK
        os.write(main, b"\x13")  # Ctrl-S
        fill(server)
        answers_as_always(server)
        os.write(main, b"\x11")  # Ctrl-Q
        # The main end has to be read, or it is full.
        reader = threading.Thread(target=drain, args=(main,))
        reader.start()
        assert server.stop() == 0
    os.close(terminal)
    reader.join(PATIENCE)
    os.close(main)


def drain(main):
    text = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(main, 65536):
            text += data
    return text


def test_a_terminal_gets_words_when_it_cannot_start():
    main, terminal = pty.openpty()
    with Server("--tls-cert", "/none", "--tls-key", "/none", err=terminal, is_ready=False) as server:
        assert server.process.wait(PATIENCE) != 0
    os.close(terminal)
    text = drain(main)
    os.close(main)
    assert b"cove serve:" in text and b'"message"' not in text


# --- a disk ---------------------------------------------------------------------------------------

@pytest.fixture
def disk(tmp_path):
    """A small one."""
    if not covetest.IS_ROOT:
        pytest.skip("a disk of its own needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "cove-test", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_its_disk_is_full(disk):
    ballast, path = disk / "ballast", disk / "log"
    with Server("--log-file", path) as server:
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        fill(server)
        answers_as_always(server)
        lost = dropped(server)
        subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
        wait_for(lambda: lines_of(path) and told_of(lines_of(path)), "a line that tells of it")
        wait_for(lambda: sum(line["lines"] for line in told_of(lines_of(path))) == dropped(server) >= lost, "the number that was counted")
        before = len(lines_of(path))
        assert server.get("/health").status == 200
        wait_for(lambda: len(lines_of(path)) > before, "lines as before")
        assert server.stop() == 0


def lines_of(path):
    text = pathlib.Path(path).read_bytes()
    return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


def test_a_device_that_is_always_full():
    with Server("--log-file", "/dev/full") as server:
        fill(server)
        answers_as_always(server)
        assert server.stop() == 0
