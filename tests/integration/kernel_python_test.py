# SPDX-License-Identifier: Apache-2.0
"""The Python kernel, outside of a sandbox: what it promises, and what code may do to it. All of it twice: kernel.py as it starts
cold, and as a copy of a zygote has it, with guest/python/quick.c in front of it."""
import json
import os
import pathlib
import resource
import shutil
import signal

import pytest

import covetest
from kernel_driver import ACK, DATA, DONE, EXECUTE, FIRST, IMPORT, LAST, READY, SET, SYNC, SYNCED, VARIABLES, Died, Kernel

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "images/python/kernel.py"
PYTHON = os.environ.get("COVE_TEST_PYTHON", "/usr/bin/python3")
EXTENSION = covetest.BUILD / "cove_zygote.so"
LOAD_QUICK = """
import sys
sys.path[:] = [path for path in sys.path if path]
import importlib.machinery, importlib.util, os, sys, types
loader = importlib.machinery.ExtensionFileLoader("cove_zygote", sys.argv[1])
extension = importlib.util.module_from_spec(importlib.util.spec_from_loader("cove_zygote", loader))
loader.exec_module(extension)
kernel = types.ModuleType("cove_kernel")
sys.modules["cove_kernel"] = kernel
with open(4) as file:
    exec(compile(file.read(), "<kernel>", "exec"), vars(kernel))
kernel.rehearse()
made = kernel.prepare()
made.attach(3)
extension.prepare(made)
for name in "extension", "importlib", "importlib.machinery", "importlib.util":
    sys.modules.pop(name, None)
extension.be_copy(())
"""
COMMANDS = {"cold": [PYTHON, "/proc/self/fd/4"], "quick": [PYTHON, "-c", LOAD_QUICK, str(EXTENSION)]}
MIB = 1 << 20
LIMITS = {resource.RLIMIT_AS: 1024 * MIB, resource.RLIMIT_NOFILE: 256, resource.RLIMIT_CORE: 0}


@pytest.fixture(scope="module", autouse=True, params=[
    "cold", pytest.param("quick", marks=pytest.mark.skipif(not EXTENSION.exists(), reason="this build has no zygote"))])
def form(request):
    """How kernels are started."""
    global command
    command = COMMANDS[request.param]
    return request.param


def start(cwd, **limits):
    return Kernel(command, program=PROGRAM, cwd=cwd, limits=LIMITS | limits.get("limits", {}))


@pytest.fixture
def kernel(tmp_path):
    with start(tmp_path) as started:
        yield started
        assert started.execute("6 * 7").value == "42", "the kernel must have survived the test"


def value_of(kernel, code, **options):
    answer = kernel.execute(code, **options)
    assert answer.error is None, answer.error["traceback"]
    return answer.value


def version(kernel):
    return tuple(map(int, kernel.ready["version"].split(".")))


def error_of(kernel, code, **options):
    answer = kernel.execute(code, **options)
    assert answer.error, answer.frames
    return answer.error


# --- namespace and values -------------------------------------------------------------------------


def test_says_who_it_is(kernel):
    assert kernel.ready["protocol"] == 1 and kernel.ready["language"] == "python"
    assert kernel.ready["version"] == value_of(kernel, "import platform\nplatform.python_version()").strip("'")


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("x = 3\nx", "3"), ("'a\\nb'", r"'a\nb'"), ("'''one\ntwo'''", r"'one\ntwo'"), ("None", None),
    ("x = 1", None), ("", None), ("# only this", None), ("if True:\n    5", None), ("1; 2; 3", "3"), ("'ä€😀'", "'ä€😀'"),
    ("'\\ud800'", r"'\ud800'"), ("class R:\n    def __repr__(self): return '\\ud800'\nR()", "?")])
def test_shows_the_last_expression(kernel, code, text):
    answer = kernel.execute(code)
    assert (answer.value, answer.code, answer.stdout, answer.error) == (text, 0, "", None)
    assert len(answer.results) == (text is not None)


def test_namespace_lives_on(kernel):
    kernel.execute("import math\ndef f(x): return math.sqrt(x) + y\ny = 1")
    assert value_of(kernel, "f(16)") == "5.0"
    assert value_of(kernel, "_ + 1") == "6.0"
    assert value_of(kernel, "__name__, __import__('sys').argv, __import__('sys').path[0]") == "('__main__', [''], '')"


def test_imports_what_the_code_will_want(kernel, tmp_path):
    (tmp_path / "colorsys.py").write_text("raise 1")  # of the workspace: not meant
    answer = kernel.ask(IMPORT, b"colorsys\nemail.mime.text\n")
    assert (answer.error, answer.code) == (None, 0)
    assert value_of(kernel, "import sys\n['colorsys' in sys.modules, 'email.mime.text' in sys.modules, 'email' in dir()]") == \
        "[True, True, False]"
    answer = kernel.ask(IMPORT, b"colorsys\nnonesuch\n")
    assert (answer.error["name"], answer.error["value"], answer.code) == ("ModuleNotFoundError", "No module named 'nonesuch'", 1)


def test_is_not_the_main_module(kernel):
    assert value_of(kernel, "import sys, __main__\n__main__.__dict__ is globals() and not hasattr(__main__, 'serve')") == "True"
    assert value_of(kernel, "import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P") == "True"


def test_future_features_stay(kernel):
    kernel.execute("from __future__ import annotations")
    assert value_of(kernel, "def f(x: unknown): pass\nf.__annotations__") == "{'x': 'unknown'}"


def test_reads_nothing_from_the_workspace(tmp_path):
    for name in ("traceback", "json", "linecache", "codeop", "keyword", "asyncio", "os", "signal", "site", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("open('touched', 'w')\nraise SystemExit('not meant')")
    with start(tmp_path) as kernel:
        assert error_of(kernel, "1/0")["traceback"].startswith("Traceback")
        assert kernel.variable("__name__").results and kernel.is_whole("1")["status"] == "complete"
        assert kernel.complete("whil")["matches"] == ["while"]
        assert not (tmp_path / "touched").exists()


def test_imports_modules_of_the_workspace(tmp_path):
    (tmp_path / "helper.py").write_text("answer = 42")
    with start(tmp_path) as kernel:
        assert value_of(kernel, "import helper\nhelper.answer") == "42"


def test_long_code_and_values_go_over_in_pieces(kernel):
    code = "x = '" + "a" * 300_000 + "ä'\nlen(x)"
    assert value_of(kernel, code) == "300001"
    assert value_of(kernel, "x") == "'" + "a" * 300_000 + "ä'"


# --- await ----------------------------------------------------------------------------------------


def test_top_level_await(kernel):
    kernel.execute("import asyncio\nasync def f(): await asyncio.sleep(0); return 5")
    assert value_of(kernel, "x = await f()\nx + await f()") == "10"
    assert value_of(kernel, "[await f() for _ in range(2)]") == "[5, 5]"
    error = error_of(kernel, "async def bad():\n    await asyncio.sleep(0)\n    1/0\nawait bad()")
    assert "asyncio" not in error["traceback"].replace("asyncio.sleep", "") and "in bad" in error["traceback"]


def test_tasks_go_on_when_the_loop_does(kernel):
    kernel.execute("import asyncio\nseen = []\nasync def count():\n    while True:\n        seen.append(1)\n        await asyncio.sleep(0)")
    kernel.execute("task = asyncio.create_task(count())\nawait asyncio.sleep(0)")
    before = int(value_of(kernel, "len(seen)"))
    assert int(value_of(kernel, "await asyncio.sleep(0.001)\nlen(seen)")) > before


def test_asyncio_run_works_beside(kernel):
    assert value_of(kernel, "import asyncio\nasync def f(): return 1\nasyncio.run(f())") == "1"
    assert value_of(kernel, "await f()") == "1"
    assert value_of(kernel, "asyncio.run(f())") == "1"


# --- results --------------------------------------------------------------------------------------


RICH = """
class Rich:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>x</b>'
    def _repr_markdown_(self): return '*x*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG\\0'
    def _repr_jpeg_(self): return '/9j/', {'width': 1}
    def _repr_json_(self): return {'a': 1}
    def _repr_latex_(self): return '$x$'
"""


def test_rich_forms(kernel):
    kernel.execute(RICH)
    answer = kernel.execute("Rich()")
    assert answer.main == {
        "text/plain": "plain", "text/html": "<b>x</b>", "text/markdown": "*x*", "image/svg+xml": "<svg/>",
        "image/png": b"\x89PNG\0", "image/jpeg": b"\xff\xd8\xff", "application/json": '{"a": 1}', "text/latex": "$x$"}
    assert next(iter(answer.main)) == "text/plain"
    frames = [frame for frame in answer.frames if frame.type == DATA]
    assert [bool(frame.flags & FIRST) for frame in frames] == [True] + 7 * [False]
    assert [bool(frame.flags & LAST) for frame in frames] == 7 * [False] + [True]


def test_mime_bundle(kernel):
    answer = kernel.execute("""
class B:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'mine', 'text/html': '<i>', 'application/x+json': [1], 'bad\\0': 'x', 5: 'x', 'image/png': b'P', 'x/y': 3}, {}
B()""")
    assert answer.main == {"text/plain": "mine", "text/html": "<i>", "application/x+json": "[1]", "image/png": b"P"}


def test_display(kernel):
    kernel.execute(RICH)
    answer = kernel.execute("display(1, 'two')\ndisplay(Rich())\ndisplay({'text/html': '<u>'}, raw=True)\n5")
    assert [result["text/plain"] for result in answer.results] == ["1", "'two'", "plain", "", "5"]
    assert answer.results[3]["text/html"] == "<u>" and answer.main is answer.results[4]
    assert value_of(kernel, "'display' in globals(), display.__name__") == "(False, 'display')"


def test_results_arrive_while_the_code_runs(kernel):
    execution = kernel.start("display('early')\ninput()", stdin=None)
    execution.wait_for(lambda execution: execution.frames)
    assert not execution.is_done
    kernel.interrupt()
    assert execution.finish().code == 130


def test_classes_and_proxies_are_plain(kernel):
    kernel.execute(RICH)
    assert list(kernel.execute("Rich").main) == ["text/plain"]
    assert list(kernel.execute("import unittest.mock\nunittest.mock.MagicMock()").main) == ["text/plain"]


@pytest.mark.parametrize("code, note", [
    ("'x' * (3 << 20)", "more items were cut"), ("[0] * 2_000_000", "more items were cut"),
    ("class T:\n    def __repr__(self): return 'ä' * (1 << 20)\nT()", "more bytes were cut")])
def test_long_texts_are_cut(kernel, code, note):
    text = value_of(kernel, code)
    assert MIB * 0.9 < len(text.encode()) < MIB + 200 and note in text[-100:]


def test_all_results_together_are_bounded(kernel):
    answer = kernel.execute("for i in range(40): display('x' * (1 << 20))\n1/0")
    assert 14 * MIB < sum(len(frame.body) for frame in answer.frames) < 16 * MIB
    assert "further results are left out" in answer.results[-1]["text/plain"]
    assert answer.error["name"] == "ZeroDivisionError"
    tiny = kernel.execute("for i in range(100_000): display(i)")
    assert len(tiny.results) < 20_000 and "left out" in tiny.results[-1]["text/plain"]


def test_images_beyond_the_limit_are_named(kernel):
    answer = kernel.execute("class I:\n    def __repr__(self): return 'me'\n    def _repr_png_(self): return bytes(20 << 20)\nI()")
    assert answer.main == {"text/plain": "me\n[image/png of 20971520 bytes was left out]"}


# --- errors ---------------------------------------------------------------------------------------


def test_tracebacks_show_the_code_only(kernel):
    kernel.execute("def f(n):\n    return 1 / n")
    error = error_of(kernel, "x = 1\nf(0)")
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    lines = error["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1] == "ZeroDivisionError: division by zero"
    assert '  File "<cell 2>", line 2, in <module>' in lines and '  File "<cell 1>", line 2, in f' in lines
    assert "    f(0)" in lines and "    return 1 / n" in lines and error["traceback"].count("File") == 2


def test_exception_is_done_1_and_prints_nothing(kernel):
    answer = kernel.execute("print('before')\n1/0")
    assert (answer.code, answer.stdout, answer.stderr) == (1, "before\n", "")


def test_a_rehearsal_leaves_no_trace_and_is_not_heard_of(kernel):
    kernel.send(SET, b"rehearse\0")
    answer = kernel.execute("import builtins\nhasattr(builtins, '_'), [n for n in vars() if n[0] != '_']")
    assert answer.main["text/plain"] == "(False, ['builtins'])" and answer.stdout == answer.stderr == ""
    assert 'File "<cell 2>", line 1' in error_of(kernel, "1/0")["traceback"]


def test_the_name_of_the_code(kernel):
    assert 'File "main.py", line 2' in error_of(kernel, "\n1/0", name="main.py")["traceback"]
    assert 'File "<cell 2>", line 1' in error_of(kernel, "1/0")["traceback"]


@pytest.mark.parametrize("code, name", [("1 +", "SyntaxError"), ("if x:\npass", "IndentationError"),
                                        ("'", "SyntaxError"), ("return 5", "SyntaxError"), ("a\0b", "")])
def test_syntax_errors_have_a_caret_and_no_frames(kernel, code, name):
    error = error_of(kernel, code)
    assert error["name"] == name or not name
    assert "kernel" not in error["traceback"] and "fd/4" not in error["traceback"] and "Traceback" not in error["traceback"]
    assert "^" in error["traceback"] or not name


def test_chained_errors(kernel):
    text = error_of(kernel, "try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e")["traceback"]
    assert "direct cause" in text and text.count("<cell 1>") == 2 and text.endswith("KeyError: 'k'\n")
    text = error_of(kernel, "try:\n    1/0\nexcept Exception:\n    unknown")["traceback"]
    assert "During handling" in text and "fd/4" not in text


def test_exception_groups(kernel):
    if version(kernel) < (3, 11):
        pytest.skip("this Python has none")
    code = "def f(): raise ValueError('inner')\ntry:\n    f()\nexcept Exception as e:\n    raise ExceptionGroup('all', [e, KeyError(1)])"
    error = error_of(kernel, code)
    assert error["name"] == "ExceptionGroup" and "ValueError: inner" in error["traceback"] and "in f" in error["traceback"]


def test_sources_for_others(kernel):
    answer = kernel.execute("import traceback\ntry:\n    1/0  # here\nexcept Exception:\n    traceback.print_exc()")
    assert "1/0  # here" in answer.stderr
    kernel.execute("def f():\n    return 'me'")
    assert value_of(kernel, "import inspect\ninspect.getsource(f)") == repr("def f():\n    return 'me'\n")


def test_recursion(kernel):
    error = error_of(kernel, "def f(): f()\nf()")
    assert error["name"] == "RecursionError" and "repeated" in error["traceback"] and len(error["traceback"]) < 2000


def test_long_messages_are_cut(kernel):
    error = error_of(kernel, "raise ValueError('x' * 10_000_000)")
    assert len(error["value"]) < 100_000 and "were cut" in error["value"]


@pytest.mark.parametrize("code, status, stderr", [
    ("exit(3)", 3, ""), ("exit()", 0, ""), ("import sys; sys.exit('bye')", 1, "bye\n"), ("raise SystemExit(True)", 1, ""),
    ("exit(-1)", 255, ""), ("exit(2**70 + 7)", 7, ""), ("quit(0)", 0, ""),
    ("import asyncio\nawait asyncio.sleep(0)\nexit(4)", 4, "")])
def test_exit(kernel, code, status, stderr):
    kernel.execute("kept = 1")
    answer = kernel.execute(code)
    assert (answer.code, answer.stderr, answer.error) == (status, stderr, None)
    assert value_of(kernel, "kept") == "1"


# --- streams and environment ----------------------------------------------------------------------


def test_streams(kernel):
    answer = kernel.execute("import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nos.write(1, b'c')\nos.system('echo d')\nsys.stdout.write('no end')\nNone")
    assert (answer.stdout, answer.stderr) == ("a\ncd\nno end", "b\n")


def test_output_is_not_held_back(kernel):
    execution = kernel.start("import sys\nprint('first')\nprint('second', file=sys.stderr)\ninput()", stdin=None)
    execution.wait_output("first")
    execution.wait_output("second", "stderr")
    kernel.interrupt()
    assert execution.finish().code == 130


WAIT = "import time\nwhile True: time.sleep(0.05)"


def waiting(kernel, code):
    """Starts code that says 'begun' first."""
    execution = kernel.start("print('begun')\n" + code, stdin=None)
    execution.wait_output("begun")
    return execution


def test_stdin(kernel):
    assert value_of(kernel, "input(), input()", stdin=b"one\ntwo\nthree\n") == "('one', 'two')"
    assert value_of(kernel, "import sys\nsys.stdin.read()", stdin=b"new") == "'new'", "nothing of the last one"
    assert error_of(kernel, "input()")["name"] == "EOFError"
    assert value_of(kernel, "len(sys.stdin.read())", stdin=b"x" * 1_000_000) == "1000000"
    answer = kernel.execute("input('name? ')", stdin=b"me\n")
    assert answer.stdout == "name? " and answer.value == "'me'"


def test_output_between_executions_is_dropped(kernel):
    kernel.execute("import threading\ngo, said = threading.Event(), threading.Event()\n"
                   "def late():\n    go.wait(); print('late'); display('late'); said.set()\nt = threading.Thread(target=late); t.start()")
    kernel.execute("go.set()")  # now, or between the two
    answer = kernel.execute("said.wait()\nt.join()\n1")
    assert answer.results == [{"text/plain": "1"}], "a thread of an older execution does not speak for a newer one"


def test_threads_may_show_results(kernel):
    kernel.execute("import threading")
    answer = kernel.execute("ts = [threading.Thread(target=lambda: [display('x' * 100_000) for _ in range(10)]) for _ in range(4)]\n"
                            "[t.start() for t in ts]; [t.join() for t in ts]\nNone")
    assert len(answer.results) == 40 and {len(result["text/plain"]) for result in answer.results} == {100_002}


def test_environment_for_one_execution(kernel):
    code = "import os\nos.environ.get('A'), os.environ.get('LANG'), os.popen('echo $A').read()"
    assert value_of(kernel, code, env={"A": "1=2", "LANG": "x"}) == r"('1=2', 'x', '1=2\n')"
    assert value_of(kernel, code) == r"(None, 'C.UTF-8', '\n')"
    kernel.execute("os.environ['MINE'] = 'stays'", env={"A": "1"})
    assert value_of(kernel, "os.environ['MINE'], 'A' in os.environ") == "('stays', False)"


def test_arguments_of_one_execution(kernel):
    args = ["--fast", "", "a b", "ü=1"]
    assert value_of(kernel, "import sys\nsys.argv", args=args) == str(["", *args])
    assert value_of(kernel, "sys.argv") == "['']"
    kernel.execute("sys.argv.append('mine')")
    kernel.execute("del sys.argv", args=["1"])
    assert kernel.execute("1 / 0", args=["1"]).error["name"] == "ZeroDivisionError"
    assert value_of(kernel, "sys.argv") == "['', 'mine']"


def test_the_working_directory_of_one_execution(kernel, tmp_path):
    for name in ("before", "there", "elsewhere"):
        (tmp_path / name).mkdir()
    before, there = str(tmp_path / "before"), str(tmp_path / "there")
    kernel.execute(f"import os; os.chdir({before!r})")
    assert value_of(kernel, "os.getcwd(), os.popen('pwd').read()", cwd=there) == str((there, there + "\n"))
    assert value_of(kernel, "os.getcwd()") == repr(before)
    kernel.execute("os.chdir('../elsewhere'); 1 / 0", cwd=there)
    assert value_of(kernel, "os.getcwd()") == repr(before)
    answer = kernel.execute("print('not run')", cwd=f"{tmp_path}/nosuch")
    assert answer.code == 1 and answer.stdout == "" and answer.error["name"] == "FileNotFoundError"
    assert answer.error["value"] == f"cwd: No such file or directory: '{tmp_path}/nosuch'"
    assert "kernel.py" not in answer.error["traceback"] and value_of(kernel, "os.getcwd()") == repr(before)


def test_settings_of_a_request_that_never_came_are_forgotten(kernel):
    for setting in (b"arg\0old", b"env\0OLD=1"):
        kernel.send(SET, setting)
    kernel.send(SYNC)
    kernel.receive()
    assert value_of(kernel, "import os, sys\nsys.argv, os.environ.get('OLD')", args=["new"]) == "(['', 'new'], None)"


@pytest.mark.parametrize("code", [
    "import os; os.close(1); os.close(2); os.close(0)", "import sys; sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "import sys; sys.stdout = sys.stderr = sys.stdin = None", "import sys; del sys.stdout, sys.stderr, sys.stdin",
    "import sys; sys.stdout.detach()", "import sys; sys.stdout.write = None", "import sys; sys.stdout.buffer.raw.close()",
    "import sys\nclass S:\n    def flush(self): raise BaseException\n    def write(self, text): 1/0\nsys.stdout = sys.stderr = S()",
    "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('x' * 100)"])
def test_streams_are_whole_again(kernel, code):
    kernel.execute(code)
    answer = kernel.execute("import sys\nprint('out'); print('err', file=sys.stderr); input()", stdin=b"in\n")
    assert (answer.stdout, answer.stderr, answer.value, answer.code) == ("out\n", "err\n", "'in'", 0)


def test_replaced_stream_is_flushed(kernel):
    answer = kernel.execute("import io, sys\nsys.stdout = io.TextIOWrapper(io.FileIO(1, 'w', closefd=False))\nprint('kept')")
    assert answer.stdout == "kept\n"


# --- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    WAIT, "while True: pass", "import asyncio\nawait asyncio.sleep(100)", "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait f()",
    "import threading\nthreading.Event().wait()", "import subprocess\nsubprocess.run(['sleep', '100'])", "input()",
    "class R:\n    def __repr__(self):\n        while True: pass\nR()", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E"])
def test_interrupt(kernel, code):
    kernel.execute("kept = 1; import asyncio, subprocess, threading, time")  # CPython drops what is raised in an import's clean-up
    execution = waiting(kernel, code)
    kernel.interrupt()
    answer = execution.finish()
    assert answer.error["name"] in ("KeyboardInterrupt", "E") and answer.code in (130, 1)
    assert "fd/4" not in answer.error["traceback"]
    assert value_of(kernel, "kept") == "1"


def test_interrupt_can_be_caught(kernel):
    execution = kernel.start("try:\n    print('begun')\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught', flush=True)\nwhile True: pass")
    execution.wait_output("begun")
    kernel.interrupt()
    execution.wait_output("caught")
    kernel.interrupt()
    answer = execution.finish()
    assert (answer.code, answer.error["name"]) == (130, "KeyboardInterrupt")


def test_interrupted_task_may_clean_up(kernel):
    execution = waiting(kernel, "import asyncio\nasync def f():\n    try:\n        print('in'); await asyncio.sleep(100)\n    finally:\n        print('cleaned')\nawait f()")
    execution.wait_output("in\n")
    kernel.interrupt()
    answer = execution.finish()
    assert answer.code == 130 and "cleaned" in answer.stdout
    assert "in f" in answer.error["traceback"] or version(kernel) < (3, 10)
    assert value_of(kernel, "await asyncio.sleep(0)\n1") == "1"


def test_interrupt_at_rest_is_ignored(kernel):
    for _ in range(50):
        kernel.interrupt()
    answer = kernel.execute("x = 0\nfor i in range(10_000): x += i\nx")
    assert answer.value == "49995000" and answer.error is None
    kernel.interrupt()
    assert kernel.variables()["x"]["preview"] == "49995000"


@pytest.mark.parametrize("code", ["1 + 1", "display('x' * 200_000)", "import asyncio\nawait asyncio.sleep(0)"])
def test_interrupts_at_the_edges(kernel, code):
    """At whatever moment it comes: one DONE, 0 or 130, and nothing left for the next one."""
    kernel.execute("import asyncio")
    for round in range(200):
        execution = kernel.start(code)
        for _ in range(round % 40 * 50):
            pass  # a moment that differs; none of them is waited for
        kernel.interrupt()
        answer = execution.finish()
        assert (answer.code, answer.error and answer.error["name"]) in ((0, None), (130, "KeyboardInterrupt"))
    kernel.ask(VARIABLES)  # by now the last signal has been delivered


def test_handler_of_the_code_is_for_one_execution(kernel):
    kernel.execute("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())")
    execution = waiting(kernel, WAIT)
    kernel.interrupt()
    assert execution.finish().code == 130


def test_handlers_that_raise_rest_meanwhile(kernel):
    kernel.execute("import signal\ndef boom(*a): raise RuntimeError('boom')\nsignal.signal(signal.SIGALRM, boom)\n"
                   "signal.signal(signal.SIGUSR1, boom)\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)")
    for _ in range(30):
        os.kill(kernel.pid, signal.SIGUSR1)
        kernel.variables()
    answer = kernel.execute("while True: pass")
    assert answer.error["value"] == "boom", "the handler is awake again while code runs"
    kernel.execute("signal.signal(signal.SIGALRM, signal.SIG_IGN)")
    covetest.wait_for(lambda: kernel.execute("signal.setitimer(signal.ITIMER_REAL, 0)").error is None, "the end of the timer")


def test_handlers_that_show_results(kernel):
    """One that comes in the middle of a body must not wait for the end of that body."""
    kernel.execute("import signal\nsignal.signal(signal.SIGALRM, lambda *_: display('tick'))")
    answer = kernel.execute("signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\nfor _ in range(50): display('x' * 200_000)\n"
                            "signal.setitimer(signal.ITIMER_REAL, 0)\nNone")
    assert {len(result["text/plain"]) for result in answer.results} <= {6, 200_002} and answer.error is None


# --- variables ------------------------------------------------------------------------------------


def test_variables(kernel):
    kernel.execute("import os\n_hidden = 1\na = 1\ns = 'x' * 1000\nl = list(range(1000))\nd = {'k': [1, (2,)]}\nn = None\ndef f(): pass\n"
                   "big = 1 << 100_000\nr = []\nr.append(r)\nt = (1,)\ne = set()\nb = b'z'\nglobals()[5] = 6")
    rows = kernel.variables()
    assert set(rows) == {"a", "s", "l", "d", "n", "f", "big", "r", "t", "e", "b"}
    assert rows["a"] == {"name": "a", "type": "int", "size": 28, "shape": None, "preview": "1"}
    assert rows["l"]["preview"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]" and rows["d"]["preview"] == "{'k': [1, (2,)]}"
    assert rows["big"]["preview"] == "<int of 100001 bits>" and rows["t"]["preview"] == "(1,)" and rows["e"]["preview"] == "set()"
    assert all(len(row["preview"]) <= 200 for row in rows.values()) and rows["s"]["size"] > 1000


HOSTILE_OBJECTS = """
import sys
def looping(self):
    while True: pass
def stubborn(self):
    for _ in range(3):
        try:
            while True: pass
        except BaseException: pass
    return 'at last'
def raising(self): raise SystemExit(1)
def exiting(self): raise BaseException
def huge(self): return 'x' * 300_000_000
def deep(self): return deep(self)
class Str(str):
    def __len__(self): 1/0
    def __getitem__(self, i): 1/0
    def translate(self, t): 1/0
def odd(self): return Str('odd')
for repr_ in (looping, stubborn, raising, exiting, huge, deep, odd):
    globals()['o_' + repr_.__name__] = type('T', (), {'__repr__': repr_, '__sizeof__': raising})()
class Meta(type):
    @property
    def __name__(cls): raise BaseException
    @property
    def __module__(cls): raise BaseException
class M(metaclass=Meta): pass
m = M()
class Every:
    def __getattribute__(self, name): raise SystemExit
    def __dir__(self): looping(self)
every = Every()
in_list = [o_looping, o_raising]
"""


def test_variables_of_hostile_objects(kernel):
    kernel.execute(HOSTILE_OBJECTS)
    rows = kernel.variables()
    assert rows["o_looping"]["preview"] == "<no preview: it took too long>" and rows["o_looping"]["type"] == "T"
    assert rows["o_odd"]["preview"] in ("odd", "<not looked at: the time for all variables was up>")
    assert {"o_stubborn", "o_raising", "o_exiting", "o_huge", "o_deep", "every", "in_list"} <= set(rows)
    assert kernel.variable("o_exiting", "text").error["name"] == "BaseException"
    assert kernel.variable("o_raising", "text").error["name"] == "SystemExit"
    assert kernel.complete("every.x")["matches"] == []
    kernel.execute("del o_stubborn, o_huge, o_deep, every, in_list")  # one that never ends must not take the time of the others
    rows = kernel.variables()
    assert rows["o_looping"]["preview"] == "<no preview: it took too long>"
    assert rows["o_odd"]["preview"] == "odd" and rows["m"]["type"] == "M"


def test_variables_are_bounded(kernel):
    kernel.execute("for i in range(3000): globals()[f'v{i}'] = 'y' * 500")
    answer = kernel.ask(VARIABLES)
    assert answer.reply["truncated"] and len(answer.reply["variables"]) <= 1000
    assert len(answer.frames[0].body) <= 256 << 10


def test_value_of_one_variable(kernel):
    kernel.execute("import datetime\nv = {'a': [1, 2.5, None, True, float('nan')], 'b': {3}, 'c': b'x', 'd': datetime.date(2020, 1, 2), 'NaN': 'Infinity'}\nbad = object()\nlong = [1] * 3_000_000\nws = 'x' * 9_000_000")
    assert json.loads(kernel.variable("v").results[0]["application/json"]) == {
        "a": [1, 2.5, None, True, None], "b": [3], "c": "x", "d": "2020-01-02", "NaN": "Infinity"}
    assert kernel.variable("v", "text").results[0]["text/plain"].startswith("{'a': [1, 2.5")
    assert kernel.variable("bad").error["name"] == "TypeError"
    assert "8 MiB" in kernel.variable("long").error["value"] and "8 MiB" in kernel.variable("ws").error["value"]
    assert len(kernel.variable("long", "text").results[0]["text/plain"]) < 2 * MIB
    answer = kernel.variable("missing")
    assert answer.error["name"] == "NameError" and "'missing'" in answer.error["value"] and not answer.results


# --- completion and wholeness ---------------------------------------------------------------------


@pytest.mark.parametrize("code, cursor, matches, start", [
    ("pri", 3, ["print"], 0), ("x = alph", 8, ["alpha", "alphabet"], 4), ("os.path.joi", 11, ["join"], 8), ("obj.att", 7, ["attribute"], 4),
    ("obj.inner.val", 13, ["value"], 10), ("obj.danger.x", 12, [], 11), ("f().x", 5, [], 4), ("nothing.x", 9, [], 8), ("'a'.upp", 7, [], 4),
    ("alpha + bet", 5, ["alpha", "alphabet"], 0), ("whil", 4, ["while"], 0), ("ää", 2, ["ääh"], 0), ("1.", 2, [], 2), ("", 99, None, 0)])
def test_completion(kernel, code, cursor, matches, start):
    check_completion(kernel, code, cursor, matches, start)


@pytest.mark.parametrize("code, matches, start", [
    ("d['al", ["all of it", "alone"], 3), ('x = d["alo', ["alone"], 7), ("obj.inner.keys['o", ["one"], 16), ("print('al", [], 7), ("'pri", [], 1),
    ("d['beta'].upp", [], 10), ("every['al", [], 7), ("x = 1  # pri", [], 0), ("'it\\'s pri", [], 1), ("d['", ["all of it", "alone", "beta"], 3)])
def test_in_strings_only_keys_are_completed(kernel, code, matches, start):
    kernel.execute("d = {'alone': 1, 'all of it': 2, 'beta': 3, 5: 6, 'a\\n': 7, \"it's\": 8}\nclass Every(dict):\n    def __iter__(self): ran.append(1)\n"
                   "every = Every(al=1)")
    check_completion(kernel, code, len(code), matches, start, "obj.inner.keys = {'one': 1}")


def test_modules_are_completed_where_they_are_imported(kernel):
    assert kernel.complete("import sqlit", 12)["matches"] == ["sqlite3"]
    assert kernel.complete("from colle", 10)["matches"] == ["collections"]
    assert kernel.complete("x = sqlit", 9)["matches"] == []


def check_completion(kernel, code, cursor, matches, start, more=""):
    kernel.execute("import os\nalpha = alphabet = 1\nääh = 1\nran = []\nclass O:\n    attribute = 1\n    @property\n    def danger(self): ran.append(1); return self\n"
                   f"obj = O()\nobj.inner = O()\nobj.inner.value = 1\n{more}")
    reply = kernel.complete(code, cursor)
    assert reply["matches"] == matches or matches is None and 100 < len(reply["matches"]) <= 200
    assert (reply["start"], reply["end"]) == (start, min(cursor, len(code)))
    assert value_of(kernel, "ran") == "[]"


@pytest.mark.parametrize("code, status, indent", [
    ("1 + 1", "complete", ""), ("", "complete", ""), ("if x:", "incomplete", "    "), ("if x:\n    y", "incomplete", "    "),
    ("if x:\n    y\n", "complete", ""), ("def f():\n    return 1", "incomplete", ""), ("f(1,", "incomplete", ""), ("'''abc", "incomplete", ""),
    ("f(\n    1)", "complete", ""), ("1 +", "invalid", ""), ("x = = 1", "invalid", ""), ("await f()", "complete", ""), ("@d", "incomplete", ""),
    ("for i in x:  # why\n    if i:", "incomplete", "        "), ("x = 1\\", "incomplete", ""), ("a\0", "invalid", "")])
def test_wholeness(kernel, code, status, indent):
    assert kernel.is_whole(code) == {"status": status, "indent": indent}


# --- the channel ----------------------------------------------------------------------------------


def test_says_again_what_was_not_acknowledged(kernel):
    kernel.send(SYNC, generation=0)
    assert [kernel.receive().type for _ in range(2)] == [SYNCED, READY]
    first = kernel.execute("display('x' * 200_000)\n5")
    kernel.send(SYNC)
    again = kernel.receive_answer()
    assert (again[0].type, again[0].flags, again[0].body) == (SYNCED, 0, b"")
    assert [(f.type, f.flags, f.body) for f in again[1:]] == [(f.type, f.flags, f.body) for f in first.frames]
    kernel.send(ACK)
    kernel.send(SYNC)
    assert kernel.receive().type == SYNCED
    assert [f.type for f in kernel.execute("1").frames] == [DATA, DONE], "nothing else came for that SYNC"
    kernel.ask(VARIABLES)
    kernel.send(SYNC)
    assert [f.type for f in kernel.receive_answer()] == [SYNCED, 67, DONE], "the next request implies it"


def test_a_rehearsal_leaves_no_trace(kernel):
    for _ in range(2):
        kernel.send(SET, b"rehearse\0", generation=1)
    kernel.send(SYNC)
    assert [(frame.type, frame.generation) for frame in (kernel.receive(), kernel.receive())] == [(SYNCED, 0), (READY, 0)]
    assert "'_'" in error_of(kernel, "_")["value"]
    assert kernel.execute("1/0").error["traceback"].count("<cell 2>") == 1


def test_end_of_the_channel_ends_it(tmp_path):
    with start(tmp_path) as kernel:
        kernel.execute("import atexit, threading\natexit.register(input)\nthreading.Thread(target=threading.Event().wait).start()")
        kernel.close()
        assert kernel.wait() == 0


def test_unknown_request(kernel):
    answer = kernel.ask(50)
    assert answer.error["name"] == "NotImplementedError" and answer.code == 1


def test_execute_without_streams(kernel):
    answer = kernel.ask(EXECUTE, b"1")
    assert answer.error["name"] == "OSError" and answer.code == 1


ZYGOTE = """
import os, types
kernel = types.ModuleType("kernel")
with open(4) as file:
    exec(compile(file.read(), "<kernel>", "exec"), vars(kernel))
before = dict(os.environ), os.getcwd()
if os.fork() == 0:
    kernel.serve(3)
os.close(3)
os.wait()
"""


def test_may_be_imported_before_a_fork(tmp_path):
    with Kernel([PYTHON, "-c", ZYGOTE], program=PROGRAM, cwd=tmp_path, limits=LIMITS) as kernel:
        assert value_of(kernel, "import __main__\nhasattr(__main__, 'before'), __name__") == "(False, '__main__')"
        assert "kernel" not in error_of(kernel, "def f(): 1/0\nf()")["traceback"]
        execution = waiting(kernel, WAIT)
        kernel.interrupt()  # the parent too: it must not wait any longer
        assert execution.finish().code == 130


# --- other processes ------------------------------------------------------------------------------


def test_children_do_not_get_the_channel(kernel):
    answer = kernel.execute("import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], close_fds=False)\nNone")
    assert answer.stdout.split() == ["0", "1", "2", "3"], "3 is the folder that ls reads"


def test_fork_ends_with_the_cell(kernel):
    answer = kernel.execute("import os\npid = os.fork()\nif pid == 0: print('child', end=''); display('no'); kept = 'child'\n"
                            "else: status = os.waitpid(pid, 0)[1]; kept = 'parent'\nkept")
    assert answer.value == "'parent'" and answer.stdout == "child" and len(answer.results) == 1
    assert value_of(kernel, "status") == "0"
    answer = kernel.execute("pid = os.fork()\nif pid == 0: exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert answer.value == "7"
    answer = kernel.execute("pid = os.fork()\nif pid == 0: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert answer.value == "1" and "ZeroDivisionError" in answer.stderr


def test_forked_child_does_not_hold_the_channel(tmp_path):
    with start(tmp_path) as kernel:
        code = "import os\npid = os.fork()\nif pid == 0:\n    os.setpgid(0, 0)\n    import signal; signal.pause()\npid"
        child = int(kernel.execute(code).value)
        try:
            os.kill(kernel.pid, signal.SIGKILL)
            with pytest.raises(Died):
                kernel.receive()
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("method, function", [("fork", "double"), ("spawn", "math.sqrt"), ("forkserver", "math.sqrt")])
def test_multiprocessing(kernel, method, function):
    kernel.execute("import math, multiprocessing\ndef double(x): return x * 2.0")
    code = f"with multiprocessing.get_context('{method}').Pool(2) as pool: r = pool.map({function}, [0, 0])\nr"
    assert value_of(kernel, code) == "[0.0, 0.0]"


def test_process_pool(kernel):
    kernel.execute("import concurrent.futures as cf, multiprocessing as mp\ndef double(x): return x * 2")
    kernel.execute("pool = cf.ProcessPoolExecutor(1, mp.get_context('fork'))")
    assert value_of(kernel, "list(pool.map(double, [1, 2]))") == "[2, 4]"
    assert value_of(kernel, "list(pool.map(abs, [-1]))") == "[1]"


# --- hostile code ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    "import builtins\nbuiltins.print = builtins.len = builtins.repr = builtins.isinstance = builtins.eval = builtins.compile = None",
    "import builtins\nfor n in list(vars(builtins)):\n    if n not in ('__import__', '__build_class__'): delattr(builtins, n)",
    "import builtins\nvars(builtins).clear()",
    "import json\njson.dumps = json.loads = json.JSONEncoder = None", "import traceback\ntraceback.format_exception = lambda *a: 1/0",
    "import os\nos.write = os.read = os.close = os.dup2 = os.getpid = os.open = os.listdir = os._exit = os.environ = None",
    "import sys\nsys.excepthook = sys.displayhook = sys.unraisablehook = lambda *a: 1/0",
    "import threading, sys\nthreading.Thread = threading.excepthook = threading.current_thread = None",
    "import sys\nfor m in ('os', 'builtins', 'signal', 'linecache', 'traceback', '_signal', '__main__'): sys.modules[m] = None",
    "import sys\nsys.modules.clear()", "import sys\nsys.meta_path.clear(); sys.path = None; sys.path_hooks.clear(); sys.path_importer_cache.clear()",
    "import sys\nsys.path.clear()",
    "import linecache\nlinecache.cache = None", "import sys\nsys.setrecursionlimit(12)", "import sys\nsys.setrecursionlimit(10**6)",
    "import sys\nsys.settrace(lambda *a: 1/0)", "import sys\nsys.setprofile(lambda *a: 1/0)",
    "import sys\ndef t(*a): return t\nsys.settrace(t); sys.setprofile(t)", "import threading\nthreading.setprofile(lambda *a: 1/0)",
    "import warnings\nwarnings.simplefilter('error')", "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "import gc\ngc.disable(); gc.set_threshold(1)", "import atexit\natexit.register(lambda: 1/0)",
    "import threading, sys\nt = threading.Thread(target=sys.exit); t.start(); t.join()",
    "import _thread\n_thread.interrupt_main()", "globals().clear()", "__builtins__ = {}", "del __builtins__", "__name__ = None",
    "class D:\n    def __del__(self): raise SystemExit(5)\nd = D()\ndel d\nx = D()\ndef f(y): 1/0\nf(D())",
    "class S(str):\n    def encode(self, *a): 1/0\nclass E(Exception):\n    __module__ = S('x')\n    def __str__(self): return S('s')\n    def __repr__(self): 1/0\nraise E",
    "class E(BaseException):\n    def __getattribute__(self, n): raise self\nraise E",
    "class E(BaseException):\n    @property\n    def __class__(self): raise SystemExit\nraise E",
    "e = ValueError()\ne.__context__ = e.__cause__ = None\nfor i in range(5000):\n    n = ValueError(i); n.__context__ = e; e = n\nraise e",
    "class X(SystemExit):\n    @property\n    def code(self): 1/0\nraise X",
    "raise KeyboardInterrupt", "raise GeneratorExit", "raise MemoryError", "import asyncio\nraise asyncio.CancelledError",
    "import asyncio\nasyncio.get_event_loop = asyncio.set_event_loop = None\nawait asyncio.sleep(0)",
    "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().stop()", "bytearray(1 << 40)",
    "x = []\nwhile True: x.append(bytearray(8 << 20))",
    "import socket\nsocket.setdefaulttimeout(0.001)", "import locale, os\nos.environ.clear()", "import io\nio.TextIOWrapper = None",
    "import sys\nf = sys._getframe()\nwhile f: f.f_trace = lambda *a: 1/0; f = f.f_back\nsys.settrace(lambda *a: None)",
    "(" * 500 + ")" * 500, "-" * 100_000 + "1", "x = 1\n" * 20_000, "f(" * 90 + "1" + ")" * 90, "\ud800"])
def test_survives(tmp_path, code):
    """Whatever came of it: the next execution knows nothing of it but what it keeps on purpose."""
    with start(tmp_path) as kernel:
        kernel.execute(code)
        assert kernel.execute("6 * 7").value == "42"
        assert kernel.execute("1/0").error["name"] in ("ZeroDivisionError",)
        assert "variables" in kernel.ask(VARIABLES).reply
        kernel.execute("y = 5")
        assert kernel.variable("y", "text").results[0]["text/plain"] == "5"


def test_hostile_values_are_an_error_of_their_own(kernel):
    assert error_of(kernel, "class R:\n    def __repr__(self): 1/0\nR()")["name"] == "ZeroDivisionError"
    assert error_of(kernel, "class R:\n    def __repr__(self): return 5\nR()")["name"] == "TypeError"
    answer = kernel.execute("class R:\n    def __repr__(self): raise SystemExit(3)\nR()")
    assert answer.code == 3
    answer = kernel.execute("class R:\n    def __repr__(self): return 'ok'\n    def _repr_html_(self): 1/0\n    def _repr_png_(self): return object()\nR()")
    assert answer.main == {"text/plain": "ok"}


@pytest.mark.parametrize("keep", [True, False])
def test_all_descriptors_used_up(kernel, keep):
    hoard = "import os\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\nexcept OSError: pass\n"
    answer = kernel.execute(hoard + ("None" if keep else "open('/dev/null')"))
    assert keep or answer.error["name"] == "OSError"
    answer = kernel.execute("print('still')\n1")
    assert (answer.stdout, answer.value) == ("still\n", "1")
    assert error_of(kernel, "1/0")["traceback"].startswith("Traceback")


def test_streams_that_cannot_arrive(tmp_path):
    """A thread takes the descriptors that were kept free."""
    with start(tmp_path) as kernel:
        kernel.execute("import os, threading\nfull = threading.Event()\ndef hoard():\n    while True:\n        try: os.dup(0)\n"
                       "        except OSError: full.set()\nthreading.Thread(target=hoard, daemon=True).start(); full.wait()\nNone")
        answers = []
        covetest.wait_for(lambda: answers.append(kernel.execute("1")) or answers[-1].error, "the thread to be quicker")
        for answer in answers:
            assert (answer.error or {}).get("name") == "OSError" and answer.code == 1 or answer.value == "1"


@pytest.mark.parametrize("code", ["import os\nos._exit(3)", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "import os\nos.execv('/bin/true', ['true'])",
                                  "import os\nos.closerange(0, 200)", "import ctypes\nctypes.string_at(0)"])
def test_a_kernel_that_cannot_go_on_ends(tmp_path, code):
    with start(tmp_path) as kernel, pytest.raises(Died):
        kernel.execute(code)
        kernel.execute("1")


def test_forged_frames_do_not_end_it(kernel):
    execution = kernel.start("import socket, struct\ns = socket.socket(fileno=3)\n"
                             f"s.send(struct.pack('<IHHII', 4, {DONE}, 0, 999, 0) + bytes(4))\ns.detach()\nNone")
    while True:
        frame = kernel.receive()
        if frame.generation == 999:
            break
    execution.finish()


# --- with the packages of the image ---------------------------------------------------------------


def image_root():
    for home in (pathlib.Path("/var/lib/cove"), pathlib.Path.home() / ".local/share/cove"):
        tag = home / "images/tags/python"
        if tag.is_file():
            return home / "images" / tag.read_text().strip() / "rootfs"
    return None


@pytest.fixture(scope="module")
def science(form):
    """One kernel inside of the image, since these packages take seconds to load."""
    root = image_root()
    if not root or not root.is_dir():
        pytest.skip("no python image")
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    box = ["/usr/bin/bwrap", "--unshare-pid", "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
           "--tmpfs", "/workspace", "--chdir", "/workspace"]
    if form == "quick":
        box += ["--ro-bind", str(EXTENSION), "/tmp/extension.so"]
    inner = ["/tmp/extension.so" if word == str(EXTENSION) else word for word in COMMANDS[form]]
    env = {"MPLBACKEND": "Agg", "MPLCONFIGDIR": "/usr/share/matplotlib/cache", "PYTHONDONTWRITEBYTECODE": "1"}
    started = Kernel(box + inner, program=PROGRAM, env=env, limits={resource.RLIMIT_CORE: 0})
    try:
        started.wait_ready()
    except Died:
        started.kill()
        pytest.skip("bwrap cannot make a sandbox here")
    yield started
    started.kill()


PNG = b"\x89PNG\r\n"


def test_open_figures_are_results(science):
    answer = science.execute("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nNone")
    assert answer.error is None, answer.error
    assert len(answer.results) == 1 and answer.results[0]["image/png"].startswith(PNG) and answer.stderr == ""
    assert answer.results[0]["text/plain"].startswith("<Figure size")
    assert value_of(science, "plt.get_fignums()") == "[]"


def test_show_is_there_and_then(science):
    answer = science.execute("import matplotlib.pyplot as plt\nplt.plot([1]); plt.show(block=True)\ndisplay('after')\nplt.plot([2]); 1/0")
    assert [sorted(result) for result in answer.results] == [["image/png", "text/plain"], ["text/plain"], ["image/png", "text/plain"]]
    assert answer.stderr == "" and answer.error["name"] == "ZeroDivisionError"


def test_figure_as_value_comes_once(science):
    answer = science.execute("import matplotlib.pyplot as plt\nfig = plt.figure()\nfig")
    assert len(answer.results) == 1 and answer.main["image/png"].startswith(PNG)


def test_tables(science):
    answer = science.execute("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2], 'b': [0.5, None]})\ndf")
    assert "<table" in answer.main["text/html"] and "0.5" in answer.value
    science.execute("arr = np.zeros((300, 400))\nser = df['b']\nnum = np.float64(2.5)\nhuge = np.zeros((3000, 3000))\ntimes = pd.DataFrame({'t': pd.to_datetime(['2020-01-01'])})")
    rows = science.variables()
    assert rows["df"]["shape"] == [2, 2] and rows["df"]["size"] > 0 and rows["df"]["type"] == "DataFrame"
    assert rows["arr"]["shape"] == [300, 400] and rows["arr"]["size"] == 960_000 and len(rows["arr"]["preview"]) <= 200

    def value(name):
        return json.loads(science.variable(name).results[0]["application/json"])
    assert value("df") == [{"a": 1, "b": 0.5}, {"a": 2, "b": None}] and value("ser") == [0.5, None] and value("num") == 2.5
    assert len(value("arr")) == 300 and value("times")[0]["t"].startswith("2020-01-01T00:00")
    assert "JSON" in science.variable("huge").error["value"]


def test_symbols(science):
    assert value_of(science, "import sympy\nsympy.sqrt(8)") == "2*sqrt(2)"
