# SPDX-License-Identifier: Apache-2.0
"""What the tests of the HTTP layer share: http_peer (integration/http_peer.c), and peers of it on raw sockets."""
import contextlib
import json
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest

import covetest
from covetest import BUILD, PATIENCE, SLOWNESS

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
MIB = 1 << 20
SHAPE = {"code", "message", "hint", "request_id"}


class Server:
    """One http_peer; its options are NAME=VALUE."""

    def __init__(self, **options):
        argv = [str(BUILD / "tests" / "http_peer"), *(f"{k}={v}" for k, v in options.items())]
        env = covetest.environment(**covetest.without_quarantine())
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env)
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
        return covetest.own_memory(self.process.pid)

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


def flood(link, data, seconds=2):
    """Sends the same again and again and reads nothing, until it is held back; -> bytes sent"""
    link.setblocking(False)
    end, sent = time.monotonic() + seconds * SLOWNESS, 0
    while time.monotonic() < end and select.select([], [link], [], 0.3 * SLOWNESS)[1]:
        with contextlib.suppress(BlockingIOError):
            sent += link.send(data[sent % len(data):])
    return sent


def leave_rudely(link):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


WAYS = {"closes": socket.socket.close, "resets": leave_rudely, "ends": lambda link: link.shutdown(socket.SHUT_WR)}


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
