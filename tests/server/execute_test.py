# SPDX-License-Identifier: Apache-2.0
"""What an execution can be asked for over HTTP: resources, output that is kept."""
import pytest

import covetest
from covetest import wait_for

needs_root = pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups need root")
SESSIONS, TEMPLATES, EXECUTIONS = "/api/v1/sessions", "/api/v1/templates", "/api/v1/executions"
MIB = 1 << 20
CEILING = 4 << 30  # memory-max, as it is unless the operator says otherwise
KEPT = 1 * MIB     # the same of output


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
    whole = " ".join(map(str, range(5000))) + "\n"
    wait_until_printed(server, running, whole)
    server.kill_coved()
    assert server.put(f"{in_session.path}/files/go", b"").status == 201
    document = wait_for(lambda: ended(server, running), "its end")
    assert document["state"] == "completed", document
    check_cut(document, whole + " ".join(map(str, range(5000, 6000))) + "\n", 8192)
    assert document["truncated"]["stderr"] == {"kept_bytes": 8192, "total_bytes": len(whole)}


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
