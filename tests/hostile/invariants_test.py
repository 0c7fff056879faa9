"""The checker itself: each kind of damage is planted once and must be found."""
from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
import host
from invariants import Baseline, Violation, assert_invariants, check_verdict

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


def test_finds_a_cgroup(base):
    tops = sorted(m[1] for m in host.mounts() if m[2] in ("cgroup", "cgroup2"))
    made = []
    try:
        for top in tops:
            for path in (f"{top}/cove", f"{top}/cove/hostile-self-test"):
                if not os.path.isdir(path):
                    os.mkdir(path)
                    made.append(path)
        if not made:
            pytest.skip("no cgroup file system can be written here")
        for top in tops:
            assert_found(base, f"cgroup '{top}/cove/hostile-self-test'")
    finally:
        for path in reversed(made):
            os.rmdir(path)
    assert_invariants(base)


def test_finds_a_process_that_hides_in_a_cgroup(base):
    tops = sorted(m[1] for m in host.mounts() if m[2] in ("cgroup", "cgroup2"))
    # A new cpuset has no processors yet, so nothing can join it.
    top = next(top for top in tops if not os.path.exists(f"{top}/cpuset.cpus"))
    parent = f"{top}/cove"
    had_parent = os.path.isdir(parent)
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
        if not had_parent:
            os.rmdir(parent)


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


@pytest.mark.parametrize("where", ["private", "shared", "state", "owner"])
def test_finds_a_file(base, place, where):
    path = {"private": place / "tmp/left", "shared": Path("/tmp/cove-self-test"),
            "state": Path(host.STATE_DIR, "self-test"),
            "owner": Path("/tmp/self-test-owner")}[where]
    had_parent = path.parent.is_dir()
    path.parent.mkdir(exist_ok=True)
    path.write_text("left")
    try:
        if where == "owner":
            os.chown(path, SANDBOX_UID, -1)
        assert_found(base, f"file {path}")
    finally:
        path.unlink()
        if not had_parent:
            path.parent.rmdir()


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
