# SPDX-License-Identifier: Apache-2.0
"""Many sessions over HTTP, all of them executing at the same time; and what the server keeps of them afterwards."""
import contextlib
import json
import os
import pathlib
import re
import resource

import pytest

import covetest
import crashers
from covetest import IS_ASAN, wait_for
from crashers import EXECUTIONS, SESSIONS, pages, side_by_side
from growth import CLIENTS, SMALL, assert_nothing_stays, fds, is_at_rest, rounds_until_rest, warm_up
from server import Answer, Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

COUNT, LONG_COUNT = (60 if IS_ASAN else 200), 1000
PROGRAM = """
import os, time
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
print({number} * {number})
"""


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


def is_stocked(server):
    """Whether its pools have as many parked sandboxes as they want, and make no more."""
    text = server.get("/metrics").body.decode()

    def figures(name):
        return re.findall(rf"^cove_pool_{name}{{(.*)}} (\S+)$", text, re.M)
    return figures("target") and figures("parked") == figures("target") and {figure for _, figure in figures("creating")} == {"0"}


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("seen", [
    [3714208, 3910592, 4091152, 4091200, 4091100],  # a cache is full
    [5720144, 5719968, 5719888],
    [5448368, 5554992, 5460176],  # what is freed late
])
def test_a_leak_is_told_from_a_cache(seen):
    assert is_at_rest(seen, 250)
    leaking = [heap + number * 250000 for number, heap in enumerate(seen)]
    assert not any(is_at_rest(leaking[:length], 250) for length in range(len(leaking) + 1))


def test_all_at_once_and_nothing_stays(is_long, many_files):
    count = LONG_COUNT if is_long else COUNT
    with Server("--max-sessions", str(count + 16)) as server:
        coved = server.coved

        def one_round():
            one_cycle(server, count)
            wait_for(lambda: len(covetest.sandbox_groups(server.group)) < count, "the sandboxes to be gone")
            wait_for(lambda: is_stocked(server), "the pools to be full")
        warm_up(server)
        seen = rounds_until_rest(server, one_round, count)
        print(json.dumps({"sessions": count, "heap, memory, fds of coved, fds of spawner": seen}))
        assert server.coved == coved
        assert_nothing_stays(server, seen, more_fds=2)
        assert server.stop() == 0
        server.nothing_is_left()


def test_the_limit_of_open_files_is_the_sandbox_s_and_not_the_spawner_s():
    """A sandbox that starts cold is sealed in a copy of the spawner, which has files open for all the others."""
    limit = 256
    with Server("--open-files", limit) as server:
        while fds(server.process.pid) < limit + 10:
            last = server.post(SESSIONS, SMALL | {"language": "bash"})
            assert last.status == 201, (last, fds(server.process.pid))
        answer = server.post(f"{SESSIONS}/{last.json['id']}/execute", {"code": "ulimit -n", "mode": "sync"})
        assert answer.json["stdout"] == f"{limit}\n", answer


def zygotes(server):
    return [pid for pid in crashers.server_pids(server.group)
            if covetest.status_of(pid).get("NSpid", "").split()[1:] == ["300"]]


def test_a_rush_has_an_interpreter_for_each_processor(is_long):
    """And those that it called go when it is over."""
    if not is_long:
        pytest.skip("takes a minute: see ./test --long (how many there are is a unit test)")
    wanted = min(2, len(os.sched_getaffinity(0)))
    with Server() as server:
        wait_for(lambda: len(zygotes(server)) == 1, "the first interpreter")

        def run(number):
            connection, runs = server.connect(), 0
            while len(zygotes(server)) < wanted or runs < 10:
                answer = server.post("/execute", {"code": f"print({number})"}, connection=connection)
                assert answer.status == 200 and answer.json["stdout"] == f"{number}\n", answer
                runs += 1
            connection.close()
        side_by_side(run, range(CLIENTS))
        assert len(zygotes(server)) == wanted
        wait_for(lambda: len(zygotes(server)) == 1, "the others to go", 120)
