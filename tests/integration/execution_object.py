# SPDX-License-Identifier: Apache-2.0
"""The object that --json prints: what holds of every one."""
import datetime
import re

FIELDS = ["id", "session_id", "language", "state", "exit_code", "signal", "reason", "stdout", "stderr", "truncated",
          "results", "error", "artifacts", "usage", "limits_not_in_force", "created_at", "started_at", "ended_at", "duration_ms"]
REASON_FIELDS = ["kind", "limit", "used", "message", "hint"]
ARTIFACT_FIELDS = ["path", "size", "mime_type", "sha256", "modified_at", "download_url"]


def moment(text):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), text
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def check_shape(run):
    """What holds of every execution object."""
    assert list(run) == FIELDS
    assert re.fullmatch(r"exe_[0-9a-z]{26}", run["id"])
    assert run["session_id"] is None and run["results"] == [] and run["error"] is None
    assert isinstance(run["stdout"], str) and isinstance(run["stderr"], str)
    assert (run["exit_code"] is None) or (type(run["exit_code"]) is int and run["signal"] is None)
    assert (run["reason"] is None) == (run["state"] == "completed")
    if run["reason"] is not None:
        assert list(run["reason"]) == REASON_FIELDS
        assert isinstance(run["reason"]["message"], str) and run["reason"]["message"]
    for artifact in run["artifacts"]:
        assert list(artifact) == ARTIFACT_FIELDS
        assert artifact["download_url"] is None
        moment(artifact["modified_at"])
    assert set(run["limits_not_in_force"]) <= {"cpus"}
    assert list(run["usage"]) == ["cpu_ms", "peak_memory_bytes"]
    assert run["usage"]["cpu_ms"] >= 0 and type(run["usage"]["peak_memory_bytes"]) is int
    created, ended = moment(run["created_at"]), moment(run["ended_at"])
    if run["started_at"] is None:
        assert created <= ended and run["duration_ms"] == 0
    else:
        assert created <= moment(run["started_at"]) <= ended
        assert 0 < run["duration_ms"] <= (ended - created) * 1000 + 2
    return run
