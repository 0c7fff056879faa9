# SPDX-License-Identifier: Apache-2.0
"""The server has a group of its own beside that of its sandboxes, whatever becomes of it."""
import pytest

import covetest
from covetest import Unit, groups_of, wait_for
from server import Server

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="makes groups")


@pytest.fixture
def unit():
    place = Unit(covetest.public_build())
    yield place
    place.close()


def leaf_of(unit, pid):
    """The name of its group in each hierarchy that limits something, which is the same."""
    paths = [path for path in groups_of(pid).values() if path.startswith(f"/{unit.name}/coved-")]
    assert paths, groups_of(pid)
    assert len(set(paths)) == 1, paths
    return paths[0]


def test_a_server_comes_back_into_its_group_and_leaves_none(unit):
    with Server(cove=unit) as server:
        leaf = leaf_of(unit, server.coved)
        assert leaf == f"/{unit.name}/coved-{server.process.pid}"
        assert {name for name, path in groups_of(server.coved).items() if path == leaf} >= {"memory"} or "" in groups_of(server.coved)
        session = server.post("/api/v1/sessions", {}).json["id"]
        assert unit.groups("cove/[0-9]*"), "where sandboxes are"
        server.kill_coved()
        assert leaf_of(unit, server.coved) == leaf
        assert server.post(f"/api/v1/sessions/{session}/execute", {"code": "print(6 * 7)", "mode": "sync"}).json["stdout"] == "42\n"
        server.stop()
        assert not unit.groups("coved-*")
        wait_for(lambda: not unit.groups("cove/[0-9]*"), "no group of a sandbox")


def test_what_a_server_that_was_killed_has_left_goes_with_the_next(unit):
    with Server(cove=unit) as server:
        coved = server.coved
        covetest.kill_quietly(server.process.pid)
        server.process.wait(covetest.PATIENCE)
        wait_for(lambda: covetest.reap() or not covetest.is_alive(coved), "the end of coved")
        assert unit.groups("coved-*")
    with Server(cove=unit) as server:
        assert {path.name for path in unit.groups("coved-*")} == {f"coved-{server.process.pid}"}
    assert not unit.groups("coved-*")


def test_two_servers_have_one_each(unit):
    with Server(cove=unit) as one, Server(cove=unit) as two:
        assert leaf_of(unit, one.coved) != leaf_of(unit, two.coved)
        one.stop()
        assert two.get("/api/v1/sessions").status == 200
        assert {path.name for path in unit.groups("coved-*")} == {f"coved-{two.process.pid}"}
