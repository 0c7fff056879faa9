# SPDX-License-Identifier: Apache-2.0
"""/templates of a running server: what they take, who may change them, and what stays."""
import http.client
import itertools
import pathlib
import shutil
import tempfile
import threading

import pytest

from covetest import wait_for
from server import Server

TEMPLATES = "/api/v1/templates"
DEFAULTS = {"python", "python-data", "javascript", "typescript", "bash"}
HELLO = {"python": "print(6 * 7)", "python-data": "print(6 * 7)", "javascript": "console.log(6 * 7)",
         "typescript": "const x: number = 6 * 7; console.log(x)", "bash": "echo $((6 * 7))"}


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def make(server, **fields):
    answer = server.post(TEMPLATES, {"language": "python", **fields})
    assert answer.status == 201, answer
    return answer.json


@pytest.fixture
def template(server, request):
    made = make(server, name=f"test-{abs(hash(request.node.name))}")
    yield made
    server.delete(f"{TEMPLATES}/{made['id']}")


def names(server):
    answer = server.get(f"{TEMPLATES}?limit=1000")
    assert answer.status == 200, answer
    return {template["name"] for template in answer.json["templates"]}


# --- defaults -------------------------------------------------------------------------------------

def test_defaults_are_there(server):
    assert DEFAULTS <= names(server)


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_defaults_run_code(server, name):
    answer = server.post("/api/v1/execute", {"template": name, "code": HELLO[name]})
    assert answer.status == 200 and answer.json["stdout"] == "42\n", answer


def test_python_data_is_imported_already(server):
    code = "import sys; print(all(name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')))"

    def is_warm():
        answer = server.post("/api/v1/execute", {"template": "python-data", "code": code})
        assert answer.status == 200, answer
        return answer.json["stdout"] == "True\n"
    wait_for(is_warm, "a sandbox that is forked from the warm interpreter")


# --- one template ---------------------------------------------------------------------------------

def test_is_read_by_id_and_by_name(server, template):
    by_id, by_name = (server.get(f"{TEMPLATES}/{template[word]}") for word in ("id", "name"))
    assert by_id.status == by_name.status == 200
    assert by_id.json == by_name.json == template
    assert by_id.headers["ETag"] == '"1"'
    assert template["version"] == 1 and template["problem"] is None
    assert template["created_at"] == template["updated_at"]


def test_what_was_read_can_be_sent_back(server, template):
    path = f"{TEMPLATES}/{template['name']}"
    answer = server.put(path, {**template, "timeout": 5, "env": {"GREETING": "hi"}})
    assert answer.status == 200 and answer.headers["ETag"] == '"2"', answer
    changed = answer.json
    assert changed["version"] == 2 and changed["timeout"] == 5 and changed["created_at"] == template["created_at"]
    assert server.get(path).json == changed
    done = server.post("/api/v1/execute", {"template": template["name"], "code": "import os; print(os.environ['GREETING'])"})
    assert done.json["stdout"] == "hi\n", done


def test_a_writer_that_comes_too_late_is_refused(server, template):
    path = f"{TEMPLATES}/{template['id']}"
    body = {"name": template["name"], "language": "bash"}
    assert server.put(path, body, headers={"If-Match": '"1"'}).status == 200
    late = server.put(path, body, headers={"If-Match": '"1"'})
    assert late.status == 409 and late.code == "version_mismatch", late
    late = server.put(path, {**body, "version": 1})
    assert late.status == 409 and late.code == "version_mismatch", late
    late = server.delete(path, headers={"If-Match": '"1"'})
    assert late.status == 409 and late.code == "version_mismatch", late
    assert server.put(path, body, headers={"If-Match": "*"}).json["version"] == 3
    assert server.put(path, {**body, "version": 3}, headers={"If-Match": '"3"'}).json["version"] == 4
    assert server.delete(path, headers={"If-Match": '"4"'}).status == 204


@pytest.mark.parametrize("value", ['3', '""', '"x"', 'W/"1"', '"1", "2"', '"0"', '"-1"', '"99999999999999999999"', "**"])
def test_if_match_is_a_version(server, template, value):
    path = f"{TEMPLATES}/{template['id']}"
    for answer in (server.delete(path, headers={"If-Match": value}),
                   server.put(path, {"name": "other", "language": "bash"}, headers={"If-Match": value})):
        assert answer.status == 400 and "If-Match" in answer.json["error"]["message"], answer
    assert server.get(path).json == template


def test_two_versions_at_once_are_refused(server, template):
    answer = server.put(f"{TEMPLATES}/{template['id']}", template, headers={"If-Match": '"2"'})
    assert answer.status == 400, answer


def test_a_name_is_free_again(server):
    for _ in range(2):
        made = make(server, name="comes-and-goes")
        taken = server.post(TEMPLATES, {"name": "comes-and-goes", "language": "bash"})
        assert taken.status == 409 and taken.code == "template_exists", taken
        assert server.delete(f"{TEMPLATES}/comes-and-goes").status == 204
        for method in ("GET", "DELETE"):
            gone = server.request(method, f"{TEMPLATES}/{made['id']}")
            assert gone.status == 404 and gone.code == "template_not_found", gone
    gone = server.put(f"{TEMPLATES}/comes-and-goes", {"name": "comes-and-goes", "language": "bash"})
    assert gone.status == 404 and gone.code == "template_not_found", gone
    unknown = server.post("/api/v1/sessions", {"template": "comes-and-goes"})
    assert unknown.status == 404 and unknown.code == "template_not_found", unknown


@pytest.mark.parametrize("fields, word", [
    ({"name": None}, "name"), ({"name": ""}, "name"), ({"name": "a b"}, "name"), ({"name": "x" * 65}, "name"),
    ({"name": 7}, "name"), ({"name": "tpl_" + "0" * 26}, "id"), ({"language": None}, "language"),
    ({"language": "cobol"}, "cobol"), ({"image": "nonesuch"}, "nonesuch"), ({"image": "bash"}, "bash"),
    ({"image": "../python"}, "image"), ({"size": 1}, "size"), ({"resources": {"memory_bytes": "900G"}}, "memory_bytes"),
    ({"resources": {"memory_bytes": 1}}, "memory_bytes"), ({"resources": {"cpus": 0}}, "cpus"),
    ({"resources": {"cpus": 10000}}, "cpus"), ({"resources": {"pids": 1}}, "pids"),
    ({"resources": {"disk_bytes": "256M"}}, "disk_bytes"), ({"resources": {"more": 1}}, "resources.more"),
    ({"resources": {"forks": 99}}, "forks"), ({"language": "bash", "resources": {"forks": 1}}, "forks"),
    ({"env": {"A=B": "c"}}, "env"), ({"env": {"A": 1}}, "env"), ({"env": {"A": "x" * 70000}}, "env"),
    ({"preload": ["os.system('x')"]}, "preload"), ({"language": "bash", "preload": ["os"]}, "preload"),
    ({"network": {"policy": "all"}}, "network"), ({"pool": {"min": 3, "max": 2}}, "pool"),
    ({"pool": {"max": 100000}}, "pool"), ({"timeout": 0}, "timeout"), ({"timeout": 1e9}, "timeout"),
    ({"timeout": 5, "timeout_seconds": 5}, "timeout"), ({"ttl": 366 * 24 * 3600}, "ttl"), ({"idle_timeout": "1h"}, "idle"),
    ({"id": "tpl_1"}, "id"), ({"version": 1}, "version")])
def test_what_cannot_be_is_refused(server, fields, word):
    before = names(server)
    body = {k: v for k, v in {"name": "never-made", "language": "python", **fields}.items() if v is not None}
    answer = server.post(TEMPLATES, body)
    assert answer.status in (413, 422), answer
    error = answer.json["error"]
    assert word in error["message"] and error["code"] and error["request_id"] == answer.headers["X-Request-Id"], answer
    assert names(server) == before


@pytest.mark.parametrize("query, word", [("limit=0", "limit"), ("limit=x", "limit"), ("cursor=nonsense", "cursor"), ("all=1", "all")])
def test_list_takes_only_what_it_knows(server, query, word):
    answer = server.get(f"{TEMPLATES}?{query}")
    assert answer.status == 400 and word in answer.json["error"]["message"], answer


def test_list_comes_in_pages(server):
    seen, cursor = [], ""
    while cursor is not None:
        answer = server.get(f"{TEMPLATES}?limit=2{cursor and '&cursor=' + cursor}")
        assert answer.status == 200 and len(answer.json["templates"]) <= 2, answer
        seen += [template["name"] for template in answer.json["templates"]]
        cursor = answer.json["next_cursor"]
    assert len(seen) == len(set(seen)) and set(seen) == names(server)


# --- in use ---------------------------------------------------------------------------------------

def test_live_sessions_protect_their_template(server, template):
    session = server.post("/api/v1/sessions", {"template": template["name"]})
    assert session.status == 201, session
    path = f"{TEMPLATES}/{template['id']}"
    answer = server.delete(path)
    assert answer.status == 409 and answer.code == "template_in_use" and answer.json["error"]["hint"], answer
    changed = server.put(path, {"name": template["name"], "language": "bash"})  # which changes nothing for the session
    assert changed.status == 200, changed
    done = server.post(f"/api/v1/sessions/{session.json['id']}/execute", {"code": "print(6 * 7)", "mode": "sync"})
    assert done.json["stdout"] == "42\n", done
    assert server.delete(f"/api/v1/sessions/{session.json['id']}").status == 200
    assert server.delete(path).status == 204


# --- one request, one effect ----------------------------------------------------------------------

def test_a_request_may_be_sent_twice(server):
    headers = {"Idempotency-Key": "template-1"}
    first, second = (server.post(TEMPLATES, {"name": "once", "language": "bash"}, headers=headers) for _ in range(2))
    assert first.status == second.status == 201 and first.json == second.json
    assert second.headers["Idempotent-Replayed"] == "true"
    other = server.post(TEMPLATES, {"name": "twice", "language": "bash"}, headers=headers)
    assert other.status == 409 and other.code == "idempotency_mismatch", other
    assert server.delete(f"{TEMPLATES}/once").status == 204


# --- who may --------------------------------------------------------------------------------------

def test_reading_and_changing_have_scopes(server, template):
    key = server.post("/api/v1/keys", {"name": "reader", "scopes": ["sessions:read"]})
    assert key.status == 201, key
    token = key.json["key"]
    assert server.get(f"{TEMPLATES}/{template['id']}", token=token).status == 200
    assert server.get(TEMPLATES, token=token).status == 200
    for answer in (server.post(TEMPLATES, {"name": "x", "language": "bash"}, token=token),
                   server.put(f"{TEMPLATES}/{template['id']}", template, token=token),
                   server.delete(f"{TEMPLATES}/{template['id']}", token=token)):
        assert answer.status == 403, answer
    assert server.get(TEMPLATES, token=None).status == 401


# --- what stays -----------------------------------------------------------------------------------

def test_templates_survive_the_server():
    with Server() as server:
        assert server.delete(f"{TEMPLATES}/bash").status == 204
        python = server.get(f"{TEMPLATES}/python").json
        assert server.put(f"{TEMPLATES}/python", {**python, "description": "mine"}).status == 200
        mine = make(server, name="mine", env={"A": "b"})
        server.kill_coved()
        assert names(server) == DEFAULTS - {"bash"} | {"mine"}
        assert server.get(f"{TEMPLATES}/python").json["description"] == "mine"
        assert server.get(f"{TEMPLATES}/mine").json == mine
        done = server.post("/api/v1/execute", {"template": "mine", "code": "import os; print(os.environ['A'])"})
        assert done.status == 200 and done.json["stdout"] == "b\n", done


def test_what_was_answered_is_there_after_a_kill():
    with Server() as server:
        for number in range(5):
            made = make(server, name=f"template-{number}")
            server.kill_coved()
            assert server.get(f"{TEMPLATES}/template-{number}").json == made


@pytest.mark.parametrize("change", [{"language": "bash"}, {"resources": {"memory_bytes": "32M", "pids": 8}}, {"image": "python"}])
def test_sessions_outlive_what_their_template_was(change):
    with Server() as server:
        template = make(server, name="mine", resources={"memory_bytes": "128M"})
        session = server.post("/api/v1/sessions", {"template": "mine", "resources": {"pids": 100}})
        assert session.status == 201, session
        path = f"/api/v1/sessions/{session.json['id']}"

        def run(code):
            answer = server.post(f"{path}/execute", {"code": code, "mode": "sync", "queue": True})
            assert answer.status == 200, answer
            return answer.json["stdout"]
        run("x = 6")
        changed = server.put(f"{TEMPLATES}/{template['id']}", {"name": "mine", "language": "python", **change})
        assert changed.status == 200, changed
        server.kill_coved()
        wait_for(lambda: server.get(path).json["state"] != "creating", "the session")
        assert server.get(path).json["resources"] == session.json["resources"]
        assert run("print(x * 7)") == "42\n"
        assert server.post(f"{path}/reset").status == 200
        assert run("print(1)") == "1\n"


def test_a_kill_between_changes_loses_none_that_was_answered():
    """Store and catalog are at one version afterwards: the last that was answered, or the one that was on its way."""
    with Server() as server:
        template = make(server, name="counted", env={"N": "0"})
        counter, sent, answered = itertools.count(1), [0], [0]

        def change_until_it_breaks(is_over):
            try:
                while not is_over.is_set():
                    number = next(counter)
                    sent.append(number)
                    answer = server.put(f"{TEMPLATES}/counted", {"name": "counted", "language": "python", "env": {"N": str(number)}})
                    assert answer.status == 200, answer
                    answered.append(number)
            except (OSError, http.client.HTTPException):
                pass
        for _ in range(4):
            before = len(answered)
            is_over = threading.Event()
            writer = threading.Thread(target=change_until_it_breaks, args=[is_over])
            writer.start()
            wait_for(lambda: len(answered) > before + 3, "some changes")
            server.kill_coved()
            is_over.set()
            writer.join()
            now = server.get(f"{TEMPLATES}/{template['id']}").json
            number = int(now["env"]["N"])
            assert answered[-1] <= number <= sent[-1]
            done = server.post("/api/v1/execute", {"template": "counted", "code": "import os; print(os.environ['N'])"})
            assert done.json["stdout"] == f"{number}\n", done


# --- images ---------------------------------------------------------------------------------------


def test_a_new_image_needs_no_restart():
    """It lies in the server's own store when a template names it."""
    system = pathlib.Path("/var/lib/cove/images")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-images-"))
    folder.chmod(0o755)
    try:
        (folder / "data/images/tags").mkdir(parents=True)
        with Server(data_dir=folder / "data") as server:
            body = {"name": "other", "language": "bash", "image": "later"}
            answer = server.post(TEMPLATES, body)
            assert (answer.status, answer.code) == (422, "runner_not_found"), answer
            digest = (system / "tags/bash").read_text().strip()
            shutil.copytree(system / digest, folder / "data/images" / digest, symlinks=True)
            shutil.copy(system / "tags/bash", folder / "data/images/tags/later")
            answer = server.post(TEMPLATES, body)
            assert answer.status == 201 and answer.json["problem"] is None, answer
            assert server.post("/execute", {"code": "echo 42", "template": "other"}).json["stdout"] == "42\n"
            assert "later" in {runner["image"] for runner in server.get("/api/v1/runners").json["runners"]}
    finally:
        shutil.rmtree(folder)
