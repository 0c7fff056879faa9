# SPDX-License-Identifier: Apache-2.0
"""Many sessions over HTTP, all of them executing at the same time; and what the server keeps of them afterwards."""
import contextlib
import itertools
import json
import os
import pathlib
import resource
import statistics

import pytest

import covetest
import crashers
from covetest import IS_ASAN, wait_for
from crashers import EXECUTIONS, SESSIONS, pages, side_by_side
from server import Answer, Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

COUNT, LONG_COUNT, CYCLES, CLIENTS = (60 if IS_ASAN else 200), 1000, 6, 8
LEAK_BYTES, STEP_BYTES = 1024, 24 << 20  # of each session; once, where the allocator keeps a peak
WARM_UP = 1600  # executions
SMALL = {"resources": {"memory_bytes": 64 << 20, "pids": 16}}
PROGRAM = """
import os, time
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
print({number} * {number})
"""


def memory(server):
    """Of the process itself: pages of its program that it happens to have touched are not its growth."""
    return int(covetest.status_of(server.coved)["RssAnon"].split()[0]) * 1024


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def create_all(server, count):
    def some(share):
        connection = server.connect()
        answers = [server.post(SESSIONS, SMALL, connection=connection) for _ in share]
        connection.close()
        assert {answer.status for answer in answers} <= {201}, answers[-1]
        return [answer.json["id"] for answer in answers]
    return [one for part in side_by_side(some, [range(n, count, CLIENTS) for n in range(CLIENTS)]) for one in part]


def begin_all(server, sessions):
    """A connection each, whose answer comes when its code has ended."""
    connections = []
    for number, session in enumerate(sessions):
        connection = server.connect()
        wish = {"code": PROGRAM.format(number=number), "mode": "sync", "timeout": 600}
        server.begin(connection, "POST", f"{SESSIONS}/{session}/execute", wish)
        connections.append(connection)
    return connections


def let_go(server):
    for pid in crashers.server_pids(server.group):
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{pid}/cwd/go").touch()


def end_all(connections):
    documents = []
    for connection in connections:
        response = connection.getresponse()
        answer = Answer(response, response.read())
        assert answer.status == 200, answer
        documents.append(answer.json)
        connection.close()
    return documents


def one_cycle(server, count):
    sessions = create_all(server, count)
    assert len(set(sessions)) == count
    connections = begin_all(server, sessions)
    wait_for(lambda: len(pages(server, f"{EXECUTIONS}?state=running", "executions")) == count, "all of them to run")
    let_go(server)
    for number, document in enumerate(end_all(connections)):
        assert (document["state"], document["stdout"]) == ("completed", f"begun\n{number * number}\n"), document
    for part in side_by_side(lambda n: [server.delete(f"{SESSIONS}/{one}").json["state"] for one in sessions[n::CLIENTS]],
                             range(CLIENTS)):
        assert set(part) <= {"terminated"}
    assert pages(server, f"{SESSIONS}?live=true", "sessions") == []


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def warm_up(server):
    """The database keeps pages in memory, up to a limit; from then on growth is somebody's mistake."""
    def some(_):
        session = server.post(SESSIONS, SMALL).json["id"]
        connection = server.connect()
        for _ in range(WARM_UP // CLIENTS):
            answer = server.post(f"{SESSIONS}/{session}/execute", {"code": "print('x' * 2000)", "mode": "sync"},
                                 connection=connection)
            assert answer.json["state"] == "completed", answer
        connection.close()
        server.delete(f"{SESSIONS}/{session}")
    side_by_side(some, range(CLIENTS))
    for document in pages(server, EXECUTIONS, "executions"):
        assert server.get(f"{EXECUTIONS}/{document['id']}").status == 200


def test_all_at_once_and_nothing_stays(is_long, many_files):
    count = LONG_COUNT if is_long else COUNT
    with Server("--max-sessions", str(count + 16)) as server:
        coved, spawner = server.coved, server.process.pid
        seen = []
        warm_up(server)
        for _ in range(CYCLES):
            one_cycle(server, count)
            wait_for(lambda: len(covetest.sandbox_groups(server.group)) < count, "the sandboxes to be gone")
            seen.append((memory(server), fds(coved), fds(spawner)))
        print(json.dumps({"sessions": count, "memory, fds of coved, fds of spawner": seen}))
        assert server.coved == coved
        if not IS_ASAN:  # which keeps freed memory for a while
            growth = [after[0] - before[0] for before, after in itertools.pairwise(seen)]
            assert statistics.median(growth) < LEAK_BYTES * count and sum(growth) < STEP_BYTES, seen
        assert seen[-1][1] <= seen[0][1] + 2 and seen[-1][2] <= seen[0][2] + 8, seen  # those of parked ones come and go
        assert server.stop() == 0
        server.nothing_is_left()
