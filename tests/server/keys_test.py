# SPDX-License-Identifier: Apache-2.0
"""Who may do what on a running server: keys, scopes, quotas, rates, and what one key sees of another."""
import concurrent.futures
import contextlib
import functools

import pytest

from covetest import wait_for
from server import Server

KEYS = "/api/v1/keys"
SESSIONS = "/api/v1/sessions"
USER = ["execute", "sessions:read", "sessions:write", "files"]


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@contextlib.contextmanager
def key(server, *scopes, **fields):
    """A key for a while: what POST /keys told."""
    answer = server.post(KEYS, {"name": "a test", "scopes": list(scopes or USER), **fields})
    assert answer.status == 201, answer
    yield answer.json
    answer = server.delete(f"{KEYS}/{answer.json['id']}")
    assert answer.status == 200 and answer.json["revoked_at"], answer


@contextlib.contextmanager
def session(server, token, **fields):
    answer = server.post(SESSIONS, fields, token=token)
    assert answer.status == 201, answer
    yield answer.json
    assert server.delete(f"{SESSIONS}/{answer.json['id']}").status == 200


# --- scopes ---------------------------------------------------------------------------------------

def operations(server):
    """Every operation that asks for a token: (method, path, the scopes that it needs)."""
    for path, methods in server.get("/openapi.json").json["paths"].items():
        for method, row in methods.items():
            if row.get("security") and {} not in row["security"]:  # {}: without one, too
                yield method.upper(), path, set(next(iter(row["security"][0].values())))


def fill(path):
    """With words that name nothing."""
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + "nothing" + rest.partition("}")[2]
    return path


@pytest.mark.parametrize("held", [["execute"], ["sessions:read", "sessions:write"], ["files"], ["keys:admin"]],
                         ids=lambda held: ",".join(held))
def test_every_route_asks_for_its_scope(server, held):
    """What the document says is needed is what is asked for: with less 403, with nothing 401."""
    seen = {401: 0, 403: 0, "passed": 0}
    with key(server, *held) as made:
        for method, path, needed in operations(server):
            answer = server.request(method, fill(path), token=None)
            assert (answer.status, answer.code) == (401, "unauthorized"), (method, path)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer"), (method, path)
            seen[401] += 1
            answer = server.request(method, fill(path), token=made["key"])
            if needed <= set(held):
                assert answer.status not in (401, 403) and answer.status < 500, (method, path, answer)
                seen["passed"] += 1
            else:
                assert (answer.status, answer.code) == (403, "missing_scope"), (method, path, answer)
                assert all(scope in answer.body.decode() for scope in needed - set(held)), answer
                seen[403] += 1
    assert seen[401] > 15 and seen[403] > 5, seen
    assert seen["passed"] > 0 or held == ["files"], seen


def test_the_internal_token_is_for_internal_routes(server):
    internal = (server.data_dir / "server/internal-token").read_text().strip()
    for method, path, needed in operations(server):
        answer = server.request(method, fill(path), token=internal)
        if needed == {"internal"}:
            assert answer.status not in (401, 403), (method, path, answer)
            assert server.request(method, fill(path)).status == 403, (method, path)
        else:
            assert answer.status == 403, (method, path, answer)


# --- one key and another --------------------------------------------------------------------------

def test_keys_see_only_their_own(server):
    with key(server) as mine, key(server) as other, session(server, mine["key"], name="shared-name") as made:
        path = f"{SESSIONS}/{made['id']}"
        run = server.post(f"{path}/execute", {"code": "x = 1", "mode": "sync"}, token=mine["key"])
        assert run.status == 200, run
        execution = f"/api/v1/executions/{run.json['id']}"
        questions = [("GET", path, None), ("DELETE", path, None), ("POST", f"{path}/reset", None),
                     ("POST", f"{path}/interrupt", None), ("POST", f"{path}/extend", {"ttl": 60}),
                     ("POST", f"{path}/execute", {"code": "x", "mode": "sync"}),
                     ("GET", f"{SESSIONS}/shared-name", None), ("GET", execution, None),
                     ("GET", f"{execution}/result", None), ("GET", f"{execution}/events", None),
                     ("POST", f"{execution}/cancel", None)]
        for method, where, body in questions:
            answer = server.request(method, where, body, token=other["key"])
            assert answer.status == 404, (method, where, answer)
        assert server.get(SESSIONS, token=other["key"]).json["sessions"] == []
        assert server.get(path, token=mine["key"]).json["state"] == "ready"
        assert made["id"] in [s["id"] for s in server.get(SESSIONS).json["sessions"]], "the operator sees all"
        with session(server, other["key"], name="shared-name") as second:
            assert second["id"] != made["id"], "a name is its owner's"


# --- quotas and rates -----------------------------------------------------------------------------

def test_quotas_cannot_be_raced(server):
    places, asked = 3, 12
    with key(server, quota={"sessions": places}) as made:
        with concurrent.futures.ThreadPoolExecutor(asked) as pool:
            answers = list(pool.map(lambda _: server.post(SESSIONS, {}, token=made["key"]), range(asked)))
        got = [a.json["id"] for a in answers if a.status == 201]
        refused = [a for a in answers if a.status != 201]
        assert len(got) == places, answers
        assert {(a.status, a.code) for a in refused} == {(429, "quota_exceeded")}, refused
        assert server.delete(f"{SESSIONS}/{got[0]}", token=made["key"]).status == 200
        with session(server, made["key"]):
            assert server.post(SESSIONS, {}, token=made["key"]).status == 429
        for one in got[1:]:
            assert server.delete(f"{SESSIONS}/{one}", token=made["key"]).status == 200


@pytest.mark.parametrize("quota", [{"memory_bytes": "300M"}, {"cpus": 0.9}, {"disk_bytes": "200M"}],
                         ids=lambda quota: next(iter(quota)))
def test_quotas_are_of_all_sessions_together(server, quota):
    with key(server, quota=quota) as made, session(server, made["key"]):
        answer = server.post(SESSIONS, {}, token=made["key"])
        assert (answer.status, answer.code) == (429, "quota_exceeded"), answer


def test_code_without_a_session_counts_while_it_runs(server):
    """One place: taken by a session, then by a run that lasts, then free again, however often."""
    wait = {"code": "import time\nwhile True: time.sleep(0.01)", "timeout_seconds": 25}
    with key(server, quota={"sessions": 1}) as made, contextlib.closing(server.connect()) as busy:
        run = functools.partial(server.post, "/execute", {"code": "print(1)"}, token=made["key"])
        with session(server, made["key"]):
            assert (run().status, run().code) == (429, "quota_exceeded")
        for _ in range(5):
            assert run().status == 200
        server.begin(busy, "POST", "/execute", wait, token=made["key"])
        wait_for(lambda: run().status == 429, "the place to be taken")
        assert run().code == "quota_exceeded"
        assert server.post(SESSIONS, {}, token=made["key"]).code == "quota_exceeded"
        assert server.post("/execute", {"code": "print(1)"}).status == 200, "others are not concerned"
        busy.close()  # who leaves ends what he waits for
        wait_for(lambda: run().status == 200, "the place to be free")


def test_a_key_has_its_rate(server):
    with key(server, rate_per_minute=1) as made:
        answers = [server.get(SESSIONS, token=made["key"]) for _ in range(3)]
        assert [a.status for a in answers] == [200, 429, 429], answers
        assert answers[0].headers["RateLimit-Remaining"] == "0"
        assert answers[1].code == "rate_limited" and 1 <= int(answers[1].headers["Retry-After"]) <= 60
        assert server.get(SESSIONS).status == 200, "others are not concerned"


def test_the_operator_sets_the_usual_rate():
    with Server("--key-rate", "1") as server, key(server) as made, key(server, rate_per_minute=600) as quick:
        assert [server.get(SESSIONS, token=made["key"]).status for _ in range(2)] == [200, 429]
        assert [server.get(SESSIONS, token=quick["key"]).status for _ in range(3)] == [200] * 3


def test_guessing_is_slow_and_locks_nobody_out():
    with Server() as server, key(server) as made:
        statuses = [server.get(SESSIONS, token=f"guess-{i}").status for i in range(40)]
        assert statuses[0] == 401 and statuses[-1] == 429 and statuses.count(401) < 30, statuses
        assert server.get(SESSIONS).status == 200
        assert server.get(SESSIONS, token=made["key"]).status == 200
        assert 0 < len([line for line in server.log if line["message"] == "a token was refused"]) < 30


def test_this_machine_needs_no_token_when_the_operator_says_so(server):
    assert server.get(SESSIONS, token=None).status == 401
    with Server("--trust-loopback") as open_server:
        assert open_server.get(SESSIONS, token=None).status == 200
        assert open_server.get(SESSIONS, token="wrong").status == 401
        assert open_server.get(SESSIONS, token=None, headers={"X-Forwarded-For": "192.0.2.1"}).status == 401


# --- what becomes of keys -------------------------------------------------------------------------

def test_revoking_ends_streams(server):
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(key(server))
        own = stack.enter_context(session(server, made["key"]))
        events = server.events("POST", f"{SESSIONS}/{own['id']}/execute",
                               {"code": "print('on', flush=True)\nwhile True: pass", "mode": "stream", "timeout": 25},
                               token=made["key"])
        names = []
        for _, name, _ in events:
            names.append(name)
            if name == "stdout":
                assert server.delete(f"{KEYS}/{made['id']}").status == 200
        assert "stdout" in names and "ended" not in names, names
        assert server.get(f"{SESSIONS}/{own['id']}", token=made["key"]).status == 401


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "cove.terminal"}


def frames(stream):
    """Short messages of a WebSocket: (kind, bytes), up to the end."""
    while head := stream.read(2):
        size = int.from_bytes(stream.read(2), "big") if head[1] == 126 else head[1]
        yield head[0] & 0xf, stream.read(size)


def test_revoking_ends_terminals(server):
    with key(server) as made, session(server, made["key"]) as own, contextlib.closing(server.connect()) as link:
        server.begin(link, "GET", f"{SESSIONS}/{own['id']}/terminal", token=made["key"], headers=UPGRADE)
        stream = link.sock.makefile("rb")
        while (line := stream.readline()) != b"\r\n":
            assert not line.startswith(b"HTTP") or b" 101 " in line, line
        messages = frames(stream)
        assert next(messages)[0] == 2, "the shell says something"
        assert server.delete(f"{KEYS}/{made['id']}").status == 200
        kind, text = next(m for m in messages if m[0] != 2)
        assert (kind, int.from_bytes(text[:2], "big")) == (8, 1008) and b"revoked" in text, (kind, text)


def test_expiry_ends_streams(server):
    """A key that is over in a moment, and a stream that would go on; a longer moment, when it was over before there was output."""
    def has_output(seconds):
        with contextlib.ExitStack() as stack:
            made = stack.enter_context(key(server, expires_in=seconds))
            own = server.post(SESSIONS, {}, token=made["key"])
            if own.status == 401:
                return False
            assert own.status == 201, own
            path = f"{SESSIONS}/{own.json['id']}"
            link = stack.enter_context(contextlib.closing(server.connect()))
            server.begin(link, "POST", f"{path}/execute", {"code": "print('on', flush=True)\nwhile True: pass", "mode": "stream",
                                                           "timeout": seconds + 22}, token=made["key"])
            events = link.getresponse()
            assert events.status in (200, 401), events.status
            names = [line.split()[1] for line in events if line.startswith(b"event:")]
            assert b"ended" not in names, names
            assert server.get(path, token=made["key"]).status == 401
            assert server.delete(path).status == 200
            return b"stdout" in names
    assert any(has_output(seconds) for seconds in (3, 6, 12, 24))


def test_keys_outlive_the_server_process():
    with Server() as server, key(server) as kept:
        with key(server) as gone:
            pass
        server.kill_coved()
        assert server.get(SESSIONS, token=kept["key"]).status == 200
        answer = server.get(SESSIONS, token=gone["key"])
        assert (answer.status, answer.json["error"]["message"]) == (401, "this key has been revoked")


def test_secrets_are_nowhere():
    """Neither in the database nor in a log nor in an answer but the first."""
    with Server() as server:
        body = {"name": "remarkable", "scopes": USER}
        first = server.post(KEYS, body, headers={"Idempotency-Key": "once"})
        again = server.post(KEYS, body, headers={"Idempotency-Key": "once"})
        assert (first.status, again.status) == (201, 201)
        assert again.json == first.json | {"key": None} and again.headers["Idempotent-Replayed"] == "true"
        secret = first.json["key"].rpartition("_")[2]
        server.get(KEYS, token=first.json["key"])
        server.post("/execute", {"code": "print(1)", "nonsense": 1}, token=first.json["key"])
        server.get(SESSIONS, token=first.json["key"] + "x")
        server.delete(f"{KEYS}/{first.json['id']}")
        told = server.get(KEYS).body + server.get(f"{KEYS}/{first.json['id']}").body
        server.stop()
        texts = {str(p): p.read_bytes() for p in server.folder.rglob("*") if p.is_file()} | {"answers": told}
        assert any(b"remarkable" in text for text in texts.values()), "the look finds what is there"
        assert not [where for where, text in texts.items() if secret.encode() in text]
        token = server.token.encode()
        assert [where for where, text in texts.items() if token in text] == [str(server.data_dir / "server/token")]
