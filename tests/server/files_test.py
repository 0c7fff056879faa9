# SPDX-License-Identifier: Apache-2.0
"""Files of a session over HTTP: what goes in comes out, whatever it is called and whoever is in the way."""
import concurrent.futures
import http.client
import io
import json
import os
import signal
import tarfile
import threading
import urllib.parse

import pytest

import covetest
from covetest import IS_ASAN, wait_for

MIB = 1 << 20
SLACK = (4 if not IS_ASAN else 300) * MIB  # that the server may grow by while bytes go through; a sanitizer keeps what was freed


class Workspace:
    """The files of one session."""

    def __init__(self, server, **wish):
        answer = server.post("/api/v1/sessions", {"language": "python"} | wish)
        assert answer.status == 201, answer
        self.server, self.id = server, answer.json["id"]
        self.root = f"/api/v1/sessions/{self.id}/files"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.delete(f"/api/v1/sessions/{self.id}").status == 200

    def url(self, path):
        return f"{self.root}/{urllib.parse.quote(path)}"

    def ask(self, method, path, body=None, query="", **headers):
        where = self.url(path) if path else self.root
        return self.server.request(method, where + query, body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def put(self, path, body, query="", **headers):
        return self.ask("PUT", path, body, query, **headers)

    def get(self, path, query="", **headers):
        return self.ask("GET", path, None, query, **headers)

    def list(self, query=""):
        answer = self.get("", query)
        assert answer.status == 200, answer
        return answer.json["files"]

    def run(self, code, mode="sync"):
        answer = self.server.post(f"/api/v1/sessions/{self.id}/execute", {"code": code, "mode": mode})
        assert answer.status in (200, 202), answer
        assert mode != "sync" or answer.json["state"] == "completed", answer
        return answer.json

    def says(self, code):
        return self.run(code)["stdout"].rstrip("\n")

    def names(self):
        """As code inside sees them, hidden ones included."""
        return json.loads(self.says("import os, json; print(json.dumps(sorted(os.listdir('.'))))"))

    def open_upload(self, path, length):
        """A connection on which so many bytes are owed."""
        connection = self.server.connect()
        connection.putrequest("PUT", self.url(path))
        connection.putheader("Authorization", f"Bearer {self.server.token}")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        return connection

    def open_download(self, path, query=""):
        connection = self.server.connect()
        self.server.begin(connection, "GET", (self.url(path) if path else self.root) + query)
        return connection


@pytest.fixture
def space(shared_server):
    with Workspace(shared_server) as one:
        yield one


def memory(server):
    return covetest.own_memory(server.coved)


def porters(server):
    return covetest.inside(server, "cove-files")


# --- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 300_000, 5 * MIB + 1])
def test_round_trip(space, size):
    content = os.urandom(size)
    answer = space.put("a/b.bin", content)
    assert answer.status == 201 and answer.json["size"] == size and answer.json["path"] == "a/b.bin"
    assert space.get("a/b.bin").body == content
    assert space.says("import hashlib; print(hashlib.sha256(open('a/b.bin', 'rb').read()).hexdigest())") == \
        __import__("hashlib").sha256(content).hexdigest()
    assert space.names() == ["a"]


def test_chunked_body(space):
    connection = space.server.connect()
    connection.request("PUT", space.url("c"), body=iter([b"one ", b"two ", b"three"]), encode_chunked=True,
                       headers={"Authorization": f"Bearer {space.server.token}", "Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 201
    assert space.get("c").body == b"one two three"


def test_replacing_keeps_permissions(space):
    assert space.put("run.sh", b"#!/bin/sh\n", "?mode=755").json["mode"] == "0755"
    assert space.put("run.sh", b"#!/bin/sh\necho x\n").json["mode"] == "0755"
    assert space.put("plain", b"", "?mode=888").status == 400


def test_ranges(space):
    space.put("r", b"0123456789")
    etag = space.get("r").headers["ETag"]
    for header, status, body, content_range in [
            ("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=-3", 206, b"789", "bytes 7-9/10"),
            ("bytes=8-100", 206, b"89", "bytes 8-9/10"), ("bytes=0-0,2-3", 200, b"0123456789", None),
            ("lines=1-2", 200, b"0123456789", None), ("bytes=4-2", 200, b"0123456789", None)]:
        answer = space.get("r", Range=header)
        assert (answer.status, answer.body, answer.headers["Content-Range"]) == (status, body, content_range), header
    answer = space.get("r", Range="bytes=10-")
    assert answer.status == 416 and answer.headers["Content-Range"] == "bytes */10"
    assert space.get("r", Range="bytes=1-1", If_Range=etag).status == 206
    assert space.get("r", If_None_Match=f'"other", {etag}').status == 304
    space.put("r", b"abcdefghij")
    assert space.get("r", Range="bytes=1-1", If_Range=etag).body == b"abcdefghij"
    assert space.get("r", If_None_Match=etag).status == 200


def test_head(space):
    space.put("h", b"12345")
    answer = space.ask("HEAD", "h", Range="bytes=1-1")
    assert answer.status == 200 and answer.headers["Content-Length"] == "5" and answer.headers["ETag"]
    assert space.ask("HEAD", "nothing").status == 404
    assert space.ask("HEAD", "", query="?format=tar").status == 200


def test_content_is_no_page(space):
    for name in ("page.html", "image.svg"):
        space.put(name, b"<script>alert(1)</script>")
        headers = space.get(name).headers
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Content-Disposition"].startswith("attachment")
        assert "sandbox" in headers["Content-Security-Policy"] and "default-src 'none'" in headers["Content-Security-Policy"]


# --- names -----------------------------------------------------------------------------------------

NAMES = ["a b", "-rf", "~", "*", "?", "[x]", "a'b", 'a"b', "a\\b", "a;b", "a%b", "%2e", "a#b", "a&b=c", "naïve", "日本語", "e\u0301", "é",
         "\u202egnp.exe", "a.", "a ", "CON", "<script>", "x" * 255, "é" * 127, "upload", "move", "...", "a\u2028b", "🎉"]


def test_odd_names_round_trip(space):
    for name in NAMES:
        assert space.put(f"odd/{name}", name.encode()).status == 201, name
        answer = space.get(f"odd/{name}")
        assert answer.body == name.encode(), name
        disposition = answer.headers["Content-Disposition"]
        assert disposition.isascii() and disposition.isprintable() and disposition.startswith("attachment; filename=")
    listed = {one["name"]: one for one in space.list("?directory=odd&limit=1000")}
    assert set(listed) == set(NAMES)
    assert all(space.server.get(one["url"]).body == name.encode() for name, one in listed.items())
    assert sorted(json.loads(space.says("import os, json; print(json.dumps(os.listdir('odd')))"))) == sorted(NAMES)


def test_names_that_are_in_no_address(space):
    space.run(r"import os; os.mkdir('d'); [open(b'd/' + n, 'w').close() for n in (b'a\nb', b'\xff\xfe', b'a\rSet-Cookie: x', b'\x7f')]")
    listed = space.list("?directory=d")
    assert len(listed) == 4 and all(one["url"] is None for one in listed)
    assert {one["name"] for one in listed} >= {"a\nb", "\ufffd\ufffd"}
    moved = space.ask("POST", "move", {"from": "d/a\nb", "to": "d/good"})
    assert moved.status == 200 and moved.json["url"].endswith("/d/good")
    with tarfile.open(fileobj=io.BytesIO(space.get("d", "?format=tar").body)) as tar:
        assert len(tar.getnames()) == 4


def shorten(text):
    return text[:20] or "empty"


@pytest.mark.parametrize("path", ["a/../../etc/passwd", "..", ".", "./a", "a/./b", "a//b", "%2e%2e/a", "..%2fa", "a%00b", "a%0ab", "%ff",
                                  "a%2fb", "x" * 256, "x/" * 2500 + "x", "%", "a%2", "%c0%ae%c0%ae/a"], ids=shorten)
def test_paths_that_are_none(space, path):
    for method, body in (("GET", None), ("PUT", b"x"), ("DELETE", None)):
        answer = space.server.request(method, f"{space.root}/{path}", body)
        assert answer.status in (400, 414), (method, answer)
    assert space.names() == []


@pytest.mark.parametrize("path", ["", "/etc/passwd", "..", "a/../b", "a/", "./a", "a//b", "x" * 300, "x/" * 2100], ids=shorten)
def test_paths_in_documents_that_are_none(space, path):
    assert space.ask("POST", "mkdir", {"path": path}).status in (413, 422)
    assert space.ask("POST", "move", {"from": "a", "to": path}).status in (413, 422)
    if path:
        assert space.get("", f"?{urllib.parse.urlencode({'directory': path})}").status in (400, 413, 414)


# --- directories -----------------------------------------------------------------------------------


def test_pages(space):
    space.run("import os; os.mkdir('many'); [open(f'many/{i:05}', 'w').close() for i in range(2500)]")
    names, cursor, pages = [], None, 0
    while cursor or not pages:
        answer = space.get("", "?directory=many&limit=1000" + (f"&cursor={cursor}" if cursor else "")).json
        names += [one["name"] for one in answer["files"]]
        cursor, pages = answer["next_cursor"], pages + 1
        space.run(f"open('many/{0:05}-{pages}', 'w').close()")  # behind it nothing moves
    assert pages == 3 and names == [f"{i:05}" for i in range(2500)]


def test_kinds_are_told(space):
    space.run("import os, socket\nos.mkdir('d'); os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open('f', 'w').write('xyz')\n"
              "socket.socket(socket.AF_UNIX).bind('sock')")
    assert {one["name"]: one["kind"] for one in space.list()} == \
        {"d": "directory", "link": "link", "pipe": "special", "f": "file", "sock": "special"}
    assert space.get("f", "?format=json").json["size"] == 3 and space.get("d", "?format=json").json["kind"] == "directory"


def test_directories_can_be_made_moved_and_deleted(space):
    assert space.ask("POST", "mkdir", {"path": "a/b/c"}).status == 201
    space.put("a/b/c/f", b"1")
    assert space.ask("POST", "move", {"from": "a/b", "to": "x/y"}).json["path"] == "x/y"
    assert space.get("x/y/c/f").body == b"1" and space.get("a/b").status == 404
    space.put("other", b"2")
    assert space.ask("POST", "move", {"from": "other", "to": "x/y/c/f"}).code == "file_exists"
    assert space.ask("POST", "move", {"from": "other", "to": "x/y/c/f", "overwrite": True}).status == 200
    assert space.get("x/y/c/f").body == b"2"
    assert space.ask("DELETE", "x").code == "directory_not_empty"
    assert space.ask("DELETE", "x/", query="?recursive=true").status == 204
    assert space.names() == ["a"]


def test_a_deep_tree_is_deleted(space):
    """Also one with folders that their owner may not change."""
    space.run("import os\nfor i in range(300):\n    os.mkdir('d' * 50); open('f', 'w').close(); os.chdir('d' * 50)\n"
              "os.chdir('/workspace'); os.makedirs('d' * 50 + '/p/q/r'); os.chmod('d' * 50 + '/p/q', 0o555); os.chmod('d' * 50 + '/p', 0o555)")
    assert space.ask("DELETE", "d" * 50, query="?recursive=true").status == 204
    assert space.names() == ["f"]


# --- what a tenant puts in the way -----------------------------------------------------------------


def test_links_are_never_followed(space):
    space.run("import os; os.mkdir('/tmp/out'); open('/tmp/out/secret', 'w').write('secret'); os.symlink('/tmp/out', 'dir')\n"
              "os.symlink('/tmp/out/secret', 'file'); os.symlink('/proc/self', 'proc'); os.mkdir('real'); os.symlink('..', 'real/up')")
    for path in ("file", "dir", "dir/secret", "proc/environ", "real/up/real"):
        answer = space.get(path)
        assert answer.status == 409 and answer.code in ("is_a_link", "not_a_directory"), (path, answer)
    for path in ("dir/new", "dir/secret", "proc/x", "real/up/x"):
        assert space.put(path, b"evil").status == 409, path
    assert space.ask("POST", "mkdir", {"path": "dir/d"}).status == 409
    assert space.ask("POST", "move", {"from": "dir/secret", "to": "stolen"}).status == 409
    assert space.ask("POST", "move", {"from": "real", "to": "dir/real"}).status == 409
    assert space.get("", "?directory=dir").status == 409 and space.get("dir", "?format=tar").status == 409
    assert space.ask("DELETE", "dir/secret").status == 409
    assert space.put("file", b"own").status == 200  # the link itself is replaced
    assert space.ask("DELETE", "dir", query="?recursive=true").status == 204
    assert space.says("import os; print(sorted(os.listdir('/tmp/out')), open('/tmp/out/secret').read(), os.path.islink('file'))") == \
        "['secret'] secret False"


def test_special_files_make_nobody_wait(space):
    space.run("import os, socket; os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('sock')")
    for name in ("pipe", "sock"):
        assert space.get(name).code == "special_file"
    assert space.put("pipe", b"a file now").status == 200 and space.get("pipe").body == b"a file now"


def test_a_sparse_monster(shared_server):
    """As large as a file may be there, with next to nothing in it."""
    with Workspace(shared_server, resources={"disk_bytes": 1 << 30, "memory_bytes": 2 << 30}) as space:
        size = int(space.says("import resource; f = open('monster', 'wb'); f.seek(resource.getrlimit(resource.RLIMIT_FSIZE)[0] - 3)\n"
                              "f.write(b'end'); f.close(); import os; print(os.path.getsize('monster'))"))
        assert size >= 1 << 30 and int(space.ask("HEAD", "monster").headers["Content-Length"]) == size
        assert space.get("monster", Range="bytes=-5").body == b"\0\0end"
        before = memory(shared_server)
        for path, query in (("monster", ""), ("", "?format=tar")):
            connection = space.open_download(path, query)
            response = connection.getresponse()
            for _ in range(40):
                assert len(response.read(MIB)) == MIB
            assert memory(shared_server) - before < SLACK
            connection.close()
            wait_for(lambda: not porters(shared_server), "no porter")


def test_a_file_that_becomes_shorter_breaks_off(space):
    space.run(f"open('f', 'wb').write(bytes({20 * MIB}))")
    connection = space.open_download("f")
    response = connection.getresponse()
    assert int(response.headers["Content-Length"]) == 20 * MIB
    response.read(10)
    space.run("open('f', 'wb').close()")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()


def test_unreadable_files(space):
    space.run("import os; open('f', 'w').write('x'); os.chmod('f', 0); os.mkdir('d'); open('d/g', 'w').close(); os.chmod('d', 0)")
    assert space.get("f").code == "file_denied" and space.get("d/g").code == "file_denied"
    assert space.put("d/h", b"").code == "file_denied"
    assert space.ask("DELETE", "f").status == 204 and space.ask("DELETE", "d", query="?recursive=true").status == 204


def test_a_full_workspace(shared_server):
    with Workspace(shared_server, resources={"disk_bytes": 8 * MIB}) as space:
        space.put("f", b"old")
        for path in ("f", "g"):
            answer = space.put(path, bytes(9 * MIB))
            assert answer.status == 413 and answer.code == "workspace_full", answer
        assert space.get("f").body == b"old" and space.names() == ["f"]
        assert space.put("g", bytes(6 * MIB)).status == 201


def test_porters_can_be_killed_and_stopped(space):
    """They are the tenant's own processes, as far as signals go: that ends the errand and nothing else."""
    space.put("f", b"old")
    wait_for(lambda: not porters(space.server), "the end of the first porter")
    connection = space.open_upload("f", 2 * MIB)
    connection.send(bytes(MIB))
    wait_for(lambda: porters(space.server), "a porter")
    space.run("import os, signal\nfor pid in filter(str.isdigit, os.listdir('/proc')):\n"
              "    try:\n        name = open(f'/proc/{pid}/comm').read()\n        if name == 'cove-files\\n': os.kill(int(pid), signal.SIGKILL)\n"
              "    except OSError: pass")
    for pid in porters(space.server):
        covetest.kill_quietly(pid)
    answer = connection.getresponse()
    assert answer.status == 503 and json.loads(answer.read())["error"]["code"] == "files_interrupted"
    assert space.get("f").body == b"old" and space.names() == ["f"]


# --- half-way and at once --------------------------------------------------------------------------


def test_an_interrupted_upload_has_never_been(space):
    space.put("f", b"old")
    for path in ("f", "new"):
        connection = space.open_upload(path, MIB)
        connection.send(bytes(MIB // 2))
        wait_for(lambda: porters(space.server), "a porter")
        connection.close()
        wait_for(lambda: not porters(space.server), "no porter")
    assert space.get("f").body == b"old" and space.names() == ["f"]


def test_one_file_many_writers(space):
    """Whoever reads it has one of theirs, whole."""
    contents = {bytes([i]) * (100_000 + i) for i in range(6)}
    space.put("f", next(iter(contents)))
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            answer = space.get("f")
            if answer.status == 200:
                seen.append(answer.body in contents)

    def write(content):
        """Again where it is one too many: a porter stays for a moment after its answer."""
        def look():
            answer = space.put("f", content)
            return None if answer.status == 429 and answer.code == "files_busy" else answer
        return wait_for(look, "room for a writer")

    reader = threading.Thread(target=read)
    reader.start()
    with concurrent.futures.ThreadPoolExecutor(len(contents)) as pool:
        for _ in range(10):
            assert {answer.status for answer in pool.map(write, contents)} == {200}
    stop.set()
    reader.join()
    wait_for(lambda: not porters(space.server), "no porter")
    assert seen and all(seen) and space.get("f").body in contents and space.names() == ["f"]


def test_only_so_many_at_once(space):
    connections = [space.open_upload(f"f{i}", 10) for i in range(8)]
    wait_for(lambda: len(porters(space.server)) == 8, "eight porters")
    answer = space.get("f0")
    assert answer.status == 429 and answer.code == "files_busy" and answer.headers["Retry-After"]
    for connection in connections:
        connection.send(b"0123456789")
        assert connection.getresponse().status == 201
    wait_for(lambda: space.get("f0").body == b"0123456789", "room again")


def test_beside_an_execution(space):
    execution = space.run("import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint(open('go').read())", mode="async")
    assert space.list() == []
    assert space.put("go", b"went").status == 201
    ended = wait_for(lambda: (e := space.server.get(f"/api/v1/executions/{execution['id']}").json)["ended_at"] and e, "its end")
    assert ended["stdout"] == "went\n"


@pytest.mark.parametrize("language", ["bash", "javascript"])
def test_in_a_sandbox_that_was_started_cold(shared_server, language):
    with Workspace(shared_server, language=language) as space:
        assert space.put("a/f", b"x" * 100_000).status == 201 and space.get("a/f").body == b"x" * 100_000
        assert space.put("a/f", b"new").status == 200 and space.get("a/f").body == b"new"


@pytest.mark.parametrize("kind", ["plain", "subids"])
def test_for_an_ordinary_user(kind):
    reason = covetest.why_no_rootless(kind)
    if reason:
        pytest.skip(reason)
    from server import Server
    with Server(cove=covetest.rootless(kind)) as server, Workspace(server) as space:
        assert space.put("a/f", b"x").status == 201 and space.put("a/f", b"new").status == 200
        assert space.get("a/f").body == b"new" and [one["name"] for one in space.list("?directory=a")] == ["f"]
        assert space.ask("DELETE", "a", query="?recursive=true").status == 204 and space.names() == []


def test_without_an_interpreter(space):
    space.put("f", b"1")
    space.server.post(f"/api/v1/sessions/{space.id}/execute", {"code": "import os; os._exit(3)", "mode": "sync"})
    assert space.get("f").body == b"1" and space.put("f", b"2").status == 200


def upload_beside_a_kill(space):
    """The status of an upload that was under way when all that the code had started was killed."""
    connection = space.open_upload("f", 10)
    connection.send(b"01234")
    answer = space.server.post(f"/api/v1/sessions/{space.id}/execute",
                               {"code": "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nwhile True: time.sleep(1)",
                                "mode": "sync", "timeout": 0.3})
    assert answer.json["state"] == "timeout"
    connection.send(b"56789")
    status = connection.getresponse().status
    space.server.post(f"/api/v1/sessions/{space.id}/reset")
    return status


def test_a_kill_of_the_code_spares_uploads(space):
    """A porter is not of it. Only where init has no turn for long the spawner kills all; so, once in a while, here."""
    statuses = []
    while 201 not in statuses and len(statuses) < 10:
        statuses.append(upload_beside_a_kill(space))
    assert set(statuses) <= {200, 201, 503} and 201 in statuses, statuses


def test_what_is_saved_is_not_written_meanwhile(space):
    connection = space.open_upload("f", 10)
    wait_for(lambda: porters(space.server), "a porter")
    answer = space.server.post(f"/api/v1/sessions/{space.id}/checkpoints", {"name": "one"})
    assert answer.status == 409 and answer.code == "files_busy"
    connection.send(b"0123456789")
    assert connection.getresponse().status == 201
    assert space.server.post(f"/api/v1/sessions/{space.id}/checkpoints", {"name": "one"}).status == 201
    space.put("f", b"later")
    space.run(f"open('large', 'wb').write(bytes({20 * MIB}))")
    download = space.open_download("large")
    response = download.getresponse()
    response.read(10)
    assert space.server.post(f"/api/v1/sessions/{space.id}/rollback", {"checkpoint": "one"}).status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    assert space.get("f").body == b"0123456789" and space.names() == ["f"]


def test_the_end_of_a_session(shared_server):
    with Workspace(shared_server) as space:
        space.run(f"open('large', 'wb').write(bytes({20 * MIB}))")
        upload, download = space.open_upload("f", 10), space.open_download("large")
        response = download.getresponse()
        response.read(10)
        assert space.server.delete(f"/api/v1/sessions/{space.id}").status == 200
        assert upload.getresponse().status == 503
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        assert space.get("f").status in (404, 409)


def test_a_revoked_key_gets_nothing_more(space):
    key = space.server.post("/api/v1/keys", {"name": "k", "scopes": ["files", "sessions:write"]}).json
    session = space.server.request("POST", "/api/v1/sessions", {"language": "python"}, token=key["key"]).json["id"]
    url = f"/api/v1/sessions/{session}/files/f"
    assert space.server.request("PUT", url, bytes(20 * MIB), token=key["key"]).status == 201
    connection = space.server.connect()
    space.server.begin(connection, "GET", url, token=key["key"])
    response = connection.getresponse()
    response.read(10)
    assert space.server.delete(f"/api/v1/keys/{key['id']}").status in (200, 204)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    space.server.delete(f"/api/v1/sessions/{session}")


def test_a_killed_server_leaves_old_or_new(server):
    with Workspace(server) as space:
        space.put("f", b"old")
        connection = space.open_upload("f", MIB)
        connection.send(bytes(MIB // 2))
        wait_for(lambda: porters(server), "a porter")
        server.kill_coved()
        wait_for(lambda: not porters(server), "no porter")
        assert space.get("f").body == b"old" and space.names() == ["f"]
        assert space.put("f", b"new").status == 200


def test_files_are_there_while_a_session_is_taken_over(server):
    """The first process of the sandbox is slow to say what runs: whoever asks for a file meanwhile waits, and is not sent away."""
    with Workspace(server) as space:
        space.put("f", b"here")
        inits = covetest.inside(server, "cove-init")
        for pid in inits:
            os.kill(pid, signal.SIGSTOP)
        try:
            server.kill_coved()
            wait_for(lambda: server.get(f"/api/v1/sessions/{space.id}").json["state"] == "ready", "the interpreter to answer")
            download = space.open_download("f")
            assert server.get("/health").status == 200  # it has been read by now
        finally:
            for pid in filter(covetest.is_alive, inits):
                os.kill(pid, signal.SIGCONT)
        response = download.getresponse()
        assert (response.status, response.read()) == (200, b"here")
        download.close()


# --- how much --------------------------------------------------------------------------------------


def test_memory_stays_flat(shared_server):
    """Up and down, with a peer that takes nothing for a while."""
    size = 90 * MIB
    with Workspace(shared_server, resources={"disk_bytes": 200 * MIB, "memory_bytes": 512 * MIB}) as space:
        space.put("warm", bytes(MIB))
        before, peak = memory(shared_server), 0
        connection = space.open_upload("f", size)
        for _ in range(size // MIB):
            connection.send(bytes(MIB))
            peak = max(peak, memory(shared_server))
        assert connection.getresponse().status == 201
        connection = space.open_download("f")
        response = connection.getresponse()
        for _ in range(size // MIB):
            assert len(response.read(MIB)) == MIB
            peak = max(peak, memory(shared_server))
        assert peak - before < SLACK, f"{(peak - before) / MIB} MiB"


def test_too_large_an_upload(space):
    for method, path in (("PUT", space.url("f")), ("PUT", space.root), ("POST", f"{space.root}/upload")):
        connection = space.server.connect()
        connection.putrequest(method, path)
        connection.putheader("Authorization", f"Bearer {space.server.token}")
        connection.putheader("Content-Length", str(102 * MIB))
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_the_limit_is_an_option():
    from server import Server
    with Server("--upload-max", "1k") as server, Workspace(server) as space:
        assert space.put("f", bytes(1024)).status == 201
        answer = space.put("f", bytes(1025))
        assert answer.status == 413 and answer.code == "body_too_large"
        connection = server.connect()
        connection.request("PUT", space.url("f"), body=iter([bytes(1000), bytes(1000)]), encode_chunked=True,
                           headers={"Authorization": f"Bearer {server.token}", "Transfer-Encoding": "chunked"})
        assert connection.getresponse().status == 413
        assert space.get("f").body == bytes(1024) and space.names() == ["f"]


# --- forms -----------------------------------------------------------------------------------------


def part(content, **fields):
    attributes = "".join(f'; {name}="{value}"' for name, value in fields.items())
    return f"--cut\r\nContent-Disposition: form-data{attributes}\r\n\r\n".encode() + content + b"\r\n"


def send_form(space, *parts, query="", end=b"--cut--\r\n"):
    return space.ask("POST", "upload", b"".join(parts) + end, query, Content_Type="multipart/form-data; boundary=cut")


def test_form(space):
    large = os.urandom(3 * MIB)
    answer = send_form(space, part(b"a,b\n", name="f", filename="a.csv"), part(large, name="f", filename="sub/b.bin"),
                       part(b"", name="g", filename="empty"), query="?directory=in")
    assert answer.status == 201 and [one["path"] for one in answer.json["files"]] == ["in/a.csv", "in/sub/b.bin", "in/empty"]
    assert space.get("in/sub/b.bin").body == large and space.get("in/empty").body == b""


def test_form_names_its_path(space):
    answer = send_form(space, part(b"x/y.txt", name="path"), part(b"1", name="file", filename="local.txt"),
                       part(b"2", name="file", filename="z"))
    assert [one["path"] for one in answer.json["files"]] == ["x/y.txt", "z"]


def test_form_with_many_small_files(space):
    parts = [part(b"%d" % i, name="f", filename=f"n{i}") for i in range(500)]
    answer = send_form(space, *parts)
    assert answer.status == 201 and len(answer.json["files"]) == 500
    assert space.says("print(sum(int(open(f'n{i}').read()) for i in range(500)))") == str(sum(range(500)))


def test_forms_that_are_none(space):
    good = part(b"1", name="f", filename="ok")
    for parts, end in [([part(b"1", name="other")], b"--cut--\r\n"), ([], b"--cut--\r\n"), ([good], b""), ([good], b"--cut"),
                       ([part(b"1", name="f", filename="../evil")], b"--cut--\r\n"), ([part(b"../evil", name="path"), good], b"--cut--\r\n"),
                       ([part(b"1", name="f", filename="/etc/evil")], b"--cut--\r\n"), ([b"junk"], b"--cut--\r\n")]:
        answer = send_form(space, *parts, end=end)
        assert answer.status == 400, (parts, answer)
    assert space.ask("POST", "upload", b"x", Content_Type="text/plain").status in (400, 415)
    assert set(space.names()) <= {"ok"}


# --- archives --------------------------------------------------------------------------------------


def archive(*entries, format=tarfile.PAX_FORMAT):
    """Of (name, content or type, attributes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, content, *more in entries:
            entry = tarfile.TarInfo(name)
            for key, value in (more[0] if more else {}).items():
                setattr(entry, key, value)
            if isinstance(content, str):
                entry.type = content.encode()
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_go_in_and_come_out(space, format):
    long = "/".join(["d" * 40] * 3 + ["f" * 90]) if format != tarfile.USTAR_FORMAT else "d" * 90 + "/" + "f" * 90
    large = os.urandom(200_001)
    sent = archive(("./", "5"), ("./dir/", "5", {"mode": 0o700}), ("dir/run", b"#!", {"mode": 0o755, "mtime": 1_000_000_000}), (long, large),
                   ("link", "2", {"linkname": "/somewhere/else"}), ("empty", b""), ("naïve 日本", b"u"), format=format)
    assert space.put("", sent, "?directory=in").status == 204
    with tarfile.open(fileobj=io.BytesIO(space.get("in", "?format=tar").body)) as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
        assert {"dir", "dir/run", long, "link", "empty", "naïve 日本"} <= set(entries)
        assert entries["dir/run"].mode == 0o755 and entries["dir/run"].mtime == 1_000_000_000
        assert entries["link"].issym() and entries["link"].linkname == "/somewhere/else"
        assert tar.extractfile(long).read() == large


def test_archives_that_lead_out(space):
    space.run("import os; os.mkdir('/tmp/out')")
    for entries in [[("../evil", b"x")], [("/tmp/out/evil", b"x")], [("a/../../evil", b"x")], [("l", "2", {"linkname": "/tmp/out"}), ("l/evil", b"x")],
                    [("h", "1", {"linkname": "/etc/passwd"})], [("dev", "3")], [("blk", "4")], [("fifo", "6")], [("d", "2", {"linkname": ".."}), ("d/tmp/out/evil", b"x")]]:
        answer = space.put("", archive(*entries), "?directory=in")
        assert answer.status in (400, 409), (entries, answer)
    assert space.says("import os; print(os.listdir('/tmp/out'), os.path.exists('evil'))") == "[] False"


def test_archives_that_are_none(space):
    good = archive(("a", b"x" * 2000))
    broken = bytearray(good)
    broken[150] ^= 1  # the checksum
    for sent in (good[:700], good[:100], bytes(broken), b"PK\x03\x04" + bytes(600), archive(("x" * 5000, b"1")),
                 archive(("a", b"1", {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.realsize": "1099511627776"}}))):
        assert space.put("", sent, "?directory=in").status == 400
    assert "in" not in space.names() or space.list("?directory=in") == []


def test_an_archive_leaves_out_what_is_no_file(space):
    space.run("import os, socket; os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('sock'); open('f', 'w').write('x')\n"
              "open('closed', 'w').close(); os.chmod('closed', 0)")
    with tarfile.open(fileobj=io.BytesIO(space.get("", "?format=tar").body)) as tar:
        assert tar.getnames() == ["f"]
