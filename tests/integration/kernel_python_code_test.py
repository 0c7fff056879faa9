# SPDX-License-Identifier: Apache-2.0
"""What the Python kernel makes of the text of a cell, and what it mends between two of them."""
import pytest

from kernel_python_test import error_of, form, kernel, value_of  # noqa: F401


@pytest.mark.parametrize("code, text", [
    ("x = [1,\n2]", None), ("[1,\n2]", "[1, 2]"), ("f = lambda *a: a\nf(1,\n2\n)", "(1, 2)"), ("x = 1 + \\\n2", None), ("1 + \\\n2", "3"),
    ("x = 4\nx == 4", "True"), ("x = 4\nx\n\n# end", "4"), ("x = 4\nx  # end", "4"), ("x = 4; x", "4"), ("x = 4\ny = 5; x", "4"),
    ("s = '''\n1\n'''", None), ("s = '''\n1\n'''\ns", r"'\n1\n'"), ('"""a\n1\n"""', r"'a\n1\n'"),
    ("def f():\n    return 1\nf()", "1"), ("if 0: 1\nelse: 2", None), ("for i in 1, 2: i\ni", "2"), ("@id\ndef f(): pass", None),
    ("x = 1\n(x)", "1"), ("x = id\\\n(1)", None), ("(y := 5)", "5"), ("x = 1\n(y := 5)\ny", "5"), ("x = 2\r\nx\r\n", "2"), ("x = 2\rx", "2"),
    ("x = 1\ndict(a=x)", "{'a': 1}"), ("x = 1\nx, *[2]", "(1, 2)"), ("x = 1\n  \n", None), ("import os", None), ("x = 1\ndel x", None),
    ("import asyncio\nx = await asyncio.sleep(0, 7)\nx", "7"), ("import asyncio\nx = 1\nawait asyncio.sleep(0, 8)", "8"),
    ("x = 1\n\f\nx", "1"), ("f'{1}'\n'a' 'b'", "'ab'"), ("x = 1\n'''a\nb'''", r"'a\nb'"), ("x = 1;", None), ("1;", "1"), ("x = 1\nx;", "1")])
def test_finds_the_last_expression(kernel, code, text):
    answer = kernel.execute(code)
    assert answer.error is None and (answer.value, answer.code) == (text, 0), answer.error


@pytest.mark.parametrize("code, name, line", [
    ("x = 1\n\n1/0", "ZeroDivisionError", 3), ("x = 1\n\n1 +", "SyntaxError", 3), ("x = (\n1", "SyntaxError", 1), ("x = 1\n  2", "IndentationError", 2),
    ("return 5", "SyntaxError", 1), ("x = 1\nreturn", "SyntaxError", 2), ("def f():\n    1/0\n\nf()", "ZeroDivisionError", 2),
    ("await = 1", "SyntaxError", 1), ("1 = x", "SyntaxError", 1), ("f(", "SyntaxError", 1)])
def test_errors_tell_the_line(kernel, code, name, line):
    error = error_of(kernel, code)
    assert error["name"] == name and f'File "<cell 1>", line {line}' in error["traceback"], error["traceback"]
    assert code.split("\n")[line - 1].strip() in error["traceback"], "the line itself is shown, too"


def test_future_statements_hold_for_the_cells_to_come(kernel):
    assert value_of(kernel, "from __future__ import annotations\ndef f(x: no_such): pass\nf.__annotations__") == "{'x': 'no_such'}"
    assert value_of(kernel, "def g(x: no_such): pass\ng.__annotations__") == "{'x': 'no_such'}"


def test_text_that_cannot_be_code(kernel):
    assert error_of(kernel, "x = 1\nx\0")["name"] in ("ValueError", "SyntaxError")
    assert error_of(kernel, b"x = '\xff'")["name"] == "UnicodeDecodeError"


def test_warnings_of_the_compiler_come_once(kernel):
    assert kernel.execute("x = 1\nx is 1").stderr.count("SyntaxWarning") == 1
    assert kernel.execute("y = 1 is 1").stderr.count("SyntaxWarning") == 1


def test_what_is_shown_comes_before_the_value(kernel):
    answer = kernel.execute("display(1)\nprint('a')\n[2]")
    assert [list(result.values()) for result in answer.results] == [["1"], ["[2]"]]
    assert answer.value == "[2]" and answer.stdout == "a\n"


def test_a_long_value_is_made_once(kernel):
    code = "class Once:\n    count = 0\n    def __repr__(self): Once.count += 1; return 'x' * 100_000\n[Once()]"
    assert value_of(kernel, code) == "[" + "x" * 100_000 + "]"
    assert value_of(kernel, "Once.count") == "1"


def test_streams_are_mended_between_executions(kernel):
    assert kernel.execute("print('a')\nimport sys\nsys.stdout.close()").error is None
    assert kernel.execute("print('b')").stdout == "b\n"
    kernel.execute("sys.stdout.write = id\nsys.stderr = None")
    answer = kernel.execute("print('c')\nprint('d', file=sys.stderr)")
    assert (answer.stdout, answer.stderr) == ("c\n", "d\n")
    assert value_of(kernel, "sys.stdin.readline()", stdin=b"one\ntwo\n") == r"'one\n'"
    assert value_of(kernel, "input()", stdin=b"three\n") == "'three'"
    kernel.execute("sys.stdin.close()")
    assert value_of(kernel, "input()", stdin=b"four\n") == "'four'"


def test_an_interrupt_is_for_the_code_that_it_came_for(kernel):
    for _ in range(50):
        kernel.interrupt()  # nothing runs: it is nobody's
        assert value_of(kernel, "sum(range(1000))") == "499500"
