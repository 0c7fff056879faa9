# SPDX-License-Identifier: Apache-2.0
"""Copies of one warm python are alike in nothing that must differ."""
import contextlib
import fcntl
import json
import os
import select
import socket
import stat
import struct

import pytest

import covetest
from spawner_protocol_test import DESTROY
from strays import SO_PASSRIGHTS
from zygotes import KERNEL, PATIENCE, SPEAK, host, pytestmark  # noqa: F401


# --- siblings share nothing ---------------------------------------------------------------------


CHANCE = """
import random, secrets, uuid, os, tempfile, multiprocessing
import numpy, ssl
print(json.dumps([random.random(), random.getrandbits(64), list(numpy.random.rand(2)), float(numpy.random.default_rng().random()),
  secrets.token_hex(), str(uuid.uuid4()), uuid.uuid1().hex, ssl.RAND_bytes(16).hex(), os.urandom(8).hex(),
  next(tempfile._get_candidate_names()), random.Random().random(), random.SystemRandom().random(),
  multiprocessing.current_process().authkey.hex()]))
"""


def test_siblings_share_no_randomness(host):
    """With everything loaded, seeded and used before the fork: the worst case."""
    kernel = KERNEL.read_bytes() + b"\nimport random, ssl, uuid, tempfile\nrandom.seed(1); random.random(); ssl.RAND_bytes(16)\n" \
        b"uuid.uuid1(); uuid.uuid4(); tempfile._get_candidate_names()\nimport numpy\nnumpy.random.seed(1); numpy.random.rand(3)\n"
    zygote = host.zygote(preload=["numpy", "ssl", "uuid", "random", "secrets", "multiprocessing"], kernel=kernel)
    drawn = [host.session(zygote).value(CHANCE) for _ in range(4)]
    for column in zip(*drawn):
        assert len({json.dumps(value) for value in column}) == len(drawn), column
    host.end()


def test_a_copys_own_forks_have_the_hooks_of_all_modules(host):
    """Those that the copy itself had no need of, too."""
    session = host.session(host.zygote(["logging", "random", "threading"]))
    code = ("import os, random, threading\nlock = threading.Event()\nthreading.Thread(target=lock.wait, daemon=True).start()\n"
            "r, w = os.pipe()\nstate = random.getstate()\npid = os.fork()\nif pid == 0:\n"
            " os.write(w, repr((threading.active_count(), random.getstate() == state)).encode()); os._exit(0)\n"
            "os.waitpid(pid, 0); lock.set(); print(os.read(r, 100).decode())")
    assert session.run(code) == "(1, False)\n"
    host.end()


def test_siblings_share_no_file_and_no_namespace(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    first.run("[open(f'{d}/mine', 'w') for d in ('/workspace', '/tmp', '/dev/shm')]\n"
              "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0name'); t = socket.create_server(('127.0.0.1', 5000))")
    assert second.run("import os; print([os.listdir(d) for d in ('/workspace', '/data', '/tmp', '/dev/shm')])") == \
        "[[], [], [], []]\n"
    assert second.run("import socket\nfor f, a in ((socket.AF_UNIX, '\\0name'), (socket.AF_INET, ('127.0.0.1', 5000))):\n"
                      " try: socket.socket(f).connect(a); print('reached')\n except OSError as e: print(e.errno)") == "111\n111\n"
    inits = [host.init_of(session) for session in (first, second)]
    kernels = [covetest.children_of(pid)[0] for pid in inits]
    for space in ("pid", "mnt", "net", "ipc", "uts", "user", "cgroup"):
        links = [os.readlink(f"/proc/{pid}/ns/{space}") for pid in [*inits, *kernels, *host.zygote_pids()]]
        assert links[0] == links[2] and links[1] == links[3], "a kernel lives where its init does"
        assert len({links[0], links[1], links[4]}) == 3, space
    host.end()


HOARD = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
watchers = [fd for fd in (libc.inotify_init(), libc.inotify_init1(0)) if fd >= 0 or ctypes.get_errno() != errno.EMFILE]
timers = [ctypes.c_void_p() for _ in range(2000)]
had = next((i for i, timer in enumerate(timers) if libc.timer_create(1, None, ctypes.byref(timer)) < 0), len(timers))
print(json.dumps([len(watchers), had]))
"""


def test_siblings_take_no_counter_of_the_kernel_from_each_other(host):
    """Nor from the maker of their zygote's user namespace, for whom all of theirs count: nine take all that they can have of it."""
    zygote = host.zygote()
    for session in [host.session(zygote) for _ in range(10)]:
        watchers, timers = session.value(HOARD)
        assert watchers == 0 and 100 <= timers <= 256, (watchers, timers)
        kernel = covetest.children_of(host.init_of(session))[0]
        held = next(line for line in covetest.read_text(f"/proc/{kernel}/status").splitlines() if line.startswith("SigQ:"))
        assert held.split()[1] == f"{timers}/256"  # told by the host
    host.end()


NS_GET_PARENT, NS_GET_OWNER_UID = 0xb702, 0xb704


def maker_of_user_namespace(pid, is_parents=False):
    with open(f"/proc/{pid}/ns/user", "rb") as own:
        fd = fcntl.ioctl(own, NS_GET_PARENT) if is_parents else os.dup(own.fileno())
    with open(fd, "rb") as space:
        return struct.unpack("I", fcntl.ioctl(space, NS_GET_OWNER_UID, bytes(4)))[0]


def test_each_user_namespace_is_made_by_the_uid_that_it_is_for(host):
    """For its maker the kernel counts what is in it, and root makes them all."""
    session = host.session(host.zygote())
    zygote, = host.zygote_pids()
    init = host.init_of(session)
    assert maker_of_user_namespace(init) == session.host_uid
    assert maker_of_user_namespace(init, is_parents=True) == maker_of_user_namespace(zygote) == min(covetest.uids_of(zygote)) != 0
    shell, = {pid for pid in host.find("cove-init") if covetest.uids_of(pid) == covetest.uids_of(zygote)}
    assert maker_of_user_namespace(shell) == min(covetest.uids_of(shell)), "made as a cold start is"
    host.end()


SO_NETNS_COOKIE = 71  # a number that, unlike an inode's, is never used again


def network(session):
    """Which one it is, and everything that a tenant can see of it but what is the whole machine's."""
    return session.value("""
import os, socket
shown = {}
for place, _, names in os.walk("/proc/self/net"):
    for name in names:
        if name not in ("sockstat", "sockstat6", "protocols", "softnet_stat", "ptype", "netlink"):
            try: shown[name] = open(f"{place}/{name}").read()
            except OSError as e: shown[name] = e.errno
with socket.socket() as s: print(json.dumps([s.getsockopt(socket.SOL_SOCKET, %d, 8).hex(), shown]))""" % SO_NETNS_COOKIE)


QUIET = {
    "nothing": "",
    "a server that nobody asks": "import socket; s = socket.create_server(('127.0.0.1', 5000)); s.close()",
    "names of sockets": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0name')",
    "sockets that are open to the end": "import socket; s = [socket.socket(f, k) for f in (socket.AF_INET, socket.AF_INET6)"
                                        " for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]; s[0].bind(('', 5001)); s[0].listen()",
}
LOUD = {
    "a datagram": SPEAK,
    "a datagram over IPv6": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'1', ('::1', 9))",
    "a connection": "import socket\nwith socket.create_server(('127.0.0.1', 5000)) as s, socket.create_connection(('127.0.0.1', 5000)) as c: s.accept()",
    "a refused connection": "import socket; socket.socket().connect_ex(('127.0.0.1', 5000))",
    "an address that cannot be reached": "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
}


@pytest.mark.parametrize("code", QUIET.values(), ids=QUIET)
def test_a_network_in_which_nothing_happened_is_used_again(host, code):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    fresh = network(second)
    first.run(code)
    which = network(first)[0]
    host.destroy(first)
    found = [network(host.session(zygote)) for _ in range(2)]  # one was made in advance
    assert which != fresh[0] and [shown for _, shown in found] == [fresh[1]] * 2
    assert which in [each for each, _ in found]
    host.end()


@pytest.mark.parametrize("code", LOUD.values(), ids=LOUD)
def test_a_network_in_which_something_happened_is_nobodys_after(host, code):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    fresh = network(second)
    first.run(code)
    which, shown = network(first)
    assert shown != fresh[1], "it can be seen"
    host.destroy(first)
    found = [network(host.session(zygote)) for _ in range(3)]
    assert [shown for _, shown in found] == [fresh[1]] * 3
    assert which not in [each for each, _ in found]
    host.end()


@pytest.mark.parametrize("code", LOUD.values(), ids=LOUD)
def test_a_network_that_was_used_twice_is_judged_once_more(host, code):
    """By files that were open before anything happened there."""
    zygote = host.zygote()
    first = host.session(zygote)
    fresh = network(first)
    host.destroy(first)
    others = [host.session(zygote) for _ in range(2)]  # one was made in advance
    second = next(each for each in others if network(each)[0] == fresh[0])
    second.run(code)
    assert network(second) != fresh, "it can be seen"
    host.destroy(second)
    found = [network(host.session(zygote)) for _ in range(3)]
    assert [shown for _, shown in found] == [fresh[1]] * 3
    assert fresh[0] not in [each for each, _ in found]
    host.end()


def test_a_socket_that_is_still_on_its_way_keeps_its_network_to_itself(host):
    """Sent to the host, which has not looked, it outlives its process."""
    zygote = host.zygote()
    first = host.session(zygote)
    which = network(first)[0]
    with contextlib.suppress(OSError):
        first.channel.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)  # else the kernel refuses to send any
    with first.begin("import socket, array\nchannel = socket.socket(fileno=3)\n"
              "secret = socket.socket(socket.AF_UNIX); secret.bind('\\0name'); secret.listen()\n"
              "channel.sendmsg([b''.ljust(16, b'\\0')], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [secret.fileno()]))])"):
        assert select.select([first.channel], [], [], PATIENCE)[0]
    assert host.ask(DESTROY, first.id).failure is None  # and the host's end of the channel stays open
    after = [host.session(zygote) for _ in range(3)]
    assert which not in [network(session)[0] for session in after]
    for session in after:
        assert session.run("import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0name')\n"
                           "except OSError as e: print(e.errno)") == "111\n"
    first.close()
    host.end()


def kernel_of(host, session):
    kernel, = covetest.children_of(host.init_of(session))
    return kernel


def open_things(pid):
    """What it has open, by what it is; a device of everybody's is nothing shared."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        st = os.stat(f"/proc/{pid}/fd/{fd}")
        if not stat.S_ISCHR(st.st_mode):
            found[st.st_dev, st.st_ino] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def test_siblings_share_no_pid_and_no_descriptor(host):
    zygote = host.zygote()
    first, second = host.session(zygote), host.session(zygote)
    kernels = [kernel_of(host, session) for session in (first, second)]
    mine, others = (open_things(pid) for pid in kernels)
    assert mine and others and not mine.keys() & others.keys(), (mine, others)
    for pid in host.zygote_pids():
        assert not open_things(pid).keys() & (mine.keys() | others.keys())
    # Every pid is tried, and all at once; what is reached would be gone, or be told.
    assert first.value("""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reached = []
for pid in range(3, 40_000):
    try: os.kill(pid, signal.SIGKILL); reached.append(pid)
    except ProcessLookupError: pass
try: os.kill(-1, signal.SIGTERM)
except ProcessLookupError: pass
print(json.dumps([reached, os.listdir("/proc").count("2"), [n for n in os.listdir("/proc") if n.isdigit()]]))""") == [[], 1, ["2"]]
    assert second.run("print(1)") == "1\n"
    assert host.session(zygote).run("print(2)") == "2\n", "the zygote lives, too"
    host.end()


def test_a_zygote_learns_nothing_from_its_sandboxes(host):
    """Whatever a tenant has in memory, in files or in its streams is in no other sandbox, and not in the zygote."""
    zygote = host.zygote()
    first = host.session(zygote)
    word = first.run("import os; word = os.urandom(20).hex(); open('file', 'w').write(word); os.environ['WORD'] = word; print(word)")
    word = word.strip().encode()
    assert covetest.remembers(kernel_of(host, first), word), "or the search would find nothing anywhere"
    beside = host.session(zygote)
    host.destroy(first)
    after = [host.session(zygote) for _ in range(2)]  # one of them was a spare then, the other is new
    pids = [kernel_of(host, session) for session in (beside, *after)] + host.find("cove-init") + host.find("python3")
    assert len(pids) >= 8 and not [pid for pid in pids if covetest.remembers(pid, word)]
    host.end()
