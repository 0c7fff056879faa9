# SPDX-License-Identifier: Apache-2.0
"""A copy of a warm python is as sealed as a cold start, or it is not there."""
import json
import os
import pathlib
import signal
import subprocess

import covetest
import failclosed_test
from covetest import wait_for
from spawner_protocol_test import GUEST_EXITED, SEALED, STATS
from zygotes import ENV, HERE, PATIENCE, READY, SPEAK, Session, host, pytestmark, running_host  # noqa: F401


# --- it is as sealed as a cold one --------------------------------------------------------------


def test_a_copy_is_sealed_like_a_cold_start(host):
    code = (HERE / "sealreport.py").read_text()
    session = host.session(host.zygote())
    with session.begin(code) as output:
        assert session.finish() is None
        warm = json.loads(output.read())
    cold = json.loads(covetest.Cove().run("--cpus", "2", "--memory", "512M", "--disk", "64M", HERE / "sealreport.py").stdout)
    # Their limits are those of the request; a kernel has a channel and a spare /dev/null.
    for report in (warm, cold):
        for name in ("limits", "open", "fds"):
            report.pop(name)
        report["mounts"] = [line for line in report["mounts"] if "tmpfs none rw,size=" not in line]
    # The larger part of the filter is the zygote's own (test_seccomp.c: both together are the whole).
    counts = [int(report["status"].pop("Seccomp_filters")) for report in (warm, cold)]
    assert counts[0] == counts[1] + 1
    assert warm == cold
    host.end()


def test_a_zygote_can_seal_and_otherwise_do_what_its_copies_can(host):
    host.zygote()
    zygote, = host.zygote_pids()
    ours, its = (covetest.status_of(pid) for pid in ("self", zygote))
    assert its["Seccomp"].strip() == "2" and int(its["Seccomp_filters"]) == int(ours["Seccomp_filters"]) + 1
    host.end()


UNCONFINED = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.ExtensionFileLoader("cove_zygote", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cove_zygote", loader))
loader.exec_module(module)
module.serve(())
"""


def test_a_zygote_that_is_not_confined_serves_nobody():
    """Its sandboxes would have a part of a filter only."""
    argv = ["/usr/bin/python3", "-c", UNCONFINED, covetest.BUILD / "cove_zygote.so"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "RuntimeError: a zygote has to be confined" in done.stderr


def test_limits_are_those_of_the_create(host):
    session = host.session(host.zygote(), open_files=99, pids=17, disk_bytes=1 << 20)
    assert session.value("import resource as r; print(json.dumps([r.getrlimit(x) for x in "
                         "(r.RLIMIT_NOFILE, r.RLIMIT_NPROC, r.RLIMIT_FSIZE, r.RLIMIT_CORE)]))") == \
        [[99, 99], [17 + 64, 17 + 64], [2 << 20, 2 << 20], [1, 1]]
    assert "No space left" in session.run("try:\n open('/tmp/x', 'wb').write(bytes(2 << 20))\nexcept OSError as e: print(e)")
    host.end()


def test_the_umask_of_the_spawner_is_no_matter():
    before = os.umask(0o777)
    try:
        with running_host() as host:
            os.umask(before)
            session = host.session(host.zygote())
            assert session.value("import os; print(json.dumps([[oct(os.stat(d).st_mode), os.stat(d).st_uid] for d in "
                                 "('/tmp', '/dev/shm', '/workspace')]))") == \
                [["0o41777", session.uid], ["0o41777", session.uid], ["0o40700", session.uid]]
            host.end()
    finally:
        os.umask(before)


def test_the_groups_hold_the_copy_and_its_init(host):
    session = host.session(host.zygote())
    session.run("import subprocess; child = subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3)")
    assert host.ask(STATS, session.id).stats["pids_now"] == 3
    inside = [pid for pid in covetest.sandboxed() if covetest.uids_of(pid) == {session.host_uid}]
    assert len(inside) == 3
    paths = [covetest.groups_of(pid) for pid in inside]
    assert paths[0] == paths[1] == paths[2]
    ended = [path for path in paths[0].values() if covetest.CGROUP_PARENT in path]
    assert ended and {pathlib.PurePath(path).name for path in ended} == {str(session.host_uid - covetest.SANDBOX_UIDS.start)}
    host.end()


def test_memory_over_the_limit_ends_the_kernel_and_nobody_else(host):
    zygote = host.zygote()
    other = host.session(zygote)
    session = host.session(zygote, memory_bytes=64 << 20, disk_bytes=1 << 20)
    session.begin("x = bytearray(200 << 20)").close()
    assert session.control_message(GUEST_EXITED)[3] == signal.SIGKILL
    assert host.ask(STATS, session.id).stats["oom_kills"] >= 1
    assert other.run("print(1)") == "1\n"
    assert host.session(zygote).run("print(2)") == "2\n"
    host.end()


def test_a_copy_sees_nobody_and_holds_nothing(host):
    session = host.session(host.zygote())
    seen = session.value("""
import os
def link(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}")
    except OSError: return None
print(json.dumps({
  "pids": [n for n in os.listdir("/proc") if n.isdigit()], "pid": os.getpid(), "parent": os.getppid(),
  "fds": {fd: link(fd).split(":")[0] for fd in os.listdir("/proc/self/fd") if link(fd)},
  "sid": os.getsid(0), "group": os.getpgid(0), "cwd": os.getcwd(), "argv": __import__("sys").argv,
  "signals": [l.split()[1] for l in open("/proc/self/status") if l.startswith(("SigBlk", "SigIgn"))],
  "env": dict(os.environ), "oom": open("/proc/self/oom_score_adj").read(), "threads": len(os.listdir("/proc/self/task")),
  "maps": [l.split()[-1] for l in open("/proc/self/maps") if "/" in l and not l.split()[-1].startswith(("/usr/", "/memfd"))],
}))""")
    assert seen["pids"] == ["2"] and (seen["pid"], seen["parent"], seen["sid"], seen["group"]) == (2, 1, 2, 2)
    assert seen["fds"].pop("3") == "socket"
    assert set(seen["fds"].values()) <= {"/dev/null", "pipe", "/memfd"}, seen["fds"]
    assert seen["cwd"] == "/workspace" and seen["oom"] == "500\n" and seen["threads"] == 1
    assert seen["signals"] == ["0" * 16, "0000000001001000"], "none is blocked; python ignores SIGPIPE and SIGXFSZ"
    assert seen["env"] == ENV
    assert all(path.startswith(("/dev/null", "(deleted)", "/lib")) for path in seen["maps"]), seen["maps"]
    host.end()


def test_neither_init_nor_the_zygote_can_be_reached(host):
    session = host.session(host.zygote())
    refused = session.value("""
import os, signal
found = {}
for path in ("/proc/1/mem", "/proc/1/maps", "/proc/1/environ", "/proc/1/fd", "/proc/1/root", "/proc/300/mem"):
    try:
        os.listdir(path) if path.endswith(("fd", "root")) else open(path, "rb").read(1)
        found[path] = 0
    except OSError as error: found[path] = error.errno
for pid in (1, 300):
    try: os.kill(pid, signal.SIGKILL); found[pid] = 0
    except OSError as error: found[pid] = error.errno
print(json.dumps(found))""")
    assert refused.pop("1") == 0, "a signal to init is taken, and dropped"
    assert refused.pop("300") == 3
    assert set(refused.values()) <= {1, 2, 13}, refused
    assert session.run("print(1)") == "1\n"
    host.end()


def test_the_zygote_itself_has_no_power_over_the_host(host):
    """What it may do, it may do to its own sandboxes only."""
    zygote = host.zygote()
    host.session(zygote)
    pid, = host.zygote_pids()
    status = covetest.status_of(pid)
    own = next(iter(covetest.uids_of(pid)))
    assert covetest.uids_of(pid) == {own} and own in covetest.SANDBOX_UIDS
    caps = {1 << n for n in (6, 7, 8, 12, 18, 21)}  # setgid, setuid, setpcap, net_admin, sys_chroot, sys_admin
    assert int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == sum(caps)
    assert status["NoNewPrivs"].strip() == "1" and status["Groups"].strip() == ""
    for space in ("user", "mnt", "net", "ipc", "uts", "pid"):
        assert os.readlink(f"/proc/{pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"), space
    outside = {int(line.split()[1]) for line in covetest.read_text(f"/proc/{pid}/uid_map").splitlines()}
    assert outside <= set(covetest.SANDBOX_UIDS), "root of the host is not among its ids"
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    # While it waits for its next sandbox to be wanted, it holds the sockets and the group of that one.
    group = f"/{covetest.CGROUP_PARENT}/"
    assert all(link.startswith(("/dev/null", "socket:", "/memfd:")) or group in link for link in links), links
    assert len([link for link in links if link.startswith("socket:")]) <= 4
    host.end()


# --- it fails closed ----------------------------------------------------------------------------


# Calls of the sealing process that may fail with no effect on the seal.
HARMLESS = {"close", "rseq"}


class Watched:
    """One sandbox, in whose sealing one call may fail: whether it was sealed, and how."""

    def __init__(self, tracer, host, zygote, number, index=-1):
        pid, = host.zygote_pids()
        if number > 0:  # the spare of the one before must not be the one that is watched
            wait_for(host.has_spare, "a spare")
        watcher = tracer.watch(pid, index)
        answer = host.ask_warm(zygote, open_files=100 + number)  # which the spare does not fit
        assert answer.failure is None, answer.failure
        news = host.news(SEALED, answer.sandbox)
        assert watcher.wait(PATIENCE) == 0
        watcher.stdout.close()
        self.calls, self.failure, self.report = tracer.calls(), news.failure, None
        session = Session(answer)
        if self.failure is None:
            assert session.frame()[0] == READY
            with session.begin((HERE / "sealreport.py").read_text() + SPEAK) as output:
                assert session.finish() is None
                self.report = json.loads(output.read())
            self.report.pop("limits")
            host.destroy(session)
        else:
            while session.frame():  # READY at most, from a sealed copy whose init did not come up
                pass
            session.close()


def test_to_enter_a_used_network_namespace_fails_closed(host, tmp_path):
    tracer = failclosed_test.Tracer(tmp_path)
    zygote = host.zygote()

    def watch(number, index=-1):
        host.destroy(host.session(zygote, open_files=99))  # which leaves one
        return Watched(tracer, host, zygote, number, index)

    usual = watch(1)
    names = [call.name for call in usual.calls]
    assert names.count("setns") == 1 and "ioctl" not in names
    failed = watch(2, names.index("setns"))
    assert failed.calls[names.index("setns")].name == "setns"
    assert failed.failure and failed.report is None
    assert host.session(zygote).run("print(1)") == "1\n"
    host.end()


def test_each_call_of_the_seal_fails_closed(host, tmp_path, is_long):
    tracer = failclosed_test.Tracer(tmp_path)
    zygote = host.zygote()
    usual = Watched(tracer, host, zygote, 0)
    names = [call.name for call in usual.calls]
    assert names[-1] == "execveat" and {"unshare", "setresuid", "seccomp", "landlock_restrict_self", "clone"} <= set(names)
    chosen = failclosed_test.choose("child", usual.calls, is_long)
    wrong = []
    for number, call in enumerate(chosen, 1):
        one = Watched(tracer, host, zygote, number, call.index)
        assert one.calls[call.index].name == call.name
        if one.failure is None and call.name not in HARMLESS:
            wrong.append(f"{call}: it was sealed")
        elif one.report not in (None, usual.report):
            wrong.append(f"{call}: sealed otherwise")
    assert not wrong, "\n".join(wrong)
    assert host.session(zygote).run("print(1)") == "1\n", "the zygote has lived through all of it"
    host.end()
