# SPDX-License-Identifier: Apache-2.0
"""Workspaces that outlive their sessions: saved, restored, interrupted."""
import json
import os
import select
import signal
import subprocess

import pytest

import covetest
from covetest import BUILD, EXIT_INVALID, EXIT_NOT_FOUND, PATIENCE, wait_for
from s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Proxy, S3Server
from server import Server

API = "/api/v1"
CHUNK = 2 << 20

MAKE = """
import os
os.makedirs('d/e', exist_ok=True)
open('d/e/text', 'w').write('hello')
open('noise', 'wb').write(os.urandom({size}))
os.chmod('noise', 0o640)
os.path.lexists('link') or os.symlink('d/e/text', 'link')
"""
SUM = """
import hashlib, os, stat
for name in sorted(os.path.join(top, name) for top, _, names in os.walk('.') for name in names):
    text = os.readlink(name) if os.path.islink(name) else hashlib.sha256(open(name, 'rb').read()).hexdigest()
    print(name, oct(stat.S_IMODE(os.lstat(name).st_mode)), text)
"""


class World:
    def __init__(self, server):
        self.server = server

    def session(self):
        answer = self.server.post(f"{API}/sessions", {"language": "python", "resources": {"disk_bytes": 100 << 20}})
        assert answer.status == 201, answer
        return answer.json["id"]

    def run(self, session, code):
        answer = self.server.post(f"{API}/sessions/{session}/execute", {"code": code, "mode": "sync"})
        assert answer.status == 200 and answer.json["state"] == "completed", answer
        return answer.json["stdout"]

    def save(self, session, **more):
        return self.server.post(f"{API}/sessions/{session}/workspace/save", **more)

    def restore(self, session, source, **more):
        return self.server.post(f"{API}/sessions/{session}/workspace/restore", {"from": source}, **more)

    def end(self, session):
        assert self.server.delete(f"{API}/sessions/{session}").status in (200, 202, 204)


@pytest.fixture(scope="module")
def disk():
    with Server() as server:
        yield World(server)


@pytest.fixture(scope="module")
def bucket():
    with S3Server() as s3, Proxy(s3.port) as proxy, \
            Server(env={"COVE_S3_ENDPOINT": proxy.endpoint, "COVE_S3_BUCKET": BUCKET, "COVE_S3_ACCESS_KEY": ACCESS_KEY,
                        "COVE_S3_SECRET_KEY": SECRET_KEY}) as server:
        world = World(server)
        world.s3, world.proxy = s3, proxy
        yield world


@pytest.fixture(params=["disk", "bucket"])
def world(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("size", [0, 1000, CHUNK - 512, 3 * CHUNK + 77])
def test_what_was_saved_is_restored_after_the_session_has_ended(world, size):
    source = world.session()
    world.run(source, MAKE.format(size=size))
    before = world.run(source, SUM)
    saved = world.save(source)
    assert saved.status == 200 and saved.json["session_id"] == source and saved.json["bytes"] >= size, saved
    assert saved.json["chunks"] == saved.json["new_chunks"] == -(-saved.json["bytes"] // CHUNK)
    world.end(source)
    target = world.session()
    restored = world.restore(target, source)
    assert restored.status == 200, restored
    assert restored.json == saved.json | {"new_chunks": 0}
    assert world.run(target, SUM) == before
    world.end(target)


def test_what_did_not_change_is_not_written_again_and_what_is_gone_is_removed(world):
    source = world.session()
    world.run(source, MAKE.format(size=5 * CHUNK))
    assert world.save(source).json["new_chunks"] >= 5
    assert world.save(source).json["new_chunks"] == 0
    world.run(source, "import os; os.remove('noise')")
    saved = world.save(source).json
    assert saved["chunks"] == 1
    target = world.session()
    assert world.restore(target, source).status == 200
    assert world.run(target, SUM) == world.run(source, SUM)
    for session in source, target:
        world.end(session)


def test_only_what_the_last_list_names_stays(disk):
    source = disk.session()
    disk.run(source, MAKE.format(size=3 * CHUNK))
    disk.save(source)
    disk.run(source, MAKE.format(size=CHUNK))
    saved = disk.save(source).json
    kept = disk.server.data_dir / "server/blobs/objects/workspaces" / source
    assert len(list(kept.iterdir())) == saved["chunks"] + 1  # and the list
    disk.end(source)


def test_nobody_gets_the_files_of_another(disk):
    keys = [disk.server.post(f"{API}/keys", {"name": name, "scopes": ["sessions:read", "sessions:write", "files"]}).json["key"]
            for name in ("one", "two")]
    mine, others = (disk.server.post(f"{API}/sessions", {"language": "python"}, token=key).json["id"] for key in keys)
    assert disk.save(mine, token=keys[0]).status == 200
    answer = disk.restore(others, mine, token=keys[1])
    assert answer.status == 404 and answer.code == "workspace_not_found"
    assert disk.restore(mine, mine, token=keys[0]).status == 200
    for session in mine, others:
        disk.end(session)


def test_what_was_never_saved(disk):
    target = disk.session()
    answer = disk.restore(target, "ses_" + 26 * "0")
    assert answer.status == 404 and answer.code == "workspace_not_found"
    assert disk.restore(target, "../../etc").status == 422
    assert disk.save("ses_" + 26 * "0").status == 404
    disk.end(target)


def test_a_chunk_that_was_changed_is_refused(disk):
    source = disk.session()
    disk.run(source, MAKE.format(size=1000))
    assert disk.save(source).status == 200
    kept = disk.server.data_dir / "server/blobs/objects/workspaces" / source
    chunk = next(path for path in kept.iterdir() if path.name != "list@")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    target = disk.session()
    answer = disk.restore(target, source)
    assert answer.status == 422 and answer.code == "chunk_broken"
    assert disk.run(target, "import os; print(os.listdir())") == "[]\n"
    for session in source, target:
        disk.end(session)


def test_a_save_that_is_interrupted_leaves_the_last_good_one(bucket):
    source = bucket.session()
    bucket.run(source, MAKE.format(size=2 * CHUNK))
    good = bucket.run(source, SUM)
    assert bucket.save(source).status == 200
    bucket.run(source, MAKE.format(size=6 * CHUNK))
    # Every connection from now on breaks; those that are open, too.
    bucket.proxy.plans = [("cut_up", CHUNK + 1000)] * 2 + [("refuse",)] * 1000
    for open_one in list(bucket.proxy.sockets):
        try:
            open_one.shutdown(2)
        except OSError:
            pass
    answer = bucket.save(source)
    assert answer.status == 503 and answer.code == "storage_unavailable", answer
    bucket.proxy.plans = []
    target = bucket.session()
    assert bucket.restore(target, source).status == 200
    assert bucket.run(target, SUM) == good
    saved = bucket.save(source)
    assert saved.status == 200 and saved.json["chunks"] >= 6
    for session in source, target:
        bucket.end(session)


def is_stopped(pid):
    return all(covetest.status_of(f"{pid}/task/{thread}").get("State", "-").split()[0] == "T" for thread in os.listdir(f"/proc/{pid}/task"))


def is_killed_while_it_saves(world, session, chunks):
    """Kills the server when so many more chunks are there and the list is as before: whether that was so, as a save may be quicker than we are."""
    server, path = world.server, world.server.data_dir / "server/blobs/objects/workspaces" / session / "list@"
    read_list = lambda: path.read_bytes() if path.exists() else None
    count, before = len(kept_of(world, session)), read_list()
    connection = server.connect()
    server.begin(connection, "POST", f"{API}/sessions/{session}/workspace/save")
    is_answered = lambda: bool(select.select([connection.sock], [], [], 0)[0])
    wait_for(lambda: len(kept_of(world, session)) >= count + chunks or is_answered(), "the first chunks")
    coved = server.coved
    os.kill(coved, signal.SIGSTOP)
    wait_for(lambda: is_stopped(coved), "no thread that goes on")
    is_cut = read_list() == before and not is_answered()
    if is_cut:
        server.kill_coved()
    else:
        os.kill(coved, signal.SIGCONT)
        assert connection.getresponse().status == 200
    connection.close()
    return is_cut


def test_a_server_that_is_killed_while_it_saves(server):
    world = World(server)
    source = world.session()

    def attempt():
        """-> what was saved before"""
        world.run(source, MAKE.format(size=CHUNK))
        good = world.run(source, SUM)
        assert world.save(source).status == 200
        world.run(source, MAKE.format(size=40 * CHUNK))
        return is_killed_while_it_saves(world, source, 3) and good

    good = wait_for(attempt, "a save that is cut off")
    target = world.session()
    assert world.restore(target, source).status == 200
    assert world.run(target, SUM) == good
    # What the last execution found is being kept meanwhile.
    wait_for(lambda: not os.listdir(server.data_dir / "server/blobs/tmp"), "no rest of the save")


# --- what is saved --------------------------------------------------------------------------------

def listed(server, **more):
    """Ids of all saved workspaces, over pages of one."""
    found, query = [], "?limit=1"
    while query:
        page = server.get(f"{API}/workspaces{query}", **more).json
        found += [one["session_id"] for one in page["workspaces"]]
        query = page["next_cursor"] and f"?limit=1&cursor={page['next_cursor']}"
    return found


def kept_of(world, session):
    """What lies there of a workspace, on the disk or in the bucket."""
    if hasattr(world, "s3"):
        return [name for name in world.s3.objects() if session in name]
    folder = world.server.data_dir / "server/blobs/objects/workspaces" / session
    return [name for _, _, names in os.walk(folder) for name in names]


def test_saved_workspaces_are_listed_shown_and_removed(world):
    sessions = [world.session() for _ in range(3)]
    for session in sessions:
        world.run(session, MAKE.format(size=CHUNK))
        saved = world.save(session).json
    world.end(sessions[0])
    found = listed(world.server)
    assert [one for one in found if one in sessions] == sessions[::-1] and len(set(found)) == len(found)
    shown = world.server.get(f"{API}/workspaces/{sessions[2]}")
    assert shown.status == 200 and shown.json == {key: saved[key] for key in ("session_id", "bytes", "chunks", "saved_at")}
    for session in sessions[:2]:
        assert len(kept_of(world, session)) >= 2
        removed = world.server.delete(f"{API}/workspaces/{session}")
        assert removed.status == 200 and removed.json["session_id"] == session
        assert kept_of(world, session) == []
        for gone in world.server.get(f"{API}/workspaces/{session}"), world.server.delete(f"{API}/workspaces/{session}"):
            assert gone.status == 404 and gone.code == "workspace_not_found"
        answer = world.restore(sessions[2], session)
        assert answer.status == 404 and answer.code == "workspace_not_found"
    assert world.run(sessions[1], SUM).count("noise") == 1  # the session keeps its files
    assert world.save(sessions[1]).json["new_chunks"] >= 1  # and can be saved again
    assert [one for one in listed(world.server) if one in sessions] == [sessions[1], sessions[2]]
    for session in sessions[1:]:
        assert world.server.delete(f"{API}/workspaces/{session}").status == 200
        world.end(session)


def test_workspaces_of_others_are_not_there(disk):
    keys = [disk.server.post(f"{API}/keys", {"name": name, "scopes": ["sessions:read", "sessions:write", "files"]}).json["key"]
            for name in ("three", "four")]
    mine = disk.server.post(f"{API}/sessions", {"language": "python"}, token=keys[0]).json["id"]
    assert disk.save(mine, token=keys[0]).status == 200
    assert listed(disk.server, token=keys[0]) == [mine] and listed(disk.server, token=keys[1]) == []
    for ask in disk.server.get, disk.server.delete:
        answer = ask(f"{API}/workspaces/{mine}", token=keys[1])
        assert answer.status == 404 and answer.code == "workspace_not_found"
    assert mine in listed(disk.server)  # the operator sees all
    assert disk.server.get(f"{API}/workspaces/..%2f..").status in (400, 404)
    assert disk.server.delete(f"{API}/workspaces/nobody").code == "workspace_not_found"
    assert disk.server.delete(f"{API}/workspaces/{mine}", token=keys[0]).status == 200
    disk.end(mine)


def test_a_removal_that_fails_is_done_again(bucket):
    source = bucket.session()
    bucket.run(source, MAKE.format(size=CHUNK))
    assert bucket.save(source).status == 200
    bucket.s3.kill()
    answer = bucket.server.delete(f"{API}/workspaces/{source}")
    assert answer.status == 503 and answer.code == "storage_unavailable"
    assert source in listed(bucket.server)
    bucket.s3.start()
    assert bucket.server.delete(f"{API}/workspaces/{source}").status == 200
    assert kept_of(bucket, source) == [] and source not in listed(bucket.server)
    bucket.end(source)


def test_workspaces_go_in_time_also_those_that_were_cut_off():
    with Server("--workspace-retention", "2s") as server:
        world = World(server)

        def attempt():
            whole, cut = world.session(), world.session()
            world.run(whole, MAKE.format(size=CHUNK))
            assert world.save(whole).status == 200
            world.run(cut, MAKE.format(size=40 * CHUNK))
            return is_killed_while_it_saves(world, cut, 1) and (whole, cut)

        whole, cut = wait_for(attempt, "a save that is cut off")
        assert cut not in listed(server)  # it never was whole
        wait_for(lambda: listed(server) == [], "the end of what is old")
        wait_for(lambda: not kept_of(world, whole) and not kept_of(world, cut), "no chunk that is left")
        wait_for(lambda: world.save(cut).status == 200, "another save")  # once the removal is over


def test_the_command_line(disk, tmp_path):
    source, target = disk.session(), disk.session()
    disk.run(source, MAKE.format(size=1000))
    before = disk.run(source, SUM)

    def cove(*args, status=0):
        done = subprocess.run([BUILD / "cove", "workspace", *args], text=True, capture_output=True, timeout=PATIENCE,
                              env=os.environ | {"COVE_SERVER": disk.server.url, "COVE_TOKEN": disk.server.token})
        assert done.returncode == status, done
        return done.stdout + done.stderr

    assert "saved" in cove("save", source)
    assert source in cove("list") and source in cove("show", source)
    shown = json.loads(cove("show", source, "--json"))
    assert shown["session_id"] == source and shown["chunks"] == 1
    assert "restored" in cove("restore", target, source)
    assert disk.run(target, SUM) == before
    assert "removed" in cove("rm", source)
    assert "no workspace" in cove("rm", source, status=EXIT_NOT_FOUND).lower()
    assert "give a session" in cove("restore", target, status=EXIT_INVALID)
    for session in source, target:
        disk.end(session)
