# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP: eras, sessions, streams, and what is refused."""
import json
import re

import pytest

from covetest import wait_for
from mcp_client import LEGACY, MODERN, Legacy, Modern, events_of, ids, message, modern
from server import Server

CALL = {"name": "list_runners"}


def test_a_bare_call_is_served(shared_server):
    answer = shared_server.post("/mcp", message("tools/call", CALL, id=7))
    assert answer.status == 200 and answer.json["id"] == 7 and "python" in answer.json["result"]["content"][0]["text"]
    assert "resultType" not in answer.json["result"] and "Mcp-Session-Id" not in answer.headers


def test_modern_results_say_what_they_are(shared_server):
    client = Modern(shared_server)
    found = client.result("server/discover")
    assert found["supportedVersions"] == [MODERN] and found["resultType"] == "complete"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cove"
    assert "python" in found["instructions"] and found["capabilities"] == {
        "tools": {}, "prompts": {}, "resources": {}, "completions": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    listed = client.result("tools/list")
    assert listed["cacheScope"] == "public" and listed["ttlMs"] > 0
    assert client.call("list_runners")["resultType"] == "complete"


WRONG = [
    ("no version in the header", {"MCP-Protocol-Version": None}, {}, 400, -32020),
    ("another version in the header", {"MCP-Protocol-Version": LEGACY}, {}, 400, -32020),
    ("another method in the header", {"Mcp-Method": "tools/list"}, {}, 400, -32020),
    ("no method in the header", {"Mcp-Method": None}, {}, 400, -32020),
    ("another name in the header", {"Mcp-Name": "run_code"}, {}, 400, -32020),
    ("no name in the header", {"Mcp-Name": None}, {}, 400, -32020),
    ("no capabilities", {}, {"io.modelcontextprotocol/clientCapabilities": None}, 400, -32602),
]


@pytest.mark.parametrize("headers, marks, status, code", [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_headers_must_say_what_the_body_says(shared_server, headers, marks, status, code):
    body, head = modern("tools/call", CALL)
    body["params"]["_meta"].update(marks)
    head = {name: value for name, value in (head | headers).items() if value is not None}
    answer = shared_server.post("/mcp", body, headers=head)
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, code, body["id"])


def test_a_version_that_nobody_speaks(shared_server):
    body, head = modern("tools/list")
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
    answer = shared_server.post("/mcp", body, headers=head | {"MCP-Protocol-Version": "2099-01-01"})
    assert answer.status == 400 and answer.json["error"]["code"] == -32022
    assert answer.json["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"])
def test_what_the_modern_era_has_not(shared_server, method):
    answer, messages = Modern(shared_server).ask(method)
    assert answer.status == 404 and messages[0]["error"]["code"] == -32601


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_legacy_version_is_agreed_on(shared_server, version):
    client = Legacy(shared_server, version=version)
    assert client.welcome["protocolVersion"] == version and client.welcome["serverInfo"]["name"] == "cove"
    assert client.result("ping") == {}
    content = client.call("run_code", {"code": "open('a', 'w').write('x')"})["content"]
    assert any(item["type"] == "resource_link" for item in content) == (version >= "2025-06-18")
    assert client.end().status == 204


def test_an_unknown_version_gets_the_newest(shared_server):
    assert Legacy(shared_server, version="1999-01-01").welcome["protocolVersion"] == LEGACY


def test_a_session_is_gone_when_it_was_ended(shared_server):
    client = Legacy(shared_server)
    assert client.end().status == 204
    for answer in (client.ask("ping")[0], client.end(), client.tell("notifications/initialized"),
                   shared_server.get("/mcp", headers=client.headers)):
        assert answer.status == 404 and "initialize" in answer.json["error"]["message"]


def test_sessions_belong_to_who_made_them(shared_server):
    key = shared_server.post("/api/v1/keys", {"name": "mcp", "scopes": ["execute"]}).json["key"]
    client = Legacy(shared_server)
    stranger = Modern(shared_server, key)
    answer = shared_server.post("/mcp", message("ping", id=1), token=stranger.token, headers=client.headers)
    assert answer.status == 404
    assert client.result("ping") == {}


def test_a_standing_stream_ends_with_its_session(shared_server):
    client = Legacy(shared_server)
    connection = shared_server.connect()
    shared_server.begin(connection, "GET", "/mcp", headers=client.headers | {"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    assert client.end().status == 204
    assert b"data" in response.read()  # the event that begins it; and then the end
    connection.close()


def test_events_without_a_session(shared_server):
    connection = shared_server.connect()
    shared_server.begin(connection, "GET", "/mcp/events", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    connection.close()


REFUSED = [
    ("no JSON", b"{", {}, 400, -32700),
    ("no object", b"[]", {}, 400, -32600),
    ("a batch", b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', {}, 400, -32600),
    ("no version", b'{"id": 1, "method": "ping"}', {}, 400, -32600),
    ("null as id", b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', {}, 400, -32600),
    ("a fraction as id", b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', {}, 400, -32600),
    ("a list of parameters", b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', {}, 400, -32600),
    ("another type", b"{}", {"Content-Type": "text/plain"}, 415, -32600),
    ("depth", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}", {}, 400, None),
]


@pytest.mark.parametrize("body, headers, status, code", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_message_is_refused(shared_server, body, headers, status, code):
    answer = shared_server.post("/mcp", body, headers={"Content-Type": "application/json"} | headers)
    assert answer.status == status and answer.json["jsonrpc"] == "2.0"
    assert code is None or answer.json["error"]["code"] == code


def test_an_unknown_tool_names_those_there_are(shared_server):
    error = Modern(shared_server).request("tools/call", {"name": "rm"})["error"]
    assert error["code"] == -32602 and "run_code" in error["message"]


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "cove://executions/exe_" + "0" * 26 + "/files/a", "cove://executions/x/files/a",
                                 "cove://executions/exe_" + "0" * 26 + "/files/../../etc/passwd", "x" * 5000])
def test_resources_that_are_not_there(shared_server, uri):
    for client, code in ((Modern(shared_server), -32602), (Legacy(shared_server), -32002)):
        body, head = modern("resources/read", {"uri": uri})
        error = client.request("resources/read", {"uri": uri})["error"]
        assert error["code"] == code and error["data"]["uri"] == uri


def test_tokens_and_origins(shared_server):
    body = message("tools/list", id=1)
    answer = shared_server.post("/mcp", body, token=None)
    assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert shared_server.post("/mcp", body, token="wrong").status == 401
    assert shared_server.post("/mcp", body, headers={"Origin": "http://evil.example"}).status == 403
    assert shared_server.post("/mcp", body, headers={"Host": "evil.example"}).status == 421
    found = shared_server.get("/.well-known/oauth-protected-resource/mcp", token=None).json
    assert found["resource"].endswith("/mcp") and found["bearer_methods_supported"] == ["header"]


METADATA = "/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_who_is_refused_learns_how_to_get_in(shared_server, method):
    """RFC 9728 and RFC 6750, as MCP wants them: the document is where the challenge says."""
    weak = shared_server.post("/api/v1/keys", {"name": "mcp", "scopes": ["templates:write"]}).json["key"]
    for token, status, error in ((None, 401, None), ("wrong", 401, "invalid_token"), (weak, 403, "insufficient_scope")):
        answer = shared_server.request(method, "/mcp", message("ping", id=1) if method == "POST" else None, token=token)
        challenge = answer.headers["WWW-Authenticate"]
        said = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        assert answer.status == status and challenge.startswith("Bearer ") and said.get("error") == error
        assert said["resource_metadata"] == shared_server.url + METADATA and "execute" in said["scope"].split()
    found = shared_server.get(said["resource_metadata"].removeprefix(shared_server.url), token=None).json
    assert found["resource"] == f"{shared_server.url}/mcp" and set(said["scope"].split()) <= set(found["scopes_supported"])


def test_other_doors_do_not_speak_of_it(shared_server):
    assert "resource_metadata" not in shared_server.get("/api/v1/sessions", token=None).headers["WWW-Authenticate"]


def test_this_machine_needs_no_token_when_the_operator_says_so():
    with Server("--trust-loopback") as server:
        answer = server.post("/mcp", message("tools/list", id=1), token=None)
        assert answer.status == 200


def test_a_client_that_comes_back_gets_the_rest(shared_server):
    """Progress makes the answer a stream; its connection breaks, and another goes on behind the last event."""
    client = Legacy(shared_server)
    code = "import time\nfor i in range(30):\n    print(i, flush=True); time.sleep(0.1)"
    body = message("tools/call", {"name": "run_code", "arguments": {"code": code}, "_meta": {"progressToken": 1}}, id="r")
    connection = shared_server.connect()
    shared_server.begin(connection, "POST", "/mcp", body, headers=client.headers)
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    last = response.readline().decode().removeprefix("id: ").strip()
    connection.close()
    answer = shared_server.get("/mcp", headers=client.headers | {"Accept": "text/event-stream", "Last-Event-ID": last})
    assert events_of(answer.body)[-1]["id"] == "r" and "29\n" in json.dumps(events_of(answer.body)[-1]).replace("\\n", "\n")


def test_a_call_that_sent_no_event_cannot_be_taken_up(shared_server):
    """Ids of events could be guessed; the request that waits for the answer still gets it."""
    code = "import time; time.sleep(0.7); print('mine')"
    body = message("tools/call", {"name": "run_code", "arguments": {"code": code}}, id="w")

    def attempt():
        """-> whether it was quick enough to send no event: an answer that takes long becomes a stream"""
        client = Legacy(shared_server)
        connection = shared_server.connect()
        shared_server.begin(connection, "POST", "/mcp", body, headers=client.headers)
        others = [shared_server.connect() for _ in range(5)]
        for number, other in enumerate(others, 1):
            shared_server.begin(other, "GET", "/mcp", headers=client.headers | {"Accept": "text/event-stream", "Last-Event-ID": f"{number}-0"})
        statuses = [other.getresponse().status for other in others]
        response = connection.getresponse()
        is_stream = "event-stream" in response.headers["Content-Type"]
        if not is_stream:
            assert statuses == [405] * 5
            assert "mine" in json.loads(response.read())["result"]["content"][0]["text"]
        for one in (connection, *others):
            one.close()
        assert client.result("ping") == {}
        return not is_stream

    wait_for(attempt, "an answer that is no stream")


@pytest.mark.parametrize("is_modern", [True, False], ids=["modern", "legacy"])
def test_a_long_call_is_not_silent(shared_server, is_modern):
    """Clients give up on a server that says nothing for minutes, though they have not asked to be told of progress."""
    wish = {"name": "run_code", "arguments": {"code": "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('went')",
                                              "session_id": f"long-{next(ids)}", "timeout": 600}}
    client = Legacy(shared_server)
    body, headers = modern("tools/call", wish) if is_modern else (message("tools/call", wish, id=next(ids)), client.headers)
    connection = shared_server.connect()
    shared_server.begin(connection, "POST", "/mcp", body, headers=headers)
    response = connection.getresponse()  # comes before its end
    assert response.headers["Content-Type"] == "text/event-stream"
    client.text("upload_file", {"session_id": wish["arguments"]["session_id"], "path": "go", "content": ""})
    (last,) = events_of(response.read())
    assert last["id"] == body["id"] and "went" in last["result"]["content"][0]["text"]
    client.text("close_session", {"session_id": wish["arguments"]["session_id"]})
    connection.close()


def test_a_cancelled_answer_cannot_be_taken_up(shared_server):
    """Clients come back for an answer that broke off. A standing stream in its place would end the client's own one,
    for which it comes back too: the two would end each other for ever."""
    client = Legacy(shared_server)
    standing, connection = shared_server.connect(), shared_server.connect()
    events = client.headers | {"Accept": "text/event-stream"}
    shared_server.begin(standing, "GET", "/mcp", headers=events)
    own = standing.getresponse()
    body = message("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(600)"},
                                  "_meta": {"progressToken": 1}}, id="c")
    shared_server.begin(connection, "POST", "/mcp", body, headers=client.headers)
    response = connection.getresponse()
    last = response.readline().decode().removeprefix("id: ").strip()
    assert client.tell("notifications/cancelled", {"requestId": "c"}).status == 202
    assert [one for one in events_of(response.read()) if "id" in one] == []
    answer = shared_server.get("/mcp", headers=events | {"Last-Event-ID": last})
    assert answer.status == 405 and "cancelled" in answer.json["error"]["message"]
    standing.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):  # it is still open
        own.read()
    for one in (standing, connection):
        one.close()


def test_idle_sessions_make_room(server):
    first = Legacy(server)
    for _ in range(256):
        last = Legacy(server)
    assert last.result("ping") == {} and first.ask("ping")[0].status == 404


def test_revoking_a_key_ends_its_streams(server):
    key = server.post("/api/v1/keys", {"name": "mcp", "scopes": ["execute"]}).json
    client = Legacy(server, key["key"])
    connection = server.connect()
    server.begin(connection, "GET", "/mcp", token=key["key"], headers=client.headers | {"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200
    assert server.delete(f"/api/v1/keys/{key['id']}").status in (200, 204)
    response.read()  # it ends
    connection.close()


def test_a_server_with_open_streams_ends(server):
    client = Legacy(server)
    connection = server.connect()
    server.begin(connection, "GET", "/mcp", headers=client.headers | {"Accept": "text/event-stream"})
    assert connection.getresponse().status == 200
    assert server.stop() == 0
    wait_for(lambda: server.process.poll() is not None, "its end")
    connection.close()
