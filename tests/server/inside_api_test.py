# SPDX-License-Identifier: Apache-2.0
"""What is asked of the inside of a session, over HTTP: variables, checkpoints, rollback, fork."""
import concurrent.futures
import itertools
import json

import pytest

import covetest
from covetest import wait_for
from server import Server

needs_groups = pytest.mark.skipif(not covetest.IS_ROOT, reason="forks need groups that can be frozen")
SESSIONS = "/api/v1/sessions"
TRIES = 3  # of which the interpreter must survive one
numbers = itertools.count()

# The kernel is the code's to change: what it answers is content.
TAKE_OVER = """
import os, sys, time
questions = display.__self__.questions
def say(text, kind=67):
    questions.channel.send(kind, text if isinstance(text, bytes) else text.encode())
"""
VARIABLES, VARIABLE = 3, 4
ROW = '{"name": "x", "type": "int", "size": 28, "shape": null, "preview": "1"}'


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


class Session:
    def __init__(self, server, **fields):
        self.server = server
        answer = wait_for(lambda: self.try_create(fields), "a session")
        assert answer.status == 201, answer
        self.json = answer.json
        self.id = self.json["id"]
        self.path = f"{SESSIONS}/{self.id}"

    def try_create(self, fields):
        """One with forks waits for the warm interpreter."""
        answer = self.server.post(SESSIONS, fields)
        return None if answer.status == 503 and answer.code == "warming_up" else answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.delete(self.path)

    def run(self, code, **fields):
        answer = self.server.post(f"{self.path}/execute", {"code": code, "mode": "sync", **fields})
        assert answer.status == 200 and answer.json["state"] == "completed", answer
        return answer.json["stdout"]

    def begin(self, code):
        """Code that runs until it is interrupted; answers when it does run."""
        answer = self.server.post(f"{self.path}/execute", {"code": code})
        assert answer.status == 202, answer
        wait_for(lambda: self.get("").json["state"] == "busy", "a busy session")
        return answer.json["id"]

    def has_survived(self):
        """Whether its interpreter took an interrupt. One that gets no turn for a second is killed; then there is another."""
        state = wait_for(lambda: (now := self.get("").json["state"]) in ("ready", "failed") and now, "the end of the code")
        assert state == "ready" or self.post("/reset").status == 200
        return state == "ready"

    def get(self, rest, **kwargs):
        return self.server.get(self.path + rest, **kwargs)

    def post(self, rest, body=None, **kwargs):
        return self.server.post(self.path + rest, body, **kwargs)

    def checkpoint(self, **fields):
        answer = self.post("/checkpoints", fields)
        assert answer.status == 201, answer
        return answer.json

    def checkpoints(self):
        answer = self.get("/checkpoints")
        assert answer.status == 200, answer
        return answer.json["checkpoints"]

    def value(self, name, form="json"):
        answer = self.get(f"/variables/{name}?format={form}")
        assert answer.status == 200, answer
        return answer.json["value"]


@pytest.fixture
def session(server):
    with Session(server, language="python") as session:
        yield session


def refused(answer, status, code):
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.json["error"]["request_id"] == answer.headers["X-Request-Id"]


# --- variables ------------------------------------------------------------------------------------

def test_variables_are_listed(session):
    session.run("import math, numpy as np\nx = 1\ndata = np.zeros((2, 3))\n_hidden = 1\ndef f(): pass")
    answer = session.get("/variables")
    assert answer.status == 200, answer
    assert answer.json["truncated"] is False
    rows = {row["name"]: row for row in answer.json["variables"]}
    assert set(rows) == {"x", "data", "f"}
    assert rows["x"] == {"name": "x", "type": "int", "size": 28, "shape": None, "preview": "1"}
    assert rows["data"]["shape"] == [2, 3] and rows["data"]["size"] >= 48


@pytest.mark.parametrize("code, value", [
    ("x = 42", 42), ("x = None", None), ("x = 'ä\\n'", "ä\n"), ("x = [1, {'a': [True]}]", [1, {"a": [True]}]),
    ("x = float('nan')", None), ("x = ''", ""), ("x = 2 ** 60", 2 ** 60)])
def test_a_value_is_told(session, code, value):
    session.run(code)
    answer = session.get("/variables/x")
    assert answer.status == 200, answer
    assert answer.json == {"name": "x", "mime_type": "application/json", "encoding": "json", "value": value}


def test_a_value_as_the_language_prints_it(session):
    session.run("x = {'a': (1, 2)}")
    answer = session.get("/variables/x?format=text")
    assert answer.json == {"name": "x", "mime_type": "text/plain", "encoding": "text", "value": "{'a': (1, 2)}"}


@pytest.mark.parametrize("language, code, value, text", [
    ("javascript", "let x = {a: [1]}", {"a": [1]}, "{ a: [ 1 ] }"),
    ("typescript", "const x: number = 7", 7, "7"), ("bash", "x=hello", "hello", "hello")])
def test_other_languages_have_variables(server, language, code, value, text):
    with Session(server, language=language) as session:
        session.run(code)
        assert "x" in {row["name"] for row in session.get("/variables").json["variables"]}
        assert session.value("x") == value
        assert session.value("x", "text") == text
        refused(session.get("/variables/nobody"), 404, "variable_not_found")


def test_values_that_cannot_be_told(session):
    session.run("x = object()\nlarge = 'x' * (5 << 20)\ndeep = []\nfor _ in range(200): deep = [deep]\n"
                "class C:\n    def __repr__(self): raise ValueError('no')\nc = C()")
    refused(session.get("/variables/nobody"), 404, "variable_not_found")
    refused(session.get("/variables/large"), 413, "variable_too_large")
    refused(session.get("/variables/deep"), 413, "variable_too_large")
    answer = session.get("/variables/c?format=text")
    assert answer.status in (200, 409), answer
    answer = session.get("/variables/x?format=xml")
    assert answer.status == 400 and "format" in answer.json["error"]["message"]
    assert session.run("print(1)") == "1\n"


@pytest.mark.parametrize("name", ["a%20b", "%C3%A4", "x;y", "'", "a" * 1000, "..%2F"])
def test_odd_names_are_names(session, name):
    answer = session.get(f"/variables/{name}")
    assert answer.status in (400, 404), answer
    assert session.run("print(1)") == "1\n"


def test_a_busy_session_is_not_asked(session):
    def try_it():
        execution = session.begin("import time\nwhile True: time.sleep(0.01)")
        refused(session.get("/variables"), 409, "session_busy")
        refused(session.get("/variables/x"), 409, "session_busy")
        refused(session.post("/checkpoints", {}), 409, "session_busy")
        refused(session.post("/rollback", {"checkpoint": "x"}), 409, "session_busy")
        assert session.server.post(f"/api/v1/executions/{execution}/cancel").status == 200
        return session.has_survived()
    assert any(try_it() for _ in range(TRIES))
    assert session.get("/variables").status == 200


def test_a_failed_session_is_not_asked(session):
    session.server.post(f"{session.path}/execute", {"code": "import os; os._exit(3)", "mode": "sync"})
    wait_for(lambda: session.get("").json["state"] == "failed", "a failed session")
    refused(session.get("/variables"), 409, "session_failed")
    refused(session.post("/checkpoints", {}), 409, "session_failed")
    assert session.post("/reset").status == 200
    assert session.get("/variables").json["variables"] == []


def test_only_its_owner_asks(server, session):
    key = server.post("/api/v1/keys", {"name": "other", "scopes": ["sessions:read", "sessions:write"]})
    assert key.status == 201, key
    token = key.json["key"]
    for answer in (session.get("/variables", token=token), session.get("/variables/x", token=token),
                   session.get("/checkpoints", token=token), session.post("/checkpoints", {}, token=token),
                   session.post("/rollback", {"checkpoint": "x"}, token=token), session.post("/fork", {}, token=token)):
        refused(answer, 404, "session_not_found")
    reader = server.post("/api/v1/keys", {"name": "reader", "scopes": ["sessions:read"]}).json["key"]
    assert session.post("/checkpoints", {}, token=reader).status == 403
    assert session.post("/fork", {}, token=reader).status == 403


# --- a kernel that is not what it was -------------------------------------------------------------

@pytest.mark.parametrize("text", [
    "", "hello", "[]", "{}", '{"variables": 7, "truncated": false}', '{"variables": [7], "truncated": false}',
    '{"variables": [{"name": 1, "type": "", "size": 1, "shape": null, "preview": ""}], "truncated": false}',
    '{"variables": [' + ", ".join([ROW] * 1001) + '], "truncated": false}',
    '{"variables": [], "truncated": false, "x": "' + "x" * (1 << 20) + '"}', "[" * 100000,
    '{"variables": [], "truncated": false}\0', b"\xff\xfe", '{"variables": [], "variables": [], "truncated": false}'],
    ids=itertools.count())
def test_odd_lists_are_refused(session, text):
    session.run(TAKE_OVER + f"questions.answers[{VARIABLES}] = lambda _: say({text!r})")
    refused(session.get("/variables"), 502, "kernel_answer_invalid")
    session.run(f"questions.answers[{VARIABLES}] = questions.variables")
    assert session.get("/variables").status == 200


@pytest.mark.parametrize("data", [
    b"", b"42", b"application/json\0", b"application/json\0NaN", b"application/json\0" b"1, 2", b"application/json\0" b"1], [2",
    b"text/plain\r\nX-Evil: 1\0a", b"\0a", b"x" * 1000 + b"/y\0a", b"application/json\0\"\\u0000\""], ids=itertools.count())
def test_odd_values_are_refused(session, data):
    session.run(TAKE_OVER + f"questions.answers[{VARIABLE}] = lambda _: say({data!r}, 65)")
    refused(session.get("/variables/x"), 502, "kernel_answer_invalid")


def test_other_types_are_bytes(session):
    session.run(TAKE_OVER + f"questions.answers[{VARIABLE}] = lambda _: say(b'image/png\\0\\x89PNG', 65)")
    answer = session.get("/variables/x")
    assert answer.json == {"name": "x", "mime_type": "image/png", "encoding": "base64", "value": "iVBORw=="}


def test_a_kernel_that_says_nothing(session):
    session.run(TAKE_OVER + f"questions.answers[{VARIABLES}] = lambda _: None")
    refused(session.get("/variables"), 502, "kernel_answer_invalid")
    assert session.run("print(1)") == "1\n"


def test_a_kernel_that_dies_of_it(session):
    session.run(TAKE_OVER + f"questions.answers[{VARIABLES}] = lambda _: os._exit(3)")
    answer = session.get("/variables")
    assert (answer.status, answer.code) in ((409, "session_failed"), (502, "kernel_answer_invalid")), answer
    wait_for(lambda: session.get("").json["state"] == "failed", "a failed session")
    assert session.post("/reset").status == 200
    assert session.get("/variables").json["variables"] == []


def test_a_session_that_ends_while_it_is_asked(server, session):
    session.run(TAKE_OVER + f"def wait(_):\n    open('asked', 'w')\n    time.sleep(4)\nquestions.answers[{VARIABLES}] = wait")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(session.get, "/variables")
        wait_for(lambda: session.get("").json["state"] == "busy", "the question")
        assert server.delete(session.path).status == 200
        refused(asked.result(), 409, "session_terminated")
    assert server.get("/api/v1/sessions").status == 200


# Answers once there is a file: a question takes as long as the test needs to look at it.
WAIT_TO_GO = TAKE_OVER + f"""
def wait(_):
    while not os.path.exists('go'): time.sleep(0.01)
    say('{{"variables": [], "truncated": false}}')
questions.answers[{VARIABLES}] = wait
"""


def test_a_client_that_leaves_while_it_asks(server, session):
    session.run(WAIT_TO_GO)
    connection = server.connect()
    server.begin(connection, "GET", f"{session.path}/variables")
    wait_for(lambda: session.get("").json["state"] == "busy", "the question")
    connection.close()
    assert server.put(f"{session.path}/files/go", b"").status == 201
    wait_for(lambda: session.get("").json["state"] == "ready", "its end")
    assert session.get("/variables").json == {"variables": [], "truncated": False}


def test_code_that_waits_for_a_question_begins_after_it(session):
    session.run(WAIT_TO_GO)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(session.get, "/variables")
        wait_for(lambda: session.get("").json["state"] == "busy", "the question")
        queued = pool.submit(session.run, "print(1)", queue=True)
        path = f"/api/v1/executions?session={session.id}&state=queued"
        wait_for(lambda: session.server.get(path).json["executions"], "the code to wait")
        assert session.server.put(f"{session.path}/files/go", b"").status == 201
        assert queued.result() == "1\n"
        assert asked.result().status == 200


# --- checkpoints ----------------------------------------------------------------------------------

def test_there_and_back(session):
    session.run("x = [1]\nopen('a.txt', 'w').write('before')")
    made = session.checkpoint(name="before")
    assert made["name"] == "before" and made["lost"] is False and made["session_id"] == session.id and made["took_ms"] > 0
    session.run("x.append(2)\nopen('a.txt', 'w').write('after')\nopen('b.txt', 'w')")
    for word in (made["id"], "before"):
        answer = session.post("/rollback", {"checkpoint": word})
        assert answer.status == 200 and answer.json["id"] == made["id"], answer
        assert session.value("x") == [1]
        assert session.run("import os; print(open('a.txt').read(), sorted(os.listdir()))") == "before ['a.txt']\n"
        session.run("x.append(3)")
    assert [row["id"] for row in session.checkpoints()] == [made["id"]]


def test_a_failed_session_goes_back(session):
    session.run("x = 1")
    session.checkpoint(name="alive")
    session.server.post(f"{session.path}/execute", {"code": "import os; os._exit(3)", "mode": "sync"})
    wait_for(lambda: session.get("").json["state"] == "failed", "a failed session")
    assert session.post("/rollback", {"checkpoint": "alive"}).status == 200
    assert session.value("x") == 1 and session.get("").json["state"] == "ready"


def test_checkpoints_are_listed_and_deleted(session):
    made = [session.checkpoint(name=name) if name else session.checkpoint() for name in ("a", None, "c")]
    listed = session.checkpoints()
    assert [row["id"] for row in listed] == [row["id"] for row in reversed(made)]
    assert [row["name"] for row in listed] == ["c", None, "a"]
    page = session.get("/checkpoints?limit=2").json
    assert len(page["checkpoints"]) == 2
    assert [row["name"] for row in session.get(f"/checkpoints?cursor={page['next_cursor']}").json["checkpoints"]] == ["a"]
    assert session.server.delete(f"{session.path}/checkpoints/a").status == 204
    assert session.server.delete(f"{session.path}/checkpoints/{made[1]['id']}").status == 204
    assert [row["name"] for row in session.checkpoints()] == ["c"]
    refused(session.server.delete(f"{session.path}/checkpoints/a"), 404, "checkpoint_not_found")
    refused(session.post("/rollback", {"checkpoint": "a"}), 404, "checkpoint_not_found")


def test_there_is_an_end_to_them(session):
    for _ in range(8):
        session.checkpoint()
    refused(session.post("/checkpoints", {}), 429, "too_many_checkpoints")
    assert len(session.checkpoints()) == 8
    assert session.run("print(1)") == "1\n"


def test_what_cannot_be_kept_is_refused(session):
    session.run("import threading\nthread = threading.Thread(target=threading.Event().wait, daemon=True)\nthread.start()")
    answer = session.post("/checkpoints", {})
    refused(answer, 409, "checkpoint_refused")
    assert "thread" in answer.json["error"]["message"]
    assert session.checkpoints() == [] and session.run("print(1)") == "1\n"


def test_only_python_can_be_kept(server):
    with Session(server, language="bash") as session:
        refused(session.post("/checkpoints", {}), 409, "checkpoint_unsupported")
        refused(session.post("/fork", {}), 409, "fork_unsupported")
        assert session.run("echo 1") == "1\n"


@pytest.mark.parametrize("route, body", [
    ("checkpoints", {"name": ""}), ("checkpoints", {"name": "a b"}), ("checkpoints", {"name": "x" * 64}),
    ("checkpoints", {"name": "chk_" + "0" * 26}), ("checkpoints", {"named": "x"}), ("checkpoints", []),
    ("rollback", {}), ("rollback", {"checkpoint": ""}), ("rollback", {"checkpoint": 7}), ("rollback", {"checkpoint": "x/y"}),
    ("rollback", {"id": "x"}), ("fork", {"name": "a b"}), ("fork", {"names": "x"})])
def test_requests_are_checked(session, route, body):
    answer = session.post(f"/{route}", body)
    assert answer.status in (413, 422), answer
    assert session.checkpoints() == []


def test_code_that_waits_for_a_checkpoint_begins_after_it(session):
    session.run("data = bytearray(80 << 20)\nopen('large', 'wb').write(bytes(40 << 20))")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        made = [pool.submit(session.post, "/checkpoints", {}), *(pool.submit(session.run, "print(1)", queue=True) for _ in range(4))]
        assert [run.result() for run in made[1:]] == ["1\n"] * 4
        assert made[0].result().status in (201, 409), made[0].result()


def test_a_checkpoint_is_made_once(session):
    headers = {"Idempotency-Key": f"checkpoint-{next(numbers)}"}
    first, second = (session.post("/checkpoints", {"name": "once"}, headers=headers) for _ in range(2))
    assert first.status == second.status == 201 and first.json == second.json
    assert len(session.checkpoints()) == 1


def test_a_restart_loses_checkpoints_and_says_so():
    with Server() as server, Session(server, language="python") as session:
        session.run("x = 1")
        made = [session.checkpoint(name=name) for name in ("one", "two")]
        server.kill_coved()
        wait_for(lambda: session.get("").json["state"] == "ready", "the session")
        assert session.value("x") == 1
        listed = session.checkpoints()
        assert [(row["id"], row["lost"]) for row in listed] == [(row["id"], True) for row in reversed(made)]
        for word in ("one", made[1]["id"]):
            refused(session.post("/rollback", {"checkpoint": word}), 409, "checkpoint_lost")
        again = session.checkpoint(name="one")
        session.run("x = 2")
        assert session.post("/rollback", {"checkpoint": "one"}).json["id"] == again["id"]
        assert session.value("x") == 1
        for row in made:
            assert server.delete(f"{session.path}/checkpoints/{row['id']}").status == 204
        assert [row["id"] for row in session.checkpoints()] == [again["id"]]


# --- forks ----------------------------------------------------------------------------------------

@needs_groups
def test_a_fork_has_what_the_first_had(server):
    with Session(server, language="python", resources={"forks": 2}) as session:
        session.run("x = [1]\nopen('a.txt', 'w').write('both')")
        answer = session.post("/fork", {"name": "what-if"})
        assert answer.status == 201, answer
        fork = answer.json
        assert fork["id"] != session.id and fork["name"] == "what-if" and fork["state"] == "ready"
        assert fork["resources"]["forks"] == 0
        child = Session.__new__(Session)
        child.server, child.id, child.path = server, fork["id"], f"{SESSIONS}/{fork['id']}"
        with child:
            child.run("x.append(2)\nopen('a.txt', 'w').write('fork')")
            assert child.value("x") == [1, 2] and session.value("x") == [1]
            assert session.run("print(open('a.txt').read())") == "both\n"
            refused(session.post("/fork", {"name": "what-if"}), 409, "session_exists")
            refused(child.post("/fork", {}), 409, "fork_unsupported")
            assert server.delete(session.path).status == 200
            assert child.value("x") == [1, 2]


@needs_groups
def test_forks_are_counted_and_asked_for(server, session):
    refused(session.post("/fork", {}), 409, "fork_unsupported")
    with Session(server, language="python", resources={"forks": 1}) as parent:
        headers = {"Idempotency-Key": f"fork-{next(numbers)}"}
        first, second = (parent.post("/fork", {}, headers=headers) for _ in range(2))
        assert first.status == second.status == 201 and first.json["id"] == second.json["id"]
        refused(parent.post("/fork", {}), 429, "limit")
        assert server.delete(f"{SESSIONS}/{first.json['id']}").status == 200


def test_what_cannot_be_forked_is_refused(server):
    with Session(server, language="python", resources={"forks": 1}) as session:
        def try_it():
            execution = session.begin("import time\nwhile True: time.sleep(0.01)")
            refused(session.post("/fork", {}), 409, "session_busy")
            server.post(f"/api/v1/executions/{execution}/cancel")
            return session.has_survived()
        assert any(try_it() for _ in range(TRIES))
        session.run("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
        refused(session.post("/fork", {}), 409, "fork_refused")
        assert session.run("print(1)") == "1\n"
        states = {row["id"] for row in server.get(f"{SESSIONS}?live=true").json["sessions"]}
        assert session.id in states


@needs_groups
def test_code_that_waits_for_a_fork_begins_after_it(server):
    with Session(server, language="python", resources={"forks": 1}) as session:
        session.run("data = bytearray(80 << 20)\nopen('large', 'wb').write(bytes(40 << 20))")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            fork = pool.submit(session.post, "/fork", {})
            runs = [pool.submit(session.run, "print(1)", queue=True) for _ in range(4)]
            assert [run.result() for run in runs] == ["1\n"] * 4
            assert fork.result().status in (201, 409), fork.result()


def test_an_ended_session_has_no_inside(server):
    with Session(server, language="python") as session:
        assert server.delete(session.path).status == 200
        for answer in (session.get("/variables"), session.get("/checkpoints"), session.post("/checkpoints", {}),
                       session.post("/rollback", {"checkpoint": "x"}), session.post("/fork", {})):
            refused(answer, 404, "session_not_found")


def test_documents_are_as_openapi_says(server, session):
    """The names of their fields; what they mean is tried by schemathesis."""
    shapes = server.get("/openapi.json").json["components"]["schemas"]
    session.run("x = 1")
    told = {"Checkpoint": session.checkpoint(), "CheckpointList": session.get("/checkpoints").json,
            "VariableList": session.get("/variables").json, "Variable": session.get("/variables/x").json,
            "VariableSummary": session.get("/variables").json["variables"][0]}
    for name, document in told.items():
        assert set(document) == set(shapes[name]["properties"]), (name, json.dumps(document))
