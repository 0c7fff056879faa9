# SPDX-License-Identifier: Apache-2.0
"""What operators see: /health, /metrics, /nodes, /runners, /containers, and the lines of the log."""
import json
import re
import socket

import pytest

import covetest
import crashers
from covetest import IS_ASAN, wait_for
from server import Server

API = "/api/v1"
SO_PASSRIGHTS = 83


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server


def make_key(server, *scopes):
    answer = server.post(f"{API}/keys", {"name": "of a test", "scopes": list(scopes)})
    assert answer.status == 201, answer
    return answer.json["key"]


@pytest.fixture
def session(server):
    answer = server.post(f"{API}/sessions", {"language": "python"})
    assert answer.status == 201, answer
    yield answer.json["id"]
    server.delete(f"{API}/sessions/{answer.json['id']}")


def run(server, session, code):
    answer = server.post(f"{API}/sessions/{session}/execute", {"code": code, "mode": "sync"})
    assert answer.status == 200, answer
    return answer.json


# --- health ---------------------------------------------------------------------------------------

def test_a_stranger_learns_the_status_and_nothing_else(server):
    for path in "/health", f"{API}/health":
        answer = server.get(path, token=None)
        assert answer.status == 200 and answer.json == {"status": "ok"}


def test_a_token_tells_the_rest(server, session):
    wait_for(lambda: server.get("/health").json["tier"], "the layers")
    health = server.get("/health").json
    assert set(health) == {"status", "version", "uptime_seconds", "tier", "layers", "missing_layers", "missing_kernel_features",
                           "limits_not_in_force", "components", "capacity", "load"}
    assert health["status"] == "ok"
    assert set(health["components"]) == {"database", "storage", "runtime", "pools"}
    assert all(part == {"state": "ok", "message": None} for part in health["components"].values())
    assert health["uptime_seconds"] > 0 and "seccomp filter" in health["layers"]
    assert health["load"]["sessions"] >= 1
    assert 1 <= health["capacity"]["sessions"] <= health["capacity"]["max_sessions"]
    assert set(server.get("/health", token=make_key(server, "execute")).json) == set(health)


def test_a_wrong_token_is_none(server):
    answer = server.get("/health", token="wrong")
    assert answer.status == 200 and answer.json == {"status": "ok"}


def test_ready(server):
    answer = server.get("/health/ready", token=None)
    assert answer.status == 200 and answer.json == {"status": "ready"}


# --- metrics --------------------------------------------------------------------------------------

def samples(server):
    """By name and labels."""
    parser = pytest.importorskip("prometheus_client.parser", reason="python3-prometheus-client is not installed")
    answer = server.get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(parser.text_string_to_metric_families(answer.body.decode()))
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    assert all(family.documentation and family.type != "untyped" for family in families)
    found = [((s.name, *sorted(s.labels.items())), s.value) for family in families for s in family.samples]
    assert len(dict(found)) == len(found), "no sample comes twice"
    return dict(found)


def test_what_happens_is_counted(server, session):
    before = samples(server)
    run(server, session, "1 / 0")
    assert server.post("/execute", {"code": "print(1)"}).json["state"] == "completed"
    assert server.get(f"{API}/sessions/nobody").status == 404
    assert server.get("/not/there").status == 404
    after = samples(server)

    def grown(name, **labels):
        key = (name, *sorted(labels.items()))
        return after[key] - before.get(key, 0)

    assert grown("cove_executions_total", state="failed", stateless="false") == 1
    assert grown("cove_executions_total", state="completed", stateless="true") == 1
    assert grown("cove_execution_reasons_total", reason="exception") == 1
    assert grown("cove_execution_duration_seconds_count", state="completed") == 1
    assert grown("cove_http_requests_total", route="execute", method="POST", status="2xx") == 1
    assert grown("cove_http_requests_total", route="getSession", method="GET", status="4xx") == 1
    assert grown("cove_http_requests_total", route="none", method="GET", status="4xx") == 1
    assert grown("cove_http_request_duration_seconds_bucket", route="execute", le="+Inf") == 1
    assert grown("cove_http_response_bytes_total") > 0
    assert grown("cove_store_writes_total") > 0
    assert after["cove_sessions", ("state", "ready")] >= 1
    assert after["cove_sandboxes",] >= 1
    assert after["cove_http_connections",] >= 1
    assert sum(value for (name, *_), value in after.items() if name == "cove_pool_taken_total") >= 1


def test_figures_of_the_process_itself(server):
    """Which it reads when it has given up nearly everything."""
    found = samples(server)
    assert 1 << 20 < found["process_resident_memory_bytes",] < 1 << 30
    assert 1 << 10 < found["cove_store_memory_bytes",] < 16 << 20
    if not IS_ASAN:  # whose allocator does not tell
        assert 1 << 16 < found["cove_heap_bytes",] < found["process_resident_memory_bytes",]
    assert 5 < found["process_open_fds",] < found["process_max_fds",]
    assert found["process_cpu_seconds_total",] > 0
    assert found["process_threads",] >= 1


def test_names_of_clients_are_no_labels(server):
    name = "label-of-a-client"
    server.post(f"{API}/sessions", {"language": "python", "name": name})
    server.get(f"{API}/sessions/{name}")
    server.get(f"/{name}")
    server.delete(f"{API}/sessions/{name}")
    assert name not in server.get("/metrics").body.decode()


@pytest.mark.parametrize("path", ["/metrics", f"{API}/metrics", f"{API}/nodes", f"{API}/containers",
                                  f"{API}/containers/x", f"{API}/containers/x/logs"])
def test_are_the_operators_to_see(server, path):
    assert server.get(path, token=None).status == 401
    assert server.get(path, token=make_key(server, "execute", "sessions:read", "sessions:write")).status == 403


# --- what there is --------------------------------------------------------------------------------

def test_nodes(server, session):
    def own():
        nodes = server.get(f"{API}/nodes").json["nodes"]
        return next(node for node in nodes if node["self"])
    first = own()
    assert first["state"] == "ready" and first["runtime"] == "native" and first["epoch"] >= 1
    assert first["load"]["sessions"] >= 1 and first["capacity"]["max_sessions"] >= 1
    wait_for(lambda: own()["heartbeat_at"] > first["heartbeat_at"], "the next heartbeat")


def test_runners(server):
    answer = server.get(f"{API}/runners", token=make_key(server, "files"))
    python = next(one for one in answer.json["runners"] if one["language"] == "python")
    assert python["has_sessions"] and "py" in python["aliases"] and re.match(r"3\.\d+", python["version"])
    assert server.get(f"{API}/runners", token=None).status == 401


def containers(server, limit):
    """All of them, page by page."""
    cursor = ""
    while cursor is not None:
        page = server.get(f"{API}/containers?limit={limit}{cursor and '&cursor=' + cursor}").json
        assert len(page["containers"]) <= limit
        yield from page["containers"]
        cursor = page["next_cursor"]


def test_a_session_is_a_container(server, session):
    run(server, session, "sum(range(1_000_000))")
    container = server.get(f"{API}/containers/{session}").json
    usage = container.pop("usage")
    if covetest.IS_ROOT:  # who has no groups has no counters
        assert usage["cpu_ms"] > 0 and usage["peak_memory_bytes"] > 512 << 10 and usage["pids"] >= 2
    listed = next(one for one in containers(server, 1) if one["id"] == session)
    assert listed == container | {"usage": None}
    assert (container["state"], container["runtime"], container["language"]) == ("ready", "native", "python")
    assert container["limits"]["memory_bytes"] == 256 << 20
    assert server.delete(f"{API}/sessions/{session}").status == 200
    for path in f"{API}/containers/{session}", f"{API}/containers/{session}/logs":
        answer = server.get(path)
        assert answer.status == 404 and answer.code == "container_not_found"


def logs(server, session):
    return server.get(f"{API}/containers/{session}/logs").json


def test_logs_are_the_last_of_what_was_printed(server, session):
    assert logs(server, session) == {"id": session, "entries": [], "dropped_bytes": 0}
    run(server, session, "import sys; print('out'); print('err', file=sys.stderr)")
    entries = logs(server, session)["entries"]
    assert {(one["stream"], one["text"]) for one in entries} == {("stdout", "out\n"), ("stderr", "err\n")}
    run(server, session, "for i in range(100_000): print(i)")
    told = logs(server, session)
    text = "".join(one["text"] for one in told["entries"])
    assert text.endswith("\n99998\n99999\n")
    assert 32 << 10 < len(text) <= 64 << 10
    assert told["dropped_bytes"] + len(text) == len("out\nerr\n") + sum(len(f"{i}\n") for i in range(100_000))
    assert all(a["time"] <= b["time"] for a, b in zip(told["entries"], told["entries"][1:]))


def test_logs_of_any_bytes(server, session):
    run(server, session, r"import sys; sys.stdout.buffer.write(b'\xff\x00\x1b[31m')")
    assert [one["text"] for one in logs(server, session)["entries"]] == ["\ufffd\0\x1b[31m"]


def test_the_next_process_tells_the_same():
    with Server() as server:
        session = server.post(f"{API}/sessions", {"language": "python"}).json["id"]
        run(server, session, "print(1)")
        before = server.get(f"{API}/containers/{session}").json
        server.kill_coved()
        assert server.get("/health/ready", token=None).status == 200
        assert server.get("/health").json["load"]["sessions"] == 1
        [node] = server.get(f"{API}/nodes").json["nodes"]
        assert (node["epoch"], node["state"], node["load"]["sessions"]) == (2, "ready", 1)
        def taken_over():  # its interpreter has yet to answer when the server does already
            container = server.get(f"{API}/containers/{session}").json
            return container["state"] == "ready" and container
        after = wait_for(taken_over, "a session that is ready")
        assert after.pop("usage")["cpu_ms"] >= before.pop("usage")["cpu_ms"]
        assert after | {"last_used_at": None} == before | {"last_used_at": None}  # which is written now and then
        assert samples(server)["cove_sessions", ("state", "ready")] == 1


# --- what is not in force -------------------------------------------------------------------------

def interpreters(server):
    """Those that sessions are made from, by the pid that they have inside."""
    return [pid for pid in crashers.server_pids(server.group)
            if covetest.status_of(pid).get("NSpid", "").split()[1:] == ["300"]]


@pytest.mark.skipif(not covetest.IS_ROOT, reason="looks for processes of a cgroup")
def test_a_warm_interpreter_that_is_missing_is_told_of():
    with Server() as server:
        ours = next(one["id"] for one in server.get(f"{API}/templates").json["templates"] if one["name"] == "python")

        def is_cold():
            return samples(server).get(("cove_pool_cold", ("template", ours)))

        def pools():
            return server.get("/health").json["components"]["pools"]

        def end_them():
            for pid in interpreters(server):
                covetest.kill_quietly(pid)
            return is_cold() and pools()["state"] == "degraded" and pools()
        wait_for(lambda: interpreters(server) and is_cold() == 0, "a warm interpreter")
        assert server.get("/health").json["status"] == "ok"
        found = wait_for(end_them, "word of it")
        assert "warm interpreter" in found["message"]
        [line] = [line for line in server.log if line["message"].startswith("no warm interpreter")]
        assert (line["level"], line["template"]) == ("warn", ours) and line["error"]
        answer = server.post("/execute", {"code": "print(6 * 7)"})
        assert answer.status == 200 and answer.json["stdout"] == "42\n"
        wait_for(lambda: is_cold() == 0 and pools()["state"] == "ok", "another one")
        assert [line["template"] for line in server.log if line["message"] == "a warm interpreter is there again"] == [ours]


def test_layers_are_told_of_one_by_one(server):
    health = wait_for(lambda: (server.get("/health").json if server.get("/health").json["tier"] else None), "the layers")
    found = {dict(labels)["layer"]: value for (name, *labels), value in samples(server).items() if name == "cove_isolation_layer"}
    assert found == dict.fromkeys(health["layers"], 1) | dict.fromkeys(health["missing_layers"], 0)
    assert len(found) == len(health["layers"]) + len(health["missing_layers"])
    assert health["limits_not_in_force"] == (["cpus"] if "cpu cgroup" in health["missing_layers"] else [])


def test_what_younger_kernels_have_is_told_of(server):
    health = wait_for(lambda: (server.get("/health").json if server.get("/health").json["tier"] else None), "the layers")
    found = {dict(labels)["feature"]: bool(value) for (name, *labels), value in samples(server).items() if name == "cove_kernel_feature"}
    assert [name for name, is_there in found.items() if not is_there] == health["missing_kernel_features"]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        try:
            ours.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            assert not found["descriptors refused"]
        else:
            assert found["descriptors refused"]
    told = [line["missing"] for line in server.log if "missing" in line]
    assert told == ([", ".join(health["missing_kernel_features"])] if health["missing_kernel_features"] else [])


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_what_an_ordinary_user_lacks_is_in_the_log(kind):
    if reason := covetest.why_no_rootless(kind):
        pytest.skip(reason)
    with Server(cove=covetest.rootless(kind)) as server:
        health = wait_for(lambda: (server.get("/health").json if server.get("/health").json["tier"] else None), "the layers")
        told = [line for line in server.log if line["message"].startswith("this host lacks layers")]
        assert [line["layers"].split(", ") for line in told] == ([health["missing_layers"]] if health["missing_layers"] else [])
        assert all(line["level"] == "info" and line["limits"] == (", ".join(health["limits_not_in_force"]) or None) for line in told)


# --- the log --------------------------------------------------------------------------------------

def lines(server, **wanted):
    return [line for line in server.log if all(line.get(key) == value for key, value in wanted.items())]


def test_each_request_has_a_line(server):
    key = make_key(server, "sessions:read")
    answer = server.get(f"{API}/sessions?metadata=secret%3Dhidden", token=key, headers={"User-Agent": "some-agent"})
    [line] = wait_for(lambda: lines(server, request=answer.headers["X-Request-Id"]), "the line")
    assert set(line) == {"time", "level", "message", "request", "method", "route", "status", "ms", "bytes_in",
                         "bytes_out", "owner", "peer"}
    assert (line["message"], line["level"], line["method"]) == ("request", "info", "GET")
    assert (line["route"], line["status"], line["peer"]) == ("listSessions", 200, "127.0.0.1")
    assert line["bytes_out"] == len(answer.body) and 0 < line["ms"] < 60_000
    assert line["owner"].removeprefix("key_") == key.split("_")[1]
    text = server.log_path.read_text()
    for secret in key, server.token, "secret", "hidden", "some-agent":
        assert secret not in text


def test_each_execution_has_a_line(server, session):
    in_session = run(server, session, "'secret-of-the-code'; import sys; sys.exit(3)")
    alone = server.post("/execute", {"code": "print(1)"}).json
    for execution in in_session, alone:
        [line] = wait_for(lambda one=execution: lines(server, execution=one["id"]), "the line")
        assert line["message"] == "execution ended"
        assert line["session"] == execution["session_id"]
        assert line["state"] == execution["state"]
        assert line["reason"] == (execution["reason"] and execution["reason"]["kind"])
        assert line["cpu_ms"] == pytest.approx(execution["usage"]["cpu_ms"], abs=0.01)
        assert json.dumps(line).count("secret") == 0
