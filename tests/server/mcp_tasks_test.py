# SPDX-License-Identifier: Apache-2.0
"""Tasks of MCP: a run that takes long goes on without its client, who comes back for what became of it."""
import concurrent.futures
import json
import os
import signal
import subprocess

import pytest

import covetest
import mcp_driver
from covetest import wait_for
from mcp_client import MODERN, Legacy, Modern, ids, modern
from mcp_packages import INSPECTOR
from mcp_stdio import Stdio

TASKS = "io.modelcontextprotocol/tasks"
KNOWS = {"extensions": {TASKS: {}}}
MINUTE_MS = 60 * 1000
# It goes on until it is told to end, however long a test takes.
WAITING = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('went on')\n6 * 7"
# Begun is what can be ended: an interrupt while a process is being started would leave that behind.
SLEEP = "import subprocess\np = subprocess.Popen(['sleep', '600'])\ntry:\n    print('begun', flush=True); p.wait()\nfinally:\n    p.kill(); p.wait()"


class Host(Modern):
    """A client that knows tasks."""

    def ask(self, method, params=None, headers=None, capabilities=KNOWS, **more):
        return super().ask(method, params, headers, capabilities=capabilities, **more)

    def begin(self, code, **arguments):
        """-> the task that the run became"""
        task = self.call("run_code", {"code": code} | arguments)
        assert task["resultType"] == "task" and task["status"] == "working", task
        return task

    def get(self, task):
        return self.result("tasks/get", {"taskId": task["taskId"]})

    def cancel(self, task):
        return self.result("tasks/cancel", {"taskId": task["taskId"]})

    def wait(self, task, status="completed"):
        """-> the task when it has that status"""
        def look():
            found = self.get(task)
            assert found["status"] in ("working", status), found
            return found if found["status"] == status else None
        return wait_for(look, f"task to be {status}")

    def wait_begun(self, task):
        """-> the task when its program has said so; a task may be told before there is a sandbox"""
        return wait_for(lambda: (now := self.get(task)) and "begun" in now.get("statusMessage", "") and now, "its last line")

    def text_of(self, task):
        return self.wait(task)["result"]["content"][0]["text"]

    def let_go(self, name):
        self.text("upload_file", {"session_id": name, "path": "go", "content": ""})


@pytest.fixture
def host(shared_server):
    return Host(shared_server)


@pytest.fixture
def name():
    return f"task-{next(ids)}"


def sleepers(server):
    return covetest.inside(server, "sleep")


def test_a_quick_run_is_answered_at_once(host):
    result = host.call("run_code", {"code": "print(6 * 7)"})
    assert result["resultType"] == "complete" and "taskId" not in result
    assert "[stdout]\n42\n" in result["content"][0]["text"]


def test_a_long_run_becomes_a_task(host, name):
    task = host.begin(WAITING, session_id=name)
    assert task["ttlMs"] >= 10 * MINUTE_MS and 0 < task["pollIntervalMs"] <= 5000 and "result" not in task
    found = host.wait_begun(task)
    assert found["status"] == "working" and found["createdAt"] == task["createdAt"] and "result" not in found
    host.let_go(name)
    done = host.wait(task)
    assert "went on" in done["result"]["content"][0]["text"] and "[value]\n42\n" in done["result"]["content"][0]["text"]
    assert done["createdAt"] == task["createdAt"] and done["lastUpdatedAt"] > done["createdAt"] and done["resultType"] == "complete"
    assert host.get(task)["result"] == done["result"]  # as often as one asks
    assert host.cancel(task)["resultType"] == "complete" and host.get(task)["status"] == "completed"
    host.text("close_session", {"session_id": name})


def test_without_a_session_too(host):
    task = host.begin("import time; time.sleep(6); print('late'); open('out.txt', 'w').write('x')")
    result = host.wait(task)["result"]
    assert "[stdout]\nlate\n" in result["content"][0]["text"]
    assert any(item["type"] == "resource_link" and item["name"] == "out.txt" for item in result["content"])
    assert not result.get("isError")


def test_a_program_that_fails_has_completed(host, name):
    task = host.begin(WAITING + "\n1 / 0", session_id=name)
    host.wait_begun(task)
    host.let_go(name)
    assert "ZeroDivisionError" in host.text_of(task)
    host.text("close_session", {"session_id": name})


def test_who_knows_no_tasks_waits(shared_server):
    for client in (Modern(shared_server), Legacy(shared_server)):
        assert "[stdout]\nlate\n" in client.text("run_code", {"code": "import time; time.sleep(2.5); print('late')"})
    plain = Modern(shared_server)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        answer, messages = plain.ask(method, {"taskId": "exe_" + "0" * 26, "inputResponses": {}})
        assert answer.status == 400 and messages[0]["error"]["code"] == -32021
        assert messages[0]["error"]["data"] == {"requiredCapabilities": KNOWS}


def test_headers_name_the_task(host):
    answer, messages = host.ask("tasks/get", {"taskId": "one"}, headers={"Mcp-Name": "another"})
    assert answer.status == 400 and messages[0]["error"]["code"] == -32020


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize("task", ["exe_" + "0" * 26, "task_" + "0" * 26, "../../etc", "", "x" * 5000], ids=range(5))
def test_a_task_that_is_not_there(host, method, task):
    assert host.request(method, {"taskId": task, "inputResponses": {}})["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
def test_what_the_extension_has_no_more(host, method):
    answer, messages = host.ask(method, {"taskId": "x"}, headers={"Mcp-Name": "x"})
    assert answer.status == 404 and messages[0]["error"]["code"] == -32601


def test_one_who_listens_is_told(host, name):
    task = host.begin(WAITING, session_id=name)
    body, headers = modern("subscriptions/listen", {"notifications": {"taskIds": [task["taskId"], "exe_" + "0" * 26]}}, capabilities=KNOWS)
    connection = host.server.connect()
    host.server.begin(connection, "POST", "/mcp", body, headers=headers)
    stream = connection.getresponse()

    def read():
        while not (line := stream.readline()).startswith(b"data:"):
            assert line
        return json.loads(line[5:])

    agreed = read()
    assert agreed["params"]["notifications"] == {"taskIds": [task["taskId"]]}
    host.wait_begun(task)
    host.let_go(name)
    while (told := read())["params"]["status"] == "working":
        assert told["method"] == "notifications/tasks"
    assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": body["id"]}
    assert told["params"]["status"] == "completed" and "went on" in told["params"]["result"]["content"][0]["text"]
    connection.close()
    host.text("close_session", {"session_id": name})


def test_tasks_of_others_do_not_exist(shared_server, host, name):
    def key():
        answer = shared_server.post("/api/v1/keys", {"name": "tasks", "scopes": ["execute", "sessions:write", "files"]})
        return Host(shared_server, answer.json["key"])

    one, other = key(), key()
    one.text("run_code", {"code": "import os, time", "session_id": name})
    task = one.begin("while not os.path.exists('go'): time.sleep(0.01)\nprint('mine')", session_id=name)
    for stranger in (other, host):  # the operator's token has tasks of its own
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            error = stranger.request(method, {"taskId": task["taskId"], "inputResponses": {}})["error"]
            assert error["code"] == -32602 and "there is no task" in error["message"]
    one.let_go(name)
    assert "[stdout]\nmine\n" in one.text_of(task)
    for stranger in (other, host):
        assert stranger.request("tasks/get", {"taskId": task["taskId"]})["error"]["code"] == -32602
    one.text("close_session", {"session_id": name})


# --- cancelling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"session_id": "cancelled"}], ids=["stateless", "session"])
def test_a_cancelled_task_leaves_no_process(server, arguments):
    host = Host(server)
    task = host.begin(SLEEP, **arguments)
    if arguments:
        host.wait_begun(task)
    wait_for(lambda: sleepers(server), "the program")  # although the answer was sent, and its connection is closed
    for _ in range(3):
        assert set(host.cancel(task)) == {"resultType", "_meta"}
    assert "result" not in host.wait(task, "cancelled")
    wait_for(lambda: not sleepers(server), "the end of the program")
    assert host.get(task)["status"] == "cancelled"
    assert "42" in host.text("run_code", {"code": "print(42)"} | arguments)


def test_what_others_cancel_is_cancelled(host, name):
    task = host.begin(WAITING, session_id=name)
    host.wait_begun(task)
    assert host.server.post(f"/api/v1/executions/{task['taskId']}/cancel").status == 200
    host.wait(task, "cancelled")
    host.text("close_session", {"session_id": name})


def test_a_storm_of_tasks_and_cancels_leaves_nothing(server):
    host = Host(server)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        tasks = list(pool.map(lambda _: host.begin(SLEEP), range(12)))
        list(pool.map(host.cancel, tasks * 4))
        list(pool.map(lambda task: host.wait(task, "cancelled"), tasks))
    assert len({task["taskId"] for task in tasks}) == 12
    wait_for(lambda: not sleepers(server), "the end of all programs")
    assert "42" in host.text("run_code", {"code": "print(42)"})


# --- another coved ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "asked"])
@pytest.mark.skipif(not covetest.IS_ROOT, reason="what is taken over has a uid of its own")
def test_tasks_outlive_coved(server, number):
    host = Host(server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        goes_on, to_cancel, over, stateless = pool.map(lambda row: host.begin(row[0], **row[1]), [
            (WAITING, {"session_id": "goes-on"}), (SLEEP, {"session_id": "to-cancel"}),
            (WAITING, {"session_id": "over"}), (SLEEP, {})])
    for task in (goes_on, to_cancel, over):
        host.wait_begun(task)
    wait_for(lambda: len(sleepers(server)) == 2, "both programs")
    host.let_go("over")
    before = host.wait(over)
    old, count = server.coved, len(server.addresses())
    os.kill(old, number)
    wait_for(lambda: server.find_coved() not in (None, old), "another coved")
    server.wait_ready(count + 1)
    assert host.get(goes_on)["status"] == "working"
    assert host.wait(over)["result"] == before["result"]
    host.let_go("goes-on")
    assert "went on" in host.text_of(goes_on)
    assert host.cancel(to_cancel)["resultType"] == "complete"
    host.wait(to_cancel, "cancelled")
    text = host.text_of(stateless)
    assert text.startswith("lost") and "the server ended while it ran" in text
    wait_for(lambda: not sleepers(server), "the end of all programs")


# --- other ways to ask ------------------------------------------------------------------------------


def test_tasks_on_standard_input_and_output():
    marks = {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": KNOWS}}
    with Stdio() as stdio:
        task = stdio.ask("tools/call", {"name": "run_code", "arguments": {"code": SLEEP}} | marks)["result"]
        assert task["resultType"] == "task"
        wait_for(lambda: sleepers(stdio), "the program")
        named = {"taskId": task["taskId"]} | marks
        assert stdio.ask("tasks/get", named)["result"]["status"] == "working"
        listen = stdio.begin("subscriptions/listen", {"notifications": {"taskIds": [task["taskId"]]}} | marks)
        stdio.wait(lambda m: m.get("method") == "notifications/subscriptions/acknowledged", "the agreement")
        assert stdio.ask("tasks/cancel", named)["result"]["resultType"] == "complete"
        told = stdio.wait(lambda m: m.get("method") == "notifications/tasks" and m["params"]["status"] == "cancelled", "its end")
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": listen}
        wait_for(lambda: not sleepers(stdio), "the end of the program")
        stdio.ask("tools/call", {"name": "run_code", "arguments": {"code": SLEEP}} | marks)
        assert stdio.close() == 0  # with a task under way, which ends with its server
        stdio.nothing_is_left()


def test_the_inspector_waits_for_a_task(shared_server):
    modules, environment = mcp_driver.node(INSPECTOR)
    arguments = json.dumps({"code": "import time; time.sleep(3); print('late')"})
    command = [modules / ".bin/mcp-inspector", "--cli", f"{shared_server.url}/mcp", "--transport", "http", "--protocol-era", "modern",
               "--header", f"Authorization: Bearer {shared_server.token}", "--format", "json", "--method", "tools/call",
               "--tool-name", "run_code", "--tool-args-json", arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=covetest.PATIENCE * 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[stdout]\nlate\n" in json.loads(done.stdout)["result"]["content"][0]["text"]
