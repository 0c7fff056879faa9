# SPDX-License-Identifier: Apache-2.0
"""A warm python that forks into sandboxes: it runs code, and tells what it cannot do."""
import json
import os
import pwd
import shutil
import signal
import struct
import subprocess
import tempfile

import pytest

import covetest
from spawner_protocol_test import (CREATE, DESTROY, FAILED, GUEST, GUEST_EXITED, INVALID, NOT_FOUND,
                                   SEALED, STATS, ZYGOTE, create_body, message)
from zygotes import GUEST_SIGNAL, HERE, KERNEL, PATIENCE, digest_of, host, pytestmark  # noqa: F401


# --- it works -----------------------------------------------------------------------------------


def test_a_zygote_makes_sandboxes_that_run_code(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    assert first.run("x = 20\nprint(x + 1)") == "21\n"
    assert second.run("print('x' in globals())") == "False\n"
    assert first.run("print(x)") == "20\n", "the namespace lives on"
    for session in (first, second):
        host.destroy(session)
    host.end()


def test_modules_are_there_before_they_are_imported(host):
    zygote = host.zygote(preload=["json", "decimal"])
    session = host.session(zygote)
    assert session.run("import sys; print('decimal' in sys.modules, 'csv' in sys.modules)") == "True False\n"
    assert session.run("import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(3)}).a.sum())") == "3\n"
    host.end()


def kib_of(pid, key):
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith(key))


@pytest.mark.skipif(not os.path.exists("/sys/kernel/mm/transparent_hugepage"), reason="this kernel has no large pages")
def test_the_memory_of_a_zygote_lies_in_large_pages(host):
    """Else a fork would copy an entry for each page of it. What a copy allocates itself comes in small ones, and goes back."""
    zygote = host.zygote(preload=["json", "decimal", "asyncio"])
    [pid] = host.zygote_pids()
    large, all_of_it = kib_of(pid, "AnonHugePages:"), kib_of(pid, "Anonymous:")
    assert large >= 6 << 10, f"{large} of {all_of_it} KiB"
    session = host.session(zygote)
    used = "int(open('/proc/self/statm').read().split()[1]) // 256"
    before = int(session.run(f"print({used})"))
    assert int(session.run(f"x = [object() for _ in range(3_000_000)]; print({used})")) > before + 50
    assert int(session.run(f"del x; print({used})")) < before + 20
    session.run("import gc, sys\nfor name in list(sys.modules):\n if name.startswith(('json', 'asyncio')): del sys.modules[name]\ngc.unfreeze()\ngc.collect()")
    assert session.run("import asyncio, json; print(json.dumps(asyncio.run(asyncio.sleep(0, 7))))") == "7\n"
    assert host.session(zygote).run("import json; print(json.dumps([1]))") == "[1]\n"
    host.end()


def test_a_kernel_that_is_asked_often_sleeps_when_it_is_not(host):
    """It looks for the next request for a moment, when the last came at once."""
    session = host.session(host.zygote())
    assert [session.run(f"print({n})") for n in range(200)] == [f"{n}\n" for n in range(200)]

    def used():
        return host.ask(STATS, session.id).stats["cpu_us"]

    covetest.wait_for(lambda: used() == used() == used(), "a kernel that takes no processor time")
    host.end()


def test_many_one_after_the_other_and_at_once(host):
    zygote = host.zygote()
    for _ in range(20):
        host.destroy(host.session(zygote))
    sessions = [host.session(zygote) for _ in range(20)]
    assert [session.run(f"print({n})") for n, session in enumerate(sessions)] == [f"{n}\n" for n in range(20)]
    assert len({session.host_uid for session in sessions}) == 20
    for session in sessions:
        host.destroy(session)
    host.end()


def test_what_programs_do_works_in_a_copy(host):
    """Threads, processes, locks, clocks: all that a fork may break."""
    session = host.session(host.zygote(preload=["threading", "logging", "concurrent.futures", "asyncio"]))
    assert session.run(HYGIENE) == "fine\n"
    host.end()


HYGIENE = """
import asyncio, concurrent.futures, ctypes, logging, multiprocessing, os, queue, sqlite3, subprocess, sys, tempfile, threading, time
results = queue.Queue()
threads = [threading.Thread(target=results.put, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(results.queue) == [0, 1, 2, 3]
assert threading.main_thread().native_id == os.getpid() == threading.get_native_id()
assert threading.current_thread() is threading.main_thread()
lock = threading.RLock()
with lock: assert lock._is_owned()
assert subprocess.run([sys.executable, "-c", "print(6)"], capture_output=True, text=True).stdout == "6\\n"
pid = os.fork()
if pid == 0: os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
with concurrent.futures.ThreadPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, 2])) == [1, 2]
with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
async def wait():
    await asyncio.sleep(0.001)
    return 5
loop = asyncio.new_event_loop(); assert loop.run_until_complete(wait()) == 5; loop.close()
logging.getLogger("x").warning("to stderr")if False else None
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
with tempfile.NamedTemporaryFile() as file: file.write(b"x")
assert os.sched_getaffinity(0) and ctypes.CDLL(None).sched_getcpu() in os.sched_getaffinity(0)
assert abs(time.process_time()) < 60
print("fine")
"""


def test_an_interrupt_ends_the_code_and_not_the_kernel(host):
    session = host.session(host.zygote())
    with session.begin("print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)") as output:
        assert output.readline() == "on\n"
        session.control.send(struct.pack("<Ii", GUEST_SIGNAL, signal.SIGINT).ljust(GUEST.size, b"\0"))
        assert session.finish()["name"] == "KeyboardInterrupt"
    assert session.run("print(1)") == "1\n"
    host.end()


@pytest.mark.parametrize("code, exit_code, number", [("import os; os._exit(3)", 3, 0),
                                                     ("import os; os.kill(os.getpid(), 9)", 0, 9)])
def test_init_tells_how_the_kernel_ended(host, code, exit_code, number):
    session = host.session(host.zygote())
    session.begin(code).close()
    verb, _, code, ended_by = session.control_message(GUEST_EXITED)[:4]
    assert (code, ended_by) == (exit_code, number)
    host.destroy(session)
    host.end()


# --- what is refused ----------------------------------------------------------------------------


def failing(host, **kwargs):
    answer = host.begin_zygote(**kwargs)
    assert answer.failure is None, answer.failure
    news = host.news(SEALED, answer.sandbox)
    assert news.flags & FAILED
    return news.failure[3]


def test_what_cannot_be_imported_is_told(host):
    assert failing(host, preload=["nonesuch"]) == "zygote: ModuleNotFoundError: No module named 'nonesuch'"
    assert "ModuleNotFoundError" in host.zygote_errors(), "the whole story goes to its standard error"
    assert "SyntaxError" in failing(host, kernel=b"this is no python")
    assert "JSONDecodeError" in failing(host, config=b"{")
    thread = b"import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    assert failing(host, kernel=thread) == "zygote: RuntimeError: an imported module has started a thread"
    assert failing(host, kernel=b"import os; os._exit(0)") == "the zygote died"
    assert host.session(host.zygote()).run("print(1)") == "1\n"
    host.end()


def test_an_image_without_python_is_told(host):
    assert failing(host, digest=digest_of("bash")) == "zygote: exec python3"
    host.end()


def test_creates_that_do_not_fit_are_refused(host):
    zygote = host.zygote()
    host.serial += 1
    host.send(message(CREATE, host.serial, body=create_body(digest_of("bash"), zygote=zygote)))
    assert host.next_reply().failure == (INVALID, 0, -1, "the zygote runs another image")
    assert host.ask_warm(zygote + 1).failure[0] == NOT_FOUND
    assert host.ask_warm(zygote, open_files=1).failure[0] == INVALID
    assert host.begin_zygote(zygote=zygote).failure[0] == INVALID
    assert host.begin_zygote(digest=bytes(32)).failure[0] == NOT_FOUND
    assert host.begin_zygote(memory_bytes=1).failure[0] == INVALID
    host.end()


def test_a_zygote_is_none_before_it_is_ready(host):
    answer = host.begin_zygote(kernel=b"import time\ntime.sleep(1000)")
    assert host.ask_warm(answer.sandbox).failure[3] == "the zygote is not ready"
    assert host.ask(DESTROY, answer.sandbox).failure is None
    host.end()


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_another_number_of_descriptors_ends_the_connection(host, count):
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        host.is_ended_by(message(ZYGOTE, 50, body=create_body(host.digest)), [fd] * count)
    finally:
        os.close(fd)


# --- as an ordinary user ------------------------------------------------------------------------


def made_as_user(kind, code):
    """What three sandboxes of a zygote of an ordinary user's tell of themselves, one after the other."""
    reason = covetest.why_no_rootless(kind)
    if reason:
        pytest.skip(reason)
    cove = covetest.rootless(kind)
    build = covetest.public_build()
    for path in (HERE / "warm_client.py", KERNEL):
        shutil.copy(path, build / path.name)
    run_dir = tempfile.mkdtemp(prefix="cove-test-run-")
    entry = pwd.getpwnam(cove.user)
    os.chown(run_dir, entry.pw_uid, entry.pw_gid)
    try:
        done = subprocess.run(
            ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "/usr/bin/python3", "-B",
             str(build / "warm_client.py"), str(cove.spawner), str(build / KERNEL.name), code,
             "--store", "/var/lib/cove/images", "--run-dir", run_dir],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, cwd="/",
            env={"ASAN_OPTIONS": "detect_leaks=0"})
        result = json.loads(done.stdout)
        assert (result["failure"], result["status"]) == (None, 0), (result, done.stderr)
        return result["made"]
    finally:
        shutil.rmtree(run_dir)


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_an_ordinary_user_has_zygotes_too(kind):
    made = made_as_user(kind, "import os; print(os.getuid(), os.getpid(), sorted(os.listdir('/proc'))[0])")
    assert [one["output"] for one in made] == ["1000 2 2\n"] * 3
    assert len({one["host_uid"] for one in made}) == (3 if kind == "subids" else 1)


FILLED = """
import socket
door, held, sent = socket.create_server(("127.0.0.1", 0), backlog=30), [], 0
for turn in range(50):
    if turn < 25:
        here = socket.create_connection(door.getsockname())
        here.setblocking(False)
        held.append((here, door.accept()[0]))
    for here, _ in held:
        try:
            while sent < 96 << 20: sent += here.send(bytes(1 << 16))
        except BlockingIOError: pass
print(sent >> 20)
"""


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_where_no_group_counts_them_tcp_buffers_stay_small(kind):
    """In a warm start, too: nobody reads what is sent here, so it is what the kernel holds, in MiB."""
    for one in made_as_user(kind, FILLED):
        assert 0 < int(one["output"]) < 16, one["output"]
