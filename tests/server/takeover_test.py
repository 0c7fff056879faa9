# SPDX-License-Identifier: Apache-2.0
"""coved is killed, asked to go, or replaced by another build, with many sessions alive: they do not notice."""
import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import threading

import pytest

import covetest
import crashers
from covetest import IS_ASAN, wait_for
from crashers import SESSIONS, Home, Listener, create, ended, execute, pages, settled, side_by_side, value

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

SESSION_COUNT, RUNNING, QUEUED, LISTENING = (30 if IS_ASAN else 100), (8 if IS_ASAN else 20), 6, 6
LINES = 40
# Small ones: it is their number that matters.
SMALL = {"resources": {"memory_bytes": 64 << 20, "pids": 16}}
# It goes on until it is told to end, so that it runs however long a restart takes.
PROGRAM = f"""
import os, time
for i in range({LINES}):
    print(i, "x" * 100, flush=True)
    if i == {LINES // 2}:
        while not os.path.exists("go"):
            time.sleep(0.01)
"""
OUTPUT = "".join(f"{i} {'x' * 100}\n" for i in range(LINES))


@pytest.fixture(autouse=True)
def reaping():
    with covetest.orphans_come_to_us():
        yield


@pytest.fixture
def build():
    """Programs of the test's own, where it can put others in their place."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-build-"))
    shutil.copytree(covetest.public_build().parent, folder, dirs_exist_ok=True)
    folder.chmod(0o755)
    yield folder / "bin"
    shutil.rmtree(folder)


@pytest.fixture
def home(build):
    home = Home(cove=covetest.Cove(build))
    yield home
    home.release()


def kill(home, _):
    home.kill("coved")


def ask_to_restart(home, _):
    """What is under way comes to its end first, as far as it does so soon."""
    server = home.server
    old, count = server.coved, len(server.addresses())
    os.kill(old, signal.SIGHUP)
    wait_for(lambda: server.find_coved() not in (None, old), "another coved")
    server.wait_ready(count + 1)


def upgrade(home, build):
    """Another file under the same name, as a package manager does."""
    other = build / "coved.new"
    shutil.copy(build / "coved", other)
    with open(other, "ab") as file:
        file.write(b"\0another build\0")
    before = os.stat(f"/proc/{home.server.coved}/exe").st_ino
    other.rename(build / "coved")
    ask_to_restart(home, build)
    assert os.stat(f"/proc/{home.server.coved}/exe").st_ino == os.stat(build / "coved").st_ino != before


def prepare(home):
    """Sessions with a variable each; some run, and something waits behind some of these."""
    server = home.server
    sessions = [create(server, metadata={"number": str(i)}, **SMALL)["id"] for i in range(SESSION_COUNT)]
    for i, session in enumerate(sessions):
        execute(server, session, f"x = {i}")
    running = [execute(server, session, PROGRAM, "async", timeout=600)["id"] for session in sessions[:RUNNING]]
    queued = [execute(server, session, "x += 1000; print('then', x)", "async", queue=True)["id"]
              for session in sessions[:QUEUED]]
    return sessions, running, queued


def listen(home, running):
    listeners = [Listener(home, execution) for execution in running[:LISTENING]]
    threads = [threading.Thread(target=listener.run) for listener in listeners]
    for thread in threads:
        thread.start()
    half = OUTPUT[:OUTPUT.index(f"{LINES // 2 + 1} x")]
    wait_for(lambda: all(listener.output == half for listener in listeners), "the first half of the output")
    return listeners, threads


@pytest.mark.parametrize("restart", [kill, ask_to_restart, upgrade])
def test_nobody_notices(home, build, restart):
    sessions, running, queued = prepare(home)
    listeners, threads = listen(home, running)
    restart(home, build)
    server = home.server
    taken = [line for line in server.log if line["message"] == "took over what was left"][-1]
    assert (taken["sessions"], taken["lost"]) == (SESSION_COUNT, 0), server.say()
    live = pages(server, f"{SESSIONS}?live=true", "sessions")
    assert {session["id"] for session in live} == set(sessions)
    assert {session["state"] for session in live} <= {"ready", "busy"}
    idle = [execute(server, session, "print(x)")["stdout"] for session in sessions[RUNNING:]]
    assert [int(text) for text in idle] == list(range(RUNNING, SESSION_COUNT))
    states = [server.get(f"{crashers.EXECUTIONS}/{execution}/status").json["state"] for execution in running + queued]
    assert states == ["running"] * RUNNING + ["queued"] * QUEUED
    let_go(server)
    for execution in running:
        doc = ended(server, execution)
        assert (doc["state"], doc["stdout"]) == ("completed", OUTPUT), doc
    for i, execution in enumerate(queued):
        doc = ended(server, execution)
        assert (doc["state"], doc["stdout"]) == ("completed", f"then {1000 + i}\n"), doc
    for thread in threads:
        thread.join(covetest.PATIENCE)
    for listener, execution in zip(listeners, running):
        assert listener.breaks >= 1 and listener.output == OUTPUT
        assert listener.ends == [settled(server, execution)]
    expected = [i + (1000 if i < QUEUED else 0) for i in range(RUNNING)]
    assert [int(value(server, session, "x")) for session in sessions[:RUNNING]] == expected
    side_by_side(lambda session: server.delete(f"{SESSIONS}/{session}"), sessions)
    home.end()


def let_go(server):
    """A word that does not pass through the server: a file in every workspace."""
    for pid in crashers.server_pids(server.group):
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{pid}/cwd/go").touch()
