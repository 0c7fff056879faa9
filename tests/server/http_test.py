# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer as its peers see it, on raw sockets and by curl: requests, answers, bodies, and what is refused."""
import email.utils
import json
import os
import re
import subprocess
import threading
import time

import pytest

import covetest
from covetest import PATIENCE, wait_for
from http_peer import GET, MIB, SHAPE, Answer, Reader, flood, link, read_to_end, shared, start  # noqa: F401


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
