# SPDX-License-Identifier: Apache-2.0
"""Package layers as the spawner makes them: what a build left becomes one, read-only, or nothing does."""
import contextlib
import hashlib
import os
import pathlib
import socket
import subprocess

import pytest

import covetest
from covetest import PATIENCE, wait_for
from spawner_protocol_test import (CONFLICT, CREATE, DESTROY, EXITED, FIND_LAYER, GUEST, GUEST_EXITED, GUEST_KILL,  # noqa: F401
                                   GUEST_READY, GUEST_START, GUEST_STARTED, INVALID, KILL, NOT_FOUND, SEAL_LAYER,
                                   SEALED, ZYGOTE, Spawner, create_body, digest, message)

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids of their own need root")

DENIED, TOO_LARGE, UNAVAILABLE = 4, 5, 7  # enum error_code


def key(name):
    return hashlib.sha256(name.encode()).digest()


class Layers(Spawner):
    """A spawner with a place for layers."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        super().__init__("--layers", str(place))
        self.hello()

    def program(self, image, *argv, packages=b"", **limits):
        """A sandbox in which a program has ended: (number, exit status, output)."""
        answer = self.ask(CREATE, body=create_body(image, packages=packages, **limits))
        assert answer.failure is None, answer.failure
        with socket.socket(fileno=answer.fds[0]) as control:
            control.settimeout(PATIENCE)
            assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
            with contextlib.ExitStack() as stack:
                out = os.memfd_create("out")
                stack.callback(os.close, out)
                null = os.open("/dev/null", os.O_RDWR)
                strings = b"\0".join([b"/workspace", *map(str.encode, argv), b""])
                header = GUEST.pack(GUEST_START, 0, 0, 0, len(argv), 0, len(strings), 0, 0)
                socket.send_fds(control, [header + strings], [null, out, out])
                os.close(null)
                assert GUEST.unpack(control.recv(4096))[:2] == (GUEST_STARTED, 0)
                ended = GUEST.unpack(control.recv(4096))
                assert ended[0] == GUEST_EXITED
                text = os.pread(out, 1 << 20, 0).decode()
        return answer.sandbox, ended[2], text

    def run(self, image, *argv, **more):
        sandbox, status, text = self.program(image, *argv, **more)
        assert self.ask(DESTROY, sandbox).failure is None
        return status, text

    def seal(self, sandbox, layer, note=b"{}"):
        """The failure of a seal, or None."""
        memory = os.memfd_create("note")
        os.write(memory, note)
        self.serial += 1
        self.send(message(SEAL_LAYER, self.serial, sandbox=sandbox, body=layer), [memory])
        os.close(memory)
        answer = self.receive()
        while answer.verb in (EXITED, SEALED):
            answer = self.receive()
        assert (answer.serial, answer.verb) == (self.serial, SEAL_LAYER)
        return answer.failure

    def end_program(self, sandbox):
        self.ask(KILL, sandbox)
        told = self.receive()
        while told.verb != EXITED:
            told = self.receive()

    def build(self, image, script, layer, **limits):
        """Runs the script and seals what it left: the failure, or None."""
        sandbox, status, text = self.program(image, "/bin/bash", "-c", script, **limits)
        assert status == 0, text
        self.end_program(sandbox)
        failure = self.seal(sandbox, layer)
        assert self.ask(DESTROY, sandbox).failure is None
        return failure

    def names(self):
        return sorted(entry.name for entry in self.place.iterdir())


@pytest.fixture
def layers(tmp_path):
    place = tmp_path / "layers"
    spawner = Layers(place)
    yield spawner
    spawner.socket.close()
    covetest.kill_quietly(spawner.process.pid)
    spawner.process.wait()
    os.close(spawner.errors)


def test_what_a_build_left_is_found_by_the_next(layers, digest):
    script = "mkdir -p a/b && echo hello > a/b/f && echo run > x && chmod 775 x && ln -s a/b/f link && ln -s ../x a/up"
    assert layers.build(digest, script, key("one")) is None
    status, text = layers.run(digest, "/bin/bash", "-c", "cd /packages && cat a/b/f link a/up && stat -c '%a %U %n' a x a/b/f && "
                              "find . | sort | tr '\\n' ' '", packages=key("one"))
    assert status == 0, text
    assert text.splitlines()[:3] == ["hello", "hello", "run"]
    assert [line.split()[0] for line in text.splitlines()[3:6]] == ["755", "755", "644"]
    assert text.splitlines()[6].split() == [".", "./a", "./a/b", "./a/b/f", "./a/up", "./link", "./x"]
    assert layers.names() == [key("one").hex()]
    folder = layers.place / key("one").hex()
    assert sorted(entry.name for entry in folder.iterdir()) == ["note", "size", "tree"]
    assert (folder / "note").read_bytes() == b"{}"
    assert all(entry.lstat().st_uid == 0 for entry in folder.rglob("*")), "nothing of it belongs to a sandbox"
    layers.end()


def test_a_layer_cannot_be_written_and_tells_nothing_of_the_host(layers, digest):
    assert layers.build(digest, "echo 1 > f; cp /bin/id id", key("one")) is None
    probe = ("(echo 2 > /packages/f) 2>&1; touch /packages/g 2>&1; rm -f /packages/f 2>&1; chmod 777 /packages/f 2>&1; "
             "mount -o remount,rw /packages 2>&1; grep /packages /proc/self/mountinfo; cat /packages/f; /packages/id -u")
    status, text = layers.run(digest, "/bin/bash", "-c", probe, packages=key("one"))
    lines = text.splitlines()
    mounted = next(line for line in lines if " /packages " in line)
    assert lines[-2:] == ["1", "1000"] and (layers.place / key("one").hex() / "tree/f").read_text() == "1\n"
    options = set(mounted.split()[5].split(","))
    assert {"ro", "nosuid", "nodev"} <= options, mounted
    assert str(layers.place) not in text and key("one").hex() not in text, mounted
    assert sum("Read-only" in line or "not permitted" in line or "denied" in line for line in lines) >= 4, text
    layers.end()


def test_two_with_the_same_packages_have_no_file_system_in_common(layers, digest):
    """Else a lock on a file of them, or a watch, would be a wire between their tenants."""
    assert layers.build(digest, "echo 1 > f", key("one")) is None
    made = [layers.ask(CREATE, body=create_body(digest, packages=key("one"))) for _ in range(2)]
    controls = [socket.socket(fileno=answer.fds[0]) for answer in made]
    for control in controls:
        control.settimeout(PATIENCE)
        assert GUEST.unpack(control.recv(4096))[0] == GUEST_READY
    inits = [pid for pid in covetest.children_of(layers.process.pid) if covetest.name_of(pid) == "cove-init"]
    mounts = [[line.split() for line in covetest.read_text(f"/proc/{pid}/mountinfo").splitlines()] for pid in inits]
    assert len(mounts) == 2 and all("/packages" in {row[4] for row in rows} for rows in mounts)
    first, second = ({row[2] for row in rows} for rows in mounts)
    assert first.isdisjoint(second), mounts
    for control in controls:
        control.close()
    layers.end()


def test_without_packages_the_place_is_empty(layers, digest):
    status, text = layers.run(digest, "/bin/bash", "-c", "ls -A /packages | wc -l; ls /node_modules/x; grep -c packages /proc/self/mountinfo")
    assert text.splitlines()[0] == "0" and text.splitlines()[-1] == "0"
    layers.end()


@pytest.mark.parametrize("script, words", [
    ("cp /bin/id s && chmod 4755 s", "identity"),
    ("cp /bin/id s && chmod 2755 s", "identity"),
    ("mkfifo pipe", "neither file, directory nor link"),
    ("ln -s /etc/passwd out", "leads out"),
    ("mkdir -p a && ln -s ../../etc/passwd a/out", "leads out"),
    ("mkdir -p a && ln -s ./../a/../.. a/out", "leads out"),
    ("echo x > f && chmod 0 f", "cannot be read"),
    ("mkdir d && echo x > d/f && chmod 700 d", "cannot be read"),
    ("d=.; for i in $(seq 70); do d=$d/d; mkdir $d; done", "too deep"),
    ("truncate -s 100M sparse", "too large"),
    ("head -c 9000000 /dev/zero > f && for i in $(seq 10); do ln f f$i; done", "too large"),
])
def test_what_a_layer_must_not_have_refuses_the_whole(layers, digest, script, words):
    failure = layers.build(digest, "touch before; " + script + "; touch last", key("bad"))
    assert failure and words in failure[3], failure
    assert failure[0] == (TOO_LARGE if words == "too large" else DENIED)
    assert layers.names() == [], "nothing is left of it"
    answer = layers.ask(FIND_LAYER, body=key("bad"))
    assert answer.failure[0] == NOT_FOUND
    assert layers.build(digest, "echo good > f", key("bad")) is None, "the next try may do better"
    layers.end()


def test_a_dangling_link_inside_is_kept_as_it_is(layers, digest):
    assert layers.build(digest, "mkdir a && ln -s ../b/c a/l", key("one")) is None
    assert layers.run(digest, "/bin/bash", "-c", "readlink /packages/a/l; cat /packages/a/l", packages=key("one"))[1].startswith("../b/c\n")
    layers.end()


def test_one_that_is_there_stays_as_it_is(layers, digest):
    assert layers.build(digest, "echo first > f", key("one")) is None
    assert layers.build(digest, "echo second > f", key("one")) is None
    assert layers.run(digest, "/bin/cat", "/packages/f", packages=key("one")) == (0, "first\n")
    layers.end()


def test_times_survive(layers, digest):
    assert layers.build(digest, "echo x > f; touch -d @1000000000 f", key("one")) is None
    assert layers.run(digest, "/bin/stat", "-c", "%Y", "/packages/f", packages=key("one")) == (0, "1000000000\n")
    layers.end()


def test_a_sandbox_that_runs_is_no_source(layers, digest):
    answer = layers.create(digest)
    assert layers.seal(answer.sandbox, key("one"))[0] == CONFLICT
    os.close(answer.fds[0])
    layers.end()


def test_what_is_not_there(layers, digest):
    assert layers.ask(FIND_LAYER, body=key("none")).failure[0] == NOT_FOUND
    assert layers.ask(CREATE, body=create_body(digest, packages=key("none"))).failure[0] == NOT_FOUND
    covetest.nothing_is_left()
    layers.end()


def test_without_a_place_there_are_no_layers(digest):
    spawner = Spawner()
    spawner.hello()
    assert spawner.ask(FIND_LAYER, body=key("none")).failure[0] == NOT_FOUND
    spawner.end()


def test_a_place_that_others_can_write_to_is_not_taken(tmp_path, digest):
    place = tmp_path / "layers"
    place.mkdir()
    place.chmod(0o777)
    spawner = Layers(place)
    assert spawner.build(digest, "touch f", key("one"))[0] == UNAVAILABLE
    spawner.end()


def test_a_layer_that_others_could_have_written_is_not_mounted(layers, digest):
    assert layers.build(digest, "touch f", key("one")) is None
    (layers.place / key("one").hex() / "tree").chmod(0o777)
    assert layers.ask(CREATE, body=create_body(digest, packages=key("one"))).failure[0] == DENIED
    layers.end()


def test_a_zygote_has_no_packages(layers, digest):
    assert layers.build(digest, "touch f", key("one")) is None
    files = [os.memfd_create("x") for _ in range(3)]
    layers.serial += 1
    layers.send(message(ZYGOTE, layers.serial, body=create_body(digest, packages=key("one"))), files)
    assert layers.receive().failure[0] == INVALID
    for file in files:
        os.close(file)
    layers.end()


def test_a_seal_without_its_note_ends_the_connection(layers, digest):
    answer = layers.create(digest)
    os.close(answer.fds[0])
    layers.is_ended_by(message(SEAL_LAYER, 77, sandbox=answer.sandbox, body=key("one")))


def test_the_next_helper_removes_what_a_killed_one_left(layers, digest):
    stale = layers.place / ".new-1"
    (stale / "tree/a/b").mkdir(parents=True)
    (stale / "tree/a/b/f").write_text("x")
    os.symlink("/etc/passwd", stale / "tree/l")
    assert layers.build(digest, "touch f", key("one")) is None
    assert layers.names() == [key("one").hex()] and os.path.exists("/etc/passwd")
    layers.end()


def locked_out(folder):
    """Whether somebody holds the layer."""
    return subprocess.run(["flock", "-n", "-x", str(folder), "true"], check=False).returncode != 0


def test_a_layer_is_held_while_a_sandbox_mounts_it(layers, digest):
    assert layers.build(digest, "touch f", key("one")) is None
    folder = layers.place / key("one").hex()
    assert not locked_out(folder)
    made = [layers.ask(CREATE, body=create_body(digest, packages=key("one"))) for _ in range(2)]
    assert locked_out(folder)
    assert layers.ask(DESTROY, made[0].sandbox).failure is None and locked_out(folder)
    assert layers.ask(DESTROY, made[1].sandbox).failure is None
    wait_for(lambda: not locked_out(folder), "the lock goes with the last sandbox")
    for answer in made:
        os.close(answer.fds[0])
    layers.end()


def test_a_layer_that_was_removed_and_made_again_is_the_new_one(layers, digest):
    assert layers.build(digest, "echo old > f", key("one")) is None
    assert layers.run(digest, "/bin/cat", "/packages/f", packages=key("one"))[1] == "old\n"
    subprocess.run(["rm", "-r", str(layers.place / key("one").hex())], check=True)
    assert layers.ask(CREATE, body=create_body(digest, packages=key("one"))).failure[0] == NOT_FOUND
    assert layers.build(digest, "echo new > f", key("one")) is None
    assert layers.run(digest, "/bin/cat", "/packages/f", packages=key("one"))[1] == "new\n"
    layers.end()


def test_the_last_use_is_seen(layers, digest):
    assert layers.build(digest, "touch f", key("one")) is None
    folder = layers.place / key("one").hex()
    os.utime(folder, (1, 1))
    layers.run(digest, "/bin/true", packages=key("one"))
    assert folder.stat().st_mtime > 1
    layers.end()
