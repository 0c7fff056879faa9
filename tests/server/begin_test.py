# SPDX-License-Identifier: Apache-2.0
"""coved dies in the moment in which code begins: it runs once, whichever side of that moment it was."""
import contextlib
import os
import pathlib
import platform
import re
import signal
import sqlite3
import threading
import time

import pytest

import covetest
import crashers
from covetest import wait_for
from crashers import BROKEN, SESSIONS, Home, create, ended, execute, read

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

# It leaves a mark each time it begins, and goes on when it is told to.
CODE = """
import os, time
with open("ran", "a") as file:
    file.write("x")
print("before", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
print("after")
"""
OUTPUT = "before\nafter\n"


@pytest.fixture(autouse=True)
def reaping():
    with covetest.orphans_come_to_us():
        yield


@pytest.fixture
def home():
    home = Home()
    yield home
    home.release()


class Inside:
    """The processes of one session, seen from the host."""

    def __init__(self, server, session):
        self.group, self.mark, self.kernel = server.group, f"here-{session}", None
        execute(server, session, f"open('{self.mark}', 'w').close()")
        self.kernel = self.find_kernel()
        self.init = int(re.search(r"^PPid:\s+(\d+)$", covetest.read_text(f"/proc/{self.kernel}/status"), re.M)[1])

    def find_kernel(self):
        """Another than before; None: there is none yet."""
        return next((pid for pid in crashers.server_pids(self.group) if pid != self.kernel and
                     covetest.name_of(pid) != "cove-init" and pathlib.Path(f"/proc/{pid}/cwd/{self.mark}").exists()), None)

    def file(self, name):
        return pathlib.Path(f"/proc/{self.kernel}/cwd/{name}")

    def call(self):
        """The number of the system call in which the interpreter waits."""
        return covetest.read_text(f"/proc/{self.kernel}/syscall").split()[0]

    def text(self, name):
        return self.file(name).read_text() if self.file(name).exists() else ""


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def locked(home):
    """Another program writes: nothing is committed meanwhile."""
    with contextlib.closing(sqlite3.connect(home.data_dir / "server/cove.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        other.execute("ROLLBACK")


def ask_quietly(server, path, method="GET"):
    """Whatever becomes of the answer."""
    def ask():
        with contextlib.suppress(*BROKEN):
            server.request(method, path)
    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def kill_coved(home):
    """And does not wait for the next one."""
    count = len(home.server.addresses()) + 1
    os.kill(home.server.coved, signal.SIGKILL)
    return count


def check_ran_once(home, inside, execution):
    inside.file("go").touch()
    doc = ended(home.server, execution)
    assert (doc["state"], doc["stdout"]) == ("completed", OUTPUT), doc
    assert inside.text("ran") == "x"
    assert read(home.server, execution) == doc


def test_what_has_begun_before_that_was_written_goes_on(home):
    """It waits for an interpreter that stands still; once it begins, the database takes no more."""
    server, session = home.server, create(home.server)["id"]
    inside = Inside(server, session)
    with stopped(inside.kernel):
        thread = ask_quietly(server, f"{SESSIONS}/{session}/variables")
        wait_for(lambda: server.get(f"{SESSIONS}/{session}").json["state"] == "busy", "a question under way")
        queued = execute(server, session, CODE, "async", queue=True)["id"]
        lock = locked(home)
        database = lock.__enter__()
    wait_for(lambda: inside.text("ran"), "the beginning")
    assert database.execute("SELECT state FROM executions WHERE id = ?", [queued]).fetchone() == ("queued",)
    count = kill_coved(home)
    lock.__exit__(None, None, None)
    thread.join()
    server.wait_ready(count)
    assert read(server, queued)["state"] == "running"
    check_ran_once(home, inside, queued)


def test_what_a_reset_has_ended_is_not_begun_again(home):
    """Its end cannot be written, and the next interpreter has never heard of it."""
    server, session = home.server, create(home.server)["id"]
    inside = Inside(server, session)
    with stopped(inside.kernel):  # what has waited is written down with its code
        question = ask_quietly(server, f"{SESSIONS}/{session}/variables")
        wait_for(lambda: server.get(f"{SESSIONS}/{session}").json["state"] == "busy", "a question under way")
        queued = execute(server, session, CODE, "async", queue=True)["id"]
    question.join()
    wait_for(lambda: inside.text("ran"), "the beginning")
    with locked(home):
        reset = ask_quietly(server, f"{SESSIONS}/{session}/reset", "POST")
        inside.kernel = wait_for(inside.find_kernel, "another interpreter")
        count = kill_coved(home)
    reset.join()
    server.wait_ready(count)
    doc = ended(server, queued)
    assert (doc["state"], doc["stdout"]) == ("lost", "before\n"), doc
    assert execute(server, session, "print(open('ran').read())", queue=True)["stdout"] == "x\n"


def test_what_was_told_and_had_not_begun_begins(home):
    """Its files come first, through an init that stands still."""
    server, session = home.server, create(home.server)["id"]
    inside = Inside(server, session)
    with stopped(inside.init):
        execution = execute(server, session, CODE, "async", files=[{"path": "input", "content": "i"}])["id"]
        count = kill_coved(home)
        server.wait_ready(count)
    wait_for(lambda: inside.text("ran"), "the beginning")
    assert inside.text("input") == "i"
    check_ran_once(home, inside, execution)


def test_what_had_not_begun_can_be_cancelled(home):
    server, session = home.server, create(home.server)["id"]
    inside = Inside(server, session)
    with stopped(inside.init):
        execution = execute(server, session, CODE, "async", files=[{"path": "input", "content": "i"}])["id"]
        count = kill_coved(home)
        server.wait_ready(count)
        assert server.post(f"{crashers.EXECUTIONS}/{execution}/cancel").status == 200
    doc = ended(server, execution)
    assert doc["state"] == "cancelled", doc["reason"]
    assert inside.text("ran") == ""
    assert execute(server, session, "print(1)", queue=True)["stdout"] == "1\n"


def test_its_own_time_limit_holds_after_a_takeover():
    home = Home("--timeout", "1s")
    try:
        session = create(home.server)["id"]
        inside = Inside(home.server, session)
        execution = execute(home.server, session, CODE, "async", timeout=600)["id"]
        began = time.monotonic()
        wait_for(lambda: inside.text("ran"), "the beginning")
        home.kill("coved")
        wait_for(lambda: time.monotonic() - began > 1.5, "more than the limit that others have")
        check_ran_once(home, inside, execution)
    finally:
        home.release()


RECVMSG = {"x86_64": "47", "aarch64": "212"}[platform.machine()]
NANOSLEEP = {"x86_64": "230", "aarch64": "115"}[platform.machine()]
PATIENT = """
import os, time
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)
"""
STEADY = """
import time
for _ in range(50):
    time.sleep(0.01)
print("whole")
"""


def test_an_interrupt_that_comes_late_does_not_hit_what_is_next(home):
    """The first process of the sandbox has no time to pass it on before the code ends by itself."""
    server, session = home.server, create(home.server)["id"]
    inside = Inside(server, session)
    execute(server, session, "import time; time.sleep(0.01)")  # the file that this has made is of the past, for the next one
    first = execute(server, session, PATIENT, "async")["id"]
    second = execute(server, session, STEADY, "async", queue=True)["id"]
    wait_for(lambda: inside.call() == NANOSLEEP, "the beginning")
    with stopped(inside.init):
        assert server.post(f"{crashers.EXECUTIONS}/{first}/cancel").status == 200
        pathlib.Path(f"/proc/{inside.kernel}/root/tmp/go").touch()
        wait_for(lambda: inside.call() == RECVMSG or read(server, second)["state"] != "queued", "the end of the first one")
    doc = ended(server, second)
    assert (doc["state"], doc["stdout"]) == ("completed", "whole\n"), doc
    assert ended(server, first)["state"] == "cancelled"
