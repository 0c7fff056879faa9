# SPDX-License-Identifier: Apache-2.0
"""What an execution can be asked for over HTTP: resources, output that is kept, arguments, a working directory."""
import json
import pathlib
import time

import pytest

import covetest
from covetest import wait_for
from server import Server

needs_root = pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups need root")
SESSIONS, TEMPLATES, EXECUTIONS = "/api/v1/sessions", "/api/v1/templates", "/api/v1/executions"
MIB = 1 << 20
CEILING = 4 << 30  # memory-max, as it is unless the operator says otherwise
KEPT = 1 * MIB     # the same of output

# Prints its arguments and where it runs, as JSON.
TELLERS = {
    "python": "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.getcwd()]))",
    "javascript": "console.log(JSON.stringify([process.argv.slice(2), process.cwd()]))",
    "typescript": "const all: unknown[] = [process.argv.slice(2), process.cwd()]; console.log(JSON.stringify(all))",
    "bash": """printf '[['; s=; for a; do printf '%s"%s"' "$s" "$a"; s=', '; done; printf '], "%s"]\\n' "$PWD" """,
}


class Session:
    def __init__(self, server, **fields):
        answer = server.post(SESSIONS, fields)
        assert answer.status == 201, answer
        self.server, self.path = server, f"{SESSIONS}/{answer.json['id']}"

    def ask(self, code, **fields):
        return self.server.post(f"{self.path}/execute", {"code": code, **fields})

    def __call__(self, code, **fields):
        return run(self.server, f"{self.path}/execute", code, mode="sync", **fields)


@pytest.fixture
def session(shared_server):
    made = []

    def make(**fields):
        made.append(Session(shared_server, **fields))
        return made[-1]

    yield make
    for one in made:
        shared_server.delete(one.path)


def run(server, path, code, **fields):
    answer = server.post(path, {"code": code, **fields})
    assert answer.status == 200, answer
    return answer.json


def refused(answer, message):
    assert answer.status == 422 and message in answer.json["error"]["message"], answer
    return answer.json["error"]


# --- resources ------------------------------------------------------------------------------------

@needs_root
def test_memory_that_was_asked_for_is_the_limit(shared_server):
    code = f"print(len(b'x' * {100 * MIB}))"
    document = run(shared_server, "/execute", code, resources={"memory_bytes": 64 * MIB})
    assert document["state"] == "failed" and document["reason"]["kind"] == "oom", document
    assert document["reason"]["limit"] == 64 * MIB
    assert run(shared_server, "/execute", code)["stdout"] == f"{100 * MIB}\n"


@needs_root
def test_a_share_may_be_exceeded_where_the_operator_lets_it(is_long):
    code = ("import os, time\nwhile time.process_time() < 0.15: pass\n"
            "__import__('ctypes').CDLL(None).prctl(15, b'was-busy')\nwhile not os.path.exists('go'): time.sleep(0.01)")
    with Server("--cpus-burst", "1") as server:
        begin, connection = time.monotonic(), server.connect()
        server.begin(connection, "POST", "/execute", {"code": code, "resources": {"cpus": 0.05}})
        pid, = wait_for(lambda: covetest.inside(server, "was-busy"), "the end of the work")
        took = time.monotonic() - begin
        throttled = covetest.throttled_us(pid)
        pathlib.Path(f"/proc/{pid}/cwd/go").touch()
        assert json.loads(connection.getresponse().read())["state"] == "completed"
        connection.close()
    assert throttled < 280_000, "its share alone would take three seconds, and it would wait for most of them"
    assert not is_long or took < 2, took


def test_resources_have_ceilings(shared_server):
    body = {"code": "print(1)", "resources": {"memory_bytes": CEILING + 1}}
    for path in ("/execute", "/api/v1/execute"):
        error = refused(shared_server.post(path, body),
                        f"resources.memory_bytes: {CEILING + 1} is more than the {CEILING} that are allowed here")
        assert "raise the limit" in error["hint"]
    refused(shared_server.post("/execute", {"code": "1", "resources": {"forks": 1}}), "only a session can be forked")
    refused(shared_server.post("/execute", {"code": "1", "resources": {"memory": "1G"}}), "resources.memory")


# --- output that is kept --------------------------------------------------------------------------

def check_cut(document, printed, kept):
    assert document["truncated"]["stdout"] == {"kept_bytes": kept, "total_bytes": len(printed)}, document
    half = kept - kept // 2
    assert document["stdout"].startswith(printed[:half]) and document["stdout"].endswith(printed[-(kept // 2):])
    assert len(document["stdout"]) < kept + 200, "and one line that says how much is missing"


def test_so_much_output_is_kept_as_was_asked_for(shared_server, session):
    code = "print(*range(3000))"
    printed = " ".join(map(str, range(3000))) + "\n"
    in_session = session(language="python")
    for ask in (lambda **more: run(shared_server, "/execute", code, **more), lambda **more: in_session(code, **more)):
        check_cut(ask(output_bytes=4096), printed, 4096)
        check_cut(ask(output_bytes="1K"), printed, 1024)
        assert ask(output_bytes=KEPT)["stdout"] == printed
        assert ask()["stdout"] == printed, "and of the next as much as usual"


def test_output_has_bounds(shared_server):
    for amount, message in ((KEPT + 1, f"output_bytes: {KEPT + 1} is more than the {KEPT} that are allowed here"),
                            (1023, "output_bytes: must be between 1024")):
        refused(shared_server.post("/execute", {"code": "1", "output_bytes": amount}), message)
        refused(shared_server.post(TEMPLATES, {"name": "wide", "language": "python", "output_bytes": amount}), message)


def test_a_template_says_how_much_output_is_kept(shared_server, session):
    made = shared_server.post(TEMPLATES, {"name": "terse", "language": "python", "output_bytes": 2048})
    assert made.status == 201 and made.json["output_bytes"] == 2048, made
    in_session = session(template="terse")
    check_cut(in_session("print('x' * 9999)"), "x" * 9999 + "\n", 2048)
    check_cut(in_session("print('x' * 9999)", output_bytes=4096), "x" * 9999 + "\n", 4096)
    shared_server.delete(in_session.path)
    assert shared_server.delete(f"{TEMPLATES}/{made.json['id']}").status == 204


@needs_root
def test_output_of_its_own_size_survives_a_restart(server):
    """What is held for the next coved is read by the size that it was written by."""
    in_session = Session(server, language="python")
    code = """
import os, sys, time
print(*range(5000), file=sys.stderr)
print(*range(5000), flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
print(*range(5000, 6000))
"""
    running = in_session.ask(code, output_bytes=8192, timeout=600).json["id"]
    behind = in_session.ask(TELLERS["python"], args=["a b"], cwd="below", queue=True,
                            files=[{"path": "below/f", "content": ""}]).json["id"]
    whole = " ".join(map(str, range(5000))) + "\n"
    wait_until_printed(server, running, whole)
    server.kill_coved()
    assert server.put(f"{in_session.path}/files/go", b"").status == 201
    documents = [wait_for(lambda id=id: ended(server, id), "its end") for id in (running, behind)]
    assert documents[0]["state"] == "completed", documents[0]
    check_cut(documents[0], whole + " ".join(map(str, range(5000, 6000))) + "\n", 8192)
    assert documents[0]["truncated"]["stderr"] == {"kept_bytes": 8192, "total_bytes": len(whole)}
    assert json.loads(documents[1]["stdout"]) == [["a b"], "/workspace/below"], documents[1]


def wait_until_printed(server, id, text):
    """Both streams, and the server has read them."""
    printed = {"stdout": "", "stderr": ""}
    for _, name, data in server.events("GET", f"{EXECUTIONS}/{id}/events"):
        if name in printed:
            printed[name] += data["text"]
        if printed == {"stdout": text, "stderr": text}:
            return
    pytest.fail(f"it has ended: {printed}")


def ended(server, id):
    document = server.get(f"{EXECUTIONS}/{id}").json
    return document if document["state"] not in ("queued", "running") else None


# --- arguments and the working directory ------------------------------------------------------------

@pytest.mark.parametrize("language", TELLERS)
def test_arguments_and_working_directory_without_a_session(shared_server, language):
    args = ["--fast", "", "a b", "ü=$HOME"]
    document = run(shared_server, "/execute", TELLERS[language], language=language, args=args, cwd="some/where",
                   files=[{"path": "some/where/f", "content": ""}])
    assert document["state"] == "completed" and json.loads(document["stdout"]) == [args, "/workspace/some/where"], document


@pytest.mark.parametrize("language, go", [
    ("python", "import os; os.makedirs('mine'); os.makedirs('there'); os.chdir('mine')"),
    ("javascript", "fs = require('fs'); fs.mkdirSync('mine'); fs.mkdirSync('there'); process.chdir('mine')"),
    ("bash", "mkdir mine there; cd mine"),
])
def test_both_are_of_one_execution_alone(session, language, go):
    in_session = session(language=language)
    teller = TELLERS[language]
    assert in_session(go)["state"] == "completed"
    assert json.loads(in_session(teller, args=["1"], cwd="there")["stdout"]) == [["1"], "/workspace/there"]
    assert json.loads(in_session(teller)["stdout"]) == [[], "/workspace/mine"], "where the code has gone itself"
    assert json.loads(in_session(teller, cwd=".")["stdout"]) == [[], "/workspace"]
    missing = in_session(teller, cwd="nosuch")
    assert (missing["state"], missing["stdout"], missing["reason"]["kind"]) == ("failed", "", "exception"), missing
    assert "cwd" in missing["error"]["value"] and "/workspace/nosuch" in missing["error"]["value"]
    assert json.loads(in_session(teller)["stdout"]) == [[], "/workspace/mine"]


@pytest.mark.parametrize("cwd", ["/", "..", "a/../b", "a//b", "a/", ""])
def test_a_working_directory_is_below_the_workspace(shared_server, cwd):
    refused(shared_server.post("/execute", {"code": "1", "cwd": cwd}), f"cwd: '{cwd}' is not a path below the workspace")


def test_what_is_too_long_leaves_nothing_behind(session):
    in_session = session(language="python")
    for fields in ({"args": ["first", "x" * 200_000]}, {"args": ["first"], "env": {"LONG": "x" * 200_000}}):
        answer = in_session.ask("1", mode="sync", cwd=".", **fields)
        assert answer.status == 413 and "is too long" in answer.json["error"]["message"], answer
    assert json.loads(in_session(TELLERS["python"], args=["own"])["stdout"])[0] == ["own"]
