# SPDX-License-Identifier: Apache-2.0
"""Sessions that nobody uses stand still, where the operator wants that, and wake up for whoever comes."""
import pytest

import covetest
from covetest import wait_for
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="freezing needs cgroups of our own")

COUNTS = ("import threading, time\nn = 0\ndef count():\n    global n\n    while True: n += 1; time.sleep(0.001)\n"
          "threading.Thread(target=count, daemon=True).start()")


def frozen(server):
    """{session: whether it stands still}"""
    return {row["id"]: row["frozen"] for row in server.get("/api/v1/containers").json["containers"]}


def run(server, session, code):
    answer = server.post(f"/api/v1/sessions/{session}/execute", {"code": code, "mode": "sync"})
    assert answer.json["state"] == "completed", answer
    return answer.json["stdout"]


def test_an_idle_session_stands_still_until_it_is_used():
    with Server("--idle-freeze", "200ms") as server:
        session = server.post("/api/v1/sessions", {"language": "python"}).json["id"]
        path = f"/api/v1/sessions/{session}"
        run(server, session, COUNTS)
        wait_for(lambda: frozen(server)[session], "it to stand still")
        assert run(server, session, "print('awake')") == "awake\n"
        wait_for(lambda: frozen(server)[session], "it to stand still again")
        assert server.put(f"{path}/files/a", b"bytes").status == 201 and server.get(f"{path}/files/a").body == b"bytes"
        assert {v["name"] for v in server.get(f"{path}/variables").json["variables"]} >= {"n", "count"}
        wait_for(lambda: frozen(server)[session], "it to stand still once more")
        server.kill_coved()
        assert run(server, session, "print(n > 0)") == "True\n", "whoever takes it over wakes it, too"
        assert server.delete(path).status == 200


def test_nothing_stands_still_unless_it_is_wanted(shared_server):
    session = shared_server.post("/api/v1/sessions", {"language": "python"}).json["id"]
    run(shared_server, session, COUNTS)
    seen = int(run(shared_server, session, "print(n)"))
    wait_for(lambda: int(run(shared_server, session, "print(n)")) > seen + 500, "it to go on")
    assert not frozen(shared_server)[session]
    assert shared_server.delete(f"/api/v1/sessions/{session}").status == 200
