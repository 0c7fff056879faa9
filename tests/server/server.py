# SPDX-License-Identifier: Apache-2.0
"""A running `cove serve` for tests: on a free port, with a data directory of its own and the built images.

    with Server() as server:
        answer = server.post("/api/v1/sessions", {"language": "python"})
        assert answer.status == 201 and answer.json["state"] == "ready"

The fixtures `server` (one for each test) and `shared_server` (one for all tests of a run, which must leave it as they
found it) are in conftest.py."""
import fcntl
import functools
import http.client
import itertools
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import termios

import covetest
from covetest import PATIENCE, wait_for

numbers = itertools.count()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """Of an error."""
        return self.json["error"]["code"]

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


def is_public(path):
    """Whether any user can go there; the server runs as one who has no name."""
    return all(parent.stat().st_mode & 0o001 for parent in [path, *path.parents])


@functools.cache
def port_locks():
    """A file of which every process of tests locks a byte for each port that it has taken, until it ends. All of them have
    the same one, wherever their temporary files are."""
    return open(f"/tmp/cove-test-ports-{os.geteuid()}", "wb")


taken_ports = set()  # by this process, whose own locks do not keep it out


def free_port():
    """One that nobody listens at, nor is about to, out of those that the kernel gives to nobody."""
    while True:
        port = random.randrange(20000, 32000)
        if port in taken_ports:
            continue
        with socket.socket() as probe:
            try:
                fcntl.lockf(port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        taken_ports.add(port)
        return port


FREE = "free"


class Server:
    """Starts at once, and waits until it answers; is_ready=False: only starts. listen=None: not by a flag. `out` and `err`
    are descriptors in place of the files."""

    def __init__(self, *args, cove=None, env=None, data_dir=None, listen=FREE, group=None, is_ready=True, out=None, err=None):
        if cove is None:
            cove = covetest.Cove(covetest.BUILD if is_public(covetest.BUILD) else covetest.public_build())
        # Of its own: tests beside it look for leftovers.
        self.group = group or f"{covetest.CGROUP_PARENT}-{next(numbers)}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-serve-"))
        self.folder.chmod(0o755)
        if cove.user:
            entry = pwd.getpwnam(cove.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.data_dir = pathlib.Path(data_dir or self.folder / "data")
        self.out_path, self.log_path = self.folder / "out", self.folder / "log"
        self.url = self.socket_path = self.pid_seen = None
        self.token = (env or {}).get("COVE_TOKEN")
        environment = covetest.environment(cove.home, **{"COVE_CGROUP_PARENT": self.group} | (env or {}))
        # The same after a restart, unlike one that the kernel chooses.
        listening = ["--listen", f"127.0.0.1:{free_port()}" if listen == FREE else listen] if listen else []
        with open(self.out_path, "wb") as out_file, open(self.log_path, "wb") as log_file:
            self.process = subprocess.Popen(
                cove.argv("serve", "--data-dir", self.data_dir, *listening, *args), env=environment, cwd=cove.cwd,
                stdin=subprocess.DEVNULL, stdout=out_file if out is None else out, stderr=log_file if err is None else err)
        if is_ready:
            try:
                self.wait_ready()
            except BaseException:
                self.release()
                raise

    # --- its life ---------------------------------------------------------------------------------

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    @property
    def out(self):
        return self.out_path.read_text()

    def find_log_writer(self):
        """The pid of the process that writes the log."""
        return next((pid for pid in covetest.children_of(self.process.pid) if covetest.name_of(pid) == "cove-log"), None)

    def is_log_written(self):
        """Whether what was logged by now is in the file: the pipe is empty, and its reader waits."""
        writer = self.find_log_writer()
        try:
            with open(f"/proc/{writer}/fd/0", "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as pipe:
                waiting = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
        except OSError:  # it is over, or not ours to look at
            return True
        return not any(waiting) and covetest.status_of(writer).get("State", "Z").split()[0] in "SZX"

    @property
    def log(self):
        """Lines of the log, as objects."""
        wait_for(self.is_log_written, "the log")
        return [json.loads(line) for line in self.log_path.read_text().splitlines() if line.startswith("{")]

    def say(self):
        return f"status {self.process.poll()}\n{self.out}\n{self.log_path.read_text()}"

    def addresses(self):
        return re.findall(r"is ready at (\S+)", self.out)

    def wait_ready(self, count=1):
        """Until the address was printed that often, and it answers there."""
        wait_for(lambda: len(self.addresses()) >= count or self.process.poll() is not None, "the address")
        assert self.process.poll() is None, self.say()
        self.url = self.addresses()[-1]
        found = re.findall(r"^ *socket +(\S+)$", self.out, re.M)
        self.socket_path = found[-1] if found else None
        if self.token is None:
            self.token = (self.data_dir / "server/token").read_text().strip()
        wait_for(self.is_answering, f"an answer at {self.url}")

    def is_answering(self):
        assert self.process.poll() is None, self.say()
        try:
            return self.get("/api/v1/sessions").status == 200
        except OSError:
            return False

    @property
    def coved(self):
        """The pid of what answers."""
        return wait_for(self.find_coved, "a coved")

    def find_coved(self):
        return next((pid for pid in covetest.children_of(self.process.pid) if covetest.name_of(pid) == "coved"), None)

    def kill_coved(self, number=signal.SIGKILL):
        """And waits for the next one, which answers."""
        old, count = self.coved, len(self.addresses())
        os.kill(old, number)
        wait_for(lambda: not covetest.is_alive(old) or self.find_coved() not in (None, old), "the end of coved")
        self.wait_ready(count + 1)

    def stop(self, number=signal.SIGTERM):
        """As an operator does; answers the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def nothing_is_left(self):
        wait_for(lambda: not [pid for pid in covetest.pids() if covetest.is_in_group(pid, self.group)],
                 "no process of a sandbox")
        wait_for(lambda: not covetest.sandbox_groups(self.group), "no cgroup of a sandbox")

    def release(self):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()  # with it, its sandboxes end
            self.process.wait()
        if covetest.IS_ROOT:
            self.nothing_is_left()
            covetest.remove_groups(self.group)
        shutil.rmtree(self.folder)

    # --- asking it --------------------------------------------------------------------------------

    def connect(self, timeout=PATIENCE):
        """A connection that is open, as http.client has it."""
        if self.socket_path:
            connection = UnixConnection(self.socket_path, timeout)
        elif self.url.startswith("https"):
            trust_all = ssl._create_unverified_context()  # its certificate was made for the test
            connection = http.client.HTTPSConnection(self.url.split("//")[1], timeout=timeout, context=trust_all)
        else:
            connection = http.client.HTTPConnection(self.url.split("//")[1], timeout=timeout)
        connection.connect()
        return connection

    def begin(self, connection, method, path, body=None, token=True, headers=None):
        """Sends a request; a body that is not bytes goes as JSON. token: True is the server's, None is none."""
        headers = dict(headers or {})
        if token:
            headers.setdefault("Authorization", f"Bearer {self.token if token is True else token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body=body, headers=headers)

    def request(self, method, path, body=None, token=True, headers=None, connection=None, timeout=PATIENCE):
        """One request; on a connection of its own unless there is one."""
        own = connection or self.connect(timeout)
        try:
            self.begin(own, method, path, body, token, headers)
            response = own.getresponse()
            answer = Answer(response, response.read())
            assert answer.status != 429 or int(answer.headers["Retry-After"]) > 0, "who is told to come later is told when"
            return answer
        finally:
            if own is not connection:
                own.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body=None, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def put(self, path, body=None, **kwargs):
        return self.request("PUT", path, body, **kwargs)

    def delete(self, path, **kwargs):
        return self.request("DELETE", path, **kwargs)

    def events(self, method, path, body=None, token=True, headers=None, timeout=PATIENCE):
        """Server-sent events as they come: (id, name, data); data is parsed JSON."""
        connection = self.connect(timeout)
        try:
            self.begin(connection, method, path, body, token, headers)
            response = connection.getresponse()
            assert response.status == 200, Answer(response, response.read())
            fields = {}
            for line in response:
                line = line.decode().rstrip("\n")
                name, _, value = line.partition(":")
                if line and name:
                    fields[name] = fields[name] + "\n" + value[1:] if name in fields else value.removeprefix(" ")
                elif not line and "data" in fields:
                    yield fields.get("id"), fields.get("event"), json.loads(fields["data"])
                    fields = {}
        finally:
            connection.close()
