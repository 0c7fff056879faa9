# SPDX-License-Identifier: Apache-2.0
"""Sessions as programs use them: state that lives on, results, limits that do not end the session, and kernels
that the code inside has turned against the host."""
import json
import os
import signal
import threading
import time

import pytest

import covetest
from covetest import PATIENCE, is_alive, kill_quietly, nothing_is_left, wait_for
from sessions import Session, check_execution

MIB = 1 << 20
SLACK_MS, BUSY_SLACK_MS = 250, 2500  # between a time limit and the end of what ran into it; the same beside other work
TRIES = 20  # of what needs the interpreter to have its turn within the 120 ms between an interrupt and a kill
HOST_KB_MAX = 64 * 1024  # as for a single run
# Seen from outside, as the name of a process: where the code is.
CALL = "_ = __import__('ctypes').CDLL(None).prctl(15, {!r}.encode())\n"

needs_groups = pytest.mark.skipif(not covetest.IS_ROOT, reason="without a cgroup the watch ends the whole sandbox, not one process")


@pytest.fixture
def open_session(cove):
    """Opens sessions; at the end of the test each must end well, and leave nothing."""
    yield from opener(cove)


@pytest.fixture
def open_any(any_cove):
    yield from opener(any_cove)


def opener(cove):
    opened = []

    def open_one(*options, **kwargs):
        opened.append(Session(cove, *options, **kwargs))
        return opened[-1]
    yield open_one
    for session in opened:
        if session.process.poll() is None:
            session.end()
    nothing_is_left()


@pytest.fixture
def session(open_session):
    return open_session()


# --- state --------------------------------------------------------------------------------------


def test_state_lives_on_as_root_and_as_an_ordinary_user(open_any):
    session = open_any()
    session.good("import math\nx = [1]\ndef double(n): return 2 * n")
    session.good("x.append(double(21)); open('note.txt', 'w').write('kept')")
    assert session.value("x, math.floor(2.5), open('note.txt').read()") == "([1, 42], 2, 'kept')"


STATE = {
    "python": ("n = 40", "print(n + 2)"),
    "javascript": ("let n = 40", "console.log(n + 2)"),
    "typescript": ("const n: number = 40", "console.log(n + 2)"),
    "bash": ("n=40", "echo $((n + 2))"),
}


@pytest.mark.parametrize("language", STATE)
def test_each_language_has_state(open_session, language):
    session = open_session("-l", language)
    first, second = STATE[language]
    session.good(first)
    assert session.printed(second) == "42\n"


def test_results_come_in_order_and_in_their_forms(session):
    run = session.good("class Page:\n"
                       "    def _repr_html_(self): return '<b>ä</b>'\n"
                       "    def __repr__(self): return 'page'\n"
                       "display(1, Page())\n"
                       "'last'")
    assert [result["main"] for result in run["results"]] == [False, False, True]
    assert run["results"][0]["data"] == {"text/plain": "1"}
    assert run["results"][1]["data"] == {"text/plain": "page", "text/html": "<b>ä</b>"}
    assert run["results"][2]["data"] == {"text/plain": "'last'"}


SHOWN = {
    "python": ("print('first', end=''); display({'a': 1})\nimport time\nwhile True: time.sleep(0.05)", "{'a': 1}"),
    "javascript": ("display({ a: 1 }); await new Promise((r) => setTimeout(r, 1e6))", "{ a: 1 }"),
}


@pytest.mark.parametrize("language", SHOWN)
def test_what_code_shows_comes_while_it_runs(open_session, language):
    session = open_session("-l", language)
    code, text = SHOWN[language]
    event = session.ask("execute", code=code, stream=True)
    assert list(event) == ["event", "session_id", "result"]
    assert (event["event"], event["session_id"]) == ("result", session.info["id"])
    assert event["result"]["main"] is False and event["result"]["data"]["text/plain"] == text
    session.send("interrupt")
    run = check_execution(session.receive(), session.info["id"])
    assert run["state"] == "cancelled" and run["results"] == [event["result"]]


def test_pictures_come_while_code_runs(session):
    session.send("execute", stream=True, code="import matplotlib.pyplot as plt\n"
                 "for i in range(2):\n    plt.plot([i]); plt.show()\n'end'")
    events = [session.receive()["result"] for _ in range(2)]
    assert all(event["data"]["image/png"].startswith("iVBOR") for event in events)
    run = check_execution(session.receive(), session.info["id"])
    assert run["results"][:2] == events and run["results"][2] == {"main": True, "data": {"text/plain": "'end'"}}


def test_what_is_shown_makes_no_lines_unless_asked(session):
    assert len(session.good("display(1, 2)")["results"]) == 2


def test_binary_results_are_base64(session):
    run = session.good("class Picture:\n    def _repr_png_(self): return b'\\x89PNG\\x00\\xff'\nPicture()")
    assert run["results"][0]["data"]["image/png"] == "iVBORwD/"


def test_more_results_than_are_kept_are_told(session):
    run = session.good("for i in range(1200): display(i)")
    assert len(run["results"]) == 1000
    assert run["truncated"]["results"] is True
    assert session.good("1")["truncated"] == {}


def test_an_exception_is_told_and_ends_nothing(session):
    run = session.run("kept = 1\ndef f(): raise KeyError('ä')\nf()")
    assert (run["state"], run["reason"]["kind"], run["exit_code"]) == ("failed", "exception", 1)
    assert run["error"]["name"] == "KeyError" and run["error"]["value"] == "'ä'"
    assert "in f" in run["error"]["traceback"]
    run = session.run("1 +")
    assert run["error"]["name"] == "SyntaxError"
    assert session.value("kept") == "1"


def test_an_exit_is_told_and_ends_nothing(session):
    run = session.run("kept = 2\nraise SystemExit(3)")
    assert (run["state"], run["reason"]["kind"], run["exit_code"]) == ("failed", "exit", 3)
    assert session.good("exit(0)")["exit_code"] == 0
    assert session.value("kept") == "2"


def test_an_input_is_of_one_execution(session):
    assert session.printed("import sys; print(input() + sys.stdin.read())", stdin="one\ntwo") == "onetwo\n"
    assert session.printed("print(repr(sys.stdin.read()))") == "''\n"
    assert session.good("1", stdin="x" * (4 * MIB))["stdout"] == ""  # nobody reads it
    assert session.printed("print(repr(sys.stdin.read()))") == "''\n"


def test_the_environment_is_of_one_execution(open_session):
    session = open_session("--env", "ALWAYS=here")
    look = "import os; print(os.environ.get('ALWAYS'), os.environ.get('ONCE'))"
    assert session.printed(look, env=["ONCE=1", "ALWAYS=changed"]) == "changed 1\n"
    assert session.printed(look) == "here None\n"


def test_questions(session):
    session.good("number, text = 7, 'seven'\nimport json")
    variables = session.answer("variables")
    assert [(v["name"], v["type"], v["preview"]) for v in variables["variables"]] == [
        ("number", "int", "7"), ("text", "str", "'seven'")]
    assert session.answer("variable", name="number") == {"mime_type": "application/json", "data": "7"}
    assert session.answer("variable", name="text", format="text")["data"] == "'seven'"
    assert session.refusal("variable", name="missing")["code"] == "not_found"
    assert "number" in session.answer("complete", code="num")["matches"]
    assert session.answer("is_whole", code="if 1:")["status"] == "incomplete"
    assert session.answer("is_whole", code="1")["status"] == "complete"
    assert session.value("number") == "7"


# --- artifacts ----------------------------------------------------------------------------------


def paths(run):
    return [artifact["path"] for artifact in run["artifacts"]]


def test_each_execution_has_its_own_artifacts(session):
    assert paths(session.good("open('a', 'w').write('1')")) == ["a"]
    assert paths(session.good("open('a').read()")) == []
    assert paths(session.good("open('b', 'w').write('2')")) == ["b"]
    run = session.good("f = open('a', 'r+'); f.write('9'); f.close()")  # in place, the same size
    assert paths(run) == ["a"]
    assert run["artifacts"][0]["size"] == 1
    assert paths(session.good("import os; os.utime('b', (1, 1))")) == ["b"]  # its time does not hide it
    assert paths(session.good("os.remove('a'); open('c', 'w').write('3')", artifacts=False)) == []
    assert paths(session.run("open('d', 'w').write('4'); 1 / 0"))[-1:] == ["d"]


def test_quick_executions_do_not_share_artifacts(session):
    """File times are coarse; several executions happen within one tick of them."""
    for i in range(60):
        session.send("execute", code=f"open('file{i}', 'w').write('x')")
    assert [paths(session.receive()) for _ in range(60)] == [[f"file{i}"] for i in range(60)]


def test_artifacts_do_not_lead_out(session):
    run = session.good("import os, socket\n"
                       "os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.mkfifo('fifo')\n"
                       "socket.socket(socket.AF_UNIX).bind('socket')\n"
                       "os.makedirs('deep/er'); open('deep/er/file', 'w').write('x')\n"
                       "open('/tmp/elsewhere', 'w').write('x')")
    assert paths(run) == ["deep/er/file"]
    assert run["truncated"] == {}


def test_a_deep_tree_is_bounded(session):
    run = session.good("import os\n"
                       "for _ in range(300):\n    os.mkdir('d'); os.chdir('d')\n"
                       "open('file', 'w').write('x'); os.chdir('/workspace'); open('top', 'w').write('x')")
    assert "top" in paths(run)
    assert run["truncated"].get("artifacts") is True
    assert session.value("1 + 1") == "2"


def test_a_hundred_thousand_files_are_cut_and_quick(open_session, is_long):
    session = open_session("--inodes", "150000", "--memory", "512M")
    run = session.good("for i in range(100_000): open(f'f{i}', 'w').close()", timeout=60)
    assert run["truncated"]["artifacts"] is True
    assert len(run["artifacts"]) <= 1000
    started = time.monotonic()
    assert session.value("2") == "2"  # the next one looks at them again
    assert time.monotonic() - started < (3 if is_long else 30) * covetest.SLOWNESS
    assert session.host_kb("VmHWM") < HOST_KB_MAX or covetest.IS_ASAN


# --- time ---------------------------------------------------------------------------------------

INTERRUPTED = {  # the interpreter lives on
    "loop": "while True: pass",
    "sleep": "import time; time.sleep(60)",
    "blocked in a read": "import os; os.read(os.pipe()[0], 1)",
    "a regular expression": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
    "a child that sleeps": "import subprocess; subprocess.run(['sleep', '60'])",
    "input() that waits": "import os, sys; sys.stdin = open(os.pipe()[0]); input()",
    "a lock": "import threading; l = threading.Lock(); l.acquire(); l.acquire()",
    "many small products": "import numpy as np; a = np.ones((50, 50))\nwhile True: a @ a",
}
STUBBORN = {  # these do not end by that, or not soon
    "a loop in C": "sum(range(10 ** 13))",
    "a long product": "import numpy as np; a = np.ones((5000, 5000), 'f')\nwhile True: a @ a",
    "a long sort": "import numpy as np\nwhile True: np.sort(np.random.rand(8_000_000), kind='stable')",
    "a query without end": "import sqlite3; sqlite3.connect(':memory:').execute('with recursive c(x) as "
                           "(select 1 union all select x + 1 from c) select count(*) from c').fetchone()",
    "a long number": "len(str(7 ** (10 ** 8)))",
    "one that catches it": "while True:\n    try:\n        while True: pass\n    except KeyboardInterrupt: pass",
    "one that blocks it": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass",
    "one that ignores it": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "a process that stopped itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "one in a session of its own": "import os, time\ntry: os.setsid()\nexcept OSError: pass\n"
                                   "import signal; signal.signal(2, signal.SIG_IGN)\ntime.sleep(60)",
}


def run_into_limit(session, code, seconds=0.3):
    run = session.run(code, timeout=seconds)
    assert (run["state"], run["reason"]["kind"]) == ("timeout", "timeout"), run
    assert run["duration_ms"] >= seconds * 1000
    assert run["reason"]["limit"] == seconds
    return run["duration_ms"] - seconds * 1000


@pytest.fixture
def slack_ms(is_long):
    return (SLACK_MS if is_long else BUSY_SLACK_MS) * covetest.SLOWNESS


def assert_in_time(late_ms, slack_ms):
    """The machine may be busy once, but not each time."""
    late = []
    while not late or (min(late) > slack_ms and len(late) < 3):
        late.append(late_ms())
    assert min(late) <= slack_ms, late


def prepare(session, code):
    """To tell of the first exception takes longest, and on a slow machine too long; so does an import."""
    session.run(f"kept = 5\n{'import numpy' if 'numpy' in code else ''}\n1 / 0")


def revive(session):
    """A new interpreter where the old one had to be killed; -> whether it lives on."""
    answer = session.ask("execute", code="1")
    if "state" not in answer:
        assert answer["error"]["code"] == "conflict" and "reset" in answer["error"]["hint"]
        session.reset()
    return "state" in answer


@pytest.mark.parametrize("code", INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_a_time_limit_interrupts_in_time(session, code, slack_ms):
    """Of a few tries one ends in time and keeps the variables: on a busy machine 120 ms may be too short to listen."""
    tries = []

    def is_good():
        return any(late <= slack_ms and (lives or covetest.IS_EMULATED) for late, lives in tries)

    while len(tries) < TRIES and not is_good():
        prepare(session, code)
        late = run_into_limit(session, code)
        tries.append((late, revive(session)))
        assert not tries[-1][1] or session.value("kept") == "5"
    assert is_good(), tries


@pytest.mark.parametrize("code", STUBBORN.values(), ids=STUBBORN.keys())
def test_a_time_limit_ends_what_does_not_listen_in_time(session, code, slack_ms):
    def once():
        session.good("open('file', 'w').write('kept')")
        late = run_into_limit(session, code)
        revive(session)
        return late
    assert_in_time(once, slack_ms)
    assert session.value("open('file').read()") == "'kept'"


def end_by_interrupts(session, code, count):
    """How long it takes, in ms."""
    session.send("execute", code=CALL.format("here") + code, timeout=30)
    session.wait_inside("here")
    began = time.monotonic()
    for _ in range(count):
        session.send("interrupt")
    run = session.receive()
    assert (run["state"], run["reason"]["kind"]) == ("cancelled", "cancelled"), run
    return (time.monotonic() - began) * 1000


@pytest.mark.parametrize("code", INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_an_interrupt_ends_it_in_time(session, code, slack_ms):
    prepare(session, code)
    assert_in_time(lambda: end_by_interrupts(session, code, 1), slack_ms)
    assert session.value("kept") == "5"


@pytest.mark.parametrize("code", STUBBORN.values(), ids=STUBBORN.keys())
def test_two_interrupts_end_what_does_not_listen_in_time(session, code, slack_ms):
    def once():
        late = end_by_interrupts(session, code, 2)
        session.reset()
        return late
    assert_in_time(once, slack_ms)


def test_a_kill_loses_variables_and_keeps_files(session):
    session.good("kept = 1; open('file', 'w').write('kept')")
    run_into_limit(session, STUBBORN["a process that stopped itself"])
    for op in ({"op": "execute", "code": "1"}, {"op": "variables"}, {"op": "is_whole", "code": "1"}):
        assert session.refusal(**op)["code"] == "conflict"
    session.reset()
    assert session.value("open('file').read()") == "'kept'"
    assert session.run("kept")["error"]["name"] == "NameError"


def test_an_interrupt_overtakes(session):
    session.good("kept = 6")
    session.send("execute", code=CALL.format("here") + "while True: pass")
    session.wait_inside("here")
    session.send("execute", code="kept")
    session.process.send_signal(signal.SIGINT)
    run = session.receive()
    assert (run["state"], run["reason"]["kind"]) == ("cancelled", "cancelled")
    assert session.receive()["results"][0]["data"]["text/plain"] == "6"
    session.send("execute", code=CALL.format("again") + "while True: pass")
    session.wait_inside("again")
    session.send("interrupt")
    assert session.receive()["state"] == "cancelled"
    session.send("interrupt")  # of nothing
    assert session.value("kept") == "6"


def test_a_second_interrupt_kills(session):
    session.send("execute", code=CALL.format("here") + "import signal\nsignal.signal(2, signal.SIG_IGN)\n" +
                 CALL.format("deaf") + "while True: pass")
    session.wait_inside("deaf")
    session.send("interrupt")
    session.send("interrupt")
    assert session.receive()["state"] == "cancelled"
    session.reset()
    assert session.value("1") == "1"


# --- other limits -------------------------------------------------------------------------------


def test_too_much_memory_is_told(open_session):
    session = open_session("--memory", "64M")
    session.good("open('file', 'w').write('kept')")
    run = session.run("hoard = []\nwhile True: hoard.append(bytearray(1 << 20))")
    assert run["state"] == "failed"
    if run["error"] is None:  # killed, and not out of memory by its own account
        assert run["reason"]["kind"] == "oom"
        if not covetest.IS_ROOT:  # without a cgroup a watch ends the whole sandbox
            assert session.receive()["error"]["message"] == "the sandbox is gone"
            assert session.receive_line() is None and session.process.wait(covetest.PATIENCE) == os.EX_UNAVAILABLE
            return
        session.reset()
    assert session.value("open('file').read()") == "'kept'"


@needs_groups
def test_a_child_out_of_memory_is_no_end(open_session):
    session = open_session("--memory", "64M")
    session.good("kept = 1\nimport subprocess, sys\n"
                 "p = subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)'])")
    assert session.value("p.returncode != 0, kept") == "(True, 1)"


def test_a_fork_bomb_is_ended(open_session):
    session = open_session("--pids", "50")
    session.good("open('file', 'w').write('kept')")
    run = session.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1)
    assert run["state"] in ("timeout", "failed") and run["reason"]["kind"] in ("timeout", "pids"), run
    if "state" not in session.ask("execute", code="1"):
        session.reset()
    assert session.value("open('file').read()") == "'kept'"
    wait_for(lambda: len([pid for pid in covetest.descendants(session.process.pid) if is_alive(pid)]) < 10, "the end of the bomb")


BOMBS = {
    "plain": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "of deaf sessions": "import os, signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True:\n    try:\n"
                        "        if os.fork() == 0: os.setsid()\n    except OSError: pass",
    "of the shell": "import os, subprocess, signal\nsignal.signal(2, signal.SIG_IGN)\n"
                    "subprocess.run(['bash', '-c', 'trap \"\" 2; b() { b | b & }; b; while :; do :; done'])",
}


@pytest.mark.skipif(not covetest.IS_ROOT, reason="needs a uid for each sandbox")
@pytest.mark.parametrize("is_saved", [False, True], ids=["unsaved", "saved"])
@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS.keys())
def test_a_fork_bomb_ends_at_its_time_limit(open_session, code, is_saved, slack_ms):
    """At the limit of processes, where cove-init has next to no turn of its own."""
    session = open_session("--pids", "64")
    session.good("kept = 1; open('file', 'w').write('kept')")
    if is_saved:
        assert "checkpoint" in session.ask("checkpoint", name="before")

    def once():
        late = run_into_limit(session, code, 0.5)
        if is_saved:
            assert "checkpoint" in session.ask("rollback", checkpoint="before")
            assert session.value("kept, open('file').read()") == "(1, 'kept')"
        else:
            session.ask("reset")
            assert session.value("open('file').read()") == "'kept'"
        return late
    assert_in_time(once, slack_ms)
    wait_for(lambda: len([pid for pid in covetest.descendants(session.process.pid) if is_alive(pid)]) < 10, "the end of the bomb")


def test_too_many_processes_are_told(open_session):
    session = open_session("--pids", "20")
    run = session.run("import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(60)")
    counted = "pids" if covetest.IS_ROOT else "exception"  # a limit without a cgroup counts no refusals
    assert (run["state"], run["reason"]["kind"]) == ("failed", counted)
    assert run["error"]["name"] == "BlockingIOError"
    run = session.run("1")
    assert run["state"] == "completed"  # what was refused before is not held against it


def test_a_full_disk_is_told_and_can_be_emptied(open_session):
    session = open_session("--memory", "64M", "--disk", "16M")
    run = session.run("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))", artifacts=False)
    assert (run["state"], run["reason"]["kind"]) == ("failed", "disk"), run
    assert run["error"]["name"] == "OSError"
    session.good("import os; f.close(); os.remove('big'); open('small', 'w').write('x')")


def test_a_gigabyte_of_output_costs_the_host_nothing(session):
    session.good("1")
    before = session.host_kb("VmHWM")
    run = session.run("import os\nb = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, b)", timeout=60)
    total = run["truncated"]["stdout"]["total_bytes"]
    # A write to a pipe may be short; what was written is what is counted.
    assert run["state"] == "completed" and total > 64 * MIB
    assert len(run["stdout"]) < 2 * MIB
    assert covetest.IS_ASAN or session.host_kb("VmHWM") - before < 16 * 1024
    assert session.printed("print('next')") == "next\n"


# --- what outlives its execution ----------------------------------------------------------------

BACKGROUND = {
    "a child that holds the pipes": "import subprocess; p = subprocess.Popen('while sleep 0.01; do echo late; done', shell=True)",
    "a fork": "import os, time\nif os.fork() == 0:\n    while True: print('late', flush=True); time.sleep(0.01)",
    "a thread": "import threading, time\ndef work():\n    while True: print('late', flush=True); time.sleep(0.01)\n"
                "threading.Thread(target=work, daemon=True).start()",
    "a flood": "import subprocess; p = subprocess.Popen('yes late', shell=True)",
}


@pytest.mark.parametrize("name", ["a child that holds the pipes", "a fork", "a flood"])
def test_what_prints_in_the_background_is_not_waited_for(session, name):
    run = session.good(BACKGROUND[name])
    assert run["duration_ms"] < 5000
    for i in range(20):
        assert session.printed(f"print({i})") == f"{i}\n"
    assert session.run("import time; time.sleep(0.1)")["stdout"] == ""


def test_a_thread_prints_only_into_executions(session):
    session.good(BACKGROUND["a thread"])
    run = session.good("import time; time.sleep(0.1); print('mine')")
    assert "mine\n" in run["stdout"] and set(run["stdout"].split()) <= {"mine", "late"}


def test_a_fork_that_comes_back_says_nothing(session):
    run = session.good("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')\npid and 1")
    assert run["stdout"] == "both\nboth\n"
    assert len(run["results"]) == 1
    assert session.value("2") == "2"


def test_what_a_dead_interpreter_left_is_ended(session):
    session.run("import subprocess, os; subprocess.Popen(['sleep', '1000']); os._exit(1)")
    session.reset()
    assert session.value("import os; len([p for p in os.listdir('/proc') if p.isdigit()]) <= 3") == "True"


# --- kernels turned against the host ------------------------------------------------------------

FORGE = """
import gc, os, struct, time
channel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')
def frame(kind, body=b'', flags=0, generation=None, length=None, reserved=0):
    generation = channel.generation if generation is None else generation
    length = len(body) if length is None else length
    os.write(3, struct.pack('<IHHII', length, kind, flags, generation, reserved) + body)
DATA, DONE = 65, 68
"""
POISON = {
    "one byte": "os.write(3, b'x')",
    "one byte after the other": "for _ in range(1000): os.write(3, b'x')",
    "a length of 4 GiB": "frame(DATA, b'x', length=0xffffffff)",
    "a length too short": "frame(DATA, b'xxxx', length=1)",
    "an unknown type": "frame(1000)",
    "a type of the host's": "frame(2, b'print(1)')",
    "an unknown flag": "frame(DATA, flags=0x100)",
    "something reserved": "frame(DATA, reserved=1)",
    "a DONE of no length": "frame(DONE)",
    "a future request": "frame(DONE, bytes(4), generation=channel.generation + 1)",
    "the last request of all": "frame(DONE, bytes(4), generation=0xffffffff)",
    "a frame inside of a body": "frame(DATA, b'a/b', flags=1); frame(DONE, bytes(4))",
    "a flood": "while True: frame(DATA, b'text/plain\\0' + bytes(60000), flags=2)",
    "a flood in one body": "while True: frame(DATA, bytes(60000), flags=1)",
    "a flood of two requests in turn":
        "while True: frame(DATA, b'a/b\\0' + bytes(60000), 2); frame(DATA, bytes(60000), 2, channel.generation - 1)",
}


@pytest.mark.parametrize("code", POISON.values(), ids=POISON.keys())
def test_nonsense_ends_the_interpreter_and_not_the_session(session, code):
    run = session.run(FORGE + code + "\ntime.sleep(60)", timeout=30)
    assert (run["state"], run["reason"]["kind"], run["exit_code"]) == ("failed", "runner_died", None), run
    assert "nonsense" in run["reason"]["message"]
    assert run["duration_ms"] < 20_000
    assert covetest.IS_ASAN or session.host_kb("VmHWM") < 4 * HOST_KB_MAX
    assert session.refusal("execute", code="1")["code"] == "conflict"
    assert session.refusal("variables")["code"] == "conflict"
    session.reset()
    assert session.value("1 + 1") == "2"


DEATHS = {
    "it closes its channel": ("os.close(3)\ntime.sleep(60)", "runner_died"),
    "it exits": ("os._exit(0)", "runner_died"),
    "it kills itself": ("os.kill(os.getpid(), 9)", "runner_died"),
    "it crashes": ("import ctypes; ctypes.string_at(0)", "runner_died"),
    "it becomes another program": ("os.execv('/bin/sleep', ['sleep', '60'])", "runner_died"),
    "another program answers": ("os.set_inheritable(3, True)\nos.execv('/bin/sh', ['sh', '-c', 'echo x >&3; sleep 60'])",
                                "runner_died"),
    "a child kills it": ("import subprocess; subprocess.run(['sh', '-c', 'kill -9 $PPID; sleep 60'])", "runner_died"),
}


@pytest.mark.parametrize("name", DEATHS)
def test_an_interpreter_that_is_gone_is_told(session, name):
    code, kind = DEATHS[name]
    session.good("open('file', 'w').write('kept')")
    run = session.run(FORGE + code, timeout=20)
    assert (run["state"], run["reason"]["kind"], run["exit_code"]) == ("failed", kind, None), run
    assert run["duration_ms"] < 10_000
    session.reset()
    assert session.value("open('file').read()") == "'kept'"


def test_a_death_between_executions_is_told(session):
    session.good("import os\nif os.fork() == 0:\n    import time; time.sleep(0.05); os.kill(os.getppid(), 9); os._exit(0)")
    wait_for(lambda: session.ask("execute", code="1").get("state") != "completed", "its end")
    assert session.refusal("execute", code="1")["code"] == "conflict"
    session.reset()
    assert session.value("1") == "1"


def test_a_forged_end_changes_its_own_answer_only(session):
    run = session.run(FORGE + "frame(DONE, bytes(4))\ntime.sleep(0.3)\nprint('after the end')\nraise ValueError", timeout=10)
    assert (run["state"], run["exit_code"], run["stdout"], run["error"]) == ("completed", 0, "", None)
    run = session.run("print('clean')", timeout=10)
    assert (run["state"], run["stdout"], run["error"]) == ("completed", "clean\n", None)


def test_forged_words_do_not_hide_facts(session):
    """What is seen from outside wins over what the kernel says."""
    lives = False
    for _ in range(TRIES):  # until it had its turn, before it was killed
        run = session.run(FORGE + "frame(DATA, b'text/plain\\0all is well', 6)\nwhile True:\n"
                                  "    try: time.sleep(60)\n    except BaseException: frame(DONE, bytes(4)); break", timeout=0.3)
        assert (run["state"], run["reason"]["kind"]) == ("timeout", "timeout")
        if lives := revive(session):
            break
    assert lives
    run = session.run(FORGE + "frame(DATA, b'text/plain\\0all is well', 6)\nos._exit(0)")
    assert (run["state"], run["reason"]["kind"], run["exit_code"]) == ("failed", "runner_died", None)
    session.reset()


def test_frames_of_an_older_execution_are_dropped(session):
    session.good(FORGE + "import threading\nold = channel.generation\ndef work():\n"
                 "    for _ in range(2000): frame(DATA, b'text/plain\\0forged', 2, old); frame(DONE, bytes(4), 0, old)\n"
                 "thread = threading.Thread(target=work)")
    run = session.good("thread.start(); thread.join(); 'mine'")
    assert [result["data"]["text/plain"] for result in run["results"]] == ["'mine'"]


def test_what_the_code_breaks_is_its_own(session):
    """Whatever it replaces, the next execution gives an answer, or the session says that it has failed."""
    for code in ("import sys, os, json, builtins\nos.write = os.read = json.dumps = None\nsys.stdout = sys.stderr = None",
                 "sys.modules.clear()", "builtins.print = builtins.compile = builtins.eval = None\nbuiltins.__dict__.clear()",
                 "import threading", "globals().clear()"):
        session.run(code, timeout=5)
    answer = session.ask("execute", code="1 + 1", timeout=5)
    if "id" not in answer or answer["state"] != "completed":
        session.reset()
        assert session.value("1 + 1") == "2"


# --- large and odd ------------------------------------------------------------------------------


def test_large_code_and_large_results(session):
    assert session.value(f"len({'x' * (10 * MIB)!r})") == str(10 * MIB)
    html = session.good(f"class Big:\n    def _repr_html_(self): return 'ä' * {2 * MIB}\nBig()")["results"][0]["data"]["text/html"]
    assert html == "ä" * (2 * MIB)
    run = session.good("'y' * (8 << 20)")
    assert len(run["results"][0]["data"]["text/plain"]) < 2 * MIB
    run = session.good("for _ in range(8): display(Big())")  # more than one answer may have
    assert run["results"] and session.value("1") == "1"


def test_text_of_any_kind(session):
    assert session.printed("print('äöü 漢字 🦆')") == "äöü 漢字 🦆\n"
    assert session.value("len('🦆')") == "1"
    assert session.printed(r"import os; _ = os.write(1, b'\xff\x00ok')").endswith("ok")
    assert session.good("")["stdout"] == ""
    assert session.good("\n\n  \n# nothing")["results"] == []


BAD_LINES = ["", "{", "[]", "5", "null", '"text"', "{}", '{"op": 5}', '{"op": "fly"}', '{"op": "execute"}',
             '{"op": "execute", "code": 5}', '{"op": "execute", "code": "a\\u0000b"}', '{"op": "execute", "op": "execute"}',
             '{"op": "variables"}\x00', '{"op": "execute", "code": "1", "timeout": -1}', "[" * 10000,
             '{"op": "execute", "code": "1", "timeout": 0}', '{"op": "execute", "code": "1", "timeout": 1e300}',
             '{"op": "execute", "code": "1", "timeout": "5"}', '{"op": "execute", "code": "\\ud800"}']


def test_lines_that_are_no_requests(session):
    session.good("kept = 3")
    for line in BAD_LINES:
        session.send_line(line)
        if line:  # an empty one is none
            answer = session.receive()
            assert list(answer) == ["error"] and answer["error"]["code"] in ("invalid", "too_large"), (line, answer)
    session.process.stdin.write(b'{"op": "execute", "code": "\xff"}\n')
    session.process.stdin.flush()
    assert "error" in session.receive()
    assert session.value("kept") == "3"


def test_a_caller_far_ahead_waits(session):
    """Forty megabytes of requests at once, though a single line may have no more than 32."""
    padding = "#" * (100 << 10)
    count = 400
    lines = b"".join(json.dumps({"op": "execute", "code": f"{i} {padding}", "artifacts": False}).encode() + b"\n"
                     for i in range(count))
    session.send("execute", code="import time; time.sleep(1)")
    writer = threading.Thread(target=lambda: (session.process.stdin.write(lines), session.process.stdin.flush()))
    writer.start()
    assert session.receive()["state"] == "completed"
    values = [session.receive()["results"][0]["data"]["text/plain"] for _ in range(count)]
    writer.join(PATIENCE)
    assert values == [str(i) for i in range(count)]
    assert covetest.IS_ASAN or session.host_kb("VmHWM") < HOST_KB_MAX


def test_interrupts_come_together_with_what_they_end(session):
    """The second one kills: the first may come before the code begins, and be missed."""
    session.process.stdin.write(b'{"op": "execute", "code": "import time; time.sleep(60)"}\n' + b'{"op": "interrupt"}\n' * 2)
    session.process.stdin.flush()
    assert session.receive(20)["state"] == "cancelled"
    session.reset()


def test_a_hundred_thousand_interrupts_at_once(session):
    session.send("execute", code=CALL.format("here") + "import time; time.sleep(60)", timeout=30)
    session.wait_inside("here")
    session.process.stdin.write(b'{"op": "interrupt"}\n' * 100_000)
    session.process.stdin.flush()
    assert session.receive()["state"] == "cancelled"
    assert "session" in session.ask("reset")
    assert session.value("1") == "1"


def test_a_line_too_long_ends_it(open_session):
    session = open_session()
    try:
        session.process.stdin.write(b"x" * (33 * MIB))
        session.process.stdin.flush()
    except BrokenPipeError:
        pass
    assert session.receive()["error"]["code"] == "too_large"
    assert session.receive_line() is None
    assert session.process.wait(PATIENCE) == 65


def test_many_executions_leak_nothing(session, is_long):
    def rounds(count):
        for i in range(count):
            artifacts = i % 10 == 0
            session.send("execute", code=f"open('f', 'w').write('{i}') if {artifacts} else {i}", artifacts=artifacts, stdin="x")
            assert session.receive()["state"] == "completed"
    rounds(200)
    fds, memory = session.host_fds(), session.host_kb()
    rounds(20_000 if is_long else 2000)
    wait_for(lambda: session.host_fds() <= fds, "what the last one had open to be closed")  # behind its answer
    assert covetest.IS_ASAN or session.host_kb() - memory < 1024
    for _ in range(100):  # and what is refused leaks nothing either
        session.send("execute", code="1", stdin="x", timeout=-1)
        assert "error" in session.receive()
    session.run("import os; os._exit(0)")
    before = session.host_fds()
    for _ in range(100):
        session.send("execute", code="1", stdin="x")
        assert session.receive()["error"]["code"] == "conflict"
    wait_for(lambda: session.host_fds() <= before, "what was refused to be closed")


# --- ends ---------------------------------------------------------------------------------------


def test_the_end_of_the_input_waits_for_the_answer(open_session):
    session = open_session()
    session.send("execute", code="import time; time.sleep(0.2); 'done'")
    session.process.stdin.close()
    assert session.receive()["results"][0]["data"]["text/plain"] == "'done'"
    session.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_all_that_runs(open_session, number):
    session = open_session()
    session.send("execute", code=CALL.format("here") + "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\n" +
                 CALL.format("deaf") + "while True: pass")
    session.wait_inside("deaf")
    session.process.send_signal(number)
    assert session.receive()["state"] == "cancelled"  # exactly once
    assert session.receive_line() is None
    assert session.process.wait(PATIENCE) == 128 + number


@pytest.mark.skipif(not covetest.IS_ROOT, reason="whoever is not root cannot tell whose processes are left")
@pytest.mark.parametrize("is_busy", [True, False], ids=["busy", "idle"])
def test_a_spawner_that_dies_is_told(open_session, is_busy):
    session = open_session()
    if is_busy:
        session.send("execute", code=CALL.format("here") + "while True: pass")
        session.wait_inside("here")
    kill_quietly(session.spawner())
    if is_busy:
        run = session.receive()
        assert run["state"] in ("lost", "failed"), run
    assert session.receive()["error"]["code"] == "unavailable"
    assert session.receive_line() is None
    assert session.process.wait(PATIENCE) != 0
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    for path in covetest.sandbox_groups():  # the next spawner would do it
        os.rmdir(path)


def test_a_host_that_dies_takes_it_along(open_session):
    session = open_session()
    session.send("execute", code=CALL.format("here") + "import time; time.sleep(1000)")
    session.wait_inside("here")
    session.process.kill()
    session.process.wait()
    nothing_is_left()


def test_sessions_do_not_see_each_other(open_session):
    one, other = open_session(), open_session()
    one.good("secret = 'mine'; open('/workspace/a', 'w').write('1'); open('/tmp/b', 'w').write('2')")
    assert other.value("import os; os.listdir('/workspace'), os.path.exists('/tmp/b'), 'secret' in dir()") == "([], False, False)"
    one.process.kill()
    one.process.wait()
    assert other.value("1 + 1") == "2"
