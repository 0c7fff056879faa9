# SPDX-License-Identifier: Apache-2.0
"""What the suite says of tests that failed: which, why, and the command that runs one alone."""
import types

import parts
import pytest
import reports


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "LOGS", tmp_path)
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    return tmp_path


def a_part(name="server release", command=("pytest",), counts="junit", build=parts.RELEASE, again=""):
    return types.SimpleNamespace(name=name, command=list(command), counts=counts, build=build, again=again)


def report(part, text):
    path = reports.report_path(part)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    reports.log_path(part).write_text("what it printed\n")


def test_a_test_of_pytest_is_named_as_pytest_names_it(logs):
    part = a_part(name="server asan", build=parts.ASAN)
    report(part, """<testsuites><testsuite name="pytest">
        <testcase classname="tests.server.serve_test" name="test_a[x y]"><failure message="KeyError: 'id'&#10;more">long</failure></testcase>
        <testcase classname="tests.server.serve_test" name="test_b" />
        <testcase classname="tests.server.serve_test" name="test_c"><skipped message="not here" /></testcase>
        </testsuite></testsuites>""")
    found = reports.count(part, 1)
    assert (found.passed, found.failed, found.skipped, found.reasons) == (1, 1, 1, ["test_c: not here"])
    assert found.failures == [reports.Failure("tests/server/serve_test.py::test_a[x y]", "KeyError: 'id' more",
                                              "./test --build asan 'tests/server/serve_test.py::test_a[x y]'")]


def test_a_test_and_its_clean_up_that_both_fail_are_one(logs):
    part = a_part()
    report(part, """<testsuites><testsuite name="pytest">
        <testcase classname="tests.server.a_test" name="test_a"><failure message="first" /></testcase>
        <testcase classname="tests.server.a_test" name="test_a"><error message="then" /></testcase></testsuite></testsuites>""")
    assert [one.why for one in reports.count(part, 1).failures] == ["first"]


def test_a_unit_test_says_the_line_that_failed(logs):
    part = a_part(name="unit release", command=["meson", "test"])
    report(part, """<testsuites><testsuite name="cove.cove:unit / store_lag"><testcase name="1 - is found" classname="x"><failure /></testcase>
        <testcase name="2 - is listed" classname="x" /><system-out>1..2
not ok 1 - is found
# 0x3e9 != 0x3e8
# ../tests/unit/test_store_lag.c:36: error: Failure!
ok 2 - is listed
</system-out></testsuite><testsuite name="cove"><testcase name="cove:fuzz / replay json" classname="cove"><failure message="exit status 1" />
<system-err>it crashed</system-err></testcase></testsuite></testsuites>""")
    unit, replay = reports.count(part, 1).failures
    assert unit.name == "tests/unit/test_store_lag.c: 1 - is found" and unit.again == "./test tests/unit/test_store_lag.c"
    assert unit.why == "0x3e9 != 0x3e8 ../tests/unit/test_store_lag.c:36: error: Failure!"
    assert replay.why == "it crashed" and replay.again == "./test fuzz/fuzz_json.c"


def test_a_machine_is_named_with_the_command_that_boots_it(logs):
    part = a_part(name="vm", command=["tests/vm/run"], counts="line")
    reports.log_path(part).write_text("ok   default: as root: prints 1 (0.2 s)\nFAIL forks: as root: broods (3.0 s): 1 failed\n"
                                      "1 passed, 1 failed, 0 skipped\n")
    found = reports.count(part, 1)
    assert (found.passed, found.failed) == (1, 1)
    assert found.failures == [reports.Failure("forks", "as root: broods (3.0 s): 1 failed", "tests/vm/run forks")]


@pytest.mark.parametrize("code, why", [(1, "exit code 1: the last line"), (None, "its time limit ended it")])
def test_a_part_that_breaks_down_has_failed(logs, code, why):
    part = a_part(name="lint", command=["tools/lint"], counts="exit", again="tools/lint --quick")
    reports.log_path(part).write_text("first\nthe last line\n\n")
    found = reports.count(part, code)
    assert found.failed == 1 and found.failures == [reports.Failure("all of it", why, "tools/lint --quick")]


def test_a_part_without_a_test_or_a_report_has_failed(logs):
    part = a_part()
    reports.log_path(part).write_text("nothing collected\n")
    assert reports.count(part, 0).failed == 1
    report(part, "<testsuites></testsuites>")
    assert reports.count(part, 0).failed == 1
    report(part, "<testsuites><testsuite")
    assert reports.count(part, 2).failed == 1


def test_a_part_that_cannot_run_here_is_skipped_with_its_reason(logs):
    part = a_part(counts="exit")
    reports.log_path(part).write_text("no such tool\n")
    assert reports.count(part, reports.SKIP_CODE).reasons == ["no such tool"]
