# SPDX-License-Identifier: Apache-2.0
"""The client's commands against a real server; client_test.py has what a real one does not do."""
import json
import signal

import pytest

from covetest import EXIT_DENIED, EXIT_NOT_FOUND, EXIT_TIMEOUT, PATIENCE, Cove, wait_for

EXIT_CONFLICT = 73


class Client:
    """cove with a server to talk to, whose token it finds by itself."""

    def __init__(self, server):
        self.cove, self.env = Cove(), {"COVE_SERVER": server.url, "COVE_DATA_DIR": str(server.data_dir)}

    def __call__(self, *args, env=None, **kwargs):
        return self.cove(*args, env=self.env | (env or {}), **kwargs)

    def good(self, *args, **kwargs):
        done = self(*args, **kwargs)
        assert done.returncode == 0, f"{args}\nstatus {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *args):
        return json.loads(self.good(*args, "--json"))

    def start(self, *args):
        return self.cove.start(*args, env=self.env, text=True)


@pytest.fixture
def client(shared_server):
    return Client(shared_server)


@pytest.fixture
def session(client):
    name = client.good("session", "create").strip()
    yield name
    client.good("session", "rm", name)


def test_state_is_kept_from_one_exec_to_the_next(client, session):
    assert client.good("exec", session, "-c", "x = 6 * 7") == ""
    assert client.good("exec", session, "-c", "print('x is'); x") == "x is\n42\n"
    assert client.json("exec", session, "-c", "x")["results"][0]["data"]["text/plain"] == "42"
    client.good("session", "reset", session)
    assert "NameError" in client("exec", session, "-c", "x").stderr


@pytest.mark.parametrize("code, status, words", [
    ("import sys; sys.exit(3)", 3, ""),
    ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ("while True: pass", EXIT_TIMEOUT, "cove: timeout:"),
])
def test_exec_ends_as_the_code_does(client, session, code, status, words):
    done = client("exec", session, "--timeout", "1s", "-c", code)
    assert done.returncode == status and words in done.stderr


def test_what_goes_in(client, session, tmp_path):
    (tmp_path / "data").write_bytes(bytes(range(256)))
    code = "import os, sys; print(len(open('sub/data', 'rb').read()), os.environ['A'], sys.stdin.read())"
    assert client.good("exec", session, "--file", f"{tmp_path}/data:sub/data", "-e", "A=b", "--stdin", "-", "-c", code,
                       input="héllo") == "256 b héllo\n"


def test_a_session_that_is_busy(client, session):
    execution = client.good("exec", session, "-d", "-c", "while True: pass").strip()
    busy = client("exec", session, "-c", "1")
    assert busy.returncode == EXIT_CONFLICT and "--queue" in busy.stderr
    client.good("session", "interrupt", session)
    assert client.good("exec", session, "--queue", "-c", "1") == "1\n"
    assert "KeyboardInterrupt" in client("logs", execution).stderr


def interrupt(client, session):
    """Whether the interpreter took it. One that gets no turn for a second is killed; then there is another."""
    client.good("exec", session, "-c", "x = 5")
    process = client.start("exec", session, "-c", "print('begun', flush=True)\nwhile True: pass")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    state = wait_for(lambda: (now := client.json("session", "show", session)["state"]) in ("ready", "failed") and now, "its end")
    if state == "failed":
        client.good("session", "reset", session)
    return state == "ready"


def test_an_interrupt_cancels_and_the_session_lives_on(client, session):
    assert any(interrupt(client, session) for _ in range(3))
    assert client.good("exec", session, "-c", "x") == "5\n"


def test_logs(client, session):
    first = client.good("exec", session, "-d", "--queue", "-c", "print('one')").strip()
    client.good("exec", session, "--queue", "-c", "print('two')")
    assert client.good("logs", first) == "one\n"
    done = client("logs", session)
    assert (done.stdout, done.stderr.count(first)) == ("one\ntwo\n", 1)
    assert [e["stdout"] for e in client.json("logs", session)["executions"]] == ["one\n", "two\n"]
    events = [json.loads(line)["event"] for line in client.good("logs", first, "-f", "--json").splitlines()]
    assert events == ["started", "stdout", "ended"]


def test_a_named_session_is_followed_beyond_its_end(client):
    client.good("session", "create", "-n", "followed")
    process = client.start("logs", "followed", "--follow")
    client.good("exec", "followed", "-c", "print('hello')")
    assert process.stdout.readline() == "hello\n"
    client.good("session", "rm", "followed")
    assert process.wait(PATIENCE) == 0


def test_sessions(client, session):
    assert session in client.good("session", "list")
    named = client.json("session", "create", "-n", "named", "-l", "bash", "--memory", "64M", "--metadata", "user=ada")
    assert (named["language"], named["resources"]["memory_bytes"]) == ("bash", 64 << 20)
    assert [s["id"] for s in client.json("session", "list", "--metadata", "user=ada")["sessions"]] == [named["id"]]
    assert client("session", "create", "-n", "named").returncode == EXIT_CONFLICT
    assert "language      bash\n" in client.good("session", "show", "named")
    assert client.good("session", "extend", "named", "2h").startswith("named: expires 20")
    assert client.good("session", "rm", "named") == "named: terminated\n"
    assert client("session", "show", "named").returncode == EXIT_NOT_FOUND
    assert named["id"] in client.good("session", "list", "--all")


def test_templates(client):
    assert "python " in client.good("template", "list")
    client.good("template", "create", "small", "-l", "python", "--memory", "64M", "--pool", "0:0", "-e", "A=1")
    client.good("template", "update", "small", "--cpus", "0.25", "-e", "B=2")
    document = client.json("template", "show", "small")
    assert (document["resources"]["memory_bytes"], document["resources"]["cpus"], document["env"]) == (
        64 << 20, 0.25, {"A": "1", "B": "2"})
    client.good("session", "create", "-t", "small", "-n", "of-it")
    assert client("template", "rm", "small").returncode == EXIT_CONFLICT
    client.good("session", "rm", "of-it")
    client.good("template", "rm", "small")
    assert client("template", "show", "small").returncode == EXIT_NOT_FOUND


def test_a_key_sees_what_is_its_own(client, session):
    key = client.good("key", "create", "mine", "--expires", "1h", "--sessions", "3").strip()
    mine = {"COVE_TOKEN": key}
    own = client.good("session", "create", env=mine).strip()
    shown = client.good("session", "list", env=mine)
    assert own in shown and session not in shown
    assert client("key", "list", env=mine).returncode == EXIT_DENIED
    client.good("session", "rm", own, env=mine)
    identity = next(line.split()[1] for line in client.good("key", "list").splitlines() if line.startswith("mine "))
    client.good("key", "rm", identity)
    denied = client("session", "list", env=mine)
    assert denied.returncode == EXIT_DENIED and "request req_" in denied.stderr and key not in denied.stderr


def test_top(client, session):
    lines = client.good("top").splitlines()
    assert ": ok, up " in lines[0] and " ready" in lines[1]
    assert any(line.startswith(session) for line in lines)


def test_output_is_shown_once_whatever_happens_to_the_server(server):
    client = Client(server)
    session = client.good("session", "create").strip()
    code = "import time\nfor i in range(40):\n  print(i, flush=True)\n  time.sleep(0.05)\n'end'"
    process = client.start("exec", session, "-c", code)
    assert process.stdout.readline() == "0\n"
    server.kill_coved()
    rest, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest.split(), err) == (0, [*map(str, range(1, 40)), "'end'"], "")
    assert client.good("exec", session, "-c", "i") == "39\n"
