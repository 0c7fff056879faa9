# SPDX-License-Identifier: Apache-2.0
"""Clients of MCP that others have written, each behind a driver (mcp_drivers/) that takes the same wishes."""
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import subprocess
import threading

import pytest

import npm
import pypi
from covetest import PATIENCE
from mcp_packages import NODE_CLIENTS, PYTHON_V1, PYTHON_V2

DRIVERS = pathlib.Path(__file__).resolve().parent / "mcp_drivers"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
# name: driver, mode, which version both sides agree on
CLIENTS = {
    "node-v1": ("node_v1.mjs", "legacy", LEGACY),
    "node-v2-legacy": ("node_v2.mjs", "legacy", LEGACY),
    "node-v2-auto": ("node_v2.mjs", "auto", MODERN),
    "node-v2-modern": ("node_v2.mjs", "modern", MODERN),
    "python-v1": ("python_v1.py", "legacy", LEGACY),
    "python-v2-legacy": ("python_v2.py", "legacy", LEGACY),
    "python-v2-auto": ("python_v2.py", "auto", MODERN),
    "python-v2-modern": ("python_v2.py", "modern", MODERN),
}
PYTHONS = {"python_v1.py": PYTHON_V1, "python_v2.py": PYTHON_V2}


def node(*packages):
    """-> node_modules and an environment; or the test is skipped"""
    try:
        return npm.install(*packages)
    except npm.OutOfReach as why:
        pytest.skip(str(why))


def argv_of(driver):
    """-> the command that starts it, and its environment (None: ours)"""
    if driver in PYTHONS:
        return [pypi.python_with(PYTHONS[driver]), DRIVERS / driver], None
    _, environment = node(*NODE_CLIENTS)
    return ["node", DRIVERS / driver], environment


class Failure(Exception):
    """The client got an error; arguments: its code, its message."""


class Driver:
    """A client that is connected. Wishes may be under way side by side."""

    def __init__(self, name, transport):
        driver, mode, self.version = CLIENTS[name]
        self.name = name
        argv, environment = argv_of(driver)
        self.is_modern = self.version == MODERN
        self.numbers, self.waiting = itertools.count(1), {}
        self.lock = threading.Lock()
        self.process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        connected = self._expect(0)
        self._write({"transport": transport, "mode": mode})
        try:
            connected.result(PATIENCE)
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """As a user does who has no more wishes."""
        if self.process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            try:
                assert self.process.wait(PATIENCE) == 0
            finally:
                self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def _expect(self, number):
        future = self.waiting[number] = concurrent.futures.Future()
        return future

    def _write(self, line):
        with self.lock:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            future = self.waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(Failure(answer["error"]["code"], answer["error"]["message"]))
            else:
                future.set_result(answer)
        for future in list(self.waiting.values()):
            future.set_exception(EOFError("the driver has ended"))

    def begin(self, do, **more):
        """-> what will be answered, and the number by which it is cancelled"""
        number = next(self.numbers)
        future = self._expect(number)
        self._write({"id": number, "do": do} | more)
        return future, number

    def answer(self, do, **more):
        return self.begin(do, **more)[0].result(PATIENCE)

    def ask(self, do, **params):
        return self.answer(do, **({"params": params} if params else {}))["result"]

    def call(self, name, **arguments):
        return self.ask("call", name=name, arguments=arguments)

    def text(self, name, **arguments):
        result = self.call(name, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]
