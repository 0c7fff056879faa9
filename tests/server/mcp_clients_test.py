# SPDX-License-Identifier: Apache-2.0
"""Clients of MCP that others have written, against a real server: what each of them can ask for works, and none complains."""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import covetest
import mcp_driver
import server as serving
from covetest import wait_for
from mcp_client import ids
from mcp_driver import CLIENTS, Driver, Failure
from mcp_packages import CLAUDE_CODE, INSPECTOR

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SLEEP = "import subprocess; subprocess.run(['sleep', '600'])"
TOOLS = ["run_code", "upload_file", "list_artifacts", "read_artifact", "close_session", "list_runners"]


class Place:
    """A server, as drivers are told of it, and the cgroup below which its sandboxes are."""

    def __init__(self, transport, group):
        self.transport, self.group = transport, group

    def sleepers(self):
        return [pid for pid in covetest.pids() if covetest.is_in_group(pid, self.group) and covetest.name_of(pid) == "sleep"]


@pytest.fixture(scope="module")
def http_place(shared_server):
    return Place({"url": f"{shared_server.url}/mcp", "token": shared_server.token}, shared_server.group)


@pytest.fixture(scope="module")
def stdio_place():
    """Each client starts a server of its own."""
    group, folder = f"{covetest.CGROUP_PARENT}-clients", pathlib.Path(tempfile.mkdtemp(prefix="cove-test-clients-"))
    folder.chmod(0o755)
    cove = covetest.Cove(covetest.BUILD if serving.is_public(covetest.BUILD) else covetest.public_build())
    environment = covetest.environment(cove.home, COVE_CGROUP_PARENT=group, COVE_DATA_DIR=str(folder / "data"),
                                       XDG_STATE_HOME=str(folder / "state"))
    command, *args = cove.argv("mcp")
    place = Place({"command": command, "args": args, "env": environment}, group)
    yield place
    wait_for(lambda: not [pid for pid in covetest.pids() if covetest.is_in_group(pid, group)], "no process of a sandbox")
    wait_for(lambda: not covetest.sandbox_groups(group), "no cgroup of a sandbox")
    covetest.remove_groups(group)
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=["http", "stdio"])
def place(request):
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture(scope="module", params=CLIENTS)
def client(request, place):
    with Driver(request.param, place.transport) as driver:
        yield driver


@pytest.fixture(autouse=True)
def nobody_complains(request):
    """Of what a client finds wrong with its server, nothing reaches the caller of a call that was cancelled."""
    yield
    if "client" in request.fixturenames:
        assert request.getfixturevalue("client").ask("complaints") == []


@pytest.fixture
def session(client):
    name = f"client-{next(ids)}"
    yield name
    client.text("close_session", session_id=name)


# --- what each of them does ---------------------------------------------------------------------------


def test_they_agree_on_the_newest_version_of_their_era(client):
    hello = client.ask("hello")
    assert hello["version"] == client.version
    if client.name != "python-v2-modern":  # it asks nothing before it begins
        assert hello["server"]["name"] == "cove" and "run_code" in hello["instructions"]
        assert {"tools", "prompts", "resources"} <= set(hello["capabilities"])


def test_they_list_the_tools(client):
    tools = client.ask("tools")["tools"]
    assert [tool["name"] for tool in tools][:len(TOOLS)] == TOOLS
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)


def test_they_run_code(client):
    assert "[stdout]\n42\n" in client.text("run_code", code="print(6 * 7)")
    assert "[stdout]\nhello\n" in client.text("run_code", code="echo hello", language="bash")


def test_any_text_comes_back_as_it_was(client):
    words = "naïve \N{GREEK SMALL LETTER OMEGA} \N{PILE OF POO} \u2028 \\ \""
    assert f"[stdout]\n{words}\n" in client.text("run_code", code=f"print({words!r})")


def test_a_session_keeps_its_state(client, session):
    client.text("run_code", session_id=session, code="x = 41")
    assert "[value]\n42\n" in client.text("run_code", session_id=session, code="x + 1")


def test_files_go_in_and_come_out(client, session):
    client.text("upload_file", session_id=session, path="data/in.csv", content="a,b\n1,2\n")
    result = client.call("run_code", session_id=session, code="open('out.txt', 'w').write(open('data/in.csv').read() * 2)")
    links = [one for one in result["content"] if one["type"] == "resource_link"]
    assert [(link["name"], link["size"]) for link in links] == [("out.txt", 16)]
    assert client.ask("read", uri=links[0]["uri"])["contents"][0]["text"] == "a,b\n1,2\n" * 2
    assert "out.txt" in client.text("list_artifacts", session_id=session)
    assert client.text("read_artifact", session_id=session, path="out.txt") == "a,b\n1,2\n" * 2


def test_pictures_are_pictures(client, session):
    client.text("upload_file", session_id=session, path="dot.png", content_base64=PNG)
    content = client.call("read_artifact", session_id=session, path="dot.png")["content"]
    assert [(one["type"], one["mimeType"], one["data"]) for one in content] == [("image", "image/png", PNG)]
    code = f"import base64\nclass Dot:\n    def _repr_png_(self): return base64.b64decode('{PNG}')\nDot()"
    content = client.call("run_code", session_id=session, code=code)["content"]
    assert [one["data"] for one in content if one["type"] == "image"] == [PNG]


def test_bytes_of_a_resource_are_those_of_the_file(client):
    result = client.call("run_code", code="open('raw.bin', 'wb').write(bytes(range(256)))")
    uri = next(one["uri"] for one in result["content"] if one["type"] == "resource_link")
    assert base64.b64decode(client.ask("read", uri=uri)["contents"][0]["blob"]) == bytes(range(256))


def test_a_program_that_fails_is_a_result(client):
    result = client.call("run_code", code="1/0")
    assert not result.get("isError") and "ZeroDivisionError" in result["content"][0]["text"]


def test_bad_arguments_are_told_to_the_model(client):
    for arguments, word in [({}, "code"), ({"code": 1}, "code"), ({"code": "1", "lang": "x"}, "lang")]:
        result = client.call("run_code", **arguments)
        assert result["isError"] and word in result["content"][0]["text"]


def test_what_is_not_there_is_an_error(client):
    for wish in [("call", {"name": "no_such_tool", "arguments": {}}), ("prompt", {"name": "no_such_prompt"}),
                 ("read", {"uri": "cove://executions/exe_00000000000000000000000000/files/x"})]:
        with pytest.raises(Failure) as failure:
            client.ask(wish[0], **wish[1])
        # One of them tells of either era what the modern one calls it.
        is_old = wish[0] == "read" and not client.is_modern and client.name != "node-v2-legacy"
        assert failure.value.args[0] == (-32002 if is_old else -32602), failure.value


def test_long_calls_tell_how_far_they_are(client):
    code = "import time\nfor i in range(25):\n    print('step', i, flush=True); time.sleep(0.1)"
    answer = client.answer("call", params={"name": "run_code", "arguments": {"code": code}}, progress=True)
    told = [one["progress"] for one in answer["progress"]]
    assert told and told == sorted(set(told))
    assert "step 24" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("wants_progress", [False, True], ids=["silent", "with progress"])
def test_what_is_cancelled_ends(client, place, wants_progress):
    future, number = client.begin("call", params={"name": "run_code", "arguments": {"code": SLEEP}}, progress=wants_progress)
    wait_for(place.sleepers, "the program to run")
    client.answer("cancel", which=number)
    with pytest.raises(Failure):
        future.result(covetest.PATIENCE)
    wait_for(lambda: not place.sleepers(), "the end of the program")
    assert "[stdout]\n42\n" in client.text("run_code", code="print(42)")


def test_calls_run_side_by_side(client):
    calls = [client.begin("call", params={"name": "run_code", "arguments": {"code": f"print({n} * 2)"}})[0] for n in range(20)]
    texts = [call.result(covetest.PATIENCE)["result"]["content"][0]["text"] for call in calls]
    assert [f"[stdout]\n{2 * n}\n" in text for n, text in enumerate(texts)] == [True] * 20


def test_they_find_prompts_and_resources(client):
    prompts = [prompt["name"] for prompt in client.ask("prompts")["prompts"]]
    assert prompts[:1] == ["analyse_data"]
    got = client.ask("prompt", name="analyse_data", arguments={"file": "sales.csv"})
    assert "sales.csv" in got["messages"][0]["content"]["text"]
    assert all(one["uriTemplate"].startswith("cove://") for one in client.ask("templates")["resourceTemplates"])
    assert isinstance(client.ask("resources")["resources"], list)


def test_who_dies_in_mid_call_leaves_nothing(client, place):
    dying = Driver(client.name, place.transport)
    dying.begin("call", params={"name": "run_code", "arguments": {"code": SLEEP}})
    wait_for(place.sleepers, "the program to run")
    dying.kill()
    wait_for(lambda: not place.sleepers(), "the end of the program")


# --- MCP's own Inspector ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inspector():
    modules, environment = mcp_driver.node(INSPECTOR)
    return modules / ".bin/mcp-inspector", environment


@pytest.fixture(params=["legacy", "modern", "auto"])
def ask(request, inspector, shared_server):
    program, environment = inspector

    def run(*words):
        command = [program, "--cli", f"{shared_server.url}/mcp", "--transport", "http", "--protocol-era", request.param,
                   "--header", f"Authorization: Bearer {shared_server.token}", "--format", "json", "--method", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=covetest.PATIENCE * 2)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    return run


def test_its_schemas_work_with_every_assistant(ask):
    assert [tool["name"] for tool in ask("tools/list", "--strict")["tools"]][0] == "run_code"


def test_it_runs_code(ask):
    result = ask("tools/call", "--tool-name", "run_code", "--tool-args-json", json.dumps({"code": "print(6 * 7)"}))
    assert "[stdout]\n42\n" in result["content"][0]["text"]


def test_it_finds_prompts_and_resources(ask):
    assert len(ask("prompts/list")["prompts"]) == 3
    assert len(ask("resources/templates/list")["resourceTemplates"]) == 3
    result = ask("tools/call", "--tool-name", "run_code", "--tool-args-json", json.dumps({"code": "open('seen.txt', 'w').write('kept')"}))
    uri = next(item["uri"] for item in result["content"] if item["type"] == "resource_link")
    assert ask("resources/list")["resources"][0]["uri"] == uri
    assert ask("resources/read", "--uri", uri)["contents"][0]["text"] == "kept"


# --- Claude Code --------------------------------------------------------------------------------------


@pytest.fixture
def claude(tmp_path):
    modules, environment = mcp_driver.node(CLAUDE_CODE)
    alone = {"HOME": str(tmp_path), "PATH": environment["PATH"], "DISABLE_AUTOUPDATER": "1",
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MCP_TIMEOUT": str(covetest.PATIENCE * 1000)}

    def run(*words):
        done = subprocess.run([modules / "@anthropic-ai/claude-code-linux-x64/claude", *words], env=alone, cwd=tmp_path,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=covetest.PATIENCE * 2)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_claude_code_connects(claude, shared_server):
    claude("mcp", "add", "--transport", "http", "--scope", "user", "cove", f"{shared_server.url}/mcp",
           "--header", f"Authorization: Bearer {shared_server.token}")
    assert re.search(r"^cove: .*Connected$", claude("mcp", "list"), re.M)
    claude("mcp", "add", "--transport", "http", "--scope", "user", "stranger", f"{shared_server.url}/mcp")
    assert not re.search(r"^stranger: .*Connected$", claude("mcp", "list"), re.M)


def test_claude_code_starts_a_server_of_its_own(claude, stdio_place):
    transport = stdio_place.transport
    named = [word for name, value in transport["env"].items() if name.startswith(("COVE_", "XDG_")) for word in ("-e", f"{name}={value}")]
    claude("mcp", "add", "--transport", "stdio", "--scope", "user", "cove", *named, "--", transport["command"], *transport["args"])
    assert re.search(r"^cove: .*Connected$", claude("mcp", "list"), re.M)
