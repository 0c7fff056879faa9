# SPDX-License-Identifier: Apache-2.0
"""`cove session|exec|logs|template|key|top` against a server that plays back what the test says, good and bad."""
import fcntl
import http.server
import json
import os
import pty
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import termios
import threading
import urllib.parse

import pytest

import covetest
from covetest import EXIT_DENIED, EXIT_INVALID, EXIT_NOT_FOUND, EXIT_TIMEOUT, PATIENCE, wait_for

EXIT_UNAVAILABLE, EXIT_INTERNAL, EXIT_CONFLICT, EXIT_TOO_LARGE, EXIT_RETRY = 69, 70, 73, 65, 75
SES, EXE, TPL = "ses_" + "0" * 26, "exe_" + "1" * 26, "tpl_" + "2" * 26
REQUEST_ID = "req_" + "9" * 26


def session(**more):
    return {"id": SES, "name": None, "state": "ready", "template": "python", "language": "python",
            "resources": {"memory_bytes": 268435456, "cpus": 0.5, "pids": 128, "disk_bytes": 134217728},
            "network": {"policy": "none"}, "env": {}, "metadata": {}, "created_at": "2026-01-02T03:04:05.678Z",
            "last_used_at": None, "expires_at": None, "ended_at": None,
            "timings": {"create_ms": 0.21, "pooled": True}} | more


def execution(**more):
    return {"id": EXE, "session_id": SES, "language": "python", "state": "completed", "exit_code": 0, "signal": None,
            "reason": None, "stdout": "", "stderr": "", "truncated": {}, "results": [], "error": None, "artifacts": [],
            "usage": {"cpu_ms": 1.2, "peak_memory_bytes": 9123456}, "created_at": "2026-01-02T03:04:05.678Z",
            "started_at": "2026-01-02T03:04:05.678Z", "ended_at": "2026-01-02T03:04:06.678Z", "duration_ms": 1.9} | more


def failed(kind, **more):
    return execution(state="failed", reason={"kind": kind, "limit": None, "used": None, "message": f"it was {kind}",
                                             "hint": "do less"}, **more)


def error(code, message="it cannot be", hint="try another"):
    return {"error": {"code": code, "message": message, "hint": hint, "request_id": REQUEST_ID}}


def event(name, data, number=None):
    return f"{f'id: {number}' + chr(10) if number else ''}event: {name}\ndata: {json.dumps(data)}\n\n"


def output(text, number, name="stdout"):
    return event(name, {"text": text}, number)


# --- the server -----------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body=b"", kind="application/json", headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Request-Id", REQUEST_ID)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def write(self, text):
        self.wfile.write(text.encode())
        self.wfile.flush()

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path, _, query = self.path.removeprefix("/api/v1").partition("?")
        request = {"method": self.command, "path": path, "query": dict(urllib.parse.parse_qsl(query)),
                   "headers": {k.lower(): v for k, v in self.headers.items()},
                   "body": json.loads(body) if body else None}
        self.server.requests.append(request)
        script = self.server.script.get(f"{self.command} {path}")
        if script is None:
            self.send(404, json.dumps(error("not_found", f"there is no {self.path}")))
            return
        step = script[min(self.server.counts.get(id(script), 0), len(script) - 1)] if isinstance(script, list) else script
        if isinstance(script, list):
            self.server.counts[id(script)] = self.server.counts.get(id(script), 0) + 1
        if callable(step):
            step(self)
        elif isinstance(step, tuple):
            self.send(step[0], json.dumps(step[1]))
        elif step is None:
            self.send(204)
        elif isinstance(step, str):  # a stream that ends
            self.begin_stream()
            self.write(step)
        else:
            self.send(200, json.dumps(step))

    do_GET = do_POST = do_PUT = do_DELETE = answer


class TcpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that leaves early is what some tests are about."""


class UnixServer(TcpServer):
    address_family = socket.AF_UNIX

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self):
        link, _ = self.socket.accept()
        return link, ("local", 0)


class Server:
    """Plays back `script`: {"GET /sessions": answer}; an answer is a document (200), (status, document), text of a
    stream, a function of the handler, or a list of these, of which the last one stays."""

    def __init__(self, path=None, tls=None):
        kind = UnixServer if path else TcpServer
        self.http = kind(path or ("127.0.0.1", 0), Handler)
        self.http.script, self.http.requests, self.http.counts = {}, [], {}
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        scheme = "https" if tls else "http"
        self.url = f"unix:{path}" if path else f"{scheme}://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()

    @property
    def script(self):
        return self.http.script

    @property
    def requests(self):
        return self.http.requests

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


class Client:
    def __init__(self, cove, url, data_dir):
        self.cove, self.env = cove, {"COVE_SERVER": url, "COVE_DATA_DIR": str(data_dir)}

    def __call__(self, *args, env=None, **kwargs):
        return self.cove(*args, env=self.env | (env or {}), **kwargs)

    def start(self, *args, **kwargs):
        return self.cove.start(*args, env=self.env, **kwargs)

    def good(self, *args, **kwargs):
        done = self(*args, **kwargs)
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def client(cove, server, tmp_path):
    return Client(cove, server.url, tmp_path)


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


def raw(data):
    """The connection ends after these bytes, which need not be HTTP."""
    def answer(handler):
        handler.wfile.write(data)
        handler.wfile.flush()
        handler.close_connection = True
    return answer


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


# --- exec -----------------------------------------------------------------------------------------


def play(server, *events, document=None):
    """Scripts one execution; each of events is what one connection to its stream gets."""
    server.script[f"POST /sessions/{SES}/execute"] = (202, execution(state="running", ended_at=None, exit_code=None))
    server.script[f"GET /executions/{EXE}/events"] = [*events]
    server.script[f"POST /executions/{EXE}/cancel"] = execution(state="running", ended_at=None)
    if document:
        server.script[f"GET /executions/{EXE}"] = document


STARTED = event("started", {"id": EXE, "session_id": SES, "language": "python"}, 1)


def ended(document, number=99):
    return event("ended", document, number)


def test_output_goes_where_it_belongs(client, server):
    play(server, STARTED + output("a\n", 2) + output("b", 3, "stderr") + ": heartbeat\n\n" + output("ü\n", 4) +
         event("result", {"main": True, "data": {"text/plain": "42", "image/png": "x"}}, 5) +
         event("artifact", {"path": "x", "size": 1}, 6) + ended(execution(stdout="a\nü\n", stderr="b")))
    done = client("exec", SES, "-c", "x", "-l", "python", "--timeout", "2.5", "-e", "A=1", "--queue")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\nü\n42\n", "b")
    assert server.requests[0]["body"] == {"code": "x", "mode": "async", "language": "python", "timeout": 2.5,
                                          "env": {"A": "1"}, "queue": True}
    assert server.requests[1]["headers"]["accept"] == "text/event-stream"


def test_code_input_and_files_are_sent(client, server, tmp_path):
    (tmp_path / "main.py").write_text("print('hü')\n")
    (tmp_path / "in.txt").write_text("input")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    play(server, STARTED + ended(execution()))
    client.good("exec", SES, tmp_path / "main.py", "--stdin", tmp_path / "in.txt", "--file", tmp_path / "data.bin",
                "--file", f"{tmp_path}/in.txt:sub/other")
    assert server.requests[0]["body"] == {
        "code": "print('hü')\n", "stdin": "input", "mode": "async",
        "files": [{"path": "data.bin", "content_base64": "/wA="}, {"path": "sub/other", "content_base64": "aW5wdXQ="}]}
    client.good("exec", SES, input="piped")
    client.good("exec", SES, "-", input="dashed")
    client.good("exec", SES, "-c", "code", "--stdin", "-", input="given")
    bodies = [request["body"] for request in server.requests if request["method"] == "POST"]
    assert [(body["code"], body.get("stdin")) for body in bodies[1:]] == [("piped", None), ("dashed", None), ("code", "given")]
    for args in (["-", "--stdin", "-"], [tmp_path / "missing"], ["-c", "x", "--file", "/"]):
        assert client("exec", SES, *args, input="x").returncode in (EXIT_INVALID, EXIT_NOT_FOUND)
    assert client("exec", SES, tmp_path / "data.bin").returncode == EXIT_INVALID


@pytest.mark.parametrize("document, status, words", [
    (execution(state="failed", exit_code=3, reason={"kind": "exit", "message": "exit status 3", "hint": None}), 3, ""),
    (failed("timeout"), EXIT_TIMEOUT, "cove: timeout: it was timeout\ncove: hint: do less\n"),
    (failed("cancelled"), 130, ""),
    (failed("oom", signal="SIGKILL", exit_code=None), 137, "cove: oom: it was oom\ncove: hint: do less\n"),
    (failed("signal", signal="SIGTERM", exit_code=None), 143, "cove: signal: it was signal\ncove: hint: do less\n"),
    (failed("runner_died", exit_code=None), 137, "cove: runner_died: it was runner_died\ncove: hint: do less\n"),
    (failed("infrastructure", exit_code=None), 70, "cove: infrastructure: it was infrastructure\ncove: hint: do less\n"),
    (execution(state="lost", exit_code=None), 69, "cove: lost: the server has lost what ran it; its result is not known\n"),
    (execution(state="failed", exit_code=None, reason={"kind": "exception", "message": "x", "hint": None},
               error={"name": "E", "value": "v", "traceback": "Traceback\n  E: v"}), 1, "Traceback\n  E: v\n"),
])
def test_the_end_of_an_execution_is_the_end_of_exec(client, server, document, status, words):
    play(server, STARTED + ended(document))
    done = client("exec", SES, "-c", "x")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", words)
    done = client("exec", SES, "-c", "x", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (status, document, "")


def test_a_stream_that_breaks_is_taken_up_where_it_broke(client, server):
    play(server, STARTED + output("one\n", 2), raw(b""), (503, error("unavailable")),
         output("two\n", 3) + "id: 4\nevent: stdout\ndata: {\"te", output("three\n", 4) + ended(execution()))
    assert client.good("exec", SES, "-c", "x") == "one\ntwo\nthree\n"
    streams = [request["headers"].get("last-event-id") for request in server.requests if request["method"] == "GET"]
    assert streams == [None, "2", "2", "2", "3"]


def test_output_that_comes_again_after_a_restart_is_shown_once(client, server):
    play(server, STARTED + output("one\ntw", 2) + output("err", 3, "stderr"),
         STARTED + output("one\n", 2) + output("two\nthree\n", 3) + output("err!\n", 4, "stderr") + ended(execution()))
    done = client("exec", SES, "-c", "x")
    assert (done.stdout, done.stderr) == ("one\ntwo\nthree\n", "err!\n")


def test_who_is_too_late_for_events_gets_all_of_it_from_the_end(client, server):
    play(server, ended(execution(stdout="out\n", stderr="err\n", results=[{"main": True, "data": {"text/plain": "1"}}])))
    done = client("exec", SES, "-c", "x")
    assert (done.stdout, done.stderr) == ("out\n1\n", "err\n")


def test_events_that_were_dropped_are_told(client, server):
    play(server, STARTED + event("missed", {"events": 7}) + output("rest\n", 9) + ended(execution()))
    done = client("exec", SES, "-c", "x")
    assert done.stdout == "rest\n" and "7 events were dropped" in done.stderr


def test_events_of_another_version_are_passed_over(client, server):
    play(server, STARTED + "event: news\ndata: not json\n\n" + event("news", [1], 2) + event("stdout", {"text": 5}, 3) +
         event("stdout", [], 4) + ended(execution()))
    assert client.good("exec", SES, "-c", "x") == ""


def test_a_stream_that_never_comes_back_is_told_with_the_way_to_go_on(client, server):
    play(server, STARTED + output("one\n", 2), raw(b""))
    done = client("exec", SES, "-c", "x")
    assert (done.returncode, done.stdout) == (EXIT_UNAVAILABLE, "one\n")
    assert f"cove logs --follow {EXE}" in done.stderr


def test_a_stream_without_life_is_given_up_and_taken_up_again(client, server):
    """However often: a server that begins to answer is there, and the program may have nothing to say."""
    release = threading.Event()
    silences = 7

    def silent(handler):
        handler.begin_stream()
        handler.write(": nothing yet\n\n")
        release.wait(PATIENCE)
    play(server, *[silent] * silences, STARTED + output("one\n", 2) + ended(execution()))
    assert client.good("exec", SES, "-c", "x", "--server-timeout", "1s") == "one\n"
    release.set()
    assert len(server.requests) == 2 + silences


def test_a_stream_that_is_always_empty_is_given_up(client, server):
    play(server, ": hello\n\n")
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_UNAVAILABLE and "ended the stream too early" in done.stderr


def hold(release, *texts):
    """A stream that goes on with `texts` until `release` is set."""
    def answer(handler):
        handler.begin_stream()
        for text in texts:
            handler.write(text)
        release.wait(PATIENCE)
    return answer


def test_an_interrupt_cancels_and_waits_for_the_end(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)),
         output("KeyboardInterrupt\n", 3, "stderr") + ended(failed("cancelled")))
    process = client.start("exec", SES, "-c", "x", text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    release.set()
    assert (process.returncode, out, err) == (130, "", "KeyboardInterrupt\n")
    paths = [f"{r['method']} {r['path']}" for r in server.requests]
    assert paths == [f"POST /sessions/{SES}/execute", f"GET /executions/{EXE}/events", f"POST /executions/{EXE}/cancel",
                     f"GET /executions/{EXE}/events"]
    assert server.requests[-1]["headers"]["last-event-id"] == "2"


def test_a_second_interrupt_leaves(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)), hold(release, output("going on\n", 3)))
    process = client.start("exec", SES, "-c", "x", text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "going on\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    release.set()


def test_a_reader_that_leaves_ends_the_execution(client, server):
    release = threading.Event()
    more = threading.Event()

    def stream(handler):
        handler.begin_stream()
        handler.write(STARTED + output("begun\n", 2))
        more.wait(PATIENCE)
        handler.write(output("x" * 100, 3))
        release.wait(PATIENCE)
    play(server, stream)
    process = client.start("exec", SES, "-c", "x")
    assert process.stdout.readline() == b"begun\n"
    process.stdout.close()
    more.set()
    assert process.wait(PATIENCE) == 130
    release.set()
    assert server.requests[-1]["path"] == f"/executions/{EXE}/cancel"


def test_detached(client, server):
    play(server, STARTED)
    assert client.good("exec", SES, "-c", "x", "--detach") == EXE + "\n"
    assert len(server.requests) == 1


def test_a_busy_session_is_told_in_words_of_the_command_line(client, server):
    server.script[f"POST /sessions/{SES}/execute"] = (409, error("session_busy", hint='ask with "queue": true'))
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_CONFLICT and "--queue" in done.stderr and '"queue"' not in done.stderr


def test_a_refused_stream_is_an_error(client, server):
    play(server, (404, error("execution_not_found")))
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_NOT_FOUND and "request" in done.stderr


# --- logs -----------------------------------------------------------------------------------------


def test_logs_of_an_execution(client, server):
    document = failed("oom", stdout="out\n", stderr="err\n")
    play(server, STARTED + output("out\n", 2) + ended(document), document=document)
    done = client("logs", EXE)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.startswith("err\n") and "cove: oom" in done.stderr
    assert json.loads(client.good("logs", EXE, "--json")) == document
    assert client.good("logs", EXE, "--follow") == "out\n"
    lines = [json.loads(line) for line in client.good("logs", EXE, "-f", "--json").splitlines()]
    assert [line["event"] for line in lines] == ["started", "stdout", "ended"]
    assert lines[1]["data"] == {"text": "out\n"}


def test_logs_of_a_session_are_told_from_the_oldest_on(client, server):
    first, second = "exe_" + "a" * 26, "exe_" + "b" * 26
    server.script["GET /executions"] = {"executions": [execution(id=second), execution(id=first)], "next_cursor": "more"}
    server.script[f"GET /executions/{first}"] = execution(id=first, stdout="first\n")
    server.script[f"GET /executions/{second}"] = execution(id=second, stdout="second\n")
    done = client("logs", "analysis", "-n", "2")
    assert (done.returncode, done.stdout) == (0, "first\nsecond\n")
    assert [line.split()[1] for line in done.stderr.splitlines()] == [first, second]
    assert server.requests[0]["query"] == {"session": "analysis", "limit": "2"}
    assert [e["stdout"] for e in json.loads(client.good("logs", SES, "--json"))["executions"]] == ["first\n", "second\n"]


def test_a_session_is_followed_to_its_end(client, server):
    first, second = "exe_" + "a" * 26, "exe_" + "b" * 26
    summary = {"next_cursor": None}
    server.script["GET /executions"] = [summary | {"executions": [execution(id=first)]},
                                        summary | {"executions": [execution(id=second), execution(id=first)]}]
    server.script["GET /sessions/named"] = session(name="named")  # which it loses with its end
    server.script[f"GET /sessions/{SES}"] = [session(), session(state="terminated", ended_at="2026-01-02T03:04:05Z")]
    for name, text in ((first, "first\n"), (second, "second\n")):
        server.script[f"GET /executions/{name}/events"] = STARTED + output(text, 2) + ended(execution())
    assert client.good("logs", "named", "--follow") == "first\nsecond\n"


def test_following_is_left_by_an_interrupt_without_a_trace(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)))
    process = client.start("logs", EXE, "-f")
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    release.set()
    assert len(server.requests) == 1


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


# --- top ------------------------------------------------------------------------------------------

HEALTH = {"status": "ok", "version": "1", "uptime_seconds": 7300, "tier": "T1",
          "capacity": {"sessions": 2, "max_sessions": 480}, "load": {"sessions": 2, "running": 1, "queued": 0}}


def show_sessions(server, count):
    server.script["GET /health"] = HEALTH
    server.script["GET /sessions"] = {"next_cursor": None, "sessions": [
        session(name=f"number-{i}", state="busy" if i == 0 else "ready") for i in range(count)]}


def test_top_without_a_terminal_is_one_snapshot(client, server):
    show_sessions(server, 2)
    lines = client.good("top").splitlines()
    assert lines[0] == f"cove at {server.url}: ok, up 2h, tier T1   running 1   queued 0"
    assert lines[1] == "2 of 480 sessions: 1 busy, 1 ready"
    assert [line.split()[1] for line in lines[4:]] == ["number-0", "number-1"]
    assert server.requests[1]["query"]["live"] == "true"
    assert json.loads(client.good("top", "--json"))["health"] == HEALTH
    server.script["GET /health"] = (503, error("unavailable"))
    assert client("top").returncode == EXIT_UNAVAILABLE


class Terminal:
    """A command on a terminal, and what it has written there so far."""

    def __init__(self, client, *args, rows=10, columns=100):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        env = covetest.environment(**client.env, TERM="xterm")
        self.process = subprocess.Popen(client.cove.argv(*args), env=env, stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, start_new_session=True, cwd="/")
        covetest.started.append(self.process)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.text

    def frames(self):
        """The pictures that are complete."""
        return [part.split("\x1b[?2026l")[0] for part in self.read().split("\x1b[?2026h")[1:] if "\x1b[?2026l" in part]

    def wait(self, condition, what):
        return wait_for(lambda: next((f for f in reversed(self.frames()) if condition(f)), None), what)

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def top(client, server):
    show_sessions(server, 30)
    terminal = Terminal(client, "top", "-i", "200ms")
    terminal.wait(lambda frame: "number-0" in frame, "a picture")
    yield terminal
    terminal.close()


def test_top_fits_the_window_and_follows_its_size(top):
    frame = top.frames()[0]
    assert frame.count("\r\n") == 9 and "number-5" in frame and "number-6" not in frame
    assert not frame.endswith("\r\n") and "\x1b[2J" not in top.text
    top.resize(20, 40)
    os.kill(top.process.pid, signal.SIGWINCH)  # the terminal tells its own session only
    frame = top.wait(lambda frame: "…" in frame and frame.count("\r\n") == 19, "a picture of the new size")
    assert "TEMPLATE" not in frame
    lines = [line.replace("\x1b[K", "") for line in frame.split("\r\n")]
    plain = [line for line in lines if "\x1b[" not in line]
    assert plain and all(len(line) <= 40 for line in plain)


def test_top_moves_through_the_sessions(top):
    top.type("\x1b[B\x1b[B")
    top.wait(lambda frame: "number-2 " in frame and "number-1 " not in frame and "number-7" in frame, "two rows further")
    top.type("G")
    top.wait(lambda frame: "number-29" in frame, "the last rows")
    top.type("g")
    top.wait(lambda frame: "number-0" in frame, "the first rows")


def test_top_looks_again(top, server):
    show_sessions(server, 1)
    top.wait(lambda frame: "1 of 480 sessions" in frame and "number-1" not in frame, "another picture")


def test_top_goes_on_without_its_server(top, server):
    server.script["GET /health"] = (503, error("unavailable", "the disk is full"))
    frame = top.wait(lambda frame: "the disk is full" in frame, "the problem")
    assert "number-0" in frame
    show_sessions(server, 30)
    top.wait(lambda frame: "the disk is full" not in frame, "no problem")


@pytest.mark.parametrize("leave", ["q", "\x03", signal.SIGTERM])
def test_top_leaves_the_terminal_as_it_was(top, leave):
    if isinstance(leave, str):
        top.type(leave)
    else:
        top.process.send_signal(leave)
    if leave == "\x03":  # no session of the terminal's: nobody makes a signal of it
        top.process.send_signal(signal.SIGINT)
    assert top.process.wait(PATIENCE) == 0
    assert top.read().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l\x1b[?2004l")
    assert termios.tcgetattr(top.slave) == top.before


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
