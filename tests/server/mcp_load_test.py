# SPDX-License-Identifier: Apache-2.0
"""Many calls of MCP at once, right answers to all of them; storms of cancels, and clients that die: nothing stays behind."""
import contextlib
import json
import random
import signal
import subprocess
import sys
import time

import pytest

import covetest
from covetest import IS_ASAN, wait_for
from crashers import BROKEN, EXECUTIONS, SESSIONS, pages, side_by_side
from growth import PARKED_FDS, assert_nothing_stays, fds, rounds_until_rest, warm_up
from mcp_client import Legacy, Modern, ids, message, modern
from mcp_stdio import Stdio
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups of their own need root")

CALLS = 40 if IS_ASAN else 100
STORM, STORM_CLIENTS = (60, 10) if IS_ASAN else (300, 20)
SLEEP = "import subprocess; subprocess.run(['sleep', '600'])"


@pytest.fixture(scope="module")
def served():
    with Server("--max-sessions", "400") as server:
        yield server


def sleepers(server):
    return covetest.inside(server, "sleep")


def nothing_runs(server):
    """What is left of all calls: no program, no session, no execution that has not ended."""
    wait_for(lambda: not sleepers(server), "the end of all programs")
    wait_for(lambda: not pages(server, f"{EXECUTIONS}?state=running", "executions"), "the end of all executions")
    wait_for(lambda: not pages(server, f"{SESSIONS}?live=true", "sessions"), "the end of all sessions")


def close_sessions(server):
    """Also those that a cancelled call is still having made -> whether none is left"""
    live = pages(server, f"{SESSIONS}?live=true", "sessions")
    for session in live:
        assert server.delete(f"{SESSIONS}/{session['id']}").status == 200
    return not live


# --- calls side by side -------------------------------------------------------------------------------


def run_alone(client, number):
    assert f"[stdout]\n{number * number}\n" in client.text("run_code", {"code": f"print({number} * {number})"})


def run_in_session(client, number):
    name = f"load-{next(ids)}"
    client.text("upload_file", {"session_id": name, "path": "in.txt", "content": str(number)})
    client.text("run_code", {"session_id": name, "code": "x = int(open('in.txt').read())"})
    assert f"[value]\n{number + 1}\n" in client.text("run_code", {"session_id": name, "code": "x + 1"})
    assert client.text("read_artifact", {"session_id": name, "path": "in.txt"}) == str(number)
    client.text("close_session", {"session_id": name})


def fail(client, number):
    text = client.text("run_code", {"code": f"raise ValueError({number})"})
    assert f"ValueError: {number}" in text
    assert client.call("run_code", {"cod": "1"})["isError"]


def list_things(client, _):
    assert client.result("tools/list")["tools"][0]["name"] == "run_code"
    assert client.request("tools/call", {"name": "no_such_tool"})["error"]["code"] == -32602


KINDS = [run_alone, run_alone, run_in_session, fail, list_things]


def one_call(server):
    def run(number):
        client = (Modern, Legacy)[number % 2](server)
        KINDS[number % len(KINDS)](client, number)
        if isinstance(client, Legacy):
            assert client.end().status == 204
    return run


def test_all_at_once_are_answered_and_nothing_stays(served):
    coved = served.coved

    def one_round():
        side_by_side(one_call(served), range(CALLS))
        nothing_runs(served)
    warm_up(served)
    seen = rounds_until_rest(served, one_round, CALLS)
    print(json.dumps({"calls": CALLS, "heap, memory, fds of coved, fds of spawner": seen}))
    assert served.coved == coved
    assert_nothing_stays(served, seen)


# --- storms of cancels --------------------------------------------------------------------------------


def begin(server, chance):
    """A call that does not end by itself -> connection, the client (None: of no session), the id."""
    # An interrupt may come between the birth of a child and the moment when python knows of it: such a child is the session's.
    arguments = chance.choice([{"code": SLEEP}, {"code": "import time; time.sleep(600)", "session_id": f"storm-{chance.randrange(8)}"}])
    meta = {"progressToken": 1} if chance.random() < 0.5 else None
    wish = {"name": "run_code", "arguments": arguments}
    client = Legacy(server) if chance.random() < 0.7 else None
    if client:
        body, headers = message("tools/call", wish | ({"_meta": meta} if meta else {}), id=next(ids)), client.headers
    else:
        body, headers = modern("tools/call", wish, meta=meta)
    connection = server.connect()
    server.begin(connection, "POST", "/mcp", body, headers=headers)
    return connection, client, body["id"]


def leave(connection, client, _):
    connection.close()
    if client:
        assert client.end().status == 204  # else what has told something is waited for


def tell(connection, client, number):
    assert client.tell("notifications/cancelled", {"requestId": number}).status == 202
    answer = connection.getresponse()
    text = answer.read()
    # Nothing; or the cancel was too late for a call into a session that an earlier cancel has cost its interpreter.
    assert answer.status == 200 and (f'"id":{number}'.encode() not in text or b"interpreter of the session is gone" in text), text
    connection.close()


def end_session(connection, client, _):
    assert client.end().status == 204
    connection.getresponse().read()
    connection.close()


def all_at_once(connection, client, number):
    connection.close()
    assert client.tell("notifications/cancelled", {"requestId": number}).status == 202
    assert client.end().status == 204


def storm(server, count, seed):
    def some(number):
        chance = random.Random(seed + number)
        for _ in range(count // STORM_CLIENTS):
            call = begin(server, chance)
            time.sleep(chance.random() ** 3)  # any moment of a call's life, early ones above all
            chance.choice([leave, tell, end_session, all_at_once] if call[1] else [leave])(*call)

    side_by_side(some, range(STORM_CLIENTS))
    wait_for(lambda: not sleepers(server), "the end of all programs")
    wait_for(lambda: close_sessions(server), "the end of all sessions")
    nothing_runs(server)


def test_a_storm_of_cancels_leaves_nothing(served):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    storm(served, STORM_CLIENTS, seed)  # from now on as many are parked as it takes
    coved, before = served.coved, fds(served.coved)
    storm(served, STORM, seed + STORM_CLIENTS)
    wait_for(lambda: fds(coved) <= before + PARKED_FDS, "no descriptor is left")
    assert served.coved == coved, "it has died"
    run_alone(Modern(served), 6)


# --- a client that dies -------------------------------------------------------------------------------

DYING = """
import json, socket, sys, time
for raw in json.load(sys.stdin):
    place = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    place.sendall(raw.encode())
    globals().setdefault("kept", []).append(place)
print("sent", flush=True)
time.sleep(600)
"""


def raw_request(server, body, headers):
    body = json.dumps(body)
    lines = [f"{name}: {value}" for name, value in (headers | {
        "Host": "127.0.0.1", "Authorization": f"Bearer {server.token}", "Content-Type": "application/json",
        "Content-Length": len(body)}).items()]
    return "POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n" + body


@pytest.mark.parametrize("meta", [None, {"progressToken": 1}], ids=["silent", "with progress"])
def test_a_client_that_is_killed_in_mid_call_leaves_nothing(served, meta):
    before, wish = fds(served.coved), {"name": "run_code", "arguments": {"code": SLEEP}}
    requests = [raw_request(served, *modern("tools/call", wish, meta=meta)) for _ in range(10)]
    client = Legacy(served)  # of which a call that has told something is waited for, until its session ends
    requests.append(raw_request(served, message("tools/call", wish | {"_meta": meta or {}}, id=1), client.headers))
    with subprocess.Popen([sys.executable, "-c", DYING, served.url.rsplit(":")[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as dying:
        dying.stdin.write(json.dumps(requests))
        dying.stdin.close()
        assert dying.stdout.readline() == "sent\n"
        wait_for(lambda: len(sleepers(served)) == len(requests), "all programs to run")
        dying.send_signal(signal.SIGKILL)
    nothing_runs(served)
    with contextlib.suppress(*BROKEN):
        client.end()
    wait_for(lambda: fds(served.coved) <= before + PARKED_FDS, "no descriptor is left")
    run_alone(Modern(served), 7)


# --- over stdio: one connection for all of them -------------------------------------------------------


def answered(stdio, count):
    """So many calls at once, right answers to all of them."""
    numbers = [stdio.begin_call("run_code", {"code": f"print({n} * {n})"}) for n in range(count)]
    for n, number in enumerate(numbers):
        assert f"[stdout]\n{n * n}\n" in stdio.answer(number)["result"]["content"][0]["text"]


WAVES = 6 if IS_ASAN else 10  # in all fewer than a connection may have under way, to which those count that are still ending


def test_a_storm_of_cancels_over_stdio():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    with Stdio() as stdio:
        stdio.initialize()
        for _ in range(WAVES):
            numbers = [stdio.begin_call("run_code", {"code": SLEEP}) for _ in range(STORM_CLIENTS)]
            chance.shuffle(numbers)
            time.sleep(chance.random() ** 3)  # any moment of a call's life
            for number in numbers:
                stdio.tell("notifications/cancelled", {"requestId": number})
        wait_for(lambda: not sleepers(stdio), "the end of all programs")
        answered(stdio, 3)
        said = [m["id"] for m in stdio.messages if "id" in m]
        assert len(said) == 4, "what was cancelled is not answered"  # initialize, and the last three
        assert stdio.close() == 0
        stdio.nothing_is_left()
