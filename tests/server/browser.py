# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a screen, driven by its own protocol over two pipes."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import pytest

from covetest import PATIENCE, wait_for

PROGRAM = "/usr/bin/chromium"
# As root it has no sandbox of its own; what it opens here are our own pages.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"]


class Browser:
    """One page. What it asks for and complains about is kept in `requests` and `complaints`."""

    def __init__(self):
        if not os.path.exists(PROGRAM):
            pytest.skip("chromium is not installed (tools/install-deps browser)")
        self.folder = tempfile.mkdtemp(prefix="cove-test-browser-")
        self.requests, self.complaints, self.buffer, self.number = [], [], b"", 0
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()

        def place():
            first, second = os.dup(theirs_in), os.dup(theirs_out)  # 3 and 4 may be among them
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [PROGRAM, *OPTIONS, f"--user-data-dir={self.folder}", "about:blank"], preexec_fn=place, pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self.folder})
        os.close(theirs_in)
        os.close(theirs_out)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0, end - time.monotonic()))
            piece = os.read(self.back, 1 << 16) if ready else b""
            assert piece, "the browser says nothing"
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def notice(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            if "method" in answer:
                self.notice(answer["method"], answer["params"])
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def ask(self, expression):
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression):
        return wait_for(lambda: self.ask(expression), expression)

    def press(self, key):
        """A key that makes a character."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def write(self, text):
        self.call("Input.insertText", text=text)
