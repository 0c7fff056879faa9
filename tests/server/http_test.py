# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer as its peers see it: raw sockets, curl and TLS against a small server (http_peer.c)."""
import contextlib
import email.utils
import json
import os
import pathlib
import random
import re
import resource
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

import covetest
from covetest import BUILD, PATIENCE, SLOWNESS, wait_for

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
MIB = 1 << 20
SHAPE = {"code", "message", "hint", "request_id"}


class Server:
    """One http_peer; its options are NAME=VALUE."""

    def __init__(self, **options):
        argv = [str(BUILD / "tests" / "http_peer"), *(f"{k}={v}" for k, v in options.items())]
        # The sanitizer keeps freed memory for a while, which is not what a test of memory looks at.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=covetest.environment(ASAN_OPTIONS=sanitizer))
        self.port = int(self.process.stdout.readline())
        self.path, self.address, self.tls = options.get("path"), options.get("address", "127.0.0.1"), None

    def connect(self, receive_buffer=None):
        link = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        if receive_buffer:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        link.settimeout(PATIENCE)
        link.connect(self.path or (self.address, self.port))
        return self.tls.wrap_socket(link, server_hostname="localhost") if self.tls else link

    def ask(self, data):
        """Sends the bytes on a connection of their own, and reads all the answers up to the end."""
        with self.connect() as link:
            link.sendall(data)
            return read_to_end(link)

    def get(self, path, headers=""):
        with self.connect() as link:
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
            return Answer(Reader(link))

    def stats(self):
        return json.loads(self.get("/stats").body)

    def rss(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Ends it as an operator would; a leak or a finding of a sanitizer is an exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(PATIENCE) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def read_to_end(link):
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := link.recv(1 << 16):
            data += part
    return bytes(data)


class Reader:
    """Buffered reading from a socket."""

    def __init__(self, link):
        self.link, self.buffer = link, bytearray()

    def fill(self):
        part = self.link.recv(1 << 16)
        if not part:
            raise EOFError(f"the server has closed; left: {bytes(self.buffer)!r}")
        self.buffer += part

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def line(self):
        while (at := self.buffer.find(b"\r\n")) < 0:
            self.fill()
        return self.take(at + 2)[:-2].decode()

    def chunk(self):
        data = self.take(int(self.line(), 16))
        assert self.line() == ""
        return data


class Answer:
    """One response, by its own rules of where it ends."""

    def __init__(self, reader, is_head=False):
        version, status, _ = (reader.line() + " ").split(" ", 2)
        assert version == "HTTP/1.1"
        self.status, self.headers = int(status), {}
        while line := reader.line():
            name, value = line.split(": ", 1)
            assert name.lower() not in self.headers
            self.headers[name.lower()] = value
        self.body = b""
        if is_head or self.status in (100, 101, 204, 304):
            return
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = b"".join(iter(reader.chunk, b""))
        elif "content-length" in self.headers:
            self.body = reader.take(int(self.headers["content-length"]))
        else:
            self.body = bytes(reader.buffer) + read_to_end(reader.link)

    def error(self):
        error = json.loads(self.body)["error"]
        assert set(error) == SHAPE
        assert error["request_id"] == self.headers["x-request-id"]
        return error["code"]


@pytest.fixture(scope="module")
def shared():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def start():
    """Starts servers that the test has for itself."""
    servers = []

    def begin(**options):
        servers.append(Server(**options))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def link(shared):
    with shared.connect() as link:
        yield link


# --- requests and answers -----------------------------------------------------------------------


def test_an_answer_has_what_each_answer_has(shared):
    answer = shared.get("/hello")
    assert (answer.status, answer.body) == (200, b"hello\n")
    assert re.fullmatch(r"req_[0-9a-z]{26}", answer.headers["x-request-id"])
    assert abs(time.time() - email.utils.parsedate_to_datetime(answer.headers["date"]).timestamp()) < 60
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert shared.get("/hello").headers["x-request-id"] != answer.headers["x-request-id"]


def test_what_a_handler_sees(shared):
    answer = shared.get("/show/a%20b/c/d?x=1&y=%26+z", "User-Agent: me \r\n")
    seen = json.loads(answer.body)
    assert seen == {"method": "GET", "path": "/show/a b/c/d", "id": "a b", "rest": "c/d", "query": [["x", "1"], ["y", "& z"]],
                    "peer": "127.0.0.1", "tls": False, "agent": "me"}


def test_requests_follow_each_other_on_one_connection(link):
    reader = Reader(link)
    for _ in range(3):
        link.sendall(GET % b"/hello")
        assert Answer(reader).body == b"hello\n"


def test_pipelined_requests_are_answered_in_order(link):
    reader = Reader(link)
    body = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
    link.sendall(GET % b"/later/30" + body + GET % b"/later/1" + GET % b"/nothing" + GET % b"/hello")
    assert [Answer(reader).body[:5] for _ in range(5)] == [b"later", b"abc", b"later", b'{"err', b"hello"]


def test_a_thousand_pipelined_requests(link):
    reader = Reader(link)
    sender = threading.Thread(target=link.sendall, args=((GET % b"/hello") * 1000,))
    sender.start()
    assert {Answer(reader).body for _ in range(1000)} == {b"hello\n"}
    sender.join()


def test_requests_in_single_bytes(link):
    reader = Reader(link)
    for byte in b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":
        link.send(bytes([byte]))
    assert Answer(reader).body == b"abc"


def test_head_has_no_body(link):
    reader = Reader(link)
    for path, length in ((b"/hello", "6"), (b"/big?bytes=9&sized=1", "9"), (b"/big?bytes=9", None)):
        link.sendall(b"HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        answer = Answer(reader, is_head=True)
        assert (answer.status, answer.headers.get("content-length")) == (200, length)
    link.sendall(GET % b"/hello")
    assert Answer(reader).body == b"hello\n"


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body(link, status):
    reader = Reader(link)
    link.sendall(GET % b"/status/%d" % status + GET % b"/hello")
    assert "content-length" not in Answer(reader).headers
    assert Answer(reader).body == b"hello\n"


def test_http_1_0(shared):
    old = b"GET /hello HTTP/1.0\r\nHost: localhost\r\n"
    answer = shared.ask(old + b"\r\n")
    assert answer.endswith(b"\r\n\r\nhello\n") and b"Connection: close" in answer
    with shared.connect() as link:
        reader = Reader(link)
        for _ in range(2):
            link.sendall(old + b"Connection: keep-alive\r\n\r\n")
            assert Answer(reader).headers["connection"] == "keep-alive"
    stream = shared.ask(b"GET /big?bytes=100000 HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
    head, body = stream.split(b"\r\n\r\n", 1)
    assert b"chunked" not in head and body == b"p" * 100000


def test_connection_close_is_obeyed(shared):
    answer = shared.ask(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + GET % b"/hello")
    assert answer.count(b"HTTP/1.1 200") == 1 and b"Connection: close" in answer


def test_not_found_and_not_allowed_keep_the_connection(link):
    reader = Reader(link)
    link.sendall(GET % b"/nothing")
    assert (answer := Answer(reader)).status == 404 and answer.error() == "not_found"
    link.sendall(b"DELETE /secret HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = Answer(reader)
    assert (answer.status, answer.headers["allow"], answer.error()) == (405, "GET, HEAD, POST", "method_not_allowed")
    link.sendall(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc" + GET % b"/hello")
    assert Answer(reader).status == 404
    assert Answer(reader).body == b"hello\n"


def test_errors_of_handlers(shared):
    answer = shared.get("/fail")
    error = json.loads(answer.body)["error"]
    assert (answer.status, answer.headers["retry-after"], error["code"]) == (429, "2", "limit")
    assert (error["message"], error["hint"]) == ("no more '\"\x01\ufffd\"'", "wait")
    answer = shared.get("/fail?internal=1")
    assert answer.status == 500 and b"secret" not in answer.body and answer.error() == "internal"


def test_authorization_comes_before_the_body(shared):
    assert shared.get("/secret").status == 401
    assert shared.get("/secret", "Authorization: Bearer ok\r\n").status == 200
    with shared.connect() as link:  # the body never comes, and is not waited for
        link.sendall(b"POST /secret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        answer = Answer(Reader(link))
        assert (answer.status, answer.headers["connection"]) == (401, "close")


def test_curl_understands(shared, tmp_path):
    url = f"http://localhost:{shared.port}"
    data = os.urandom(3 * MIB)
    (tmp_path / "data").write_bytes(data)
    curl = ["curl", "-sS", "--max-time", str(PATIENCE), "--noproxy", "*"]
    upload = subprocess.run([*curl, "-T", tmp_path / "data", f"{url}/sink"], capture_output=True, check=True)
    assert json.loads(upload.stdout) == {"bytes": len(data)}
    mirror = subprocess.run([*curl, "-H", "Transfer-Encoding: chunked", "--data-binary", f"@{tmp_path}/data", f"{url}/mirror"],
                            capture_output=True, check=True)
    assert mirror.stdout == data
    both = subprocess.run([*curl, f"{url}/hello", f"{url}/hello", "-w", "%{num_connects}"], capture_output=True, check=True)
    assert both.stdout == b"hello\n1hello\n0"


# --- refusals -----------------------------------------------------------------------------------

HOST = b"Host: localhost\r\n"
REFUSED = [
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two hosts", b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    ("a broken host", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("a foreign host", b"GET /hello HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421),
    ("a foreign origin", b"GET /hello HTTP/1.1\r\n" + HOST + b"Origin: https://evil.test\r\n\r\n", 403),
    ("no origin at all", b"POST /echo HTTP/1.1\r\n" + HOST + b"Origin: null\r\n\r\n", 403),
    ("a page that hides its origin", b"POST /echo HTTP/1.1\r\n" + HOST + b"Sec-Fetch-Site: cross-site\r\n\r\n", 403),
    ("a folded header", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n", 400),
    ("a plain line feed", b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400),
    ("NUL in a value", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\0\r\n\r\n", 400),
    ("length and chunks", b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("two lengths", b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    ("another encoding", b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    ("a broken chunk", b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ("a broken chunk in a stream", b"PUT /sink HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhixx", 400),
    ("an endless chunk extension", b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 9000, 400),
    ("a trailer", b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", 400),
    ("a way up", b"GET /a/../b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a broken escape", b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a body too large", b"POST /ten HTTP/1.1\r\n" + HOST + b"Content-Length: 11\r\n\r\n", 413),
    ("a huge length", b"POST /ten HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999\r\n\r\n", 413),
    ("chunks too large", b"POST /ten HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n", 413),
    ("a stream too large", b"PUT /ten-sink HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n", 413),
    ("a body where none belongs", b"POST /none HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\nx", 413),
    ("a path too long", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("a packed body", b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415),
    ("another expectation", b"POST /echo HTTP/1.1\r\n" + HOST + b"Expect: miracles\r\n\r\n", 417),
    ("too many headers", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 200 + b"\r\n", 431),
    ("headers too large", b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"b" * 20000 + b"\r\n\r\n", 431),
    ("an unknown method", b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
]


@pytest.mark.parametrize("data,status", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_and_closed(shared, data, status):
    before = shared.stats()["open"]
    with shared.connect() as link:
        link.sendall(data + GET % b"/hello")  # what follows is not read as a request
        text = read_to_end(link)
    head, body = text.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"Connection: close" in head
    error = json.loads(body)["error"]
    assert set(error) == SHAPE and error["request_id"].encode() in head
    assert shared.stats()["open"] == before


def test_listed_hosts_and_origins(start):
    server = start(host="cove.test", origin="https://console.test")
    ask = b"GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n"
    assert b" 200 " in server.ask(ask % (b"cove.test:99", b""))
    assert b" 200 " in server.ask(ask % (b"cove.test", b"Origin: https://console.test\r\n"))
    assert b" 403 " in server.ask(ask % (b"cove.test", b"Origin: https://other.test\r\n"))
    assert b" 421 " in server.ask(ask % (b"other.test", b""))


# --- bodies ---------------------------------------------------------------------------------------


def test_continue_is_said_when_the_body_is_wanted(link):
    reader = Reader(link)
    head = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    for path, body in ((b"POST /echo", b"hello"), (b"PUT /sink", b'{"bytes":5}'), (b"PUT /slow-sink?ms=1", b'{"bytes":5}')):
        link.sendall(head % path)
        assert Answer(reader).status == 100
        link.sendall(b"hello")
        assert Answer(reader).body == body


@pytest.mark.parametrize("path,status", [(b"POST /ten", 413), (b"POST /secret", 401), (b"POST /nothing", 404), (b"PUT /deny", 403)])
def test_continue_is_not_said_to_who_is_refused(shared, path, status):
    answer = shared.ask(path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\nExpect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d" % status) and b"Connection: close" in answer


def test_a_body_that_nobody_reads_does_not_end_the_connection_when_it_is_short(link):
    reader = Reader(link)
    link.sendall(b"PUT /deny HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n")
    assert Answer(reader).status == 403
    link.sendall(b"x" * 50000 + GET % b"/hello")
    assert Answer(reader).body == b"hello\n"


def test_the_answer_survives_a_long_body_that_nobody_reads(shared):
    with shared.connect() as link:
        link.sendall(b"PUT /deny HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 500000)
        answer = Answer(Reader(link))
    assert (answer.status, answer.headers["connection"]) == (403, "close")


def test_a_handler_that_starts_reading_late(link):
    reader = Reader(link)
    for body in (b"", b"x" * 300000):
        link.sendall(b"PUT /slow-sink?ms=20 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert json.loads(Answer(reader).body) == {"bytes": len(body)}
    link.sendall(b"PUT /slow-sink?ms=20 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert json.loads(Answer(reader).body) == {"bytes": 0}


def send_chunks(link, count, piece):
    for _ in range(count):
        link.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    link.sendall(b"0\r\n\r\n")


def test_a_large_body_in_flat_memory(start):
    server = start()
    server.get("/hello")
    before = server.rss()
    with server.connect() as link:
        link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (256 * MIB))
        for _ in range(256):
            link.sendall(b"x" * MIB)
        assert json.loads(Answer(Reader(link)).body) == {"bytes": 256 * MIB}
        link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        send_chunks(link, 64, b"y" * MIB)
        assert json.loads(Answer(Reader(link)).body) == {"bytes": 64 * MIB}
    assert server.rss() - before < (4 if not covetest.IS_ASAN else 32) * MIB


@pytest.mark.parametrize("query", ["", "&sized=1"])
def test_a_large_answer_in_flat_memory(start, query):
    server = start()
    server.get("/hello")
    before, peak, seen = server.rss(), 0, 0
    with server.connect(receive_buffer=65536) as link:
        link.sendall(GET % f"/big?bytes={256 * MIB}{query}".encode())
        while seen < 256 * MIB:
            part = link.recv(1 << 20)
            assert part
            seen += len(part)
            peak = max(peak, server.rss()) if seen % 7 == 0 or not peak else peak
    assert max(peak, server.rss()) - before < (4 if not covetest.IS_ASAN else 32) * MIB


def test_both_directions_at_once(start):
    """The mirror stops reading when its answer is not taken, and loses nothing."""
    server = start()
    data = os.urandom(16 * MIB)
    with server.connect() as link:
        link.sendall(b"POST /mirror HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data))
        sender = threading.Thread(target=link.sendall, args=(data,))
        sender.start()
        wait_for(lambda: server.rss(), "a first look")
        assert Answer(Reader(link)).body == data
        sender.join()
    assert server.rss() < (16 if not covetest.IS_ASAN else 96) * MIB


def test_a_large_answer_in_one_piece(shared):
    assert shared.get(f"/given?bytes={20 * MIB}").body == b"g" * 20 * MIB


def flood(link, data, seconds=2):
    """Sends the same again and again and reads nothing, until it is held back; -> bytes sent"""
    link.setblocking(False)
    end, sent = time.monotonic() + seconds * SLOWNESS, 0
    while time.monotonic() < end and select.select([], [link], [], 0.3 * SLOWNESS)[1]:
        with contextlib.suppress(BlockingIOError):
            sent += link.send(data[sent % len(data):])
    return sent


def test_who_asks_without_reading_is_held_back(start):
    server = start()
    server.get("/hello")
    before = server.rss()
    with server.connect(receive_buffer=4096) as link:
        assert flood(link, (GET % b"/hello") * 1000) < 40 * MIB
        assert server.rss() - before < (4 if not covetest.IS_ASAN else 32) * MIB
        link.setblocking(True)
        link.settimeout(PATIENCE)
        reader = Reader(link)
        assert {Answer(reader).body for _ in range(2000)} == {b"hello\n"}


def test_an_answer_cut_short_is_seen_as_such(shared):
    text = shared.ask(GET % b"/abort")
    assert text.endswith(b"4\r\nhalf\r\n")


# --- peers that leave -----------------------------------------------------------------------------


def leave_rudely(link):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


WAYS = {"closes": socket.socket.close, "resets": leave_rudely, "ends": lambda link: link.shutdown(socket.SHUT_WR)}
WORK = {
    "waits": GET % b"/later/0",
    "waits, and has sent ahead": GET % b"/later/0" + GET % b"/hello" * 3,
    "streams": GET % b"/events?endless=1",
    "does not read": GET % b"/big?bytes=100000000",
    "uploads": b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc",
    "uploads to who does not read": b"PUT /slow-sink?ms=99999 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 9000,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("work", WORK)
def test_a_peer_that_leaves_is_noticed(shared, work, way):
    before = shared.stats()
    link = shared.connect()
    link.sendall(WORK[work])
    wait_for(lambda: shared.stats()["open"] == before["open"] + 1, "the handler works")
    WAYS[way](link)
    begin = time.monotonic()
    wait_for(lambda: shared.stats()["gone"] == before["gone"] + 1, "the handler hears of it")
    assert time.monotonic() - begin < 0.5 * SLOWNESS
    link.close()
    assert shared.stats()["open"] == before["open"]


def test_the_time_until_a_leave_is_noticed(shared):
    """Milliseconds, in the median: what runs for nobody must stop at once."""
    delays = []
    for _ in range(9):
        gone = shared.stats()["gone"]
        link = shared.connect()
        link.sendall(GET % b"/later/0")
        wait_for(lambda: shared.stats()["open"] == 1, "the handler works")
        with shared.connect() as watch:
            reader = Reader(watch)
            link.close()
            begin = time.monotonic()
            while True:
                watch.sendall(GET % b"/stats")
                if json.loads(Answer(reader).body)["gone"] == gone + 1:
                    break
            delays.append(time.monotonic() - begin)
    assert sorted(delays)[4] < 0.05 * SLOWNESS


def test_a_handler_that_does_not_ask_answers_nobody(start):
    server = start()
    link = server.connect()
    link.sendall(GET % b"/deaf/1000")
    wait_for(lambda: server.stats()["open"] == 1, "the handler works")
    link.close()
    wait_for(lambda: server.stats()["open"] == 0, "it has answered")
    wait_for(lambda: server.stats()["connections"] == 1, "the connection is gone")
    assert server.stats()["gone"] == 0


def test_who_leaves_before_a_handler_was_called_is_recorded(start):
    """Whoever authorized the request has to hear of its end."""
    server = start()
    with server.connect() as link:
        link.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe")
        wait_for(lambda: server.stats()["connections"] == 2, "it is connected")
    wait_for(lambda: server.stats()["last_path"] == "/echo", "its end is told")
    assert server.stats()["last_status"] == 0


def test_leaving_peers_leave_nothing_behind(start):
    server = start()
    server.get("/hello")
    fds = server.fds()
    for i in range(300):
        link = server.connect()
        link.sendall(list(WORK.values())[i % len(WORK)])
        if i % 2:
            leave_rudely(link)
        else:
            link.close()
    wait_for(lambda: server.stats()["connections"] == 1, "only this connection is left")
    wait_for(lambda: server.fds() <= fds, "its descriptors are closed")
    assert server.stats()["open"] == 0


# --- peers that are slow ---------------------------------------------------------------------------


def test_a_head_has_a_deadline_that_bytes_do_not_move(start):
    server = start(head_ms=300)
    with server.connect() as link:
        begin = time.monotonic()
        link.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while not select.select([link], [], [], 0.02)[0]:
                link.send(b"A: b\r\n" if time.monotonic() - begin < PATIENCE else b"")
        answer = Answer(Reader(link))
        assert (answer.status, answer.error()) == (408, "request_timeout")
        assert 0.25 < time.monotonic() - begin < 5 * SLOWNESS


def test_the_second_head_has_a_deadline_too(start):
    server = start(head_ms=200, idle_ms=60000)
    with server.connect() as link:
        reader = Reader(link)
        link.sendall(GET % b"/hello")
        Answer(reader)
        link.sendall(b"GET")
        assert Answer(reader).status == 408


def test_who_says_nothing_is_closed(start):
    server = start(head_ms=200, idle_ms=200)
    assert server.ask(b"") == b""
    with server.connect() as link:
        reader = Reader(link)
        link.sendall(GET % b"/hello")
        Answer(reader)
        assert link.recv(1) == b""


@pytest.mark.parametrize("path", ["POST /echo", "PUT /sink"])
def test_a_body_has_a_deadline(start, path):
    server = start(body_ms=300, body_rate=1000000)
    with server.connect() as link:
        link.sendall(f"{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n".encode())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while not select.select([link], [], [], 0.02)[0]:
                link.send(b"x")
        assert Answer(Reader(link)).status == 408
    assert server.stats()["open"] == 0


def test_a_steady_body_may_take_longer(start):
    server = start(body_ms=100, body_rate=20000)
    with server.connect() as link:
        link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n")
        begin, sent = time.monotonic(), 0
        while sent < 200000:  # at 200 kB/s: a second, where its deadline alone would allow a tenth
            due = int((time.monotonic() - begin) * 200000) + 20000
            if due > sent:
                sent += link.send(b"x" * min(due - sent, 200000 - sent))
        assert json.loads(Answer(Reader(link)).body) == {"bytes": 200000}
        assert time.monotonic() - begin > 0.3


def test_the_time_that_a_handler_takes_is_not_the_peers(start):
    server = start(body_ms=100)
    with server.connect() as link:
        link.sendall(b"PUT /slow-sink?ms=400 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello")
        assert json.loads(Answer(Reader(link)).body) == {"bytes": 5}


def test_a_reader_that_takes_nothing_is_cut_off(start):
    server = start(stall_ms=300)
    with server.connect(receive_buffer=4096) as link:
        link.sendall(GET % b"/big?bytes=500000000")
        wait_for(lambda: server.stats()["gone"] == 1, "the handler is told")


def test_a_reader_that_takes_little_but_goes_on_is_served(start):
    server = start(stall_ms=1500)
    with server.connect(receive_buffer=8192) as link:
        link.sendall(GET % b"/big?bytes=10000000&sized=1")
        end, seen = time.monotonic() + 2.2, 0
        while time.monotonic() < end:
            seen += len(link.recv(16384))
            select.select([], [], [], 0.01)
        while part := link.recv(1 << 20):
            seen += len(part)
            if seen >= 10000000:
                break
        assert seen >= 10000000
    assert server.stats()["gone"] == 0


def test_many_slow_peers_do_not_stop_the_others(start):
    server = start(connections=600, peer=600, head_ms=60000)
    links = [server.connect() for _ in range(400)]
    for link in links:
        link.sendall(b"GET / HTTP/1.1\r\nA:")
    begin = time.monotonic()
    for _ in range(20):
        assert server.get("/hello").status == 200
    assert time.monotonic() - begin < 2 * SLOWNESS
    for link in links:
        link.close()


# --- caps -------------------------------------------------------------------------------------------


def test_too_many_connections(start):
    server = start(connections=5, head_ms=60000)
    links = [server.connect() for _ in range(5)]
    for link in links:
        link.sendall(b"GET")
    wait_for(lambda: b" 503 " in server.ask(b""), "the sixth is refused")
    assert b'"too_many_connections"' in server.ask(b"")
    links.pop().close()
    wait_for(lambda: b" 200 " in server.ask(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), "there is room again")
    for link in links:
        link.close()


def test_who_is_idle_makes_room(start):
    server = start(connections=3)
    idle = [server.connect() for _ in range(3)]
    for link in idle:
        link.sendall(GET % b"/hello")
        Answer(Reader(link))
    assert server.get("/hello").status == 200
    assert idle[0].recv(1) == b""  # the oldest one
    for link in idle:
        link.close()


def test_too_many_connections_of_one_address(start):
    server = start(peer=3)
    links = [server.connect() for _ in range(3)]
    wait_for(lambda: b" 429 " in server.ask(b""), "the fourth is refused")
    for link in links:
        link.close()
    wait_for(lambda: b" 200 " in server.ask(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), "there is room again")


def test_no_descriptors_left(start):
    server = start(connections=1000, peer=1000)
    used = server.fds()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 5, used + 5))
    links = [server.connect() for _ in range(30)]
    answers = [link for link in links[10:] if b" 503 " in read_to_end(link)]
    assert len(answers) == 20
    for link in links:
        link.close()
    wait_for(lambda: server.get("/hello").status == 200, "it serves again")


@pytest.mark.skipif(not pathlib.Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
def test_ipv6(start):
    server = start(address="::1")
    assert json.loads(server.get("/show/a/b").body)["peer"] == "::1"
    assert b" 200 " in server.ask(b"GET /hello HTTP/1.1\r\nHost: [::1]:%d\r\nConnection: close\r\n\r\n" % server.port)


@pytest.mark.parametrize("option,word", [("address=localhost", "numeric"), ("path=/" + "a" * 200, "too long"), ("path=/nonexistent/socket", "bind")])
def test_places_where_nobody_can_listen(option, word):
    failed = subprocess.run([BUILD / "tests" / "http_peer", option], capture_output=True, text=True)
    assert failed.returncode == 1 and word in failed.stderr


def test_a_port_that_is_taken(shared):
    failed = subprocess.run([BUILD / "tests" / "http_peer", f"port={shared.port}"], capture_output=True, text=True)
    assert failed.returncode == 1 and "in use" in failed.stderr


def test_a_unix_socket(start, tmp_path):
    path = str(tmp_path / "socket")
    server = start(path=path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert json.loads(server.get("/show/a/b").body)["peer"] == "unix"
    link = server.connect()
    link.sendall(GET % b"/later/0")
    wait_for(lambda: server.stats()["open"] == 1, "the handler works")
    link.close()
    wait_for(lambda: server.stats()["gone"] == 1, "the leave is noticed")
    server.process.kill()
    server.process.wait()
    again = start(path=path)  # in place of the one that was killed
    assert again.get("/hello").status == 200
    failed = subprocess.run([BUILD / "tests" / "http_peer", f"path={path}"], capture_output=True, text=True)
    assert failed.returncode == 1 and "in use" in failed.stderr
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait(PATIENCE) == 0 and not os.path.exists(path)
    server.stop = lambda: None


# --- all at once ----------------------------------------------------------------------------------------

POST = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
FRAGMENTS = [
    GET % b"/hello", (GET % b"/hello") * 20, GET % b"/later/1", GET % b"/later/250", GET % b"/deaf/5", GET % b"/nothing", GET % b"/fail",
    GET % b"/big?bytes=3000000", GET % b"/given?bytes=700000", GET % b"/abort", GET % b"/events?endless=1", GET % b"/events",
    POST % (b"POST /echo", 5, b"hello"), POST % (b"POST /echo", 5, b"hel"), POST % (b"PUT /sink", 100000, b"x" * 100000),
    POST % (b"PUT /slow-sink?ms=3", 90000, b"x" * 90000), POST % (b"PUT /deny", 50, b"x" * 20), POST % (b"PUT /deny", 500000, b"x" * 100000),
    POST % (b"PUT /ten-sink", 10, b"0123456789"), POST % (b"POST /mirror", 400000, b"x" * 400000), POST % (b"POST /ten", 11, b"x" * 11),
    b"POST /mirror HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n",
    b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", b"abc", b"GET / HT", b"\r\n", b"\0\xff",
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", b"\x82\x83\1\2\3\4abc", b"\x89\x80\1\2\3\4", b"\x81\x85\0\0\0\0close",
]


def act(link, dice):
    """One of the things that a peer may do at any time; -> whether it is there afterwards"""
    action = dice.choices(["send", "receive", "part", "leave", "reset", "end"], [10, 10, 3, 2, 1, 1])[0]
    text = dice.choice(FRAGMENTS)
    with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        if action == "send":
            link.send(text)
        elif action == "part":
            link.send(text[:dice.randrange(1, len(text) + 1)])
        elif action == "receive":
            return link.recv(dice.choice([10, 1 << 18])) != b""
        elif action == "end":
            link.shutdown(socket.SHUT_WR)
        elif action == "reset":
            leave_rudely(link)
    return action not in ("leave", "reset")


def act_or_connect(server, link, dice):
    """-> the link that is there afterwards, or None"""
    try:
        if link is None:
            link = server.connect(receive_buffer=dice.choice([None, 4096]))
            link.setblocking(False)
        elif not act(link, dice):
            link.close()
            return None
    except OSError:  # the server may refuse and close whatever this is
        if link:
            link.close()
        return None
    return link


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
def test_peers_that_do_anything_at_any_time(start, certificate, is_secure, is_long):
    options = {"cert": certificate[0], "key": certificate[1]} if is_secure else {}
    server = start(head_ms=400, body_ms=400, idle_ms=400, stall_ms=400, linger_ms=50, ping_ms=100, heartbeat_ms=5, connections=37, **options)
    if is_secure:
        server.tls = ssl.create_default_context(cafile=certificate[0])
    fds, seed = server.fds(), random.randrange(1 << 32)
    print("seed", seed)  # pytest shows it when the test fails
    dice, links = random.Random(seed), [None] * 40
    for _ in range(100_000 if is_long else 3_000 if is_secure else 10_000):
        place = dice.randrange(len(links))
        links[place] = act_or_connect(server, links[place], dice)
    for link in links:
        if link:
            link.close()
    # .get: as long as there are too many connections the answer is a refusal
    wait_for(lambda: server.stats().get("connections") == 1, "only this connection is left")
    wait_for(lambda: server.stats()["open"] == 0, "each handler has come to its end")
    wait_for(lambda: server.fds() <= fds, "its descriptors are closed")
    assert server.get("/hello").body == b"hello\n"


# --- the end of the server ---------------------------------------------------------------------------


def test_drain_lets_requests_finish(start):
    server = start()
    busy, idle, half = server.connect(), server.connect(), server.connect()
    idle.sendall(GET % b"/hello")
    Answer(Reader(idle))
    half.sendall(b"GET /hello HTTP/1.1\r\nHost: local")
    busy.sendall(GET % b"/later/1500")
    wait_for(lambda: server.stats()["open"] == 1, "the handler works")
    server.process.send_signal(signal.SIGTERM)
    assert idle.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    half.sendall(b"host\r\n\r\n")
    for link in (half, busy):
        answer = Answer(Reader(link))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        link.close()
    assert server.process.wait(PATIENCE) == 0


def test_drain_ends_with_the_stream_that_runs(start):
    """Its head promised to keep the connection, before anybody knew of the end."""
    server = start(drain_ms=10_000_000, idle_ms=10_000_000)
    with server.connect(receive_buffer=4096) as link:
        link.sendall(GET % b"/big?bytes=20000000")
        wait_for(lambda: server.stats()["open"] == 1, "the handler works")
        server.process.send_signal(signal.SIGTERM)
        reader = Reader(link)
        answer = Answer(reader)
        assert "connection" not in answer.headers and len(answer.body) == 20000000
        assert link.recv(1) == b""
    assert server.process.wait(PATIENCE) == 0


def test_drain_has_a_deadline(start):
    server = start(drain_ms=300)
    with server.connect() as link:
        link.sendall(GET % b"/later/0")
        wait_for(lambda: server.stats()["open"] == 1, "the handler works")
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert read_to_end(link) == b""
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - begin < 3 * SLOWNESS


def test_drain_without_connections(start):
    server = start()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0


# --- events -------------------------------------------------------------------------------------------


def test_events_and_their_resumption(shared):
    answer = shared.get("/events?count=2")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.body == b"".join(b"id: %d\nevent: tick\ndata: line %d\ndata: second\n\n" % (i, i) for i in range(2))
    assert shared.get("/events?count=3", "Last-Event-ID: 1\r\n").body.startswith(b"id: 2\n")
    assert shared.get("/events?count=1", "Last-Event-ID: -1\r\n").body.startswith(b"id: 0\n")


def test_heartbeats(start):
    server = start(heartbeat_ms=30)
    with server.connect() as link:
        link.sendall(GET % b"/events?count=0&endless=1")
        reader = Reader(link)
        while reader.line():
            pass
        assert [reader.chunk() for _ in range(3)] == [b": heartbeat\n\n"] * 3


# --- WebSocket ------------------------------------------------------------------------------------------

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
SHAKE = (b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
         b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n%s\r\n")


def frame(opcode, data=b"", fin=True, mask=b"\1\2\3\4"):
    size = len(data)
    head = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    else:
        head += bytes([0x80 | 126]) + struct.pack(">H", size) if size < 65536 else bytes([0x80 | 127]) + struct.pack(">Q", size)
    repeated = mask * (size // 4 + 1)
    return head + mask + (int.from_bytes(data, "big") ^ int.from_bytes(repeated[:size], "big")).to_bytes(size, "big")


class Socket:
    """A WebSocket client of few words."""

    def __init__(self, server, path=b"/socket", extra=b"", ahead=b""):
        self.link = server.connect()
        self.reader = Reader(self.link)
        self.link.sendall(SHAKE % (path, extra) + ahead)
        self.answer = Answer(self.reader)

    def send(self, *args, **kwargs):
        self.link.sendall(frame(*args, **kwargs))

    def receive(self):
        first, size = self.reader.take(2)
        assert first & 0x80 and not size & 0x80  # whole, and not masked
        if size == 126:
            size = struct.unpack(">H", self.reader.take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.reader.take(8))[0]
        return first & 15, self.reader.take(size)

    def close_code(self):
        opcode, data = self.receive()
        assert opcode == CLOSE
        return struct.unpack(">H", data[:2])[0] if data else None

    def is_over(self):
        return not self.reader.buffer and read_to_end(self.link) == b""


def test_websocket_handshake_and_echo(shared):
    ws = Socket(shared, extra=b"Sec-WebSocket-Protocol: other, cove\r\n", ahead=frame(TEXT, b"early"))
    assert ws.answer.status == 101
    assert ws.answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of RFC 6455
    assert ws.answer.headers["sec-websocket-protocol"] == "cove"
    assert ws.receive() == (TEXT, b"early")
    for opcode, data in ((TEXT, b""), (TEXT, "ä".encode()), (BINARY, b"\xff\0"), (BINARY, os.urandom(200)), (BINARY, os.urandom(700000))):
        ws.send(opcode, data)
        assert ws.receive() == (opcode, data)
    ws.send(TEXT, b"in ", fin=False)
    ws.send(PING, b"between")
    ws.send(0, b"pieces")
    assert ws.receive() == (PONG, b"between")
    assert ws.receive() == (TEXT, b"in pieces")
    ws.send(CLOSE, struct.pack(">H", 1000) + b"done")
    assert ws.close_code() == 1000
    assert ws.is_over()
    wait_for(lambda: shared.stats()["ws_open"] == 0, "the handler hears of it")
    assert shared.stats()["ws_code"] == 1000


def test_websocket_closed_by_the_server(shared):
    ws = Socket(shared)
    ws.send(TEXT, b"close")
    assert ws.close_code() == 1000
    ws.send(CLOSE, struct.pack(">H", 1000))
    assert ws.is_over()


@pytest.mark.parametrize("data,code", [
    (frame(TEXT, b"\xff"), 1007),
    (frame(BINARY, b"x" * (MIB + 1)), 1009),
    (frame(BINARY, b"x", fin=False) + frame(0, b"", fin=False) * 2000, 1009),
    (b"\x81\x01x", 1002),  # not masked
    (frame(0, b"x"), 1002),  # continues nothing
    (frame(3, b"x"), 1002),  # no such opcode
    (frame(PING, b"x" * 126), None),
    (frame(TEXT | 0x40, b"x"), 1002),  # a reserved bit
    (frame(CLOSE, b"x"), None),
], ids=["no UTF-8", "too long", "too many pieces", "not masked", "nothing to continue", "opcode", "long ping", "reserved", "short close"])
def test_websocket_faults(shared, data, code):
    ws = Socket(shared)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        ws.link.sendall(data)
    assert ws.close_code() == code
    ws.link.close()
    wait_for(lambda: shared.stats()["ws_open"] == 0, "it has ended")


@pytest.mark.parametrize("old,new,status", [
    (b"Upgrade: websocket", b"Upgrade: h2c", 426),
    (b"Connection: Upgrade", b"Connection: close", 426),
    (b"Version: 13", b"Version: 8", 426),
    (KEY, b"short", 400),
    (KEY, b"dGhlIHNhbXBsZSBub25jZ===", 400),
    (b"Host: localhost", b"Host: localhost\r\nOrigin: http://evil.test", 403),
], ids=["protocol", "connection", "version", "key", "key's form", "origin"])
def test_websocket_refused(shared, old, new, status):
    with shared.connect() as link:
        link.sendall((SHAKE % (b"/socket", b"")).replace(old, new))
        assert Answer(Reader(link)).status == status


@pytest.mark.parametrize("way", WAYS)
def test_websocket_peer_leaves(shared, way):
    ws = Socket(shared)
    wait_for(lambda: shared.stats()["ws_open"] == 1, "it is open")
    WAYS[way](ws.link)
    wait_for(lambda: shared.stats()["ws_open"] == 0, "the leave is noticed")
    assert shared.stats()["ws_code"] == 1006
    ws.link.close()


def test_websocket_back_pressure(start):
    server = start()
    before = server.rss()
    ws = Socket(server, path=b"/socket?flood=1000")  # 62 MiB, and nobody reads
    wait_for(lambda: server.stats()["ws_open"] == 1, "it is open")
    assert server.rss() - before < (4 if not covetest.IS_ASAN else 32) * MIB
    assert all(ws.receive() == (BINARY, b"p" * 65536) for _ in range(1000))
    ws.link.close()


def test_websocket_echo_of_who_does_not_read(start):
    """Neither echoes nor pongs pile up: what is not taken is not asked for."""
    server = start(stall_ms=60000)
    before = server.rss()
    ws = Socket(server)
    assert flood(ws.link, (frame(PING, b"x" * 100) + frame(BINARY, b"y" * 1000)) * 200) < 40 * MIB
    assert server.rss() - before < (6 if not covetest.IS_ASAN else 48) * MIB
    ws.link.close()


def test_websocket_pings_find_the_dead(start):
    server = start(ping_ms=400 * SLOWNESS)
    alive, dead = Socket(server), Socket(server)
    for _ in range(4):
        assert alive.receive() == (PING, b"")
        alive.send(PONG)
    assert dead.receive() == (PING, b"")
    wait_for(lambda: server.stats()["ws_open"] == 1, "the silent one is dropped")
    alive.send(TEXT, b"still here")
    while (got := alive.receive()) == (PING, b""):
        alive.send(PONG)
    assert got == (TEXT, b"still here")
    alive.link.close()
    dead.link.close()


def test_websocket_is_told_of_the_drain(start):
    server = start()
    ws = Socket(server)
    wait_for(lambda: server.stats()["ws_open"] == 1, "it is open")
    server.process.send_signal(signal.SIGTERM)
    assert ws.close_code() == 1001
    ws.send(CLOSE, struct.pack(">H", 1001))
    assert ws.is_over()
    assert server.process.wait(PATIENCE) == 0


# --- TLS --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "cert"],
                   check=True, capture_output=True)
    return folder / "cert", folder / "key"


@pytest.fixture
def secure(start, certificate):
    def begin(**options):
        server = start(cert=certificate[0], key=certificate[1], **options)
        server.tls = ssl.create_default_context(cafile=certificate[0])
        server.tls.set_alpn_protocols(["h2", "http/1.1"])
        return server
    return begin


def test_tls(secure):
    server = secure()
    with server.connect() as link:
        assert link.version() == "TLSv1.3" and link.selected_alpn_protocol() == "http/1.1"
        reader = Reader(link)
        link.sendall(GET % b"/show/a/b" + GET % b"/later/20" + GET % b"/hello")
        assert json.loads(Answer(reader).body)["tls"] is True
        assert [Answer(reader).body for _ in range(2)] == [b"later\n", b"hello\n"]
        link.sendall(b"GET /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\nConnection: close\r\n\r\n")
        assert Answer(reader).status == 200
        assert link.recv(1) == b""  # with a proper goodbye, else this raises


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(secure, version):
    server = secure()
    server.tls.minimum_version = server.tls.maximum_version = version
    assert server.get("/hello").status == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_1_1_and_other_protocols_are_refused(secure, certificate):
    server = secure()
    server.tls.set_ciphers("ALL:@SECLEVEL=0")
    server.tls.minimum_version = ssl.TLSVersion.TLSv1
    server.tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        server.connect()
    server.tls = ssl.create_default_context(cafile=certificate[0])
    server.tls.set_alpn_protocols(["h2"])
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        server.connect()


def test_tls_bodies(secure):
    server = secure()
    data = os.urandom(8 * MIB)
    with server.connect() as link:
        reader = Reader(link)
        link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        assert json.loads(Answer(reader).body) == {"bytes": len(data)}
        link.sendall(b"PUT /slow-sink?ms=30 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300000)
        assert json.loads(Answer(reader).body) == {"bytes": 300000}
        link.sendall(GET % b"/big?bytes=30000000")
        assert Answer(reader).body == b"p" * 30000000
        link.sendall(GET % b"/given?bytes=5000000")
        assert Answer(reader).body == b"g" * 5000000


def test_tls_peer_leaves(secure):
    server = secure()
    for close in (lambda link: link.close(), lambda link: link.unwrap()):
        gone = server.stats()["gone"]
        link = server.connect()
        link.sendall(GET % b"/later/0")
        wait_for(lambda: server.stats()["open"] == 1, "the handler works")
        with contextlib.suppress(OSError):
            link.settimeout(0.05)
            close(link)
        link.close()
        wait_for(lambda: server.stats()["gone"] == gone + 1, "the leave is noticed")


def test_tls_websocket(secure):
    ws = Socket(secure(), ahead=frame(TEXT, b"early"))
    assert ws.receive() == (TEXT, b"early")
    ws.send(BINARY, b"x" * 500000)
    assert ws.receive() == (BINARY, b"x" * 500000)
    ws.link.close()


def test_tls_too_many_connections(secure):
    server = secure(connections=2)
    links = [server.connect() for _ in range(2)]
    for _ in range(20):  # there is no way to say more than that
        with pytest.raises(OSError):
            server.connect()
    links.pop().close()
    wait_for(lambda: is_served(server), "there is room again")
    links.pop().close()


def is_served(server):
    try:
        return server.get("/hello").status == 200
    except OSError:
        return False


def test_tls_handshake_has_a_deadline(secure):
    server = secure(head_ms=200)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as link:
        assert read_to_end(link) == b""
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as noise:
            noise.sendall(GET % b"/hello")
            assert b"HTTP/1.1 200" not in read_to_end(noise)
    assert server.get("/hello").status == 200


@pytest.mark.parametrize("cert,key,word", [("/nonexistent", None, "certificate"), (None, "/nonexistent", "key"), (None, "other", "key")])
def test_tls_files_that_do_not_fit(certificate, tmp_path, cert, key, word):
    if key == "other":
        key = tmp_path / "other"
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], check=True, capture_output=True)
    failed = subprocess.run([BUILD / "tests" / "http_peer", f"cert={cert or certificate[0]}", f"key={key or certificate[1]}"],
                            capture_output=True, text=True)
    assert failed.returncode == 1 and word in failed.stderr
