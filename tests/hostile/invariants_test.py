"""The checker itself: each kind of damage is planted once and must be found."""
from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

import apart
import harness
import host
from covetest import CGROUP_PARENT
from invariants import Baseline, Violation, assert_invariants, check_verdict, is_anothers_user, is_foreign

GRACE = 0.1
SANDBOX_UID = host.SANDBOX_UIDS[77]


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="cove-hostile-self-") as name:
        path = Path(name)
        (path / "canary").write_text("secret")
        (path / "tmp").mkdir()
        yield path


@pytest.fixture
def base(place):
    if os.getuid() != 0:
        pytest.skip("needs root")
    return Baseline([place / "tmp"], set(), [place / "canary"])


def assert_found(base, words: str, **kwargs):
    with pytest.raises(Violation, match=words):
        assert_invariants(base, grace=GRACE, **kwargs)


def fake_run(place, **changes) -> harness.Run:
    document = {"state": "completed", "exit_code": 0, "signal": None, "reason": None,
                "stdout": "", "stderr": ""} | changes.pop("document", {})
    values = {"argv": ["cove"], "exit_code": 0, "wall": 0.1, "stderr": b"", "hung": False,
              "stdout": json.dumps(document).encode(), "peaks_kb": {}, "out": place / "tmp"}
    return harness.Run(**(values | changes))


def test_accepts_an_untouched_host(base, place):
    assert_invariants(base, fake_run(place), ["secret"])


def test_finds_a_living_child(base):
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert_found(base, f"process {child.pid} 'sleep'")
    finally:
        child.kill()
        child.wait()


def test_finds_an_orphan_in_a_session_of_its_own(base):
    shell = subprocess.run(["sh", "-c", "setsid sleep 60 > /dev/null 2>&1 & echo $!"],
                           stdout=subprocess.PIPE, text=True)
    pid = int(shell.stdout)
    try:
        assert_found(base, "'s(leep|etsid|h)'")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_finds_a_process_with_a_sandbox_uid(base):
    child = subprocess.Popen(["setpriv", f"--reuid={SANDBOX_UID}", "--clear-groups", "sleep", "60"])
    try:
        assert_found(base, str(SANDBOX_UID))
    finally:
        child.kill()
        child.wait()


def test_finds_a_zombie_that_is_not_the_tests_own(base):
    # The parent never waits, so its child stays a zombie as long as the parent lives.
    parent = subprocess.Popen(["/usr/bin/python3", "-c", "import os, signal\n"
                               "if os.fork() == 0: os._exit(0)\nsignal.pause()"])
    try:
        while not any(p.state == "Z" for p in host.descendants(host.processes(), parent.pid)):
            pass
        assert_found(base, "state Z")
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("parent", [CGROUP_PARENT, f"{CGROUP_PARENT}-0"], ids=["program", "server"])
def test_finds_a_cgroup(base, parent):
    tops = sorted(m[1] for m in host.mounts() if m[2] in ("cgroup", "cgroup2"))
    made = []
    try:
        for top in tops:
            for path in (f"{top}/{parent}", f"{top}/{parent}/hostile-self-test"):
                if not os.path.isdir(path):
                    os.mkdir(path)
                    made.append(path)
        if not made:
            pytest.skip("no cgroup file system can be written here")
        for top in tops:
            assert_found(base, f"cgroup '{top}/{parent}/hostile-self-test'")
    finally:
        for path in reversed(made):
            os.rmdir(path)
    assert_invariants(base)


def joinable() -> str:
    """A hierarchy of cgroups; a new cpuset has no processors yet, so nothing can join it."""
    tops = sorted(m[1] for m in host.mounts() if m[2] in ("cgroup", "cgroup2"))
    return next(top for top in tops if not os.path.exists(f"{top}/cpuset.cpus"))


def test_finds_a_process_that_hides_in_a_cgroup(base):
    parent = f"{joinable()}/{CGROUP_PARENT}"
    os.makedirs(f"{parent}/hostile-self-test")
    child = subprocess.Popen(["sleep", "60"])
    base.owned.add(child.pid)
    try:
        Path(f"{parent}/hostile-self-test/cgroup.procs").write_text(str(child.pid))
        assert host.read_process(child.pid).is_sandboxed
        assert_found(base, "hostile-self-test' with 1 processes")
    finally:
        child.kill()
        child.wait()
        os.rmdir(f"{parent}/hostile-self-test")


def test_finds_a_mount(base, place):
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place / "tmp")], check=True)
    try:
        assert_found(base, "mount .*tmpfs")
    finally:
        subprocess.run(["umount", str(place / "tmp")], check=True)


def test_finds_a_network_namespace_kept_by_a_descriptor(base):
    holder = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    base.owned.add(holder.pid)
    fd = -1
    try:
        mine = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == mine:
            pass
        fd = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
        holder.kill()
        holder.wait()
        assert_found(base, r"namespace net:\[")
    finally:
        os.close(fd)


def test_finds_a_loop_device(base, place):
    image = place / "image"
    image.write_bytes(b"\0" * (1 << 20))
    made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True,
                          text=True)
    if made.returncode:
        pytest.skip("this host has no loop devices")
    try:
        assert_found(base, "loop device")
    finally:
        subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@pytest.mark.parametrize("path", ["tmp/left", "/tmp/cove-self-test", "/tmp/self-test", "/var/tmp/self-test",
                                  "/dev/shm/self-test", "/run/self-test", f"{host.STATE_DIR}/self-test"])
def test_finds_a_file(base, place, path):
    path = place / path
    path.write_text("left")
    try:
        assert_found(base, f"file {path}")
    finally:
        path.unlink()


def test_finds_a_shared_memory_segment(base):
    made = subprocess.run(["ipcmk", "-M", "4096"], capture_output=True, text=True, check=True)
    number = made.stdout.split()[-1]
    try:
        assert_found(base, "ipc object shm")
    finally:
        subprocess.run(["ipcrm", "-m", number], check=True)


@pytest.mark.parametrize("damage", ["bytes", "touch", "mode", "gone"])
def test_finds_a_changed_canary(base, place, damage):
    canary = place / "canary"
    {"bytes": lambda: canary.write_text("secreT"), "touch": lambda: os.utime(canary),
     "mode": lambda: canary.chmod(0o600), "gone": canary.unlink}[damage]()
    assert_found(base, "canary .* changed")


def test_finds_a_secret_in_every_place(base, place):
    assert_found(base, "secret shows in stdout", secrets=["s3cr3t"],
                 run=fake_run(place, document={"stdout": "a s3cr3t b"}))
    assert_found(base, "secret shows in stderr", secrets=["s3cr3t"],
                 run=fake_run(place, stderr=b"a s3cr3t b"))
    out = place / "out"
    out.mkdir()
    (out / "fetched").write_text("s3cr3t")
    assert_found(base, "secret shows in file 'fetched'", secrets=["s3cr3t"],
                 run=fake_run(place, out=out))


def test_finds_contact_with_an_open_door():
    doors = harness.Doors(harness.Mode("root"))
    try:
        for family, address in ((socket.AF_UNIX, doors.socket_path),
                                (socket.AF_UNIX, "\0" + doors.abstract),
                                (socket.AF_INET, ("127.0.0.1", doors.port)),
                                (socket.AF_INET6, ("::1", doors.port))):
            with socket.socket(family) as visitor:
                visitor.connect(address)
                while not doors.hits:
                    pass
            assert len(doors.take_hits()) == 1
    finally:
        doors.close()


def test_finds_a_hung_run_a_fat_host_side_and_a_sanitizer_report(base, place):
    assert_found(base, "was still there", run=fake_run(place, hung=True))
    assert_found(base, "grew to 70000 kB", run=fake_run(place, peaks_kb={"cove": 70_000}),
                 peak_limit_kb=65536)
    assert_found(base, "sanitizer report",
                 run=fake_run(place, stderr=b"==1==ERROR: AddressSanitizer: heap-use-after-free"))


def test_finds_an_answer_that_is_not_one_object(base, place):
    for text in (b"", b"{}{}", b"[1]", b'{"state": "comp'):
        assert_found(base, "no single execution object", run=fake_run(place, stdout=text))


@pytest.mark.parametrize("document, status", [
    ({"state": "running"}, 0),
    ({"state": "completed", "exit_code": 1}, 1),
    ({"state": "completed", "exit_code": 0, "reason": {"kind": "oom"}}, 0),
    ({"state": "failed", "exit_code": 1, "reason": None}, 1),
    ({"state": "failed", "exit_code": 1, "reason": {"kind": "exit"}}, 2),
    ({"state": "failed", "exit_code": None, "reason": {"kind": "oom"}}, 1),
    ({"state": "failed", "exit_code": 0, "reason": {"kind": "invented"}}, 1),
    ({"state": "timeout", "reason": {"kind": "timeout"}}, 137),
])
def test_finds_a_verdict_that_contradicts_itself(document, status):
    assert check_verdict(document, status)


@pytest.mark.parametrize("document, status", [
    ({"state": "completed", "exit_code": 0, "signal": None, "reason": None}, 0),
    ({"state": "failed", "exit_code": 7, "signal": None, "reason": {"kind": "exit"}}, 7),
    ({"state": "failed", "exit_code": None, "signal": 9, "reason": {"kind": "oom"}}, 137),
    ({"state": "timeout", "exit_code": None, "signal": 9, "reason": {"kind": "timeout"}}, 124),
])
def test_accepts_a_verdict_that_holds_together(document, status):
    assert check_verdict(document, status) == []


# --- what others do on the same machine ----------------------------------------------------------

# All at once: files, a mount, an object, and a sandbox below a parent of its own. It ends with its input.
STRANGER = f"""
places="/tmp /var/tmp /dev/shm /run {host.STATE_DIR}"
for place in $places; do mkdir $place/cove-data-$$ && : > $place/cove-file-$$ || exit; done
mount -t tmpfs none /tmp/cove-data-$$ || exit
memory=$(ipcmk -M 4096 | grep -o '[0-9]*$')
setpriv --reuid={SANDBOX_UID} --clear-groups sleep 60 > /dev/null & bare=$!
setpriv --reuid={SANDBOX_UID} --clear-groups sleep 60 > /dev/null & inside=$!
mkdir -p $1/cove-test-stranger-$$/77 && echo $inside > $1/cove-test-stranger-$$/77/cgroup.procs || exit
echo $bare $inside
read end
kill -9 $bare $inside
wait
rmdir $1/cove-test-stranger-$$/77 $1/cove-test-stranger-$$
ipcrm -m $memory
umount /tmp/cove-data-$$
for place in $places; do rmdir $place/cove-data-$$; rm $place/cove-file-$$; done
echo over
"""


@pytest.fixture
def stranger(base, request):
    """-> begins another program of this machine: no child of ours, with the mounts and objects of the host; answers the
    numbers of its sandboxes when it has made everything"""
    spaces = request.config.hostile_apart.outside
    argv = ["nsenter", f"--mount=/proc/self/fd/{spaces['mnt']}", f"--ipc=/proc/self/fd/{spaces['ipc']}",
            "bash", "-c", STRANGER, "stranger", joinable()]
    begun = []

    def begin() -> list[int]:
        apart.take_orphans(False)
        try:
            parent = subprocess.Popen(["bash", "-c", 'exec 3<&0; "$@" <&3 &', "parent", *argv], pass_fds=spaces.values(),
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            begun.append(parent)
            parent.wait()
        finally:
            apart.take_orphans()
        return [int(word) for word in parent.stdout.readline().split()]

    yield begin
    for parent in begun:
        parent.stdin.write("end\n")
        parent.stdin.close()
        assert parent.stdout.read() == "over\n"


def test_holds_nothing_of_a_stranger_against_a_run(base, stranger):
    sandboxes = stranger()
    table = host.processes()
    assert len(sandboxes) == 2 and all(table[pid].is_sandboxed for pid in sandboxes)
    assert table[sandboxes[1]].is_in_anothers_group
    assert_invariants(base)


def test_finds_our_own_beside_a_stranger(base, stranger):
    stranger()
    child = subprocess.Popen(["setpriv", f"--reuid={SANDBOX_UID}", "--clear-groups", "sleep", "60"])
    left = Path("/tmp/cove-data-ours")
    left.mkdir()
    try:
        with pytest.raises(Violation) as found:
            assert_invariants(base, grace=GRACE)
        lines = sorted(line.split()[:2] for line in str(found.value).splitlines())
        assert lines == [["file", str(left)], ["process", str(child.pid)]], found.value
    finally:
        left.rmdir()
        child.kill()
        child.wait()


def sandboxed(pid: int, **changes) -> host.Process:
    values = {"pid": pid, "parent": 1, "name": "python3", "state": "S", "uids": (SANDBOX_UID,) * 4,
              "namespaces": 2, "peak_kb": 0, "cgroup": "1:cpu:/", "start": 0} | changes
    return host.Process(**values)


OTHER_COVE, ORPHAN, SANDBOX, NOBODY = 900_001, 900_002, 900_003, 900_004


@pytest.mark.parametrize("foreign, changes", [
    pytest.param(False, {}, id="an-orphan"),
    pytest.param(False, {"parent": NOBODY}, id="its-parent-was-not-seen"),
    pytest.param(False, {"cgroup": f"1:cpu:/{CGROUP_PARENT}/5"}, id="in-our-group"),
    pytest.param(True, {"cgroup": "1:cpu:/cove/5"}, id="in-a-persons-group"),
    pytest.param(True, {"cgroup": "0::/cove-test-1-2/5/6"}, id="in-the-group-of-a-test"),
    pytest.param(False, {"cgroup": "1:cpu:/cove/5", "parent": os.getpid()}, id="ours-in-anothers-group"),
    pytest.param(True, {"is_ending": True}, id="an-orphan-that-ends"),  # those of ours come to us
    pytest.param(False, {"is_ending": True, "parent": os.getpid()}, id="ours-that-ends"),
    pytest.param(True, {"parent": OTHER_COVE}, id="of-anothers-program"),
    pytest.param(False, {"parent": ORPHAN}, id="of-an-orphan"),
])
def test_knows_whose_sandbox_it_is(foreign, changes):
    table = host.processes()
    for one in (sandboxed(OTHER_COVE, name="cove-spawner", uids=(0,) * 4, namespaces=1), sandboxed(ORPHAN),
                sandboxed(SANDBOX, **changes)):
        table[one.pid] = one
    assert is_foreign(table, table[SANDBOX]) == foreign


@pytest.mark.parametrize("name, anothers", [("cron", False), ("cove", True)])
def test_holds_what_a_service_runs_as_its_user_against_a_run(name, anothers):
    table = host.processes()
    table[OTHER_COVE] = sandboxed(OTHER_COVE, name=name, uids=(990,) * 4, namespaces=1)
    table[SANDBOX] = sandboxed(SANDBOX, parent=OTHER_COVE, uids=(990,) * 4, namespaces=1)
    assert is_anothers_user(table, table[SANDBOX]) == anothers


def test_each_run_has_a_user_of_its_own(monkeypatch, tmp_path):
    """The second one takes the next, and the first again when it is over."""
    made = []
    monkeypatch.setattr(apart.covetest, "make_user", lambda name, subids: made.append(name))
    monkeypatch.setattr(apart.covetest, "LOCKS", tmp_path)
    first, second = apart.take_user(apart.DEFAULT_USER), apart.take_user(apart.DEFAULT_USER)
    assert (first[0], second[0]) == ("cove-hostile", "cove-hostile-2")
    first[1].close()
    assert apart.take_user(apart.DEFAULT_USER)[0] == "cove-hostile"
    assert made == ["cove-hostile", "cove-hostile-2", "cove-hostile"]
