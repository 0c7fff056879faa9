# SPDX-License-Identifier: Apache-2.0
"""The power goes at any instant: what was told is there again, and what was not made durable may be gone.

strace writes down what coved does to its files. From that the test knows what a disk is sure to hold after each call: of a
file what it was at its last sync, and of a folder the names at its last sync. It makes that anew elsewhere and looks at it."""
import contextlib
import hashlib
import itertools
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import urllib.parse

import pytest

import covetest
from covetest import IS_ROOT, PATIENCE, wait_for
from crashers import SESSIONS, create, execute, read, side_by_side
from server import Server

pytestmark = [pytest.mark.skipif(not IS_ROOT, reason="tracing the server needs root"),
              pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")]

CALLS = "openat,mkdirat,renameat,unlink,unlinkat,write,pwrite64,ftruncate,fsync,fdatasync"
FILLER = "y" * 40_000  # so that the log of the database is copied into it meanwhile
CLIENTS, ROUNDS, CUTS = 3, 9, 12


# --- a disk, as it is and as a power cut leaves it ------------------------------------------------


class File:
    """A change is (place, bytes), or (size, None) for a new end."""

    def __init__(self):
        self.data, self.synced, self.since = bytearray(), b"", []

    def change(self, at, data):
        self.since.append((at, data))
        change(self.data, at, data)

    def sync(self):
        self.synced, self.since = bytes(self.data), []

    def put(self, path, is_lucky):
        data = bytearray(self.synced)
        for at, part in self.since[::2] if is_lucky else []:
            change(data, at, part)
        path.write_bytes(data)


def change(data, at, part):
    data.extend(bytes(max(at - len(data), 0)))
    if part is None:
        del data[at:]
    else:
        data[at:at + len(part)] = part


class Folder:
    def __init__(self):
        self.names, self.synced = {}, {}

    def sync(self):
        self.synced = dict(self.names)

    def put(self, path, is_lucky):
        """is_lucky: every name has reached the disk, and every other write since the last sync."""
        path.mkdir()
        for name, node in (self.names if is_lucky else self.synced).items():
            node.put(path / name, is_lucky)


class Disk:
    """What the calls of a trace make of a folder."""

    def __init__(self, top):
        self.top, self.root, self.unfinished = str(top), Folder(), {}

    def find(self, path):
        node = self.root
        for name in pathlib.PurePath(path).relative_to(self.top).parts:
            node = node.names[name]
        return node

    def parent(self, path):
        return self.find(pathlib.PurePath(path).parent).names, pathlib.PurePath(path).name

    def play(self, line):
        """One line; half of one waits for the other. Calls that failed changed nothing."""
        pid, text = line.rstrip("\n").split(maxsplit=1)
        if text.endswith("<unfinished ...>"):
            self.unfinished[pid] = text.removesuffix("<unfinished ...>")
            return
        if text.startswith("<..."):
            text = self.unfinished.pop(pid) + text.split("resumed>", 1)[1]
        found = re.match(r"(\w+)\((.*)\) = (\d+)", text)
        if found:
            self.call(found[1], found[2], int(found[3]))

    def call(self, name, text, result):
        words = [bytes.fromhex(word.replace(r"\x", "")) for word in re.findall(r'[<"]((?:\\x[0-9a-f]{2})*)[>"]', text)]
        first = words[0].decode() if words else ""
        if name in ("openat", "mkdirat", "renameat", "unlinkat"):  # a folder, and a name that may be a whole path
            paths = [str(pathlib.PurePath(folder.decode(), path.decode())) for folder, path in zip(words[::2], words[1::2])]
        else:
            paths = [first]
        if not all(path.startswith(f"{self.top}/") or path == self.top for path in paths) or first.endswith("(deleted)"):
            return
        numbers = [int(word) for word in re.findall(r", (\d+)", text)]
        getattr(self, name)(paths, words[1:], numbers, result, text)

    def openat(self, paths, _words, _numbers, _result, text):
        names, name = self.parent(paths[0]) if "O_CREAT" in text else ({}, None)
        if name and name not in names:
            names[name] = File()
        assert "O_TRUNC" not in text

    def mkdirat(self, paths, *_):
        names, name = self.parent(paths[0])
        names[name] = Folder()

    def renameat(self, paths, *_):
        (old, old_name), (new, new_name) = map(self.parent, paths)
        new[new_name] = old.pop(old_name)

    def unlink(self, paths, *_):
        names, name = self.parent(paths[0])
        del names[name]

    unlinkat = unlink

    def write(self, paths, words, _numbers, result, _text):
        file = self.find(paths[0])
        file.change(len(file.data), words[0][:result])  # nobody writes so but from the beginning to the end

    def pwrite64(self, paths, words, numbers, result, _text):
        self.find(paths[0]).change(numbers[-1], words[0][:result])

    def ftruncate(self, paths, _words, numbers, *_):
        self.find(paths[0]).change(numbers[-1], None)

    def fsync(self, paths, *_):
        self.find(paths[0]).sync()

    fdatasync = fsync


# --- a server whose calls are written down --------------------------------------------------------


class Traced:
    """coved waits at its start until it is watched."""

    def __init__(self, folder, sync):
        self.data_dir, self.log, build = folder / "data", folder / "trace", folder / "build"
        self.told = []  # (place in the log, (kind, document))
        shutil.copytree(covetest.public_build().parent, build)
        program, whole = build / "bin/coved", build / "bin/coved.whole"
        program.rename(whole)
        program.write_text(f"#!/bin/sh\nkill -STOP $$\nexport ASAN_OPTIONS=detect_leaks=0\nexec {whole}\n")
        program.chmod(0o755)
        self.server = Server("--sync", sync, cove=covetest.Cove(build / "bin"), data_dir=self.data_dir, is_ready=False)
        try:
            self.watch(wait_for(self.stopped, "a coved that waits"))
            self.server.wait_ready()
        except BaseException:
            self.server.release()
            raise

    def stopped(self):
        pid = self.server.find_coved()
        return pid if pid and covetest.status_of(pid).get("State", "").split()[:1] == ["T"] else None

    def watch(self, pid):
        with open(self.log.with_name("said"), "wb") as said:
            self.tracer = subprocess.Popen(
                ["strace", "-f", "-y", "-xx", "-s", "100000000", "-a", "0", "-e", f"trace={CALLS}", "-o", self.log, "-p", str(pid)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        wait_for(lambda: "attached" in covetest.read_text(said.name) or self.tracer.poll() is not None, "strace")
        covetest.kill_quietly(pid, signal.SIGCONT)

    def hear(self, kind, doc):
        """What was durable when this was told is in the log already: strace writes before it lets go."""
        self.told.append((self.log.stat().st_size, (kind, doc)))
        return doc

    def end(self):
        """The folder as the log has it, and that it is so."""
        self.server.stop()
        self.tracer.wait(PATIENCE)
        self.server.release()
        disk = Disk(self.data_dir / "server")
        for line in self.log.read_text().splitlines():
            disk.play(line)
        for path in (self.data_dir / "server").rglob("*"):
            node = disk.find(path)
            assert path.is_dir() or path.name.endswith("-shm") or path.read_bytes() == node.data, f"{path} is another"


def load(traced):
    """Sessions that run code and leave files, of which those count that somebody has fetched."""
    server = traced.server

    def client(number):
        session = traced.hear("session", create(server))
        for turn in range(ROUNDS):
            code = f"open('f{turn}', 'w').write('{number} {turn}')\nprint('{FILLER}')"
            doc = traced.hear("execution", execute(server, session["id"], code))
            artifact, = doc["artifacts"]
            assert digest(server, artifact) == artifact["sha256"]
            traced.hear("file", artifact)
    side_by_side(client, range(CLIENTS))


def digest(server, artifact):
    url = urllib.parse.urlsplit(artifact["download_url"])
    answer = server.get(f"{url.path}?{url.query}", token=None)
    assert answer.status == 200, (answer, artifact)
    return hashlib.sha256(answer.body).hexdigest()


def cuts(traced, count):
    """The disk at places of the log where something had just been told, and what had."""
    disk, told = Disk(traced.data_dir / "server"), []
    lines = traced.log.read_text().splitlines(keepends=True)
    ends = list(itertools.accumulate(map(len, lines)))
    places = sorted(traced.told, key=lambda row: row[0])
    wanted = {round(index * (len(places) - 1) / (count - 1)) for index in range(count)}
    played = 0
    for index, (place, one) in enumerate(places):
        while played < len(lines) and ends[played] <= place:
            disk.play(lines[played])
            played += 1
        told.append(one)
        if index in wanted:
            yield disk, told


def missing(path, told):
    """Of what was told, what a database does not have; it must be whole in any case."""
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert other.execute("PRAGMA foreign_key_check").fetchall() == []
        try:
            found = {row[0] for table in ("sessions", "executions") for row in other.execute(f"SELECT id FROM {table}")}
        except sqlite3.OperationalError:  # a cut before there were tables
            found = set()
    return {doc["id"] for kind, doc in told if kind != "file"} - found


@pytest.fixture
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-power-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def put(disk, path, is_lucky):
    """A data directory as it is after the cut."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    disk.root.put(path / "server", is_lucky)
    return path / "server/cove.db"


def again(folder, told):
    """A server on what is left tells the same as the one before."""
    subprocess.run(["chown", "-R", f"--reference={folder}/data/server", folder / "cut/server"], check=True)
    with Server("--sync", "full", data_dir=folder / "cut") as server:
        for kind, doc in told:
            if kind == "file":
                assert digest(server, doc) == doc["sha256"]
            elif kind == "execution":
                assert without_addresses(read(server, doc["id"])) == without_addresses(doc)
            else:
                assert server.get(f"{SESSIONS}/{doc['id']}").status == 200


def without_addresses(doc):
    return doc | {"artifacts": [artifact | {"download_url": None} for artifact in doc["artifacts"]]}


LUCK = {"nothing more": False, "some more": True}  # than what was made durable is on the disk, in no order


@pytest.mark.parametrize("luck", LUCK)
def test_what_was_told_is_there_after_a_power_cut(folder, luck):
    traced = Traced(folder, "full")
    load(traced)
    traced.end()
    for disk, told in cuts(traced, CUTS):
        assert missing(put(disk, folder / "cut", LUCK[luck]), told) == set()
    put(disk, folder / "cut", LUCK[luck])
    again(folder, told)


@pytest.mark.parametrize("luck", LUCK)
def test_without_waiting_for_the_disk_the_last_may_be_lost_and_no_more(folder, luck):
    """As the option says. It shows that the test above would see a loss, too."""
    traced, lost = Traced(folder, "normal"), []
    load(traced)
    traced.end()
    for disk, told in cuts(traced, CUTS):
        lost.append(missing(put(disk, folder / "cut", LUCK[luck]), told))
    assert any(lost)
    put(disk, folder / "cut", LUCK[luck])
    again(folder, [])
