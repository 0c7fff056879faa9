# SPDX-License-Identifier: Apache-2.0
"""The HTTP layer and peers that leave, are slow, are many, or do anything at any time; and the end of the server."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import resource
import select
import signal
import socket
import ssl
import subprocess
import time

import pytest

from covetest import BUILD, PATIENCE, SLOWNESS, wait_for
from http_peer import GET, WAYS, Answer, Reader, certificate, leave_rudely, read_to_end, shared, start  # noqa: F401


NOTICED_S = 0.5  # from a peer's leaving to the handler's hearing of it
NOTICED_ANSWERS = 10  # that others may get meanwhile
TRIES = 5  # of which one must be as fast: the machine does other work, too


# --- peers that leave -----------------------------------------------------------------------------


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
    times = []
    while len(times) < TRIES and not (times and times[-1] < NOTICED_S * SLOWNESS):
        before = shared.stats()
        link = shared.connect()
        link.sendall(WORK[work])
        wait_for(lambda: shared.stats()["open"] == before["open"] + 1, "the handler works")
        WAYS[way](link)
        begin = time.monotonic()
        wait_for(lambda: shared.stats()["gone"] == before["gone"] + 1, "the handler hears of it")
        times.append(time.monotonic() - begin)
        link.close()
        assert shared.stats()["open"] == before["open"]
    assert min(times) < NOTICED_S * SLOWNESS, times


def test_a_leave_is_noticed_before_others_are_answered(shared):
    """Nearly, in the median: what runs for nobody must stop at once. That is counted in answers, as time is the machine's, too."""
    delays = []
    for _ in range(9):
        gone = shared.stats()["gone"]
        link = shared.connect()
        link.sendall(GET % b"/later/0")
        wait_for(lambda: shared.stats()["open"] == 1, "the handler works")
        with shared.connect() as watch:
            reader = Reader(watch)
            link.close()
            for count in itertools.count():
                watch.sendall(GET % b"/stats")
                if json.loads(Answer(reader).body)["gone"] == gone + 1:
                    break
            delays.append(count)
    assert sorted(delays)[4] < NOTICED_ANSWERS, delays


LONGER_MS = (1000, 2000, 4000, 8000, 16000)  # each where the one before was too short


def is_readable(link):
    return bool(select.select([link], [], [], 0)[0])


def test_a_handler_that_does_not_ask_answers_nobody(start):
    server = start()

    def leave(ms):
        """Whether it was before the answer: that needs more time where the machine does other work, too."""
        with server.connect() as link:
            link.sendall(GET % b"/deaf/%d" % ms)
            wait_for(lambda: server.stats()["open"] == 1 or is_readable(link), "the handler works, or has answered")
            return not is_readable(link)
    assert any(leave(ms) for ms in LONGER_MS)
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
    begin = time.monotonic()
    with server.connect() as link:
        link.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while not select.select([link], [], [], 0.02)[0]:
                link.send(b"A: b\r\n" if time.monotonic() - begin < PATIENCE else b"")
        answer = Answer(Reader(link))
        assert (answer.status, answer.error()) == (408, "request_timeout")
        assert 0.25 < time.monotonic() - begin < 5 * SLOWNESS


def test_the_second_head_has_a_deadline_too(start):
    server = start(head_ms=1500, idle_ms=60000)  # time enough for the first one
    with server.connect() as link:
        reader = Reader(link)
        link.sendall(GET % b"/hello")
        Answer(reader)
        link.sendall(b"GET")
        assert Answer(reader).status == 408


def test_who_says_nothing_is_closed(start):
    server = start(head_ms=1500, idle_ms=200)
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

    def is_steady():
        """Whether this process had its turns in time; if not, what it sent proves nothing."""
        turn, sent = time.monotonic(), 20000
        with server.connect() as link:
            link.sendall(b"PUT /sink HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + b"x" * sent)
            begin = time.monotonic()
            while sent < 200000:  # at 200 kB/s: a second, where its deadline alone would allow a tenth
                last, turn = turn, time.monotonic()
                if turn - last > 0.5:
                    return False
                due = int((turn - begin) * 200000) + 20000
                if due > sent:
                    sent += link.send(b"x" * min(due - sent, 200000 - sent))
            if time.monotonic() - turn > 0.5:
                return False
            assert json.loads(Answer(Reader(link)).body) == {"bytes": 200000}
            assert time.monotonic() - begin > 0.3
            return True
    wait_for(is_steady, "turns in time")


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
    assert time.monotonic() - begin < 20 * SLOWNESS, "a third of the time that the slow ones have"
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


def drain_while_a_handler_works(start, ms):
    """Whether it did: it needs more time where the machine does other work, too."""
    server = start(drain_ms=PATIENCE * 1000)
    busy, idle, half = server.connect(), server.connect(), server.connect()
    idle.sendall(GET % b"/hello")
    Answer(Reader(idle))
    half.sendall(b"GET /hello HTTP/1.1\r\nHost: local")
    busy.sendall(GET % b"/later/%d" % ms)
    wait_for(lambda: server.stats()["open"] == 1 or is_readable(busy), "the handler works, or has answered")
    server.process.send_signal(signal.SIGTERM)
    assert idle.recv(1) == b""
    is_early = not is_readable(busy)
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    half.sendall(b"host\r\n\r\n")
    for link in (half, busy):
        answer = Answer(Reader(link))
        assert answer.status == 200 and (answer.headers.get("connection") == "close" or (link is busy and not is_early))
        link.close()
    assert server.process.wait(PATIENCE) == 0
    return is_early


def test_drain_lets_requests_finish(start):
    assert any(drain_while_a_handler_works(start, ms) for ms in LONGER_MS)


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
