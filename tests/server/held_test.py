# SPDX-License-Identifier: Apache-2.0
"""What code in many sessions answers, and the server has to hold until somebody is told: it does not pay for it, so all of it
together has a limit."""
import pytest

import covetest
from covetest import wait_for
from crashers import create, execute
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

SESSIONS = 20
MIB = 1 << 20
LIMIT = 128 * MIB  # KERNEL_ANSWERS_MAX_BYTES

# The frames of a result of 16 MB, all but the last: the host can tell nobody, and does not know that it never comes.
FILLS = """
import os, socket, struct, time
channel = socket.socket(fileno=os.dup(3))
channel.setblocking(True)
body, sent, flags = b"text/plain\\0" + b"x" * 65000, 0, 3
while sent < 16_500_000:
    channel.send(struct.pack("<IHHII", len(body), 65, flags, 1, 0) + body)
    sent, flags = sent + len(body), 1
open("sent", "x").close()
time.sleep(600)
"""


def test_what_sessions_answer_is_held_within_a_limit():
    with Server() as server:
        before = covetest.own_memory(server.coved)
        sessions = [create(server, resources={"memory_bytes": 96 * MIB})["id"] for _ in range(SESSIONS)]
        begun = [execute(server, session, FILLS, mode="async", timeout=300)["id"] for session in sessions]
        coved, highest = server.coved, 0

        def all_have_sent():
            nonlocal highest
            highest = max(highest, covetest.own_memory(coved))
            return all(server.get(f"/api/v1/sessions/{session}/files/sent").status == 200 for session in sessions)

        wait_for(all_have_sent, "all that they send")
        # Nobody is left without: a text of a megabyte is whole. And whatever came before it has been read by now.
        honest = execute(server, create(server)["id"], "'y' * 1_000_000")
        assert len(honest["results"][0]["data"]["text/plain"]) == 1_000_002 and not honest["truncated"], honest["truncated"]
        highest = max(highest, covetest.own_memory(coved))
        answers = [server.get(f"/api/v1/executions/{one}").json for one in begun]
        assert all(answer["state"] == "running" for answer in answers), [answer["reason"] for answer in answers]
        assert 32 * MIB < highest - before < LIMIT + 32 * MIB, f"from {before >> 20} to {highest >> 20} MiB"
        for session in sessions:
            assert server.delete(f"/api/v1/sessions/{session}").status in (200, 204)
        assert server.coved == coved
