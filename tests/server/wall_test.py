# SPDX-License-Identifier: Apache-2.0
"""Code in a session that wants the host to wait for it: descriptors of all kinds, sent over the channel of its own kernel.

The last who closes one may have to wait, for as long as its maker likes. Whatever is sent, everybody else is served, by the same
processes as before."""
import os
import signal
import threading
import time

import pytest

import covetest
import strays
from covetest import wait_for
from crashers import SESSIONS, create, execute
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

HEALTH_S = 2 * covetest.SLOWNESS


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        coved, spawner = server.coved, server.process.pid
        yield server
        assert (server.coved, server.process.pid) == (coved, spawner), "the same processes"
        assert server.stop() == 0
        server.nothing_is_left()


class Watch(threading.Thread):
    """Asks /health all the time; `longest_s` is what an answer took at most."""

    def __init__(self, server):
        super().__init__()
        self.server, self.is_over, self.longest_s, self.asked = server, threading.Event(), 0, 0

    def run(self):
        while not self.is_over.is_set():
            begin = time.monotonic()
            assert self.server.get("/health").status == 200
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            self.asked += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()


@pytest.mark.parametrize("kind", strays.KINDS)
def test_descriptors_from_inside_stop_nobody(server, kind):
    session = create(server)["id"]
    coved = server.coved
    with Watch(server) as watch:
        done = execute(server, session, strays.attack(kind))
        if strays.kernel_refuses():
            assert (done["state"], done["stdout"]) == ("completed", "refused\nrefused\n"), done
        else:
            assert (done["state"], done["reason"]["kind"]) == ("failed", "runner_died"), done
            wait_for(lambda: server.get(f"{SESSIONS}/{session}").json["state"] in ("failed", "terminated"), "its sandbox has ended")
        assert server.delete(f"{SESSIONS}/{session}").status == 200
        seen = watch.asked
        wait_for(lambda: watch.asked > seen + 1, "an answer behind all of it")
    assert watch.longest_s < HEALTH_S
    assert server.coved == coved


def test_a_coved_that_stands_still_is_replaced_with_its_sessions():
    with Server("--watchdog", "2s") as server:
        session = create(server)["id"]
        assert execute(server, session, "x = 41")["state"] == "completed"
        stuck, count = server.coved, len(server.addresses())
        os.kill(stuck, signal.SIGSTOP)
        server.wait_ready(count + 1)
        assert server.coved != stuck
        assert execute(server, session, "print(x + 1)")["stdout"] == "42\n"
        assert "the client has not turned its loop for" in server.log_path.read_text()
        assert server.stop() == 0
        server.nothing_is_left()
