# SPDX-License-Identifier: Apache-2.0
"""A server that plays what a test has written for it, and a client that asks it."""
import http.server
import json
import socket
import threading
import urllib.parse

import pytest

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
            "usage": {"cpu_ms": 1.2, "peak_memory_bytes": 9123456}, "limits_not_in_force": [], "created_at": "2026-01-02T03:04:05.678Z",
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


def raw(data):
    """The connection ends after these bytes, which need not be HTTP."""
    def answer(handler):
        handler.wfile.write(data)
        handler.wfile.flush()
        handler.close_connection = True
    return answer


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
