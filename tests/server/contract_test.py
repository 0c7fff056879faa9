# SPDX-License-Identifier: Apache-2.0
"""Every operation of /openapi.json: called well, and in every way wrongly; each answer is one that the document has."""
import contextlib
import io
import itertools
import json
import re
import tarfile
import urllib.error
import urllib.parse
import urllib.request

import pytest

import contract
import covetest
from artifact_s3_test import serve as s3_serve
from covetest import wait_for
from s3_server import S3Server
from server import Server

INTERNAL_TOKEN = "contract-internal-token-0123456789"
OPERATIONS = contract.operations()
NOBODY = "0" * 26  # of an id that no random number becomes
LARGE = 1 << 31  # bytes that no route takes
names = itertools.count()
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "cove.terminal"}


def of(fits):
    """One test for each operation that fits."""
    rows = [operation for operation in OPERATIONS if fits(operation)]
    return pytest.mark.parametrize("operation", rows, ids=[row.id for row in rows])


class World:
    """A server, and what operations need to be there before them."""

    def __init__(self, server):
        self.server = server
        self.narrow_keys = {scope: self.new_key([scope])["key"] for scope in ("files", "execute")}

    def token(self, operation):
        return INTERNAL_TOKEN if operation.is_internal else True

    def ask(self, operation, places=None, query=None, body=None, headers=None, token=...):
        token = self.token(operation) if token is ... else token
        headers = (UPGRADE if operation.is_upgrade else {}) | (headers or {})
        answer = self.server.request(operation.method, operation.url(places, query), body, token=token, headers=headers)
        return operation.check(answer)

    def narrow_key(self, operation):
        """Of a scope that it does not need."""
        return self.narrow_keys["execute" if operation.scopes == ["files"] else "files"]

    def try_make(self, path, body):
        """A session with forks waits for the warm interpreter."""
        answer = self.server.post(f"/api/v1{path}", body)
        return None if answer.status == 503 and answer.code == "warming_up" else answer

    def make(self, path, body):
        answer = wait_for(lambda: self.try_make(path, body), f"an answer of {path}")
        assert answer.status in (200, 201, 202), answer
        return answer.json

    def new_key(self, scopes):
        return self.make("/keys", {"name": "contract", "scopes": scopes})

    @contextlib.contextmanager
    def session(self, **wish):
        session = self.make("/sessions", {"language": "python"} | wish)
        try:
            yield session
        finally:
            assert self.server.delete(f"/api/v1/sessions/{session['id']}").status == 200

    def execution(self, session, code="print(6 * 7)", mode="sync"):
        return self.make(f"/sessions/{session['id']}/execute", {"code": code, "mode": mode})

    def wait_ended(self, execution):
        path = f"/api/v1/executions/{execution['id']}"
        return wait_for(lambda: (e := self.server.get(path).json)["ended_at"] and e, "the end of an execution")

    @contextlib.contextmanager
    def template(self):
        template = self.make("/templates", {"name": f"contract-{next(names)}", "language": "python", "pool": {"max": 0}})
        yield template
        self.server.delete(f"/api/v1/templates/{template['id']}")


@pytest.fixture(scope="module")
def world():
    with Server(env={"COVE_INTERNAL_TOKEN": INTERNAL_TOKEN}) as server:
        yield World(server)


# --- good calls ---------------------------------------------------------------------------------

GOOD = {}


def good(*ids):
    def keep(function):
        GOOD.update(dict.fromkeys(ids, function))
        return function
    return keep


@good("execute")
def execute(world, ask):
    answer = ask(body={"code": "open('a', 'w').write('x'); print(6 * 7)"})
    assert answer.status == 200 and answer.json["stdout"] == "42\n"
    assert answer.json["files"] == [{"path": "a", "size": 1, "content": "x"}]
    failed = ask(body={"code": "raise ValueError('no')"})  # the program's failure is not the call's
    assert failed.status == 200 and failed.json["state"] == "failed" and failed.json["error"]["name"] == "ValueError"


@good("createSession")
def create_session(world, ask):
    answer = ask(body={"language": "python", "metadata": {"by": "contract"}, "env": {"A": "b"}},
                 headers={"Idempotency-Key": "contract-session"})
    assert answer.status == 201 and answer.json["state"] == "ready" and answer.json["env"] == {"A": "b"}
    again = ask(body={"language": "python", "metadata": {"by": "contract"}, "env": {"A": "b"}},
                headers={"Idempotency-Key": "contract-session"})
    assert again.status == 201 and again.json["id"] == answer.json["id"]
    world.server.delete(f"/api/v1/sessions/{answer.json['id']}")


@good("listSessions")
def list_sessions(world, ask):
    with world.session(metadata={"list": "me"}) as session:
        answer = ask(query={"metadata": "list=me", "live": "true"})
        assert answer.status == 200 and [one["id"] for one in answer.json["sessions"]] == [session["id"]]


@good("getSession", "interruptSession", "resetSession", "terminateSession")
def use_session(world, ask):
    with world.session() as session:
        answer = ask(places={"id": session["id"]})
        assert answer.status == 200 and answer.json["id"] == session["id"]


@good("extendSession")
def extend_session(world, ask):
    with world.session(ttl=60) as session:
        answer = ask(places={"id": session["id"]}, body={"ttl_seconds": 3600})
        assert answer.status == 200 and answer.json["expires_at"] > session["expires_at"]


@good("executeInSession")
def execute_in_session(world, ask):
    with world.session() as session:
        places = {"id": session["id"]}
        answer = ask(places=places, body={"code": "x = 6", "mode": "sync"})
        assert answer.status == 200 and answer.json["state"] == "completed"
        answer = ask(places=places, body={"code": "x * 7"})
        assert answer.status == 202
        ended = world.wait_ended(answer.json)
        assert ended["results"] == [{"main": True, "data": {"text/plain": "42"}}]
        answer = ask(places=places, body={"code": "print(x)", "mode": "stream"})
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")


@good("listExecutions")
def list_executions(world, ask):
    with world.session() as session:
        execution = world.execution(session)
        answer = ask(query={"session": session["id"]})
        assert answer.status == 200 and [one["id"] for one in answer.json["executions"]] == [execution["id"]]


@good("getExecution", "getExecutionStatus", "getExecutionResult", "cancelExecution")
def use_execution(world, ask):
    with world.session() as session:
        execution = world.execution(session)
        answer = ask(places={"id": execution["id"]})
        assert answer.status == 200 and answer.json["id"] == execution["id"] and answer.json["state"] == "completed"


@good("streamExecution")
def stream_execution(world, ask):
    with world.session() as session:
        execution = world.wait_ended(world.execution(session, "print(1); 2", mode="async"))
        assert ask(places={"id": execution["id"]}).status == 200
        path = f"/api/v1/executions/{execution['id']}/events"
        events = [contract.check_event(event) for event in world.server.events("GET", path)]
        assert [name for _, name, _ in events] == ["started", "stdout", "result", "ended"]
        rest = list(world.server.events("GET", path, headers={"Last-Event-ID": events[1][0]}))
        assert rest == events[2:]
        # Else a browser, which comes back by itself, would wait for more for ever.
        assert world.server.get(path, headers={"Last-Event-ID": events[-1][0]}).status == 204


@good("listTemplates")
def list_templates(world, ask):
    answer = ask(query={"limit": "2"})
    assert answer.status == 200 and len(answer.json["templates"]) == 2 and answer.json["next_cursor"]
    after = ask(query={"limit": "2", "cursor": answer.json["next_cursor"]})
    assert after.status == 200 and after.json["templates"][0] not in answer.json["templates"]


@good("createTemplate")
def create_template(world, ask):
    name = f"contract-{next(names)}"
    answer = ask(body={"name": name, "language": "python", "resources": {"memory_bytes": "64M"}, "pool": {"max": 0}})
    assert answer.status == 201 and answer.json["resources"]["memory_bytes"] == 64 << 20
    assert ask(body={"name": name, "language": "python"}).status == 409
    world.server.delete(f"/api/v1/templates/{name}")


@good("getTemplate")
def get_template(world, ask):
    answer = ask(places={"id": "python"})
    assert answer.status == 200 and answer.json["language"] == "python"


@good("replaceTemplate")
def replace_template(world, ask):
    with world.template() as template:
        answer = ask(places={"id": template["id"]}, body=template | {"description": "other"})
        assert answer.status == 200 and answer.json["version"] == 2 and answer.json["description"] == "other"
        assert ask(places={"id": template["id"]}, body=template).status == 409  # of a version that is no more


@good("deleteTemplate")
def delete_template(world, ask):
    with world.template() as template:
        with world.session(template=template["name"], language=None):
            assert ask(places={"id": template["id"]}).status == 409
        wait_for(lambda: ask(places={"id": template["id"]}).status == 204, "a template that is not used any more")


@good("listVariables")
def list_variables(world, ask):
    with world.session() as session:
        world.execution(session, "import math; x = 42; text = 'a' * 500")
        answer = ask(places={"id": session["id"]})
        assert answer.status == 200 and {"x", "text"} <= {one["name"] for one in answer.json["variables"]}


@good("getVariable")
def get_variable(world, ask):
    with world.session() as session:
        world.execution(session, "x = {'a': [1, None]}; f = open")
        answer = ask(places={"id": session["id"], "name": "x"})
        assert answer.status == 200 and answer.json["encoding"] == "json" and answer.json["value"] == {"a": [1, None]}
        answer = ask(places={"id": session["id"], "name": "x"}, query={"format": "text"})
        assert answer.status == 200 and answer.json["value"] == "{'a': [1, None]}"
        assert ask(places={"id": session["id"], "name": "f"}).status == 409
        assert ask(places={"id": session["id"], "name": "nothing"}).status == 404


@good("createCheckpoint", "listCheckpoints", "deleteCheckpoint", "rollBackSession")
def use_checkpoint(world, ask, operation):
    bodies = {"createCheckpoint": {"name": "other"}, "rollBackSession": {"checkpoint": "first"}}
    with world.session() as session:
        world.execution(session, "x = 1")
        kept = world.make(f"/sessions/{session['id']}/checkpoints", {"name": "first"})
        world.execution(session, "x = 2")
        places = {"id": session["id"], "checkpoint": kept["id"]}
        answer = ask(places={name: places[name] for name in operation.places}, body=bodies.get(operation.id))
        assert answer.status in (200, 201, 204)
        was = "1" if operation.id == "rollBackSession" else "2"
        assert world.execution(session, "print(x)")["stdout"] == f"{was}\n"


@good("forkSession")
def fork_session(world, ask):
    with world.session(resources={"forks": 1}) as session:
        world.execution(session, "x = 1")
        answer = ask(places={"id": session["id"]}, body={"name": f"contract-{next(names)}"})
        if not covetest.IS_ROOT and answer.status == 503:  # where nobody can freeze it
            assert answer.code == "isolation" and "run as root" in answer.json["error"]["hint"]
            return
        assert answer.status == 201 and answer.json["id"] != session["id"]
        assert world.execution(answer.json, "print(x)")["stdout"] == "1\n"
        world.server.delete(f"/api/v1/sessions/{answer.json['id']}")


@good("openTerminal")
def open_terminal(world, ask):
    with world.session() as session:
        answer = ask(places={"id": session["id"]})
        assert answer.status == 101 and answer.headers["Sec-WebSocket-Protocol"] == "cove.terminal"
        assert ask(places={"id": session["id"]}, headers={"Upgrade": "h2c"}).status in (400, 426)


FORM = {"Content-Type": "multipart/form-data; boundary=cut"}


def form(name, content):
    return (f'--cut\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content +
            b"\r\n--cut--\r\n")


@good("writeFile", "uploadFiles", "unpackFiles")
def put_file(world, ask, operation):
    with world.session() as session:
        places = {"id": session["id"]} | ({"path": "a/b.txt"} if "path" in operation.places else {})
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("a/b.txt")
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b"bytes"))
        body, headers = {"writeFile": (b"bytes", {}), "uploadFiles": (form("a/b.txt", b"bytes"), FORM),
                         "unpackFiles": (archive.getvalue(), {})}[operation.id]
        for status in [200] if operation.id == "writeFile" else []:
            assert ask(places=places, body=b"old").status == 201
            assert ask(places=places, body=body, headers=headers).status == status
            assert ask(places=places, body=body, query={"overwrite": "false"}).status == 409
        if operation.id != "writeFile":
            assert ask(places=places, body=body, headers=headers).status in (201, 204)
            assert ask(places=places, body=b"no form, no archive", headers=headers).status == 400
        assert world.execution(session, "print(open('a/b.txt').read())")["stdout"] == "bytes\n"


@good("saveWorkspace", "restoreWorkspace")
def keep_workspace(world, ask, operation):
    with world.session() as session, world.session() as other:
        world.execution(session, "open('a.txt', 'w').write('kept')")
        if operation.id == "saveWorkspace":
            assert ask(places={"id": session["id"]}).status == 200
            return
        assert ask(places={"id": other["id"]}, body={"from": session["id"]}).status == 404
        assert world.server.post(f"/api/v1/sessions/{session['id']}/workspace/save").status == 200
        assert ask(places={"id": other["id"]}, body={"from": session["id"]}).status == 200
        assert world.execution(other, "print(open('a.txt').read())")["stdout"] == "kept\n"


@good("listWorkspaces", "getWorkspace", "deleteWorkspace")
def use_workspaces(world, ask, operation):
    with world.session() as session:
        assert world.server.post(f"/api/v1/sessions/{session['id']}/workspace/save").status == 200
        answer = ask(places={"id": session["id"]} if "id" in operation.places else None)
        assert answer.status == 200
        found = answer.json["workspaces"] if operation.id == "listWorkspaces" else [answer.json]
        assert session["id"] in [one["session_id"] for one in found]
        left = world.server.delete(f"/api/v1/workspaces/{session['id']}")
        assert left.status == (404 if operation.id == "deleteWorkspace" else 200)


def is_put(url, data):
    """False: this S3 server is still removing what was there under the same name."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, data=data, method="PUT")).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        return False
    return True


@good("createUpload", "placeUpload")
def use_uploads(world, ask, operation):
    nobody = {"upload": f"upl_{NOBODY}"} if operation.id == "placeUpload" else {}
    body = {"path": "a/b"} if operation.id == "placeUpload" else {}
    with world.session() as session:  # a server without a bucket has no addresses
        assert ask(places={"id": session["id"]} | nobody, body=body).status == 409
    with S3Server() as s3, s3_serve(s3.endpoint) as server:
        world = World(server)
        with world.session() as session:
            places = {"id": session["id"]}
            if operation.id == "createUpload":
                assert world.ask(operation, places, body=body).status == 201
                return
            upload = world.make(f"/sessions/{session['id']}/uploads", {})
            assert world.ask(operation, places | nobody, body=body).status == 404
            for status in 201, 200:
                wait_for(lambda: is_put(upload["url"], b"bytes"), "the bucket to take it")
                assert world.ask(operation, places | {"upload": upload["id"]}, body=body).status == status
            assert world.execution(session, "print(open('a/b').read())")["stdout"] == "bytes\n"


@good("listFiles", "readFile", "deleteFile", "makeDirectory", "moveFile")
def use_files(world, ask, operation):
    with world.session() as session:
        world.execution(session, "import os; os.mkdir('d'); open('d/a.txt', 'w').write('x'); os.mkfifo('d/pipe')")
        id = {"id": session["id"]}
        for places, query, body, headers, status in {
                "listFiles": [(id, {"directory": "d"}, None, None, 200), (id, {"format": "tar"}, None, None, 200),
                              (id, {"directory": "d", "limit": "1"}, None, None, 200), (id, {"directory": "e"}, None, None, 404)],
                "readFile": [(id | {"path": "d/a.txt"}, None, None, None, 200), (id | {"path": "d"}, None, None, None, 409),
                             (id | {"path": "d/pipe"}, None, None, None, 409), (id | {"path": "e"}, None, None, None, 404),
                             (id | {"path": "d/a.txt"}, None, None, {"Range": "bytes=0-0"}, 206),
                             (id | {"path": "d/a.txt"}, None, None, {"Range": "bytes=1-"}, 416),
                             (id | {"path": "d/a.txt"}, None, None, {"If-None-Match": "*"}, 304),
                             (id | {"path": "d"}, {"format": "tar"}, None, None, 200),
                             (id | {"path": "d"}, {"format": "json"}, None, None, 200)],
                "deleteFile": [(id | {"path": "d"}, None, None, None, 409), (id | {"path": "d/a.txt"}, None, None, None, 204),
                               (id | {"path": "d"}, {"recursive": "true"}, None, None, 204),
                               (id | {"path": "d"}, None, None, None, 404)],
                "makeDirectory": [(id, None, {"path": "e/f"}, None, 201), (id, None, {"path": "e/f"}, None, 200),
                                  (id, None, {"path": "d/a.txt"}, None, 409)],
                "moveFile": [(id, None, {"from": "d/a.txt", "to": "e/f"}, None, 200),
                             (id, None, {"from": "d/pipe", "to": "e/f"}, None, 409),
                             (id, None, {"from": "d", "to": "d/d"}, None, 422)]}[operation.id]:
            answer = ask(places=places, query=query, body=body, headers=headers)
            assert answer.status == status, (places, query, body, answer)


@good("listArtifacts")
def list_artifacts(world, ask):
    with world.session() as session:
        execution = world.execution(session, "open('a.txt', 'w').write('x')")
        answer = ask(places={"id": execution["id"]})
        assert answer.status == 200 and [one["path"] for one in answer.json["artifacts"]] == ["a.txt"]


@good("signFile")
def sign_file(world, ask):
    with world.session() as session:
        answer = ask(places={"id": session["id"]}, body={"path": "a b.txt", "expires_in": 60})
        assert answer.status == 200 and "/a%20b.txt?exp=" in answer.json["url"]
        assert ask(places={"id": session["id"]}, body={"path": "../up"}).status == 422


@good("getSignedFile")
def get_signed_file(world, ask):
    with world.session() as session:
        execution = world.execution(session, "open('a.txt', 'w').write('x')")
        url = urllib.parse.urlsplit(execution["artifacts"][0]["download_url"])
        query = dict(urllib.parse.parse_qsl(url.query))
        places = {"session": session["id"], "path": "a.txt"}
        for headers, status in [({}, 200), ({"Range": "bytes=0-0"}, 206), ({"Range": "bytes=1-"}, 416),
                                ({"If-None-Match": "*"}, 304)]:
            assert ask(places=places, query=query, headers=headers).status == status
        assert ask(places=places, query=query | {"sig": "0" * 64}).status == 403


@good("createKey")
def create_key(world, ask):
    answer = ask(body={"name": "one", "scopes": ["execute"], "quota": {"sessions": 1}})
    assert answer.status == 201 and answer.json["key"]
    assert world.server.post("/execute", {"code": ""}, token=answer.json["key"]).status == 200


@good("listKeys")
def list_keys(world, ask):
    key = world.new_key(["execute"])
    answer = ask()
    assert answer.status == 200 and key["id"] in [one["id"] for one in answer.json["keys"]]


@good("getKey", "revokeKey")
def use_key(world, ask):
    key = world.new_key(["execute"])
    answer = ask(places={"id": key["id"]})
    assert answer.status == 200 and answer.json["id"] == key["id"] and "key" not in answer.json


@good("getHealth")
def get_health(world, ask):
    assert set(ask(token=None).json) == {"status"}
    wait_for(lambda: world.server.get("/health").json["tier"], "the layers")
    answer = ask(token=True)
    assert answer.status == 200 and answer.json["status"] == "ok" and answer.json["tier"]


@good("getReady", "getMetrics", "getDocs", "listNodes")
def just_ask(world, ask):
    assert ask().status == 200


@good("listRunners")
def list_runners(world, ask):
    """What an image brings along is what code in it finds."""
    python, = (one for one in ask().json["runners"] if one["language"] == "python")
    told = {one["name"]: one["version"] for one in python["packages"]}
    with world.session() as session:
        found = world.execution(session, "import numpy, pandas; print(numpy.__version__, pandas.__version__)")["stdout"]
    assert found.split() == [told["numpy"], told["pandas"]]


@good("listContainers")
def list_containers(world, ask):
    with world.session() as session:
        answer = ask()
        assert answer.status == 200 and session["id"] in [one["id"] for one in answer.json["containers"]]


@good("getContainer", "getContainerLogs")
def use_container(world, ask):
    with world.session() as session:
        world.execution(session)
        answer = ask(places={"id": session["id"]})
        assert answer.status == 200 and answer.json["id"] == session["id"]


@good("getOpenApi")
def get_openapi(world, ask):
    answer = ask()
    assert answer.json == contract.document()
    assert ask(headers={"If-None-Match": answer.headers["ETag"]}).status == 304


# Executors elsewhere are not here yet: what can be told is that nobody else says how a run of this machine goes.
@good("reportRunning", "reportHeartbeat", "reportResult", "reportArtifacts")
def report_execution(world, ask, operation):
    body = operation.body["example"] if operation.body else None
    with world.session() as session:
        ended = world.execution(session)
        for _ in range(2):  # an ending stays the first that was told
            answer = ask(places={"id": ended["id"]}, body=body)
            assert answer.status == 200 and answer.json == ended
        runs = world.execution(session, "while True: pass", mode="async")
        assert ask(places={"id": runs["id"]}, body=body).status == 409


@good("reportContainerReady", "reportContainerExited")
def report_session(world, ask, operation):
    with world.session() as session:
        answer = ask(places={"id": session["id"]}, body=operation.body["example"])
        assert answer.status == 409 and answer.code == "not_reported"
        assert world.execution(session)["stdout"] == "42\n"  # it lives on


@of(lambda operation: True)
def test_good_call(world, operation):
    call = GOOD.get(operation.base_id)
    assert call, f"{operation}: has no good call in this file"
    more = (operation,) if call.__code__.co_argcount == 3 else ()
    call(world, lambda **asked: world.ask(operation, **asked), *more)


# --- who may ------------------------------------------------------------------------------------


def nowhere(operation):
    """Places of things that are not there, by ids that could be."""
    patterns = {p["name"]: p["schema"].get("pattern", "") for p in operation.parameters if p["in"] == "path"}
    prefixes = {name: re.match(r"\^([a-z]{3}_)", pattern) for name, pattern in patterns.items()}
    return {name: f"{found[1]}{NOBODY}" if found else "nobody" for name, found in prefixes.items()}


def example(operation):
    return operation.body["example"] if operation.body else None


@of(lambda operation: not operation.is_open)
def test_no_token(world, operation):
    answer = world.ask(operation, nowhere(operation), body=example(operation), token=None)
    assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")


@of(lambda operation: operation.scopes)
def test_too_narrow_a_scope(world, operation):
    answer = world.ask(operation, nowhere(operation), body=example(operation), token=world.narrow_key(operation))
    assert answer.status == 403


@of(lambda operation: operation.is_internal)
def test_operator_is_no_executor(world, operation):
    assert world.ask(operation, nowhere(operation), body=example(operation), token=True).status == 403


def test_wrong_token(world):
    operation = next(row for row in OPERATIONS if row.id == "listSessions")
    assert world.ask(operation, token="cove_wrong").status == 401
    basic = {"Authorization": "Basic Y292ZTpjb3Zl"}
    assert world.ask(operation, token=None, headers=basic).status == 401


# --- wrong requests -----------------------------------------------------------------------------


@of(lambda operation: operation.places and not operation.is_internal)
def test_not_there(world, operation):
    body = example(operation)
    if operation.id == "replaceTemplate":
        body = {"name": "nobody", "language": "python"}
    # An address that nobody has signed does not tell what is there.
    wanted = 403 if operation.id == "getSignedFile" else 404
    assert world.ask(operation, nowhere(operation), body=body).status == wanted


@of(lambda operation: operation.places)
def test_no_id_at_all(world, operation):
    places = {name: "-%00../" * 3 for name in operation.places}
    answer = world.server.request(operation.method, operation.path.format(**places), example(operation),
                                  token=world.token(operation))
    assert 400 <= answer.status < 500
    contract.check_error(answer)


@of(lambda operation: True)
def test_unknown_parameter(world, operation):
    answer = world.ask(operation, nowhere(operation), {"surprise": "1"}, example(operation))
    assert answer.status == 400 and "surprise" in answer.json["error"]["message"]


WRONG_QUERY = {"integer": ["x", "1.5", "-1", "99999999999999999999"], "boolean": ["maybe"], "string": ["x" * 5000]}


@of(lambda operation: any(p["in"] == "query" for p in operation.parameters))
def test_wrong_parameters(world, operation):
    for parameter in (p for p in operation.parameters if p["in"] == "query"):
        kind = "integer" if "enum" in parameter["schema"] else parameter["schema"]["type"]
        for value in WRONG_QUERY[kind]:
            answer = world.ask(operation, nowhere(operation), {parameter["name"]: value})
            assert answer.status in (400, 413) and parameter["name"] in answer.json["error"]["message"]


@of(lambda operation: operation.body)
def test_unknown_field(world, operation):
    answer = world.ask(operation, nowhere(operation), body=example(operation) | {"surprise": 1})
    assert answer.status == 422 and "surprise" in answer.json["error"]["message"]


def wrong_values(schema):
    """JSON of every type that is not the field's."""
    types = {t for one in [schema, *schema.get("anyOf", [])] for t in [one.get("type", [])] for t in
             ([t] if isinstance(t, str) else t)}
    values = {"string": "\u0001 no such word", "number": -1.5, "boolean": True, "array": [[]], "object": {"?": {}}}
    if "integer" in types:
        types.add("string" if "string" in types else "integer")
    return [value for kind, value in values.items() if types and kind not in types]


@of(lambda operation: operation.body)
def test_wrong_types(world, operation):
    for name, schema in operation.body_schema()["properties"].items():
        others = {key: value for key, value in example(operation).items() if not name.startswith(key)}
        for value in wrong_values(schema):
            answer = world.ask(operation, nowhere(operation), body=others | {name: value})
            assert answer.status == 422, (name, value, answer)
            assert name in answer.json["error"]["message"], (name, value, answer)


@of(lambda operation: operation.body and operation.body_schema().get("required"))
def test_missing_field(world, operation):
    for name in operation.body_schema()["required"]:
        body = {key: value for key, value in example(operation).items() if key != name}
        answer = world.ask(operation, nowhere(operation), body=body)
        assert answer.status == 422 and name in answer.json["error"]["message"]


NO_JSON = [b"{", b"1", b"null", b'{"a":1,"a":1}', b"[" * 5000, b"\xff\xfe{}", b'{"code":"\\u0000"}', b"{}x"]


@of(lambda operation: operation.body)
def test_no_json(world, operation):
    for body in [*NO_JSON, b"[]"]:
        answer = world.ask(operation, nowhere(operation), body=body, headers={"Content-Type": "application/json"})
        assert answer.status in ((400, 413) if body in NO_JSON else [422]), (body, answer)
    answer = world.ask(operation, nowhere(operation), body=b"a=b",
                       headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status in (400, 415) and answer.code == "unsupported_media_type"


@of(lambda operation: operation.method in ("POST", "PUT", "PATCH"))
def test_too_large(world, operation):
    """It is refused by its head alone."""
    connection = world.server.connect()
    try:
        connection.putrequest(operation.method, operation.url(nowhere(operation)))
        connection.putheader("Content-Length", str(LARGE))
        connection.putheader("Content-Type", "application/json")
        token = world.server.token if world.token(operation) is True else world.token(operation)
        connection.putheader("Authorization", f"Bearer {token}")
        connection.endheaders()
        response = connection.getresponse()
        body = json.loads(response.read())
    finally:
        connection.close()
    assert response.status == 413 and body["error"]["code"] == "body_too_large"
    assert body["error"]["request_id"] == response.headers["X-Request-Id"]


@pytest.mark.parametrize("path", sorted(contract.document()["paths"]))
def test_wrong_method(world, path):
    known = {row.method for row in OPERATIONS if row.path == path}
    operation = next(row for row in OPERATIONS if row.path == path)
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - known:
        answer = world.server.request(method, operation.url(nowhere(operation)), token=world.token(operation))
        if answer.status == 404:  # a name of something else could stand here
            continue
        assert answer.status == 405, (method, answer)
        contract.check_error(answer)
        assert known <= set(answer.headers["Allow"].split(", "))


def test_nothing_there(world):
    for path in ("/api/v1", "/api/v1/nothing", "/api/v2/sessions", "/sessions", "/docs/"):
        answer = world.server.get(path)
        assert answer.status == 404
        contract.check_error(answer)


def test_idempotency_key_of_another_request(world):
    operation = next(row for row in OPERATIONS if row.id == "execute")
    headers = {"Idempotency-Key": "contract-other"}
    first = world.ask(operation, body={"code": "print(1)"}, headers=headers)
    again = world.ask(operation, body={"code": "print(1)"}, headers=headers)
    assert first.status == again.status == 200 and first.json == again.json
    other = world.ask(operation, body={"code": "print(2)"}, headers=headers)
    assert other.status == 409 and other.code == "idempotency_mismatch"
    for key in ("x" * 256, "two words", "caf\xe9", "\t"):
        assert world.ask(operation, body={"code": ""}, headers={"Idempotency-Key": key}).status == 400, key
    assert world.ask(operation, body={"code": ""}, headers={"Idempotency-Key": "x" * 255}).status == 200


# --- the page -----------------------------------------------------------------------------------


def test_page_has_a_strict_policy(world):
    answer = world.server.get("/docs", token=None)
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Referrer-Policy"] == "no-referrer"
    assert world.server.get("/docs", headers={"If-None-Match": answer.headers["ETag"]}).status == 304
