# SPDX-License-Identifier: Apache-2.0
"""./test --changed: what a change reaches, by the build and by the table."""
import fnmatch
import os
import pathlib
import subprocess

import affected
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def build():
    return affected.Build(os.path.relpath(os.environ.get("COVE_BUILD_DIR") or ROOT / "build", ROOT))


def units(build, *paths):
    return affected.units_of(build.programs_with(build.outputs_of(set(paths))))


def test_every_source_has_a_subject():
    sources = [path for path in TRACKED if path.startswith(("src/", "guest/", "images/")) and path.endswith((".c", ".h", ".py", ".cjs", ".sh"))]
    left_out = {"src/base/banned.h"}
    assert [path for path in sources if path not in left_out and affected.reached(path) == (set(), set())] == []


def test_every_row_names_what_there_is():
    for goals, patterns in affected.SUBJECTS:
        for word in goals.split():
            assert "/" not in word or (ROOT / f"tests/{word}_test.py").is_file(), word
        for pattern in patterns.split():
            assert fnmatch.filter(TRACKED, pattern), pattern


def test_every_test_is_reached_by_something():
    reached = {word for goals, _ in affected.SUBJECTS for word in goals.split()}
    only_by_themselves = {"hostile/session", "hostile/invariants", "integration/forkfail", "integration/leftovers", "server/crashloop", "server/out_of_memory"}
    names = {path.removeprefix("tests/").removesuffix("_test.py") for path in affected.test_files()}
    assert names - reached == only_by_themselves, "a row of SUBJECTS must name it, or this list"


def test_a_source_reaches_the_unit_tests_that_hold_it(build):
    found = units(build, "src/codec/range.c")
    assert "range" in found and "replay range" in found
    assert "base64" not in found and "session" not in found, "its library is linked there, and nothing of it"


def test_a_header_reaches_whatever_includes_it(build):
    assert {"base64", "json", "url"} <= units(build, "src/base/strbuf.h") and len(units(build, "src/base/error.h")) > 150


def test_a_source_of_several_tests_reaches_them(build):
    assert {"session", "session_idle", "checkpoint"} <= units(build, "tests/unit/world.c")
    assert units(build, "tests/unit/test_pool.c") == {"pool"}


def test_a_source_that_is_made_by_a_command_reaches_its_users(build):
    assert "docs_page" in units(build, "src/api/docs/page.css")


def test_a_source_that_is_in_no_test_reaches_none(build):
    assert units(build, "README.md", "src/coved/main.c") == set()


def test_scripts_reach_what_imports_them():
    assert affected.tests_of_scripts({"tests/server/s3_server.py"}) >= {"tests/server/s3_test.py", "tests/server/upload_test.py"}
    assert "tests/server/http_test.py" not in affected.tests_of_scripts({"tests/server/s3_server.py"})
    assert affected.tests_of_scripts({"tests/server/cp_test.py"}) == {"tests/server/cp_test.py"}
    everywhere = affected.tests_of_scripts({"tests/integration/fixtures.py"})
    assert {"tests/server/cp_test.py", "tests/integration/run_test.py"} <= everywhere and "tests/hostile/hostile_test.py" not in everywhere


def test_inputs_of_fuzzing_reach_their_replay():
    assert affected.fuzz_inputs({"fuzz/corpus/json/a", "fuzz/regress/url/b", "fuzz/dict/json.dict"}) == {"replay json", "replay url"}


def test_what_a_person_names_is_run():
    choice = affected.named(["tests/unit/test_pool.c", "fuzz/fuzz_json.c", "tests/server/serve_test.py::test_needs_its_token"])
    assert choice["unit"] == ["pool", "replay json"] and choice["tests"] == ["tests/server/serve_test.py::test_needs_its_token"]
    for wrong in ("tests/unit/test_none.c", "tests/server/server.py"):
        with pytest.raises(SystemExit):
            affected.named([wrong])


def test_a_revision_that_git_does_not_know_is_refused():
    with pytest.raises(SystemExit, match="does not know 'nosuch'"):
        affected.changed_files("nosuch")
