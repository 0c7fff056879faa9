# SPDX-License-Identifier: Apache-2.0
"""`cove exec` and `cove logs` against a server that is played: whatever becomes of the stream, the end is told."""
import json
import signal
import threading

import pytest

from covetest import EXIT_INVALID, EXIT_NOT_FOUND, EXIT_TIMEOUT, PATIENCE
from played_server import (EXE, EXIT_CONFLICT, EXIT_UNAVAILABLE, SES, client, error, event, execution, failed,
                           output, raw, server, session)  # noqa: F401


# --- exec -----------------------------------------------------------------------------------------


def play(server, *events, document=None):
    """Scripts one execution; each of events is what one connection to its stream gets."""
    server.script[f"POST /sessions/{SES}/execute"] = (202, execution(state="running", ended_at=None, exit_code=None))
    server.script[f"GET /executions/{EXE}/events"] = [*events]
    server.script[f"POST /executions/{EXE}/cancel"] = execution(state="running", ended_at=None)
    if document:
        server.script[f"GET /executions/{EXE}"] = document


STARTED = event("started", {"id": EXE, "session_id": SES, "language": "python"}, 1)


def ended(document, number=99):
    return event("ended", document, number)


def test_output_goes_where_it_belongs(client, server):
    play(server, STARTED + output("a\n", 2) + output("b", 3, "stderr") + ": heartbeat\n\n" + output("ü\n", 4) +
         event("result", {"main": True, "data": {"text/plain": "42", "image/png": "x"}}, 5) +
         event("artifact", {"path": "x", "size": 1}, 6) + ended(execution(stdout="a\nü\n", stderr="b")))
    done = client("exec", SES, "-c", "x", "-l", "python", "--timeout", "2.5", "-e", "A=1", "--queue")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\nü\n42\n", "b")
    assert server.requests[0]["body"] == {"code": "x", "mode": "async", "language": "python", "timeout": 2.5,
                                          "env": {"A": "1"}, "queue": True}
    assert server.requests[1]["headers"]["accept"] == "text/event-stream"


def test_a_program_may_print_nul(client, server):
    play(server, STARTED + output("a\0b\n", 2) + ended(execution(stdout="a\0b\n")))
    done = client("exec", SES, "-c", "x")
    assert (done.returncode, done.stdout) == (0, "a\0b\n")


def test_code_input_and_files_are_sent(client, server, tmp_path):
    (tmp_path / "main.py").write_text("print('hü')\n")
    (tmp_path / "in.txt").write_text("input")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    play(server, STARTED + ended(execution()))
    client.good("exec", SES, tmp_path / "main.py", "--stdin", tmp_path / "in.txt", "--file", tmp_path / "data.bin",
                "--file", f"{tmp_path}/in.txt:sub/other")
    assert server.requests[0]["body"] == {
        "code": "print('hü')\n", "stdin": "input", "mode": "async",
        "files": [{"path": "data.bin", "content_base64": "/wA="}, {"path": "sub/other", "content_base64": "aW5wdXQ="}]}
    client.good("exec", SES, input="piped")
    client.good("exec", SES, "-", input="dashed")
    client.good("exec", SES, "-c", "code", "--stdin", "-", input="given")
    bodies = [request["body"] for request in server.requests if request["method"] == "POST"]
    assert [(body["code"], body.get("stdin")) for body in bodies[1:]] == [("piped", None), ("dashed", None), ("code", "given")]
    for args in (["-", "--stdin", "-"], [tmp_path / "missing"], ["-c", "x", "--file", "/"]):
        assert client("exec", SES, *args, input="x").returncode in (EXIT_INVALID, EXIT_NOT_FOUND)
    assert client("exec", SES, tmp_path / "data.bin").returncode == EXIT_INVALID


@pytest.mark.parametrize("document, status, words", [
    (execution(state="failed", exit_code=3, reason={"kind": "exit", "message": "exit status 3", "hint": None}), 3, ""),
    (failed("timeout"), EXIT_TIMEOUT, "cove: timeout: it was timeout\ncove: hint: do less\n"),
    (failed("cancelled"), 130, ""),
    (failed("oom", signal="SIGKILL", exit_code=None), 137, "cove: oom: it was oom\ncove: hint: do less\n"),
    (failed("signal", signal="SIGTERM", exit_code=None), 143, "cove: signal: it was signal\ncove: hint: do less\n"),
    (failed("runner_died", exit_code=None), 137, "cove: runner_died: it was runner_died\ncove: hint: do less\n"),
    (failed("infrastructure", exit_code=None), 70, "cove: infrastructure: it was infrastructure\ncove: hint: do less\n"),
    (execution(state="lost", exit_code=None), 69, "cove: lost: the server has lost what ran it; its result is not known\n"),
    (execution(state="failed", exit_code=None, reason={"kind": "exception", "message": "x", "hint": None},
               error={"name": "E", "value": "v", "traceback": "Traceback\n  E: v"}), 1, "Traceback\n  E: v\n"),
])
def test_the_end_of_an_execution_is_the_end_of_exec(client, server, document, status, words):
    play(server, STARTED + ended(document))
    done = client("exec", SES, "-c", "x")
    assert (done.returncode, done.stdout, done.stderr) == (status, "", words)
    done = client("exec", SES, "-c", "x", "--json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (status, document, "")


def test_a_stream_that_breaks_is_taken_up_where_it_broke(client, server):
    play(server, STARTED + output("one\n", 2), raw(b""), (503, error("unavailable")),
         output("two\n", 3) + "id: 4\nevent: stdout\ndata: {\"te", output("three\n", 4) + ended(execution()))
    assert client.good("exec", SES, "-c", "x") == "one\ntwo\nthree\n"
    streams = [request["headers"].get("last-event-id") for request in server.requests if request["method"] == "GET"]
    assert streams == [None, "2", "2", "2", "3"]


def test_output_that_comes_again_after_a_restart_is_shown_once(client, server):
    play(server, STARTED + output("one\ntw", 2) + output("err", 3, "stderr"),
         STARTED + output("one\n", 2) + output("two\nthree\n", 3) + output("err!\n", 4, "stderr") + ended(execution()))
    done = client("exec", SES, "-c", "x")
    assert (done.stdout, done.stderr) == ("one\ntwo\nthree\n", "err!\n")


def test_who_is_too_late_for_events_gets_all_of_it_from_the_end(client, server):
    play(server, ended(execution(stdout="out\n", stderr="err\n", results=[{"main": True, "data": {"text/plain": "1"}}])))
    done = client("exec", SES, "-c", "x")
    assert (done.stdout, done.stderr) == ("out\n1\n", "err\n")


def test_events_that_were_dropped_are_told(client, server):
    play(server, STARTED + event("missed", {"events": 7}) + output("rest\n", 9) + ended(execution()))
    done = client("exec", SES, "-c", "x")
    assert done.stdout == "rest\n" and "7 events were dropped" in done.stderr


def test_events_of_another_version_are_passed_over(client, server):
    play(server, STARTED + "event: news\ndata: not json\n\n" + event("news", [1], 2) + event("stdout", {"text": 5}, 3) +
         event("stdout", [], 4) + ended(execution()))
    assert client.good("exec", SES, "-c", "x") == ""


def test_a_stream_that_never_comes_back_is_told_with_the_way_to_go_on(client, server):
    play(server, STARTED + output("one\n", 2), raw(b""))
    done = client("exec", SES, "-c", "x")
    assert (done.returncode, done.stdout) == (EXIT_UNAVAILABLE, "one\n")
    assert f"cove logs --follow {EXE}" in done.stderr


def test_a_stream_without_life_is_given_up_and_taken_up_again(client, server):
    """However often: a server that begins to answer is there, and the program may have nothing to say."""
    release = threading.Event()
    silences = 7

    def silent(handler):
        handler.begin_stream()
        handler.write(": nothing yet\n\n")
        release.wait(PATIENCE)
    play(server, *[silent] * silences, STARTED + output("one\n", 2) + ended(execution()))
    assert client.good("exec", SES, "-c", "x", "--server-timeout", "3s") == "one\n"
    release.set()
    assert len(server.requests) == 2 + silences


def test_a_stream_that_is_always_empty_is_given_up(client, server):
    play(server, ": hello\n\n")
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_UNAVAILABLE and "ended the stream too early" in done.stderr


def hold(release, *texts):
    """A stream that goes on with `texts` until `release` is set."""
    def answer(handler):
        handler.begin_stream()
        for text in texts:
            handler.write(text)
        release.wait(PATIENCE)
    return answer


def test_an_interrupt_cancels_and_waits_for_the_end(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)),
         output("KeyboardInterrupt\n", 3, "stderr") + ended(failed("cancelled")))
    process = client.start("exec", SES, "-c", "x", text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    release.set()
    assert (process.returncode, out, err) == (130, "", "KeyboardInterrupt\n")
    paths = [f"{r['method']} {r['path']}" for r in server.requests]
    assert paths == [f"POST /sessions/{SES}/execute", f"GET /executions/{EXE}/events", f"POST /executions/{EXE}/cancel",
                     f"GET /executions/{EXE}/events"]
    assert server.requests[-1]["headers"]["last-event-id"] == "2"


def test_a_second_interrupt_leaves(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)), hold(release, output("going on\n", 3)))
    process = client.start("exec", SES, "-c", "x", text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "going on\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    release.set()


def test_a_reader_that_leaves_ends_the_execution(client, server):
    release = threading.Event()
    more = threading.Event()

    def stream(handler):
        handler.begin_stream()
        handler.write(STARTED + output("begun\n", 2))
        more.wait(PATIENCE)
        handler.write(output("x" * 100, 3))
        release.wait(PATIENCE)
    play(server, stream)
    process = client.start("exec", SES, "-c", "x")
    assert process.stdout.readline() == b"begun\n"
    process.stdout.close()
    more.set()
    assert process.wait(PATIENCE) == 130
    release.set()
    assert server.requests[-1]["path"] == f"/executions/{EXE}/cancel"


def test_detached(client, server):
    play(server, STARTED)
    assert client.good("exec", SES, "-c", "x", "--detach") == EXE + "\n"
    assert len(server.requests) == 1


def test_a_busy_session_is_told_in_words_of_the_command_line(client, server):
    server.script[f"POST /sessions/{SES}/execute"] = (409, error("session_busy", hint='ask with "queue": true'))
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_CONFLICT and "--queue" in done.stderr and '"queue"' not in done.stderr


def test_a_refused_stream_is_an_error(client, server):
    play(server, (404, error("execution_not_found")))
    done = client("exec", SES, "-c", "x")
    assert done.returncode == EXIT_NOT_FOUND and "request" in done.stderr


# --- logs -----------------------------------------------------------------------------------------


def test_logs_of_an_execution(client, server):
    document = failed("oom", stdout="out\n", stderr="err\n")
    play(server, STARTED + output("out\n", 2) + ended(document), document=document)
    done = client("logs", EXE)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert done.stderr.startswith("err\n") and "cove: oom" in done.stderr
    assert json.loads(client.good("logs", EXE, "--json")) == document
    assert client.good("logs", EXE, "--follow") == "out\n"
    lines = [json.loads(line) for line in client.good("logs", EXE, "-f", "--json").splitlines()]
    assert [line["event"] for line in lines] == ["started", "stdout", "ended"]
    assert lines[1]["data"] == {"text": "out\n"}


def test_logs_of_a_session_are_told_from_the_oldest_on(client, server):
    first, second = "exe_" + "a" * 26, "exe_" + "b" * 26
    server.script["GET /executions"] = {"executions": [execution(id=second), execution(id=first)], "next_cursor": "more"}
    server.script[f"GET /executions/{first}"] = execution(id=first, stdout="first\n")
    server.script[f"GET /executions/{second}"] = execution(id=second, stdout="second\n")
    done = client("logs", "analysis", "-n", "2")
    assert (done.returncode, done.stdout) == (0, "first\nsecond\n")
    assert [line.split()[1] for line in done.stderr.splitlines()] == [first, second]
    assert server.requests[0]["query"] == {"session": "analysis", "limit": "2"}
    assert [e["stdout"] for e in json.loads(client.good("logs", SES, "--json"))["executions"]] == ["first\n", "second\n"]


def test_a_session_is_followed_to_its_end(client, server):
    first, second = "exe_" + "a" * 26, "exe_" + "b" * 26
    summary = {"next_cursor": None}
    server.script["GET /executions"] = [summary | {"executions": [execution(id=first)]},
                                        summary | {"executions": [execution(id=second), execution(id=first)]}]
    server.script["GET /sessions/named"] = session(name="named")  # which it loses with its end
    server.script[f"GET /sessions/{SES}"] = [session(), session(state="terminated", ended_at="2026-01-02T03:04:05Z")]
    for name, text in ((first, "first\n"), (second, "second\n")):
        server.script[f"GET /executions/{name}/events"] = STARTED + output(text, 2) + ended(execution())
    assert client.good("logs", "named", "--follow") == "first\nsecond\n"


def test_following_is_left_by_an_interrupt_without_a_trace(client, server):
    release = threading.Event()
    play(server, hold(release, STARTED, output("begun\n", 2)))
    process = client.start("logs", EXE, "-f")
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    release.set()
    assert len(server.requests) == 1
