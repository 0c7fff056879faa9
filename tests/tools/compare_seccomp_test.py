# SPDX-License-Identifier: Apache-2.0
"""The comparison of our system calls with the sets of others: each difference has a reason, and each reason a difference."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COVE_BUILD_DIR") or ROOT / "build").resolve()

pytestmark = pytest.mark.skipif(not (BUILD / "tests/seccomp_table").exists(), reason="nothing is compiled")


@pytest.fixture
def copy(tmp_path):
    """A copy of the tool, with its facts and reasons."""
    tools = tmp_path / "tools"
    shutil.copytree(ROOT / "tools/seccomp.d", tools / "seccomp.d")
    shutil.copy(ROOT / "tools/compare-seccomp", tools)
    return tools


def compare(tools, *words):
    return subprocess.run([tools / "compare-seccomp", *words, BUILD], capture_output=True, text=True)


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_each_difference_has_its_reason():
    done = compare(ROOT / "tools")
    assert done.returncode == 0, done.stderr
    for name in ("docker", "podman", "systemd", "gvisor", "chromium"):
        assert f"\n{name}: " in f"\n{done.stdout}", "each with the version that it is of"


@pytest.mark.parametrize("file, old, new, complaint", [
    ("reasons.txt", "refuse remap_file_pages: ", "# ", "refuse remap_file_pages: no reason (docker)"),
    ("reasons.txt", "allow mincore: ", "# ", "allow mincore: no reason (systemd)"),
    ("reasons.txt", "cases clone: ", "# ", "cases clone: no reason"),
    ("reasons.txt", "newer cachestat: ", "# ", "newer cachestat: no reason (docker)"),
    ("reasons.txt", "refuse remap_file_pages: ", "refuse mincore remap_file_pages: ", "refuse mincore: no set differs in it any more"),
    ("docker.txt", " bind ", " ", "allow bind: no reason (docker)"),
    ("docker.txt", " bind ", " bind bpf ", "refuse bpf: no reason (docker)"),
    ("gvisor.txt", "close", "bpf close", "refuse bpf: no reason (gvisor)"),
])
def test_what_is_missing_or_stale_is_told(copy, file, old, new, complaint):
    change(copy / "seccomp.d" / file, old, new)
    done = compare(copy, "--quiet")
    assert done.returncode == 1 and complaint in done.stderr, done.stderr
