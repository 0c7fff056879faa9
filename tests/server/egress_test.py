# SPDX-License-Identifier: Apache-2.0
"""The way out of a sandbox: one named host and no other, by whatever means the code inside tries."""
import hashlib
import http.server
import json
import os
import pathlib
import signal
import socket
import threading

import covetest
import pytest
import server as serving
from covetest import wait_for
from node import skip_without_proxy

FEW = 16  # descriptors of a proxy that nobody uses: its link, and what its loop and threads need
BIG = bytes(range(256)) * 40000  # 10 MB


class Web(http.server.ThreadingHTTPServer):
    """A host of ours on the loopback: answers with what it was asked, and remembers that."""

    daemon_threads = True

    def __init__(self, elsewhere=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.elsewhere = [], elsewhere
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, **headers):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/elsewhere":
            self.answer(302, b"", Location=self.server.elsewhere)
        elif self.path == "/big":
            self.answer(200, BIG)
        else:
            self.answer(200, b"here")

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, hashlib.sha256(body).hexdigest().encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def canary():
    """What nobody may reach."""
    one = Web()
    yield one
    one.shutdown()
    one.server_close()


@pytest.fixture(scope="module")
def web(canary):
    """The host that is allowed."""
    one = Web(f"http://127.0.0.1:{canary.port}/private")
    yield one
    one.shutdown()
    one.server_close()


@pytest.fixture(scope="module")
def outward(web):
    """A server whose operator vouches for that host."""
    with serving.Server(env={"COVE_EGRESS_PRIVATE": f"localhost:{web.port}"}) as one:
        yield one


def allow(*hosts):
    return {"policy": "allow", "allow": list(hosts)}


def run(server, code, network=None, **more):
    body = {"code": code, **more} | ({"network": network} if network else {})
    answer = server.post("/execute", body)
    assert answer.status == 200, answer
    return answer.json


def proxy_of(server):
    """The pid of its cove-egress, or None."""
    return next((pid for pid in covetest.children_of(server.process.pid) if covetest.name_of(pid) == "cove-egress"), None)


# What code inside has to say to the proxy by hand: `ask` answers the status line.
RAW = """
import json, socket, ssl, urllib.request, urllib.error
def ask(text, more=b""):
    try:
        s = socket.create_connection(("127.0.0.1", 808), 20)
        s.sendall(text.encode().replace(b"\\n", b"\\r\\n") + more)
        got = b""
        while True:
            piece = s.recv(65536)
            if not piece: break
            got += piece
            if b"\\r\\n\\r\\n" in got and text.startswith("CONNECT") and b" 200 " in got.split(b"\\r\\n")[0]:
                s.sendall(b"GET /tunnel HTTP/1.0\\r\\n\\r\\n")
                return got[:12].decode() + " " + s.recv(65536)[:15].decode()
        return got.decode("latin-1")
    except OSError as e:
        return repr(e)
def get(target, more=""):
    return ask(f"GET {target} HTTP/1.1\\nHost: x\\n{more}\\n")
"""


def test_one_named_host_is_reached_by_every_spelling(outward, web):
    """Capitals and a dot at the end are the same host; what the Host header says is nobody's business."""
    code = RAW + f"""
print(json.dumps([
    get("http://localhost:{web.port}/plain"), get("http://LocalHost:{web.port}/case"), get("http://localhost.:{web.port}/dot"),
    get("HTTP://localhost:{web.port}"), ask("CONNECT localhost:{web.port} HTTP/1.1\\n\\n"),
    ask("CONNECT LOCALHOST.:{web.port} HTTP/1.1\\nHost: evil.example\\n\\n"),
]))
"""
    execution = run(outward, code, allow(f"localhost:{web.port}"))
    answers = json.loads(execution["stdout"])
    assert all("HTTP/1.1 200" in a for a in answers), answers
    assert all(headers.get("Host", f"localhost:{web.port}") == f"localhost:{web.port}" for _, _, headers in web.seen)
    assert execution["reason"] is None and "Connection: close" in answers[0]


# By the proxy: the target of a GET, and what it is answered. P is the allowed port, C the canary's.
REFUSED = [
    ("http://127.0.0.1:P/", 403), ("http://[::1]:P/", 403), ("http://[::ffff:127.0.0.1]:P/", 403), ("http://0.0.0.0:P/", 403),
    ("http://localhost:C/", 403), ("http://localhost/", 403), ("http://localhost.evil.example:P/", 403),
    ("http://evil-localhost:P/", 403), ("http://evil.example/", 403), ("http://169.254.169.254/latest/meta-data/", 403),
    ("http://[fd00:ec2::254]/", 403), ("http://metadata.google.internal/", 403), ("http://100.100.100.200/", 403),
    ("http://10.0.0.1/", 403), ("http://192.168.0.1/", 403), ("http://[fe80::1]/", 403), ("http://224.0.0.1/", 403),
    ("http://user@localhost:P/", 400), ("http://localhost:P@127.0.0.1:C/", 400), ("http://localhost:P%2f@127.0.0.1:C/", 400),
    ("http://2130706433:C/", 400), ("http://0x7f000001:C/", 400), ("http://127.1:C/", 400), ("http://0177.0.0.1:C/", 400),
    ("http://localhost\\@127.0.0.1:C/", 400), ("http://localhost%00.evil.example/", 400), ("https://localhost:P/", 400),
    ("/", 400), ("http://localhost:P:C/", 400), ("http://l\u00f6calhost:P/", 400), ("ftp://localhost:P/", 400),
    ("http://[::1%25lo]:P/", 400), ("http:///", 400), ("http://localhost:99999/", 400), ("http://.localhost:P/", 400),
]


def test_no_other_host_is_reached_through_the_proxy(outward, web, canary):
    """Addresses, other ports, names that look like it, users in front of it, numbers that are addresses to some."""
    targets = [(t.replace("P", str(web.port)).replace("C", str(canary.port)), status) for t, status in REFUSED]
    connects = [f"127.0.0.1:{web.port}", f"[::1]:{web.port}", f"localhost:{canary.port}", "localhost:22", "evil.example:443",
                f"user@localhost:{web.port}", "localhost", f"http://localhost:{web.port}/", "169.254.169.254:80"]
    code = RAW + f"print(json.dumps([get(t)[:12] for t in {[t for t, _ in targets]!r}]))\n" \
                 f"print(json.dumps([ask(f'CONNECT {{t}} HTTP/1.1\\n\\n')[:12] for t in {connects!r}]))"
    lines = run(outward, code, allow(f"localhost:{web.port}"), timeout=60)["stdout"].splitlines()
    for (target, status), got in zip(targets, json.loads(lines[0]), strict=True):
        assert got == f"HTTP/1.1 {status}", target
    for target, got in zip(connects, json.loads(lines[1]), strict=True):
        assert got in ("HTTP/1.1 403", "HTTP/1.1 400"), target
    assert canary.seen == []


def test_there_is_no_way_around_the_proxy(outward, web, canary):
    """Without it there is nothing: no route, no name server, no IPv6, no datagram, and its port is nobody else's."""
    code = f"""
import json, os, socket
for name in list(os.environ):
    if "proxy" in name.lower(): del os.environ[name]
def attempt(what):
    try: what(); return "reached"
    except OSError as e: return e.__class__.__name__
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.connect(("8.8.8.8", 53)); s.send(b"x"); s.recv(1)
def listen(port):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", port)); s.listen()
import urllib.request
print(json.dumps([attempt(f) for f in [
    lambda: socket.create_connection(("127.0.0.1", {web.port}), 2), lambda: socket.create_connection(("127.0.0.1", {canary.port}), 2),
    lambda: socket.create_connection(("10.0.0.1", 80), 2), lambda: socket.create_connection(("1.1.1.1", 443), 2),
    lambda: socket.create_connection(("::1", {web.port}), 2), lambda: socket.create_connection(("2606:4700::1111", 443), 2),
    lambda: socket.create_connection(("169.254.169.254", 80), 2), lambda: socket.getaddrinfo("pypi.org", 443), udp,
    lambda: urllib.request.urlopen("http://localhost:{web.port}/", timeout=2), lambda: listen(808),
]]))
"""
    before = len(web.seen)
    answers = json.loads(run(outward, code, allow(f"localhost:{web.port}"), timeout=60)["stdout"])
    assert "reached" not in answers, answers
    assert answers[-1] == "PermissionError"  # a port below 1024: nobody inside can take its place
    assert len(web.seen) == before and canary.seen == []


def test_a_redirect_to_a_private_address_leads_nowhere(outward, web, canary):
    code = f"import urllib.request as u\nu.urlopen('http://localhost:{web.port}/elsewhere', timeout=20)"
    execution = run(outward, code, allow(f"localhost:{web.port}"), env={"NO_PROXY": "", "no_proxy": ""})
    assert execution["reason"]["kind"] == "egress_denied" and "127.0.0.1" in execution["reason"]["message"]
    assert canary.seen == []


def test_a_name_with_a_private_address_is_refused(outward, canary):
    """An allowed name, for whose address nobody vouches."""
    code = RAW + f"print(get('http://localhost:{canary.port}/'))"
    execution = run(outward, code, allow(f"localhost:{canary.port}"))
    assert execution["stdout"].startswith("HTTP/1.1 403") and "not a public one" in execution["stdout"]
    assert canary.seen == []


def test_a_denial_says_what_and_why(outward):
    """In the answer's first line, header and body; as the reason of the execution; and in the log."""
    seen = run(outward, RAW + "print(get('http://evil.example/x'))", allow("example.com"))
    head, body = seen["stdout"].split("\r\n\r\n")
    words = "evil.example is not among the hosts that this sandbox may reach"
    assert words in head.splitlines()[0]
    assert 'X-Cove-Egress: egress_denied; host="evil.example"; port=80' in head
    assert json.loads(body)["error"] == {"code": "egress_denied", "message": words, "host": "evil.example", "port": 80}
    assert seen["state"] == "completed" and seen["reason"] is None  # it went well in spite of that
    failed = run(outward, "import urllib.request as u\nu.urlopen('https://evil.example/')", allow("example.com"))
    assert failed["reason"]["kind"] == "egress_denied" and "evil.example:443" in failed["reason"]["message"]
    assert words in failed["error"]["value"]  # what the program itself is told
    lines = [line for line in outward.log if line["message"] == "egress denied"]
    assert [line["host"] for line in lines][-2:] == ["evil.example", "evil.example"]


def test_bodies_go_both_ways(outward, web):
    """With a length, in chunks, and through a tunnel; ten megabytes come back whole."""
    code = f"""
import hashlib, http.client, os
data = os.urandom(3_000_000)
for body in (data, iter([data[:1000], data[1000:]])):
    c = http.client.HTTPConnection("127.0.0.1", 808)
    c.request("POST", "http://localhost:{web.port}/", body=body, headers={{"Expect": "100-continue"}} if body is data else {{}})
    assert c.getresponse().read().decode() == hashlib.sha256(data).hexdigest()
for tunnel in (False, True):
    c = http.client.HTTPConnection("127.0.0.1", 808)
    if tunnel: c.set_tunnel("localhost", {web.port})
    c.request("GET", "/big" if tunnel else "http://localhost:{web.port}/big")
    print(hashlib.sha256(c.getresponse().read()).hexdigest())
"""
    execution = run(outward, code, allow(f"localhost:{web.port}"), timeout=60)
    assert execution["stdout"].split() == 2 * [hashlib.sha256(BIG).hexdigest()], execution


def test_without_a_policy_there_is_no_door(outward):
    code = "import os, socket\nprint([n for n in os.environ if 'proxy' in n.lower()])\nsocket.create_connection(('127.0.0.1', 808), 2)"
    execution = run(outward, code)
    assert execution["stdout"].strip() == "[]" and execution["error"]["name"] == "ConnectionRefusedError"


def test_sessions_and_templates_have_policies(outward, web):
    """A session's own wins over the template's, and is told as it was asked for."""
    url = f"http://localhost:{web.port}/"
    template = outward.post("/api/v1/templates", {"name": "outward", "language": "python",
                                                  "network": allow(f"localhost:{web.port}")})
    assert template.status == 201 and template.json["network"]["allow"] == [f"localhost:{web.port}"]
    code = {"code": f"import urllib.request as u\nprint(u.urlopen('{url}').read())", "mode": "sync"}
    for network, want in ((None, "b'here'"), ({"policy": "none"}, "")):
        session = outward.post("/api/v1/sessions", {"template": "outward"} | ({"network": network} if network else {})).json
        assert session["network"] == (network or allow(f"localhost:{web.port}"))
        for _ in range(2):
            assert outward.post(f"/api/v1/sessions/{session['id']}/execute", code).json["stdout"].strip() == want
        assert outward.delete(f"/api/v1/sessions/{session['id']}").status == 200


@pytest.mark.parametrize("network, word", [
    (allow(), "names no host"), (allow("a b"), "a b"), (allow("http://example.com"), "http"), (allow("*"), "*"),
    (allow("u@example.com"), "u@"), ({"policy": "packages", "allow": ["a.org"]}, "allow"), ({"policy": "all"}, "policy"),
])
def test_a_policy_that_makes_no_sense_is_refused_by_name(outward, network, word):
    answer = outward.post("/api/v1/sessions", {"network": network})
    assert answer.status == 422 and "network" in answer.json["error"]["message"], answer
    assert word in answer.json["error"]["message"]


def test_the_proxy_has_no_power_and_no_secret(outward, web):
    """A user of its own, no capabilities, seccomp, nothing of the server's environment, few descriptors."""
    run(outward, "print(1)", allow(f"localhost:{web.port}"))
    pid = proxy_of(outward)
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    if covetest.IS_ROOT:
        coved = pathlib.Path(f"/proc/{outward.coved}").stat().st_uid
        assert set(status["Uid"].split()) not in ({"0"}, {str(coved)}) and status["Groups"].split() == []
        assert b"COVE" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= FEW, "a proxy that holds nothing")


def test_a_proxy_that_dies_is_replaced_and_the_way_out_is_back(outward, web):
    """Meanwhile there is none: the port inside refuses."""
    session = outward.post("/api/v1/sessions", {"network": allow(f"localhost:{web.port}")}).json["id"]
    body = {"code": f"import urllib.request as u\nprint(u.urlopen('http://localhost:{web.port}/').status)", "mode": "sync"}

    def reaches():
        return outward.post(f"/api/v1/sessions/{session}/execute", body).json["stdout"].strip() == "200"

    assert reaches()
    before = proxy_of(outward)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: proxy_of(outward) not in (None, before), "another proxy")
    wait_for(reaches, "the way out")
    outward.delete(f"/api/v1/sessions/{session}")


def test_a_session_keeps_its_policy_when_coved_is_replaced(web, canary):
    with serving.Server(env={"COVE_EGRESS_PRIVATE": f"localhost:{web.port}"}) as server:
        session = server.post("/api/v1/sessions", {"network": allow(f"localhost:{web.port}")}).json["id"]
        before = proxy_of(server)
        server.kill_coved()
        body = {"mode": "sync", "code": RAW + f"print(get('http://localhost:{web.port}/')[:12])\n"
                                              f"print(get('http://localhost:{canary.port}/')[:12])"}

        def answer():
            return server.post(f"/api/v1/sessions/{session}/execute", body).json.get("stdout", "").split("\n")[:2]

        wait_for(lambda: answer() == ["HTTP/1.1 200", "HTTP/1.1 403"], "the way out")
        assert proxy_of(server) != before and canary.seen == []
        assert server.get(f"/api/v1/sessions/{session}").json["network"] == allow(f"localhost:{web.port}")


@pytest.mark.skipif(not covetest.IS_ROOT, reason="only root may look into the proxy")
def test_floods_of_one_sandbox_are_its_own_affair(outward, web):
    """It has so many connections and no more; the next one waits, and its neighbour does not."""
    flood = f"""
import socket, time
held = []
for i in range(400):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(("127.0.0.1", 808))
    except BlockingIOError: pass
    held.append(s)
print("held", flush=True)
time.sleep(60)
"""
    session = outward.post("/api/v1/sessions", {"network": allow(f"localhost:{web.port}")}).json["id"]
    execution = outward.post(f"/api/v1/sessions/{session}/execute", {"code": flood, "timeout": 60}).json["id"]
    pid = proxy_of(outward)
    wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) > 60, "the flood")
    assert "HTTP/1.1 200" in run(outward, RAW + f"print(get('http://localhost:{web.port}/'))", allow(f"localhost:{web.port}"))["stdout"]
    assert len(os.listdir(f"/proc/{pid}/fd")) < 120
    outward.post(f"/api/v1/executions/{execution}/cancel")
    outward.delete(f"/api/v1/sessions/{session}")
    wait_for(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= FEW, "a proxy that holds nothing")


def test_bytes_are_counted(web):
    """What one sandbox may send and receive is limited; then it is cut, and told so."""
    with serving.Server(env={"COVE_EGRESS_PRIVATE": f"localhost:{web.port}", "COVE_EGRESS_BYTES": "1M"}) as server:
        code = RAW + f"print(len(get('http://localhost:{web.port}/big')))\nprint(get('http://localhost:{web.port}/'))"
        lines = run(server, code, allow(f"localhost:{web.port}"))["stdout"].splitlines()
        assert int(lines[0]) < 3_000_000 and lines[1].startswith("HTTP/1.1 403") and "bytes" in lines[1]
        assert "HTTP/1.1 200" in run(server, RAW + f"print(get('http://localhost:{web.port}/'))", allow(f"localhost:{web.port}"))["stdout"]


def test_an_operator_can_grant_less():
    with serving.Server("--network-max", "packages") as server:
        refused = server.post("/execute", {"code": "1", "network": allow("example.com")})
        assert refused.status == 403 and "network-max" in refused.json["error"]["hint"]
        assert run(server, "print(1)", {"policy": "packages"})["stdout"] == "1\n"


def test_a_package_index_of_the_operators_is_reached(web, canary):
    """Also one on a private address; its override inside (pip.conf, --index-url) leads nowhere."""
    with serving.Server(env={"COVE_PYTHON_INDEX": f"http://127.0.0.1:{web.port}/simple"}) as server:
        code = f"""
import os, urllib.request as u
print(u.urlopen(os.environ["PIP_INDEX_URL"] + "/humanize/").read())
u.urlopen("http://127.0.0.1:{canary.port}/simple/")
"""
        execution = run(server, code, {"policy": "packages"})
        assert execution["stdout"].strip() == "b'here'" and execution["reason"]["kind"] == "egress_denied", execution
        assert web.seen[-1][1] == "/simple/humanize/" and canary.seen == []


def test_the_real_index_is_reached_where_there_is_one(outward):
    """Through a tunnel, with its certificate checked inside."""
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    try:
        socket.create_connection(("pypi.org", 443), 5).close()
    except OSError as error:
        pytest.skip(f"pypi.org cannot be reached from this machine: {error}")
    code = "import urllib.request as u\nprint(b'humanize' in u.urlopen('https://pypi.org/simple/humanize/').read())"
    execution = run(outward, code, {"policy": "packages"}, timeout=60, env={"SSL_CERT_FILE": "/workspace/ca.crt"},
                    files=[{"path": "ca.crt", "content": bundle.read_text()}])
    assert execution["stdout"].strip() == "True", execution


def test_node_goes_through_the_proxy(outward, web):
    """fetch and http, of an interpreter that was started before anybody knew of a proxy."""
    skip_without_proxy(outward)
    code = f"""
const http = require('node:http');
console.log(await (await fetch('http://localhost:{web.port}/fetch')).text());
console.log(await new Promise((done) => http.get('http://localhost:{web.port}/http', (r) => done(r.statusCode))));
const denied = await fetch('http://evil.example/');
console.log(denied.status, denied.headers.get('x-cove-egress').split(';')[0]);
"""
    execution = run(outward, code, allow(f"localhost:{web.port}"), language="javascript", timeout=60)
    assert execution["stdout"].split("\n")[:3] == ["here", "200", "403 egress_denied"], execution


def test_a_single_run_has_policies_too(any_cove, web):
    """Of root, and of ordinary users."""
    code = RAW + f"print(get('http://localhost:{web.port}/')[:12], get('http://evil.example/')[:12])"
    done = any_cove("run", "--network", "allow", "--allow", f"localhost:{web.port}", "-c", code,
                env={"COVE_EGRESS_PRIVATE": f"localhost:{web.port}"})
    assert done.stdout.strip() == "HTTP/1.1 200 HTTP/1.1 403", done
