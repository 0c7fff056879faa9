# SPDX-License-Identifier: Apache-2.0
"""A real S3 server for tests (versitygw), and a proxy that breaks what goes through it.

The server is an optional part: where it cannot be had, the test that wants one is skipped and says why."""
import functools
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from covetest import PATIENCE, ROOT, wait_for
from server import free_port

CANNOT = 77  # the exit code of tools/get-s3-server that says so
ACCESS_KEY, SECRET_KEY, BUCKET = "a-test-access-key", "A+Test/Secret.Key", "a-test-bucket"


@functools.cache
def find_gateway():
    """-> (the program, why there is none)"""
    done = subprocess.run([ROOT / "tools/get-s3-server"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    assert done.returncode in (0, CANNOT) and lines, done.stderr
    return (lines[-1], None) if done.returncode == 0 else (None, lines[-1])


def get_gateway():
    program, why = find_gateway()
    if not program:
        pytest.skip(why)
    return program


class S3Server:
    """With one bucket. Ends and begins again at the same port, with what it had."""

    def __init__(self, *args, scheme="http"):
        self.program, self.args, self.scheme = get_gateway(), args, scheme
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-s3-"))
        self.data = self.folder / "data"
        (self.data / BUCKET).mkdir(parents=True)
        self.port, self.process = free_port(), None
        self.start()

    @property
    def endpoint(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"127.0.0.1:{self.port}",
                 *self.args, "posix", self.data], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self.is_answering, "the S3 server")

    def is_answering(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def unfinished(self):
        """Uploads that are neither complete nor called off."""
        return list(self.files(self.data / BUCKET / ".sgwtmp/multipart"))

    def objects(self):
        root = self.data / BUCKET
        return sorted(str(path.relative_to(root)) for path in self.files(root) if ".sgwtmp" not in path.parts)

    @staticmethod
    def files(root):
        """All of them, while others come and go."""
        return (pathlib.Path(top, name) for top, _, names in os.walk(root) for name in names)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """In front of a server. What happens to the next connections is a list of plans, then they pass:

    ("refuse",)     503 without asking the server         ("cut_up", n)   broken after n bytes of the request
    ("silent",)     taken, and never answered             ("cut_down", n) broken after n bytes of the answer
    """

    def __init__(self, port):
        self.target, self.plans, self.seen = port, [], []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                plan = self.plans.pop(0) if self.plans else ("pass",)
                self.seen.append(plan[0])
                self.sockets.append(client)
            threading.Thread(target=self.serve, args=(client, plan), daemon=True).start()

    def serve(self, client, plan):
        if plan[0] == "silent":
            return
        if plan[0] == "refuse":
            self.refuse(client)
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with self.lock:
            self.sockets.append(server)
        limits = {"cut_up": (plan[-1], None), "cut_down": (None, plan[-1])}.get(plan[0], (None, None))
        threading.Thread(target=self.pump, args=(client, server, limits[0]), daemon=True).start()
        self.pump(server, client, limits[1])

    @staticmethod
    def refuse(client):
        """Reads all that comes first, so that the answer is not lost in a reset."""
        body = b"<Error><Code>SlowDown</Code><Message>not now</Message></Error>"
        head, length = b"", 0
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        head, _, rest = head.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(rest) < length:
            rest += client.recv(65536)
        client.sendall(b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Type: application/xml\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        client.close()

    @staticmethod
    def pump(source, sink, limit):
        try:
            while limit is None or limit > 0:
                data = source.recv(65536 if limit is None else min(65536, limit))
                if not data:
                    break
                sink.sendall(data)
                if limit is not None:
                    limit -= len(data)
        except OSError:
            pass
        for end in source, sink:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for one in self.sockets:
            one.close()
