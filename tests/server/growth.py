# SPDX-License-Identifier: Apache-2.0
"""Whether a server keeps anything of what it has served."""
import os
import re

import covetest
from crashers import EXECUTIONS, SESSIONS, pages, side_by_side

CLIENTS, WARM_UP = 8, 400  # executions
SMALL = {"resources": {"memory_bytes": 64 << 20, "pids": 16}}
LEAK_BYTES, STEP_BYTES = 512, 24 << 20  # of the heap, for each thing served; of the process, where the allocator keeps a peak
ROUNDS_MAX = 30
PARKED_FDS = 8  # of parked ones, of which there are fewer again some seconds after a rush, as of files that were read lately


def figure(text, name):
    return int(float(re.search(rf"^{name} (\S+)$", text, re.M)[1]))


def heap(server):
    """What the server holds on to, by its own word, but for pages of the database, of which it keeps more and more up to a limit. What
    the allocator keeps of a peak is not in it. 0 under a sanitizer, which tells of leaks itself, at the end."""
    if covetest.IS_ASAN:
        return 0
    text = server.get("/metrics").body.decode()
    return figure(text, "cove_heap_bytes") - figure(text, "cove_store_memory_bytes")


def memory(server):
    return covetest.own_memory(server.coved)


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def reading(server):
    return heap(server), memory(server), fds(server.coved), fds(server.process.pid)


def warm_up(server):
    """Every path once: statements are prepared, pools have their stock, threads have begun."""
    def some(_):
        session = server.post(SESSIONS, SMALL).json["id"]
        connection = server.connect()
        for _ in range(WARM_UP // CLIENTS):
            answer = server.post(f"{SESSIONS}/{session}/execute", {"code": "print('x' * 2000)", "mode": "sync"},
                                 connection=connection)
            assert answer.json["state"] == "completed", answer
        server.delete(f"{SESSIONS}/{session}")
        connection.close()
    side_by_side(some, range(CLIENTS))
    for document in pages(server, EXECUTIONS, "executions"):
        assert server.get(f"{EXECUTIONS}/{document['id']}").status == 200


def is_at_rest(heaps, count):
    """Whether the last two rounds, each of which served `count`, have added nothing."""
    return len(heaps) > 2 and all(abs(later - earlier) < LEAK_BYTES * count for earlier, later in zip(heaps[-3:], heaps[-2:]))


def rounds_until_rest(server, one_round, count):
    """-> a reading after each: so many of them that the heap no longer grows. What a cache takes comes to an end; a leak is never at
    rest."""
    seen = []
    while not is_at_rest([heap for heap, *_ in seen], count):
        assert len(seen) < ROUNDS_MAX, seen
        one_round()
        seen.append(reading(server))
    return seen


def assert_nothing_stays(server, seen, more_fds=PARKED_FDS):
    """Readings as `reading` makes them; so many descriptors may coved have beside the fewest of them."""
    if not covetest.IS_ASAN:  # which keeps freed memory for a while
        assert seen[-1][1] - seen[0][1] < STEP_BYTES, seen
    limits = {server.coved: min(row[2] for row in seen) + more_fds, server.process.pid: min(row[3] for row in seen) + PARKED_FDS}
    for pid, limit in limits.items():
        covetest.wait_for(lambda: fds(pid) <= limit, "no descriptor is left")
