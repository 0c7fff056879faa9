# SPDX-License-Identifier: Apache-2.0
"""The programs that people use, inside, on the way out: each finds the proxy by itself, and is told when it may not.

curl and git are not in the images: those of this machine are handed in as files, with their libraries. requests is the one that pip
brings along. pip and npm are those that install packages."""
import http.server
import io
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tarfile
import threading

import covetest
import packages_index
import pytest
import server as serving
from egress_test import allow, canary  # noqa: F401 (a fixture)
from http_peer import certificate  # noqa: F401
from node import skip_without_proxy
from packages_index import wheel

INSTALLERS = covetest.BUILD / "installers"
LONG = 180  # npm on a busy machine
GIT_CORE = pathlib.Path("/usr/lib/git-core")

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="the server's sandboxes have uids of their own, which needs root")


# --- hosts on the loopback --------------------------------------------------------------------------


class GitHandler(http.server.BaseHTTPRequestHandler):
    """Repositories below a folder, by git's own program for that; and a page."""

    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def git(self, body):
        path, _, query = self.path.partition("?")
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_PROJECT_ROOT": str(self.server.folder), "GIT_HTTP_EXPORT_ALL": "1",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        said = subprocess.run([GIT_CORE / "git-http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=True).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        return [line.split(": ", 1) for line in head.decode().split("\r\n")], content

    def answer(self):
        body = self.body()
        self.server.seen.append((self.command, self.path))
        headers, content = self.git(body) if self.path.startswith("/one.git/") else ([], b"here")
        status = next((value for name, value in headers if name == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Site(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, certificate=None):
        super().__init__(("127.0.0.1", 0), GitHandler)
        self.seen, self.folder = [], folder
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if certificate else 'http'}://localhost:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that trusts nobody hangs up; that is its test's affair


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.com", *words], check=True, capture_output=True,
                   env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"})


@pytest.fixture(scope="module")
def sites(tmp_path_factory, certificate):  # noqa: F811
    """The same pages twice: plain, and by TLS."""
    folder = tmp_path_factory.mktemp("git")
    if shutil.which("git"):
        (folder / "one.git").mkdir()
        git(folder / "one.git", "init", "-q")
        (folder / "one.git" / "README").write_text("cloned\n")
        git(folder / "one.git", "add", "README")
        git(folder / "one.git", "commit", "-qm", "one")
    both = [Site(folder), Site(folder, certificate)]
    yield both
    for one in both:
        one.shutdown()
        one.server_close()


@pytest.fixture(scope="module")
def index():
    with packages_index.Index() as one:
        one.add(wheel("through_the_door", "1.5"))
        one.add_npm("through-the-door", {"index.js": "module.exports = 'well';"})
        yield one


@pytest.fixture(scope="module")
def outward(sites, index):
    """A server whose operator vouches for those hosts."""
    env = {"COVE_EGRESS_PRIVATE": ",".join(hosts(sites)), "COVE_PYTHON_INDEX": index.python, "COVE_NPM_REGISTRY": index.npm}
    with serving.Server(env=env) as one:
        yield one


def hosts(sites):
    return [site.url.split("//")[1] for site in sites]


# --- programs of this machine, inside ---------------------------------------------------------------


C_LIBRARY = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libresolv.so")  # the image's own fit its loader


def libraries(program):
    """What it is linked with, but for the C library."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    paths = [line.split("=> ")[1].split(" (")[0] for line in said.splitlines() if "=> /" in line]
    return {path for path in paths if not os.path.basename(path).startswith(C_LIBRARY)}


def packed(*programs):
    """An archive with bin/ and lib/."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        for program in programs:
            archive.add(os.path.realpath(program), f"bin/{os.path.basename(program)}")
        for path in set().union(*map(libraries, programs)):
            archive.add(os.path.realpath(path), f"lib/{os.path.basename(path)}")
    return memory.getvalue()


class Inside:
    """A session with a policy, and files in it."""

    def __init__(self, server, language, network):
        wish = {"language": language, "network": network, "resources": {"disk_bytes": 256 << 20, "memory_bytes": 512 << 20}}
        answer = server.post("/api/v1/sessions", wish)
        assert answer.status == 201, answer
        self.server, self.path = server, f"/api/v1/sessions/{answer.json['id']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.delete(self.path).status == 200

    def put(self, name, content):
        assert self.server.put(f"{self.path}/files/{name}", content).status in (201, 204)

    def unpack(self, archive):
        answer = self.server.put(f"{self.path}/files?directory=tools", archive)
        assert answer.status == 204, answer

    def run(self, code, env=None):
        body = {"code": code, "mode": "sync", "timeout": LONG} | ({"env": env} if env else {})
        answer = self.server.post(f"{self.path}/execute", body, timeout=LONG)
        assert answer.status == 200, answer
        return answer.json

    def says(self, code, env=None):
        execution = self.run(code, env)
        assert execution["state"] == "completed", json.dumps(execution)
        return execution["stdout"].split()

    def is_denied(self, code, host, env=None):
        """It fails at once, and everybody is told which host it was."""
        execution = self.run(code, env)
        assert execution["state"] == "failed" and execution["reason"]["kind"] == "egress_denied", json.dumps(execution)
        assert host in execution["reason"]["message"], execution
        assert [line["host"] for line in self.server.log if line["message"] == "egress denied"][-1] == host
        return execution


@pytest.fixture
def shell(outward, sites, certificate):  # noqa: F811
    """curl and git in a session of bash."""
    programs = [shutil.which("curl"), shutil.which("git"), GIT_CORE / "git-remote-https", GIT_CORE / "git-remote-http"]
    missing = [name for name, path in zip(("curl", "git"), programs) if path is None]
    if missing:
        pytest.skip(f"this machine has no {' and no '.join(missing)} to hand in")
    with Inside(outward, "bash", allow(*hosts(sites))) as one:
        one.unpack(packed(*programs))
        one.put("ca.pem", certificate[0].read_bytes())
        one.run("export PATH=$PWD/tools/bin:$PATH LD_LIBRARY_PATH=$PWD/tools/lib GIT_EXEC_PATH=$PWD/tools/bin HOME=/tmp "
                "GIT_SSL_CAINFO=$PWD/ca.pem CURL_CA_BUNDLE=$PWD/ca.pem")
        yield one


def stranger_urls(sites):
    """(host, address) of what was not named: another host, and the ones that were, by number."""
    return [("evil.example", "http://evil.example"), ("evil.example", "https://evil.example"),
            *(("127.0.0.1", site.url.replace("localhost", "127.0.0.1")) for site in sites)]


def test_curl(shell, sites, canary):
    for site in sites:
        assert shell.says(f"curl -sSf {site.url}/curl") == ["here"]
        assert shell.says(f"head -c 300000 /dev/zero | curl -sSf -T - -X POST {site.url}/curl") == ["here"]
        assert [path for _, path in site.seen][-2:] == ["/curl", "/curl"]
    for host, url in stranger_urls(sites):
        shell.is_denied(f"curl -sSf --noproxy '' {url}/", host)
    around = shell.run(f"curl -sS --noproxy '*' http://127.0.0.1:{canary.port}/; curl -sS --noproxy '*' {sites[0].url}/")
    assert around["exit_code"] == 7 and canary.seen == [], around  # nobody is there


def test_git(shell, sites):
    for name, site in zip(("plain", "tls"), sites):
        assert shell.says(f"git clone -q {site.url}/one.git {name} && cat {name}/README") == ["cloned"]
        assert ("POST", "/one.git/git-upload-pack") in site.seen
    for host, url in stranger_urls(sites):
        shell.is_denied(f"git -c http.noProxy= clone -q {url}/one.git stranger", host, {"no_proxy": "", "NO_PROXY": ""})
    assert "ssh" in shell.run("git clone -q git@localhost:one.git by-ssh")["stderr"]


# --- Python -------------------------------------------------------------------------------------------


def pip_wheel():
    path = INSTALLERS / "pip.whl"
    if not path.exists():
        pytest.skip("this machine has no python3-pip-whl to hand in")
    return path.read_bytes()


def test_requests(outward, sites, certificate):  # noqa: F811
    with Inside(outward, "python", allow(*hosts(sites))) as python:
        python.put("pip.whl", pip_wheel())
        python.put("ca.pem", certificate[0].read_bytes())
        python.says("import sys; sys.path.insert(0, 'pip.whl'); from pip._vendor import requests")
        env = {"REQUESTS_CA_BUNDLE": "/workspace/ca.pem"}
        for site in sites:
            assert python.says(f"print(requests.get('{site.url}/requests', timeout=60).text)", env) == ["here"]
            assert python.says(f"s = requests.Session(); print(*(s.post('{site.url}/', data=b'x' * 9).text for _ in range(3)))", env) == ["here"] * 3
        for host, url in stranger_urls(sites):
            python.is_denied(f"requests.get('{url}/', timeout=60).raise_for_status()", host, env | {"no_proxy": "", "NO_PROXY": ""})


PIP = "import subprocess, sys\nsubprocess.run([sys.executable, 'pip.whl/pip', {}], check=True)"


def pip(*words):
    return PIP.format(", ".join(map(repr, [*words, "--disable-pip-version-check", "--no-cache-dir", "--retries", "0", "-q"])))


def test_pip(outward, index, canary):
    """By the index that the operator named; another index is out of reach, however it is named."""
    with Inside(outward, "python", {"policy": "packages"}) as python:
        python.put("pip.whl", pip_wheel())
        python.says(pip("install", "--target", "here", "through-the-door"))
        assert python.says("sys.path.append('here'); import through_the_door; print(through_the_door.VERSION)") == ["1.5"]
        assert index.count("/files/through_the_door") == 1
        elsewhere = f"http://127.0.0.1:{canary.port}/simple"
        python.is_denied(pip("download", "--trusted-host", "127.0.0.1", "--index-url", elsewhere, "no-such-thing"), "127.0.0.1")
        python.put("pip.conf", f"[global]\nextra-index-url = {elsewhere}\ntrusted-host = 127.0.0.1\n".encode())
        python.is_denied(pip("download", "no-such-thing"), "127.0.0.1", {"PIP_CONFIG_FILE": "/workspace/pip.conf"})
        python.is_denied(pip("download", f"http://127.0.0.1:{canary.port}/a-1-py3-none-any.whl"), "127.0.0.1")
        python.is_denied(pip("download", "--index-url", "https://evil.example/simple", "no-such-thing"), "evil.example")
        assert canary.seen == []


def test_pip_and_the_real_index():
    """Through a tunnel, with the certificates that this machine trusts."""
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    probe = subprocess.run(["curl", "-sSf", "-m", "10", "-o", "/dev/null", "https://pypi.org/simple/humanize/"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"the public index is not in reach: {probe.stderr.strip()[:200]}")
    with serving.Server() as server, Inside(server, "python", {"policy": "packages"}) as python:
        python.put("pip.whl", pip_wheel())
        python.put("ca.pem", bundle.read_bytes())
        python.says(pip("download", "--no-deps", "--dest", "got", "humanize==4.9.0"), {"PIP_CERT": "/workspace/ca.pem"})
        assert python.says("import os; print(*os.listdir('got'))") == ["humanize-4.9.0-py3-none-any.whl"]


# --- Node ---------------------------------------------------------------------------------------------


FETCH = """
for (const url of process.argv.slice(2)) console.log(await (await fetch(url)).text());
"""


def test_fetch(outward, sites, certificate):  # noqa: F811
    """Of the interpreter, and of programs that it starts; and of those that unset what they were told."""
    skip_without_proxy(outward)
    with Inside(outward, "javascript", allow(*hosts(sites))) as node:
        node.put("ca.pem", certificate[0].read_bytes())
        node.put("fetch.mjs", FETCH.encode())
        assert node.says(f"console.log(await (await fetch('{sites[0].url}/')).text())") == ["here"]
        node.says("var run = (url, env) => require('child_process').execFileSync(process.execPath, ['fetch.mjs', url], "
                  "{stdio: ['ignore', 'pipe', 'inherit'], env: {...process.env, NODE_EXTRA_CA_CERTS: '/workspace/ca.pem', ...env}}).toString()")
        for site in sites:
            assert node.says(f"console.log(run('{site.url}/fetch'))") == ["here"]
            assert site.seen[-1] == ("GET", "/fetch")
            count = len(site.seen)
            around = node.run(f"run('{site.url}/', {{NODE_USE_ENV_PROXY: ''}})")
            assert around["state"] == "failed" and "ECONNREFUSED" in around["stderr"] and len(site.seen) == count, around
        node.is_denied("await fetch('https://evil.example/')", "evil.example")
        node.is_denied("run('https://evil.example/')", "evil.example")
        node.is_denied(f"run('{sites[1].url.replace('localhost', '127.0.0.1')}', {{no_proxy: '', NO_PROXY: ''}})", "127.0.0.1")


def test_npm(outward, index, canary):
    """By the registry that the operator named, and by no other."""
    packed_npm = INSTALLERS / "npm.tgz"
    if not packed_npm.exists():
        pytest.skip("this machine has no npm with its modules beside it to hand in")
    with Inside(outward, "javascript", {"policy": "packages"}) as node:
        node.put("npm.tgz", packed_npm.read_bytes())
        node.says("var {execFileSync} = require('child_process'); execFileSync('tar', ['-xzf', 'npm.tgz', '-C', '/tmp']);\n"
                  "var npm = (...words) => execFileSync(process.execPath, ['/tmp/npm/bin/npm-cli.js', ...words, '--cache', '/tmp/.npm', '--no-audit', "
                  "'--no-fund', '--no-update-notifier', '--no-progress', '--fetch-retries', '0'], {stdio: 'inherit'});")
        node.says("npm('install', 'through-the-door')")
        assert node.says("console.log(require('through-the-door'))") == ["well"]
        assert index.count("/files/through-the-door") == 1
        node.is_denied(f"npm('install', 'no-such-thing', '--registry', 'http://127.0.0.1:{canary.port}/')", "127.0.0.1")
        node.put(".npmrc", b"@evil:registry=https://evil.example/\n")
        node.is_denied("npm('install', '@evil/thing')", "evil.example")
        node.is_denied(f"npm('install', 'http://127.0.0.1:{canary.port}/thing.tgz')", "127.0.0.1")
        assert canary.seen == []
