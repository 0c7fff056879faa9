# SPDX-License-Identifier: Apache-2.0
"""Zygotes and what they made end when they should, whoever dies, hangs or leaves."""
import contextlib
import os
import signal
import time

import covetest
from covetest import wait_for
from spawner_protocol_test import (CONFLICT, CREATE, DESTROY, EXITED, FREEZE, ISOLATION, KILL, NOT_FOUND, SEALED,
                                   STATS, THAW, UNAVAILABLE, create_body, message)
from zygotes import LIMITS, SPEAK, hasty_host, host, pytestmark  # noqa: F401


# --- how things end -----------------------------------------------------------------------------


def test_sandboxes_outlive_their_zygote(host):
    zygote = host.zygote()
    session = host.session(zygote)
    assert host.ask(DESTROY, zygote).failure is None
    wait_for(lambda: not host.zygote_pids(), "the end of the zygote")
    assert session.run("print(1)") == "1\n"
    code, _, _, step = host.ask_warm(zygote).failure
    assert (code, step) == (NOT_FOUND, "no such zygote")
    assert host.ask(DESTROY, zygote).failure[0] == NOT_FOUND
    other = host.zygote()
    assert host.session(other).run("print(2)") == "2\n"
    assert session.run("print(3)") == "3\n"
    host.destroy(session)
    host.end()


MANY = 60_000  # files


def spent_us(pid):
    return int(covetest.read_text(f"/proc/{pid}/schedstat").split()[0]) // 1000


def test_a_storage_with_many_files_is_taken_down_beside_the_spawner(host):
    """It takes a sixth of the time in which they were made, which nobody else shall wait."""
    session = host.session(host.zygote(), inodes=MANY + 100)
    made_us = session.value(f"""
import time
before = time.process_time_ns()
for i in range({MANY}): open(f"/workspace/{{i}}", "x").close()
print((time.process_time_ns() - before) // 1000)""")
    assert host.ask(STATS, session.id).stats["inodes_free"] < 100
    before_us = spent_us(host.process.pid)
    host.destroy(session)
    host.ask(STATS, 1)  # the turn of the loop in which it went is over
    used_us = spent_us(host.process.pid) - before_us
    assert used_us < made_us / 15, f"the spawner took {used_us} us to end what took {made_us} us to make"
    wait_for(lambda: not host.find("cove-spawner"), "the end of the helper")
    host.end()


def test_a_killed_zygote_is_told_and_creates_fail(host):
    zygote = host.zygote()
    session = host.session(zygote)
    pid, = host.zygote_pids()
    os.kill(pid, signal.SIGKILL)
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    assert session.run("print(1)") == "1\n"
    host.end()


def test_a_zygote_killed_at_work_fails_the_create(host):
    zygote = host.zygote()
    for _ in range(10):
        pid, = host.zygote_pids()
        host.serial += 1
        host.send(message(CREATE, host.serial, body=create_body(host.digest, zygote=zygote, **LIMITS)))
        os.kill(pid, signal.SIGKILL)
        answer = host.next_reply()
        if answer.failure is None:  # then it is sealed or not, and nothing between
            host.news(SEALED, answer.sandbox)
            for fd in answer.fds:
                os.close(fd)
        zygote = host.zygote()
    host.end()


def test_the_end_of_the_spawner_is_the_end_of_all(host):
    zygote = host.zygote()
    host.session(zygote)
    assert len(covetest.sandboxed()) >= 3
    host.process.kill()
    host.process.wait()
    wait_for(lambda: not covetest.sandboxed(), "no process of a sandbox")
    covetest.Cove().good("-l", "bash", "-c", "")  # whoever comes next removes the groups
    covetest.nothing_is_left()


def test_destroyed_before_it_was_sealed(host):
    zygote = host.zygote()
    for number in range(20):
        limits = {"open_files": 100 + number % 2}  # each second one finds a spare that does not fit
        answer = host.ask_warm(zygote, **limits)
        assert answer.failure is None
        assert host.ask(DESTROY, answer.sandbox).failure is None
        for fd in answer.fds:
            os.close(fd)
    assert host.session(zygote).run("print(1)") == "1\n"
    host.end()


def test_kill_is_followed_by_exited(host):
    session = host.session(host.zygote())
    host.ask(KILL, session.id)
    assert host.news(EXITED, session.id).stats["is_over"]
    host.destroy(session)
    host.end()


def test_a_client_that_leaves_at_any_moment_leaves_nothing(host):
    host.begin_zygote()
    host.end()


# --- zygotes that hang --------------------------------------------------------------------------

IN_TIME_S = 60  # what is stopped would never be sealed
UNLIKE = {"open_files": 99}  # no spare fits: it is the zygote itself that is asked


def stop(host):
    """Stops the zygote, with a spare beside it, until which is wanted or gone it waits in the kernel; -> its pid."""
    wait_for(host.has_spare, "a spare")
    pid, = host.zygote_pids()
    os.kill(pid, signal.SIGSTOP)
    return pid


def close_all(answer):
    for fd in answer.fds:
        os.close(fd)


def test_a_zygote_that_is_never_ready_ends_with_its_lifetime(host):
    answer = host.begin_zygote(kernel=b"import time\ntime.sleep(1000)", lifetime_ms=1500)
    assert host.news(SEALED, answer.sandbox).failure == (UNAVAILABLE, 0, -1, "the zygote was not ready in time")
    wait_for(lambda: not covetest.sandboxed(), "no process of it")
    assert host.ask(DESTROY, answer.sandbox).failure[0] == NOT_FOUND
    host.end()


def test_a_zygote_that_is_stopped_while_it_starts_ends_with_its_lifetime(host):
    answer = host.begin_zygote(kernel=b"import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", lifetime_ms=1500)
    assert host.news(SEALED, answer.sandbox).failure == (UNAVAILABLE, 0, -1, "the zygote was not ready in time")
    host.end()


def test_a_lifetime_ends_a_zygote_that_is_ready(host):
    for lifetime_ms in (4000, 16_000, 64_000):  # where the machine does other work, it takes longer until one is ready
        answer = host.begin_zygote(lifetime_ms=lifetime_ms)
        failure = host.news(SEALED, answer.sandbox).failure
        if failure is None:
            break
        assert failure == (UNAVAILABLE, 0, -1, "the zygote was not ready in time")
    assert failure is None
    assert host.news(EXITED, answer.sandbox).stats["is_over"]
    assert host.ask_warm(answer.sandbox).failure[0] == NOT_FOUND
    host.end()


def test_a_stopped_zygote_fails_what_waits_for_it_in_time(host):
    zygote = host.zygote()
    session = host.session(zygote)
    stop(host)
    began = time.monotonic()
    answer = host.ask_warm(zygote, **UNLIKE)
    assert answer.failure is None
    for verb in (FREEZE, THAW):
        assert host.ask(verb, answer.sandbox).failure == (CONFLICT, 0, -1, "the sandbox is not sealed, or over")
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.news(SEALED, answer.sandbox).failure[0] == ISOLATION
    assert 9 < time.monotonic() - began < IN_TIME_S, "ten seconds by default"
    close_all(answer)
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    assert session.run("print(1)") == "1\n", "what it had made lives on"
    assert host.session(host.zygote()).run("print(2)") == "2\n"
    host.end()


def test_what_a_stopped_zygote_made_in_advance_is_sealed_in_time_or_not_at_all(hasty_host):
    """It has the zygote's memory until it is let go, and the zygote its sockets."""
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    stop(host)
    answer = host.ask_warm(zygote)
    assert answer.failure is None
    assert host.news(EXITED, zygote).stats["is_over"]
    assert host.news(SEALED, answer.sandbox).failure == (ISOLATION, 0, -1, "it was not sealed in time")
    close_all(answer)
    host.end()


def test_a_stopped_zygote_can_be_destroyed(host):
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    host.serial += 1
    host.send(message(DESTROY, host.serial, sandbox=zygote))
    heard = {(news.verb, news.sandbox): news.failure for news in (host.receive(), host.receive())}
    assert heard.pop((DESTROY, zygote)) is None and not os.path.exists(f"/proc/{pid}"), "answered when it is gone"
    assert heard[SEALED, answer.sandbox][0] == ISOLATION
    close_all(answer)
    host.end()


def test_one_that_waits_for_a_stopped_zygote_can_be_destroyed(hasty_host):
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    host.serial += 1
    host.send(message(DESTROY, host.serial, sandbox=answer.sandbox))
    os.kill(pid, signal.SIGCONT)
    assert host.next_reply().failure is None
    close_all(answer)
    assert host.session(zygote).run("print(1)") == "1\n"
    stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    assert host.ask(DESTROY, answer.sandbox).failure is None, "also when it goes on no more"
    close_all(answer)
    assert host.ask_warm(zygote).failure[0] == NOT_FOUND
    host.end()


def test_a_client_that_leaves_a_stopped_zygote_leaves_nothing(host):
    zygote = host.zygote()
    host.session(zygote)
    stop(host)
    close_all(host.ask_warm(zygote, **UNLIKE))
    host.end()


def test_a_zygote_that_dies_before_it_seals_fails_the_create(host):
    zygote = host.zygote()
    host.session(zygote)
    pid = stop(host)
    answer = host.ask_warm(zygote, **UNLIKE)
    os.kill(pid, signal.SIGKILL)
    assert host.news(SEALED, answer.sandbox).failure[0] == ISOLATION
    close_all(answer)
    host.end()


def test_a_process_that_dies_while_it_is_sealed_fails_the_create(host):
    zygote = host.zygote()
    host.session(zygote)
    wait_for(host.has_spare, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGKILL)
    answer = host.ask_warm(zygote)  # may be refused at once, or be told
    failure = answer.failure or host.news(SEALED, answer.sandbox).failure
    assert failure, "it is sealed, and dead"
    close_all(answer)
    assert host.session(zygote).run("print(1)") == "1\n", "the zygote makes others"
    host.end()


def test_a_process_that_is_stopped_while_it_is_sealed_fails_the_create_in_time(hasty_host):
    host = hasty_host
    zygote = host.zygote()
    host.session(zygote)
    wait_for(host.has_spare, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGSTOP)
    began = time.monotonic()
    answer = host.ask_warm(zygote)
    failure = answer.failure or host.news(SEALED, answer.sandbox).failure
    assert failure and time.monotonic() - began < IN_TIME_S, failure
    close_all(answer)
    host.end()


def test_a_client_that_leaves_a_process_stopped_at_birth_leaves_nothing(host):
    zygote = host.zygote()
    host.session(zygote)
    wait_for(host.has_spare, "a spare")
    spare, = set(host.find("python3")) - set(host.zygote_pids())
    os.kill(spare, signal.SIGSTOP)
    host.end()


# --- descriptors --------------------------------------------------------------------------------


HOT = 16  # as many may hold more than others: src/spawner/hot.h
HELD_BY_HOT = 19  # a network namespace and its five files, four ways into its groups, nine files of them


def held(host):
    return len(os.listdir(f"/proc/{host.process.pid}/fd"))


def settled(host):
    """When the next one is sealed in advance, nobody seals any more."""
    wait_for(host.has_spare, "a sandbox made in advance")
    return held(host)


def test_only_the_last_ones_hold_more_than_three_descriptors(host):
    zygote = host.zygote()
    host.destroy(host.session(zygote))
    none = settled(host)
    made = [host.session(zygote) for _ in range(HOT)]
    full = settled(host)
    assert full - none <= (3 + HELD_BY_HOT) * HOT
    more = [host.session(zygote) for _ in range(2 * HOT)]
    assert settled(host) - full <= 3 * len(more)
    made += more
    assert made[0].run("print(1)") == "1\n" and host.ask(STATS, made[0].id).stats["pids_now"] == 2
    for each in made:
        host.destroy(each)
    wait_for(lambda: held(host) <= none + 8 * 6, "only of eight network namespaces something is left")
    host.end()


def begin_and_end(host):
    zygote = host.zygote()
    for _ in range(2):
        made = [host.session(zygote) for _ in range(12)]  # more than can wait to be used again
        made[0].run(SPEAK)
        most = held(host)
        for each in made:
            host.destroy(each)
    host.ask(DESTROY, zygote)
    wait_for(lambda: not covetest.children_of(host.process.pid), "the end of all processes")
    return most


def test_no_descriptor_is_left_of_a_zygote_and_its_sandboxes(host):
    begin_and_end(host)  # what the first one opens stays
    before = held(host)
    assert begin_and_end(host) > before
    wait_for(lambda: held(host) <= before, "the end of every descriptor")
    host.end()


def test_one_that_is_over_holds_no_network(host):
    """Whoever destroys it may come late."""
    zygote = host.zygote()
    for _ in range(3):
        host.destroy(host.session(zygote))
    session = host.session(zygote)
    which = os.readlink(f"/proc/{host.init_of(session)}/ns/net")
    assert host.ask(KILL, session.id).failure is None
    host.news(EXITED, session.id)
    links = []
    for fd in os.listdir(f"/proc/{host.process.pid}/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{host.process.pid}/fd/{fd}"))
    assert which not in links
    host.destroy(session)
    host.end()
