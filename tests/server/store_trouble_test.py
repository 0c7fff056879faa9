# SPDX-License-Identifier: Apache-2.0
"""The database in trouble: no space, locked, read-only, cut short, moved, replaced. Errors say so, nothing that was told
is lost, and the server goes on by itself when the cause is gone."""
import concurrent.futures
import contextlib
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import threading

import pytest

import covetest
import crashers
from covetest import PATIENCE, wait_for
from crashers import EXECUTIONS, SESSIONS, Listener, create, ended, execute, read, settled, side_by_side
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="mounting needs root")

EXIT_REFUSED = 78
SPACE = 24 << 20


@pytest.fixture
def disk():
    """A small file system of the test's own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SPACE},mode=755", "cove-test", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.fixture
def server(disk):
    with Server(data_dir=disk / "data") as server:
        yield server


@pytest.fixture(autouse=True)
def reaping():
    with covetest.orphans_come_to_us():
        yield


def database(server):
    return server.data_dir / "server/cove.db"


@contextlib.contextmanager
def full(disk):
    """Not a byte is left; on leaving, all that the file took is free again."""
    path = disk / "filler"
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    try:
        yield
    finally:
        path.unlink()


@contextlib.contextmanager
def locked(disk):
    """Another program has begun to write, and takes its time."""
    other = sqlite3.connect(disk / "data/server/cove.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@contextlib.contextmanager
def moved(disk):
    path = disk / "data/server/cove.db"
    path.rename(disk / "elsewhere")
    try:
        yield
    finally:
        (disk / "elsewhere").rename(path)


@contextlib.contextmanager
def replaced(disk):
    path = disk / "data/server/cove.db"
    path.rename(disk / "elsewhere")
    path.write_bytes(b"not a database at all\n" * 1000)
    try:
        yield
    finally:
        (disk / "elsewhere").rename(path)


STATUSES = {"the disk of the database is full": (507, "storage_full")}
TROUBLES = {full: "the disk of the database is full", locked: "the database is locked by another program",
            moved: "the file of the database has been moved or removed",
            replaced: "the file of the database has been moved or removed"}


def assert_trouble(answer, words):
    status, code = STATUSES.get(words, (503, "unavailable"))
    assert answer.status == status, answer
    error = answer.json["error"]
    assert error["code"] == code and words in error["message"] and error["hint"], error
    assert error["request_id"] == answer.headers["X-Request-Id"]
    for secret in (b"/tmp", b"cove.db", b"sqlite"):
        assert secret not in answer.body.lower(), answer


def until_refused(ask, words):
    """A log that has room already takes some more."""
    answer = wait_for(lambda: (answer := ask()).status >= 500 and answer, "a refusal")
    assert_trouble(answer, words)
    return answer


def is_whole(server):
    """What the file holds, seen by another program."""
    with contextlib.closing(sqlite3.connect(f"file:{database(server)}?mode=ro", uri=True)) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert other.execute("PRAGMA foreign_key_check").fetchall() == []


def ask(server, session, code="1", mode="sync", **wish):
    return server.post(f"{SESSIONS}/{session}/execute", {"code": code, "mode": mode} | wish)


def post_session(server, told):
    answer = server.post(SESSIONS, {})
    told += [answer.json["id"]] if answer.status == 201 else []
    return answer


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_is_lost_and_it_goes_on_by_itself(server, disk, trouble):
    words, coved = TROUBLES[trouble], server.coved
    known, doomed, *idle = [create(server)["id"] for _ in range(5)]
    execute(server, known, "x = 41")
    old = execute(server, known, "print(x)")
    hold = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('gone')"
    running = execute(server, known, hold, "async", timeout=600)["id"]
    listener = Listener(type("Here", (), {"server": server}), running)
    thread = threading.Thread(target=listener.run)
    thread.start()
    with trouble(disk):
        told = []  # before the trouble was known: they are not lost either
        until_refused(lambda: post_session(server, told), words)
        *answers, short, longer = side_by_side(lambda act: act(), [
            lambda: server.post(SESSIONS, {"name": "never"}, headers={"Idempotency-Key": "k"}),
            lambda: ask(server, idle[0], "y = 1", "async"),
            lambda: ask(server, known, "open('waited', 'w')", "async", queue=True),
            lambda: server.delete(f"{SESSIONS}/{doomed}"),
            lambda: ask(server, idle[1], "z = 1"),
            lambda: ask(server, idle[2], "import time; time.sleep(0.1); z = 1")])
        kept = [answer.json for answer in (short, longer) if answer.status == 200]  # a full disk may have room for so little
        answers += [answer for answer in (short, longer) if answer.status != 200 or trouble is not full]
        for answer in answers:
            assert_trouble(answer, words)
        assert server.get(f"{SESSIONS}/{doomed}").json["state"] == "terminating"
        let_go(server)
        assert server.get(f"{SESSIONS}/{known}").status == 200
        assert server.get(SESSIONS).status == 200
        assert {*told, known, *idle} <= {doc["id"] for doc in crashers.pages(server, SESSIONS, "sessions")}
        assert read(server, running)["state"] == "running", "its end is not written"
        assert listener.ends == []
    doc = settled(server, running)
    assert (doc["state"], doc["stdout"]) == ("completed", "gone\n")
    thread.join(PATIENCE)
    assert listener.ends == [doc]
    assert read(server, old["id"]) == old
    assert [read(server, one["id"]) for one in kept] == kept
    answer = server.delete(f"{SESSIONS}/{doomed}")
    assert answer.status == 200 and answer.json["state"] == "terminated", answer
    assert server.get(f"{SESSIONS}/{doomed}").json == answer.json
    assert execute(server, known, "import os; print(x, os.path.exists('waited'))", queue=True)["stdout"] == "41 False\n"
    fresh = server.post(SESSIONS, {"name": "never"}, headers={"Idempotency-Key": "k"})
    assert fresh.status == 201, fresh
    lives = {doc["id"] for doc in crashers.pages(server, f"{SESSIONS}?live=true", "sessions")}
    assert lives == {known, *idle, *told, fresh.json["id"]}
    states = {doc["state"] for doc in crashers.pages(server, EXECUTIONS, "executions")}
    assert not states & {"running", "queued"}, "an end that could not be written then is written now"
    assert server.coved == coved, "it has not crashed"
    is_whole(server)
    server.kill_coved()
    assert execute(server, known, "print(x)")["stdout"] == "41\n"
    assert read(server, old["id"]) == old and read(server, running) == doc
    for session in told:
        assert execute(server, session, "print(6 * 7)")["stdout"] == "42\n"


def let_go(server):
    for pid in crashers.server_pids(server.group):
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{pid}/cwd/go").touch()


def test_an_attempt_does_not_stay_under_way(server, disk):
    """It was written that it began, and then neither its outcome nor that there is none."""
    code = "import os, time\nopen('here', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)"
    answers = []

    def attempt():
        return server.post("/execute", {"code": code, "timeout": 600}, headers={"Idempotency-Key": "k"})
    thread = threading.Thread(target=lambda: answers.append(attempt()))
    thread.start()
    wait_for(lambda: is_anywhere(server, "here"), "code that runs")
    assert attempt().code == "idempotency_in_progress"
    with locked(disk):
        until_refused(lambda: server.post(SESSIONS, {}), TROUBLES[locked])
        let_go(server)
        thread.join(PATIENCE)
        assert_trouble(answers[0], TROUBLES[locked])
    again = concurrent.futures.ThreadPoolExecutor(1).submit(wait_for, lambda: try_again(attempt), "another attempt")
    wait_for(lambda: let_go(server) or again.done(), "its end")
    assert again.result().status == 200, again.result()


def tell_while_locked(server, disk, session, code, then):
    """Answers the execution, after then(it), that ended while nothing could be written. One that takes so long that its beginning
    is to be written is refused, and another is tried."""
    while True:
        with locked(disk):
            answer = ask(server, session, code)
            if answer.status == 200:
                then(answer.json)
                return answer.json
            assert_trouble(answer, TROUBLES[locked])
        wait_for(lambda: ask(server, session).status == 200, "the end of the trouble")


def test_what_was_told_before_the_trouble_was_known_is_kept(server, disk):
    """The end of an execution is safe before it is in the database; who asks for it there is not told that there is none."""
    session, count = create(server)["id"], len(server.addresses())
    key = {"Idempotency-Key": "k"}

    def ask_for(told):
        assert_trouble(server.get(f"{EXECUTIONS}/{told['id']}?"), TROUBLES[locked])
        assert_trouble(ask(server, session), TROUBLES[locked])

    told = tell_while_locked(server, disk, session, "print(41)", ask_for)
    assert read(server, told["id"]) == told
    told = tell_while_locked(server, disk, session, "print(42)", lambda _: os.kill(server.coved, 9))
    server.wait_ready(count + 1)
    assert read(server, told["id"]) == told
    first = server.post("/execute", {"code": "print(43)"}, headers=key)
    assert server.post("/execute", {"code": "print(43)"}, headers=key).json == first.json


def try_again(attempt):
    answer = attempt()
    return answer if answer.status != 409 or answer.code != "idempotency_in_progress" else None


def is_anywhere(server, name):
    return [pid for pid in crashers.server_pids(server.group) if os.path.exists(f"/proc/{pid}/cwd/{name}")]


def test_an_end_that_was_not_written_comes_again(server, disk):
    """The process dies between the end of the code and the commit of that: the next one has all of the output."""
    sessions = [create(server)["id"] for _ in range(3)]
    hold = "import os, time\nprint('before')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('after')\n42"
    running = [execute(server, session, hold, "async", timeout=600)["id"] for session in sessions]
    count = len(server.addresses())
    with locked(disk):
        let_go(server)
        for execution in running:
            names = (name for _, name, _ in server.events("GET", f"{EXECUTIONS}/{execution}/events"))
            assert "result" in names, "the last that is told before the end"
        os.kill(server.coved, 9)
    server.wait_ready(count + 1)
    for execution in running:
        doc = ended(server, execution)
        assert (doc["state"], doc["stdout"]) == ("completed", "before\nafter\n"), doc
        assert doc["results"][0]["data"]["text/plain"] == "42"


def test_a_takeover_waits_for_the_trouble_to_end(server, disk):
    """The next process cannot begin, and is started again until it can; sandboxes wait."""
    session = create(server)["id"]
    execute(server, session, "x = 41")
    count = len(server.addresses())
    with full(disk):
        until_refused(lambda: server.post(SESSIONS, {}), TROUBLES[full])
        os.kill(server.coved, 9)
        wait_for(lambda: [line for line in server.log if line["message"] == "the server cannot start"], "a refusal")
        assert server.process.poll() is None
    server.wait_ready(count + 1)
    assert execute(server, session, "print(x)")["stdout"] == "41\n"


def test_cut_short_while_it_runs(server):
    """Nobody can mend that, so it must be said; and it must not be made worse, nor the server be ended."""
    session, coved = create(server)["id"], server.coved
    execute(server, session, "x = 41")
    for _ in range(300):  # more than the log holds before it is copied
        execute(server, session, "'y' * 50000")
    size = database(server).stat().st_size
    assert size > 1 << 20
    os.truncate(database(server), 8192)
    seen = {server.get(f"{path}?limit=100").status for path in (SESSIONS, EXECUTIONS)}
    seen |= {ask(server, session, f"print({i})").status for i in range(20)}
    assert seen <= {200, 503} and 503 in seen, seen
    assert server.coved == coved
    assert server.get(f"{SESSIONS}/{session}").json["state"] == "ready"


# --- at the start -----------------------------------------------------------------------------------


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path):
    path.write_bytes(b"not a database at all\n" * 1000)


def scribble(path):
    """Its beginning is as it was."""
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(path.stat().st_size - 8192))


def make_newer(path):
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 9999")


@pytest.mark.parametrize("harm, error, hint", [
    (pathlib.Path.unlink, "it is missing or empty, though it was made before", "restore a backup"),
    (lambda path: os.truncate(path, 0), "it is missing or empty, though it was made before", "restore a backup"),
    (cut, "damaged", "restore a backup"),
    (overwrite, "not a database", "restore a backup"),
    (scribble, "damaged", "restore a backup"),
    (make_newer, "it has version 9999", "restore the backup"),
], ids=["removed", "emptied", "cut", "overwritten", "scribbled", "newer"])
def test_a_broken_database_stops_the_start_and_says_what_to_do(disk, harm, error, hint):
    with Server(data_dir=disk / "data") as first:
        create(first, metadata={"note": "y" * 10000})
        first.stop()
    path = disk / "data/server/cove.db"
    harm(path)
    refused(disk, error, hint)


def refused(disk, error, hint):
    with Server(data_dir=disk / "data", is_ready=False) as server:
        assert server.process.wait(PATIENCE) == EXIT_REFUSED, server.say()
        told = [line for line in server.log if line["message"] == "the server cannot start"]
        assert len(told) == 1, server.say()
        assert error in told[0]["error"] and hint in (told[0].get("hint") or ""), told
        server.nothing_is_left()


def test_no_space_at_the_start(disk):
    with Server(data_dir=disk / "data") as first:
        first.stop()
    with full(disk):
        refused(disk, "full", "free space")
    with Server(data_dir=disk / "data"):
        pass


def test_read_only_at_the_start(disk):
    with Server(data_dir=disk / "data") as first:
        first.stop()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = covetest.Cove()("serve", "--data-dir", disk / "data", "--listen", "127.0.0.1:0")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "read-only file system" in said, said


def test_locked_at_the_start(disk):
    with Server(data_dir=disk / "data") as first:
        first.stop()
    with locked(disk):
        refused(disk, "locked by another program", "end the program that holds it")
