"""Runs the attacks of session_cases.py, each in a session of its own, and looks at the host afterwards."""
from __future__ import annotations

import json

import pytest

import harness
from hostile_test import PEAK_LIMIT_KB, take_baseline
from invariants import assert_invariants, check_sanitizers, check_secrets
from session_cases import CASES, SessionCase

FLOODS_KB = 4 * PEAK_LIMIT_KB  # what one answer may have, kept and written as JSON


def requests(case: SessionCase, is_fork: bool) -> bytes:
    """The attack, then a reset, and something that must work; all but the beginning in a fork, if it shall be one."""
    begin = "\n".join((harness.PROGRAMS / name).read_text() for name in ("guard.py", "forge.py"))
    where = {"session": 1} if is_fork else {}
    wanted = [{"op": "execute", "code": begin}] + [{"op": "fork"}] * is_fork
    wanted += [{"op": "execute", "code": case.code, "timeout": case.timeout} | where]
    if case.stdin:
        wanted[-1]["stdin"] = case.stdin
    wanted += [{"op": "reset"} | where, {"op": "execute", "code": "print('alive')"} | where]
    return b"".join(json.dumps(request).encode() + b"\n" for request in wanted)


def attack(bench, case: SessionCase, is_fork: bool = False) -> tuple[harness.Run, list[dict]]:
    argv = [*bench.cove.mode.prefix(), str(bench.cove.program), "repl", "--json", *["--forks", "1"] * is_fork]
    for key, value in bench.doors.environment().items():
        argv += ["--env", f"{key}={value}"]
    running = bench.cove.start(argv, "open")
    try:
        running.input.write(requests(case, is_fork))
        running.input.close()
    except BrokenPipeError:
        pass  # said by the answers that are missing
    running.input = None
    run = running.finish(case.timeout + harness.SLACK_SECONDS)
    return run, [json.loads(line) for line in run.stdout.splitlines()]


def check_answers(case: SessionCase, answers: list[dict]) -> None:
    assert len(answers) == 5, f"{len(answers)} answers instead of 5"  # one to each request, and a greeting
    assert answers[1]["state"] == "completed", f"guard: {answers[1]['stderr']}"
    kind = (answers[2]["reason"] or {}).get("kind")
    assert (answers[2]["state"], kind) in case.ends, f"state '{answers[2]['state']}', reason '{kind}'"
    assert answers[2]["duration_ms"] < case.timeout * 1000 + 1500
    assert not case.secret or case.secret not in answers[2]["stdout"] + answers[4]["stdout"]
    assert answers[3]["session"]["state"] == "ready"
    assert (answers[4]["state"], answers[4]["stdout"]) == ("completed", "alive\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_hostile_session(case: SessionCase, bench):
    try_attack(case, bench, False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_hostile_fork(case: SessionCase, bench):
    """The same in a fork of the session: it is sealed like any other."""
    if bench.cove.mode.prefix():
        pytest.skip("forks need cgroups that can be frozen, and so root")
    try_attack(case, bench, True)


def try_attack(case: SessionCase, bench, is_fork: bool) -> None:
    base = take_baseline(bench)
    run, answers = attack(bench, case, is_fork)
    try:
        assert not run.hung and run.exit_code == 0
        if is_fork:
            assert answers.pop(2)["session"]["state"] == "ready"
        check_answers(case, answers)
        assert_invariants(base, hits=bench.doors.take_hits())
        found = check_secrets([bench.doors.secret, bench.doors.env_secret], run.places())
        found += check_sanitizers(run.stderr)
        if not bench.is_asan:
            found += [f"host side '{name}' grew to {peak} kB" for name, peak in run.peaks_kb.items() if peak > FLOODS_KB]
        assert not found, "\n".join(found)
    except AssertionError as error:
        raise AssertionError(f"{error}\n\n{run.stdout[:3000]!r}\n{run.stderr[-1000:]!r}") from None
