# SPDX-License-Identifier: Apache-2.0
"""Whether a server keeps anything of what it has served."""
import os
import re
import statistics

import covetest
from crashers import EXECUTIONS, SESSIONS, pages, side_by_side

CLIENTS, WARM_UP = 8, 1600  # executions
SMALL = {"resources": {"memory_bytes": 64 << 20, "pids": 16}}
LEAK_BYTES, STEP_BYTES = 1024, 24 << 20  # of the heap, for each thing served; of the process, where the allocator keeps a peak


def heap(server):
    """What the server holds on to, by its own word: what the allocator keeps of a peak comes and goes by the tens of megabytes."""
    return int(float(re.search(r"^cove_heap_bytes (\S+)$", server.get("/metrics").body.decode(), re.M)[1]))


def memory(server):
    """Of the process itself: pages of its program that it happens to have touched are not its growth."""
    return int(covetest.status_of(server.coved)["RssAnon"].split()[0]) * 1024


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


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


def assert_flat(seen, count):
    """A leak lifts every reading above the last, and the lowest of the second half above that of the first. What is freed late
    does only the one, and what the allocator takes once and keeps only the other."""
    half = len(seen) // 2
    rises = [later - earlier for earlier, later in zip(seen, seen[1:])]
    is_rising = statistics.median(rises) >= LEAK_BYTES * count
    is_lifted = min(seen[half:]) - min(seen[:half]) >= LEAK_BYTES * count * half
    assert not (is_rising and is_lifted), seen


def assert_given_back(seen):
    assert seen[-1] - seen[0] < STEP_BYTES, seen
