# SPDX-License-Identifier: Apache-2.0
"""Resources of MCP: what the caller's executions left, listed newest first, and completed."""
import re
import sqlite3
import time

import pytest

import covetest
from mcp_client import Legacy, Modern
from server import Server


MEMORY = (16 if not covetest.IS_ASAN else 128) << 20


def resident(server):
    return covetest.own_memory(server.coved)


@pytest.fixture(params=[Modern, Legacy], ids=["modern", "legacy"])
def client(request, server):
    return request.param(server)


def key(server, *scopes):
    return server.post("/api/v1/keys", {"name": "mcp", "scopes": list(scopes)}).json["key"]


def all_pages(client):
    """-> the pages"""
    pages, cursor = [], None
    while True:
        result = client.result("resources/list", {"cursor": cursor} if cursor else {})
        pages.append(result["resources"])
        assert len(result["resources"]) <= 100
        cursor = result.get("nextCursor")
        if cursor is None:
            return pages


def run(client, code, **more):
    return re.search(r"\[files of (exe_\w+)", client.text("run_code", {"code": code} | more))[1]


def test_files_are_listed_newest_first(client):
    assert client.result("resources/list")["resources"] == []
    one = run(client, "open('a.txt', 'w').write('one')")
    two = run(client, "open('b.png', 'w').write('two'); open('c\\n', 'w').write('x'); open('d e', 'w').write('x')", session_id="s")
    client.text("run_code", {"code": "print('nothing left')"})
    listed = client.result("resources/list")
    assert "nextCursor" not in listed
    uris = [f"cove://executions/{two}/files/b.png", f"cove://executions/{two}/files/d%20e", f"cove://executions/{one}/files/a.txt"]
    assert [entry["uri"] for entry in listed["resources"]] == uris  # a name with a line end has no address
    last = listed["resources"][2]
    assert (last["name"], last["mimeType"], last["size"]) == ("a.txt", "text/plain", 3) and one in last["description"]
    assert re.fullmatch(r"[\d-]+T[\d:.]+Z", last["annotations"]["lastModified"])
    for entry, text in zip(listed["resources"], ("two", "x", "one")):
        assert client.result("resources/read", {"uri": entry["uri"]})["contents"][0]["text"] == text


def test_pages_go_on_within_an_execution(client):
    client.text("run_code", {"code": "for i in range(250): open(f'{i:03}', 'w').write('x')"})
    run(client, "open('last', 'w').write('x')")
    pages = all_pages(client)
    names = [entry["name"] for page in pages for entry in page]
    assert names == ["last"] + [f"{i:03}" for i in range(250)] and [len(page) for page in pages] == [100, 100, 51]


def test_what_comes_meanwhile_moves_no_page(client):
    client.text("run_code", {"code": "for i in range(150): open(f'{i:03}', 'w').write('x')"})
    first = client.result("resources/list")
    run(client, "open('new', 'w').write('x')")
    second = client.result("resources/list", {"cursor": first["nextCursor"]})
    assert [entry["name"] for entry in second["resources"]] == [f"{i:03}" for i in range(100, 150)]


@pytest.mark.parametrize("cursor", ["", "0", "x", ".", "0.", "1.x", "99999999999999999999.x", "-1.x", "0." + "a" * 500, "1001.x", 7, {}, "0.\u0000"])
def test_cursors_of_others(shared_server, cursor):
    for client in (Modern(shared_server), Legacy(shared_server)):
        answer = client.request("resources/list", {"cursor": cursor})
        assert answer["error"]["code"] in (-32602, -32700), answer


def test_everybody_sees_his_own(server):
    scopes = "execute", "sessions:read", "sessions:write", "files"
    one, other, blind = (Modern(server, key(server, *words)) for words in (scopes, scopes, ["execute"]))
    operator = Modern(server)
    execution = run(one, "open('mine', 'w').write('x')")
    assert [entry["name"] for page in all_pages(one) for entry in page] == ["mine"]
    for stranger in (other, blind, operator):
        assert stranger.result("resources/list")["resources"] == []
    cursor = f"0.{execution}"
    assert other.request("resources/list", {"cursor": cursor}).get("result", {"resources": []})["resources"] == []
    assert blind.text("run_code", {"code": "open('f', 'w').write('x')"}) and blind.result("resources/list")["resources"] == []
    for stranger in (other, blind):
        values = complete(stranger, "execution_id", "")["values"]
        assert execution not in values
        assert complete(stranger, "path", "", execution)["values"] == []


def complete(client, name, value, execution=None):
    context = {"context": {"arguments": {"execution_id": execution}}} if execution else {}
    ref = {"type": "ref/resource", "uri": "cove://executions/{execution_id}/files/{path}"}
    return client.result("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}} | context)["completion"]


def test_addresses_are_completed(client):
    one = run(client, "open('alpha.txt', 'w').write('x'); open('alps.txt', 'w').write('x'); open('beta', 'w').write('x')")
    two = run(client, "for i in range(150): open(f'f{i}', 'w').write('x')")
    assert complete(client, "execution_id", "") == {"values": [two, one], "hasMore": False}
    assert complete(client, "execution_id", one[:-2])["values"] == [one]
    assert complete(client, "path", "alp", one) == {"values": ["alpha.txt", "alps.txt"], "hasMore": False}
    many = complete(client, "path", "f", two)
    assert len(many["values"]) == 100 and many["hasMore"] is True
    for name, value, execution in (("path", "a", None), ("path", "a", "exe_" + "0" * 26), ("path", "a", "x' OR 1=1"), ("other", "", one)):
        assert complete(client, name, value, execution)["values"] == []
    prompt = {"ref": {"type": "ref/prompt", "name": "draw_chart"}, "argument": {"name": "what", "value": "a"}}
    assert client.result("completion/complete", prompt)["completion"]["values"] == []


def test_a_hundred_thousand_files(server):
    """Put into the database while nobody looks: what counts is that no page costs more than a page."""
    run(Modern(server), "open('first', 'w').write('x')")
    assert server.stop() == 0
    with sqlite3.connect(next(server.data_dir.glob("server/*.db"))) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(executions)")]
        model = db.execute(f"SELECT {', '.join(columns)} FROM executions LIMIT 1").fetchone()
        for i in range(100):
            row = dict(zip(columns, model)) | {"id": f"exe_{i:026}", "created_ns": 10**18 + i}
            db.execute(f"INSERT INTO executions VALUES ({', '.join('?' * len(columns))})", [row[name] for name in columns])
            db.executemany("INSERT INTO artifacts VALUES (?, ?, 'text/plain', 'artifacts/x', 1, 420, 1, NULL)",
                           [(row["id"], f"{n:04}") for n in range(1000)])
    with Server(data_dir=server.data_dir, env=covetest.without_quarantine()) as again:
        client = Modern(again)
        before = resident(again)
        began = time.monotonic()
        pages = all_pages(client)
        assert sum(map(len, pages)) == 100_001 and len(pages) <= 1101
        assert len({entry["uri"] for page in pages for entry in page}) == 100_001
        assert (time.monotonic() - began) / len(pages) < 0.2, "a page takes as long as all of them"
        assert resident(again) - before < MEMORY
        assert again.get("/health").status == 200
