# SPDX-License-Identifier: Apache-2.0
"""Secrets: code inside has placeholders, their hosts get the values, and nobody else ever does."""
import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading

import covetest
import pytest
import server as serving
from covetest import wait_for
from node import skip_without_proxy

VALUE = "sk-canary-4f1c9a77d2e0b6358c"  # is to be found nowhere but at its host
OTHER = "tok-canary-b81d70ce55f2a94e"
PLACEHOLDER = re.compile(r"^cove-secret-[0-9a-f]{40}$")


class Web(http.server.ThreadingHTTPServer):
    """A host of ours on the loopback, with TLS when there is a context: remembers what it was asked."""

    daemon_threads = True

    def __init__(self, context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.scheme = "https" if context else "http"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    @property
    def host(self):
        return f"localhost:{self.port}"

    @property
    def url(self):
        return f"{self.scheme}://{self.host}"

    def handle_error(self, *_):
        pass  # those who do not trust it

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers, body))
        token = self.headers.get("Authorization", "")
        answer = f"you said {token}.".encode() if self.path.startswith("/echo") else b"here"
        self.send_response(200)
        if self.path.startswith("/echo"):
            self.send_header("X-Echo", token)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        half = len(answer) // 2
        self.wfile.write(answer[:half])
        self.wfile.flush()
        self.wfile.write(answer[half:])

    do_POST = do_PUT = do_GET

    def log_message(self, *_):
        pass


def openssl(*words, cwd):
    subprocess.run(["openssl", *words], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki():
    """A private authority, a certificate for localhost and one for elsewhere of it, and one that nobody vouches for."""
    with tempfile.TemporaryDirectory(prefix="cove-test-pki-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # the server is another user
        make_pki(folder)
        yield folder


def make_pki(folder):
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *new_key, "-subj", "/CN=private", "-keyout", "ca.key", "-out", "ca.pem", cwd=folder)
    openssl("req", *new_key[:-2], "-subj", "/CN=host", "-keyout", "good.key", "-out", "good.csr", cwd=folder)
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "good.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "good.pem", cwd=folder)
    (folder / "elsewhere").write_text("subjectAltName=DNS:elsewhere.example\n")
    openssl("x509", "-req", "-in", "good.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "elsewhere", "-out", "elsewhere.pem", cwd=folder)
    openssl("req", "-x509", *new_key, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", "bad.key", "-out", "bad.pem", cwd=folder)


def context_of(pki, name, key=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / f"{name}.pem", pki / f"{key or name}.key")
    return context


@pytest.fixture(scope="module")
def hosts(pki):
    """By name: api and other have TLS; plain has none; liar and misnamed have TLS that is not to be trusted."""
    all_of_them = {"api": Web(context_of(pki, "good")), "other": Web(context_of(pki, "good")), "plain": Web(),
                   "liar": Web(context_of(pki, "bad")), "misnamed": Web(context_of(pki, "elsewhere", "good"))}
    yield type("Hosts", (), all_of_them)
    for one in all_of_them.values():
        one.close()


def options(pki, hosts):
    ports = [h.port for name, h in vars(hosts).items() if isinstance(h, Web)]
    private = ",".join(f"{name}:{port}" for port in ports for name in ("localhost", "127.0.0.1"))
    return {"COVE_EGRESS_PRIVATE": private, "COVE_EGRESS_CA": str(pki / "ca.pem")}


@pytest.fixture(scope="module")
def outward(pki, hosts):
    with serving.Server(env=options(pki, hosts)) as one:
        yield one


@pytest.fixture
def seen(hosts):
    """Forgets what the hosts have seen before."""
    for host in vars(hosts).values():
        if isinstance(host, Web):
            host.seen.clear()


def body_of(hosts, **more):
    allowed = [h.host for h in (hosts.api, hosts.other, hosts.plain, hosts.liar, hosts.misnamed)]
    return {"network": {"policy": "allow", "allow": allowed},
            "secrets": [{"name": "TOKEN", "value": VALUE, "hosts": [hosts.api.host, hosts.liar.host, hosts.misnamed.host]},
                        {"name": "PLAIN_TOKEN", "value": OTHER, "hosts": [f"http://{hosts.plain.host}"]}], **more}


def run(server, hosts, code, **more):
    answer = server.post("/execute", body_of(hosts, code=code, timeout=60, **more))
    assert answer.status == 200, answer
    assert answer.json["state"] == "completed", answer.json
    return answer.json


ASK = """
import base64, json, os, urllib.error, urllib.request
TOKEN, PLAIN_TOKEN = os.environ["TOKEN"], os.environ["PLAIN_TOKEN"]
def ask(url, data=None, **headers):
    request = urllib.request.Request(url, data=data, headers={n.replace("_", "-"): v for n, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode(), dict(e.headers)
    except OSError as e:
        return 0, str(e), {}
"""

# TLS by hand, through the proxy: `tell` says whatever it is given, and answers what came back.
TUNNEL = ASK + """
import socket, ssl
def tell(where, text, sni="localhost", early=b""):
    s = socket.create_connection(("127.0.0.1", 808), 30)
    s.sendall(f"CONNECT {where} HTTP/1.1\\r\\n\\r\\n".encode() + early)
    got = s.recv(4096)
    if b" 200 " not in got.split(b"\\r\\n")[0]:
        return got.decode()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    t = context.wrap_socket(s, server_hostname=sni)
    t.sendall(text.encode("latin-1"))
    got = b""
    try:
        while piece := t.recv(65536): got += piece
    except ssl.SSLEOFError:
        pass
    return got.decode()
"""


def test_a_host_gets_the_value_and_code_never_sees_it(outward, hosts, seen):
    """By TLS that is ended on the way, and that programs inside trust; also as Basic authentication encodes it."""
    execution = run(outward, hosts, ASK + f"""
basic = base64.b64encode(f"user:{{TOKEN}}".encode()).decode()
print(json.dumps([TOKEN, ask("{hosts.api.url}/a", Authorization="Bearer " + TOKEN)[:2],
                  ask("{hosts.api.url}/b", Authorization="Basic " + basic, X_Twice=TOKEN + TOKEN)[:2],
                  ask("{hosts.plain.url}/c", X_Token="<" + PLAIN_TOKEN + ">")[:2]]))
""")
    placeholder, *answers = json.loads(execution["stdout"])
    assert PLACEHOLDER.match(placeholder)
    assert answers == 3 * [[200, "here"]]
    (_, _, first, _), (_, _, second, _) = hosts.api.seen
    assert first["Authorization"] == f"Bearer {VALUE}" and first["Host"] == hosts.api.host
    assert base64.b64decode(second["Authorization"].split()[1]).decode() == f"user:{VALUE}"
    assert second["X-Twice"] == 2 * VALUE
    assert hosts.plain.seen[0][2]["X-Token"] == f"<{OTHER}>"


def test_other_hosts_see_the_placeholder(outward, hosts, seen):
    """Also one that is allowed, by TLS that nobody looks into; and a host gets no secret of another's, nor without TLS."""
    execution = run(outward, hosts, ASK + f"""
import ssl, socket
context = ssl._create_unverified_context()
request = urllib.request.Request("{hosts.other.url}/", headers={{"Authorization": TOKEN}})
urllib.request.urlopen(request, context=context, timeout=30).read()
print(json.dumps([TOKEN, PLAIN_TOKEN, ask("{hosts.plain.url}/", X_Token=TOKEN)[0], ask("{hosts.api.url}/", X_Token=PLAIN_TOKEN)[0]]))
""")
    token, plain, *_ = json.loads(execution["stdout"])
    assert hosts.other.seen[0][2]["Authorization"] == token
    assert hosts.plain.seen[0][2]["X-Token"] == token
    assert hosts.api.seen[0][2]["X-Token"] == plain


def test_only_tunnels_to_its_hosts_are_ended_here(outward, hosts):
    """Who asks another host finds that host's own certificate."""
    execution = run(outward, hosts, ASK + f"""
import socket, ssl
def issuer(port):
    s = socket.create_connection(("127.0.0.1", 808), 30)
    s.sendall(f"CONNECT localhost:{{port}} HTTP/1.1\\r\\n\\r\\n".encode())
    assert b" 200 " in s.recv(4096)
    t = ssl._create_unverified_context().wrap_socket(s, server_hostname="localhost")
    return ssl.DER_cert_to_PEM_cert(t.getpeercert(True)), t.selected_alpn_protocol()
print(json.dumps([issuer({hosts.api.port})[0], issuer({hosts.other.port})[0]]))
""")
    ours, theirs = json.loads(execution["stdout"])
    certificates = [subprocess.run(["openssl", "x509", "-noout", "-issuer"], input=text.encode(), capture_output=True,
                                   check=True).stdout.decode() for text in (ours, theirs)]
    assert "Cove" in certificates[0] and "private" in certificates[1], certificates


def test_bodies_and_addresses_are_not_filled_in(outward, hosts, seen):
    execution = run(outward, hosts, ASK + f"""
print(json.dumps([TOKEN, ask("{hosts.api.url}/?t=" + TOKEN, data=TOKEN.encode(), **{{TOKEN: "name"}})[0]]))
""")
    token, status = json.loads(execution["stdout"])
    _, path, headers, body = hosts.api.seen[0]
    assert status == 200 and path == f"/?t={token}" and body == token.encode()
    assert VALUE not in str(headers)


def test_a_value_that_comes_back_is_covered(outward, hosts):
    """In head and body, also where it comes in two pieces."""
    execution = run(outward, hosts, ASK + f"""
print(json.dumps(ask("{hosts.api.url}/echo", Authorization=TOKEN, Accept_Encoding="gzip")))
""")
    status, body, headers = json.loads(execution["stdout"])
    assert (status, body, headers["X-Echo"]) == (200, f"you said {'*' * len(VALUE)}.", "*" * len(VALUE))
    assert hosts.api.seen[-1][2]["Accept-Encoding"] in (None, "identity")


@pytest.mark.parametrize("who, word", [("liar", "self-signed certificate"), ("misnamed", "ostname mismatch")])
def test_a_host_that_cannot_show_who_it_is_gets_nothing(outward, hosts, seen, who, word):
    host = getattr(hosts, who)
    execution = run(outward, hosts, ASK + f"print(json.dumps(ask('{host.url}/', Authorization=TOKEN)))")
    status, words, _ = json.loads(execution["stdout"])
    assert status == 0 and "502" in words and "no secret goes there" in words and word in words, words
    assert host.seen == []


def test_a_request_is_for_the_host_of_its_tunnel(outward, hosts, seen):
    """Host, target and SNI: whoever names another is refused, and nobody hears of it."""
    api, other = hosts.api.host, hosts.other.host
    execution = run(outward, hosts, TUNNEL + f"""
head = "Authorization: " + TOKEN + "\\r\\n\\r\\n"
print(json.dumps([a.split("\\r\\n")[0] for a in [
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: {other}\\r\\n" + head),
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: localhost\\r\\n" + head),
    tell("{api}", "GET / HTTP/1.1\\r\\n" + head),
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: {api}\\r\\nHost: {other}\\r\\n" + head),
    tell("{api}", "GET https://{other}/ HTTP/1.1\\r\\nHost: {api}\\r\\n" + head),
    tell("{api}", "CONNECT {other} HTTP/1.1\\r\\nHost: {api}\\r\\n" + head),
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: {api}\\r\\n" + head, sni="evil.example"),
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: {api}\\r\\n" + head, early=b"\\x16\\x03\\x01"),
    tell("{api}", "GET / HTTP/1.1\\r\\nHost: {api}\\r\\n" + head),
]]))
""")
    *refused, last = json.loads(execution["stdout"])
    assert [line[:12] for line in refused] == ["HTTP/1.1 421"] * 3 + ["HTTP/1.1 400"] + ["HTTP/1.1 421"] * 3 + ["HTTP/1.1 400"], refused
    assert last == "HTTP/1.1 200 OK" and len(hosts.api.seen) == 1 and hosts.other.seen == []


SMUGGLED = [
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nContent-Length: 4\\r\\nContent-Length: 5\\r\\n\\r\\nabcde",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nTransfer-Encoding: xchunked\\r\\n\\r\\n",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nX: a\\nHost: evil\\r\\n\\r\\n",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nX : a\\r\\n\\r\\n",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nX: a\\r\\n folded\\r\\n\\r\\n",
    "GET / HTTP/1.1\\r\\nHost: H\\r\\nX: a\\x00b\\r\\n\\r\\n",
    "GET / HTTP/2.0\\r\\nHost: H\\r\\n\\r\\n",
    "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n",
]


def test_what_two_could_read_in_two_ways_is_refused_inside_tls_too(outward, hosts, seen):
    code = TUNNEL + f"print(json.dumps([tell('{hosts.api.host}', t)[:12] for t in [" + ", ".join(
        f'"{text.replace("H" + chr(92), hosts.api.host + chr(92))}"' for text in SMUGGLED) + "]]))"
    answers = json.loads(run(outward, hosts, code)["stdout"])
    assert all(a in ("HTTP/1.1 400", "HTTP/1.1 501", "HTTP/1.1 505", "HTTP/1.1 421", "") for a in answers), answers
    assert hosts.api.seen == []


def test_a_second_request_on_a_connection_is_nobodys(outward, hosts, seen):
    execution = run(outward, hosts, TUNNEL + f"""
one = "GET /one HTTP/1.1\\r\\nHost: {hosts.api.host}\\r\\n\\r\\n"
print(json.dumps(tell("{hosts.api.host}", one + one.replace("one", "two"))))
""")
    assert json.loads(execution["stdout"]).count("HTTP/1.1") == 1 and "Connection: close" in execution["stdout"]
    assert [path for _, path, _, _ in hosts.api.seen] == ["/one"]


def test_the_value_is_nowhere_inside(outward, hosts):
    """Code that looks at its environment, its files, and the memory and environment of every process that it can read."""
    parts = [VALUE[:8], VALUE[8:]]
    execution = run(outward, hosts, ASK + f"""
ask("{hosts.api.url}/", Authorization=TOKEN)
a, b = {parts!r}
needle = "".join((b, a)).encode()   # turned round: this program must not find itself
needle = needle[len(b):] + needle[:len(b)]
key = b"PRIVATE KEY"
found, looked = [], 0
def look(path, data):
    global looked
    looked += len(data)
    if needle in data: found.append(path)
own = str(os.getpid())
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps"):
        try: look(f"/proc/{{pid}}/{{name}}", open(f"/proc/{{pid}}/{{name}}", "rb").read())
        except OSError: pass
    if pid == own: continue     # holds the needle
    try:
        memory = open(f"/proc/{{pid}}/mem", "rb", 0)
        for line in open(f"/proc/{{pid}}/maps"):
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            memory.seek(begin); look(f"/proc/{{pid}}/mem", memory.read(min(end - begin, 1 << 24)))
    except OSError: pass
for root in ("/workspace", "/tmp", "/dev/shm", "/etc", "/run", "/home"):
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                data = open(os.path.join(folder, name), "rb").read(1 << 22)
            except OSError: continue
            look(os.path.join(folder, name), data)
            if folder.startswith("/workspace") and key in data: found.append("a key in " + name)
print(json.dumps([found, looked > 100000, sorted(n for n, v in os.environ.items() if needle.decode() in v)]))
""")
    assert json.loads(execution["stdout"]) == [[], True, []]
    assert VALUE not in json.dumps(execution)


def test_the_value_is_in_no_answer_log_or_database(outward, hosts):
    """Of sessions either: what is told is names and hosts. Errors that are about a secret do not show it."""
    body = body_of(hosts)
    created = outward.post("/api/v1/sessions", body)
    assert created.status == 201, created
    session = created.json
    assert session["secrets"] == [{k: s[k] for k in ("name", "hosts")} for s in body["secrets"]]
    answers = [created, outward.get(f"/api/v1/sessions/{session['id']}"), outward.get("/api/v1/sessions")]
    code = {"code": ASK + f"print(ask('{hosts.api.url}/', Authorization=TOKEN)[0], sorted(os.environ))", "mode": "sync"}
    answers.append(outward.post(f"/api/v1/sessions/{session['id']}/execute", code))
    assert answers[-1].json["stdout"].startswith("200 "), answers[-1]
    for bad in ({"value": VALUE + "\n"}, {"value": [VALUE]}, {"value": 2 * [{"x": VALUE}]}, {"valeu": VALUE}, {"hosts": VALUE}):
        wrong = body_of(hosts)
        wrong["secrets"][0] |= bad
        answers.append(outward.post("/api/v1/sessions", wrong))
        assert answers[-1].status == 422, answers[-1]
    answers.append(outward.post("/api/v1/sessions", body_of(hosts) | {"secrets": VALUE}))
    answers.append(outward.delete(f"/api/v1/sessions/{session['id']}"))
    answers.append(outward.get(f"/api/v1/sessions/{session['id']}"))
    for answer in answers:
        assert VALUE.encode() not in answer.body and OTHER.encode() not in answer.body, answer
    files = [p for p in [*outward.data_dir.rglob("*"), outward.log_path, outward.out_path] if p.is_file()]
    assert any(p.suffix == ".db" for p in files)
    for path in files:
        text = path.read_bytes()
        assert VALUE.encode() not in text and OTHER.encode() not in text, path


@pytest.mark.parametrize("change, word", [
    ({"hosts": ["evil.example"]}, "not within the network policy"), ({"hosts": []}, "names no host"),
    ({"hosts": ["a b"]}, "a b"), ({"hosts": ["*"]}, "'*'"), ({"hosts": ["localhost"]}, "port 443"),
    ({"hosts": ["*.localhost"]}, "not within"), ({"value": ""}, "1 to 4096 bytes"), ({"value": "a\r\nX: b"}, "line breaks"),
    ({"value": "x" * 5000}, "at most 4096"), ({"name": "A B"}, "secrets[0].name"), ({"name": "PLAIN_TOKEN"}, "twice"),
    ({"name": "SSL_CERT_FILE"}, "SSL_CERT_FILE"), ({"name": "TZ"}, "in env"), ({"name": None}, "required"),
])
def test_a_secret_that_makes_no_sense_is_refused_by_name(outward, hosts, change, word):
    for path in ("/execute", "/api/v1/sessions"):
        body = body_of(hosts, env={"TZ": "UTC"}) | ({"code": "1"} if path == "/execute" else {})
        body["secrets"][0] |= change
        answer = outward.post(path, body)
        assert answer.status in (413, 422), answer
        assert "secrets[" in answer.json["error"]["message"] and word in answer.json["error"]["message"], answer


def test_secrets_need_a_network_and_are_bounded(outward, hosts):
    one = body_of(hosts)["secrets"][0]
    for body, word in (({"secrets": [one]}, "reaches no host"),
                       (body_of(hosts) | {"secrets": [one | {"name": f"N{i}"} for i in range(33)]}, "secrets")):
        answer = outward.post("/api/v1/sessions", body)
        assert answer.status in (413, 422) and word in answer.json["error"]["message"], answer
    template = outward.post("/api/v1/templates", {"name": "keeper", "language": "python"} | body_of(hosts))
    assert template.status == 422 and "secrets" in template.json["error"]["message"]  # which would be kept


def test_each_sandbox_has_placeholders_of_its_own(outward, hosts, seen):
    """One that is overheard elsewhere is worth nothing there."""
    first, second = (run(outward, hosts, "import os; print(os.environ['TOKEN'])")["stdout"].strip() for _ in range(2))
    assert PLACEHOLDER.match(first) and PLACEHOLDER.match(second) and first != second
    run(outward, hosts, ASK + f"ask('{hosts.api.url}/', Authorization='{first}')")
    assert hosts.api.seen[0][2]["Authorization"] == first


def proxy_of(server):
    return next((pid for pid in covetest.children_of(server.process.pid) if covetest.name_of(pid) == "cove-egress"), None)


def asks(server, session, hosts):
    """What the host has been told, by code of an execution and by what the interpreter has kept since its first."""
    code = ASK + f"""
try: kept
except NameError: kept = TOKEN
print(ask('{hosts.api.url}/', Authorization=kept, X_New=TOKEN)[0], kept == TOKEN)
"""
    hosts.api.seen.clear()
    answer = server.post(f"/api/v1/sessions/{session}/execute", {"code": code, "mode": "sync"}).json
    return answer.get("stdout", "").split() == ["200", "True"] and [
        (h["Authorization"], h["X-New"]) for _, _, h, _ in hosts.api.seen] == [(VALUE, VALUE)]


def test_secrets_outlive_the_proxy_and_the_server(pki, hosts):
    """Neither is on a disk: the spawner holds them, unread, in a memory file. Placeholders and authority stay the same."""
    with serving.Server(env=options(pki, hosts)) as server:
        session = server.post("/api/v1/sessions", body_of(hosts)).json["id"]
        assert asks(server, session, hosts)
        before = proxy_of(server)
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: proxy_of(server) not in (None, before), "another proxy")
        wait_for(lambda: asks(server, session, hosts), "the way out with its secrets")
        for _ in range(2):  # also by the one who has got it from the one before
            server.kill_coved()
            wait_for(lambda: asks(server, session, hosts), "a session that was taken over with its secrets")
        for path in [p for p in server.data_dir.rglob("*") if p.is_file()]:
            assert VALUE.encode() not in path.read_bytes(), path
        assert server.delete(f"/api/v1/sessions/{session}").status == 200


@pytest.mark.skipif(not covetest.IS_ROOT, reason="forks need groups that can be frozen")
def test_a_fork_has_the_secrets_of_its_parent(outward, hosts):
    """Its memory has the same placeholders."""
    def create():
        answer = outward.post("/api/v1/sessions", body_of(hosts, resources={"forks": 1}))
        assert answer.status == 201 or answer.code == "warming_up", answer
        return answer.status == 201 and answer

    created = wait_for(create, "an interpreter to fork from")
    session = created.json["id"]
    assert asks(outward, session, hosts)
    fork = outward.post(f"/api/v1/sessions/{session}/fork", {})
    assert fork.status == 201, fork
    assert asks(outward, fork.json["id"], hosts) and fork.json["secrets"] == created.json["secrets"]
    for one in (session, fork.json["id"]):
        assert outward.delete(f"/api/v1/sessions/{one}").status == 200


# What is started inside, and how it asks for one page.
PROGRAMS = {
    "python": "import subprocess; print(subprocess.run(['python3', '-c', \"import os, urllib.request as u; \"\n"
              "\"print(u.urlopen(u.Request('URL', headers={'Authorization': os.environ['TOKEN']})).status)\"], capture_output=True))",
    "javascript": "const r = require('child_process').spawnSync('node', ['-e', `fetch('URL', {headers: {authorization: process.env.TOKEN}})"
                  ".then(a => console.log(a.status))`], {encoding: 'utf8'}); console.log(r.stdout, r.stderr)",
}


def skip_without(server, language):
    if language not in {r["language"] for r in server.get("/api/v1/runners").json["runners"]}:
        pytest.skip(f"no image for {language}")


@pytest.mark.parametrize("language", PROGRAMS)
def test_programs_inside_trust_it_by_themselves(outward, hosts, seen, language):
    """No program is told anything but its usual variables."""
    skip_without(outward, language)
    if language == "javascript":
        skip_without_proxy(outward)
    code = PROGRAMS[language].replace("URL", hosts.api.url)
    answer = outward.post("/execute", body_of(hosts, code=code, language=language, timeout=60)).json
    assert hosts.api.seen and hosts.api.seen[0][2]["Authorization"] == VALUE, answer


def test_the_interpreter_of_a_node_session_trusts_it(outward, hosts, seen):
    """It has started long before anybody knew of secrets."""
    skip_without_proxy(outward)
    code = f"const a = await fetch('{hosts.api.url}/', {{headers: {{authorization: process.env.TOKEN}}}}); console.log(a.status)"
    answer = outward.post("/execute", body_of(hosts, code=code, language="javascript", timeout=60)).json
    assert answer["stdout"].strip() == "200" and hosts.api.seen[0][2]["Authorization"] == VALUE, answer


def test_a_terminal_has_the_file_too(outward, hosts):
    """It is there before the first execution: as content, and nothing of it is a key."""
    session = outward.post("/api/v1/sessions", body_of(hosts)).json["id"]
    answer = outward.get(f"/api/v1/sessions/{session}/files/.cove/ca.pem")
    assert answer.status == 200 and b"BEGIN CERTIFICATE" in answer.body and b"PRIVATE KEY" not in answer.body, answer
    first = answer.body[: answer.body.index(b"-----END CERTIFICATE-----") + 26]
    text = subprocess.run(["openssl", "x509", "-noout", "-text"], input=first, capture_output=True, check=True).stdout.decode()
    assert "CA:TRUE, pathlen:0" in text and "prime256v1" in text and "Cove, for one sandbox" in text
    assert outward.delete(f"/api/v1/sessions/{session}").status == 200


def test_the_file_is_no_artifact(outward, hosts):
    assert run(outward, hosts, "open('mine', 'w').write('x')")["files"][0]["path"] == "mine"


@pytest.mark.skipif(not covetest.IS_ROOT, reason="only root may look into the proxy")
def test_the_proxy_holds_no_file_of_trust_open_to_others(outward, hosts):
    """It is as confined as without secrets: no capability, seccomp, no file to write."""
    run(outward, hosts, "1")
    pid = proxy_of(outward)
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    assert status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0
    flags = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if "ca-certificates" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                flags.append(int(re.search(r"flags:\s*0?(\d+)", pathlib.Path(f"/proc/{pid}/fdinfo/{fd}").read_text())[1], 8))
        except FileNotFoundError:
            continue  # one that was closed meanwhile
    assert all(f & os.O_ACCMODE == os.O_RDONLY for f in flags)


# --- the command line -------------------------------------------------------------------------------------------------


def run_cove(cove, pki, hosts, *args, **env):
    return cove("run", "--network", "allow", "--allow", hosts.api.host, "--secret", f"TOKEN={hosts.api.host}", *args,
                env=covetest.environment(cove.home, **options(pki, hosts), **env))


@pytest.fixture
def cove():
    return covetest.Cove(covetest.BUILD)


def test_cove_run_takes_values_from_the_environment_and_from_files(cove, pki, hosts, seen, tmp_path):
    """Never from its arguments, which everybody can read."""
    (tmp_path / "value").write_text(VALUE + "\n")
    code = f"import os, urllib.request as u; print(os.environ['TOKEN'], u.urlopen(u.Request('{hosts.api.url}', headers={{'X': os.environ['TOKEN']}})).status)"
    for env in ({"TOKEN": VALUE}, {"TOKEN_FILE": str(tmp_path / "value")}):
        done = run_cove(cove, pki, hosts, "-c", code, **env)
        placeholder, status = done.stdout.split()
        assert PLACEHOLDER.match(placeholder) and status == "200", done
        assert hosts.api.seen.pop()[2]["X"] == VALUE


@pytest.mark.parametrize("args, env, word", [
    (("--secret", "OTHER=evil.example"), {"OTHER": "x"}, "not within the network policy"),
    (("--secret", "NOWHERE=localhost"), {}, "NOWHERE_FILE"), (("--secret", "NAME"), {}, "NAME=HOST"),
    (("--secret", "OTHER=localhost"), {"OTHER": "a\nb"}, "control characters"),
    (("--secret", "OTHER=localhost"), {"OTHER_FILE": "/nowhere"}, "/nowhere"),
])
def test_cove_run_says_what_is_wrong_with_a_secret(cove, pki, hosts, args, env, word):
    done = run_cove(cove, pki, hosts, *args, "-c", "1", TOKEN=VALUE, **env)
    assert done.returncode not in (0, 1) and word in done.stderr and VALUE not in done.stderr, done


def test_cove_session_create_takes_them_too(outward, cove, hosts, seen):
    env = covetest.environment(cove.home, COVE_SERVER=outward.url, COVE_TOKEN=outward.token, TOKEN=VALUE)
    made = cove("session", "create", "--allow", hosts.api.host, "--secret", f"TOKEN={hosts.api.host}", env=env)
    assert made.returncode == 0, made
    session = made.stdout.strip()
    assert outward.get(f"/api/v1/sessions/{session}").json["secrets"] == [{"name": "TOKEN", "hosts": [hosts.api.host]}]
    shown = cove("session", "show", session, env=env).stdout
    assert "TOKEN" in shown and VALUE not in shown
    code = f"import os, urllib.request as u; u.urlopen(u.Request('{hosts.api.url}', headers={{'X': os.environ['TOKEN']}}))"
    assert cove("exec", session, "-c", code, env=env).returncode == 0
    assert hosts.api.seen[0][2]["X"] == VALUE
    assert outward.delete(f"/api/v1/sessions/{session}").status == 200


def carried(program):
    """--file for a program of this machine and its libraries, since the images have none of them."""
    path = shutil.which(program) or program
    libraries = re.findall(r"=> (/\S+)", subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout)
    return [word for file in [path, *libraries] for word in ("--file", f"{os.path.realpath(file)}:bin/{os.path.basename(file)}")]


# A program of this machine's, what is carried in beside it, and how it is asked for one page.
FOREIGN = {
    "curl": ([], "/workspace/bin/curl -sS -u user:$TOKEN URL/"),
    "git": (["/usr/lib/git-core/git-remote-https"],
            "export GIT_EXEC_PATH=/workspace/bin; /workspace/bin/git -c http.extraHeader=\"X-Key: $TOKEN\" ls-remote URL/repo; true"),
}


@pytest.mark.parametrize("program", FOREIGN)
def test_programs_of_this_machine_trust_it_inside(cove, pki, hosts, seen, program):
    """As they are, by their usual variables; what is in Basic authentication is filled in, too."""
    beside, command = FOREIGN[program]
    if not shutil.which(program) or not all(os.path.exists(p) for p in beside):
        pytest.skip(f"there is no {program} on this machine")
    files = [word for one in [program, *beside] for word in carried(one)]
    script = "export LD_LIBRARY_PATH=/workspace/bin HOME=/tmp; " + command.replace("URL", hosts.api.url)
    done = run_cove(cove, pki, hosts, "-l", "bash", *files, "-c", script, TOKEN=VALUE)
    if "GLIBC" in done.stderr:
        pytest.skip("the image has another C library than this machine")
    assert hosts.api.seen, done
    headers = hosts.api.seen[0][2]
    if program == "curl":
        assert base64.b64decode(headers["Authorization"].split()[1]).decode() == f"user:{VALUE}"
    else:
        assert headers["X-Key"] == VALUE
