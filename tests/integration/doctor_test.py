# SPDX-License-Identifier: Apache-2.0
"""`cove doctor`: what it says of this host, to people and to programs."""
import json
import pathlib
import re
import shutil
import tempfile

import pytest

import covetest

TIERS = {"root": "T1", "plain": "T2", "subids": "T2"}
LAYERS = ["pid namespace", "mount namespace", "network namespace", "ipc namespace", "uts namespace", "cgroup namespace",
          "user namespace", "own host uid", "own root image", "private /proc", "no capabilities", "no_new_privs",
          "seccomp filter", "landlock", "rlimits", "memory cgroup", "pids cgroup", "cpu cgroup", "disk limits", "own overlay"]
NEEDS = {"always needed", "needed", "extra"}


@pytest.fixture(params=TIERS)
def doctor(request):
    """(kind, Cove) for root and both ordinary users."""
    kind = request.param
    if kind == "root":
        if not covetest.IS_ROOT:
            pytest.skip("not root")
        return kind, covetest.Cove()
    if not covetest.IS_ROOT and kind == "plain":
        return kind, covetest.Cove()
    reason = covetest.why_no_rootless(kind)
    if reason:
        pytest.skip(reason)
    return kind, covetest.rootless(kind)


def report_of(cove):
    done = cove("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_default_tier_holds_here(doctor):
    kind, cove = doctor
    report = report_of(cove)
    assert list(report) == ["tier", "rootless", "cgroup_version", "cgroup_place", "cgroup_path", "landlock_abi", "layers"]
    assert (report["tier"], report["rootless"]) == (TIERS[kind], kind != "root")
    assert [layer["name"] for layer in report["layers"]] == LAYERS


def test_each_layer_says_how_it_was_tried_or_what_to_do(doctor):
    _, cove = doctor
    for layer in report_of(cove)["layers"]:
        assert list(layer) == ["name", "holds", "required", "need", "detail", "hint"]
        assert type(layer["holds"]) is bool and layer["need"] in NEEDS and layer["detail"]
        assert layer["required"] == (layer["need"] != "extra")
        assert (layer["hint"] is None) == layer["holds"]
        if layer["required"]:
            assert layer["holds"], "the tier is said to hold"


def test_root_holds_every_layer(doctor):
    kind, cove = doctor
    holding = {layer["name"] for layer in report_of(cove)["layers"] if layer["holds"]}
    if kind == "root":
        assert holding == set(LAYERS)
    else:
        assert ("own host uid" in holding) == (kind == "subids" or covetest.has_subids())


def test_people_read_the_same(doctor):
    kind, cove = doctor
    done = cove("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert ("as root" in lines[0]) == (kind == "root")
    assert lines[-1].startswith(f"Tier {TIERS[kind]}")
    said = {name: mark for mark, name in re.findall(r"^  (\S) (.{18}) ", done.stdout, re.MULTILINE)}
    said = {name.strip(): mark == "✓" for name, mark in said.items()}
    assert said == {layer["name"]: layer["holds"] for layer in report_of(cove)["layers"]}
    assert "\x1b" not in done.stdout, "colours only on a terminal"


def test_what_the_doctor_says_is_what_a_run_gets(doctor):
    """The layers that show inside are there when the doctor says so."""
    _, cove = doctor
    layers = {layer["name"]: layer["holds"] for layer in report_of(cove)["layers"]}
    status = dict(line.split(":", 1) for line in cove.good("-l", "bash", "-c", "cat /proc/self/status").splitlines())
    status = {key: value.strip() for key, value in status.items()}
    assert (status["CapBnd"] == "0" * 16) == layers["no capabilities"]
    assert (status["NoNewPrivs"] == "1") == layers["no_new_privs"]
    assert (status["Seccomp"] == "2") == layers["seccomp filter"]
    assert (status["Uid"].split() == ["1000"] * 4) == layers["user namespace"]


def test_it_leaves_nothing(doctor):
    _, cove = doctor
    report_of(cove)
    covetest.nothing_is_left()


def test_it_takes_no_arguments():
    done = covetest.Cove()("doctor", "please")
    assert done.returncode == covetest.EXIT_INVALID and "takes no arguments" in done.stderr


def test_a_missing_spawner_is_told():
    done = covetest.Cove()("doctor", "--spawner", "/nonexistent/cove-spawner")
    assert done.returncode != 0 and "/nonexistent/cove-spawner" in done.stderr


def test_where_there_are_no_overlays_sandboxes_are_made_and_it_is_told():
    """By a spawner that asks for a file system which no kernel knows."""
    with tempfile.TemporaryDirectory(prefix="cove-test-bare-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        shutil.copytree(covetest.public_build().parent, folder / "build")
        spawner = folder / "build/bin/cove-spawner"
        program = spawner.read_bytes()
        assert b"overlay\0" in program
        spawner.write_bytes(program.replace(b"overlay\0", b"overlaz\0"))
        cove = covetest.Cove(folder / "build/bin")
        layers = {row["name"]: row for row in report_of(cove)["layers"]}
        assert not layers["own overlay"]["holds"] and not layers["own overlay"]["required"]
        assert all(row["holds"] for row in layers.values() if row["required"])
        assert cove.good("-c", "print(6 * 7)") == "42\n"
        request = json.dumps({"op": "execute", "code": "print(6 * 7)"}) + "\n"
        done = cove("repl", "--json", "--forks", "1", input=request)  # forks are of copies of a zygote alone
        assert done.returncode == 0 and json.loads(done.stdout.splitlines()[1])["stdout"] == "42\n", done.stdout + done.stderr
