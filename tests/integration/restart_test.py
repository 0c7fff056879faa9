# SPDX-License-Identifier: Apache-2.0
"""Sessions outlive the process that holds them: it is killed at any moment, and the next one goes on.

The client (restart_client.c) is what a control plane is to be; this test is its store, and tells it what to do."""
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest

import covetest
from covetest import BUILD, CGROUP_PARENT, PATIENCE, nothing_is_left, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

NOBODY = 65534
LIVE, ZYGOTE = 1, 3  # enum spawn_entry_state
LIMITS = {"timeout_ms": 100_000, "output_bytes": 65536}
# Code that does not end before it was seen to run, and its host was killed: it waits at a gate (see open_gate).
GATE = """
import signal, time
is_open = []
signal.signal(signal.SIGUSR1, lambda *_: is_open.append(True))
__import__('ctypes').CDLL(None).prctl(15, b'gated')
def gate():
    while not is_open: time.sleep(0.01)
"""
SLOW = GATE + """
for i in range({count}):
    print(i, flush=True)
    if i == {gate}: gate()
    time.sleep({pause})
"""


def open_gate(server):
    """Lets the code go on that waits at its gate, or comes there."""
    pid, = wait_for(lambda: [pid for pid in covetest.descendants(server.process.pid) if covetest.name_of(pid) == "gated"], "code with a gate")
    os.kill(pid, signal.SIGUSR1)


class Client:
    def __init__(self, link):
        self.link, self.buffer, self.output = link, bytearray(), {0: "", 1: ""}
        self.pid = self.wait("hello")["pid"]

    def send(self, op, **fields):
        self.link.sendall(json.dumps({"op": op} | fields).encode() + b"\n")

    def receive(self):
        """The next event, or None when the client is gone."""
        while (at := self.buffer.find(b"\n")) < 0:
            assert select.select([self.link], [], [], PATIENCE)[0], "no news"
            try:
                part = self.link.recv(1 << 20)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self.buffer += part
        line = bytes(self.buffer[:at])
        del self.buffer[:at + 1]
        event = json.loads(line)
        if event["event"] == "output":
            self.output[event["stream"]] += event["text"]
        return event

    def wait(self, name, **fields):
        while True:
            event = self.receive()
            assert event is not None and event["event"] != "refused", f"{event} in place of '{name}'"
            if event["event"] == name and fields.items() <= event.items():
                return event

    def wait_output(self, text, stream=0):
        while text not in self.output[stream]:
            assert self.receive() is not None, "it ended"

    def open(self, language="python", is_warm=False):
        self.send("open", language=language, is_warm=is_warm)
        self.wait("changed", state="ready")

    def begin(self, code, **fields):
        self.output = {0: "", 1: ""}
        self.send("execute", code=code, **(LIMITS | fields))

    def run(self, code, **fields):
        self.begin(code, **fields)
        return self.finish()

    def finish(self):
        run = self.wait("ended")["execution"]
        self.state = self.wait("changed")["state"]
        return run

    def value(self, code):
        run = self.run(code)
        assert run["results"], run
        return run["results"][-1]["data"]["text/plain"]

    def record(self):
        self.send("record")
        event = self.wait("record")
        self.label = event["label"]
        return event["record"]

    def list(self):
        self.send("list")
        return self.wait("list")["entries"]

    def kill(self):
        """At once, and all that it had told is read before the next one begins."""
        os.kill(self.pid, signal.SIGKILL)
        while self.receive() is not None:
            pass
        self.link.close()
        return self.output

    def attach(self, record, language="python", **fields):
        self.send("attach", record=record, language=language, **(LIMITS | fields))
        return self

    def resume(self, record, **fields):
        """The execution that ran meanwhile, as it ended."""
        return self.attach(record, **fields).finish()


ROOT_OPTIONS = ("--uid", str(NOBODY), "--gid", str(NOBODY))


class Server:
    count = 0

    def __init__(self, build=BUILD, client=BUILD / "tests/restart_client", prefix=(), options=ROOT_OPTIONS, **more):
        Server.count += 1
        name = f"cove-restart-{os.getpid()}-{Server.count}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name)
        self.listener.listen()
        self.listener.settimeout(PATIENCE)
        self.process = subprocess.Popen(
            [*prefix, str(build / "cove-spawner"), "--cgroup-parent", CGROUP_PARENT, "--store", "/var/lib/cove/images", *options,
             "--grace", more.get("grace", "60s"), "--serve", str(client), "--", name, str(build.parent / "images")],
            stdin=subprocess.DEVNULL, stderr=more.get("stderr"))

    def client(self):
        return Client(self.listener.accept()[0])

    def end(self, client):
        client.send("end")
        assert self.process.wait(PATIENCE) == 0
        nothing_is_left()

    def release(self):
        self.listener.close()
        covetest.kill_quietly(self.process.pid)
        self.process.wait()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.release()


@pytest.fixture
def client(server):
    client = server.client()
    client.open()
    return client


# --- what goes on -------------------------------------------------------------------------------


def test_a_running_execution_ends_normally(server, client):
    assert client.run("x = 41")["state"] == "completed"
    client.begin(SLOW.format(count=20, pause=0.05, gate=5) + "import sys; sys.stderr.write('last')\nx")
    client.wait_output("3\n")
    record = client.record()
    told = client.kill()
    open_gate(server)
    second = server.client()
    run = second.resume(record, from_start=True)
    whole = "".join(f"{i}\n" for i in range(20))
    assert (run["state"], run["reason"], run["stdout"], run["stderr"]) == ("completed", None, whole, "last")
    assert [result["data"]["text/plain"] for result in run["results"]] == ["41"]
    assert second.output == {0: whole, 1: "last"} and whole.startswith(told[0])
    assert second.value("x + 1") == "42"
    server.end(second)


def test_each_byte_is_told_exactly_once(server, client):
    """The record says how much was told; what one has told, the next one does not."""
    client.begin(SLOW.format(count=300, pause=0.002, gate=250))
    client.wait_output("50\n")
    client.send("record")  # what comes before it was told, and what comes after it was not
    before = None
    while before is None:
        event = client.receive()
        if event["event"] == "record":
            record, before = event["record"], client.output[0]
    client.kill()
    open_gate(server)
    second = server.client()
    run = second.resume(record)
    whole = "".join(f"{i}\n" for i in range(300))
    assert run["stdout"] == whole and before + second.output[0] == whole
    server.end(second)


def test_one_that_ended_meanwhile_has_all_it_said(server, client):
    client.begin(GATE + "print('begun', flush=True); gate(); print('x' * 1000); display('shown')\n"
                 "__import__('ctypes').CDLL(None).prctl(15, b'finished'); 6 * 7", keeps_now=True)
    client.wait_output("begun")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    wait_for(lambda: any(covetest.name_of(pid) == "finished" for pid in covetest.sandboxed()), "the end of the code")
    run = second.resume(record, from_start=True)
    assert run["state"] == "completed" and run["stdout"] == "begun\n" + "x" * 1000 + "\n"
    assert [list(result["data"].values())[0] for result in run["results"]] == ["'shown'", "42"]
    server.end(second)


def test_results_that_the_first_had_read_are_there_again(server, client):
    client.begin(GATE + "display('first'); print('begun', flush=True); gate(); display('second'); 1 / 0", keeps_now=True)
    client.wait_output("begun")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    run = second.resume(record)
    assert [list(result["data"].values())[0] for result in run["results"]] == ["'first'", "'second'"]
    assert (run["state"], run["error"]["name"]) == ("failed", "ZeroDivisionError")
    server.end(second)


def test_an_idle_session_goes_on(server, client):
    client.run("x = [1, 2]")
    record = client.record()
    client.kill()
    second = server.client()
    assert [(entry["label"], entry["state"]) for entry in second.list()] == [(client.label, LIVE)]
    second.attach(record).wait("changed", state="ready")
    assert second.value("x") == "[1, 2]"
    server.end(second)


def test_a_record_may_be_older_than_the_session(server, client):
    """Of what ended before the death of its host, nothing is told again; the variables are there."""
    record = client.record()
    client.run("x = 5")
    client.run("display('something to be said again'); x += 1")
    client.kill()
    second = server.client()
    second.attach(record).wait("changed", state="ready")
    assert second.value("x") == "6"
    server.end(second)


@pytest.mark.parametrize("language, code, value", [
    ("bash", "for ((i = 1; i < 30; i++)); do echo $i; sleep 0.1; done; x=41", "echo $((x+1))"),
    ("javascript", "x = 41; for (let i = 1; i < 30; i++) { console.log(String(i)); await new Promise(r => setTimeout(r, 100)) }",
     "console.log(x + 1)")])
def test_other_languages(server, language, code, value):
    client = server.client()
    client.open(language)
    client.begin(code)
    client.wait_output("3\n")
    record = client.record()
    client.kill()
    second = server.client()
    run = second.resume(record, language=language, from_start=True)
    assert (run["state"], run["stdout"]) == ("completed", "".join(f"{i}\n" for i in range(1, 30))), run
    assert second.run(value)["stdout"] == "42\n"
    server.end(second)


@pytest.mark.skipif(not (BUILD / "cove_zygote.so").exists(), reason="this build has no zygote")
def test_a_session_of_a_warm_interpreter(server):
    client = server.client()
    client.open(is_warm=True)
    client.begin("x = 41\n" + SLOW.format(count=20, pause=0.05, gate=5))
    client.wait_output("3\n")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    assert sorted((entry["label"], entry["state"]) for entry in second.list()) == sorted([(client.label, LIVE), ("00" * 16, ZYGOTE)])
    run = second.resume(record)
    assert (run["state"], run["stdout"]) == ("completed", "".join(f"{i}\n" for i in range(20)))
    assert second.value("x + 1") == "42"
    server.end(second)


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_rootless(kind):
    if why := covetest.why_no_rootless(kind):
        pytest.skip(why)
    cove = covetest.rootless(kind)
    program = cove.program.parent / "restart_client"
    shutil.copy(BUILD / "tests/restart_client", program)
    server = Server(cove.program.parent, program, cove.argv()[:-1], ("--run-dir", f"{cove.home}/run"))
    client = server.client()
    assert covetest.status_of(client.pid)["CapEff"].strip() == "0" * 16
    client.open()
    client.begin("x = 41\n" + SLOW.format(count=20, pause=0.05, gate=5))
    client.wait_output("3\n")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    assert second.resume(record)["stdout"] == "".join(f"{i}\n" for i in range(20))
    assert second.value("x + 1") == "42"
    second.send("end")
    assert server.process.wait(PATIENCE) == 0
    server.release()


def test_after_a_reset_it_is_the_new_interpreter(server, client):
    client.run("x = 1")
    client.send("reset")
    client.wait("changed", state="ready")
    client.run("x = 2")
    record = client.record()
    client.kill()
    second = server.client()
    second.attach(record).wait("changed", state="ready")
    assert second.value("x") == "2"
    server.end(second)


def test_a_client_that_lets_go_by_itself(server, client):
    client.run("x = 3")
    record = client.record()
    client.send("detach")
    second = server.client()
    second.attach(record).wait("changed", state="ready")
    assert second.value("x") == "3"
    server.end(second)


def test_output_beyond_its_limit(server, client):
    """Head and tail stay, and the true size, whoever counted."""
    code = GATE + "for i in range(40):\n    print(f'{i:02}' + 'x' * 997, flush=True)\n    if i == 18: gate()\n    time.sleep(0.02)"
    client.begin(code, output_bytes=8192)
    client.wait_output("15x")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    run = second.resume(record, output_bytes=8192)
    assert run["truncated"] == {"stdout": {"kept_bytes": 8192, "total_bytes": 40_000}}
    whole = "".join(f"{i:02}" + "x" * 997 + "\n" for i in range(40))
    assert run["stdout"].startswith(whole[:4096] + "\n[... 31808 bytes left out ...]\n") and run["stdout"].endswith(whole[-4096:])
    server.end(second)


def test_one_that_blocks_on_a_full_pipe_goes_on(server, client):
    client.begin(GATE + "print('begun', flush=True); gate(); print('y' * 300_000)", output_bytes=1 << 20)
    client.wait_output("begun")
    record = client.record()
    client.kill()
    open_gate(server)
    second = server.client()
    run = second.resume(record, output_bytes=1 << 20)
    assert run["state"] == "completed" and run["stdout"] == "begun\n" + "y" * 300_000 + "\n"
    server.end(second)


def test_killed_again_and_again(server, client):
    """Whatever the moment, no line is missing and none comes twice."""
    dice = random.Random(16)
    client.begin(SLOW.format(count=1500, pause=0.002, gate=1400) + "'the end'", keeps_now=True)
    record = client.record()
    for line in (0, 200, 0, dice.randrange(300, 900)):
        if line:  # else in the middle of going on
            client.wait_output(f"\n{line}\n")
        client.kill()
        client = server.client().attach(record, from_start=True)
    open_gate(server)
    run = client.finish()
    assert run["stdout"] == "".join(f"{i}\n" for i in range(1500))
    assert client.output[0] == run["stdout"]
    assert [list(result["data"].values()) for result in run["results"]] == [["'the end'"]]
    server.end(client)


# --- what does not ------------------------------------------------------------------------------


def test_a_time_limit_counts_from_the_beginning(server, client):
    """Where a busy machine gives the interpreter no turn between interrupt and kill, it is tried again."""
    for _ in range(6):
        client.run("kept = 42")
        client.begin("print('begun', flush=True)\nwhile True: pass", timeout_ms=2000)
        client.wait_output("begun")
        record = client.record()
        client.kill()
        client = server.client()
        run = client.resume(record, timeout_ms=2000)
        assert (run["state"], run["reason"]["kind"], run["stdout"]) == ("timeout", "timeout", "begun\n")
        assert run["duration_ms"] < 10_000
        if client.state == "ready":
            break
        client.send("reset")
        client.wait("changed", state="ready")
    assert client.value("kept") == "42", "the interrupt left the variables"
    server.end(client)


def test_an_interrupt_by_the_next_host(server, client):
    client.begin("x = 1; print('begun', flush=True)\nwhile True: pass")
    client.wait_output("begun")
    record = client.record()
    client.kill()
    second = server.client()
    second.attach(record, from_start=True).wait_output("begun")
    second.send("interrupt")
    run = second.finish()
    assert (run["state"], second.value("x")) == ("cancelled", "1"), run
    server.end(second)


def test_an_interpreter_that_died_meanwhile(server, client):
    client.begin("print('begun', flush=True)\nimport time; time.sleep(1000)")
    client.wait_output("begun")
    record = client.record()
    victim = next(pid for pid in covetest.sandboxed() if "python" in covetest.name_of(pid))
    client.kill()
    second = server.client()
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not covetest.is_alive(victim), "the end of the interpreter")
    run = second.resume(record)
    assert (run["state"], run["signal"], run["stdout"]) == ("failed", "SIGKILL", "begun\n"), run
    second.send("reset")
    second.wait("changed", state="ready")
    assert second.value("6 * 7") == "42"
    server.end(second)


@pytest.mark.parametrize("is_over", [True] + 12 * [False])
def test_a_sandbox_that_died_meanwhile(server, client, is_over):
    """Whether its end was known, or is told while it is given back: what it has printed is there."""
    client.begin("print('begun', flush=True)\nimport time; time.sleep(1000)")
    client.wait_output("begun")
    record = client.record()
    client.kill()
    second = server.client()
    for pid in covetest.sandboxed():
        covetest.kill_quietly(pid)
    if is_over:
        wait_for(lambda: not covetest.sandboxed(), "the end of the sandbox")
    second.attach(record)
    run = second.wait("ended")["execution"]
    assert (run["state"], run["reason"]["kind"], run["stdout"]) == ("failed", "runner_died", "begun\n"), run["reason"]
    second.wait("changed", state="terminated")
    server.end(second)


def test_a_sandbox_that_is_gone(server, client):
    client.begin("import time; time.sleep(1000)", keeps_now=True)
    record = client.record()
    client.send("close")
    client.wait("changed", state="terminated")
    client.kill()
    second = server.client()
    second.attach(record)
    assert second.wait("ended")["execution"]["state"] == "lost"
    second.wait("changed", state="terminated")
    server.end(second)


def test_one_that_was_never_begun_is_lost(server, client):
    """The record is written before the request is sent; the death came in between."""
    client.run("x = 1")
    idle = bytes.fromhex(client.record())
    client.begin("import time; time.sleep(1000)", keeps_now=True)
    running = bytes.fromhex(client.record())
    client.send("interrupt")
    client.finish()
    client.kill()
    second = server.client()
    # As if the execution after the last one had been written down.
    later = bytearray(running)
    differs = [i for i in range(len(idle)) if idle[i] != running[i]]
    generation = running[differs[0]]
    for i in differs:
        if running[i] == generation and (i == differs[0] or idle[i] == 0):
            later[i] = generation + 1
    run = second.resume(bytes(later).hex())
    assert run["state"] == "lost" and "before the code began" in run["reason"]["message"], run
    assert second.value("x") == "1"
    server.end(second)


def test_code_whose_output_was_not_kept_is_lost_and_the_session_is_not(server, client):
    client.run("x = 1")
    client.begin(GATE + "gate()", keeps_now=True)
    record = client.record()
    open_gate(server)
    client.finish()  # and with its end the spawner lets go of the output
    client.kill()
    second = server.client()
    run = second.resume(record)
    assert run["state"] == "lost" and "output was lost" in run["reason"]["message"], run
    assert second.value("x") == "1"
    server.end(second)


# --- no client ----------------------------------------------------------------------------------

EXIT_ALONE, EXIT_REFUSED = 69, 78


@pytest.fixture
def said(tmp_path):
    with open(tmp_path / "stderr", "w+", encoding="utf-8") as file:
        yield file


def last_words(said):
    said.seek(0)
    return said.read()


def test_clients_that_refuse_are_given_up(said):
    """Its sandbox is worth waiting for, but whoever says no for the whole grace time will go on to say it."""
    server = Server(grace="3s", stderr=said)
    try:
        client = server.client()
        client.open()
        client.run("x = 1")
        client.kill()
        began, count = time.monotonic(), 0
        server.listener.settimeout(1)
        while server.process.poll() is None:
            with contextlib.suppress(TimeoutError):
                Client(server.listener.accept()[0]).send("refuse")
                count += 1
        assert server.process.returncode == EXIT_REFUSED
        assert time.monotonic() - began >= 3 and 3 <= count <= 12, "it tries again, less and less often"
        assert "giving up" in last_words(said)
        nothing_is_left()
    finally:
        server.release()


def test_no_client_can_follow_when_its_starter_was_killed(said):
    """What could only be waited for is not: the next start of all is somebody else's to make."""
    server = Server(stderr=said)
    try:
        client = server.client()
        client.open()
        client.run("x = 1")
        starters = [pid for pid in covetest.children_of(server.process.pid) if covetest.name_of(pid) == "cove-spawner"]
        assert len(starters) == 1
        os.kill(starters[0], signal.SIGKILL)
        assert client.value("x") == "1", "as long as there is a client, nobody misses it"
        client.kill()
        assert server.process.wait(PATIENCE) == EXIT_ALONE
        assert "no client can follow" in last_words(said)
        nothing_is_left()
    finally:
        server.release()
