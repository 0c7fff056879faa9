# SPDX-License-Identifier: Apache-2.0
"""Executors outside of the server: what they report, twice, wrongly, and not any more.

None of them come with Cove yet, so their executions are put into the database by hand."""
import contextlib
import secrets
import sqlite3
import time

import pytest

from covetest import wait_for
from server import Server

EXECUTIONS = "/api/v1/executions"
LONG_AGO = 3600 * 10**9
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def insert(server, state="running", **fields):
    """An execution of another node."""
    row = {"id": "exe_" + "".join(secrets.choice(ALPHABET) for _ in range(26)), "owner": "", "state": state,
           "language": "python", "node": "elsewhere", "epoch": 1, "is_idempotent": 0, "attempts": 0,
           "created_ns": time.time_ns(), "started_ns": 0, "ended_ns": 0, "heartbeat_ns": 0} | fields
    with contextlib.closing(sqlite3.connect(server.data_dir / "server/cove.db", timeout=30)) as database, database:
        database.execute(f"INSERT INTO executions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    return row["id"]


def report(server, execution, word, body=None):
    token = (server.data_dir / "server/internal-token").read_text().strip()
    return server.post(f"/api/v1/internal/executions/{execution}/{word}", body, token=token)


def read(server, execution):
    answer = server.get(f"{EXECUTIONS}/{execution}")
    assert answer.status == 200, answer
    return answer.json


# --- reports --------------------------------------------------------------------------------------

RESULT = {"state": "failed", "exit_code": 1, "stdout": "out", "stderr": "err", "duration_ms": 12.5,
          "reason": {"kind": "exception", "limit": None, "used": None, "message": "it raised", "hint": None},
          "results": [{"main": True, "data": {"text/plain": "42"}}],
          "error": {"name": "ValueError", "value": "no", "traceback": "..."},
          "usage": {"cpu_ms": 3.5, "peak_memory_bytes": 1000},
          "truncated": {"stdout": {"kept_bytes": 3, "total_bytes": 30}, "results": True}}


def test_what_comes_twice_has_one_effect(server):
    execution = insert(server, "queued")
    assert report(server, execution, "status").json["state"] == "running"
    first = read(server, execution)
    assert first["started_at"]
    for word in ("status", "heartbeat"):
        assert report(server, execution, word).status == 200
        assert read(server, execution) == first
    ended = report(server, execution, "result", RESULT)
    assert ended.status == 200, ended
    assert {key: ended.json[key] for key in RESULT} == RESULT
    for body in (RESULT, RESULT | {"state": "completed", "reason": None, "stdout": "another"}):
        assert report(server, execution, "result", body).json == ended.json == read(server, execution)
    for word in ("status", "heartbeat"):
        assert report(server, execution, word).json == ended.json


@pytest.mark.parametrize("fields, word", [
    ({"results": 5}, "results"), ({"results": [{"data": "42"}]}, "results[0].data"), ({"results": [{}]}, "results[0].data"),
    ({"results": [{"data": {"text/plain": 42}}]}, "results[0].data"), ({"error": "no"}, "error"), ({"error": {"name": "x"}}, "error.value"),
    ({"reason": {"kind": "because"}}, "reason.kind"), ({"reason": {"kind": "oom", "limit": "much"}}, "reason.limit"),
    ({"usage": {"cpu_ms": -1, "peak_memory_bytes": 1}}, "usage.cpu_ms"), ({"usage": []}, "usage"),
    ({"truncated": {"stdout": True}}, "truncated.stdout"), ({"truncated": {"other": True}}, "truncated.other"),
    ({"signal": "SIGKILL"}, "signal"), ({"exit_code": None, "signal": "SIGkill"}, "signal"), ({"exit_code": 256}, "exit_code"),
    ({"state": "completed"}, "reason"), ({"state": "lost"}, "state"), ({"state": "running"}, "state"),
], ids=str)
def test_a_result_that_cannot_be_is_refused(server, fields, word):
    execution = insert(server)
    answer = report(server, execution, "result", RESULT | fields)
    assert (answer.status, answer.code) == (422, "invalid"), answer
    assert answer.json["error"]["message"].startswith(f"{word}:") or f"{word}." in answer.json["error"]["message"], answer
    assert read(server, execution)["state"] == "running"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a//b", "a/"])
def test_an_artifact_outside_of_the_workspace_is_refused(server, path):
    execution = insert(server)
    answer = report(server, execution, "artifacts", {"artifacts": [{"path": path, "size": 1}]})
    assert (answer.status, answer.code) == (422, "invalid") and "artifacts[0].path" in answer.json["error"]["message"], answer


# --- silence --------------------------------------------------------------------------------------


def when_it_is_not(server, execution, state):
    return wait_for(lambda: (doc := read(server, execution))["state"] != state and doc, f"another state than {state}")


def test_silence_loses_what_cannot_be_repeated(server):
    silent = insert(server, started_ns=1, heartbeat_ns=time.time_ns() - LONG_AGO)
    lively = insert(server, started_ns=1, heartbeat_ns=time.time_ns())
    doc = when_it_is_not(server, silent, "running")
    assert (doc["state"], doc["reason"]["kind"]) == ("lost", "infrastructure") and doc["ended_at"], doc
    assert "executor" in doc["reason"]["message"]
    assert report(server, silent, "result", RESULT).json == doc == read(server, silent), "an ending stays"
    assert read(server, lively)["state"] == "running"


def test_silence_repeats_what_is_idempotent_once(server):
    execution = insert(server, is_idempotent=1, started_ns=1, heartbeat_ns=time.time_ns() - LONG_AGO)
    assert when_it_is_not(server, execution, "running")["state"] == "queued"
    assert report(server, execution, "status").json["state"] == "running", "another executor has taken it"
    with contextlib.closing(sqlite3.connect(server.data_dir / "server/cove.db", timeout=30)) as database, database:
        database.execute("UPDATE executions SET heartbeat_ns = ? WHERE id = ?", [time.time_ns() - LONG_AGO, execution])
    assert when_it_is_not(server, execution, "running")["state"] == "lost"


def test_what_nobody_takes_again_is_lost(server):
    execution = insert(server, "queued", is_idempotent=1, attempts=1, heartbeat_ns=time.time_ns() - LONG_AGO)
    waits = insert(server, "queued")
    doc = when_it_is_not(server, execution, "queued")
    assert doc["state"] == "lost" and "no executor" in doc["reason"]["message"]
    assert read(server, waits)["state"] == "queued", "nobody was to be heard of yet"
