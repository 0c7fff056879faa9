# SPDX-License-Identifier: Apache-2.0
"""What an execution can be asked for over HTTP: resources."""
import pytest

import covetest

needs_root = pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups need root")
MIB = 1 << 20
CEILING = 4 << 30  # memory-max, as it is unless the operator says otherwise


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
