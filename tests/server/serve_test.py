# SPDX-License-Identifier: Apache-2.0
"""`cove serve` and coved: how a server starts, what it gives up, how it stops, what survives."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time

import pytest

import covetest
from covetest import BUILD, EXIT_INVALID, PATIENCE, SLOWNESS, wait_for
from server import Server, free_port

needs_root = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

EXIT_REFUSED = 78  # SPAWN_REFUSAL: another start would not help
NO_UID = 1_899_999_999
START_MS, MEMORY_BYTES = 50, 15 << 20  # what is promised
LOADED = 20  # this machine does other work, too
TOKEN = "chosen-for-this-test-0123456789abcdef"


def refused(*args, env=None):
    """What `cove serve` says when it does not start at all."""
    done = covetest.Cove()("serve", *args, env=env)
    assert done.returncode == EXIT_INVALID, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    return done.stderr


# --- start ----------------------------------------------------------------------------------------

def test_prints_its_address_and_how_to_use_it(server):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
    token_file = server.data_dir / "server/token"
    assert re.search(rf"^ *token +{re.escape(str(token_file))}$", server.out, re.M)
    command = re.search(r"(curl .*?\\\n.*/execute)$", server.out, re.M).group(1)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
    assert json.loads(done.stdout)["stdout"] == "42\n", (done.stdout, done.stderr)
    assert "\033" not in server.out, "colours are for terminals"
    assert server.token not in server.out + server.log_path.read_text()


def test_with_json_it_prints_one_object():
    with Server("--json", is_ready=False) as server:
        wait_for(lambda: server.out.endswith("\n") or server.process.poll() is not None, "a line")
        told = json.loads(server.out)
        assert told["url"].startswith("http://127.0.0.1:")
        assert told["token_file"] == str(server.data_dir / "server/token")
        assert told["pid"] == server.process.pid
        assert told["socket"] is None


def test_runs_code_in_a_session_that_remembers(server):
    session = server.post("/api/v1/sessions", {"language": "python"})
    assert session.status == 201, session
    path = f"/api/v1/sessions/{session.json['id']}"
    assert server.post(f"{path}/execute", {"code": "x = 20", "mode": "sync"}).json["state"] == "completed"
    assert server.post(f"{path}/execute", {"code": "print(x + 1)", "mode": "sync"}).json["stdout"] == "21\n"
    assert server.delete(path).status in (200, 204)


def test_needs_its_token(server):
    for token in (None, "wrong", server.token[:-1], server.token + "x", ""):
        answer = server.get("/api/v1/sessions", token=token)
        assert (answer.status, answer.code) == (401, "unauthorized"), token
        assert answer.json["error"]["request_id"] == answer.headers["X-Request-Id"]
    assert server.get("/api/v1/sessions").status == 200


def test_secrets_are_made_once_and_for_the_server_alone():
    with Server() as first:
        folder = first.data_dir / "server"
        secrets = {name: (folder / name).read_text() for name in ("token", "internal-token", "file-secret")}
        assert len(set(secrets.values())) == 3
        for name, text in secrets.items():
            info = (folder / name).stat()
            assert stat.S_IMODE(info.st_mode) == 0o600, name
            assert info.st_uid == folder.stat().st_uid == (NO_UID if covetest.IS_ROOT else os.getuid())
            assert re.fullmatch(r"[0-9a-z]{52}\n", text), name
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        first.stop()
        with Server(data_dir=first.data_dir) as second:
            assert {name: (folder / name).read_text() for name in secrets} == secrets
            assert second.token == first.token


def test_a_secret_that_others_could_read_is_closed_again():
    with Server() as first:
        first.stop()
        path = first.data_dir / "server/token"
        path.chmod(0o644)
        with Server(data_dir=first.data_dir):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_that_is_given_is_not_written_down():
    with Server(env={"COVE_TOKEN": TOKEN}) as server:
        assert server.get("/api/v1/sessions").status == 200
        assert not (server.data_dir / "server/token").exists()
        assert "$COVE_TOKEN" in server.out
        for pid in (server.process.pid, server.coved):
            assert TOKEN not in covetest.read_text(f"/proc/{pid}/cmdline")
        found = subprocess.run(["grep", "-rl", TOKEN, server.folder], capture_output=True, text=True).stdout
        assert found == ""


def test_a_token_from_a_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    with Server(env={"COVE_TOKEN_FILE": str(path)}, is_ready=False) as server:
        server.token = TOKEN
        server.wait_ready()


@pytest.mark.parametrize("name", ["MCP_HTTP_ADDR", "SANDBOX_PORT"])
def test_other_names_of_the_address(name):
    port = free_port()
    value = str(port) if name == "SANDBOX_PORT" else f"127.0.0.1:{port}"
    with Server(env={name: value}, listen=None) as server:
        assert server.url == f"http://127.0.0.1:{port}"


def test_port_0_is_any_that_is_free():
    with Server(listen="127.0.0.1:0") as server:
        assert not server.url.endswith(":0")


def test_starts_and_stays_small():
    """Small at every start; soon at the best of five, as something else may be in the way of one."""
    took_ms = []
    with Server() as first:  # it makes the database
        first.stop()
        while len(took_ms) < 5 and not (took_ms and min(took_ms) < START_MS * LOADED * SLOWNESS):
            started = time.monotonic()
            with Server(data_dir=first.data_dir) as server:
                took_ms.append((time.monotonic() - started) * 1000)
                told = [line for line in server.log if line["message"] == "serving"][0]["start_ms"]
                print(f"start to first answer {took_ms[-1]:.0f} ms, of which coved {told} ms")
                memory = int(covetest.status_of(server.coved)["VmRSS"].split()[0]) * 1024
                print(f"memory {memory / (1 << 20):.1f} MB")
                if not covetest.IS_ASAN:
                    assert memory < MEMORY_BYTES
    assert min(took_ms) < START_MS * LOADED * SLOWNESS, took_ms


# --- what is refused ------------------------------------------------------------------------------

@pytest.mark.parametrize("args, words", [
    (["--listen", "nonsense"], "option 'listen': 'nonsense' is no address to listen at"),
    (["--listen", "0.0.0.0:0"], "can be reached from other machines, and there is no token"),
    (["--listen", "[::]:0"], "there is no token"),
    (["--listen", ":0"], "there is no token"),
    (["--token", "two words"], "option 'token': must have 1 to 512 visible characters of ASCII and no blanks"),
    (["--token", "verysecret", "--internal-token", "verysecret"], "'token' and 'internal-token' are the same"),
    (["--tls-cert", "/a"], "option 'tls-cert' is given without 'tls-key'"),
    (["--database-url", "mariadb://u:verysecret@h/d"], "option 'database-url': only sqlite is there so far"),
    (["--memory", "2G", "--memory-max", "1G"], "option 'memory': 2G is above its ceiling 'memory-max', 1G"),
    (["--cors-origins", "*"], "option 'cors-origins': '*' must be https://NAME"),
    (["--sync", "sometimes"], "option 'sync' (flag --sync): 'sometimes' must be one of: normal, full"),
    (["--runtime", "docker"], "option 'runtime' (flag --runtime): 'docker' must be one of: native"),
    (["--ttl", "0"], "option 'ttl' (flag --ttl): '0' must be a duration from 1s to 720h"),
    (["extra"], "'cove serve' takes no arguments"),
])
def test_bad_options_stop_the_start(tmp_path, args, words):
    said = refused("--data-dir", tmp_path / "data", *args)
    assert words in said
    assert "verysecret" not in said
    assert not (tmp_path / "data").exists(), "nothing was made"


def test_an_open_bind_says_what_to_do_and_works_with_a_token(tmp_path):
    said = refused("--data-dir", tmp_path, "--listen", "0.0.0.0:0")
    assert "COVE_TOKEN" in said and "127.0.0.1" in said
    with Server(env={"COVE_TOKEN": TOKEN}, listen=f"0.0.0.0:{free_port()}") as server:
        assert server.get("/api/v1/sessions").status == 200
        assert server.get("/api/v1/sessions", token=None).status == 401


@needs_root
def test_root_is_refused_as_its_user(tmp_path):
    for name in ("root", "0"):
        assert "the server must not run as root" in refused("--data-dir", tmp_path, "--user", name)
    assert "there is no user 'nosuchuser'" in refused("--data-dir", tmp_path, "--user", "nosuchuser")


@needs_root
def test_a_data_directory_that_its_user_cannot_enter_is_named(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    done = covetest.Cove()("serve", "--data-dir", closed / "data", "--listen", "127.0.0.1:0")
    assert done.returncode == covetest.EXIT_DENIED
    assert f"runs as uid {NO_UID}, which cannot reach '" in done.stderr
    barrier = re.search(r"'([^']*)' is closed to it", done.stderr).group(1)
    assert not os.stat(barrier).st_mode & 0o001, "what is named is what has to be opened"
    assert "chmod o+x" in done.stderr


def test_a_port_that_is_taken_is_told_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Server(listen=f"127.0.0.1:{port}", is_ready=False) as server:
            assert server.process.wait(PATIENCE) == EXIT_REFUSED
            told = [line for line in server.log if line["message"] == "the server cannot start"]
            assert len(told) == 1, server.say()
            assert "in use" in told[0]["error"] and "--listen" in told[0]["hint"]


@needs_root
def test_a_broken_database_is_told_once(server):
    server.stop()
    database = server.data_dir / "server/cove.db"
    for path in database.parent.glob("cove.db*"):
        path.unlink()
    database.write_bytes(b"this is no database" * 500)
    os.chown(database, NO_UID, NO_UID)
    with Server(data_dir=server.data_dir, is_ready=False) as second:
        assert second.process.wait(PATIENCE) == EXIT_REFUSED
        assert [line["message"] for line in second.log].count("the server cannot start") == 1, second.say()


def test_a_second_server_with_the_same_database_is_refused(server):
    with Server(data_dir=server.data_dir, is_ready=False) as second:
        assert second.process.wait(PATIENCE) == EXIT_REFUSED
        assert server.get("/api/v1/sessions").status == 200


def test_a_foreign_host_is_refused_unless_it_is_listed():
    with Server("--hosts", "cove.example", "--public-url", "https://public.example") as server:
        assert "https://public.example" in server.out
        for host, status in [("evil.example", 421), ("cove.example", 200), ("public.example", 200), ("localhost", 200)]:
            assert server.get("/api/v1/sessions", headers={"Host": host}).status == status, host


# --- what it gives up -----------------------------------------------------------------------------

@needs_root
def test_every_thread_is_confined(server):
    pid = server.coved
    threads = os.listdir(f"/proc/{pid}/task")
    assert len(threads) >= 3, "those of the store"
    for thread in threads:
        told = covetest.status_of(f"{pid}/task/{thread}")
        assert set(told["Uid"].split()) == set(told["Gid"].split()) == {str(NO_UID)}
        assert told["Groups"].split() == []
        assert (told["NoNewPrivs"].strip(), told["Seccomp"].strip()) == ("1", "2")
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(told[kind], 16) == 0, kind
    assert NO_UID not in covetest.SANDBOX_UIDS


@needs_root
def test_nobody_of_its_user_can_look_into_it(server):
    """Not dumpable: its files in /proc are root's, and a debugger of the same user is refused."""
    pid = server.coved
    assert os.stat(f"/proc/{pid}/environ").st_uid == 0
    as_it = ["setpriv", f"--reuid={NO_UID}", f"--regid={NO_UID}", "--clear-groups", "--"]
    for name in ("environ", "mem", "maps"):
        done = subprocess.run([*as_it, "head", "-c1", f"/proc/{pid}/{name}"], capture_output=True, text=True)
        assert "Permission denied" in done.stderr, name
    limits = covetest.read_text(f"/proc/{pid}/limits")
    soft, hard = re.search(r"Max open files +(\d+) +(\d+)", limits).groups()
    assert soft == hard and int(soft) >= 4096
    assert re.search(r"Max core file size +0 +0 ", limits)


@needs_root
def test_it_has_open_what_it_needs_and_nothing_else(server):
    pid = server.coved
    server.get("/api/v1/sessions")
    kinds = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # a connection that was closed meanwhile
    allowed = ("socket:", "pipe:", "anon_inode:", "/memfd:", "/dev/null", str(server.folder),
               f"/proc/{pid}/stat",  # its own memory, for metrics
               "/sys/fs/cgroup/")    # the counters of sandboxes, which everybody may read
    assert [kind for kind in kinds if not kind.startswith(allowed)] == []


@needs_root
def test_it_is_linked_with_nothing_of_the_privileged_side():
    symbols = subprocess.run(["nm", str(BUILD / "coved")], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in symbols.splitlines()}
    assert "http_server_open" in names, "nm shows the program's own symbols"
    assert not {name for name in names if re.match(r"(seal|rootfs|cgroup_tree|slot|power|caps_drop|netns)_", name)}


# --- how it stops ---------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_that_runs_comes_to_its_end(server, number):
    answers = []
    code = "import time\nprint('begun', flush=True)\ntime.sleep(1)\nprint('done')"
    waiter = threading.Thread(target=lambda: answers.append(server.post("/execute", {"code": code})))
    waiter.start()
    wait_for(lambda: server.get("/health").json["load"]["running"] > 0, "it to run")  # a parked sandbox is none
    pid = server.coved
    connection = server.connect()
    if number == signal.SIGINT:
        os.kill(pid, number)  # what a terminal sends to both, and the spawner leaves to it
    else:
        server.process.send_signal(number)
    wait_for(lambda: [line for line in server.log if line["message"] == "stopping"], "the end to begin")
    with pytest.raises(OSError):  # nobody new is heard
        server.request("GET", "/api/v1/sessions")
    waiter.join(PATIENCE)
    assert answers and answers[0].status == 200 and answers[0].json["stdout"] == "begun\ndone\n", answers
    assert server.process.wait(PATIENCE) == 0
    connection.close()
    server.nothing_is_left()


def test_one_that_takes_too_long_is_cut_off(server):
    failures = []

    def ask():
        try:
            failures.append(server.post("/execute", {"code": "import time\ntime.sleep(600)", "timeout": 900}))
        except OSError as error:
            failures.append(error)

    waiter = threading.Thread(target=ask)
    waiter.start()
    wait_for(lambda: server.get("/health").json["load"]["running"] > 0, "it to run")  # a parked sandbox is none
    assert server.stop() == 0
    waiter.join(PATIENCE)
    assert len(failures) == 1
    server.nothing_is_left()


def begin_to_end(server, number):
    """As an operator does, or his terminal: the spawner leaves its key to coved. Until it has seen to all requests."""
    coved = server.coved
    os.kill(coved if number == signal.SIGINT else server.process.pid, number)
    wait_for(lambda: not is_caught(coved, signal.SIGHUP), "the way out")
    return coved


def is_caught(pid, number):
    caught = re.search(r"^SigCgt:\s+(\w+)$", covetest.read_text(f"/proc/{pid}/status"), re.M)
    return bool(caught and int(caught[1], 16) >> (number - 1) & 1)


def check_ended(server, coved):
    """With all that was told, and without another coved."""
    assert server.process.wait(PATIENCE) == 0, server.say()
    assert not covetest.is_alive(coved)
    assert len(server.addresses()) == 1 and [line["epoch"] for line in server.log if line["message"] == "serving"] == [1]
    server.nothing_is_left()


@contextlib.contextmanager
def locked(server):
    """Another program writes: the last write of this one has to wait."""
    with contextlib.closing(sqlite3.connect(server.data_dir / "server/cove.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def told_while_locked(server):
    """The id of an execution whose end was told, and cannot be committed. One that takes so long that its beginning is to be
    written, which it does where the machine is busy, is refused; then another is tried, behind a lock of its own."""
    session = server.post("/api/v1/sessions", {"language": "python"}).json["id"]

    def ask():
        return server.post(f"/api/v1/sessions/{session}/execute", {"code": "1", "mode": "sync"})

    while True:
        with locked(server):
            answer = ask()
            if answer.status == 200:
                yield answer.json["id"]
                return
            assert (answer.status, answer.code) == (503, "unavailable"), answer
            assert "the database is locked by another program" in answer.json["error"]["message"], answer
        wait_for(lambda: ask().status == 200, "the end of the trouble")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_last_write_that_takes_long_is_waited_for(server, number):
    with told_while_locked(server) as ran:
        coved, began = begin_to_end(server, number), time.monotonic()
        wait_for(lambda: time.monotonic() - began > 2 or server.find_coved() != coved, "more than who hangs up has")
        assert server.find_coved() == coved
    check_ended(server, coved)
    with Server(data_dir=server.data_dir, group=server.group) as second:
        assert second.get(f"/api/v1/executions/{ran}").json["state"] == "completed"


def test_whoever_asks_twice_is_not_served_by_another(server):
    """The second one comes when the first is being answered, by a process that hears no more."""
    with told_while_locked(server) as ran:
        coved = begin_to_end(server, signal.SIGINT)
        os.kill(coved, signal.SIGINT)
        wait_for(lambda: server.process.poll() is not None or server.find_coved() not in (None, coved), "an end, or another")
    check_ended(server, coved)
    with Server(data_dir=server.data_dir, group=server.group) as second:
        assert second.get(f"/api/v1/executions/{ran}").json["state"] == "completed"


PTRACE_CONT, PTRACE_SEIZE, PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT = 7, 0x4206, 0x40, 6
WAIT_ALL = 0x40000000  # also for who is not our child


def run_to_its_last_moment(pid, number):
    """Sends it that signal, and lets it go as far as its exit, with all that it has open. The answer lets it go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    assert libc.ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXIT) == 0, os.strerror(ctypes.get_errno())
    os.kill(pid, number)

    def go_on():
        libc.ptrace(PTRACE_CONT, pid, None, None)
        os.waitpid(pid, WAIT_ALL)  # its parent hears of it after us

    while True:
        _, status = os.waitpid(pid, WAIT_ALL)
        assert os.WIFSTOPPED(status), status
        if status >> 8 == signal.SIGTRAP | PTRACE_EVENT_EXIT << 8:
            return go_on
        libc.ptrace(PTRACE_CONT, pid, None, None if status >> 16 else os.WSTOPSIG(status))


@needs_root
def test_it_does_not_hang_up_before_its_end(server):
    """Who does is killed when it lingers, and replaced: on a machine that has no time for it, when all was written."""
    coved = server.coved
    link = os.readlink(f"/proc/{coved}/fd/3")
    go_on = run_to_its_last_moment(coved, signal.SIGINT)
    files = [os.readlink(path) for path in pathlib.Path(f"/proc/{coved}/fd").iterdir()]
    go_on()
    assert link in files
    check_ended(server, coved)


def test_nothing_is_left_after_the_end(server):
    session = server.post("/api/v1/sessions", {"language": "python"}).json
    server.post(f"/api/v1/sessions/{session['id']}/execute", {"code": "x = 1", "mode": "sync"})
    pid = server.coved
    assert server.stop() == 0
    server.nothing_is_left()
    assert not covetest.is_alive(pid)
    assert sorted(path.name for path in (server.data_dir / "server").iterdir()
                  if not path.name.startswith("cove.db")) == ["blobs", "file-secret", "internal-token", "node", "token"]
    assert not [path for path in (server.data_dir / "server/blobs").rglob("*") if path.is_file()]


# --- what survives --------------------------------------------------------------------------------

def test_coved_that_is_killed_is_started_again_with_its_sessions(server):
    session = server.post("/api/v1/sessions", {"language": "python"}).json
    path = f"/api/v1/sessions/{session['id']}"
    assert server.post(f"{path}/execute", {"code": "x = 41", "mode": "sync"}).json["state"] == "completed"
    before = server.coved
    server.kill_coved()
    assert server.coved != before
    wait_for(lambda: server.get(path).json["state"] == "ready", "the session to be taken over")
    assert server.post(f"{path}/execute", {"code": "print(x + 1)", "mode": "sync"}).json["stdout"] == "42\n"
    epochs = [line["epoch"] for line in server.log if line["message"] == "serving"]
    assert epochs == [1, 2]


def test_the_end_of_the_spawner_is_the_end_of_all_and_the_next_start_clears_up(server):
    session = server.post("/api/v1/sessions", {"language": "python"}).json
    pid = server.coved
    server.process.kill()
    server.process.wait(PATIENCE)
    wait_for(lambda: not covetest.is_alive(pid), "the end of coved")
    with Server(data_dir=server.data_dir, group=server.group) as second:
        told = second.get(f"/api/v1/sessions/{session['id']}").json
        assert told["state"] in ("failed", "terminated"), told
        assert second.stop() == 0
        second.nothing_is_left()


# --- other ways to it -----------------------------------------------------------------------------

def test_a_unix_socket():
    folder = pathlib.Path("/tmp") / f"cove-test-socket-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    path = folder / "socket"
    try:
        with Server(listen=f"unix:{path}") as server:
            assert server.socket_path == str(path)
            assert server.get("/api/v1/sessions").status == 200
            assert server.get("/api/v1/sessions", token=None).status == 401
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            server.kill_coved()  # the one it has left is replaced
            assert server.get("/api/v1/sessions").status == 200
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    public = pathlib.Path("/tmp") / f"cove-test-tls-{os.getpid()}"
    public.mkdir(mode=0o755)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    for name in ("key.pem", "cert.pem"):
        (public / name).write_bytes((folder / name).read_bytes())
        (public / name).chmod(0o644)
    yield public
    for path in public.iterdir():
        path.unlink()
    public.rmdir()


def test_tls(certificate):
    with Server("--tls-cert", certificate / "cert.pem", "--tls-key", certificate / "key.pem") as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert server.get("/api/v1/sessions").status == 200
        command = re.search(r"(curl .*?\\\n.*/execute)$", server.out, re.M).group(1)
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
        assert json.loads(done.stdout)["stdout"] == "42\n", (done.stdout, done.stderr)


@needs_root
def test_a_key_that_its_user_cannot_read_is_named(certificate):
    key = certificate / "key.pem"
    key.chmod(0o600)
    try:
        with Server("--tls-cert", certificate / "cert.pem", "--tls-key", key, is_ready=False) as server:
            assert server.process.wait(PATIENCE) == EXIT_REFUSED
            told = [line for line in server.log if line["message"] == "the server cannot start"][0]
            assert "tls-key" in told["error"] and str(NO_UID) in told["hint"]
    finally:
        key.chmod(0o644)


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_an_ordinary_user_has_a_server(kind):
    reason = covetest.why_no_rootless(kind)
    if reason:
        pytest.skip(reason)
    cove = covetest.rootless(kind)
    with Server(cove=cove) as server:
        answer = server.post("/execute", {"code": "print(6 * 7)"}).json
        assert answer["stdout"] == "42\n"
        layers = server.get("/health").json["layers"]
        assert answer["limits_not_in_force"] == ([] if "cpu cgroup" in layers else ["cpus"])
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_code", "arguments": {"code": "1"}}}
        text = server.post("/mcp", call).json["result"]["content"][0]["text"]
        assert ("limits not in force here: cpus\n" in text) == ("cpu cgroup" not in layers)
        told = covetest.status_of(server.coved)
        assert (told["NoNewPrivs"].strip(), told["Seccomp"].strip()) == ("1", "2")
        server.kill_coved()
        assert server.stop() == 0


def test_the_log_goes_to_a_file(tmp_path):
    path = tmp_path / "log"
    with Server("--log-file", path) as server:
        wait_for(server.is_log_written, "the log")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert "serving" in [line["message"] for line in lines]
        assert server.log_path.read_text() == ""
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
