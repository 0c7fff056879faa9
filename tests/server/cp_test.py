# SPDX-License-Identifier: Apache-2.0
"""`cove cp` against a real server: files and directories, in and out, and what it shows meanwhile."""
import io
import json
import os
import pty
import stat
import subprocess
import tarfile

import covetest
import played_server
import pytest

from client_server_test import Client
from covetest import EXIT_NOT_FOUND, PATIENCE, wait_for


@pytest.fixture
def client(shared_server):
    return Client(shared_server)


@pytest.fixture
def session(client):
    name = client.good("session", "create").strip()
    yield name
    client.good("session", "rm", name)


def inside(client, session, code):
    return client.good("exec", session, "-c", code).rstrip("\n")


def test_a_file_goes_in_and_comes_out(client, session, tmp_path):
    content = os.urandom(3_000_001)
    (tmp_path / "in.bin").write_bytes(content)
    (tmp_path / "in.bin").chmod(0o755)
    assert client.good("cp", tmp_path / "in.bin", f"{session}:a/b/in.bin") == ""
    assert inside(client, session, "import os; print(os.path.getsize('a/b/in.bin'), oct(os.stat('a/b/in.bin').st_mode))") == "3000001 0o100755"
    client.good("cp", f"{session}:/workspace/a/b/in.bin", tmp_path / "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.bin", "out.bin"]


def test_into_a_directory_that_is_there(client, session, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    inside(client, session, "import os; os.mkdir('d')")
    client.good("cp", tmp_path / "data.csv", f"{session}:d/")
    client.good("cp", tmp_path / "data.csv", f"{session}:")
    assert inside(client, session, "print(open('d/data.csv').read() + open('data.csv').read())") == "1,2\n1,2"
    (tmp_path / "here").mkdir()
    client.good("cp", f"{session}:d/data.csv", tmp_path / "here")
    assert (tmp_path / "here/data.csv").read_text() == "1,2\n"


def test_a_directory_goes_in_and_comes_out(client, session, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub/deep").mkdir(parents=True)
    (tree / "sub/deep/naïve name").write_text("x")
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    (tree / ("long" * 50)).write_bytes(os.urandom(200_000))
    client.good("cp", tree, f"{session}:in")
    assert inside(client, session, "import os; print(os.readlink('in/link'), os.access('in/run', os.X_OK), open('in/sub/deep/naïve name').read())") == \
        "run True x"
    client.good("cp", f"{session}:in", tmp_path / "back")
    assert subprocess.run(["diff", "-r", tree, tmp_path / "back"]).returncode == 0
    client.good("cp", f"{session}:", tmp_path / "all")
    assert (tmp_path / "all/in/run").exists()
    client.good("cp", f"{tree}/", f"{session}:in")  # it is there: under its own name
    assert inside(client, session, "import os; print(os.path.isdir('in/tree/sub'))") == "True"


def test_standard_input_and_output(client, session):
    done = subprocess.run([*client.cove.argv("cp", "-", f"{session}:typed")], env=environment(client), input=b"from a pipe", timeout=PATIENCE)
    assert done.returncode == 0
    done = subprocess.run([*client.cove.argv("cp", f"{session}:typed", "-")], env=environment(client), stdout=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout == b"from a pipe"


def environment(client):
    return dict(os.environ) | client.env


def test_json(client, session, tmp_path):
    (tmp_path / "f").write_text("abc")
    sent = client.json("cp", tmp_path / "f", f"{session}:f")
    assert sent["path"] == "f" and sent["size"] == 3 and sent["kind"] == "file"
    got = client.json("cp", f"{session}:f", tmp_path / "g")
    assert got == {"path": str(tmp_path / "g"), "size": 3}


def test_what_is_not_there(client, session, tmp_path):
    done = client("cp", f"{session}:nothing", tmp_path / "g")
    assert done.returncode == EXIT_NOT_FOUND and "nothing" in done.stderr and not list(tmp_path.iterdir())
    done = client("cp", tmp_path / "nothing", f"{session}:g")
    assert done.returncode == EXIT_NOT_FOUND and "nothing" in done.stderr
    assert client("cp", "a", "b").returncode == 64 and client("cp", "x:a", "y:b").returncode == 64
    assert client("cp", tmp_path, f"{session}:/etc/x").returncode == 64
    (tmp_path / "f").write_text("x")
    assert "'..'" in client("cp", tmp_path / "f", f"{session}:../up").stderr


def test_a_download_that_breaks_leaves_nothing(client, session, tmp_path):
    (tmp_path / "g").write_text("old")
    inside(client, session, "import os; os.mkfifo('pipe')")
    assert client("cp", f"{session}:pipe", tmp_path / "g").returncode != 0
    assert (tmp_path / "g").read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["g"]


def test_a_bar_on_a_terminal(client, session, tmp_path):
    (tmp_path / "f").write_bytes(bytes(2_000_000))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*client.cove.argv("cp", tmp_path / "f", f"{session}:f")], env=environment(client) | {"TERM": "xterm"},
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:  # the terminal's other side is closed
        pass
    wait_for(lambda: process.poll() is not None, "its end")
    os.close(ours)
    assert process.returncode == 0 and "100%".encode() in said, said
    assert json.loads(client.good("exec", session, "-c", "import os; print(os.path.getsize('f'))")) == 2_000_000


# --- an archive that no server of ours would send ----------------------------------------------------


def forged(*entries):
    """Of (name, content or type, attributes)."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as tar:
        for name, content, more in entries:
            entry = tarfile.TarInfo(name)
            for key, value in more.items():
                setattr(entry, key, value)
            if isinstance(content, str):
                entry.type = content.encode()
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return memory.getvalue()


@pytest.fixture
def forger(tmp_path):
    """-> unpack(*entries) by `cove cp` into the same directory each time, and a place outside of it"""
    server = played_server.Server()
    client = played_server.Client(covetest.Cove(), server.url, tmp_path)
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "file").write_text("old")
    (outside / "sub").chmod(0o750)
    (tmp_path / "into").mkdir()

    def unpack(*entries):
        server.script[f"GET /sessions/{played_server.SES}/files/d"] = [
            {"path": "d", "kind": "directory", "size": 0}, lambda handler: handler.send(200, forged(*entries), "application/x-tar")]
        return client("cp", f"{played_server.SES}:d", tmp_path / "into")

    yield unpack, outside, tmp_path / "into/d"
    server.close()


def look_at(folder):
    """Names, permissions and contents. No fence holds the times of directories."""
    return {path: (path.lstat().st_mode, path.read_bytes() if path.is_file() else None) for path in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("entry", [("way/evil", b"x", {}), ("way/file", b"x", {}), ("way/new/", "5", {}), ("way/sub/", "5", {"mode": 0o777}),
                                   ("way/link", "2", {"linkname": "/"}), ("way/sub/evil", b"x", {}), ("../../outside/evil", b"x", {}),
                                   ("way/hard", "1", {"linkname": "first"})], ids=lambda entry: entry[0].replace("/", "|"))
def test_nothing_is_written_through_a_link_that_an_earlier_copy_has_left(forger, entry):
    unpack, outside, into = forger
    assert unpack(("way", "2", {"linkname": str(outside)}), ("first", b"1", {})).returncode == 0
    before = look_at(outside)
    unpack(entry, ("last", b"2", {}))
    assert look_at(outside) == before and (into / "first").stat().st_nlink == 1


def test_only_files_directories_and_links_come_out(forger):
    """No device, no pipe, and nothing that runs as whoever copied it."""
    unpack, _, into = forger
    unpack(("null", "3", {"devmajor": 1, "devminor": 3}), ("disk", "4", {"devmajor": 7, "devminor": 0}), ("pipe", "6", {}),
           ("program", b"#!", {"mode": 0o6755}), ("shared", "5", {"mode": 0o3777}))
    modes = {path.name: path.lstat().st_mode for path in into.iterdir()}
    assert all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes.values()), modes
    assert not [name for name, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX)] and "program" in modes, modes
