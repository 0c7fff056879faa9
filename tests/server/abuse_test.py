# SPDX-License-Identifier: Apache-2.0
"""Clients of a real server that mean no good, or do not care: what they send, how they leave, and how many they are.

Framing, slow peers and headers are in http_test.py and http_peers_test.py; here is what the routes make of it."""
import contextlib
import json
import os
import socket
import struct
import time

import pytest

import covetest
import crashers
from covetest import SLOWNESS, wait_for
from crashers import EXECUTIONS, SESSIONS, create, ended, execute, side_by_side
from server import Answer, Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

SHAPE = {"code", "message", "hint", "request_id"}
NOTICED_S = 0.25  # from a peer's leaving to the end of its run
LISTENERS_BYTES = 64 << 20
TRIES, SURVIVORS = 20, 2  # of which one must be as fast, and so many live on: the machine does other work, too
FOREVER = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture(scope="module")
def server():
    with Server("--timeout", "10m") as server:
        yield server
        assert server.stop() == 0
        server.nothing_is_left()


@pytest.fixture
def session(server):
    one = create(server)["id"]
    yield one
    assert server.delete(f"{SESSIONS}/{one}").status == 200


@pytest.fixture(autouse=True)
def it_lives(server):
    """Whatever is tried: the same process answers afterwards, and holds no more than before."""
    coved = server.coved
    server.get(SESSIONS)
    before = len(os.listdir(f"/proc/{coved}/fd"))
    yield
    assert server.coved == coved and server.get(SESSIONS).status == 200
    # Parked sandboxes have some, too, and come and go.
    wait_for(lambda: len(os.listdir(f"/proc/{coved}/fd")) <= before + 16, "its descriptors to be closed")


def assert_refused(answer, *statuses):
    assert answer.status in statuses, answer
    error = answer.json["error"]
    assert set(error) == SHAPE and error["code"] and error["message"], answer
    assert error["request_id"] == answer.headers["X-Request-Id"]


# --- what they send -----------------------------------------------------------------------------------

BAD_BODIES = {
    "deep": b"[" * 1_000_000, "deep object": b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "deep value": b'{"code": ' + b"[" * 100_000,
    "not JSON": b"code=1", "empty text": b" ", "trailing comma": b'{"code": "1",}', "comment": b'{"code": "1" /* x */}',
    "two values": b'{"code": "1"} {}', "BOM": b'\xef\xbb\xbf{"code": "1"}', "bad UTF-8": b'{"code": "\xff"}',
    "surrogate": b'{"code": "\\ud800"}', "duplicate": b'{"code": "1", "code": "2"}', "NaN": b'{"code": "1", "timeout": NaN}',
    "huge number": b'{"code": "1", "timeout": 1e400}', "2^64": b'{"code": "1", "timeout": 18446744073709551617}',
    "negative": b'{"code": "1", "timeout": -1}', "no time": b'{"code": "1", "timeout": 0}',
    "text": b'{"code": "1", "timeout": "5"}', "list": b"[]", "null": b"null", "number as code": b'{"code": 5}',
    "unknown": b'{"code": "1", "nonsense": 1}', "no code": b"{}", "many keys": b"{" + b",".join(
        b'"k%d": 1' % i for i in range(100_000)) + b"}",
    "path": b'{"code": "1", "files": [{"path": "../x", "content": ""}]}',
    "absolute": b'{"code": "1", "files": [{"path": "/etc/x", "content": ""}]}',
    "base64": b'{"code": "1", "files": [{"path": "x", "content_base64": "*"}]}',
    "variable": b'{"code": "1", "env": {"A=B": "1"}}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_refused(server, session, name):
    headers = {"Content-Type": "application/json"}
    for path in ("/execute", f"{SESSIONS}/{session}/execute"):
        assert_refused(server.post(path, BAD_BODIES[name], headers=headers), 400, 413, 422)


def test_nul_in_text_is_refused_or_kept(server):
    answer = server.post("/execute", b'{"code": "print(len(\\"a\\u0000b\\"))"}', headers={"Content-Type": "application/json"})
    if answer.status != 200:
        assert_refused(answer, 400, 422)
    else:
        assert answer.json["state"] in ("completed", "failed")


def test_a_body_beyond_the_limit(server):
    """By its length at once; without one when it is reached."""
    connection = server.connect()
    connection.putrequest("POST", "/execute")
    connection.putheader("Authorization", f"Bearer {server.token}")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    response = connection.getresponse()
    assert_refused(Answer(response, response.read()), 413)
    connection.close()
    connection = server.connect()
    with contextlib.suppress(OSError):  # it need not read on when it has seen enough
        connection.request("POST", "/execute", body=(b"x" * 65536 for _ in range(1000)), encode_chunked=True, headers={
            "Authorization": f"Bearer {server.token}", "Transfer-Encoding": "chunked"})
    response = connection.getresponse()
    assert_refused(Answer(response, response.read()), 413)
    connection.close()


WORDS = ["ses_" + "0" * 26, "x" * 5000, "..", "%2e%2e", "..%2f..%2fetc", "%00", "a%00b", "ses_%s%n%s", "';DROP TABLE sessions;--",
         "%27%20OR%201=1--", "%ff%fe", "-1", "0", "null", "ses_" + "Z" * 26, "%0d%0aX-Injected:%201", "*", "a b", "exe_" + "0" * 26]


@pytest.mark.parametrize("word", WORDS)
def test_ids_that_name_nothing(server, word):
    word = word.replace(" ", "%20")
    for method, path in [("GET", f"{SESSIONS}/{word}"), ("DELETE", f"{SESSIONS}/{word}"), ("GET", f"{EXECUTIONS}/{word}"),
                         ("POST", f"{EXECUTIONS}/{word}/cancel"), ("GET", f"{EXECUTIONS}/{word}/events"),
                         ("POST", f"{SESSIONS}/{word}/reset")]:
        answer = server.request(method, path)
        assert_refused(answer, 400, 404, 414)
        assert "X-Injected" not in answer.headers


def test_what_belongs_to_another_key_does_not_exist(server, session):
    key = server.post("/api/v1/keys", {"name": "other", "scopes": ["sessions:read", "sessions:write", "execute"]})
    assert key.status == 201, key
    secret = next(value for name, value in key.json.items() if name in ("key", "secret", "token"))
    execution = execute(server, session, "1")["id"]
    nobody, nothing = "ses_" + "0" * 26, "exe_" + "0" * 26
    for method, path, mine, none in [
            ("GET", SESSIONS + "/{}", session, nobody), ("DELETE", SESSIONS + "/{}", session, nobody),
            ("POST", SESSIONS + "/{}/reset", session, nobody), ("POST", SESSIONS + "/{}/interrupt", session, nobody),
            ("GET", EXECUTIONS + "/{}", execution, nothing), ("GET", EXECUTIONS + "/{}/events", execution, nothing),
            ("POST", EXECUTIONS + "/{}/cancel", execution, nothing)]:
        theirs, absent = (server.request(method, path.format(one), token=secret) for one in (mine, none))
        assert_refused(theirs, 404)
        assert theirs.json["error"]["message"].replace(mine, none) == absent.json["error"]["message"]
        assert theirs.json["error"]["code"] == absent.json["error"]["code"]
    assert server.get(SESSIONS, token=secret).json["sessions"] == []
    assert server.get(EXECUTIONS, token=secret).json["executions"] == []
    assert server.get(f"{SESSIONS}/{session}").json["state"] == "ready", "nothing was done to it"


def test_requests_in_one_piece_are_answered_in_order(server, session):
    body = json.dumps({"code": "n = globals().get('n', 0) + 1; print(n)", "mode": "sync"}).encode()
    head = f"Host: localhost\r\nAuthorization: Bearer {server.token}\r\n".encode()
    one = b"POST %s/%s/execute HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        SESSIONS.encode(), session.encode(), head, len(body), body)
    other = b"GET %s/%s HTTP/1.1\r\n%s\r\n" % (SESSIONS.encode(), session.encode(), head)
    connection = server.connect()
    connection.sock.sendall((one + other) * 25)
    with connection.sock.makefile("rb") as file:
        for number in range(25):
            assert read_document(file)["stdout"] == f"{number + 1}\n"
            assert read_document(file)["id"] == session
    connection.close()


def read_document(file):
    assert file.readline() == b"HTTP/1.1 200 OK\r\n"
    headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(file.readline, b"\r\n"))
    return json.loads(file.read(int(headers["content-length"])))


# --- how they leave -----------------------------------------------------------------------------------


def close(link):
    link.close()


def reset(link):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


def begin(server, path):
    connection = server.connect()
    server.begin(connection, "POST", path, {"code": FOREVER, "mode": "sync"})
    return connection


def has_survived(server, session):
    """Whether the interpreter took an interrupt. One that gets no turn for a second is killed; then there is another."""
    path = f"{SESSIONS}/{session}"
    state = wait_for(lambda: (now := server.get(path).json["state"]) in ("ready", "failed") and now, "a session at rest")
    assert state == "ready" or server.post(f"{path}/reset").status == 200
    return state == "ready"


@pytest.mark.parametrize("leave", [close, reset])
def test_who_leaves_a_sync_run_ends_it(server, session, leave):
    """An interpreter that has no turn to end its code is killed."""
    times, survived = [], 0
    while survived < SURVIVORS or min(times) >= NOTICED_S * SLOWNESS:
        assert len(times) < TRIES, (times, survived)
        connection = begin(server, f"{SESSIONS}/{session}/execute")
        path = f"{EXECUTIONS}?session={session}&state=running"
        running = wait_for(lambda: server.get(path).json["executions"], "it to run")[0]["id"]
        begun = time.monotonic()
        leave(connection.sock)
        assert ended(server, running)["state"] == "cancelled"
        times.append(time.monotonic() - begun)
        if has_survived(server, session):
            survived += 1
            assert execute(server, session, "print('alive')")["stdout"] == "alive\n"


def test_who_leaves_a_stateless_run_ends_it(server):
    named = f"import ctypes\nctypes.CDLL(None).prctl(15, b'abandoned')\n{FOREVER}"
    connections = [server.connect() for _ in range(5)]
    for connection in connections:
        server.begin(connection, "POST", "/execute", {"code": named})
    running = lambda: [pid for pid in crashers.server_pids(server.group) if covetest.name_of(pid) == "abandoned"]  # noqa: E731
    wait_for(lambda: len(running()) == 5, "them to run")
    for connection in connections:
        connection.close()
    wait_for(lambda: not running(), "their end")


def test_who_leaves_an_async_run_leaves_it(server, session):
    connection = server.connect()
    server.begin(connection, "POST", f"{SESSIONS}/{session}/execute", {"code": "import time; time.sleep(0.3); print('done')"})
    found = wait_for(lambda: server.get(f"{EXECUTIONS}?session={session}").json["executions"], "it to run")
    reset(connection.sock)
    document = ended(server, found[0]["id"])
    assert (document["state"], document["stdout"]) == ("completed", "done\n")


def test_listeners_who_never_read(server, session):
    """They cost a bounded amount of memory, and nobody waits for them."""
    code = "for i in range(20000): print('x' * 1000)"
    execution = execute(server, session, code, "async")["id"]
    links = []
    for _ in range(30):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = server.url.split("//")[1].split(":")
        link.connect((host, int(port)))
        link.sendall(f"GET {EXECUTIONS}/{execution}/events HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: Bearer {server.token}\r\n\r\n".encode())
        links.append(link)
    document = ended(server, execution)
    assert document["state"] == "completed" and document["truncated"]["stdout"]["total_bytes"] == 20000 * 1001
    memory = covetest.own_memory(server.coved)
    print(f"memory {memory / (1 << 20):.1f} MB")
    if not covetest.IS_ASAN:  # which keeps freed memory for a while
        assert memory < LISTENERS_BYTES, memory
    for link in links:
        link.close()


# --- how many they are --------------------------------------------------------------------------------


def test_a_storm_of_cancels_has_one_end(server, session):
    execution = execute(server, session, FOREVER, "async")["id"]
    answers = side_by_side(lambda _: server.post(f"{EXECUTIONS}/{execution}/cancel"), range(60))
    assert {answer.status for answer in answers} == {200}
    document = ended(server, execution)
    assert document["state"] == "cancelled"
    told = [answer.json for answer in answers if answer.json["state"] not in ("running", "queued")]
    assert all(one == document for one in told)
    again = side_by_side(lambda _: server.post(f"{EXECUTIONS}/{execution}/cancel").json, range(20))
    assert all(one == document for one in again)


def test_queued_runs_and_their_cancels_race(server, session):
    first = execute(server, session, FOREVER, "async")["id"]
    waiting = [execute(server, session, "1", "async", queue=True)["id"] for _ in range(10)]
    side_by_side(lambda one: server.post(f"{EXECUTIONS}/{one}/cancel"), [first, *waiting])
    states = [ended(server, one)["state"] for one in (first, *waiting)]
    assert states[0] == "cancelled" and set(states[1:]) <= {"cancelled", "completed"}
    wait_for(lambda: server.get(f"{SESSIONS}/{session}").json["state"] == "ready", "it to be free")


def test_a_flood_of_connections(server):
    links = []
    for _ in range(800):
        link = socket.create_connection(tuple(server.url.split("//")[1].split(":")))
        links.append(link)
    begun = time.monotonic()
    assert server.get(SESSIONS).status == 200
    assert time.monotonic() - begun < 5 * SLOWNESS
    for link in links:
        link.close()


def test_more_creates_than_places():
    with Server("--max-sessions", "5") as small:
        answers = side_by_side(lambda _: small.post(SESSIONS, {}), range(40))
        made = [answer.json["id"] for answer in answers if answer.status == 201]
        assert 1 <= len(made) <= 5
        for answer in answers:
            if answer.status != 201:
                assert_refused(answer, 429, 503)
                assert answer.headers["Retry-After"], answer
        for one in made:
            assert small.delete(f"{SESSIONS}/{one}").status == 200
        wait_for(lambda: small.post(SESSIONS, {}).status == 201, "a place again")
