# SPDX-License-Identifier: Apache-2.0
"""Terminals in a live session: what a shell on one can do, what it cannot, and that nothing is left of it.

The host is restart_client.c, which cove-spawner starts; bytes of the terminals are in its events."""
import base64
import hashlib
import os
import re
import signal

import pytest

import covetest
from covetest import BUILD, name_of, nothing_is_left, own_memory, read_text, sandboxed, wait_for
from restart_test import Client, Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

TERMINALS_MAX = 4
COPIER = str(BUILD / "cove_checkpoint.so")


class Terminal:
    """One terminal as the test has it: what it printed, and how it ended."""

    def __init__(self, host, number, **order):
        self.host, self.number, self.bytes, self.end, self.is_started = host, number, bytearray(), None, False
        self.drained = 0
        host.terminals[number] = self
        host.send("terminal", number=number, **({"kind": "xterm-256color", "columns": 80, "rows": 24} | order))
        host.until(lambda: self.is_started or self.end, "a terminal")

    def hear(self, event):
        match event["event"]:
            case "started":
                self.is_started = True
            case "printed":
                self.bytes += base64.b64decode(event["data"])
            case "drained":
                self.drained += 1
            case "over":
                self.end = event

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.host.send("type", number=self.number, data=base64.b64encode(data).decode())

    @property
    def text(self):
        return self.bytes.decode(errors="replace")

    def wait(self, pattern):
        """Until what it printed since the last look matches; answers the match."""
        found = []

        def look():
            match = re.search(pattern, self.text, re.DOTALL)
            found.append(match)
            return match or self.end
        self.host.until(look, pattern)
        assert found[-1], f"it ended without '{pattern}': {self.end} {self.text[-500:]!r}"
        self.bytes = bytearray(self.text[found[-1].end():].encode())
        return found[-1]

    def run(self, command):
        """What a command prints. The shell's echo has the marks in quotes, the output has not."""
        self.type(f"echo '<'A; {command}; echo B'>'\n")
        return self.wait(r"<A\r\n(.*?)B>\r\n")[1].replace("\r\n", "\n")

    def wait_prompt(self):
        """Until the shell reads; a Ctrl-D before that would be nobody's."""
        self.wait(r"[#$] $")

    def wait_end(self):
        self.host.until(lambda: self.end, "the end")
        return self.end

    def exit(self, code=0):
        self.type(f"exit {code}\n")
        end = self.wait_end()
        assert (end["exit_code"], end["signal"], end["message"]) == (code, 0, ""), end

    def hang_up(self):
        self.host.send("hangup", number=self.number)
        del self.host.terminals[self.number]


class Host(Client):
    def __init__(self, link):
        self.terminals = {}
        super().__init__(link)

    def receive(self):
        event = super().receive()
        if event and "number" in event and event["number"] in self.terminals:
            self.terminals[event["number"]].hear(event)
        return event

    def until(self, condition, what):
        while not condition():
            assert self.receive() is not None, f"it ended before {what}"

    def terminal(self, number=1, **order):
        terminal = Terminal(self, number, **order)
        assert terminal.is_started, terminal.end
        return terminal

    def open(self, **fields):
        self.label = "00" * 16
        self.send("open", language="python", label=self.label, copier=COPIER, **fields)
        self.wait("changed", state="ready")


class TerminalServer(Server):
    def client(self):
        return Host(self.listener.accept()[0])


@pytest.fixture
def server():
    server = TerminalServer()
    yield server
    server.release()
    nothing_is_left()


@pytest.fixture
def host(server):
    host = server.client()
    host.open()
    yield host
    host.send("close")
    host.wait("changed", state="terminated")
    nothing_is_left()
    server.end(host)


def inside(server):
    """Processes of the sandbox by their names, but for init."""
    return sorted(name_of(pid) for pid in sandboxed() if name_of(pid) not in ("cove-init", ""))


def sleeps():
    """For how long what sleeps in the sandbox does so."""
    lines = [read_text(f"/proc/{pid}/cmdline").split("\0") for pid in sandboxed() if name_of(pid) == "sleep"]
    return sorted(int(line[1]) for line in lines if len(line) > 1)


def detached(seconds):
    """A command that leaves a sleeper behind, in a session of its own and without a parent."""
    return ("python3 -c 'import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
            f"os.closerange(0, 9); os.execvp(\"sleep\", [\"sleep\", \"{seconds}\"])'")


def only_the_kernel_is_left(server):
    wait_for(lambda: len(inside(server)) <= 1, "the end of all that was started in a terminal")


# --- what it is -----------------------------------------------------------------------------------


def test_a_shell_answers(host):
    terminal = host.terminal()
    assert terminal.run("echo $((40 + 2)) $TERM $PWD $HOME $WHO; tty") == "42 xterm-256color /workspace /tmp the test\n/dev/pts/0\n"
    assert terminal.run("test -t 0 && test -t 1 && test -t 2 && echo yes") == "yes\n"
    terminal.exit(7)


def test_what_is_typed_is_echoed_and_edited(host):
    terminal = host.terminal()
    terminal.run("stty -a | grep -o iutf8")
    terminal.type("echo rea''dy; cat\n")  # by then the shell has left its own line editor
    terminal.wait("ready\r\n")
    terminal.type("hällö\x7fo\n")
    terminal.wait("hällö")
    terminal.wait("\r\nhällo\r\n")
    terminal.type("\x04")  # Ctrl-D
    assert terminal.run("echo shell") == "shell\n"
    terminal.exit()


def test_its_size_is_given_and_changed(host):
    terminal = host.terminal(columns=101, rows=37)
    assert terminal.run("stty size") == "37 101\n"
    terminal.type("trap 'stty size > /workspace/size' WINCH; echo READ''Y\n")
    terminal.wait("READY\r\n")
    host.send("resize", number=1, columns=132, rows=50)
    # A trap comes after a command, and not always after the one that is read when the signal comes.
    wait_for(lambda: terminal.run("cat /workspace/size 2>/dev/null") == "50 132\n", "the trap")
    terminal.exit()


def test_ctrl_c_ends_what_runs_in_it_and_nothing_else(host):
    host.begin("import time\nx = 41\nprint('begun', flush=True)\nfor _ in range(3000): time.sleep(0.02)", timeout_ms=60000)
    host.wait_output("begun\n")
    terminal = host.terminal()
    terminal.type("sh -c 'echo RUNN''ING; exec sleep 1000'\n")
    terminal.wait("RUNNING\r\n")
    terminal.type("\x03")
    terminal.type("echo status=$?\n")
    terminal.wait("status=130\r\n")
    host.send("interrupt")
    run = host.wait("ended")["execution"]
    assert run["error"]["name"] == "KeyboardInterrupt"  # by that one, not by the first
    host.wait("changed", state="ready")
    assert host.value("x") == "41"
    assert terminal.run("echo alive") == "alive\n"
    terminal.exit()


def is_in_front(pid):
    """Of its terminal."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields and fields[2] == fields[5]


def test_jobs_can_be_stopped_and_continued(host):
    terminal = host.terminal()
    terminal.type("sh -c 'echo RUNN''ING; exec sleep 1000'\n")
    terminal.wait("RUNNING\r\n")
    terminal.type("\x1a")  # Ctrl-Z
    terminal.wait("Stopped")
    assert "sleep 1000" in terminal.run("jobs")
    terminal.type("fg\n")
    terminal.wait("sleep 1000")  # which is told before it is so
    wait_for(lambda: any(is_in_front(pid) for pid in sandboxed() if name_of(pid) == "sleep"), "a program in the foreground")
    terminal.type("\x03")
    assert terminal.run("jobs") == ""
    terminal.exit()


RAW = """
import os, termios, tty
tty.setraw(0)
os.write(1, b'RAW!')
got = b''
while not got.endswith(b'q'):
    got += os.read(0, 1)
os.write(1, b'\\x1b[2J' + repr(got).encode() + b'!')
"""


def test_a_program_in_raw_mode_gets_every_byte(host):
    terminal = host.terminal()
    host.value(f"open('raw.py', 'w').write({RAW!r})")
    terminal.type("stty -echo; python3 raw.py; stty sane\n")
    terminal.wait("RAW!")
    sent = bytes(b for b in range(256) if b != ord("q"))
    terminal.type(sent + b"q")
    terminal.wait(re.escape("\x1b[2J" + repr(sent + b"q") + "!"))
    terminal.run("true")
    terminal.exit()


def test_a_megabyte_is_pasted(host):
    terminal = host.terminal()
    line = b"0123456789" * 9 + b"abcdefghi\n"
    paste = line * (1024 * 1024 // len(line))
    terminal.run("stty -echo")
    terminal.type("sha256sum > sum; wc -c < /dev/null\n")
    terminal.type(paste)
    terminal.type("\x04")
    assert hashlib.sha256(paste).hexdigest() in terminal.run("cat sum")
    terminal.exit()


def test_what_is_not_read_makes_who_types_wait(host):
    """A program that reads nothing: what is pasted is kept up to a bound, and then the writer is told."""
    terminal = host.terminal()
    terminal.type("stty raw -echo; echo RE''ADY; exec sleep 1000\n")
    terminal.wait("READY")
    before, part = terminal.drained, b"x" * 200_000
    terminal.type(part)
    terminal.type(part)
    terminal.type(part)
    terminal.type(part * 5)  # past all that may wait
    end = terminal.wait_end()
    assert end["message"] == "more was typed than the terminal takes"
    assert terminal.drained <= before + 1


def test_a_flood_comes_whole_and_in_order(host):
    terminal = host.terminal()
    text = terminal.run("seq 200000")
    assert text.split() == [str(i) for i in range(1, 200001)]
    terminal.exit()


def test_who_does_not_read_makes_programs_wait(host):
    terminal = host.terminal()
    terminal.wait_prompt()
    host.value("1")
    before = own_memory(host.pid)
    host.send("hold", number=1, is_held=True)
    terminal.type("while echo 0123456789; do echo > /workspace/running; done\n")
    looks = ["0"]  # at the session's clock, which goes on, until the loop stands still
    while len(looks) < 5 or len(set(looks[-5:])) > 1 or looks[-1] == "0":
        looks.append(host.value("import os\nos.stat('running').st_mtime_ns if os.path.exists('running') else 0"))
    assert not terminal.bytes
    assert covetest.IS_ASAN or own_memory(host.pid) - before < 2 << 20  # ASan keeps what was freed
    host.send("hold", number=1, is_held=False)
    terminal.wait("0123456789\r\n0123456789")
    terminal.hang_up()
    only_the_kernel_is_left(host)


# --- its end --------------------------------------------------------------------------------------


def test_a_signal_is_told(host):
    terminal = host.terminal()
    terminal.type("kill -9 $$\n")
    assert terminal.wait_end()["signal"] == signal.SIGKILL


def test_ctrl_d_ends_the_shell(host):
    terminal = host.terminal()
    terminal.wait_prompt()
    terminal.type("\x04")
    assert terminal.wait_end()["exit_code"] == 0


def test_the_last_words_are_not_lost(host):
    for number in range(20):
        terminal = host.terminal(1)
        terminal.type("seq 3000; echo LA''ST; exit 3\n")
        assert terminal.wait_end()["exit_code"] == 3
        assert terminal.text.count("\n3000\r\nLAST\r\n") == 1, number


@pytest.mark.parametrize("how", ["exit", "hang up"])
def test_everything_that_was_started_in_it_ends_with_it(host, how):
    terminal = host.terminal()
    terminal.run(f"trap '' HUP TERM; nohup sleep 1001 >/dev/null 2>&1 & sleep 1002 & {detached(1003)}")
    wait_for(lambda: sleeps() == [1001, 1002, 1003], "what was started")
    if how == "exit":
        terminal.exit()
    else:
        terminal.hang_up()
    only_the_kernel_is_left(host)
    assert host.value("1 + 1") == "2"


def test_a_hangup_lets_the_shell_put_its_things_away(host):
    terminal = host.terminal()
    terminal.type("python3 -c 'import signal, time\nsignal.signal(1, lambda *_: (open(\"bye\", \"w\").write(\"bye\"), exit()))\n"
                  "print(\"WAIT\" + \"ING\")\nwhile True: time.sleep(1)'\n")
    terminal.wait("WAITING")
    terminal.hang_up()
    only_the_kernel_is_left(host)
    assert host.value("open('bye').read()") == "'bye'"


def test_a_fork_bomb_is_held_and_ends_with_its_terminal(host):
    terminal = host.terminal()
    terminal.type("bomb() { bomb | bomb & }; bomb\n")
    wait_for(lambda: len(inside(host)) > 40, "a bomb")
    assert host.value("20 + 3") == "23"  # the interpreter lives beside it
    terminal.hang_up()
    only_the_kernel_is_left(host)
    assert host.value("20 + 4") == "24"


def test_its_keeper_can_be_killed_and_that_is_all(host):
    terminal = host.terminal()
    keeper = int(terminal.run("echo $PPID"))
    host.run(f"import os, signal\nfor s in range(1, 65):\n  if s not in (9, 19, 32, 33, 34): os.kill({keeper}, s)")
    assert terminal.run("echo unmoved") == "unmoved\n"
    host.run(f"os.kill({keeper}, 9)")
    assert terminal.wait_end()["message"] == "the terminal was killed"
    assert host.value("5") == "5"
    again = host.terminal(2)
    assert again.run("echo ok") == "ok\n"
    again.exit()


PEEK = """
import os
def tried(fn):
    try:
        fn()
        return 'done'
    except OSError as e:
        return e.errno
[tried(lambda: os.listdir('/proc/{pid}/fd')), tried(lambda: open('/proc/{pid}/mem', 'rb')),
 tried(lambda: open('/proc/{pid}/environ').read(1)), tried(lambda: os.kill({pid}, 0))]
"""


def test_code_inside_cannot_look_into_its_keeper(host):
    terminal = host.terminal()
    keeper = int(terminal.run("echo $PPID"))
    assert host.value(PEEK.replace("{pid}", str(keeper))) == "[2, 2, 2, 'done']"  # it is there, and not to be seen
    terminal.exit()


# --- hostile programs -----------------------------------------------------------------------------


def test_garbage_is_content(host):
    terminal = host.terminal()
    terminal.type("stty -opost; echo BE''GIN; head -c 300000 /dev/urandom | tee noise; echo EN''D; stty opost\n")
    host.until(lambda: b"BEGIN\n" in terminal.bytes and b"END\n" in terminal.bytes, "the noise")
    noise = bytes(terminal.bytes).split(b"BEGIN\n", 1)[1].rsplit(b"END\n", 1)[0]
    assert host.value("import hashlib\nhashlib.sha256(open('noise', 'rb').read()).hexdigest()") == repr(hashlib.sha256(noise).hexdigest())
    terminal.run("true")
    terminal.exit()


def test_a_shell_that_closes_its_terminal_goes_on(host):
    terminal = host.terminal()
    terminal.run("true")
    terminal.type("exec python3 -c 'import os, time\nos.closerange(0, 100)\nopen(\"closed\", \"w\")\nwhile not os.path.exists(\"go\"): time.sleep(0.01)\nos._exit(9)'\n")
    host.value("import os, time\nwhile not os.path.exists('closed'): time.sleep(0.01)\n1")
    keeper = next(pid for pid in sandboxed() if name_of(pid) == "cove-terminal")
    ticks = lambda: sum(map(int, read_text(f"/proc/{keeper}/stat").split()[13:15]))
    before = ticks()
    host.value("time.sleep(0.5)\n1")
    assert ticks() - before <= 5, "its keeper is busy with nothing"
    assert not terminal.end
    host.value("open('go', 'w').close()\n1")
    assert terminal.wait_end()["exit_code"] == 9


def test_others_inside_that_hold_the_terminal_do_not_keep_it(host):
    terminal = host.terminal()
    terminal.run("true")
    host.value("import threading\nf = open('/dev/pts/0', 'wb', 0)\n"
               "def flood():\n  try:\n    while True: f.write(b'x' * 1000)\n  except OSError: pass\n"
               "t = threading.Thread(target=flood, daemon=True)\nt.start()\n1")
    terminal.wait("x" * 100)
    terminal.type("exit 4\n")
    assert terminal.wait_end()["exit_code"] == 4
    assert host.value("t.join(60)\nt.is_alive()") == "False"


def test_nothing_can_be_typed_from_inside(host):
    terminal = host.terminal()
    code = "python3 -c 'import fcntl, termios\ntry: fcntl.ioctl(0, termios.TIOCSTI, b\"x\")\nexcept OSError as e: print(e.errno)'"
    assert terminal.run(code).endswith("1\n")
    terminal.exit()


def test_pseudo_terminals_are_not_for_one_alone(host):
    """The kernel has some thousands for the whole machine: a sandbox that takes all it can get leaves the rest."""
    code = ("import os\nheld = []\ntry:\n  while len(held) < 500: held.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))\n"
            "except OSError as e: held.append(e.errno)\n(len(held) - 1, held[-1])")
    assert host.value(code) == "(32, 28)"  # ENOSPC
    refused = Terminal(host, 1)
    assert "No space left" in refused.end["message"] or "no space left" in refused.end["message"], refused.end
    host.value("[os.close(fd) for fd in held[:-1]] and 1")
    terminal = host.terminal(2)
    assert terminal.run("echo free") == "free\n"
    terminal.exit()


STATUS = "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapInh|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status"


def test_it_is_sealed_as_the_interpreter_is(host):
    terminal = host.terminal()
    theirs = host.run(f"import subprocess\nprint(subprocess.check_output([\"sh\", \"-c\", r\"\"\"{STATUS}\"\"\"], text=True))")["stdout"]
    assert terminal.run(STATUS).strip() == theirs.strip()
    assert "NoNewPrivs:\t1" in theirs and "CapEff:\t0000000000000000" in theirs
    shells = [pid for pid in sandboxed() if name_of(pid) == "bash"]
    kernels = [pid for pid in sandboxed() if name_of(pid).startswith("python")]
    assert shells and kernels
    assert read_text(f"/proc/{shells[0]}/cgroup") == read_text(f"/proc/{kernels[0]}/cgroup")
    for kind in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup"):
        assert os.readlink(f"/proc/{shells[0]}/ns/{kind}") == os.readlink(f"/proc/{kernels[0]}/ns/{kind}")
    assert terminal.run("ls /proc/self/fd | wc -l") == "4\n"  # 0, 1, 2 and the list's own
    terminal.exit()


# --- beside the session ---------------------------------------------------------------------------


def test_four_at_a_time(host):
    terminals = [host.terminal(number) for number in range(1, TERMINALS_MAX + 1)]
    fifth = Terminal(host, 5)
    assert fifth.end["message"] == "the session has 4 terminals already"
    names = [terminal.run("tty") for terminal in terminals]
    assert len(set(names)) == TERMINALS_MAX
    terminals[0].exit()
    assert host.terminal(6).run("echo again") == "again\n"


def test_it_survives_the_loss_of_the_interpreter_and_resets(host):
    """Where a busy machine gives init no turn for 100 ms, the spawner ends all, and the terminal with it: then with another one."""
    for number in range(1, 7):
        terminal = host.terminal(number)
        terminal.run(f"sleep 1001 & name=Ada; {detached(1002)}")
        run = host.run("import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nos.system('sleep 1003 &')\nwhile True: pass",
                       timeout_ms=300)
        assert run["state"] == "timeout"
        terminal.type("echo al''ive\n")
        host.until(lambda terminal=terminal: terminal.end or "alive" in terminal.text, "an answer of the shell")
        if not terminal.end:
            break
        wait_for(lambda: not sleeps(), "the end of all")
        host.send("reset")
        host.wait("changed", state="ready")
    wait_for(lambda: sleeps() == [1001, 1002], "the end of what the interpreter has started, and of nothing else")
    assert terminal.run("echo $name; jobs | wc -l") == "Ada\n1\n"
    host.send("reset")
    host.wait("changed", state="ready")
    assert host.value("6 * 7") == "42"
    assert sleeps() == [1001, 1002]
    assert terminal.run("echo $name") == "Ada\n"
    terminal.exit()
    only_the_kernel_is_left(host)


def test_it_is_there_for_a_session_without_an_interpreter(host):
    host.run("import os\nos._exit(3)")
    terminal = host.terminal()
    assert terminal.run("echo here") == "here\n"
    terminal.exit()


def test_files_are_those_of_the_session(host):
    terminal = host.terminal()
    host.value("open('from_python', 'w').write('1')")
    assert terminal.run("cat from_python; echo 2 > from_shell") == "1"
    assert host.value("open('from_shell').read()") == "'2\\n'"
    terminal.exit()


def test_a_session_with_a_terminal_is_neither_saved_nor_frozen(host):
    terminal = host.terminal()
    host.send("checkpoint", name="one")
    assert host.wait("checkpoint")["message"] == "a terminal is open in the session"
    host.send("freeze")
    assert host.wait("frozen")["is_frozen"] is False
    terminal.exit()
    host.send("freeze")
    assert host.wait("frozen")["is_frozen"] is True
    again = host.terminal(2)
    assert again.run("echo thawed") == "thawed\n"
    again.exit()


def test_a_rollback_ends_it(host):
    host.value("x = 1\nopen('f', 'w').write('old')")
    host.send("checkpoint", name="one")
    assert host.wait("checkpoint")["message"] == ""
    terminal = host.terminal()
    terminal.run(f"echo new > f; sleep 1001 & {detached(1002)}")
    host.send("rollback", name="one")
    assert terminal.wait_end()["message"] == "the session went back to a checkpoint"
    assert host.wait("checkpoint")["message"] == ""
    assert host.value("x, open('f').read()") == "(1, 'old')"
    assert not sleeps()
    again = host.terminal(2)
    assert again.run("cat f") == "old"
    again.exit()


def test_it_ends_when_nothing_moves(host):
    terminal = host.terminal(idle_ms=300)
    assert terminal.wait_end()["message"].startswith("nothing was typed or printed")
    only_the_kernel_is_left(host)


def test_it_ends_with_the_session(server):
    host = server.client()
    host.open()
    terminal = host.terminal()
    terminal.run("sleep 1000 & true")
    host.send("close")
    assert terminal.wait_end()["message"] == "the session ended"
    host.wait("changed", state="terminated")
    nothing_is_left()
    server.end(host)


def test_it_does_not_outlive_its_host(server):
    host = server.client()
    host.open()
    host.run("x = 5")
    terminal = host.terminal()
    terminal.run(f"trap '' HUP; sleep 1001 & {detached(1002)}")
    record = host.record()
    host.kill()
    host = server.client()
    wait_for(lambda: len(inside(server)) == 1, "the end of the terminal")
    host.attach(record)
    host.wait("changed", state="ready")
    assert host.value("x") == "5"
    again = host.terminal()
    assert again.run("echo again") == "again\n"
    again.exit()
    server.end(host)


def test_a_warm_session_has_them_too(server):
    host = server.client()
    host.open(is_warm=True)
    terminal = host.terminal()
    assert terminal.run("tty; echo $PWD") == "/dev/pts/0\n/workspace\n"
    terminal.exit()
    server.end(host)
