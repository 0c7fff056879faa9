# SPDX-License-Identifier: Apache-2.0
"""A stream that has nothing to say for long says so."""
import contract


def test_a_silent_stream_has_a_pulse(shared_server):
    """By an event, which a page in a browser can hear; it has no id, for nobody goes on behind it."""
    session = shared_server.post("/api/v1/sessions", {"language": "python"}).json["id"]
    code = "print('begun', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('done')"
    names, last = [], None
    for event in shared_server.events("POST", f"/api/v1/sessions/{session}/execute", {"code": code, "mode": "stream", "timeout": 120}):
        number, name, data = contract.check_event(event)
        names.append(name)
        if name == "heartbeat" and names.count(name) == 1:
            assert not number and set(data) == {"at"}
            assert shared_server.put(f"/api/v1/sessions/{session}/files/go", b"").status == 201
        last = data
    assert "heartbeat" in names and names[-1] == "ended" and last["stdout"] == "begun\ndone\n", names
    shared_server.delete(f"/api/v1/sessions/{session}")
