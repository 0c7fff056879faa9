# SPDX-License-Identifier: Apache-2.0
"""`cove mcp`: MCP on standard input and output, with a server of its own or with one that runs."""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import covetest
import npm
import server as serving
from covetest import PATIENCE, wait_for
from mcp_client import MODERN, message
from mcp_packages import INSPECTOR
from mcp_stdio import Stdio

LONG = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}\n'


def text_of(result):
    return result["content"][0]["text"]


def modern(method, params=None, **more):
    marks = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    return message(method, dict(params or {}) | {"_meta": marks}, **more)


def running(stdio):
    """Processes inside of its sandboxes."""
    return [pid for pid in covetest.pids() if covetest.is_in_group(pid, stdio.group)]


def begin_long(stdio):
    """A call that runs and would go on; answers its id."""
    number = stdio.begin("tools/call", {"name": "run_code", "arguments": {"code": LONG, "timeout": 300},
                                        "_meta": {"progressToken": "t"}})
    stdio.wait(lambda m: m.get("method") == "notifications/progress", "progress of a long call")
    return number


# --- what it answers ------------------------------------------------------------------------------


def test_it_works_with_nothing_else_there():
    with Stdio() as stdio:
        assert stdio.initialize()["serverInfo"]["name"] == "cove"
        assert "run_code" in [tool["name"] for tool in stdio.ask("tools/list")["result"]["tools"]]
        assert "[stdout]\n42\n" in text_of(stdio.call("run_code", {"code": "print(6 * 7)"}))
        assert stdio.close() == 0
        assert stdio.errors == ""
        stdio.nothing_is_left()


def test_it_serves_the_modern_era_without_a_handshake():
    with Stdio() as stdio:
        stdio.send(modern("server/discover", id="d"), modern("tools/list", id=7))
        assert stdio.answer("d")["result"]["supportedVersions"] == [MODERN]
        assert stdio.answer(7)["result"]["resultType"] == "complete"


def test_a_session_keeps_its_variables():
    with Stdio() as stdio:
        stdio.initialize()
        stdio.call("run_code", {"code": "x = 41", "session_id": "mine"})
        assert "[stdout]\n42\n" in text_of(stdio.call("run_code", {"code": "print(x + 1)", "session_id": "mine"}))


def test_files_have_no_address_that_nobody_can_open():
    with Stdio() as stdio:
        stdio.initialize()
        stdio.call("run_code", {"code": "open('a.txt', 'w').write('kept')", "session_id": "mine"})
        listed = text_of(stdio.call("list_artifacts", {"session_id": "mine"}))
        assert "a.txt (text/plain, 4 bytes" in listed and "http" not in listed
        assert "kept" in text_of(stdio.call("read_artifact", {"session_id": "mine", "path": "a.txt"}))


def test_it_works_for_an_ordinary_user(any_cove):
    with Stdio(cove=any_cove) as stdio:
        stdio.initialize()
        assert "[stdout]\n42\n" in text_of(stdio.call("run_code", {"code": "print(6 * 7)"}))
        assert stdio.close() == 0
        stdio.nothing_is_left()


def test_answers_come_as_they_are_ready():
    with Stdio() as stdio:
        stdio.initialize()
        slow = begin_long(stdio)
        quick = stdio.begin("ping")
        assert stdio.answer(quick)["result"] == {}
        assert not any(m.get("id") == slow for m in stdio.messages)


def test_a_hundred_calls_at_once():
    with Stdio() as stdio:
        stdio.initialize()
        numbers = [stdio.begin_call("run_code", {"code": f"print({i} * {i})"}) for i in range(100)]
        for i, number in enumerate(numbers):
            assert f"[stdout]\n{i * i}\n" in text_of(stdio.answer(number)["result"])
        assert stdio.close() == 0
        stdio.nothing_is_left()


def test_two_at_once_have_nothing_to_do_with_each_other():
    with Stdio() as one, Stdio(data_dir=one.data_dir) as other:
        one.initialize(), other.initialize()
        one.call("run_code", {"code": "x = 1", "session_id": "same"})
        assert "NameError" in text_of(other.call("run_code", {"code": "print(x)", "session_id": "same"}))
        assert one.close() == 0
        assert "[stdout]\n2\n" in text_of(other.call("run_code", {"code": "print(2)"}))
        assert other.close() == 0
        other.nothing_is_left()


def test_it_takes_the_options_of_a_server_and_those_for_others_do_not_matter():
    """A file for a server that listens elsewhere must not open doors, nor stand in the way."""
    with Stdio("--timeout", "1s", "--mcp-compatible-names", env={
            "COVE_LISTEN": "0.0.0.0:1", "COVE_TLS_CERT": "/nonexistent", "COVE_PUBLIC_URL": "https://example.org",
            "COVE_DATABASE_URL": "sqlite:/nonexistent/db", "COVE_TOKEN": "x"}) as stdio:
        stdio.initialize()
        assert len(stdio.ask("tools/list")["result"]["tools"]) > 6
        assert "limit of 1 s" in text_of(stdio.call("run_code", {"code": LONG}))


def test_a_private_server_is_for_its_starter_alone():
    with Stdio() as stdio:
        stdio.initialize()
        (room,) = stdio.rooms()
        assert room.stat().st_mode & 0o777 == 0o700
        assert (room / "socket").is_socket()
        asked = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", room / "socket",
                                "-H", "Authorization: Bearer guessed-by-somebody", "http://localhost/api/v1/sessions"],
                               capture_output=True, text=True)
        assert asked.stdout == "401", asked
        arguments = [covetest.read_text(f"/proc/{pid}/cmdline") for pid in
                     (stdio.process.pid, *covetest.descendants(stdio.process.pid))]
        assert not any("token" in words for words in arguments), "secrets are in no list of processes"
        listening = covetest.read_text("/proc/net/unix")
        assert f"{room}/socket" in listening


def test_the_first_answer_comes_soon():
    """Within 50 ms on a machine that has nothing else to do; here it may be busy, so it is compared with an empty run
    of the same program, in turns. What is promised is a start without waiting for a disk or a pool."""
    firsts, empties, cove = [], [], covetest.Cove()
    for _ in range(5):
        begin = time.monotonic()
        subprocess.run(cove.argv("run", "-l", "bash", "-c", "true"), env=covetest.environment(cove.home), check=True)
        empties.append(time.monotonic() - begin)
        begin = time.monotonic()
        with Stdio() as stdio:
            stdio.write(PING)
            stdio.answer("p")
            firsts.append(time.monotonic() - begin)
    print(f"first answer {min(firsts) * 1000:.1f} ms, an empty run {min(empties) * 1000:.1f} ms")
    assert min(firsts) < 0.05 + 5 * min(empties), (firsts, empties)


# --- lines ----------------------------------------------------------------------------------------


def test_garbage_is_answered_with_errors_and_the_next_line_counts():
    with Stdio() as stdio:
        stdio.write(b"what is this\n\xff\xfe\n\0\n[]\n[1]\n{}\nnull\n\"x\"\n" + b"[" * 5000 + b"\n" + PING)
        stdio.answer("p")
        errors = [m["error"]["code"] for m in stdio.messages if "error" in m]
        assert errors[:3] == [-32700] * 3 and set(errors[3:]) <= {-32600, -32700} and len(errors) == 9, stdio.messages


def test_blank_lines_carriage_returns_and_pieces_are_fine():
    with Stdio() as stdio:
        for byte in b"\n\r\n  \n" + PING.replace(b"\n", b"\r\n"):
            stdio.write(bytes([byte]))
        stdio.answer("p")
        assert len(stdio.lines) == 1


def test_the_last_line_needs_no_end():
    with Stdio() as stdio:
        stdio.write(PING.strip())
        assert stdio.close() == 0
        assert stdio.answer("p")["result"] == {}


def test_a_line_that_is_too_long_costs_no_memory_and_no_more_than_itself():
    with Stdio() as stdio:
        stdio.initialize()
        stdio.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"')
        for _ in range(40):
            stdio.write(b"x" * (1 << 20))
        used = int(covetest.status_of(stdio.coved)["VmRSS"].split()[0])
        assert used < 120_000 * covetest.SLOWNESS, used
        stdio.write(b'"}}\n' + PING)
        assert "too long" in stdio.wait(lambda m: "error" in m, "a refusal")["error"]["message"]
        assert stdio.answer("p")["result"] == {}


def is_taken(stdio, seconds=1):
    """Whether anybody takes something from its input soon."""
    return bool(select.select([], [stdio.process.stdin], [], seconds)[1])


def test_a_client_that_reads_nothing_is_not_read_either():
    """What it sends waits in its own pipe, so that no memory grows for it."""
    ask = json.dumps(message("tools/list", {}, id="many")).encode() + b"\n"
    with Stdio() as stdio:
        stdio.initialize()
        os.set_blocking(stdio.process.stdin.fileno(), False)
        with stdio.news:  # which stops our reader
            sent = 0
            while is_taken(stdio):
                assert sent < 100_000
                while stdio.process.stdin.raw.write(ask * 100):
                    sent += 100
            used = int(covetest.status_of(stdio.coved)["VmRSS"].split()[0])
        assert used < 150_000 * covetest.SLOWNESS, used
        os.set_blocking(stdio.process.stdin.fileno(), True)


# --- cancelling, and ends -------------------------------------------------------------------------


sees_sleep = pytest.mark.skipif(not covetest.IS_ROOT, reason="only root may see what a process waits for")


@sees_sleep
def test_a_cancelled_call_leaves_no_process_and_no_answer():
    with Stdio() as stdio:
        stdio.initialize()
        number = begin_long(stdio)
        before = wait_for(lambda: {pid for pid in running(stdio) if is_sleeping(pid)}, "the program to sleep")
        stdio.tell("notifications/cancelled", {"requestId": number, "reason": "enough"})
        wait_for(lambda: not any(covetest.is_alive(pid) for pid in before), "the end of what was cancelled")
        assert stdio.ask("ping")["result"] == {}
        assert not [m for m in stdio.messages if m.get("id") == number]


def is_sleeping(pid):
    """Whether it is in time.sleep(), which nothing else here is: parked ones wait for their channel."""
    return "nanosleep" in covetest.read_text(f"/proc/{pid}/wchan")


def test_the_end_of_the_input_ends_what_runs_and_leaves_nothing():
    with Stdio() as stdio:
        stdio.initialize()
        begin_long(stdio)
        begin = time.monotonic()
        assert stdio.close() == 0
        assert time.monotonic() - begin < 10 * covetest.SLOWNESS
        stdio.nothing_is_left()


def test_what_was_asked_before_the_end_is_answered():
    """As in a pipe of a shell: requests, and the end right behind them. Little time is left to them then, so that the sandbox is there before."""
    with Stdio() as stdio:
        stdio.initialize()
        stdio.call("run_code", {"code": "1", "session_id": "mine"})
        stdio.send(message("ping", {}, id="first"),
                   message("tools/call", {"name": "run_code", "arguments": {"code": "print(6 * 7)", "session_id": "mine"}}, id="second"))
        assert stdio.close() == 0
        assert stdio.answer("first")["result"] == {}
        assert "[stdout]\n42\n" in text_of(stdio.answer("second")["result"])


def test_all_of_it_may_come_at_once():
    """The first word, a call and the end, in one piece."""
    with Stdio() as stdio:
        stdio.send(message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}, id=1),
                   message("tools/call", {"name": "list_runners", "arguments": {}}, id=2))
        assert stdio.close() == 0
        assert stdio.answer(1)["result"]["serverInfo"]
        assert "- python" in text_of(stdio.answer(2)["result"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_nothing(number):
    with Stdio() as stdio:
        stdio.initialize()
        begin_long(stdio)
        assert stdio.kill(number) == 0
        stdio.nothing_is_left()


def test_a_client_that_is_killed_leaves_nothing():
    """Its pipes end with it, all at once."""
    program = ("import subprocess, sys\n"
               "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
               "child.stdin.write(sys.stdin.buffer.read()); child.stdin.flush()\n"
               "print(child.pid, flush=True)\n"
               "while line := child.stdout.readline(): print(line.decode(), end='', flush=True)")
    with Stdio() as stdio:
        call = message("tools/call", {"name": "run_code", "arguments": {"code": LONG},
                                      "_meta": {"progressToken": 1}}, id=1)
        client = subprocess.Popen(["/usr/bin/python3", "-c", program, *stdio.process.args], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, env=stdio.environment)
        client.stdin.write(json.dumps(call).encode() + b"\n")
        client.stdin.close()
        pid = int(client.stdout.readline())
        assert b"progress" in client.stdout.readline()
        client.kill()
        client.wait()
        client.stdout.close()
        wait_for(lambda: not covetest.is_alive(pid), "the end of cove mcp")
        assert stdio.close() == 0
        stdio.nothing_is_left()


def test_killed_itself_it_leaves_no_process_and_the_next_one_clears_its_folder():
    with Stdio() as stdio:
        stdio.initialize()
        begin_long(stdio)
        spawner, coved = stdio.spawner, stdio.coved
        with covetest.orphans_come_to_us():
            stdio.kill()
            wait_for(lambda: not covetest.is_alive(coved) and not covetest.is_alive(spawner), "the end of its server")
            wait_for(lambda: not (covetest.reap(stdio.process.pid) or running(stdio)), "no process of a sandbox")
            wait_for(lambda: not covetest.sandbox_groups(stdio.group), "no cgroup of a sandbox")
        assert len(stdio.rooms()) == 1
        with Stdio(data_dir=stdio.data_dir) as other:
            other.initialize()
            assert len(other.rooms()) == 1, "that of the other alone"
            assert other.close() == 0
            other.nothing_is_left()


def test_a_killed_server_is_told_and_leaves_nothing():
    with Stdio() as stdio:
        stdio.initialize()
        begin_long(stdio)
        os.kill(stdio.coved, signal.SIGKILL)
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_UNAVAILABLE
        assert "the server has ended" in stdio.errors and "mcp.log" in stdio.errors
        stdio.nothing_is_left()


def test_a_killed_spawner_takes_all_with_it():
    with Stdio() as stdio:
        stdio.initialize()
        begin_long(stdio)
        with covetest.orphans_come_to_us():
            os.kill(stdio.spawner, signal.SIGKILL)
            assert stdio.process.wait(PATIENCE) == covetest.EXIT_UNAVAILABLE
            wait_for(lambda: not (covetest.reap(stdio.process.pid) or running(stdio)), "no process of a sandbox")
        assert stdio.rooms() == []
        with Stdio(data_dir=stdio.data_dir, group=stdio.group) as other:  # whose spawner removes empty cgroups
            other.initialize()
            other.call("run_code", {"code": "1"})
            assert other.close() == 0
            other.nothing_is_left()


def test_who_closes_its_output_has_left():
    call = message("tools/call", {"name": "run_code", "arguments": {"code": LONG}, "_meta": {"progressToken": 1}}, id=1)
    with Stdio() as stdio:
        with subprocess.Popen(stdio.process.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=stdio.environment) as other:
            other.stdin.write(json.dumps(call).encode() + b"\n")
            other.stdin.flush()
            assert b"progress" in other.stdout.readline()
            other.stdout.close()
            assert other.wait(PATIENCE) == 0
        assert stdio.close() == 0
        stdio.nothing_is_left()


# --- what cannot be served ------------------------------------------------------------------------


@pytest.mark.skipif(not covetest.IS_ROOT, reason="only root's server becomes another user")
def test_a_server_that_cannot_start_is_explained_and_nothing_is_said_on_standard_output():
    with Stdio("--user", "no-such-user-here") as stdio:
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_INVALID
        assert "no-such-user-here" in stdio.errors
        assert stdio.rooms() == []
        stdio.reader.join()
        assert stdio.lines == []


def test_what_would_help_is_told(tmp_path):
    deep = tmp_path / ("x" * 90)
    with Stdio(data_dir=deep) as stdio:
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_INVALID
        assert "too long for a socket" in stdio.errors and "--data-dir" in stdio.errors
        assert stdio.rooms() == []
    with Stdio("--memory", "2G", "--memory-max", "1G") as stdio:
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_INVALID
        assert "cove: option 'memory'" in stdio.errors and "memory-max" in stdio.errors
        assert stdio.rooms() == []


def test_the_log_is_a_file_and_does_not_grow_for_ever():
    with Stdio() as stdio:
        stdio.initialize()
        assert stdio.close() == 0
        assert "serving" in [line["message"] for line in stdio.log]
        assert stdio.log_path.stat().st_mode & 0o077 == 0
        with open(stdio.log_path, "ab") as log:
            log.write(b'{"message": "old"}\n' * 300_000)
        with Stdio(env={"XDG_STATE_HOME": str(stdio.folder / "state")}) as other:
            other.initialize()
            assert other.close() == 0
        assert stdio.log_path.stat().st_size < 100_000
        assert (stdio.log_path.parent / "mcp.log.1").stat().st_size > 5_000_000


def test_the_log_can_be_elsewhere(tmp_path):
    with Stdio("--log-file", tmp_path / "here.log") as stdio:
        stdio.initialize()
        assert stdio.close() == 0
        assert '"serving"' in (tmp_path / "here.log").read_text()
        assert not stdio.log_path.exists()


def test_a_log_that_nobody_reads_stops_nobody(tmp_path):
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    with open(fifo, "r+b", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
        while file.write(bytes(4096)):
            pass
        with Stdio("--log-file", fifo) as stdio:
            stdio.initialize()
            assert stdio.ask("tools/list")["result"]["tools"]
            while file.read(65536):
                pass
            assert stdio.close() == 0
        [note] = [line for line in map(json.loads, file.read(65536).splitlines()) if line["message"] == "lines of the log were dropped"]
        assert note["lines"] >= 1


# --- a server that runs ---------------------------------------------------------------------------


def connect(server, *args, token=None, address=None, **kwargs):
    env = {"COVE_TOKEN": token or server.token}
    return Stdio("--connect", address or server.url, *args, env=env, **kwargs)


def test_it_uses_a_server_that_runs(shared_server):
    with connect(shared_server) as stdio:
        stdio.initialize()
        assert "[stdout]\n42\n" in text_of(stdio.call("run_code", {"code": "print(6 * 7)"}))
        assert not stdio.rooms() and not covetest.children_of(stdio.process.pid)
        assert stdio.close() == 0 and stdio.errors == ""


def test_it_uses_a_socket(tmp_path):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-"))
    folder.chmod(0o777)
    try:
        with serving.Server(listen=f"unix:{folder}/socket") as server:
            with connect(server, address=f"unix:{folder}/socket") as stdio:
                assert stdio.initialize()["serverInfo"]["name"] == "cove"
                assert stdio.close() == 0
    finally:
        shutil.rmtree(folder)


def test_it_uses_tls(tmp_path):
    cert, key = certificate(tmp_path)
    with serving.Server("--tls-cert", cert, "--tls-key", key) as server:
        with connect(server, "--server-ca", cert) as stdio:
            stdio.initialize()
            big = "x" * 300_000
            assert "300000" in text_of(stdio.call("run_code", {"code": f"print(len('{big}'))"}))
            assert stdio.close() == 0
        with connect(server) as stdio:
            assert stdio.process.wait(PATIENCE) == covetest.EXIT_DENIED
            assert "certificate" in stdio.errors


def certificate(folder):
    if covetest.IS_ROOT:  # whose server is another user
        folder.chmod(0o755)
        for parent in folder.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o011)
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"], check=True, capture_output=True)
    key.chmod(0o644)
    return cert, key


def test_a_refused_token_is_told_on_standard_error(shared_server):
    with connect(shared_server, token="wrong-token-of-somebody") as stdio:
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_DENIED
        assert "token" in stdio.errors
        stdio.reader.join()
        assert stdio.lines == []


def test_a_server_that_is_not_there_is_told_on_standard_error():
    address = f"http://127.0.0.1:{serving.free_port()}"
    with Stdio("--connect", address) as stdio:
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_UNAVAILABLE
        assert address in stdio.errors and "is it running?" in stdio.errors
        stdio.reader.join()
        assert stdio.lines == []


def test_a_server_that_goes_away_in_the_middle_is_told(server):
    with connect(server) as stdio:
        stdio.initialize()
        begin_long(stdio)
        os.kill(server.coved, signal.SIGKILL)
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_UNAVAILABLE
        assert "has ended the connection" in stdio.errors


@sees_sleep
def test_what_a_client_that_is_killed_had_begun_ends_on_the_server(server):
    with connect(server) as stdio:
        stdio.initialize()
        begin_long(stdio)
        before = wait_for(lambda: {pid for pid in covetest.pids() if covetest.is_in_group(pid, server.group) and is_sleeping(pid)},
                          "the program to sleep")
        stdio.kill()
        wait_for(lambda: not any(covetest.is_alive(pid) for pid in before), "the end of what it had begun")


def test_scopes_rates_and_the_end_of_a_key_hold_on_every_line(server):
    weak = server.post("/api/v1/keys", {"name": "weak", "scopes": ["sessions:read"]}).json
    slow = server.post("/api/v1/keys", {"name": "slow", "scopes": ["execute"], "rate_per_minute": 6}).json
    with connect(server, token=weak["key"]) as stdio:
        stdio.initialize()
        assert "scope" in text_of(stdio.call("run_code", {"code": "1"}))
        assert server.delete(f"/api/v1/keys/{weak['id']}").status in (200, 204)
        assert stdio.process.wait(PATIENCE) == covetest.EXIT_UNAVAILABLE
    with connect(server, token=slow["key"]) as stdio:
        answers = [stdio.ask("ping") for _ in range(12)]
        assert "result" in answers[0] and "rate" in answers[-1]["error"]["message"], answers


# --- MCP's own Inspector --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inspector():
    try:
        modules, environment = npm.install(INSPECTOR)
    except npm.OutOfReach as why:
        pytest.skip(str(why))
    return modules / ".bin/mcp-inspector", environment


@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
def test_the_inspector_runs_code(inspector, era):
    program, environment = inspector
    with Stdio() as stdio:  # for its place, and to look for leftovers
        assert stdio.close() == 0
        command = [program, "--cli", "--protocol-era", era, "--format", "json", "--method", "tools/call", "--tool-name",
                   "run_code", "--tool-args-json", json.dumps({"code": "print(6 * 7)"}), "--", *stdio.process.args]
        kept = {name: stdio.environment[name] for name in stdio.environment if name.startswith(("COVE_", "XDG_"))}
        words = [word for name, value in kept.items() for word in ("-e", f"{name}={value}")]
        done = subprocess.run([*command[:2], *words, *command[2:]], env=environment, capture_output=True, text=True,
                              timeout=PATIENCE * 2)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "[stdout]\n42\n" in json.loads(done.stdout)["result"]["content"][0]["text"]
        stdio.nothing_is_left()
