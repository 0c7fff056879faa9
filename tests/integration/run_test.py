# SPDX-License-Identifier: Apache-2.0
"""`cove run` as people use it: programs in, output and files out, exit codes, signals, the --json object."""
import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import stat
import statistics
import subprocess
import termios
import time

import pytest

import covetest
from execution_object import check_shape, moment
from covetest import (EXIT_INTERRUPTED, EXIT_INVALID, EXIT_KILLED, EXIT_NOT_FOUND, EXIT_TIMEOUT,
                      PATIENCE, nothing_is_left, wait_for)

MIB = 1 << 20
LANGUAGES = ["python", "javascript", "typescript", "bash"]
HELLO = {
    "python": "print(6 * 7)",
    "javascript": "console.log(6 * 7)",
    "typescript": "const double = (n: number): number => n * 2; console.log(double(21))",
    "bash": "echo $((6 * 7))",
}


def read_until(process, mark, seconds=PATIENCE):
    """What a started run prints, up to and with `mark`."""
    data, end = b"", time.monotonic() + seconds
    while mark not in data:
        ready = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))[0]
        part = os.read(process.stdout.fileno(), 65536) if ready else b""
        assert part, f"no {mark!r} in {data!r}; {process.stderr.read() if process.poll() is not None else ''}"
        data += part
    return data


# --- where the program comes from ---------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_of_each_language(cove, language):
    assert cove.good("-l", language, "-c", HELLO[language]) == "42\n"


@pytest.mark.parametrize("language", ["python", "typescript", "bash"])
def test_each_language_as_root_and_as_an_ordinary_user(any_cove, language):
    assert any_cove.good("-l", language, "-c", HELLO[language]) == "42\n"


def test_python_is_the_default(cove):
    assert cove.good("-c", "import sys; print(sys.implementation.name)") == "cpython\n"


@pytest.mark.parametrize("name, language", [("job.py", "python"), ("job.js", "javascript"), ("job.mjs", "javascript"),
                                            ("job.cjs", "javascript"), ("job.ts", "typescript"), ("job.sh", "bash")])
def test_file_chooses_its_language(cove, tmp_path, name, language):
    (tmp_path / name).write_text(HELLO[language])
    assert cove.good(tmp_path / name) == "42\n"


def test_language_option_beats_the_files_name(cove, tmp_path):
    (tmp_path / "job.txt").write_text("print('as told')")
    assert cove.good("-l", "python", tmp_path / "job.txt") == "as told\n"


def test_file_with_arguments_sees_itself_in_the_workspace(cove, tmp_path):
    (tmp_path / "job.py").write_text("import os, sys; print(sys.argv, os.getcwd(), sorted(os.listdir()))")
    shown = cove.good(tmp_path / "job.py", "--flag", "two words", "-c", "", "--json", "ü")
    assert shown == "['job.py', '--flag', 'two words', '-c', '', '--json', 'ü'] /workspace ['job.py']\n"


@pytest.mark.parametrize("dash", [[], ["-"]])
def test_program_from_stdin(cove, dash):
    assert cove.good(*dash, input="import sys; print(repr(sys.stdin.read()))") == "''\n"


def test_program_from_stdin_with_arguments(cove):
    assert cove.good("-", "a", "b", input="import sys; print(sys.argv[1:])") == "['a', 'b']\n"


def test_code_with_arguments(cove):
    assert cove.good("-l", "bash", "-c", 'echo "$# $1 $2"', "--", "x y", "-z") == "2 x y -z\n"


@pytest.mark.parametrize("language, line, printed", [
    ("python", "import os, sys; print(sys.argv, os.listdir(), '\u00e9')", "['-c', '-x', 'y z'] [] \u00e9\n"),
    ("bash", "echo $0 $# \"$2\"; ls", "main.sh 2 y z\n"),
])
def test_one_line_is_handed_to_the_interpreter_as_it_is(cove, language, line, printed):
    done = cove("run", "-l", language, "-c", line, "--", "-x", "y z")
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_more_than_one_line_is_a_file_that_tracebacks_quote(cove):
    done = cove("run", "-c", "x = 0\nprint(1 / x)")
    assert done.returncode == 1 and 'main.py", line 2' in done.stderr and "print(1 / x)" in done.stderr


def test_a_very_long_line_is_a_file(cove):
    done = cove("run", "-c", "print(__file__) #" + "x" * 100_000)
    assert (done.returncode, done.stdout) == (0, "/workspace/main.py\n")


def test_program_is_bytes_as_they_are(cove, tmp_path):
    (tmp_path / "job.py").write_bytes("print('ünïcode ☃')\r\n".encode())
    assert cove.good(tmp_path / "job.py") == "ünïcode ☃\n"


def test_nothing_of_the_callers_environment_comes_in(cove):
    shown = cove.good("-c", "import os; print(sorted(os.environ))", env={"SECRET_TOKEN": "1", "PYTHONPATH": "/x"})
    assert "SECRET_TOKEN" not in shown and "COVE" not in shown
    assert {"PATH", "HOME", "LANG"} <= set(json.loads(shown.replace("'", '"')))


def test_env_is_set_and_replaced(cove):
    code = "import os; print(os.environ['A'], os.environ['B'] == '', os.environ['HOME'], os.environ['C'])"
    assert cove.good("--env", "A=1", "--env", "A=2=3", "--env", "B=", "--env", "HOME=/workspace", "--env", "C=ü\n.",
                     "-c", code) == "2=3 True /workspace ü\n.\n"


# --- files in and out ---------------------------------------------------------------------------


def test_input_files_keep_name_content_mode_and_time(cove, tmp_path):
    data = os.urandom(3 * MIB)
    (tmp_path / "in.bin").write_bytes(data)
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    os.utime(tmp_path / "in.bin", (1_000_000_000, 1_000_000_000))
    code = ("import hashlib, os, subprocess; print(hashlib.sha256(open('in.bin', 'rb').read()).hexdigest(),"
            "int(os.stat('in.bin').st_mtime), open('deep/er/copy').read() == open('tool').read(),"
            "subprocess.check_output('./tool', text=True))")
    shown = cove.good("--file", tmp_path / "in.bin", "--file", tmp_path / "tool",
                      "--file", f"{tmp_path}/tool:deep/er/copy", "-c", code)
    assert shown.split() == [hashlib.sha256(data).hexdigest(), "1000000000", "True", "ran"]


def test_a_file_with_a_colon_in_its_name_takes_an_explicit_destination(cove, tmp_path):
    (tmp_path / "a:b").write_text("colon")
    assert cove.good("--file", f"{tmp_path}/a:b:ab", "-c", "print(open('ab').read())") == "colon\n"


@pytest.mark.parametrize("value, status, says", [
    ("/nonexistent/x", EXIT_NOT_FOUND, "open '/nonexistent/x': no such file"),
    ("/etc/hostname:../up", EXIT_INVALID, "'../up' is not a path inside the workspace"),
    ("/etc/hostname:/etc/x", EXIT_INVALID, "'/etc/x' is not a path inside the workspace"),
    ("/etc/hostname:a/../../b", EXIT_INVALID, "is not a path inside the workspace"),
    ("/etc/hostname:", EXIT_INVALID, "is not a path inside the workspace"),
    ("/etc", EXIT_INVALID, "'/etc' is not a regular file"),
    ("/dev/zero", EXIT_INVALID, "'/dev/zero' is not a regular file"),
])
def test_bad_input_files_are_refused(cove, value, status, says):
    done = cove.run("--file", value, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


MAKE_FILES = """
import os
os.makedirs("a/b/c"); os.makedirs("empty")
open("top.txt", "w").write("top")
open("a/b/c/deep.bin", "wb").write(bytes(range(256)) * 5000)
open("a/none", "w").close()
open("run.sh", "w").write("#!/bin/sh"); os.chmod("run.sh", 0o6777)
open("secret", "w").write("s"); os.chmod("secret", 0o600)
os.symlink("/etc/passwd", "link"); os.symlink("a", "folder-link"); os.mkfifo("pipe")
open("ünïcode ☃", "w").write("name")
"""


def tree(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_out_brings_regular_files_in_nested_folders(cove, tmp_path):
    cove.good("--out", tmp_path / "out", "-c", MAKE_FILES)
    out = tmp_path / "out"
    assert tree(out) == {"top.txt", "a/b/c/deep.bin", "a/none", "run.sh", "secret", "ünïcode ☃"}
    assert (out / "a/b/c/deep.bin").read_bytes() == bytes(range(256)) * 5000
    assert (out / "a/none").read_bytes() == b""
    modes = {name: stat.S_IMODE((out / name).stat().st_mode) for name in ("top.txt", "run.sh", "secret")}
    assert modes == {"top.txt": 0o644, "run.sh": 0o755, "secret": 0o600}
    assert (out / "top.txt").stat().st_uid == os.geteuid()


def test_out_leaves_inputs_that_did_not_change(cove, tmp_path):
    (tmp_path / "same").write_text("same")
    (tmp_path / "other").write_text("before")
    cove.good("--file", tmp_path / "same", "--file", tmp_path / "other", "--out", tmp_path / "out",
              "-c", "open('same').read(); open('other', 'a').write(' and after')")
    assert tree(tmp_path / "out") == {"other"}
    assert (tmp_path / "out/other").read_text() == "before and after"
    assert (tmp_path / "other").read_text() == "before"


def test_out_replaces_files_and_keeps_others(cove, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "new").write_text("an older one")
    (out / "mine").write_text("not yours")
    cove.good("--out", out, "-c", "open('new', 'w').write('fresh')")
    assert (out / "new").read_text() == "fresh" and (out / "mine").read_text() == "not yours"
    assert tree(out) == {"new", "mine"}


def test_out_comes_also_when_the_program_fails(cove, tmp_path):
    done = cove.run("--out", tmp_path / "out", "-c", "open('log', 'w').write('why'); raise SystemExit(3)")
    assert done.returncode == 3
    assert (tmp_path / "out/log").read_text() == "why"


def test_out_never_writes_through_links(cove, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "target").write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "folder").symlink_to(elsewhere)
    (out / "file").symlink_to(elsewhere / "target")
    done = cove.run("--out", out, "-c", "import os; os.mkdir('folder'); open('folder/target', 'w').write('bad');"
                    "open('file', 'w').write('new')")
    assert done.returncode not in (0, EXIT_KILLED), "a file could not be written"
    assert "folder/target" in done.stderr
    assert (elsewhere / "target").read_text() == "precious" and tree(elsewhere) == {"target"}
    assert not (out / "file").is_symlink() and (out / "file").read_text() == "new"


@pytest.mark.skipif(not covetest.IS_ROOT, reason="a full disk is made with mount")
def test_out_leaves_no_partial_file_on_a_full_disk(cove, tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path)], check=True)
    try:
        done = cove.run("--out", tmp_path, "-c", "open('big', 'wb').write(b'x' * 4000000); open('z', 'w').write('z')")
        assert done.returncode not in (0, EXIT_KILLED)
        assert "no space left on device" in done.stderr
        assert tree(tmp_path) <= {"z"}
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_out_in_a_place_that_cannot_be_made(cove):
    done = cove.run("--out", "/proc/nowhere/out", "-c", "print('ran')")
    assert done.returncode != 0 and done.stdout == ""
    assert "/proc/nowhere/out" in done.stderr


# --- standard input and output ------------------------------------------------------------------

READ_ALL = "import hashlib, sys; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())"


def test_stdin_is_piped_through_as_bytes(cove):
    data = os.urandom(5 * MIB + 17)
    shown = cove.good("-c", READ_ALL, input=data, text=False)
    assert shown.decode().split() == [str(len(data)), hashlib.sha256(data).hexdigest()]


def test_stdin_from_a_file(cove, tmp_path):
    (tmp_path / "in").write_bytes(os.urandom(2 * MIB))
    with open(tmp_path / "in", "rb") as file:
        file.seek(5)
        shown = cove.good("-c", READ_ALL, stdin=file)
    assert shown.split()[0] in (str(2 * MIB), str(2 * MIB - 5))


def test_stdin_can_be_left_unread(cove):
    assert cove.good("-c", "print('done')", input=b"x" * (4 * MIB), text=False) == b"done\n"


def test_stdin_that_never_ends_does_not_hold_the_run(cove):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert cove.good("-c", "print(input())", stdin=endless.stdout) == "y\n"
        endless.kill()


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_standard_descriptors(cove, closed):
    """Nothing else may take their place."""
    code = "import sys; d = sys.stdin.read(); print('out', repr(d)); print('err', file=sys.stderr); sys.exit(5)"
    process = cove.start("run", "-c", code, preexec_fn=lambda: [os.close(fd) for fd in closed])
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 5
    assert out == (b"" if 1 in closed else b"out ''\n")
    assert err == (b"" if 2 in closed else b"err\n")


def test_stdin_ends_when_the_caller_closes_it(cove):
    process = cove.start("run", "-c", "import sys\nfor line in sys.stdin: print('got', line, end='', flush=True)",
                         stdin=subprocess.PIPE)
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert read_until(process, b"got one\n")
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


def test_output_streams_while_the_program_runs(cove):
    process = cove.start("run", "-c", "print('first', flush=True); input(); print('second')", stdin=subprocess.PIPE)
    assert read_until(process, b"first\n") == b"first\n"
    assert process.poll() is None
    out, _ = process.communicate(b"\n", timeout=PATIENCE)
    assert (out, process.returncode) == (b"second\n", 0)


def test_stdout_and_stderr_stay_apart(cove):
    done = cove.run("-c", "import sys; print('o' * 9); print('e' * 9, file=sys.stderr)")
    assert (done.stdout, done.stderr) == ("o" * 9 + "\n", "e" * 9 + "\n")


def test_output_is_bytes_as_they_are(cove):
    data = bytes(range(256)) * 4096
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    assert cove.good("-c", code, text=False) == data


def test_a_reader_that_leaves_ends_the_run(cove):
    process = cove.start("run", "--timeout", "10m", "-c", "while True: print('x' * 1000)")
    assert os.read(process.stdout.fileno(), 100)
    process.stdout.close()
    assert process.wait(PATIENCE) != 0
    process.stderr.close()
    nothing_is_left()


def test_children_left_behind_do_not_hold_the_run(cove):
    assert cove.good("-l", "bash", "-c", "sleep 1000 & disown; echo over") == "over\n"
    nothing_is_left()


# --- how it ends --------------------------------------------------------------------------------


@pytest.mark.parametrize("code, status", [
    ("raise SystemExit(0)", 0), ("raise SystemExit(7)", 7), ("import os; os._exit(255)", 255), ("1 / 0", 1),
    ("import os; os.kill(os.getpid(), 9)", EXIT_KILLED), ("import os; os.abort()", 128 + signal.SIGABRT),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
])
def test_exit_status_is_the_programs(cove, code, status):
    assert cove.run("-c", code).returncode == status


def test_exception_shows_its_traceback(cove):
    done = cove.run("-c", "1 / 0")
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_timeout_ends_soon_after_its_limit(cove, is_long):
    """Against the time that a run needs to start and end here; the best of a few, for a loaded machine."""
    slack = 0.25 if is_long else 2.5

    def seconds(*args):
        begin = time.monotonic()
        done = cove.run(*args)
        return time.monotonic() - begin, done

    usual = statistics.median(seconds("-c", "")[0] for _ in range(5))
    best = None
    for _ in range(5):
        taken, done = seconds("--timeout", "1.5", "-c", "while True: pass")
        assert done.returncode == EXIT_TIMEOUT
        assert "timeout: ran longer than its limit of 1.5 s" in done.stderr
        assert taken >= 1.5
        best = min(best or taken, taken)
        if best <= usual + 1.5 + slack:
            return
    raise AssertionError(f"{best:.3f} s, where a run of nothing takes {usual:.3f} s")


def test_timeout_ends_programs_that_ignore_signals_and_fork(cove):
    code = ("trap '' TERM INT HUP; for i in 1 2 3 4; do (trap '' TERM INT; while :; do :; done) & done; "
            "echo ready; wait")
    done = cove.run("--timeout", "1", "-l", "bash", "-c", code)
    assert done.returncode == EXIT_TIMEOUT and done.stdout == "ready\n"
    nothing_is_left()


def test_interrupt_reaches_the_program_once(cove):
    """It sleeps in short steps: CPython enters a sleep in spite of a signal that came just before it."""
    code = ("import time\ntry:\n    print('ready', flush=True)\n    while True: time.sleep(0.05)\n"
            "except KeyboardInterrupt:\n    print('interrupted, cleaning up')")
    process = cove.start("run", "-c", code)
    read_until(process, b"ready\n")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == (b"interrupted, cleaning up\n", EXIT_INTERRUPTED)
    nothing_is_left()


def test_second_interrupt_kills(cove):
    code = ("import os, signal, time\nsignal.signal(signal.SIGINT, lambda *a: os.write(1, b'no\\n'))\n"
            "print('ready', flush=True)\nwhile True: time.sleep(0.05)")
    process = cove.start("run", "--timeout", "10m", "-c", code)
    read_until(process, b"ready\n")
    process.send_signal(signal.SIGINT)
    read_until(process, b"no\n")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == EXIT_INTERRUPTED
    nothing_is_left()


def test_interrupt_by_the_terminals_key(cove):
    """Ctrl-C goes to the whole foreground group: the spawner must not take it for itself."""
    code = ("import time\ntry:\n    print('ready', flush=True)\n    while True: time.sleep(0.05)\n"
            "except KeyboardInterrupt:\n    print('interrupted')")
    main, side = pty.openpty()
    process = cove.start("run", "-c", code, stdin=side, stdout=side, stderr=side, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(side)
    shown = b""

    def see(mark):
        nonlocal shown
        end = time.monotonic() + PATIENCE
        while mark not in shown:
            assert select.select([main], [], [], max(end - time.monotonic(), 0))[0], shown
            shown += os.read(main, 4096)

    see(b"ready")
    os.write(main, b"\x03")
    see(b"interrupted")
    assert process.wait(PATIENCE) == EXIT_INTERRUPTED
    os.close(main)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_cove_cleans_up(cove, number):
    process = cove.start("run", "--timeout", "10m", "-l", "bash", "-c", "echo ready; sleep 1000 & sleep 1000")
    read_until(process, b"ready\n")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (EXIT_INTERRUPTED, 128 + number)
    nothing_is_left()


def test_a_signal_before_the_program_starts_cleans_up(cove):
    for delay in range(6):
        process = cove.start("run", "--timeout", "10m", "-c", "import time; time.sleep(1000)")
        wait_for(lambda: process.poll() is not None or len(covetest.descendants(process.pid)) >= min(delay, 2),
                 "the run to begin")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode != 0
    nothing_is_left()


# --- the --json object --------------------------------------------------------------------------

def test_json_of_a_good_run(cove):
    before = time.time()
    run = check_shape(cove.json("-c", "import sys; print('out'); print('err', file=sys.stderr)"))
    assert run["started_at"] is not None
    assert (run["language"], run["state"], run["exit_code"], run["signal"]) == ("python", "completed", 0, None)
    assert (run["stdout"], run["stderr"], run["truncated"], run["artifacts"]) == ("out\n", "err\n", {}, [])
    assert before - 1 <= moment(run["created_at"]) <= moment(run["ended_at"]) <= time.time() + 1
    assert run["usage"]["cpu_ms"] > 1 and run["usage"]["peak_memory_bytes"] > MIB


@pytest.mark.parametrize("language", LANGUAGES)
def test_json_names_the_language(cove, language):
    run = check_shape(cove.json("-l", language, "-c", HELLO[language]))
    assert (run["language"], run["stdout"]) == (language, "42\n")


def test_json_ids_differ(cove):
    assert cove.json("-c", "")["id"] != cove.json("-c", "")["id"]


def test_json_of_a_bad_exit(cove):
    run = check_shape(cove.json("-c", "raise SystemExit(7)", status=7))
    assert (run["state"], run["exit_code"], run["signal"]) == ("failed", 7, None)
    assert run["reason"] == {"kind": "exit", "limit": None, "used": None, "message": "exited with status 7", "hint": None}


def test_json_of_a_signal(cove):
    run = check_shape(cove.json("-c", "import os; os.kill(os.getpid(), 11)", status=128 + 11))
    assert (run["state"], run["exit_code"], run["signal"]) == ("failed", None, "SIGSEGV")
    assert run["reason"]["kind"] == "signal" and "SIGSEGV" in run["reason"]["message"]


def test_json_of_a_timeout(cove):
    run = check_shape(cove.json("--timeout", "3", "-c", "print('begun', flush=True)\nwhile True: pass",
                                status=EXIT_TIMEOUT))
    assert (run["state"], run["reason"]["kind"], run["stdout"]) == ("timeout", "timeout", "begun\n")
    assert run["reason"]["limit"] == 3.0 and run["reason"]["used"] >= 3 and run["reason"]["hint"]
    assert run["duration_ms"] >= 3000


def holds_cpus(cove):
    """What the doctor found by trying."""
    report = json.loads(cove("doctor", "--json").stdout)
    return next(layer["holds"] for layer in report["layers"] if layer["name"] == "cpu cgroup")


def test_each_result_names_the_limits_that_nothing_held(any_cove):
    names = [] if holds_cpus(any_cove) else ["cpus"]
    run = check_shape(json.loads(any_cove("run", "--json", "--cpus", "0.1", "-c", "print(1)").stdout))
    assert (run["state"], run["limits_not_in_force"]) == ("completed", names)
    told = any_cove("run", "--cpus", "0.1", "-c", "print(1)")
    assert told.returncode == 0 and told.stdout == "1\n"
    assert told.stderr.count("\n") == len(names) and all(f"'{name}'" in told.stderr for name in names)
    assert any_cove("run", "-c", "print(1)").stderr == "", "nobody has chosen it"


# With a twentieth of a core it takes three seconds. Then it waits, under a name by which it is found.
BUSY = ("import time\nwhile time.process_time() < 0.15: pass\n"
        "__import__('ctypes').CDLL(None).prctl(15, b'was-busy'); print('done', flush=True); input()")


@pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups need root")
def test_more_than_its_share_where_the_operator_lets_it(cove, is_long):
    def took(*args):
        """How long it was kept waiting, and how long it took, in ms."""
        begin = time.monotonic()
        process = cove.start("run", "--cpus", "0.05", *args, "-c", BUSY, stdin=subprocess.PIPE)
        read_until(process, b"done\n")
        duration = (time.monotonic() - begin) * 1000
        pid, = [pid for pid in covetest.descendants(process.pid) if covetest.name_of(pid) == "was-busy"]
        throttled = covetest.throttled_us(pid) / 1000
        process.communicate(b"\n", timeout=PATIENCE)
        assert process.returncode == 0
        return throttled, duration
    slow, quick = took(), took("--cpus-burst", "1")
    assert slow[1] > 2000 and slow[0] > 10 * quick[0], (slow, quick)
    assert not is_long or quick[1] < 2000, quick


# More of it than there are processors, until the time that a line says; says how much processor time it got.
CROWD = """import os, time
ready, go = os.pipe()
for _ in range(7):
    if not os.fork():
        end = float(os.read(ready, 20)); break
else:
    print("ready", flush=True); end = float(input()); os.write(go, b"%020.6f" % end * 7)
used = time.process_time()
while time.time() < end: pass
os.write(1, b"%d\\n" % ((time.process_time() - used) * 1000))
try:
    while True: os.wait()
except ChildProcessError: pass"""


@pytest.mark.skipif(not covetest.IS_ROOT, reason="cgroups need root")
def test_shares_hold_when_both_want_all_processors(cove):
    def start(cpus):
        burst = str(os.cpu_count())
        return cove.start("run", "--cpus", cpus, "--cpus-burst", burst, "-c", CROWD, stdin=subprocess.PIPE, text=True)
    both = [start("1"), start("0.2")]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    end = time.time() + 3  # the same for all: what runs when the other has ended has more than its share
    for one in both:
        one.stdin.write(f"{end}\n")
        one.stdin.flush()
    used = [[int(line) for line in one.communicate(timeout=covetest.PATIENCE)[0].splitlines()] for one in both]
    assert [len(each) for each in used] == [8, 8]
    assert sum(used[0]) > 2 * sum(used[1]), used


def test_json_of_too_much_memory(cove):
    run = check_shape(cove.json("--memory", "64M", "--disk", "16M", "-c", "b = bytearray(1 << 30)\nprint('no')",
                                status=EXIT_KILLED))
    assert (run["state"], run["reason"]["kind"], run["stdout"]) == ("failed", "oom", "")
    assert run["reason"]["limit"] == 64 * MIB and run["reason"]["used"] > 32 * MIB


def test_json_of_a_full_disk(cove):
    code = "f = open('big', 'wb')\nwhile True: f.write(b'x' * 65536)"
    run = check_shape(cove.json("--disk", "4M", "-c", code, status=1))
    assert (run["state"], run["reason"]["kind"], run["reason"]["limit"]) == ("failed", "disk", 4 * MIB)
    assert "No space left on device" in run["stderr"]


def test_json_of_too_many_processes(cove):
    code = "import os, time\nfor i in range(100):\n    if os.fork() == 0: time.sleep(1000)"
    run = check_shape(cove.json("--pids", "20", "-c", code, status=1))
    assert "Resource temporarily unavailable" in run["stderr"]
    if covetest.IS_ROOT:  # else there may be no cgroup that counts refusals
        assert (run["reason"]["kind"], run["reason"]["limit"]) == ("pids", 20)


# A program that no interrupt escapes: python may swallow one while it starts.
SLEEPER = ["-l", "bash", "-c", "exec sleep 1000"]


def test_json_of_an_interrupt(cove):
    process = cove.start("run", "--json", "--timeout", "10m", *SLEEPER)
    wait_for(lambda: any(covetest.name_of(p) == "sleep" for p in covetest.descendants(process.pid)), "the program to run")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == EXIT_INTERRUPTED
    run = check_shape(json.loads(out))
    assert (run["state"], run["reason"]["kind"]) == ("cancelled", "cancelled")
    assert run["started_at"] is not None


def test_json_of_an_early_interrupt(cove):
    """As soon as anything of the sandbox is there, before or after the program has started."""
    for _ in range(10):
        process = cove.start("run", "--json", "--timeout", "10m", *SLEEPER)
        wait_for(lambda: any(len(covetest.status_of(p).get("NSpid", "").split()) > 1
                             for p in covetest.descendants(process.pid)), "a process inside")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == EXIT_INTERRUPTED
        assert check_shape(json.loads(out))["state"] == "cancelled"
    nothing_is_left()


def test_json_of_output_beyond_what_is_kept(cove):
    """Head and tail stay, with the true size; the host side stays small."""
    code = ("import sys\nsys.stdout.write('H' * 1000)\nfor _ in range(50): sys.stdout.write('o' * (1 << 20))\n"
            "sys.stdout.write('T' * 1000)\nsys.stderr.write('few')")
    run = check_shape(cove.json("-c", code))
    total = 50 * MIB + 2000
    assert run["truncated"] == {"stdout": {"kept_bytes": MIB, "total_bytes": total}}
    assert run["stdout"].startswith("H" * 1000 + "o") and run["stdout"].endswith("o" + "T" * 1000)
    assert f"[... {total - MIB} bytes left out ...]" in run["stdout"]
    assert len(run["stdout"]) < MIB + 100 and run["stderr"] == "few"


def test_json_keeps_as_much_output_as_asked(cove):
    run = check_shape(cove.json("--output", "4K", "-c", "import sys; sys.stderr.write('x' * 100000)"))
    assert run["truncated"] == {"stderr": {"kept_bytes": 4096, "total_bytes": 100000}}


def test_json_of_output_that_is_no_text(cove):
    run = check_shape(cove.json("-c", r"import sys; sys.stdout.buffer.write(b'a\xff\xfe\x00\xc3(\xf0\x9f\x98\x80\x1b[0mz')"))
    assert run["stdout"].startswith("a") and run["stdout"].endswith("z") and "😀" in run["stdout"]
    assert "\ufffd" in run["stdout"]


def test_json_of_artifacts(cove, tmp_path):
    for name in ("same.csv", "grown.txt", "touched.txt", "gone.txt"):
        (tmp_path / name).write_text(name)
    code = ("import os; os.makedirs('d/e'); open('d/e/new.png', 'wb').write(b'png'); open('page.html', 'w').write('<p>');"
            "open('grown.txt', 'a').write('!'); open('touched.txt', 'w').write('Touched.txt'); os.unlink('gone.txt');"
            "os.symlink('page.html', 'link'); os.mkfifo('fifo'); open('noext', 'w').close()")
    files = [word for name in ("same.csv", "grown.txt", "touched.txt", "gone.txt") for word in ("--file", tmp_path / name)]
    run = check_shape(cove.json(*files, "-c", code))
    found = {a["path"]: a for a in run["artifacts"]}
    assert list(found) == sorted(found) == ["d/e/new.png", "grown.txt", "noext", "page.html", "touched.txt"]
    assert (found["d/e/new.png"]["mime_type"], found["page.html"]["mime_type"]) == ("image/png", "text/html")
    assert found["d/e/new.png"]["sha256"] == hashlib.sha256(b"png").hexdigest()
    assert found["grown.txt"]["size"] == len("grown.txt!")
    assert found["noext"]["sha256"] == hashlib.sha256(b"").hexdigest()
    assert run["truncated"] == {}


def test_json_of_more_artifacts_than_are_listed(cove):
    run = check_shape(cove.json("-c", "for i in range(1500): open(f'{i:04}', 'w').close()"))
    assert len(run["artifacts"]) == 1000 and run["truncated"] == {"artifacts": True}


def test_json_with_out_does_both(cove, tmp_path):
    run = check_shape(cove.json("--out", tmp_path / "out", "-c", "open('made', 'w').write('x')"))
    assert [a["path"] for a in run["artifacts"]] == ["made"]
    assert (tmp_path / "out/made").read_text() == "x"


def test_nothing_inside_can_change_the_facts(cove):
    code = "import os\nprint('{\"state\": \"completed\", \"exit_code\": 0}', flush=True)\nos.write(2, b'ok')\nos._exit(9)"
    run = check_shape(cove.json("-c", code, status=9))
    assert (run["state"], run["exit_code"]) == ("failed", 9)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("args, status, says", [
    (["-l", "cobol", "-c", "x"], EXIT_NOT_FOUND, ["cobol", *LANGUAGES]),
    (["program.zig"], EXIT_NOT_FOUND, [".zig", *LANGUAGES, "-l"]),
    (["missing.py"], EXIT_NOT_FOUND, ["missing.py", "no such file"]),
    (["--timout", "1", "-c", ""], EXIT_INVALID, ["--timout", "timeout"]),
    (["--timeout", "soon", "-c", ""], EXIT_INVALID, ["timeout", "soon", "1ms"]),
    (["--memory", "1M", "-c", ""], EXIT_INVALID, ["memory", "16M"]),
    (["--network", "all", "-c", ""], EXIT_INVALID, ["network", "none"]),
    (["--env", "NAME", "-c", ""], EXIT_INVALID, ["NAME", "NAME=VALUE"]),
    (["--env", "=x", "-c", ""], EXIT_INVALID, ["=x", "NAME=VALUE"]),
    (["--disk", "129M", "-c", ""], EXIT_INVALID, ["half", "--memory", "raise"]),
    (["-c"], EXIT_INVALID, ["code"]),
])
def test_refusals_say_what_is_wrong(cove, args, status, says):
    done = cove.run(*args)
    assert (done.returncode, done.stdout) == (status, "")
    for word in says:
        assert word in done.stderr
    as_json = cove.run("--json", *args)
    assert as_json.returncode == status
    error = json.loads(as_json.stdout)["error"]
    assert error["code"] == ("invalid" if status == EXIT_INVALID else "not_found")
    for word in says:
        assert word in error["message"] + " " + str(error["hint"])


def test_disk_up_to_half_of_memory_is_taken(cove):
    shown = cove.good("--memory", "512M", "--disk", "256M", "-c", "import os; print(os.statvfs('.').f_blocks * 4096)")
    assert int(shown) == 256 * MIB


def test_no_program_on_a_terminal_is_misuse(cove):
    main, side = pty.openpty()
    done = cove.run(stdin=side)
    os.close(side)
    os.close(main)
    assert done.returncode == EXIT_INVALID and "no program" in done.stderr


def test_an_image_store_that_is_empty_says_how_to_fill_it(cove, tmp_path):
    """The system's store may still be found; as an ordinary user and as root alike, the words help."""
    done = cove.run("-l", "nothing-like-it", "--data-dir", tmp_path, "-c", "")
    assert done.returncode == EXIT_NOT_FOUND and "nothing-like-it" in done.stderr
