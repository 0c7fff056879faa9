# SPDX-License-Identifier: Apache-2.0
"""The tools of MCP: what a model gets for what it asks, in both eras."""
import base64
import concurrent.futures
import re
import threading

import pytest

import covetest
from covetest import wait_for
from mcp_client import Legacy, Modern, events_of, ids, message, modern
from server import Server

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TOOLS = ["run_code", "upload_file", "list_artifacts", "read_artifact", "close_session", "list_runners"]


@pytest.fixture(params=[Modern, Legacy], ids=["modern", "legacy"])
def client(request, shared_server):
    return request.param(shared_server)


def test_tools_are_few_and_explained(client):
    tools = client.result("tools/list")["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        assert tool["title"] and "Example" in tool["description"] and tool["inputSchema"]["type"] == "object"
        assert set(tool["annotations"]) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert "outputSchema" not in tool


def test_run_code_answers_with_what_was_printed(client):
    result = client.call("run_code", {"code": "print(6 * 7)"})
    assert re.match(r"completed, exit code 0, \d+ ms\n\[stdout\]\n42\n", result["content"][0]["text"])
    assert "structuredContent" not in result and not result.get("isError")


def test_languages_are_those_of_the_images(client):
    runners = client.text("list_runners")
    assert "- python" in runners and re.search(r"\n  with .*\bnumpy \d+\.\d+.*\bpandas \d", runners)
    assert "[stdout]\nhello\n" in client.text("run_code", {"language": "bash", "code": "echo hello"})


def test_a_program_that_fails_is_a_result(client):
    result = client.call("run_code", {"code": "print('before')\n1/0"})
    text = result["content"][0]["text"]
    assert not result.get("isError") and text.startswith("failed")
    assert "before" in text and "ZeroDivisionError" in text


def test_a_time_limit_says_so(client):
    text = client.text("run_code", {"code": "while True: pass", "timeout": 0.3})
    assert text.startswith("timeout") and "0.3" in text


def test_a_session_keeps_variables_and_files(client):
    name = f"mcp-{next(ids)}"
    client.text("run_code", {"session_id": name, "code": "x = 41; open('a.txt', 'w').write('kept')"})
    assert "[stdout]\n42 kept\n" in client.text("run_code", {"session_id": name, "code": "print(x + 1, open('a.txt').read())"})
    assert "[value]\n41\n" in client.text("run_code", {"session_id": name, "code": "x"})
    client.text("close_session", {"session_id": name})
    assert "NameError" in client.text("run_code", {"session_id": name, "code": "print(x)"})
    client.text("close_session", {"session_id": name})


def test_calls_at_once_share_a_new_session(client):
    name = f"mcp-{next(ids)}"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: client.text("run_code", {"session_id": name, "code": f"seen = {n}; print(seen)"}), range(4)))
    assert [f"[stdout]\n{n}\n" in text for n, text in enumerate(texts)] == [True] * 4
    client.text("close_session", {"session_id": name})


def test_a_session_that_is_gone_says_what_to_do(client):
    result = client.call("run_code", {"session_id": "ses_" + "0" * 26, "code": "1"})
    assert result["isError"] and "a name of your own" in result["content"][0]["text"]


def test_files_in_and_out(client):
    name = f"mcp-{next(ids)}"
    assert "Wrote 'data/a.csv' (8 bytes)" in client.text("upload_file", {"session_id": name, "path": "data/a.csv", "content": "a,b\n1,2\n"})
    assert "Replaced" in client.text("upload_file", {"session_id": name, "path": "data/a.csv", "content_base64": base64.b64encode(b"x,y\n3,4\n").decode()})
    assert "data/ (directory)" in client.text("list_artifacts", {"session_id": name})
    assert re.search(r"- data/a.csv \(text/csv, 8 bytes, .*\)\n  download_url: http", client.text("list_artifacts", {"session_id": name, "path": "data"}))
    assert client.text("read_artifact", {"session_id": name, "path": "data/a.csv"}) == "x,y\n3,4\n"
    client.text("close_session", {"session_id": name})


def test_artifacts_outlive_the_sandbox(client):
    result = client.call("run_code", {"code": "open('out.txt', 'w').write('0123456789')"})
    text, links = result["content"][0]["text"], result["content"][1:]
    execution = re.search(r"exe_\w+", text)[0]
    assert "- out.txt (text/plain, 10 bytes)" in text
    assert links == [{"type": "resource_link", "uri": f"cove://executions/{execution}/files/out.txt", "name": "out.txt",
                      "description": "text/plain, 10 bytes", "mimeType": "text/plain", "size": 10}]
    assert client.text("read_artifact", {"execution_id": execution, "path": "out.txt"}) == "0123456789"
    part = client.text("read_artifact", {"execution_id": execution, "path": "out.txt", "offset": 2, "limit": 3})
    assert part == '234\n[bytes 2 to 5 of 10; "offset": 5 reads on]'
    listed = client.text("list_artifacts", {"execution_id": execution})
    assert re.match(r"- out.txt \(text/plain, 10 bytes, .*\)\n  download_url: http", listed)
    contents = client.result("resources/read", {"uri": links[0]["uri"]})["contents"]
    assert contents == [{"uri": links[0]["uri"], "mimeType": "text/plain", "text": "0123456789"}]


def test_pictures_are_pictures(client):
    code = f"import base64; open('dot.png', 'wb').write(base64.b64decode('{PNG}'))"
    text = client.text("run_code", {"code": code})
    execution = re.search(r"exe_\w+", text)[0]
    content = client.call("read_artifact", {"execution_id": execution, "path": "dot.png"})["content"]
    assert content == [{"type": "image", "mimeType": "image/png", "data": PNG}]
    contents = client.result("resources/read", {"uri": f"cove://executions/{execution}/files/dot.png"})["contents"]
    assert contents[0]["blob"] == PNG


def test_values_that_are_pictures_come_with_the_result(client):
    name = f"mcp-{next(ids)}"
    code = (f"import base64\nclass Dot:\n    def _repr_png_(self): return base64.b64decode('{PNG}')\nDot()")
    content = client.call("run_code", {"session_id": name, "code": code})["content"]
    assert {"type": "image", "mimeType": "image/png", "data": PNG} in content
    client.text("close_session", {"session_id": name})


def test_bytes_that_are_no_text_come_as_bytes(client):
    text = client.text("run_code", {"code": "open('raw.bin', 'wb').write(b'\\x00\\xff\\x01')"})
    execution = re.search(r"exe_\w+", text)[0]
    content = client.call("read_artifact", {"execution_id": execution, "path": "raw.bin"})["content"]
    assert base64.b64decode(content[0]["resource"]["blob"]) == b"\x00\xff\x01"


def test_a_file_is_never_cut_without_a_word(client):
    """Two megabytes come whole as a resource, in parts by the tool; what is too much for a resource is refused, with a way to read it."""
    text = client.text("run_code", {"code": "data = bytes(range(256)) * 8192\nopen('two', 'wb').write(data); open('four', 'wb').write(data * 2)"})
    execution, data = re.search(r"exe_\w+", text)[0], bytes(range(256)) * 8192
    [whole] = client.result("resources/read", {"uri": f"cove://executions/{execution}/files/two"})["contents"]
    assert base64.b64decode(whole["blob"]) == data
    read, offset = b"", 0
    while offset is not None:
        part, *note = client.call("read_artifact", {"execution_id": execution, "path": "two", "offset": offset, "limit": 2**20})["content"]
        read += base64.b64decode(part["resource"]["blob"])
        offset = next((int(found[1]) for one in note if (found := re.search(r'"offset": (\d+) reads on', one["text"]))), None)
    assert read == data
    error = client.ask("resources/read", {"uri": f"cove://executions/{execution}/files/four"})[1][-1]["error"]
    assert f"{2**22} bytes" in error["message"] and "read_artifact" in error["message"], error


def test_long_output_has_head_and_tail_and_the_rest_can_be_read(client):
    text = client.text("run_code", {"code": "for i in range(20000): print(i, 'line')"})
    assert len(text) < 30000 and "0 line\n1 line\n" in text and "19999 line\n" in text
    hint = re.search(r'read_artifact \{"execution_id": "(exe_\w+)", "stream": "stdout", "offset": (\d+)\} reads on', text)
    more = client.text("read_artifact", {"execution_id": hint[1], "stream": "stdout", "offset": int(hint[2])})
    shown = text[:text.index("[...")].splitlines()
    assert int(more.split()[0]) == int(shown[-1].split()[0]) + 1  # it goes on where the head stopped


WRONG = [
    ("run_code", {}, "code: is required"),
    ("run_code", {"code": 1}, "code"),
    ("run_code", {"code": "1", "lang": "python"}, "lang"),
    ("run_code", {"code": "1", "timeout": "soon"}, "timeout"),
    ("run_code", {"code": "1", "language": "cobol"}, "list_runners"),
    ("run_code", {"code": "1", "files": [{"path": "../x", "content": ""}]}, "files[0].path"),
    ("upload_file", {"session_id": "a", "path": "x"}, "content"),
    ("upload_file", {"session_id": "a", "path": "/etc/x", "content": ""}, "path"),
    ("upload_file", {"session_id": "a", "path": "x", "content_base64": "!"}, "content_base64"),
    ("list_artifacts", {}, "either execution_id"),
    ("list_artifacts", {"session_id": "nobody-has-this"}, "session_id"),
    ("read_artifact", {"session_id": "a"}, "path"),
    ("read_artifact", {"execution_id": "exe_" + "0" * 26, "path": "x"}, "execution"),
    ("close_session", {}, "session_id: is required"),
    ("close_session", {"session_id": "nobody-has-this"}, "session"),
    ("list_runners", {"all": True}, "all"),
]


@pytest.mark.parametrize("name, arguments, words", WRONG, ids=[f"{row[0]} {i}" for i, row in enumerate(WRONG)])
def test_bad_arguments_tell_a_model_how_to_call(client, name, arguments, words):
    result = client.call(name, arguments)
    assert result["isError"] is True and words in result["content"][0]["text"]


def test_every_tool_shows_a_good_call_when_called_badly(client):
    for name in TOOLS:
        text = client.call(name, {"no such argument": 1})["content"][0]["text"]
        assert "no such argument" in text and "Example: {" in text


def test_prompts_say_how_to_begin(client):
    prompts = client.result("prompts/list")["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["analyse_data", "draw_chart", "debug_program"]
    got = client.result("prompts/get", {"name": "analyse_data", "arguments": {"file": "sales.csv"}})
    assert "sales.csv" in got["messages"][0]["content"]["text"]
    assert client.request("prompts/get", {"name": "analyse_data"})["error"]["code"] == -32602


def test_other_names_when_the_operator_says_so(shared_server):
    other = ["run_python", "sandbox.run_code", "sandbox.list_runners"]
    assert not set(other) & {tool["name"] for tool in Modern(shared_server).result("tools/list")["tools"]}
    with Server("--mcp-compatible-names") as server:
        client = Modern(server)
        assert [tool["name"] for tool in client.result("tools/list")["tools"]] == TOOLS + other
        assert "42" in client.text("run_python", {"code": "print(42)"})
        assert client.call("run_python", {"code": "1", "language": "bash"})["isError"]
        client.text("sandbox.run_code", {"language": "python", "code": "x = 5", "conversationId": "c1"})
        assert "[value]\n5\n" in client.text("sandbox.run_code", {"code": "x", "conversationId": "c1"})
        assert "[value]\n5\n" in client.text("run_code", {"code": "x", "session_id": "c1"})
        assert client.text("sandbox.list_runners") == client.text("list_runners")


# --- who may ----------------------------------------------------------------------------------------


def new_key(server, *scopes):
    answer = server.post("/api/v1/keys", {"name": "mcp", "scopes": list(scopes)})
    assert answer.status == 201, answer
    return answer.json["key"]


def test_keys_have_their_scopes(shared_server):
    execute, files = (Modern(shared_server, new_key(shared_server, scope)) for scope in ("execute", "files"))
    assert "42" in execute.text("run_code", {"code": "print(42)"})
    for client, name, arguments, scope in [
            (execute, "run_code", {"code": "1", "session_id": "s"}, "sessions:write"), (files, "run_code", {"code": "1"}, "execute"),
            (execute, "upload_file", {"session_id": "s", "path": "a", "content": ""}, "files"),
            (execute, "list_artifacts", {"session_id": "s"}, "files"), (files, "close_session", {"session_id": "s"}, "sessions:write")]:
        result = client.call(name, arguments)
        assert result["isError"] and scope in result["content"][0]["text"], (name, result)


def test_keys_see_only_their_own(shared_server):
    one, other = (Modern(shared_server, new_key(shared_server, "execute", "sessions:read", "sessions:write", "files")) for _ in range(2))
    name = f"mcp-{next(ids)}"
    one.text("run_code", {"session_id": name, "code": "secret = 1; open('s.txt', 'w').write('mine')"})
    execution = re.search(r"exe_\w+", one.text("run_code", {"code": "open('o.txt', 'w').write('mine')"}))[0]
    assert "NameError" in other.text("run_code", {"session_id": name, "code": "secret"})  # a session of its own
    assert other.call("read_artifact", {"session_id": name, "path": "s.txt"})["isError"]
    assert other.call("read_artifact", {"execution_id": execution, "path": "o.txt"})["isError"]
    assert other.request("resources/read", {"uri": f"cove://executions/{execution}/files/o.txt"})["error"]["code"] == -32602
    assert one.text("read_artifact", {"session_id": name, "path": "s.txt"}) == "mine"
    for client in (one, other):
        client.text("close_session", {"session_id": name})


# --- cancelling -------------------------------------------------------------------------------------

SLEEP = "import subprocess; subprocess.run(['sleep', '600'])"
# In a session it says when it can be ended: an interrupt while a process is being started would leave that behind.
SESSION_SLEEP = "import subprocess\np = subprocess.Popen(['sleep', '600'])\ntry:\n    open('begun', 'w').close(); p.wait()\nfinally:\n    p.kill(); p.wait()"


def sleepers(server):
    return covetest.inside(server, "sleep")


def begin(server, body, headers):
    connection = server.connect()
    server.begin(connection, "POST", "/mcp", body, headers=headers)
    wait_for(lambda: sleepers(server), "the program to run")
    return connection


def test_who_leaves_has_cancelled(server):
    begun = {"session_id": "left", "path": "begun"}
    for arguments in ({"code": SLEEP}, {"code": SESSION_SLEEP, "session_id": "left"}):
        connection = begin(server, *modern("tools/call", {"name": "run_code", "arguments": arguments}))
        if "session_id" in arguments:
            wait_for(lambda: not Modern(server).call("read_artifact", begun).get("isError"), "it to wait for its program")
        connection.close()
        wait_for(lambda: not sleepers(server), "the end of the program")


@pytest.mark.parametrize("accept, status, kind", [("application/json, text/event-stream", 200, "text/event-stream"),
                                                  ("application/json", 204, None)], ids=["events", "json"])
def test_a_cancelled_call_leaves_no_process(server, accept, status, kind):
    client = Legacy(server)
    body = message("tools/call", {"name": "run_code", "arguments": {"code": SLEEP}}, id="long")
    connection = begin(server, body, client.headers | {"Accept": accept})
    assert client.tell("notifications/cancelled", {"requestId": "long", "reason": "test"}).status == 202
    wait_for(lambda: not sleepers(server), "the end of the program")
    response = connection.getresponse()
    assert (response.status, response.headers["Content-Type"]) == (status, kind)
    body = response.read()  # a stream that has begun meanwhile is primed, with no message
    assert body == b"" if kind is None else events_of(body) == []
    connection.close()


def test_a_session_that_ends_cancels(server):
    client = Legacy(server)
    connection = begin(server, message("tools/call", {"name": "run_code", "arguments": {"code": SLEEP}}, id=1), client.headers)
    assert client.end().status == 204
    wait_for(lambda: not sleepers(server), "the end of the program")
    connection.close()


def test_a_storm_of_cancels_leaves_nothing(server):
    client = Legacy(server)

    def one(number):
        connection = server.connect()
        body = message("tools/call", {"name": "run_code", "arguments": {"code": SLEEP}}, id=number)
        server.begin(connection, "POST", "/mcp", body, headers=client.headers)
        client.tell("notifications/cancelled", {"requestId": number})
        connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: not sleepers(server), "the end of all programs")
    assert "42" in client.text("run_code", {"code": "print(42)"})


def test_many_calls_at_once(shared_server):
    """Each has a request of its own, so nobody waits for another's place in a session of MCP."""
    client = Modern(shared_server)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        texts = list(pool.map(lambda n: client.text("run_code", {"code": f"print({n} * 2)"}), range(100)))
    assert all(f"[stdout]\n{2 * n}\n" in text for n, text in enumerate(texts))


@pytest.mark.parametrize("session", [{}, {"session_id": "progress"}], ids=["alone", "in a session"])
def test_progress_tells_the_last_line(shared_server, session):
    client = Modern(shared_server)
    code = "import time\nfor i in range(25):\n    print('step', i, flush=True); time.sleep(0.1)"
    _, messages = client.ask("tools/call", {"name": "run_code", "arguments": {"code": code, **session}}, meta={"progressToken": "p"})
    progress = [m["params"] for m in messages if m.get("method") == "notifications/progress"]
    assert progress and all(p["progressToken"] == "p" for p in progress)
    assert [p["progress"] for p in progress] == sorted({p["progress"] for p in progress})
    assert any("step" in p["message"] for p in progress)
    assert "step 24" in messages[-1]["result"]["content"][0]["text"]
    if session:
        client.text("close_session", session)


def test_progress_tells_nothing_of_what_ran_before(shared_server):
    client, session = Modern(shared_server), {"session_id": f"mcp-{next(ids)}"}
    client.text("run_code", {"code": "print('from before')", **session})
    wish = {"name": "run_code", "arguments": {"code": "import time; time.sleep(1.5)", **session}}
    _, messages = client.ask("tools/call", wish, meta={"progressToken": "p"})
    progress = [m["params"]["message"] for m in messages if m.get("method") == "notifications/progress"]
    assert progress and not any("before" in text for text in progress), progress
    client.text("close_session", session)
