# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of cove, of its spawner, of both, at any instant: nothing of the sandbox lives on."""
import contextlib
import fcntl
import os
import random
import struct
import time

import pytest

import covetest
from covetest import Cove, is_alive, nothing_is_left, wait_for

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

VICTIMS = {"cove": ["cove"], "spawner": ["cove-spawner"], "both": ["cove", "cove-spawner"],
           "both, spawner first": ["cove-spawner", "cove"]}
ROUNDS, LONG_ROUNDS = 30, 400
F_OFD_SETLK = 37
# Busy inside in every way that could outlive its parent: a session of its own, ignored signals, new children.
PROGRAM = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork() == 0: time.sleep(0.05); os._exit(0)
        os.wait()
print("ready", flush=True)
while True: pass
"""


@pytest.fixture(scope="module", autouse=True)
def orphans_come_to_us():
    with covetest.orphans_come_to_us():
        yield


def all_dead(*known):
    """Waits for the end of every process of our sandboxes; `known` are reaped by others."""
    def look():
        covetest.reap(*known)
        return not covetest.sandboxed()
    wait_for(look, "no process of a sandbox")


def family(process):
    """{name: pid} of cove and its spawner, as far as they are there, and the pids of the sandbox."""
    found, inside = {"cove": process.pid}, []
    for pid in covetest.descendants(process.pid):
        if len(covetest.status_of(pid).get("NSpid", "").split()) > 1:
            inside.append(pid)
        elif covetest.name_of(pid).startswith("cove-spawner"):
            found["cove-spawner"] = pid
    return found, inside


def strike(victims, delay):
    """Starts a run, kills the victims `delay` seconds later, and answers all pids that were seen."""
    process = Cove().start("run", "--timeout", "10m", "-c", PROGRAM)
    end, seen = time.monotonic() + delay, set()
    while time.monotonic() < end and process.poll() is None:
        found, inside = family(process)
        seen |= {*found.values(), *inside}
    found, inside = family(process)
    seen |= {*found.values(), *inside}
    for name in victims:
        if name in found:
            covetest.kill_quietly(found[name])
    process.stdout.close()
    process.stderr.close()
    if "cove" not in victims and "cove-spawner" not in found:
        process.kill()  # there was no spawner yet to be killed
    process.wait(covetest.PATIENCE)
    return seen


def is_gone(pid):
    """A number may have been given to somebody else meanwhile."""
    return not is_alive(pid) or not covetest.name_of(pid).startswith("cove")


@pytest.mark.parametrize("who", VICTIMS)
def test_a_kill_leaves_nothing_alive(who, is_long):
    dice = random.Random(who)
    rounds = (LONG_ROUNDS if is_long else ROUNDS) // len(VICTIMS) + 1
    usual = start_time()
    for _ in range(rounds):
        seen = strike(VICTIMS[who], dice.uniform(0, 2 * usual))
        all_dead()
        wait_for(lambda: all(is_gone(pid) for pid in seen), "no process of the run")
    assert Cove().good("-l", "bash", "-c", "echo next") == "next\n"
    nothing_is_left()


def start_time():
    """Seconds until a program runs here."""
    begin = time.monotonic()
    Cove().good("-c", "")
    return time.monotonic() - begin


def test_the_next_run_removes_what_a_crash_left():
    """A spawner that is killed leaves its cgroup; whoever comes next takes it away."""
    process = Cove().start("run", "--timeout", "10m", "-c", PROGRAM)
    assert process.stdout.readline() == b"ready\n"
    found, inside = family(process)
    assert len(inside) >= 2
    stale = covetest.sandbox_groups()
    assert stale
    covetest.kill_quietly(found["cove-spawner"])
    process.communicate(timeout=covetest.PATIENCE)
    assert process.returncode not in (0, 1), "the program did not end by itself"
    all_dead()
    assert covetest.sandbox_groups() == stale
    assert Cove().good("-c", "print('next')") == "next\n"
    wait_for(lambda: covetest.sandbox_groups() == [], "the groups to be gone")


@contextlib.contextmanager
def taken(slots):
    """Somebody else has sandboxes with these numbers, below another cgroup."""
    with open("/run/cove/slots", "r+b") as file:
        for slot in slots:
            with contextlib.suppress(BlockingIOError):  # somebody else has it indeed: they are free for all of this machine
                fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0))
        yield


def test_the_next_run_removes_it_although_its_number_is_taken():
    process = Cove().start("run", "--timeout", "10m", "-c", PROGRAM)
    assert process.stdout.readline() == b"ready\n"
    covetest.kill_quietly(family(process)[0]["cove-spawner"])
    process.communicate(timeout=covetest.PATIENCE)
    all_dead()
    stale = covetest.sandbox_groups()
    assert stale
    with taken({int(path.name) for path in stale}):
        assert Cove().good("-c", "print('next')") == "next\n"
        wait_for(lambda: covetest.sandbox_groups() == [], "the groups to be gone")


def test_the_next_run_leaves_live_sandboxes_alone():
    """Only groups whose spawner is gone are stale."""
    other = Cove().start("run", "--timeout", "10m", "-c", PROGRAM)
    assert other.stdout.readline() == b"ready\n"
    groups = covetest.sandbox_groups()
    assert Cove().good("-c", "print('beside it')") == "beside it\n"
    wait_for(lambda: covetest.sandbox_groups() == groups, "the group of the run to be gone, and no other")
    assert other.poll() is None
    other.terminate()
    other.communicate(timeout=covetest.PATIENCE)
    nothing_is_left()


def test_cove_tells_that_its_spawner_went_away():
    process = Cove().start("run", "--timeout", "10m", "-c", PROGRAM)
    assert process.stdout.readline() == b"ready\n"
    covetest.kill_quietly(family(process)[0]["cove-spawner"])
    _, stderr = process.communicate(timeout=covetest.PATIENCE)
    assert process.returncode == 69 and b"cove-spawner went away" in stderr
    all_dead()
    Cove().good("-c", "")
    nothing_is_left()
