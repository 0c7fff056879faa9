# SPDX-License-Identifier: Apache-2.0
"""Every tool of MCP, every argument, every way to get it wrong: the text must be enough to get it right."""
import json
import re

import pytest

from mcp_client import Modern
from server import Server

LONG = 5 * 2**20  # more than any text that is taken
EXECUTION = "exe_" + "0" * 26


@pytest.fixture(scope="module")
def client():
    with Server("--mcp-compatible-names") as server:
        yield Modern(server)


@pytest.fixture(scope="module")
def tools(client):
    return {tool["name"]: tool["inputSchema"] for tool in client.result("tools/list")["tools"]}


def good(name):
    """Arguments that are complete, so that only what is put beside them is wrong."""
    return {"upload_file": {"session_id": "a", "path": "a.txt", "content": "x"}, "list_artifacts": {"session_id": "a"},
            "read_artifact": {"session_id": "a", "path": "a.txt"}, "close_session": {"session_id": "a"}, "list_runners": {},
            "sandbox.list_runners": {}}.get(name, {"code": "print(1)"})


def wrong_values(schema):
    """Values that the schema of an argument does not allow (null is as if it were absent); each with what must be told of it."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = next(one for one in kinds if one != "null")
    if "enum" in schema:
        first = schema["enum"][0]
        return [(first[:-1] + "x", f"did you mean '{first}'"), (7, "7")]
    if kind == "string":
        rows = [(7, "7"), (True, "true"), ([1], "[1]"), ({"a": 1}, '{"a":1}')]
        if "pattern" in schema:
            rows += [("a b/../\n", r"a b/../\n"), ("é" * 10, "é"), ("", '""')]
        if schema.get("maxLength", LONG) < LONG:
            rows += [("x" * (schema["maxLength"] + 1), str(schema["maxLength"]))]
        return rows
    if kind in ("number", "integer"):
        rows = [("soon", "soon"), ([1], "[1]"), (-1, "-1"), (1e300, "300")]
        return rows + ([(1.5, "1.5")] if kind == "integer" else [])
    if kind == "array":
        return [("x", '"x"'), (7, "7"), ({}, "{}"), ([7], "7"), ([None], "null")]
    raise AssertionError(f"a type that no row is for: {schema}")


def complaint(client, name, arguments):
    result = client.call(name, arguments)
    assert result.get("isError") is True, (name, arguments, result)
    text = result["content"][0]["text"]
    assert len(text) < 10_000 and text.startswith(f"{name}: "), text
    example = json.loads(re.search(r"^Example: (\{.*)$", text, re.M)[1])
    return text.split("\n")[0] + "\n" + text.split("\n")[1], example


NAMES = ["run_code", "upload_file", "list_artifacts", "read_artifact", "close_session", "list_runners", "run_python", "sandbox.run_code",
         "sandbox.list_runners"]


def test_these_are_all(tools):
    assert list(tools) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_wrong_values(client, tools, name):
    tried = 0
    for argument, schema in tools[name]["properties"].items():
        for value, told in wrong_values(schema):
            said, example = complaint(client, name, good(name) | {argument: value})
            assert said.startswith(f"{name}: {argument}") and told in said, (argument, value, said)
            assert set(example) <= set(tools[name]["properties"])
            tried += 1
    assert tried >= 5 * len(tools[name]["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_missing_arguments(client, tools, name):
    for argument in tools[name].get("required", []):
        given = {key: value for key, value in good(name).items() if key != argument}
        said, example = complaint(client, name, given)
        assert said.startswith(f"{name}: {argument}: is required") and argument in example, said


@pytest.mark.parametrize("name", NAMES)
def test_unknown_arguments(client, tools, name):
    said, _ = complaint(client, name, good(name) | {"nonsense argument": 1})
    assert "nonsense argument: no such field" in said
    for argument in tools[name]["properties"]:
        typo = argument[:-1] + "q"
        said, _ = complaint(client, name, {key: value for key, value in good(name).items() if key != argument} | {typo: "x"})
        assert f"{typo}: no such field" in said and f"did you mean '{argument}'" in said, said


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arguments", ['{"code": "1"}', [1], 7, True], ids=["text", "list", "number", "boolean"])
def test_arguments_that_are_no_object(client, name, arguments):
    said, _ = complaint(client, name, arguments)
    assert "arguments: expected an object" in said


TOGETHER = [
    ("upload_file", {"session_id": "a", "path": "x"}, "content"),
    ("upload_file", {"session_id": "a", "path": "x", "content": "1", "content_base64": "MQ=="}, "not both"),
    ("upload_file", {"session_id": "a", "path": "../x", "content": "1"}, "'../x'"),
    ("upload_file", {"session_id": "a", "path": "/etc/x", "content": "1"}, "'/etc/x'"),
    ("upload_file", {"session_id": "a", "path": "x", "content_base64": "no base64!"}, "'no base64!'"),
    ("list_artifacts", {}, "execution_id"),
    ("list_artifacts", {"session_id": "a", "execution_id": EXECUTION}, "not both"),
    ("list_artifacts", {"session_id": "a", "path": "a/../.."}, "'a/../..'"),
    ("read_artifact", {"session_id": "a"}, "path"),
    ("read_artifact", {"path": "x"}, "session_id"),
    ("read_artifact", {"session_id": "a", "stream": "stdout"}, "execution_id"),
    ("read_artifact", {"execution_id": EXECUTION, "stream": "stdout", "path": "x"}, "either path"),
    ("run_code", {"code": "1", "language": "pyhton"}, "did you mean 'python'"),
    ("run_code", {"code": "1", "language": "cobol"}, "'cobol'"),
    ("run_code", {"code": "1", "files": [{"path": "../x", "content": ""}]}, "files[0].path"),
    ("run_code", {"code": "1", "files": [{"path": "x"}]}, "files[0]"),
    ("run_code", {"code": "1", "files": [{"path": "x", "text": "y"}]}, "files[0].text"),
    ("run_code", {"code": "1", "requirements": ["a b c"]}, "a b c"),
    ("run_code", {"code": "1", "timeout": 1, "timeout_seconds": 2}, "timeout"),
]


@pytest.mark.parametrize("name, arguments, told", TOGETHER, ids=[f"{row[0]} {i}" for i, row in enumerate(TOGETHER)])
def test_arguments_that_do_not_go_together(client, name, arguments, told):
    said, _ = complaint(client, name, arguments)
    assert told in said, said


@pytest.mark.parametrize("typed, meant", [("run_cod", "run_code"), ("read_artefact", "read_artifact"), ("list_runner", "list_runners")])
def test_a_mistyped_tool(client, typed, meant):
    error = client.request("tools/call", {"name": typed, "arguments": {}})["error"]
    assert error["code"] == -32602 and f"did you mean '{meant}'" in error["message"] and f"'{typed}'" in error["message"]
