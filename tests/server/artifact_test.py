# SPDX-License-Identifier: Apache-2.0
"""What executions make: listed with their addresses, fetched by them, kept for a while, gone in time."""
import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import urllib.parse

import pytest

from covetest import wait_for
from server import Server

WRITE = "open({path!r}, 'wb').write({data!r})"


def writing(path, data):
    return WRITE.format(path=path, data=data)


def run(server, code, session=None, **more):
    route = f"/api/v1/sessions/{session}/execute" if session else "/execute"
    body = {"code": code} | more | ({"mode": "sync"} if session else {})
    answer = server.post(route, body)
    assert answer.status == 200, answer
    assert answer.json["state"] == "completed", answer
    return answer.json


def open_session(server):
    return server.post("/api/v1/sessions", {"language": "python"}).json["id"]


def path_of(url):
    parts = urllib.parse.urlsplit(url)
    return f"{parts.path}?{parts.query}"


def fetch(server, url, method="GET", headers=None):
    return server.request(method, path_of(url), token=None, headers=headers)


def one(execution):
    (artifact,) = execution["artifacts"]
    return artifact


@pytest.fixture(scope="module")
def served():
    with Server() as server:
        yield server


def test_an_artifact_has_everything_and_is_fetched_without_a_token(served):
    session = open_session(served)
    data = bytes(range(256)) * 40
    execution = run(served, writing("out/plot.png", data).join(["import os; os.makedirs('out')\n", ""]), session)
    artifact = one(execution)
    assert artifact["path"] == "out/plot.png" and artifact["size"] == len(data)
    assert artifact["mime_type"] == "image/png"
    assert artifact["sha256"] == hashlib.sha256(data).hexdigest()
    assert artifact["modified_at"]
    assert artifact["download_url"].startswith(f"{served.url}/files/{session}/out/plot.png?exe={execution['id']}&exp=")
    answer = fetch(served, artifact["download_url"])
    assert answer.status == 200 and answer.body == data
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["ETag"] == f'"{artifact["sha256"]}"'


CHANGES = [  # in one session, one after the other: the code, and which files are new to it
    ("1 + 1", []),
    (writing("a", b"1"), ["a"]),
    ("1 + 1", []),
    ("f = open('a', 'r+b')", []),
    ("f.write(b'2'); f.flush()", ["a"]),  # in place: no folder changes
    ("import os; os.makedirs('deep/er'); 1", []),
    (writing("deep/er/b", b"1"), ["deep/er/b"]),
    ("open('/workspace/deep/er/b', 'ab').write(b'2')", ["deep/er/b"]),
    ("os.rename('a', 'c')", ["c"]),
    ("os.remove('c')", []),
    ("os.utime('deep/er/b', (1, 1))", ["deep/er/b"]),
    ("for i in range(70): open(f'many{i}', 'w').close()", sorted(f"many{i}" for i in range(70))),
    ("1 + 1", []),
    (writing("many69", b"x"), ["many69"]),
    ("for i in range(70): os.remove(f'many{i}')", []),
    ("os.remove('deep/er/b'); os.removedirs('deep/er'); os.listdir()", []),
    ("1 + 1", []),  # empty, as it was at first
    (writing("d", b"1"), ["d"]),
    ("import subprocess; p = subprocess.Popen('read x; echo 2 > d', shell=True, stdin=subprocess.PIPE)", []),
    ("p.communicate(b'go\\n')[0]", ["d"]),
    ("os.listdir = os.scandir = os.stat = None", []),
    (writing("e", b"1"), ["e"]),
]


def test_every_change_is_found_whatever_the_interpreter_says_of_its_workspace(served):
    """It tells the host when nothing changed, which then does not look."""
    session = open_session(served)
    for code, expected in CHANGES:
        assert [a["path"] for a in run(served, code, session)["artifacts"]] == expected, code


def test_what_changes_between_two_executions_belongs_to_none(served):
    session = open_session(served)
    run(served, "1", session)
    assert served.request("PUT", f"/api/v1/sessions/{session}/files/in.txt", body=b"hello").status in (200, 201)
    assert run(served, "1", session)["artifacts"] == []
    assert run(served, writing("in.txt", b"other"), session)["artifacts"][0]["path"] == "in.txt"


def test_the_list_of_artifacts_is_told_later_too(served):
    session = open_session(served)
    execution = run(served, writing("b.txt", b"two") + "\n" + writing("a.txt", b"one"), session)
    answer = served.get(f"/api/v1/executions/{execution['id']}/artifacts")
    assert answer.status == 200 and answer.json["truncated"] is False
    assert [a["path"] for a in answer.json["artifacts"]] == ["a.txt", "b.txt"]
    assert [fetch(served, a["download_url"]).body for a in answer.json["artifacts"]] == [b"one", b"two"]
    whole = served.get(f"/api/v1/executions/{execution['id']}").json
    assert all(fetch(served, a["download_url"]).status == 200 for a in whole["artifacts"])
    assert "sig=" not in json.dumps(served.get("/api/v1/executions").json)


def test_an_artifact_stays_as_its_execution_left_it(served):
    session = open_session(served)
    first = one(run(served, writing("a.txt", b"first"), session))
    second = one(run(served, writing("a.txt", b"second"), session))
    run(served, "import os; os.remove('a.txt')", session)
    assert fetch(served, first["download_url"]).body == b"first"
    assert fetch(served, second["download_url"]).body == b"second"


MANY = 20


def test_what_was_uploaded_just_before_is_no_artifact(served):
    """File times move in ticks, of which an upload and the execution after it may see the same one."""
    session, connection = open_session(served), served.connect()
    for number in range(50):
        path = f"/api/v1/sessions/{session}/files/in-{number}"
        assert served.put(path, b"x", connection=connection).status == 201
        answer = served.post(f"/api/v1/sessions/{session}/execute", {"code": "1", "mode": "sync"}, connection=connection)
        assert answer.json["artifacts"] == [], number
    connection.close()


def begin_many(server, session):
    """An execution that leaves files, small ones and a large one; answered before it ends."""
    code = f"for i in range({MANY}): open(f'{{i:02}}', 'w').write(str(i))\nopen('large', 'wb').write(bytes(3 << 20))"
    return server.post(f"/api/v1/sessions/{session}/execute", {"code": code, "queue": True}).json["id"]


def test_whoever_sees_the_end_is_told_the_addresses(served):
    """However early he asks: they are written with it."""
    session = open_session(served)
    for _ in range(30):
        execution = begin_many(served, session)
        with contextlib.closing(served.connect()) as connection:
            told = {"ended_at": None}
            while not told["ended_at"]:
                told = served.get(f"/api/v1/executions/{execution}", connection=connection).json
        assert len(told["artifacts"]) == MANY + 1
        assert all(a["download_url"] for a in told["artifacts"])
    assert len(fetch(served, told["artifacts"][-1]["download_url"]).body) == 3 << 20


def test_kill_at_the_end_leaves_an_end_with_its_rows_or_none(server):
    for round_ in range(6):
        session = open_session(server)
        executions = [begin_many(server, session) for _ in range(8)]
        wait_for(lambda: server.get(f"/api/v1/executions/{executions[round_]}").json["ended_at"], "an end")
        server.kill_coved()
        with contextlib.closing(sqlite3.connect(next(server.data_dir.rglob("*.db")))) as db:
            ended = db.execute("SELECT id, doc FROM executions WHERE ended_ns > 0 AND state = 'completed'").fetchall()
            assert executions[round_] in dict(ended)
            for id_, doc in ended:
                names = [name for (name,) in db.execute(
                    "SELECT path FROM artifacts WHERE execution_id = ? ORDER BY path", (id_,))]
                assert names == [a["path"] for a in json.loads(doc)["artifacts"]]
        server.delete(f"/api/v1/sessions/{session}")


def test_an_artifact_outlives_its_session_and_a_restart(server):
    session = open_session(server)
    artifact = one(run(server, writing("a.txt", b"kept"), session))
    assert fetch(server, artifact["download_url"]).body == b"kept"
    assert server.delete(f"/api/v1/sessions/{session}").status == 200
    assert fetch(server, artifact["download_url"]).body == b"kept"
    server.kill_coved()
    assert fetch(server, artifact["download_url"]).body == b"kept"


def test_events_have_addresses_too(served):
    session = open_session(served)
    asked = served.post(f"/api/v1/sessions/{session}/execute", {"code": writing("a.txt", b"x"), "mode": "async"}).json
    url = f"/api/v1/executions/{asked['id']}"
    wait_for(lambda: served.get(url).json["ended_at"], "its end")
    events = served.get(f"{url}/events").body.decode()
    told = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    urls = [d["download_url"] for d in told if "download_url" in d] + [
        d["artifacts"][0]["download_url"] for d in told if d.get("artifacts")]
    assert len(urls) == 2 and all(fetch(served, url).body == b"x" for url in urls)


def test_small_files_of_a_stateless_run_come_along(served):
    execution = run(served, writing("a.txt", b"text") + "\n" + writing("b.bin", b"\xff\x00"))
    assert [f.get("content") for f in execution["files"]] == ["text", None]
    assert execution["files"][1]["content_base64"] == "/wA="
    assert [fetch(served, a["download_url"]).body for a in execution["artifacts"]] == [b"text", b"\xff\x00"]


def test_ranges_and_conditions(served):
    artifact = one(run(served, writing("a.txt", b"0123456789")))
    url, tag = artifact["download_url"], f'"{artifact["sha256"]}"'
    part = fetch(served, url, headers={"Range": "bytes=2-4"})
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    assert fetch(served, url, headers={"Range": "bytes=-3"}).body == b"789"
    beyond = fetch(served, url, headers={"Range": "bytes=10-"})
    assert (beyond.status, beyond.code) == (416, "range_not_satisfiable")
    assert beyond.headers["Content-Range"] == "bytes */10"
    assert fetch(served, url, headers={"Range": "bytes=0-1,3-4"}).status == 200
    assert fetch(served, url, headers={"Range": "bytes=0-1", "If-Range": tag}).status == 206
    assert fetch(served, url, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status == 200
    known = fetch(served, url, headers={"If-None-Match": f'"x", {tag}'})
    assert (known.status, known.body) == (304, b"")
    head = fetch(served, url, method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "10")


def test_an_empty_file(served):
    artifact = one(run(served, writing("a.txt", b"")))
    answer = fetch(served, artifact["download_url"])
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert artifact["sha256"] == hashlib.sha256(b"").hexdigest()


# --- large ones -----------------------------------------------------------------------------------

LARGE = "import hashlib\nb = bytes(range(256)) * 40000\nopen('large.bin', 'wb').write(b)\nprint(hashlib.sha256(b).hexdigest())"
LARGE_BYTES = bytes(range(256)) * 40000


def test_a_large_file_is_read_after_the_answer(served):
    session = open_session(served)
    execution = run(served, LARGE + "\nopen('small.txt', 'w').write('x')", session)
    large, small = execution["artifacts"]
    assert large["size"] == len(LARGE_BYTES) and large["sha256"] is None and small["sha256"]
    assert fetch(served, small["download_url"]).body == b"x"
    answer = fetch(served, large["download_url"])
    assert answer.status == 200 and answer.body == LARGE_BYTES
    digest = hashlib.sha256(LARGE_BYTES).hexdigest()
    assert answer.headers["ETag"] == f'"{digest}"'
    told = served.get(f"/api/v1/executions/{execution['id']}").json["artifacts"][0]
    assert told["sha256"] == digest == execution["stdout"].strip()


def test_what_comes_next_waits_for_large_files_to_be_read(served):
    session = open_session(served)
    artifacts = []
    for i in range(3):
        execution = run(served, f"open('large.bin', 'wb').write(bytes([{i}]) * 5000000)", session)
        artifacts += [one(execution)]
    run(served, "import os; os.remove('large.bin')", session)
    for i, artifact in enumerate(artifacts):
        assert fetch(served, artifact["download_url"]).body == bytes([i]) * 5000000


def test_a_large_file_of_a_stateless_run_has_an_address(served):
    execution = run(served, LARGE)
    (file,) = execution["files"]
    assert "content" not in file and "content_base64" not in file
    assert fetch(served, file["download_url"]).body == LARGE_BYTES
    assert fetch(served, one(execution)["download_url"]).body == LARGE_BYTES


def test_a_file_that_changes_while_it_is_read_is_not_kept_half(served):
    """It is gone, or whole where the reader was faster: it is tried until one has gone."""
    def is_gone():
        session = open_session(served)
        execution = run(served, "import itertools, threading\ndef spoil():\n for byte in itertools.cycle([b'x', b'y']):\n"
                                "  with open('large.bin', 'r+b') as f:\n   f.seek(-1, 2); f.write(byte)\n" + LARGE +
                                "\nthreading.Thread(target=spoil, daemon=True).start()", session)
        answer = fetch(served, one(execution)["download_url"])
        if answer.status == 200:
            told = one(served.get(f"/api/v1/executions/{execution['id']}").json)
            assert (len(answer.body), hashlib.sha256(answer.body).hexdigest()) == (told["size"], told["sha256"])
        else:
            assert answer.status == 404 and answer.code == "artifact_gone"
        assert served.delete(f"/api/v1/sessions/{session}").status == 200
        return answer.status == 404
    wait_for(is_gone, "a file that changes in time")


def test_a_session_that_ends_at_once_takes_its_large_files_along_or_not(served):
    session = open_session(served)
    execution = run(served, LARGE, session)
    assert served.delete(f"/api/v1/sessions/{session}").status == 200
    answer = fetch(served, one(execution)["download_url"])
    assert answer.body == LARGE_BYTES if answer.status == 200 else answer.code == "artifact_gone"


# --- addresses ------------------------------------------------------------------------------------

def flips(text):
    """The same text with one letter changed, for each letter."""
    for i, letter in enumerate(text):
        yield text[:i] + ("0" if letter != "0" else "1") + text[i + 1:]


def test_every_change_of_an_address_is_refused(served):
    artifact = one(run(served, writing("a.txt", b"x")))
    parts = urllib.parse.urlsplit(artifact["download_url"])
    query = dict(urllib.parse.parse_qsl(parts.query))
    _, _, session, path = parts.path.split("/")

    def status(session=session, path=path, **changed):
        wanted = {k: v for k, v in (query | changed).items() if v is not None}
        return served.get(f"/files/{session}/{path}?{urllib.parse.urlencode(wanted)}", token=None)

    assert status().status == 200
    for changed in ([status(sig=s) for s in flips(query["sig"])] + [status(exp=e) for e in flips(query["exp"])] +
                    [status(exe=e) for e in flips(query["exe"])] + [status(session=s) for s in flips(session)] +
                    [status(path=p) for p in flips(path)] + [status(exe=None), status(exp=None), status(sig=None), status(exp="0" + query["exp"])] +
                    [status(sig=query["sig"].upper()), status(path="a.txt/b"), status(sig="")]):
        assert (changed.status, changed.code) == (403, "link_invalid")


def test_an_address_expires():
    with Server("--link-ttl", "1s") as server:
        def fetched(execution):
            """Its address, unless that was over too early: it lives for half a second at least, and the machine does other work, too."""
            answer = fetch(server, url := one(execution)["download_url"])
            assert answer.status == 200 or (answer.status, answer.code) == (403, "link_expired"), answer
            return url if answer.status == 200 else None

        url = wait_for(lambda: fetched(run(server, writing("a.txt", b"x"))), "an artifact in time")
        wait_for(lambda: fetch(server, url).status == 403, "its end")
        assert fetch(server, url).code == "link_expired"
        path = f"/api/v1/executions/{url.split('exe=')[1][:30]}/artifacts"
        assert wait_for(lambda: fetched(server.get(path).json), "the artifact by another address") != url


def test_secrets_are_rotated():
    env = {"FILE_SECRET": "the first secret of this server"}
    with Server(env=env) as server:
        artifact = one(run(server, writing("a.txt", b"x")))
        data_dir = server.data_dir
        url = artifact["download_url"]
        assert fetch(server, url).status == 200
        assert not (data_dir / "server/file-secret").exists()
        server.stop()
        rotated = {"COVE_FILE_SECRET": "the second one", "COVE_FILE_SECRET_PREVIOUS": env["FILE_SECRET"]}
        with Server(env=rotated, data_dir=data_dir) as second:
            assert fetch(second, url).body == b"x"
            new = one(second.get(f"/api/v1/executions/{url.split('exe=')[1][:30]}").json)["download_url"]
            assert fetch(second, new).body == b"x"
            second.stop()
        with Server(env={"COVE_FILE_SECRET": "the second one"}, data_dir=data_dir) as third:
            assert fetch(third, url).code == "link_invalid"
            assert fetch(third, new).body == b"x"


def test_a_secret_is_made_once_and_kept(server):
    artifact = one(run(server, writing("a.txt", b"x")))
    kept = server.data_dir / "server/file-secret"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().strip() not in server.log_path.read_text()
    assert artifact["download_url"].split("sig=")[1] not in server.log_path.read_text()


def test_addresses_are_those_of_the_public_url():
    with Server("--public-url", "https://cove.example") as server:
        artifact = one(run(server, writing("a.txt", b"x")))
        assert artifact["download_url"].startswith("https://cove.example/files/exe_")
        assert fetch(server, artifact["download_url"]).body == b"x"


def sign(server, session, **body):
    return server.post(f"/api/v1/sessions/{session}/files/sign", body)


def test_a_file_of_a_session_can_be_signed(served):
    session = open_session(served)
    run(served, writing("dir name.txt", b"first"), session)
    answer = sign(served, session, path="dir name.txt")
    assert answer.status == 200 and answer.json["path"] == "dir name.txt" and answer.json["expires_at"]
    url = answer.json["url"]
    assert url.startswith(f"{served.url}/files/{session}/dir%20name.txt?exp=")
    assert fetch(served, url).body == b"first"
    run(served, writing("dir name.txt", b"second"), session)
    assert fetch(served, url).body == b"second"
    part = fetch(served, url, headers={"Range": "bytes=1-2"})
    assert (part.status, part.body) == (206, b"ec")
    assert part.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert fetch(served, url.replace("dir", "Dir")).code == "link_invalid"
    run(served, "import os; os.remove('dir name.txt'); os.symlink('/etc/passwd', 'dir name.txt')", session)
    assert fetch(served, url).status in (404, 409)
    assert served.delete(f"/api/v1/sessions/{session}").status == 200
    assert fetch(served, url).status in (404, 409)


def test_what_cannot_be_signed(served):
    session = open_session(served)
    for path in ("../up", "/etc/passwd", "a//b", "", "a/", "new\nline", "."):
        assert sign(served, session, path=path).status == 422, path
    assert sign(served, session, path="a", expires_in=31 * 24 * 3600).status == 422
    assert sign(served, session, path="a", expires_in=8 * 24 * 3600).status == 422  # above the ceiling
    assert sign(served, session, path="a", expires_in=7 * 24 * 3600).status == 200
    assert sign(served, "ses_" + "0" * 26, path="a").status == 404


# --- names and headers ----------------------------------------------------------------------------

NAMES = ["a b.txt", "-rf", "~", "*.txt", "a;b=c.txt", "it's.txt", "CON", "a.", "a ", "%00", "100%25", "#?&=+.txt",
         "<script>alert(1)</script>".replace("/", "|"), 'q"uote', "back\\slash", "\u00e9", "e\u0301", "\u202egnp.exe",
         "x" * 255, ".bashrc", "\U0001f600.png"]


def test_odd_names_round_trip_with_safe_headers(served):
    code = "\n".join(writing(name, name.encode()) for name in NAMES)
    execution = run(served, code)
    assert sorted(a["path"] for a in execution["artifacts"]) == sorted(NAMES)
    for artifact in execution["artifacts"]:
        answer = fetch(served, artifact["download_url"])
        assert (answer.status, answer.body) == (200, artifact["path"].encode()), artifact
        header = answer.headers["Content-Disposition"]
        assert header.isascii() and header.isprintable() and header.startswith('attachment; filename="')


def test_names_that_no_address_can_carry_are_listed_without_one(served):
    execution = run(served, "\n".join(f"open({name!r}, 'wb').write(b'x')" for name in
                                      [b"new\nline", b"\xff\xfe.txt", b"a\r\nSet-Cookie: b=c", b"fine"]))
    urls = {a["path"]: a["download_url"] for a in execution["artifacts"]}
    assert len(urls) == 4
    assert [path for path, url in urls.items() if url] == ["fine"]


@pytest.mark.parametrize("name,kind", [("page.html", "text/html"), ("pic.svg", "image/svg+xml"),
                                       ("script.js", "text/javascript"), ("data.xml", "application/xml"),
                                       ("noname", "application/octet-stream")])
def test_content_never_runs_in_our_origin(served, name, kind):
    body = b"<html><script>document.title='run'</script></html>"
    answer = fetch(served, one(run(served, writing(name, body)))["download_url"])
    assert answer.status == 200 and answer.body == body
    headers = answer.headers
    assert headers["Content-Type"] == kind
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment")
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "private, no-cache"


def test_links_and_special_files_are_no_artifacts(served):
    execution = run(served, "import os, socket\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('fifo')\n"
                            "s = socket.socket(socket.AF_UNIX); s.bind('socket')\n" + writing("plain", b"x"))
    assert one(execution)["path"] == "plain"


# --- limits and retention -------------------------------------------------------------------------

def blobs(server):
    walk = os.walk(server.data_dir / "server/blobs/objects")  # which bears with folders that go meanwhile
    return sorted(pathlib.Path(top, name) for top, _, names in walk for name in names)


def fetched_in_time(server, code):
    """What a run has made, and the bytes of that: again when they went, as all do here after a second, before they were asked for."""
    def look():
        artifacts = run(server, code)["artifacts"]
        answers = [fetch(server, artifact["download_url"]) for artifact in artifacts]
        assert all(answer.status == 200 or (answer.status, answer.code) == (404, "artifact_gone") for answer in answers), answers
        return all(answer.status == 200 for answer in answers) and (artifacts, [answer.body for answer in answers])
    return wait_for(look, "artifacts in time")


def test_artifacts_go_in_time_and_leave_nothing():
    with Server("--artifact-retention", "1s") as server:
        session = open_session(server)
        live = run(server, writing("a.txt", b"live"), session)
        (old,), _ = fetched_in_time(server, writing("a.txt", b"old"))
        assert fetch(server, one(live)["download_url"]).body == b"live"
        wait_for(lambda: fetch(server, old["download_url"]).status == 404, "the end of the old one")
        assert fetch(server, old["download_url"]).code == "artifact_gone"
        # That of a session that lives stays.
        assert fetch(server, one(live)["download_url"]).body == b"live"
        assert server.delete(f"/api/v1/sessions/{session}").status == 200
        wait_for(lambda: fetch(server, one(live)["download_url"]).status == 404, "the end of the other one")
        wait_for(lambda: blobs(server) == [], "an empty folder")
        # The row forgets its place just after the bytes went.
        told = wait_for(lambda: next((a for a in server.get(f"/api/v1/executions/{live['id']}").json["artifacts"]
                                      if a["download_url"] is None), None), "no address any more")
        assert told["sha256"] == one(live)["sha256"]


def test_the_oldest_go_when_there_are_too_many():
    with Server("--artifact-disk", "1M") as server:
        made = [one(run(server, f"open('a.bin', 'wb').write(bytes([{i}]) * 300000)")) for i in range(5)]
        wait_for(lambda: len(blobs(server)) <= 3, "room")
        assert fetch(server, made[0]["download_url"]).code == "artifact_gone"
        assert fetch(server, made[-1]["download_url"]).body == b"\x04" * 300000


def test_what_is_too_much_for_one_execution_is_told_without_an_address():
    with Server("--artifact-max", "1K") as server:
        execution = run(server, writing("a.txt", b"x" * 600) + "\n" + writing("b.txt", b"y" * 600))
        assert [bool(a["download_url"]) for a in execution["artifacts"]] == [True, False]
        assert all(a["sha256"] for a in execution["artifacts"])
    with Server("--artifact-max", "0") as server:
        assert one(run(server, writing("a.txt", b"x")))["download_url"] is None


def test_two_files_with_the_same_bytes_are_one_blob():
    with Server("--artifact-retention", "1s") as server:
        _, bodies = fetched_in_time(server, writing("a.txt", b"same") + "\n" + writing("b.txt", b"same"))
        assert bodies == [b"same", b"same"]
        assert len(blobs(server)) <= 1
        wait_for(lambda: blobs(server) == [], "an empty folder")


def test_a_server_that_dies_at_once_leaves_no_bytes_that_nobody_knows(server):
    session = open_session(server)
    for i in range(8):
        execution = run(server, f"for n in range(20): open(f'{{n}}.bin', 'wb').write(bytes([{i}, n]) * 5000)", session)
        server.kill_coved()
        artifacts = server.get(f"/api/v1/executions/{execution['id']}/artifacts").json["artifacts"]
        assert len(artifacts) == 20
        for artifact in artifacts:
            if artifact["download_url"]:
                answer = fetch(server, artifact["download_url"])
                assert answer.status == 200 or answer.code == "artifact_gone", answer
                assert answer.status != 200 or hashlib.sha256(answer.body).hexdigest() == artifact["sha256"]
    known = {(e["id"], a["sha256"]) for e in server.get("/api/v1/executions").json["executions"]
             for a in server.get(f"/api/v1/executions/{e['id']}/artifacts").json["artifacts"] if a["download_url"]}
    assert {(p.parent.name, p.name.rstrip("@")) for p in blobs(server)} <= known


def test_others_do_not_see_the_artifacts_of_a_key(served):
    first, second = (served.post("/api/v1/keys", {"name": "k", "scopes": ["execute", "sessions:read"]}).json["key"]
                     for _ in range(2))
    mine = served.post("/execute", {"code": writing("a.txt", b"x")}, token=first).json
    url = f"/api/v1/executions/{mine['id']}/artifacts"
    assert served.get(url, token=first).status == 200
    assert served.get(url, token=second).status == 404
    assert served.get(url, token=None).status == 401


def test_curl_follows_the_address(served, tmp_path):
    artifact = one(run(served, writing("r\u00e9sum\u00e9 1.csv", b"a,b\n1,2\n")))
    subprocess.run(["curl", "-sS", "--fail", "-o", tmp_path / "out.csv", artifact["download_url"]], check=True,
                   timeout=60)
    assert (tmp_path / "out.csv").read_bytes() == b"a,b\n1,2\n"
    resumed = subprocess.run(["curl", "-sS", "--fail", "-r", "4-", artifact["download_url"]], check=True, timeout=60,
                             capture_output=True)
    assert resumed.stdout == b"1,2\n"


PLOT = """
import matplotlib.pyplot as plt
import pandas as pd
frame = pd.read_csv("sales.csv")
frame.plot(x="month", y="sum")
plt.savefig("plot.png")
print(frame["sum"].sum())
"""


def test_a_csv_goes_in_and_a_plot_comes_out_by_curl_alone(served, tmp_path):
    """Upload, run pandas on it, fetch the picture by its address: nothing but curl and what it printed."""
    (tmp_path / "sales.csv").write_text("month,sum\n1,10\n2,25\n3,7\n")
    base, token = f"{served.url}/api/v1", ["-H", f"Authorization: Bearer {served.token}"]

    def curl(*args):
        done = subprocess.run(["curl", "-sS", "--fail-with-body", *args], capture_output=True, timeout=120)
        assert done.returncode == 0, done
        return done.stdout

    def post(path, body):
        return json.loads(curl(*token, "--json", json.dumps(body), base + path))

    session = post("/sessions", {"language": "python"})["id"]
    curl(*token, "-F", f"file=@{tmp_path}/sales.csv", f"{base}/sessions/{session}/files/upload")
    execution = post(f"/sessions/{session}/execute", {"code": PLOT, "mode": "sync", "timeout": 60})
    assert execution["state"] == "completed", execution
    assert execution["stdout"] == "42\n"
    (plot,) = [a for a in execution["artifacts"] if a["path"] == "plot.png"]
    curl(*token, "-X", "DELETE", f"{base}/sessions/{session}")
    picture = curl(plot["download_url"])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) == plot["size"]
    assert hashlib.sha256(picture).hexdigest() == plot["sha256"]
