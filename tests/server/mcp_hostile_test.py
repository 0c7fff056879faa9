# SPDX-License-Identifier: Apache-2.0
"""Clients and programs that mean MCP no good: after each of them the same server answers, and holds no more than before.

Framing of HTTP is in http_test.py, tokens in keys_test.py; here is what the protocol and the tools make of it."""
import base64
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import threading

import pytest

import covetest
from covetest import wait_for
from mcp_client import BOTH_KINDS, LEGACY, Legacy, Modern, ids, message, modern
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

MEMORY = (96 if not covetest.IS_ASAN else 512) << 20  # above that of a server that has done little, whatever came before
CALL = {"name": "list_runners"}
ONE_ANSWER = {"Accept": "application/json"}  # which becomes no stream, however long it takes


@pytest.fixture(scope="module")
def server():
    with Server("--timeout", "1m") as server:
        for client in (Modern(server), Legacy(server)):  # what is made once is there from now on
            client.text("run_code", {"code": "print(1)"})
        server.idle_memory = resident(server)
        yield server
        assert server.stop() == 0
        server.nothing_is_left()


def resident(server):
    return covetest.own_memory(server.coved)


def descriptors(server):
    return len(os.listdir(f"/proc/{server.coved}/fd"))


@pytest.fixture(autouse=True)
def it_lives(server):
    """The same process answers, its memory and descriptors are as before, and no program of a client runs on."""
    coved, open_before = server.coved, descriptors(server)
    yield
    assert server.coved == coved and server.get("/health").status == 200
    assert "[stdout]\n42\n" in Modern(server).text("run_code", {"code": "print(6 * 7)"})
    wait_for(lambda: descriptors(server) <= open_before + 16, "its descriptors to be closed")
    wait_for(lambda: resident(server) - server.idle_memory < MEMORY, "its memory to be given back")
    assert not covetest.inside(server, "sleep")


def post(server, body, headers=None, **more):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.post("/mcp", data, headers={"Content-Type": "application/json", "Accept": BOTH_KINDS} | (headers or {}), **more)


# --- messages ---------------------------------------------------------------------------------------

MB = b"x" * 2**20
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def call_with(arguments):
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":' + arguments + b"}}"


MESSAGES = [
    ("arrays 100,000 deep", call_with(b"[" * 100_000 + b"]" * 100_000)),
    ("arrays that are never closed", b"[" * 2**20),
    ("objects 100,000 deep", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ("brackets in a text", call_with(b'{"code":"' + b"[{" * 100_000 + b'","x":1}')),
    ("a key twice", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'),
    ("a key twice in params", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_runners","name":"run_code"}}'),
    ("a key twice in arguments", call_with(b'{"code":"print(1)","code":"print(2)"}')),
    ("a key twice in _meta", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}'),
    ("bytes that are no UTF-8", call_with(b'{"code":"\xff\xfe"}')),
    ("half a surrogate", call_with(b'{"code":"\\ud800"}')),
    ("overlong UTF-8", call_with(b'{"code":"\xc0\xaf"}')),
    ("an escaped NUL", call_with(b'{"code":"\\u0000"}')),
    ("a byte order mark", b"\xef\xbb\xbf" + PING),
    ("UTF-16", PING.decode().encode("utf-16")),
    ("a comment", PING + b"// x"),
    ("two messages", PING + PING),
    ("a trailing comma", b'{"jsonrpc":"2.0","id":1,"method":"ping",}'),
    ("not a number", b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}'),
    ("a number too large", b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}'),
    ("an id that is an object", b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}'),
    ("an id that is a list", b'{"jsonrpc":"2.0","id":[1],"method":"ping"}'),
    ("an id that is true", b'{"jsonrpc":"2.0","id":true,"method":"ping"}'),
    ("an id beyond 64 bits", b'{"jsonrpc":"2.0","id":18446744073709551617,"method":"ping"}'),
    ("an id of 1 MB", b'{"jsonrpc":"2.0","id":"' + MB + b'","method":"ping"}'),
    ("a version that is a number", b'{"jsonrpc":2.0,"id":1,"method":"ping"}'),
    ("a method that is a list", b'{"jsonrpc":"2.0","id":1,"method":["ping"]}'),
    ("a method of 1 MB", b'{"jsonrpc":"2.0","id":1,"method":"' + MB + b'"}'),
    ("a method with control characters", b'{"jsonrpc":"2.0","id":1,"method":"tools/call\\r\\nX: y\\u001b[2J"}'),
    ("a tool of 1 MB", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + MB + b'"}}'),
    ("a tool that is a number", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}'),
    ("100,000 arguments", call_with(b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}")),
    ("an argument's name of 1 MB", call_with(b'{"' + MB + b'":1}')),
    ("an argument of 20 MB", call_with(b'{"code":"' + MB * 20 + b'"}')),
    ("an address of 1 MB", b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"' + MB + b'"}}'),
    ("a cursor of 1 MB", b'{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"cursor":"' + MB + b'"}}'),
    ("_meta that is a list", b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":[]}}'),
    ("a progress token that is an object", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_runners","_meta":{"progressToken":{}}}}'),
    ("a result and an error", b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}'),
    ("an answer that nobody asked for", b'{"jsonrpc":"2.0","id":"nobody","result":{}}'),
    ("nothing", b""),
    ("blanks", b" " * 2**20),
    ("NUL bytes", b"\0" * 100),
]


@pytest.mark.parametrize("body", [row[1] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_messages_that_are_none(server, body):
    """Refused in the shape of the protocol, in few words, and nothing runs."""
    answer = post(server, body)
    assert answer.status in (200, 202, 400, 404, 413), answer
    assert len(answer.body) < 12 * 1024 or b'"id":"xxxx' in answer.body, len(answer.body)
    if answer.status != 202:
        told = answer.json
        assert told["jsonrpc"] == "2.0" and ("error" in told or told["result"].get("isError") or "tools" in told["result"] or
                                             "python" in told["result"]["content"][0]["text"]), told
        assert not re.search(rb"[\x00-\x1f\x7f]", answer.body)


def test_a_body_beyond_the_limit_is_refused_at_its_head(server):
    answer = post(server, b"{" + b" " * (25 << 20))
    assert answer.status == 413


ERAS = ["", "x", "1999-01-01", "2099-12-31", "2026-07-28 ", "2026-07-28\n", "2025-11-25,2026-07-28", "DRAFT-2026", "9" * 2**20, 7, None, {}, ["2026-07-28"]]


@pytest.mark.parametrize("version", ERAS, ids=[str(i) for i in range(len(ERAS))])
def test_eras_that_nobody_speaks(server, version):
    body, head = modern("tools/call", CALL)
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = version
    answer = post(server, body, head)
    assert answer.status == 400 and answer.json["error"]["code"] in (-32020, -32022, -32602), answer.json
    assert len(answer.body) < 8 * 1024
    answer = post(server, message("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}, id=1))
    if isinstance(version, str):  # an unknown one is answered with ours, never taken on
        assert answer.json["result"]["protocolVersion"] == LEGACY
    else:
        assert answer.json["error"]["code"] == -32602


def test_a_header_cannot_smuggle_a_method(server):
    """What a proxy lets through by its header is what is done, or nothing."""
    for name, value in (("Mcp-Method", "tools/list"), ("Mcp-Name", "list_runners"), ("Mcp-Name", "=?base64?!!?="), ("Mcp-Name", "=?base64?" + "A" * 5000 + "?="),
                        ("MCP-Protocol-Version", LEGACY)):
        body, head = modern("tools/call", {"name": "run_code", "arguments": {"code": "print(1)"}})
        answer = post(server, body, head | {name: value})
        assert answer.status == 400 and answer.json["error"]["code"] == -32020


def test_an_id_twice_at_once_is_one_call(server):
    """Who uses an id again while it runs is refused; the first is answered."""
    client, name = Legacy(server), f"hostile-{next(ids)}"
    connection = server.connect()
    code = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('first')"
    body = message("tools/call", {"name": "run_code", "arguments": {"code": code, "session_id": name}}, id="same")
    server.begin(connection, "POST", "/mcp", body, headers=client.headers | ONE_ANSWER)
    wait_for(lambda: not client.call("read_artifact", {"session_id": name, "path": "begun"}).get("isError"), "the first to run")
    answer = post(server, message("tools/call", {"name": "run_code", "arguments": {"code": "print('second')"}}, id="same"), client.headers)
    assert answer.json["error"]["code"] == -32600 and "second" not in answer.body.decode()
    client.text("upload_file", {"session_id": name, "path": "go", "content": ""})
    assert "first" in json.loads(connection.getresponse().read())["result"]["content"][0]["text"]
    connection.close()
    client.text("close_session", {"session_id": name})


# --- sessions ---------------------------------------------------------------------------------------


def new_key(server, *scopes):
    return server.post("/api/v1/keys", {"name": "mcp", "scopes": list(scopes)}).json["key"]


ALL = "execute", "sessions:read", "sessions:write", "files"


def test_nobody_chooses_his_session(server):
    """Fixation: an id that a client brings along is never the one that it gets."""
    chosen = "a" * 52
    body = message("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}, id=1)
    assert post(server, body, {"Mcp-Session-Id": chosen}).status == 404
    seen = {post(server, body).headers["Mcp-Session-Id"] for _ in range(64)}
    assert len(seen) == 64 and chosen not in seen and all(re.fullmatch(r"[0-9a-z]{52}", one) for one in seen)


def test_a_session_id_is_no_key(server):
    """Who has learnt it, and has a key of his own, or none, gets nowhere with it."""
    mine, theirs = new_key(server, *ALL), new_key(server, *ALL)
    client = Legacy(server, mine)
    for token, status in ((theirs, 404), (None, 401)):
        for method, body in (("POST", message("tools/list", id=1)), ("POST", message("notifications/cancelled", {"requestId": 1})), ("GET", None), ("DELETE", None)):
            for more in ({}, {"Last-Event-ID": "1-0"}, {"Last-Event-ID": "1-1"}):
                answer = server.request(method, "/mcp", body, token=token, headers=client.headers | {"Accept": BOTH_KINDS} | more)
                assert answer.status == status, (method, answer)
    assert client.result("ping") == {}


def test_another_key_cancels_nothing(server):
    mine, theirs = (Legacy(server, new_key(server, *ALL)) for _ in range(2))
    connection = server.connect()
    body = message("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(1); print('done')"}}, id=7)
    server.begin(connection, "POST", "/mcp", body, token=mine.token, headers=mine.headers | ONE_ANSWER)
    wait_for(lambda: server.get("/health").json["load"]["running"] > 0, "it to run")
    assert theirs.tell("notifications/cancelled", {"requestId": 7}).status == 202
    assert "done" in json.loads(connection.getresponse().read())["result"]["content"][0]["text"]
    connection.close()


GUESSES = ["0" * 52, "z" * 52, "a", "", "../" * 10, "%00", "' OR 1=1 --", "%n%n%n%n", "é", "a" * 8000, "ses_" + "0" * 26]


@pytest.mark.parametrize("guess", GUESSES, ids=[str(i) for i in range(len(GUESSES))])
def test_guessed_sessions(server, guess):
    client = Legacy(server)
    for session in (guess, client.session[:-1] + ("0" if client.session[-1] != "0" else "1"), client.session.upper(), client.session + " x"):
        if session == client.session:
            continue
        answer = post(server, message("ping", id=1), {"Mcp-Session-Id": session.encode().decode("latin-1")})
        assert answer.status in (404, 400) or (session == "" and answer.status == 200), (session, answer)


# --- where requests come from -----------------------------------------------------------------------

ORIGINS = ["http://evil.example", "https://127.0.0.1.evil.example", "null", "http://localhost.evil.example:{port}", "http://127.0.0.1@evil.example",
           "file://", "http://[::1]evil", "http://127.0.0.1:{port}.evil.example", "javascript:alert(1)"]
HOSTS = ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost@evil.example", "127.0.0.1:{port}, evil.example"]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_rebinding(server, method):
    port = server.url.rpartition(":")[2]
    body = message("tools/call", {"name": "run_code", "arguments": {"code": "print(1)"}}, id=1) if method == "POST" else None
    for name, values in (("Origin", ORIGINS), ("Host", HOSTS)):
        for value in values:
            answer = server.request(method, "/mcp", body, headers={name: value.format(port=port), "Accept": BOTH_KINDS})
            assert answer.status in (400, 403, 421) and b"result" not in answer.body, (name, value, answer)
    if method == "POST":
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            assert server.post("/mcp", json.dumps(body).encode(), headers={"Content-Type": kind}).status == 415


# --- many, and slow ---------------------------------------------------------------------------------


def raw(server, method, body=b"", headers=()):
    """A connection with a request on it, of which nothing is read."""
    port = int(server.url.rpartition(":")[2])
    one = socket.create_connection(("127.0.0.1", port))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lines = [f"{method} /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {server.token}", "Content-Type: application/json",
             f"Accept: {BOTH_KINDS}", f"Content-Length: {len(body)}", *headers]
    one.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return one


def test_a_thousand_streams(server):
    before = resident(server)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(raw(server, "GET")) for _ in range(1000)]
        for one in streams:
            one.settimeout(covetest.PATIENCE)
            assert b"200" in one.recv(100)
        assert resident(server) - before < MEMORY
        assert Modern(server).result("tools/list")["tools"]


def test_a_thousand_sessions(server):
    for _ in range(1000):
        last = Legacy(server)
    assert last.result("ping") == {}


def test_readers_who_do_not_read(server):
    """Each is owed some megabytes and takes none: what is kept for them is bounded, and others are served."""
    code = "import base64, os\nfor i in range(2): open(f'{i}.txt', 'w').write('x' * 900_000)\nprint('y' * 900_000)"
    client = Modern(server)
    execution = re.search(r"\[files of (exe_\w+)", client.text("run_code", {"code": code}))[1]
    arguments = {"execution_id": execution, "path": "0.txt", "limit": 2**20}
    body, head = modern("tools/call", {"name": "read_artifact", "arguments": arguments})
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(raw(server, "POST", json.dumps(body).encode(), [f"{name}: {value}" for name, value in head.items() if name != "Accept"]))
        wait_for(lambda: Modern(server).result("tools/list")["tools"], "an answer to somebody else")
        assert "[stdout]\n1\n" in client.text("run_code", {"code": "print(1)"})


def test_many_calls_at_once(server):
    client = Modern(server)
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        results = list(pool.map(lambda n: client.call("list_runners") if n % 2 else client.result("resources/list"), range(600)))
    assert all("content" in result or "resources" in result for result in results)


@pytest.mark.skipif(covetest.IS_ASAN, reason="the allocator of the sanitizer keeps what was freed")
def test_a_wave_does_not_stay(server):
    """What large answers took is given back soon after, also where something small lives on above it."""
    test_readers_who_do_not_read(server)
    test_much_output_is_bounded_and_can_be_read(server)
    wait_for(lambda: resident(server) - server.idle_memory < 24 << 20, "what a wave took")


# --- programs ---------------------------------------------------------------------------------------


def test_output_in_a_stream_makes_no_message(server):
    """Progress makes the answer a stream of events; what a program prints cannot end one, nor begin another."""
    forged = json.dumps(message("notifications/cancelled", {"requestId": "r"}))
    code = f"import time\nfor i in range(14):\n    print('x\\r\\n\\r\\ndata: ' + {forged!r} + '\\r\\n\\r\\nevent: message\\nid: 9-9', flush=True); time.sleep(0.1)"
    client, name = Modern(server), f"hostile-{next(ids)}"
    _, messages = client.ask("tools/call", {"name": "run_code", "arguments": {"code": code, "session_id": name}}, meta={"progressToken": "t"})
    assert [m["method"] for m in messages[:-1]] == ["notifications/progress"] * (len(messages) - 1) and len(messages) > 1
    assert messages[-1]["result"]["content"][0]["text"].startswith("completed")
    client.text("close_session", {"session_id": name})


def test_much_output_is_bounded_and_can_be_read(server):
    client = Modern(server)
    for code in ("import sys\nfor _ in range(3000): sys.stdout.write('\\x1b' * 10_000)", "print('[stdout]\\n' * 1_000_000)", "print('\\u202e' * 3_000_000)"):
        text = client.text("run_code", {"code": code})
        assert len(text.encode()) < 200_000 and text.startswith("completed")
        hint = re.search(r'read_artifact (\{"execution_id": "exe_\w+", "stream": "stdout", "offset": \d+\}) reads on', text)
        assert len(client.text("read_artifact", json.loads(hint[1]))) > 1000


PLACES = [
    ("a link to a file of the host", "os.symlink('/etc/hostname', 'f')"),
    ("a link to itself", "os.symlink('f', 'f')"),
    ("a link that leads out", "os.symlink('../../../../etc', 'f')"),
    ("a fifo", "os.mkfifo('f')"),
    ("a socket", "import socket; s = socket.socket(socket.AF_UNIX); s.bind('f')"),
    ("a folder", "os.mkdir('f')"),
    ("nothing that may be read", "open('f', 'w').write('x'); os.chmod('f', 0)"),
]


@pytest.mark.parametrize("code", [row[1] for row in PLACES], ids=[row[0] for row in PLACES])
def test_what_is_no_file_is_not_read(server, code):
    client, name = Modern(server), f"hostile-{next(ids)}"
    client.text("run_code", {"session_id": name, "code": "import os\n" + code})
    result = client.call("read_artifact", {"session_id": name, "path": "f"})
    text = result["content"][0]["text"]
    assert (result.get("isError") or text == "x") and socket.gethostname() not in text and "/etc" not in text, result
    client.text("list_artifacts", {"session_id": name})
    client.text("close_session", {"session_id": name})


def test_a_file_larger_than_any_answer(server):
    client, name = Modern(server), f"hostile-{next(ids)}"
    client.text("run_code", {"session_id": name, "code": "open('huge', 'wb').truncate(2**26); open('huge.png', 'wb').truncate(2**26)"})
    part, range_ = client.call("read_artifact", {"session_id": name, "path": "huge", "offset": 2**25, "limit": 10})["content"]
    assert part["resource"]["blob"] == "AAAAAAAAAAAAAA=="
    assert range_["text"] == f'[bytes {2**25} to {2**25 + 10} of {2**26}; "offset": {2**25 + 10} reads on]'
    whole, range_ = client.call("read_artifact", {"session_id": name, "path": "huge"})["content"]
    assert len(whole["resource"]["blob"]) < 100_000 and f"of {2**26}; " in range_["text"]
    assert client.call("read_artifact", {"session_id": name, "path": "huge.png"})["isError"]
    client.text("close_session", {"session_id": name})


def test_a_file_that_changes_while_it_is_read(server):
    """Grown, cut and replaced all the time: an answer of some moment or an error, and never a hang."""
    client, name = Modern(server), f"hostile-{next(ids)}"
    code = ("import os, subprocess, sys\nprogram = '''\nimport os\nfor i in range(4000):\n    open(\"f\", \"w\").write(\"x\" * (i % 7 * 30000))\n"
            "    os.replace(\"f\", \"g\") if i % 3 == 0 else os.truncate(\"f\", 5)\n'''\nsubprocess.Popen([sys.executable, '-c', program])\n"
            "import time\nwhile not os.path.exists('g'): time.sleep(0.01)")
    client.text("run_code", {"session_id": name, "code": code})
    seen = set()
    for i in range(60):
        result = client.call("read_artifact", {"session_id": name, "path": "fg"[i % 2]})
        item = result["content"][0]
        seen.add(bool(result.get("isError")))
        if item["type"] == "resource":  # an empty file that was cut to five bytes has five NULs, which are no text
            assert base64.b64decode(item["resource"]["blob"]) == bytes(5), item
        else:
            assert result.get("isError") or re.fullmatch(r"(x*)(\n?\[.*\])?", item["text"], re.S), item["text"][:200]
    assert False in seen
    client.text("close_session", {"session_id": name})


URIS = ["cove://executions/{id}/files/../../../etc/passwd", "cove://executions/{id}/files/%2e%2e/%2e%2e/etc/passwd", "cove://executions/{id}/files//etc/passwd",
        "cove://executions/{id}/files/a%00b", "cove://executions/{id}/files/", "cove://executions/{id}/files/a?x=1", "cove://executions/{id}/files/a#x",
        "cove://executions/{id}/stdout/x", "cove://executions/{id}", "cove://executions/{id}/files/" + "a/" * 2000, "COVE://executions/{id}/files/a",
        "cove://executions/{id}/files/%ff", "cove://executions/{id}/files/a%0d%0aX-Evil: 1", "cove://sessions/{id}/files/a", "//executions/{id}/files/a"]


@pytest.mark.parametrize("uri", URIS, ids=[str(i) for i in range(len(URIS))])
def test_addresses_that_lead_elsewhere(server, uri):
    client = Modern(server)
    execution = re.search(r"\[files of (exe_\w+)", client.text("run_code", {"code": "open('a', 'w').write('kept')"}))[1]
    body, head = modern("resources/read", {"uri": uri.format(id=execution)})
    if any(ord(c) < 32 for c in body["params"]["uri"]):
        head["Mcp-Name"] = "x"
    answer = post(server, body, head)
    assert "error" in answer.json and b"root:" not in answer.body and b"kept" not in answer.body, answer


def test_storms_of_new_sessions(server):
    """The same new name from many calls makes one session; different ones are bounded by what the key may have."""
    answer = server.post("/api/v1/keys", {"name": "mcp", "scopes": list(ALL), "quota": {"sessions": 2}})
    client = Modern(server, answer.json["key"])
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: client.call("run_code", {"session_id": f"storm-{n % 8}", "code": "print('in')"}), range(48)))
    refused = [r["content"][0]["text"] for r in results if r.get("isError")]
    assert refused and len(refused) < 48 and all("quota" in text or "sessions" in text for text in refused), refused[:2]
    for n in range(8):
        client.call("close_session", {"session_id": f"storm-{n}"})


def test_who_leaves_while_pictures_are_fetched(server):
    """Between the end of a program and its answer there is work, too."""
    picture = ("import struct, zlib\ndef chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n"
               "p = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)) + chunk(b'teSt', b'x' * 100000) + chunk(b'IEND', b'')\n"
               "for i in range(8): open(f'{i}.png', 'wb').write(p)\n")

    def leave(number):
        body, head = modern("tools/call", {"name": "run_code", "arguments": {"code": picture}})
        one = raw(server, "POST", json.dumps(body).encode(), [f"{name}: {value}" for name, value in head.items() if name != "Accept"])
        threading.Event().wait(number * 0.004)  # at a different moment each
        one.close()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(leave, range(40)))
    wait_for(lambda: server.get("/health").json["load"]["running"] == 0, "the end of all")
