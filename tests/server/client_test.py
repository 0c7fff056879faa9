# SPDX-License-Identifier: Apache-2.0
"""The commands that talk to a server, against one that is played: sessions, templates, keys, errors, and who is asked."""
import json
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

import covetest
from covetest import EXIT_DENIED, EXIT_INVALID, EXIT_NOT_FOUND, PATIENCE
from played_server import (EXIT_CONFLICT, EXIT_INTERNAL, EXIT_RETRY, EXIT_TOO_LARGE, EXIT_UNAVAILABLE, REQUEST_ID,
                           SES, TPL, Client, Server, client, error, raw, server, session)  # noqa: F401


# --- sessions -------------------------------------------------------------------------------------


def test_sessions_are_listed_page_by_page(client, server):
    second = "ses_" + "3" * 26
    server.script["GET /sessions"] = [
        {"sessions": [session(name="one", state="busy")], "next_cursor": "a b&c"},
        {"sessions": [session(id=second)], "next_cursor": None}]
    lines = client.good("session", "list").splitlines()
    assert lines[0].split()[:5] == ["ID", "NAME", "STATE", "TEMPLATE", "LANGUAGE"]
    assert [line.split()[:4] for line in lines[1:]] == [[SES, "one", "busy", "python"], [second, "-", "ready", "python"]]
    assert "268 MB" in lines[1]
    assert [request["query"] for request in server.requests] == [
        {"live": "true", "limit": "200"}, {"live": "true", "limit": "200", "cursor": "a b&c"}]
    assert "authorization" not in server.requests[0]["headers"]


def test_a_list_as_json_is_one_document(client, server):
    server.script["GET /sessions"] = [{"sessions": [session()], "next_cursor": "x"},
                                      {"sessions": [session(name="b")], "next_cursor": None}]
    document = json.loads(client.good("session", "list", "--json"))
    assert document == {"sessions": [session(), session(name="b")], "next_cursor": None}


def test_filters_of_a_list(client, server):
    server.script["GET /sessions"] = {"sessions": [], "next_cursor": None}
    assert "cove session create" in client.good("session", "list", "--all", "--template", "a/b", "--metadata", "user=ada&x")
    assert server.requests[0]["query"] == {"limit": "200", "template": "a/b", "metadata": "user=ada&x"}


def test_what_a_session_is_asked_to_be(client, server):
    server.script["POST /sessions"] = (201, session(name="n"))
    options = ["-t", "python-data", "-n", "n", "--ttl", "2h", "--idle-timeout", "90", "--memory", "1G", "--cpus", "1.5",
               "--pids", "50", "--disk", "64M", "-e", "A=b=c", "--metadata", "user=ada"]
    assert client.good("session", "create", *options) == SES + "\n"
    assert server.requests[0]["body"] == {
        "template": "python-data", "name": "n", "ttl": 7200, "idle_timeout": 90,
        "resources": {"memory_bytes": 1 << 30, "cpus": 1.5, "pids": 50, "disk_bytes": 64 << 20},
        "env": {"A": "b=c"}, "metadata": {"user": "ada"}}
    assert server.requests[0]["headers"]["content-type"] == "application/json"
    assert json.loads(client.good("session", "create", "--json")) == session(name="n")
    assert server.requests[1]["body"] == {}


def test_bad_options_never_reach_the_server(client, server):
    for args in (["session", "create", "-e", "novalue"], ["session", "extend", "x"], ["session", "extend", "x", "soon"],
                 ["session", "rm"], ["exec"], ["exec", "s", "file", "-c", "x"], ["logs"], ["template", "create"],
                 ["template", "create", "x", "--pool", "many"], ["key", "create"], ["session", "list", "--nonsense"]):
        done = client(*args)
        assert done.returncode == EXIT_INVALID, args
        assert done.stderr.startswith("cove: "), args
    assert server.requests == []


def test_a_session_is_shown_and_changed(client, server):
    server.script[f"GET /sessions/{SES}"] = session(metadata={"user": "ada"})
    server.script[f"DELETE /sessions/{SES}"] = session(state="terminated")
    for verb in ("reset", "interrupt"):
        server.script[f"POST /sessions/{SES}/{verb}"] = session()
    server.script[f"POST /sessions/{SES}/extend"] = session(expires_at="2026-01-02T05:04:05.678Z")
    shown = client.good("session", "show", SES)
    assert f"id            {SES}\n" in shown and "memory        268 MB\n" in shown and '{"user":"ada"}' in shown
    assert client.good("session", "reset", SES) == f"{SES}: ready\n"
    assert client.good("session", "interrupt", SES) == f"{SES}: ready\n"
    assert client.good("session", "extend", SES, "2h") == f"{SES}: expires 2026-01-02T05:04:05.678Z\n"
    assert server.requests[-1]["body"] == {"ttl": 7200}
    assert client.good("session", "rm", SES, SES) == f"{SES}: terminated\n" * 2
    assert json.loads(client.good("session", "rm", SES, SES, "--json")) == [session(state="terminated")] * 2


def test_names_are_encoded(client, server):
    assert client("session", "show", "../keys?x#y z").returncode == EXIT_NOT_FOUND
    assert server.requests[0]["path"] == "/sessions/..%2Fkeys%3Fx%23y%20z"


def test_what_a_server_says_does_not_steer_the_terminal(client, server):
    server.script["GET /sessions"] = {"sessions": [session(name="\x1b]0;evil\x07")], "next_cursor": None}
    server.script["POST /sessions"] = (409, error("name_taken", "\x1b[2Jgone", "\x07"))
    assert "\x1b" not in client.good("session", "list")
    done = client("session", "create")
    assert "\x1b" not in done.stderr and "\\x1b[2Jgone" in done.stderr


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, code, exit_status", [
    (400, "invalid", EXIT_INVALID), (422, "unprocessable", EXIT_INVALID), (401, "unauthorized", EXIT_DENIED),
    (403, "scope_missing", EXIT_DENIED), (404, "session_not_found", EXIT_NOT_FOUND), (409, "session_busy", EXIT_CONFLICT),
    (413, "too_large", EXIT_TOO_LARGE), (429, "rate_limited", EXIT_RETRY), (500, "internal", EXIT_INTERNAL),
    (503, "unavailable", EXIT_UNAVAILABLE), (503, "isolation", 71), (504, "timeout", EXIT_RETRY),
    (507, "storage_full", EXIT_UNAVAILABLE), (418, "teapot", EXIT_INVALID),
])
def test_an_error_of_the_server_is_told(client, server, status, code, exit_status):
    server.script[f"GET /sessions/{SES}"] = (status, error(code))
    done = client("session", "show", SES, "--token", "secret")
    assert done.returncode == exit_status
    assert done.stderr == f"cove: it cannot be\n      try another\n      request {REQUEST_ID}\n"
    assert done.stdout == ""
    done = client("session", "show", SES, "--json", "--token", "secret")
    assert (done.returncode, json.loads(done.stdout)) == (exit_status, error(code))
    assert done.stderr == ""


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("answer, exit_status, words", [
    (raw(HEAD + b"Content-Length: 100\r\n\r\n{\"id\":"), EXIT_UNAVAILABLE, "ask the server"),  # closed in the middle
    (raw(b""), EXIT_UNAVAILABLE, "ask the server"),
    (raw(b"SSH-2.0-OpenSSH\r\n"), EXIT_UNAVAILABLE, "is this a server of Cove's"),
    (raw(HEAD + b"Content-Length: 5\r\n\r\n{\"a\":"), EXIT_UNAVAILABLE, "makes no sense"),
    (raw(HEAD + b"Content-Length: 4\r\n\r\n\xff\xfe{}"), EXIT_UNAVAILABLE, "makes no sense"),
    (raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), EXIT_UNAVAILABLE, "ask the server"),
    (lambda h: h.send(200, "<html>hello</html>", "text/html"), EXIT_UNAVAILABLE, "makes no sense"),
    (lambda h: h.send(502, "<html>bad gateway</html>", "text/html"), EXIT_UNAVAILABLE, "status 502 and no reason"),
    (lambda h: h.send(500, ""), EXIT_INTERNAL, "status 500 and no reason"),
    (lambda h: h.send(500, '{"error": "no"}'), EXIT_INTERNAL, "status 500 and no reason"),
    (lambda h: h.send(302, "", headers=[("Location", "http://127.0.0.1:1/")]), EXIT_INTERNAL, "status 302"),
    (lambda h: h.send(200, "[" * 100 + "]" * 100), EXIT_UNAVAILABLE, "makes no sense"),
])
def test_bad_answers_are_told_as_such(client, server, answer, exit_status, words):
    server.script[f"GET /sessions/{SES}"] = answer
    done = client("session", "show", SES)
    assert done.returncode == exit_status, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    assert len(server.requests) == 1


def test_an_answer_without_its_list_is_no_empty_list(client, server):
    server.script["GET /sessions"] = {"rows": []}
    done = client("session", "list")
    assert done.returncode == EXIT_UNAVAILABLE and "no list of 'sessions'" in done.stderr


def test_no_server_at_all(cove, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        done = Client(cove, f"http://127.0.0.1:{unused.getsockname()[1]}", tmp_path)("session", "list")
    assert done.returncode == EXIT_UNAVAILABLE
    assert "cove serve" in done.stderr


def test_a_slow_answer_is_waited_for_and_no_longer(client, server):
    release = threading.Event()

    def slow(handler):
        release.wait(PATIENCE)
        handler.send(200, json.dumps(session()))
    server.script[f"GET /sessions/{SES}"] = slow
    done = client("session", "show", SES, "--server-timeout", "1s")
    release.set()
    assert done.returncode == EXIT_RETRY and "--server-timeout" in done.stderr


@pytest.mark.parametrize("url, words", [
    ("ftp://host", "only http, https and unix"), ("http://user:pass@host", "use --token"), ("unix:relative", "a slash"),
    ("http://", "no address"), ("http://host?x=1", "no query"), ("localhost:8080", "no address"),
])
def test_bad_addresses(cove, tmp_path, url, words):
    done = Client(cove, url, tmp_path)("session", "list")
    assert done.returncode == EXIT_INVALID and words in done.stderr
    assert "pass" not in done.stderr.replace("password", "")


# --- who asks, and where --------------------------------------------------------------------------


def token_of(server):
    return server.requests[-1]["headers"].get("authorization")


def test_where_the_token_comes_from(client, server, tmp_path):
    server.script["GET /sessions"] = {"sessions": [], "next_cursor": None}
    (tmp_path / "server").mkdir()
    (tmp_path / "server/token").write_text("from-the-server\n")
    (tmp_path / "mine").write_text("from-a-file\n")
    client.good("session", "list")
    assert token_of(server) == "Bearer from-the-server"
    client.good("session", "list", env={"COVE_TOKEN_FILE": str(tmp_path / "mine")})
    assert token_of(server) == "Bearer from-a-file"
    client.good("session", "list", env={"COVE_TOKEN": "from-the-environment"})
    assert token_of(server) == "Bearer from-the-environment"
    client.good("session", "list", "--token", "from-a-flag", env={"COVE_TOKEN": "from-the-environment"})
    assert token_of(server) == "Bearer from-a-flag"


def test_the_own_token_goes_to_no_other_machine(cove, server, tmp_path):
    """A proxy stands for the other machine: what it is shown is what would leave this one."""
    server.script["GET http://cove.example.org/api/v1/sessions"] = {"sessions": [], "next_cursor": None}
    (tmp_path / "server").mkdir()
    (tmp_path / "server/token").write_text("from-the-server\n")
    client = Client(cove, "http://cove.example.org", tmp_path)
    client.good("session", "list", env={"http_proxy": server.url})
    assert token_of(server) is None
    client.good("session", "list", env={"http_proxy": server.url, "COVE_TOKEN": "given"})
    assert token_of(server) == "Bearer given"


def test_a_server_on_this_machine_is_asked_without_a_proxy(client, server):
    server.script["GET /sessions"] = {"sessions": [], "next_cursor": None}
    client.good("session", "list", env={"http_proxy": "http://127.0.0.1:1"})


def test_a_token_is_hinted_at_when_there_was_none(client, server):
    server.script["GET /sessions"] = (401, error("unauthorized", "who is it?", None))
    assert "COVE_TOKEN" in client("session", "list").stderr


def test_a_token_that_would_break_the_request_is_refused(client, server):
    done = client("session", "list", "--token", "a\r\nHost: evil")
    assert done.returncode == EXIT_INVALID and "evil" not in done.stderr
    assert server.requests == []


def test_a_unix_socket(cove, tmp_path):
    server = Server(path=str(tmp_path / "socket"))
    try:
        server.script["GET /sessions"] = {"sessions": [session()], "next_cursor": None}
        assert SES in Client(cove, server.url, tmp_path).good("session", "list")
    finally:
        server.close()


def test_https_only_with_a_certificate_that_is_known(cove, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = Server(tls=tls)
    try:
        server.script["GET /sessions"] = {"sessions": [session()], "next_cursor": None}
        client = Client(cove, server.url, tmp_path)
        done = client("session", "list")
        assert done.returncode == EXIT_DENIED and "--server-ca" in done.stderr
        assert server.requests == []
        assert SES in client.good("session", "list", "--server-ca", certificate)
    finally:
        server.close()


# --- templates and keys ---------------------------------------------------------------------------


def template(**more):
    return {"id": TPL, "name": "data", "language": "python", "image": "python", "resources": {"memory_bytes": 1 << 30},
            "env": {"A": "1"}, "preload": ["numpy"], "network": {"policy": "none"}, "pool": {"min": 0, "max": 16},
            "timeout": None, "problem": None, "version": 3, "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-02T03:04:05Z"} | more


def test_templates_are_listed_and_shown(client, server):
    server.script["GET /templates"] = {"templates": [template()], "next_cursor": None}
    server.script["GET /templates/data"] = template()
    lines = client.good("template", "list").splitlines()
    assert lines[0].split() == ["NAME", "LANGUAGE", "IMAGE", "MEMORY", "CPUS", "PRELOAD", "ID"]
    assert lines[1].split() == ["data", "python", "python", "1.1", "GB", "-", "numpy", TPL]
    assert json.loads(client.good("template", "show", "data")) == template()


def test_a_template_is_created_from_options_and_documents(client, server, tmp_path):
    server.script["POST /templates"] = (201, template())
    assert client.good("template", "create", "data", "-l", "python", "-p", "numpy", "-p", "pandas", "--memory", "1G",
                       "--pool", "0:4", "--timeout", "90s", "-e", "A=1") == "data\n"
    assert server.requests[0]["body"] == {
        "name": "data", "language": "python", "preload": ["numpy", "pandas"], "resources": {"memory_bytes": 1 << 30},
        "pool": {"min": 0, "max": 4}, "timeout": 90, "env": {"A": "1"}}
    (tmp_path / "t.json").write_text(json.dumps(template()))  # as `show` has printed it
    client.good("template", "create", "copy", "-f", tmp_path / "t.json", "--cpus", "2")
    assert server.requests[1]["body"] == {
        "name": "copy", "language": "python", "image": "python", "resources": {"memory_bytes": 1 << 30, "cpus": 2},
        "env": {"A": "1"}, "preload": ["numpy"], "network": {"policy": "none"}, "pool": {"min": 0, "max": 16}}
    for text in ("[]", "{", ""):
        assert client("template", "create", "-f", "-", input=text).returncode == EXIT_INVALID


def test_a_template_is_updated_in_what_is_named(client, server):
    server.script["GET /templates/data"] = template()
    server.script["PUT /templates/data"] = template(version=4)
    client.good("template", "update", "data", "--memory", "2G", "-e", "B=2")
    assert server.requests[1]["body"] == {
        "name": "data", "language": "python", "image": "python", "resources": {"memory_bytes": 2 << 30},
        "env": {"A": "1", "B": "2"}, "preload": ["numpy"], "network": {"policy": "none"}, "pool": {"min": 0, "max": 16},
        "version": 3}
    client.good("template", "update", "data", "-f", "-", input='{"name": "data", "language": "bash"}')
    assert server.requests[2]["body"] == {"name": "data", "language": "bash"}


def test_a_template_in_use_stays(client, server):
    server.script["DELETE /templates/data"] = [(409, error("template_in_use")), None]
    assert client("template", "rm", "data").returncode == EXIT_CONFLICT
    assert client.good("template", "rm", "data") == "data: removed\n"


def test_keys(client, server):
    key = {"id": "key_" + "4" * 26, "name": "eval", "scopes": ["execute"], "quota": {}, "rate_per_minute": None,
           "created_at": "2026-01-02T03:04:05Z", "last_used_at": None, "expires_at": None, "revoked_at": None}
    server.script["POST /keys"] = (201, key | {"key": "cove_x_y"})
    server.script["GET /keys"] = {"keys": [key, key | {"name": "old", "revoked_at": "2026-01-02T03:04:05Z"}],
                                  "next_cursor": None}
    server.script[f"DELETE /keys/{key['id']}"] = key
    assert client.good("key", "create", "eval") == "cove_x_y\n"
    assert server.requests[0]["body"] == {"name": "eval", "scopes": ["execute", "sessions:read", "sessions:write", "files"]}
    client.good("key", "create", "eval", "-s", "execute", "--expires", "1h", "--rate", "60", "--sessions", "5",
                "--memory", "1G", "--cpus", "2")
    assert server.requests[1]["body"] == {
        "name": "eval", "scopes": ["execute"], "expires_in": 3600, "rate_per_minute": 60,
        "quota": {"memory_bytes": 1 << 30, "cpus": 2, "sessions": 5}}
    lines = client.good("key", "list").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["eval", key["id"], "valid"], ["old", key["id"], "revoked"]]
    assert client.good("key", "rm", key["id"]) == f"{key['id']}: revoked\n"


# --- the frame ------------------------------------------------------------------------------------


def test_help_and_completion_have_the_commands(cove):
    overview = cove("help").stdout
    for name in ("session", "exec", "logs", "template", "key", "top"):
        assert f"\n  {name} " in overview
    assert "cove session create: Create" in cove("help", "session", "create").stdout
    assert cove("session", "create", "--help").stdout == cove("help", "session", "create").stdout
    completion = cove("help", "--completion").stdout
    assert "' session')" in completion and "--detach" in completion
    assert ".SS cove exec" in cove("help", "--man").stdout


def test_a_missing_client_program_is_told(cove, tmp_path):
    program = shutil.copy(cove.program, tmp_path / "cove")
    done = subprocess.run([program, "top"], capture_output=True, text=True, env=covetest.environment())
    assert done.returncode == EXIT_NOT_FOUND and "cove-client" in done.stderr
