# SPDX-License-Identifier: Apache-2.0
"""Terminals over the WebSocket of the control plane: GET /sessions/{id}/terminal."""
import base64
import hashlib
import json
import os
import re
import select
import socket
import struct

import pytest

import covetest
from covetest import PATIENCE, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="the names of processes inside are looked at from outside")

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
NORMAL, POLICY, TOO_LARGE = 1000, 1008, 1009
KEY = base64.b64encode(bytes(16)).decode()


class Refused(Exception):
    def __init__(self, status, headers, body):
        super().__init__(status, body)
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self):
        return json.loads(self.body)["error"]["code"]


def frame(opcode, data):
    """One frame of a client; the mask is zero, which is one, too."""
    size = len(data)
    length = (struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0x80 | 126, size) if size < 65536
              else struct.pack("!BQ", 0x80 | 127, size))
    return bytes([0x80 | opcode]) + length + bytes(4) + data


class Terminal:
    """One terminal as a client has it."""

    def __init__(self, server, session, query="", headers=None, token=True):
        self.socket = socket.create_connection(server.url.split("//")[1].split(":"), timeout=PATIENCE)
        lines = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                 "Sec-WebSocket-Key": KEY} | ({"Authorization": f"Bearer {server.token}"} if token else {}) | (headers or {})
        request = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        self.socket.sendall(f"GET /api/v1/sessions/{session}/terminal{query} HTTP/1.1\r\n{request}\r\n".encode())
        self.buffer, self.bytes, self.news, self.closed, self.pongs = bytearray(), bytearray(), [], None, []
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.headers = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines}
        self.status, self.buffer = int(status.split()[1]), bytearray(rest)
        if self.status != 101:
            while len(self.buffer) < int(self.headers.get("content-length", 0)):
                self.fill()
            self.socket.close()
            raise Refused(self.status, self.headers, bytes(self.buffer))

    # --- frames ---------------------------------------------------------------------------------

    def fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(bytes(self.buffer))
        self.buffer += data

    def need(self, count):
        while len(self.buffer) < count:
            self.fill()

    def receive(self):
        """One frame of the server's."""
        self.need(2)
        opcode, size, at = self.buffer[0] & 15, self.buffer[1], 2
        assert self.buffer[0] & 0x80 and not size & 0x80
        if size >= 126:
            at = 4 if size == 126 else 10
            self.need(at)
            size = int.from_bytes(self.buffer[2:at], "big")
        self.need(at + size)
        data = bytes(self.buffer[at:at + size])
        del self.buffer[:at + size]
        if opcode == BINARY:
            self.bytes += data
        elif opcode == TEXT:
            self.news.append(json.loads(data))
        elif opcode == PONG:
            self.pongs.append(data)
        elif opcode == CLOSE:
            self.closed = int.from_bytes(data[:2], "big")
            self.send(CLOSE, data[:2])
        return opcode

    def send(self, opcode, data):
        self.socket.sendall(frame(opcode, data))

    def type(self, text):
        self.send(BINARY, text if isinstance(text, bytes) else text.encode())

    def order(self, **fields):
        self.send(TEXT, json.dumps(fields).encode())

    # --- what is waited for ---------------------------------------------------------------------

    def wait(self, pattern):
        while not (match := re.search(pattern.encode(), bytes(self.bytes), re.DOTALL)):
            assert self.closed is None, f"closed with {self.closed} {self.news} before {pattern}"
            self.receive()
        del self.bytes[:match.end()]
        return match

    def run(self, command):
        self.type(f"echo '<'A; {command}; echo B'>'\n")
        return self.wait(r"<A\r\n(.*?)B>\r\n")[1].decode().replace("\r\n", "\n")

    def wait_close(self):
        while self.closed is None:
            self.receive()
        return self.closed

    def leave(self):
        """Without a word."""
        self.socket.close()


@pytest.fixture
def session(shared_server):
    answer = shared_server.post("/api/v1/sessions", {"language": "python", "env": {"WHO": "me"}})
    assert answer.status == 201, answer
    yield answer.json["id"]
    assert shared_server.delete(f"/api/v1/sessions/{answer.json['id']}").status == 200


def no_terminal_is_left(server):
    wait_for(lambda: not covetest.inside(server, "cove-terminal") and not covetest.inside(server, "bash"), "the end of the terminals")


def execute(server, session, code):
    answer = server.post(f"/api/v1/sessions/{session}/execute", {"code": code, "mode": "sync"})
    assert answer.status == 200, answer
    return answer.json


# --- what it does ---------------------------------------------------------------------------------


def test_a_shell_over_a_websocket(shared_server, session):
    terminal = Terminal(shared_server, session, "?columns=101&rows=37&term=vt100")
    assert terminal.run("echo $TERM $WHO; stty size") == "vt100 me\n37 101\n"
    terminal.order(type="resize", columns=90, rows=20)
    assert terminal.run("stty size") == "20 90\n"
    assert terminal.run("echo 7 > from_shell; cat from_shell") == "7\n"
    assert execute(shared_server, session, "open('from_shell').read()")["results"][0]["data"]["text/plain"] == "'7\\n'"
    terminal.send(PING, b"there?")
    terminal.type("exit 5\n")
    assert terminal.wait_close() == NORMAL
    assert terminal.pongs == [b"there?"]
    assert terminal.news == [{"type": "exit", "exit_code": 5, "signal": None, "error": None}]
    no_terminal_is_left(shared_server)


def test_a_signal_is_told(shared_server, session):
    terminal = Terminal(shared_server, session)
    terminal.type("kill -9 $$\n")
    assert terminal.wait_close() == NORMAL
    assert terminal.news == [{"type": "exit", "exit_code": None, "signal": 9, "error": None}]


def test_a_browser_shows_its_token_as_a_protocol(shared_server, session):
    protocols = f"cove.terminal, bearer.{shared_server.token}"
    terminal = Terminal(shared_server, session, headers={"Sec-WebSocket-Protocol": protocols}, token=None)
    assert terminal.headers["sec-websocket-protocol"] == "cove.terminal"
    assert terminal.run("echo in") == "in\n"
    terminal.leave()
    no_terminal_is_left(shared_server)
    assert shared_server.token not in shared_server.log_path.read_text()


@pytest.mark.parametrize("how", ["leaves", "closes"])
def test_who_leaves_ends_what_he_has_started(shared_server, session, how):
    terminal = Terminal(shared_server, session)
    terminal.run("trap '' HUP; sleep 1000 & true")
    if how == "closes":
        terminal.send(CLOSE, struct.pack("!H", NORMAL))
        assert terminal.wait_close() == NORMAL
    terminal.leave()
    no_terminal_is_left(shared_server)
    wait_for(lambda: not covetest.inside(shared_server, "sleep"), "the end of what ran in it")
    assert execute(shared_server, session, "1 + 1")["results"][0]["data"]["text/plain"] == "2"


def test_the_end_of_the_session_is_told(shared_server):
    session = shared_server.post("/api/v1/sessions", {"language": "python"}).json["id"]
    terminal = Terminal(shared_server, session)
    terminal.run("true")
    assert shared_server.delete(f"/api/v1/sessions/{session}").status == 200
    assert terminal.wait_close() == NORMAL
    assert terminal.news[0]["exit_code"] is None and terminal.news[0]["error"]["message"] == "the session ended"


def test_it_runs_beside_an_execution(shared_server, session):
    begun = shared_server.post(f"/api/v1/sessions/{session}/execute", {"code": "import time\nwhile True: time.sleep(0.01)", "timeout": 60})
    assert begun.status == 202
    terminal = Terminal(shared_server, session)
    assert terminal.run("echo beside") == "beside\n"
    assert shared_server.post(f"/api/v1/executions/{begun.json['id']}/cancel").status == 200
    wait_for(lambda: shared_server.get(f"/api/v1/executions/{begun.json['id']}").json["state"] == "cancelled", "its end")
    assert terminal.run("echo still") == "still\n"
    terminal.leave()


def test_a_flood_waits_for_who_does_not_read(shared_server, session):
    terminal = Terminal(shared_server, session)
    terminal.run("true")
    before = covetest.own_memory(shared_server.coved)
    terminal.type("seq 1000000; echo FIN''ISHED\n")
    wait_for(lambda: select.select([terminal.socket], [], [], 0)[0], "output")
    for _ in range(20):  # others are served meanwhile
        execute(shared_server, session, "1")
    grown = covetest.own_memory(shared_server.coved) - before
    assert covetest.IS_ASAN or grown < 4 << 20, "the server keeps what nobody reads"  # ASan keeps what was freed
    while b"FINISHED\r\n" not in terminal.bytes[-100:]:
        terminal.receive()
    words = bytes(terminal.bytes).partition(b"1\r\n2\r\n")[2].partition(b"FINISHED")[0].split()
    assert words == [b"%d" % number for number in range(3, 1000001)]
    terminal.leave()


def test_a_megabyte_is_pasted(shared_server, session):
    terminal = Terminal(shared_server, session)
    line = b"0123456789" * 9 + b"abcdefghi\n"
    paste = line * (1024 * 1024 // len(line))
    terminal.run("stty -echo")
    terminal.type("sha256sum\n")
    for at in range(0, len(paste), 200_000):
        terminal.type(paste[at:at + 200_000])
    terminal.type("\x04")
    terminal.wait(hashlib.sha256(paste).hexdigest())
    terminal.leave()


# --- what it refuses ------------------------------------------------------------------------------


def refusal(*args, **kwargs):
    with pytest.raises(Refused) as caught:
        Terminal(*args, **kwargs)
    return caught.value


PROTOCOL = "Sec-WebSocket-Protocol"
REFUSALS = {
    "no token": ({"token": None}, 401, "unauthorized"),
    "a wrong token": ({"token": None, "headers": {PROTOCOL: "cove.terminal, bearer.wrong"}}, 401, "unauthorized"),
    "an empty token": ({"token": None, "headers": {PROTOCOL: "cove.terminal, bearer."}}, 401, "unauthorized"),
    "two tokens": ({"headers": {PROTOCOL: "bearer.a, cove.terminal"}}, 401, "unauthorized"),
    "a token in the address": ({"token": None, "query": "?token=x"}, 401, "unauthorized"),
    "no upgrade": ({"headers": {"Connection": "keep-alive", "Upgrade": None}}, 426, "upgrade_required"),
    "another version": ({"headers": {"Sec-WebSocket-Version": "8"}}, 426, "upgrade_required"),
    "another origin": ({"headers": {"Origin": "https://evil.test"}}, 403, None),
    "no columns": ({"query": "?columns=0"}, 400, "invalid"),
    "too many rows": ({"query": "?rows=1001"}, 400, "invalid"),
    "a kind that is none": ({"query": "?term=x%20y"}, 400, "invalid"),
    "an unknown parameter": ({"query": "?size=3"}, 400, "invalid"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refuses(shared_server, session, what):
    kwargs, status, code = REFUSALS[what]
    answer = refusal(shared_server, session, **kwargs)
    assert (answer.status, answer.code if code else None) == (status, code)
    no_terminal_is_left(shared_server)


def test_refuses_what_is_not_there(shared_server):
    answer = refusal(shared_server, "nobody")
    assert (answer.status, answer.code) == (404, "session_not_found")


def test_four_at_a_time(shared_server, session):
    terminals = [Terminal(shared_server, session) for _ in range(4)]
    answer = refusal(shared_server, session)
    assert (answer.status, answer.code) == (429, "limit")
    for terminal in terminals:
        assert terminal.run("echo ok") == "ok\n"
        terminal.leave()
    no_terminal_is_left(shared_server)
    assert Terminal(shared_server, session).run("echo again") == "again\n"


ORDERS = [b"", b"{", b"[]", b"{}", b'{"type": "reboot"}', b'{"type": "resize"}', b'{"type": "resize", "columns": 0, "rows": 1}',
          b'{"type": "resize", "columns": 80, "rows": 24, "more": 1}', b'{"type": "resize", "columns": "80", "rows": 1e9}', b"[" * 2000]


@pytest.mark.parametrize("text", ORDERS)
def test_closes_at_what_is_no_order(shared_server, session, text):
    terminal = Terminal(shared_server, session)
    terminal.send(TEXT, text)
    assert terminal.wait_close() == POLICY
    no_terminal_is_left(shared_server)


def test_closes_at_a_message_that_is_too_large(shared_server, session):
    terminal = Terminal(shared_server, session)
    terminal.send(BINARY, bytes(256 * 1024 + 1))
    assert terminal.wait_close() == TOO_LARGE
    no_terminal_is_left(shared_server)


def test_a_restart_of_the_server_ends_terminals_and_nothing_else(server):
    session = server.post("/api/v1/sessions", {"language": "python"}).json["id"]
    execute(server, session, "x = 6")
    terminal = Terminal(server, session)
    terminal.run("sleep 1000 & true")
    server.kill_coved()
    with pytest.raises((EOFError, ConnectionError)):
        terminal.wait_close()
    no_terminal_is_left(server)
    wait_for(lambda: not covetest.inside(server, "sleep"), "the end of what ran in it")
    assert execute(server, session, "x")["results"][0]["data"]["text/plain"] == "6"
    again = Terminal(server, session)
    assert again.run("echo again") == "again\n"
    assert os.path.exists(f"/proc/{server.coved}")
    assert server.stop() == 0
    assert again.wait_close() == 1001
