# SPDX-License-Identifier: Apache-2.0
"""The way out, by more devious means than another name: requests inside of requests, relays, and refusals that nobody waits for."""
import concurrent.futures
import json
import time

import pytest
import server as serving
from covetest import SLOWNESS
from egress_test import RAW, Web, allow, canary, run  # noqa: F401 (a fixture)

AT_ONCE = 3 * SLOWNESS  # seconds that a refusal may take, on a machine that does other things


@pytest.fixture(scope="module")
def web():
    """The host that is allowed."""
    one = Web()
    yield one
    one.shutdown()
    one.server_close()


@pytest.fixture(scope="module")
def outward(web):
    with serving.Server(env={"COVE_EGRESS_PRIVATE": f"localhost:{web.port}"}) as one:
        yield one


# Behind an honest request for P, in the same bytes, one for C. Whoever counts bytes otherwise than the host takes it for a second one.
BEHIND = {
    "pipelined": "GET http://localhost:P/first HTTP/1.1\nHost: x\n\n",
    "kept alive": "GET http://localhost:P/first HTTP/1.1\nHost: x\nConnection: keep-alive\nProxy-Connection: keep-alive\n\n",
    "behind a body": "POST http://localhost:P/first HTTP/1.1\nHost: x\nContent-Length: 3\n\nabc",
    "behind chunks": "POST http://localhost:P/first HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    "length in a connection header": "POST http://localhost:P/first HTTP/1.1\nHost: x\nContent-Length: 3\nConnection: Content-Length\n\nabc",
}


@pytest.mark.parametrize("first", BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize("second", ["GET http://127.0.0.1:C/second HTTP/1.1\nHost: x\n\n", "GET /second HTTP/1.1\nHost: 127.0.0.1:C\n\n",
                                    "GET http://localhost:P/second HTTP/1.1\nHost: x\n\n"], ids=["elsewhere", "bare", "here"])
def test_there_is_one_request_in_a_connection(outward, web, canary, first, second):
    """Not even the allowed host sees the second, in which anything could be."""
    seen = len(web.seen)
    text = (first + second).replace(":P/", f":{web.port}/").replace(":C", f":{canary.port}")
    answer = run(outward, RAW + f"print(ask({text!r}))", allow(f"localhost:{web.port}"))["stdout"]
    assert answer.startswith("HTTP/1.1 200") and answer.count("HTTP/1.1") == 1, answer
    assert [path for _, path, _ in web.seen[seen:]] == ["/first"] and canary.seen == []


RELAY = """
import threading
door = socket.create_server(("127.0.0.1", 8080))
def carry(a, b):
    while piece := a.recv(65536): b.sendall(piece)
    b.shutdown(socket.SHUT_WR)
def relay():
    while True:
        client, _ = door.accept(); proxy = socket.create_connection(("127.0.0.1", 808))
        for pair in ((client, proxy), (proxy, client)): threading.Thread(target=carry, args=pair, daemon=True).start()
threading.Thread(target=relay, daemon=True).start()
def through(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:8080"}))
    try: return opener.open(url, timeout=20).status
    except urllib.error.HTTPError as e: return e.code
"""


def test_a_relay_inside_has_the_same_policy(outward, web, canary):
    urls = [f"http://localhost:{web.port}/", f"http://127.0.0.1:{canary.port}/", f"http://localhost:{canary.port}/", "http://evil.example/"]
    execution = run(outward, RAW + RELAY + f"print([through(u) for u in {urls!r}])", allow(f"localhost:{web.port}"), env={"no_proxy": "", "NO_PROXY": ""})
    assert execution["stdout"].strip() == "[200, 403, 403, 403]" and canary.seen == [], execution


# (target, the host, and a word of the rule)
DENIED = [("http://evil.example/", "evil.example", "not among the hosts"), ("http://localhost:C/", "localhost", "port"),
          ("https://127.0.0.1:P/", "127.0.0.1", "not among the hosts"), ("http://127.0.0.2:C/", "127.0.0.2", "not a public one")]


@pytest.mark.parametrize("target, host, word", DENIED)
def test_a_refusal_comes_at_once_with_host_and_rule(outward, web, canary, target, host, word):
    """In what the program is told, in the reason of the execution, and in the log."""
    url = target.replace(":P", f":{web.port}").replace(":C", f":{canary.port}")
    code = f"import time, urllib.request as u\nstart = time.monotonic()\ntry: u.urlopen({url!r}, timeout=60)\nfinally: print(time.monotonic() - start)"
    policy = allow(f"localhost:{web.port}", f"127.0.0.2:{canary.port}")
    execution = run(outward, code, policy, env={"no_proxy": "", "NO_PROXY": ""}, timeout=90)
    assert float(execution["stdout"]) < AT_ONCE, execution
    assert execution["reason"]["kind"] == "egress_denied", json.dumps(execution)
    assert host in execution["reason"]["message"] and word in execution["reason"]["message"], execution["reason"]
    line = [line for line in outward.log if line["message"] == "egress denied"][-1]
    assert line["host"] == host and word in line["rule"] and line["sandbox"] == execution["id"], line
    assert word in execution["error"]["value"], execution["error"]
    assert canary.seen == []


def test_denials_of_a_session_are_those_of_the_execution(outward, web):
    """One that fails for another reason is not blamed on what an earlier one asked for."""
    session = outward.post("/api/v1/sessions", {"network": allow(f"localhost:{web.port}")}).json["id"]

    def reason(code):
        return outward.post(f"/api/v1/sessions/{session}/execute", {"code": code, "mode": "sync"}).json["reason"]

    assert reason("import urllib.request as u\nu.urlopen('http://evil.example/')")["kind"] == "egress_denied"
    assert reason("1/0")["kind"] == "exception"
    assert outward.delete(f"/api/v1/sessions/{session}").status == 200


def test_a_policy_that_names_private_addresses_opens_none(outward, canary):
    """By number, by name and in disguise: naming is the client's, vouching the operator's."""
    hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"]
    code = RAW + f"""
for host in {hosts!r}:
    print(get(f"http://{{host}}:{canary.port}/")[:12], ask(f"CONNECT {{host}}:{canary.port} HTTP/1.1\\n\\n")[:12])
"""
    start = time.monotonic()
    execution = run(outward, code, allow(*(f"{host}:{canary.port}" for host in hosts)), timeout=60)
    assert execution["stdout"].split("\n")[:-1] == ["HTTP/1.1 403 HTTP/1.1 403"] * len(hosts), execution
    assert canary.seen == [] and time.monotonic() - start < 60


def test_a_crowd_gets_its_way_out(outward, web):
    """More at once than the pool holds: an interpreter is heard of before its sandbox is known to be sealed."""
    wish = {"network": allow(f"localhost:{web.port}"), "code": f"import urllib.request as u; print(u.urlopen('http://localhost:{web.port}/').status)"}
    with concurrent.futures.ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(lambda _: outward.post("/execute", wish), range(40)))
    assert {(answer.status, answer.json.get("stdout")) for answer in answers} == {(200, "200\n")}
