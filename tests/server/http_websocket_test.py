# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer as a WebSocket sees it."""
import contextlib
import os
import signal
import struct

import pytest

import covetest
from covetest import PATIENCE, SLOWNESS, wait_for
from http_peer import (BINARY, CLOSE, KEY, MIB, PING, PONG, SHAKE, TEXT, WAYS, Answer, Reader, Socket, flood, frame,
                       shared, start)  # noqa: F401


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
    server = start(ping_ms=1000 * SLOWNESS)
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
