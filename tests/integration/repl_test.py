# SPDX-License-Identifier: Apache-2.0
"""`cove repl` as a person meets it: typed at a terminal, and read off its screen."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import pytest

import covetest
from covetest import PATIENCE, wait_for

pytestmark = pytest.mark.skipif(not (covetest.ROOT / "images/python/kernel.py").exists(),
                                reason="there is no python kernel yet")

UP, DOWN, LEFT, RIGHT = "\033[A", "\033[B", "\033[D", "\033[C"
CTRL_A, CTRL_C, CTRL_D, CTRL_R, CTRL_Z = "\x01", "\x03", "\x04", "\x12", "\x1a"
ALT_ENTER, PASTE, PASTE_END = "\033\r", "\033[200~", "\033[201~"

SEQUENCE = re.compile(r"\033\[([?0-9;]*)([A-Za-z])|\033\][^\a]*\a")


def nothing_is_left():
    wait_for(lambda: not covetest.sandbox_groups(), "no cgroup of a sandbox")


class Screen:
    """What xterm would show, as far as it is used here. Lines that leave at the top are kept."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.gone, self.lines = [], [[]]
        self.row = self.column = 0
        self.pending = False
        self.rest = b""
        self.modes = set()

    def feed(self, data):
        data = self.rest + data
        text = data.decode("utf-8", "ignore") if not self._is_cut(data) else data[:-self._is_cut(data)].decode()
        self.rest = data[len(text.encode()):]
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at) if text[at] == "\033" else None
            if not found and text[at] == "\033" and len(text) - at < 20:
                self.rest = text[at:].encode() + self.rest
                return
            if found:
                if found[2]:
                    self.sequence(found[1], found[2])
                at = found.end()
            else:
                self.character(text[at])
                at += 1

    @staticmethod
    def _is_cut(data):
        """Bytes of an unfinished character at the end."""
        for n in range(1, min(4, len(data)) + 1):
            byte = data[-n]
            if byte >= 0xC0:
                return n if n < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
            if byte < 0x80:
                return 0
        return 0

    def line(self):
        while len(self.lines) <= self.row:
            self.lines.append([])
        return self.lines[self.row]

    def sequence(self, numbers, final):
        if final != "m" and not numbers.startswith("?"):
            self.pending = False
        n = int(numbers) if numbers.isdigit() else 1
        if final == "A":
            self.row = max(0, self.row - n)
        elif final == "C":
            self.column = min(self.columns - 1, self.column + n)
        elif final == "H":
            self.row = self.column = 0
        elif final == "K":
            del self.line()[self.column:]
        elif final == "J":
            if numbers == "2":
                self.gone += map(self.joined, self.lines)
                self.lines = [[]]
            else:
                del self.line()[self.column:]
                del self.lines[self.row + 1:]
        elif final in "hl" and numbers.startswith("?"):
            (self.modes.add if final == "h" else self.modes.discard)(numbers[1:])

    def character(self, char):
        if char == "\r":
            self.column, self.pending = 0, False
        elif char == "\n":
            self.row += 1
            if self.row == self.rows:
                self.gone.append(self.joined(self.lines.pop(0)) if self.lines else "")
                self.row -= 1
        elif char >= " ":
            self.put(char)

    def put(self, char):
        width = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if width == 0:
            self.line()[self.column - 1] += char
            return
        if self.pending or self.column + width > self.columns:
            self.column, self.pending = 0, False
            self.character("\n")
        line = self.line()
        line += [" "] * (self.column + width - len(line))
        line[self.column:self.column + width] = [char] + [""] * (width - 1)
        self.column += width
        if self.column == self.columns:
            self.column, self.pending = self.column - 1, True

    @staticmethod
    def joined(line):
        return "".join(line).rstrip()

    def text(self):
        return "\n".join([*self.gone, *map(self.joined, self.lines)]).rstrip("\n")

    def before_cursor(self):
        return "".join(self.line()[:self.column])


def take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A pseudo-terminal with cove repl on it."""

    def __init__(self, cove, *args, columns=80, rows=24, env=None, cwd=None, state=None, wait=True, shell=False):
        self.master, slave = pty.openpty()
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        env = {"TERM": "xterm", "NO_COLOR": "1", "COVE_HISTORY": str(state) if state else ""} | (env or {})
        if shell:  # a shell with job control, in which cove is a job
            self.process = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave,
                                            stderr=slave, start_new_session=True, preexec_fn=take_terminal,
                                            env=covetest.environment(cove.home, **env, PS1="shell$ "))
            covetest.started.append(self.process)
            self.send(" ".join(cove.argv("repl", *args)) + "\r")
        else:
            self.process = cove.start("repl", *args, env=env, stdin=slave, stdout=slave, stderr=slave,
                                      start_new_session=True, preexec_fn=take_terminal,
                                      **({"cwd": cwd} if cwd else {}))
        self.slave = slave
        if wait:
            self.wait_prompt()

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.005):
        """All that is there within that time, or as much of a flood as a look is worth."""
        for _ in range(16):
            if not select.select([self.master], [], [], seconds)[0]:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self.screen.feed(data)
            seconds = 0

    def wait(self, condition, what):
        def look():
            self.read()
            return condition()
        try:
            return wait_for(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- screen ---\n{self.screen.text()}") from None

    def wait_text(self, text):
        return self.wait(lambda: text in self.screen.text() + "\n", f"{text!r} on the screen")

    def last_line(self):
        return self.screen.text().split("\n")[-1]

    def wait_prompt(self, prompt=">>> "):
        """An empty prompt, with the cursor behind it and the terminal ready for keys."""
        self.wait(lambda: self.screen.before_cursor() == prompt and self.last_line() == prompt.rstrip()
                  and "2004" in self.screen.modes, "an empty prompt")

    def wait_input(self, text):
        """The input, from its prompt on, is that."""
        self.wait(lambda: self.screen.text().endswith(text), f"the input {text!r}")

    def send(self, keys):
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def run(self, code):
        """Types it and Enter; answers what came before the next prompt."""
        before = self.screen.text()
        count = before.count("\n")
        self.send(code + "\r")
        self.wait(lambda: self.screen.text().count("\n") > count, "the line to end")
        self.wait_prompt()
        return "\n".join(self.screen.text().split("\n")[count + 1:-1])

    def wait_end(self):
        self.wait(lambda: self.process.poll() is not None, "the end of cove")
        self.read(0)
        return self.process.returncode

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(cove):
    made = []

    def start(*args, **kwargs):
        made.append(Terminal(cove, *args, **kwargs))
        return made[-1]
    yield start
    for t in made:
        if t.process.poll() is None:
            t.process.send_signal(signal.SIGHUP)  # a shell does not hear SIGTERM
        # What is written while it ends must be read, or it waits for us.
        t.wait(lambda t=t: t.process.poll() is not None, "the end of cove")
        t.close()


# --- running --------------------------------------------------------------------------------------


def test_greets_and_keeps_state(terminal):
    t = terminal()
    assert re.match(r"Python 3\.\d+\.\d+ in a sealed sandbox\. .*Ctrl-D", t.screen.text())
    assert t.run("x = 6") == ""
    assert t.run("x * 7") == "42"
    assert t.run("print('a'); 'b'") == "a\n'b'"
    t.send(CTRL_D)
    assert t.wait_end() == 0
    nothing_is_left()


def test_keys_typed_before_it_is_ready_are_not_lost(terminal):
    t = terminal(wait=False)
    t.send("x = 20\rx + 1\r")
    t.wait_text("\n21\n")


def test_output_comes_while_it_runs(terminal):
    t = terminal()
    t.send("import time; print('first', flush=True); [time.sleep(0.05) for _ in range(1200)]\r")
    t.wait_text("\nfirst\n")
    t.send(CTRL_C)
    t.wait_text("KeyboardInterrupt")
    t.wait_prompt()


def test_a_line_left_open_does_not_hide_the_prompt(terminal):
    t = terminal()
    assert t.run("print('open', end='')") == "open"


def test_shows_tracebacks_and_goes_on(terminal):
    t = terminal()
    said = t.run("1/0")
    assert said.startswith("Traceback") and said.endswith("ZeroDivisionError: division by zero")
    assert "SyntaxError" in t.run("x = = 1")
    assert t.run("x = 1") == ""


def test_colours_only_where_wanted(terminal):
    t = terminal(env={"NO_COLOR": ""})
    t.run("1/0")
    assert b"\033[31mZeroDivisionError" in t.raw
    t = terminal()
    t.run("1/0")
    assert b"\033[31m" not in t.raw


def test_input_is_explained(terminal):
    assert "standard input is empty" in terminal().run("input()")


def test_slow_inputs_tell_their_time(terminal):
    t = terminal()
    t.run("import time")
    begin = time.monotonic()
    told = float(re.search(r"\[(\d+\.\d) s\]", t.run("time.sleep(1.1)"))[1])
    assert 1.1 <= told < time.monotonic() - begin + 0.1, "it is told in tenths"


def test_a_status_is_told_and_the_session_goes_on(terminal):
    t = terminal()
    t.run("kept = 5")
    assert "[status 3]" in t.run("import sys; sys.exit(3)")
    assert t.run("kept") == "5"


@pytest.mark.parametrize("words", ["exit", "exit()", "quit", "quit()", ":quit", CTRL_D])
def test_ways_to_leave(terminal, words):
    t = terminal()
    t.send(words if words == CTRL_D else words + "\r")
    assert t.wait_end() == 0
    assert termios.tcgetattr(t.slave) == t.before
    assert "2004" not in t.screen.modes


def test_time_limit_counts_for_each_input(terminal):
    """The variables live on, unless a busy machine gave the interpreter no turn before it was killed: then once more."""
    t = terminal("--timeout", "1")
    for _ in range(6):
        t.run("kept = 1")
        said = t.run("while True: pass")
        assert "timeout" in said
        if "variables are lost" not in said:
            break
    assert t.run("kept") == "1"


@pytest.mark.parametrize("language, prompt, code, said, leave", [
    ("javascript", "> ", "const f = (x) => {\rx * 2 }\r[1, 2].map(String)\r", "[ '1', '2' ]", ".exit"),
    ("typescript", "> ", "const n: number = 6; n * 7\r", "42", ".exit"),
    ("javascript", "> ", "6 * 7\r", "42", "exit"),
    ("bash", "$ ", "for i in 1 2; do\recho row $i\rdone\r", "row 1\nrow 2", "exit"),
])
def test_other_languages(terminal, language, prompt, code, said, leave):
    t = terminal("-l", language, wait=False)
    t.wait_prompt(prompt)
    t.send(code)
    t.wait_text(f"\n{said}\n")
    t.wait_prompt(prompt)
    t.send(leave + "\r")
    assert t.wait_end() == 0


# --- editing --------------------------------------------------------------------------------------


def test_opens_lines_until_it_is_whole(terminal):
    t = terminal()
    t.send("def f(x):\r")
    t.wait_input(">>> def f(x):\n...")
    t.wait(lambda: t.screen.before_cursor() == "...     ", "an indent")
    t.send("return x * 2\r")
    t.wait(lambda: t.screen.before_cursor() == "... ", "no indent")
    t.send("\r")
    t.wait_prompt()
    assert t.run("f(21)") == "42"


def test_alt_enter_and_ctrl_j_open_a_line(terminal):
    t = terminal()
    t.send(f"a = 1{ALT_ENTER}b = 2\na + b")
    t.wait_input(">>> a = 1\n... b = 2\n... a + b")
    assert t.run("").endswith("3")


def test_a_pasted_block_is_one_input(terminal):
    t = terminal()
    t.send(f"{PASTE}def f():\r\n    x = 1\r\n\r\n    return x\r\nprint('pasted', f()){PASTE_END}")
    t.wait_input("... print('pasted', f())")
    assert "pasted 1\n" not in t.screen.text()
    assert t.run("").endswith("pasted 1")


def test_up_recalls_whole_inputs(terminal):
    t = terminal()
    t.run(f"{PASTE}for i in range(2):\n    print('row', i)\n{PASTE_END}")
    t.run("y = 1")
    t.send(UP + UP)
    t.wait_input(">>> for i in range(2):\n...     print('row', i)")
    t.send(UP + CTRL_A + RIGHT * 16 + "\x7f3")  # the 2 becomes a 3, in the first line
    t.wait_input(">>> for i in range(3):\n...     print('row', i)")
    t.send(DOWN + "\x05\r")
    t.wait(lambda: t.screen.before_cursor() == "...     ", "another line")
    t.send("\r")
    t.wait_text("\nrow 2\n")


def test_an_input_that_is_recalled_runs_at_once(terminal):
    t = terminal()
    t.run(f"{PASTE}for i in range(2):\n    print('row', i)\n{PASTE_END}")
    assert t.run(UP).endswith("row 0\nrow 1")


def test_searches_the_history(terminal):
    t = terminal()
    t.run("first = 1")
    t.run("other = 2")
    t.send(CTRL_R + "fir")
    t.wait_input("(search fir) first = 1")
    t.send(CTRL_A + "print('found');\r")
    t.wait_text("\nfound\n")


def test_text_of_any_width(terminal):
    t = terminal()
    t.send("'漢字é😀'" + LEFT * 3 + "x")
    t.wait_input(">>> '漢字xé😀'")
    t.wait(lambda: t.screen.before_cursor() == ">>> '漢字x", "the cursor behind the x")
    assert t.run("") == "'漢字xé😀'"


def test_completes_from_the_live_session(terminal):
    t = terminal()
    t.run("some_long_name = 5; some_other = 6")
    t.send("some_\t")
    t.wait_text("some_long_name  some_other")
    t.wait_input(">>> some_")
    t.send("l\t")
    t.wait_input(">>> some_long_name")
    assert t.run("") == "5"
    t.run("é = '漢'")
    t.send("é; é.uppe\t")
    t.wait_input("é.upper")
    t.send(CTRL_C)
    t.run("d = {'alpha': 7}")
    t.send("d['al\t")
    t.wait_input(">>> d['alpha")
    assert t.run("']") == "7"
    t.send("import panda\t")
    t.wait_input(">>> import pandas")
    t.send(CTRL_C)
    t.wait_prompt()
    t.send("\tx")
    t.wait_input(">>>     x")


def test_names_that_steer_the_terminal_are_not_completed(terminal):
    t = terminal()
    t.run(r"globals()['evil_\x1b[2J'] = 1; globals()['evil_b'] = 2")
    t.send("evil\t")
    t.wait_input(">>> evil_b")


@pytest.mark.parametrize("columns", [20, 9])
def test_narrow_terminals(terminal, columns):
    t = terminal(columns=columns, wait=False)
    t.wait(lambda: t.last_line() == ">>>", "a prompt")
    t.send("'0123456789abcdefghijklmnopqrstuvwxyz漢漢漢漢漢'")
    t.wait(lambda: t.screen.text().replace("\n", "").replace(" ", "").endswith("xyz漢漢漢漢漢'"), "the text")
    t.send(CTRL_A + "len(\x05)")
    t.send("\r")
    t.wait(lambda: "\n41\n" in t.screen.text(), "its length")


def test_a_window_that_changes_its_size(terminal):
    t = terminal()
    t.send("'" + "x" * 40)
    t.wait_input("x" * 40)
    t.resize(30, 24)
    t.wait(lambda: t.raw.endswith(b"C") and b"\033[1A" in t.raw, "a new drawing")
    t.send("y'")
    t.wait(lambda: b"xy'" in t.raw, "the text")


def test_a_text_higher_than_the_window(terminal):
    t = terminal(rows=5)
    lines = "\n".join(f"a{i} = {i}" for i in range(12))
    t.send(PASTE + lines + PASTE_END)
    t.wait_input("... a11 = 11")
    t.send(UP * 11 + CTRL_A + "#")
    t.wait(lambda: t.screen.before_cursor() == ">>> #", "the first line")
    t.send("\033>\r")
    t.wait_prompt()
    assert t.run("a11") == "11"
    assert "NameError" in t.run("a0")


# --- Ctrl-C and other ends ------------------------------------------------------------------------


def test_ctrl_c_clears_the_input(terminal):
    t = terminal()
    t.send("half an in")
    t.wait_input("half an in")
    t.send(CTRL_C)
    t.wait_prompt()
    assert t.run("1") == "1"


def test_ctrl_c_interrupts_and_the_state_stays(terminal):
    t = terminal()
    t.run("kept = 7")
    t.send("print('runs', flush=True)\nwhile True: pass\r")
    t.wait_text("\nruns\n")
    t.send(CTRL_C)
    t.wait_text("KeyboardInterrupt")
    t.wait_prompt()
    assert t.run("kept") == "7"


def test_a_second_ctrl_c_kills_and_a_new_interpreter_comes(terminal):
    t = terminal()
    t.run("open('kept.txt', 'w').write('file'); gone = 1")
    t.send(f"{PASTE}print('runs', flush=True)\nwhile True:\n    try:\n        while True: sum(range(1000))\n"
           f"    except KeyboardInterrupt: print('ignored', flush=True)\n{PASTE_END}\r")
    t.wait_text("\nruns\n")
    t.send(CTRL_C)
    t.wait_text("\nignored\n")
    t.send(CTRL_C)
    t.wait_text("the interpreter was killed; files are kept, variables are lost")
    t.wait_prompt()
    assert t.run("open('kept.txt').read()") == "'file'"
    assert "NameError" in t.run("gone")


def test_an_interpreter_that_dies_is_replaced(terminal):
    t = terminal()
    t.send("import os; os._exit(3)\r")
    t.wait_text("a new interpreter starts; files are kept, variables are lost")
    t.wait_prompt()
    assert t.run("1 + 1") == "2"


def test_an_interpreter_that_dies_between_inputs(terminal):
    t = terminal()
    t.run("import os, threading; go = threading.Event()")
    t.run("threading.Thread(target=lambda: (go.wait(), os._exit(5))).start()")
    t.run("threading.Timer(3, go.set).start()")  # time enough for the next line to be typed
    t.send("half an in")
    t.wait_text("the interpreter ended with status 5\n[a new interpreter starts")
    t.wait_input(">>> half an in")
    t.send(CTRL_C)
    t.wait_prompt()
    assert t.run("1 + 1") == "2"


def test_a_flood_of_output_can_be_interrupted(terminal):
    t = terminal()
    t.send("while True: print('x' * 200)\r")
    t.wait(lambda: len(t.raw) > 300_000, "much output")
    t.send(CTRL_C)
    t.wait_text("KeyboardInterrupt")
    t.wait_prompt()


def test_the_end_of_the_spawner_is_told(terminal):
    t = terminal()
    t.send("half")
    t.wait_input(">>> half")
    spawners = [pid for pid in covetest.descendants(t.process.pid) if "spawner" in covetest.name_of(pid)]
    os.kill(spawners[0], signal.SIGKILL)
    assert t.wait_end() not in (0, 1)
    assert "\ncove: " in t.screen.text()
    assert termios.tcgetattr(t.slave) == t.before


def test_a_terminal_that_is_closed_ends_it(cove):
    t = Terminal(cove)
    t.close()
    assert t.process.wait(PATIENCE) == 128 + signal.SIGHUP
    nothing_is_left()


def test_reset_keeps_files(terminal):
    t = terminal()
    t.run("gone = 1; open('kept', 'w').close()")
    assert "files are kept" in t.run(":reset")
    assert "NameError" in t.run("gone")
    assert t.run("import os; os.listdir()") == "['kept']"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["writing", "running"])
def test_signals_give_the_terminal_back(terminal, number, what):
    t = terminal()
    if what == "running":
        t.send("print('runs', flush=True)\nwhile True: pass\r")
        t.wait_text("\nruns\n")
    else:
        t.send("half")
        t.wait_input(">>> half")
    t.process.send_signal(number)
    assert t.wait_end() == 128 + number
    assert termios.tcgetattr(t.slave) == t.before
    nothing_is_left()


def test_a_crash_gives_the_terminal_back(terminal):
    t = terminal()
    t.process.send_signal(signal.SIGABRT)
    t.wait_end()
    assert termios.tcgetattr(t.slave) == t.before


def test_ctrl_z_stops_and_goes_on(terminal):
    t = terminal(shell=True)
    t.send("1 + ")
    t.wait_input(">>> 1 +")
    t.send(CTRL_Z)
    t.wait_text("Stopped")
    t.send("fg\r")
    t.wait_input(">>> 1 +")
    t.send("1\r")
    t.wait_text("\n2\n")
    t.wait_prompt()  # what is typed before it is gone with Ctrl-Z, as in any terminal
    t.send("import time; time.sleep(0.1); 'slept'\r")
    t.send(CTRL_Z)  # while it runs, or behind it
    t.wait(lambda: t.screen.text().count("Stopped") == 2, "the second stop")
    t.send("fg\r")
    t.wait_text("\n'slept'\n")
    t.wait_prompt()
    t.send(CTRL_D)
    t.wait_input("shell$")
    t.send("exit\r")
    t.wait_end()


def test_ctrl_z_where_nothing_can_stop(terminal):
    t = terminal()
    t.send("1 + ")
    t.wait_input(">>> 1 +")
    t.send(CTRL_Z + "1\r")
    t.wait_text("\n2\n")


# --- commands, files and pictures -----------------------------------------------------------------


def test_commands(terminal):
    t = terminal()
    assert ":vars" in t.run(":help")
    t.run("import numpy; m = numpy.zeros((3, 4)); name = 'v' * 500")
    rows = t.run(":vars").split("\n")
    assert any(re.match(r"m +ndarray 3x4 +", row) for row in rows)
    assert all(len(row) < 80 for row in rows)
    assert ":help lists" in t.run(":nonsense")


def test_pictures_are_saved_and_never_over_another(terminal, tmp_path):
    (tmp_path / "plot-1.png").write_text("mine")
    t = terminal(cwd=tmp_path)
    said = t.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert re.search(r"\[saved plot-2\.png, \d+x\d+, \d+(\.\d)? kB\]", said), said
    assert (tmp_path / "plot-1.png").read_text() == "mine"
    assert (tmp_path / "plot-2.png").read_bytes().startswith(b"\x89PNG")
    svg = "class S:\n    def _repr_svg_(self): return '<svg/>'\n"
    t.run(f"{PASTE}{svg}{PASTE_END}")
    assert "[saved plot-3.svg, 6 B]" in t.run("S()")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plot-1.png", "plot-2.png", "plot-3.svg"]


def test_pictures_and_values_are_shown_while_it_runs(terminal, tmp_path):
    t = terminal(cwd=tmp_path)
    t.run("import time, matplotlib.pyplot as plt")
    t.send("print('one', end=''); display(6 * 7); plt.plot([1]); plt.show(); [time.sleep(0.05) for _ in range(20000)]\r")
    t.wait_text("\none\n42\n[saved plot-1.png")
    assert (tmp_path / "plot-1.png").read_bytes().startswith(b"\x89PNG")
    t.send(CTRL_C)
    t.wait_text("KeyboardInterrupt")
    t.wait_prompt()
    assert t.screen.text().count("\n42\n") == t.screen.text().count("plot-1.png") == 1


def test_files_are_told_and_with_out_brought_back(terminal, tmp_path):
    t = terminal()
    assert "[files: out.csv 1.2 kB]" in t.run("_ = open('out.csv', 'w').write('x' * 1234)")
    t = terminal("--out", tmp_path / "new")
    assert "out.csv" in t.run("_ = open('out.csv', 'w').write('x' * 1234)")
    assert (tmp_path / "new/out.csv").read_text() == "x" * 1234


def test_what_the_code_says_cannot_steer_the_terminal(terminal):
    t = terminal()
    evil = r"\x1b]0;evil\x07\x1b[2J\x9b1m"
    t.run(f"{PASTE}class Evil(Exception):\n    __repr__ = __str__ = lambda self: '{evil}'\n\n{PASTE_END}")
    before = len(t.raw)
    assert r"\x1b]0;evil\x07\x1b[2J\x9b1m" in t.run("Evil()")
    assert r"\x1b[2J" in t.run("raise Evil()")
    assert "a\\x1b[2J" in t.run(r"_ = open('a\x1b[2J', 'w').write('x')")
    t.run(f"v = Evil()")
    assert r"\x1b]0;evil" in t.run(":vars")
    assert b"\033[2J" not in t.raw[before:] and b"\033]" not in t.raw[before:]


def test_answers_of_the_terminal_are_not_typed(terminal):
    t = terminal()
    t.send("1\033[5;1R + \033]11;rgb:0000/0000/0000\033\\1")
    t.wait_input(">>> 1 + 1")


# --- history --------------------------------------------------------------------------------------


def test_history_lives_on(terminal, tmp_path):
    state = tmp_path / "deep/history"
    t = terminal(state=state)
    t.run("first = 1")
    other = terminal(state=state)
    t.run("second = 2")
    other.run(f"{PASTE}third = [\n  3]{PASTE_END}")
    for each in (t, other):
        each.send(CTRL_D)
        assert each.wait_end() == 0
    assert state.stat().st_mode & 0o777 == 0o600
    t = terminal(state=state)
    t.send(UP)
    t.wait_input(">>> third = [\n...   3]")
    t.send("\x10")
    t.wait_input(">>> second = 2")
    t.send("\x10")
    t.wait_input(">>> first = 1")


def test_history_is_where_it_belongs_and_can_be_off(terminal, tmp_path, cove):
    t = terminal(env={"XDG_STATE_HOME": str(tmp_path), "COVE_HISTORY": ""})
    t.run("nothing = 1")
    t = terminal("--no-history", state=tmp_path / "off")
    t.run("nothing = 1")
    assert list(tmp_path.iterdir()) == []


# --- without a terminal ---------------------------------------------------------------------------


@pytest.mark.parametrize("code, out, status", [
    ("print('a')\n6 * 7\n", "a\n42\n", 0),
    ("def f():\n    return 1\nprint(f())\n", "1\n", 0),
    ("1/0", "", 1),
    ("import sys; sys.exit(3)", "", 3),
    ("import os; os.kill(os.getpid(), 9)", "", 137),
    ("x = 1", "", 0),
    ("", "", 0),
])
@pytest.mark.parametrize("how", ["pipe", "file"])
def test_standard_input_is_one_input(cove, tmp_path, code, out, status, how):
    if how == "pipe":
        done = cove("repl", input=code)
    else:
        (tmp_path / "code").write_text(code)
        with open(tmp_path / "code") as file:
            done = cove("repl", stdin=file)
    assert (done.stdout, done.returncode) == (out, status), done.stderr
    assert ("ZeroDivisionError" in done.stderr) == (code == "1/0")
    assert "\033" not in done.stdout + done.stderr


def test_time_limit_of_a_pipe(cove):
    done = cove("repl", "--timeout", "1", input="while True: pass")
    assert done.returncode == 124 and "timeout" in done.stderr


def test_a_reader_that_leaves_ends_it(cove):
    process = cove.start("repl", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"while True: print('x' * 1000)")
    process.stdin.close()
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    process.wait(PATIENCE)
    nothing_is_left()


def test_pictures_of_a_pipe(cove, tmp_path):
    done = cove("repl", input="import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\n", cwd=tmp_path)
    assert done.returncode == 0 and "[saved plot-1.png" in done.stderr
    assert (tmp_path / "plot-1.png").exists()


def test_a_folder_that_cannot_be_made_is_told(cove):
    done = cove("repl", "--out", "/proc/nowhere", input="1")
    assert done.returncode != 0 and "/proc/nowhere" in done.stderr
