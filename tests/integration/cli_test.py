# SPDX-License-Identifier: Apache-2.0
"""The frame of the command line: options and their origins, help, errors, manual, completion."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import termios

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COVE = os.environ.get("COVE", str(ROOT / "build/cove"))
EXIT_MISUSE = 64
EXIT_NOT_FOUND = 66


def cove(*args, env=None, **kwargs):
    """Runs cove without the caller's own COVE_* variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("COVE_", "SANDBOX_"))}
    clean.update(env or {})
    return subprocess.run([COVE, *args], env=clean, capture_output=True, text=True, timeout=60, **kwargs)


def in_terminal(columns, *args, env=None):
    """What cove prints on a terminal of that width."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm"} | (env or {}))
        os.read(0, 1)  # until the size is set
        os.execv(COVE, [COVE, *args])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    os.write(fd, b"\n")
    output = b""
    while select.select([fd], [], [], 60)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        output += data
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return output.decode().replace("\r\n", "\n").lstrip("\n")


def options(*args, **kwargs):
    done = cove("config", "--json", *args, **kwargs)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["options"]}


# --- configuration ------------------------------------------------------------------------------

def test_flag_beats_environment_beats_file_beats_preset(tmp_path):
    conf = tmp_path / "cove.conf"
    conf.write_text("# limits\ntimeout = 10\nmemory = 1G # enough\npids = 64\n")
    rows = options("--config", str(conf), "--timeout", "5s", env={"COVE_MEMORY": "512M", "COVE_TIMEOUT": "7"})
    assert (rows["timeout"]["value"], rows["timeout"]["origin"]) == (5000, "flag --timeout")
    assert (rows["memory"]["value"], rows["memory"]["origin"]) == (512 << 20, "environment COVE_MEMORY")
    assert (rows["pids"]["value"], rows["pids"]["origin"]) == (64, f"file {conf}")
    assert (rows["disk"]["value"], rows["disk"]["origin"]) == (128 << 20, "default")
    assert rows["cpus"]["value"] == 0.5


def test_table_shows_the_same_as_json():
    table = cove("config", "--pids", "99").stdout.splitlines()
    assert table[0].split() == ["OPTION", "VALUE", "FROM"]
    assert any(line.split() == ["pids", "99", "flag", "--pids"] for line in table)
    assert [line.split()[0] for line in table[1:]] == list(options())


@pytest.mark.parametrize("name, value, allowed", [
    ("timeout", "0", "a duration from 1ms to 24h"),
    ("timeout", "25h", "a duration from 1ms to 24h"),
    ("memory", "1M", "a size from 16M to 1T"),
    ("memory", "much", "a size from 16M to 1T"),
    ("cpus", "0", "a number from 0.01 to 1024"),
    ("pids", "3", "a whole number from 4 to 100000"),
    ("log-level", "loud", "one of: debug, info, warn, error"),
    ("runtime", "docker", "one of: native"),
    ("allow-degraded", "perhaps", "true or false"),
])
def test_bad_values_stop_the_start_from_every_source(tmp_path, name, value, allowed):
    conf = tmp_path / "cove.conf"
    conf.write_text(f"\n{name} = {value}\n")
    variable = "COVE_" + name.upper().replace("-", "_")
    for done, place in [
        (cove("config", f"--{name}={value}"), f"flag --{name}"),
        (cove("config", env={variable: value}), f"environment {variable}"),
        (cove("config", "--config", str(conf)), f"file {conf}"),
    ]:
        assert done.returncode == EXIT_MISUSE
        assert done.stdout == ""
        assert f"option '{name}' ({place}): '{value}' must be {allowed}" in done.stderr


def test_unknown_key_in_a_file_is_refused_with_its_line(tmp_path):
    conf = tmp_path / "cove.conf"
    conf.write_text("timeout = 1\n\ntiemout = 2\n")
    done = cove("config", env={"COVE_CONFIG": str(conf)})
    assert done.returncode == EXIT_MISUSE
    assert f"{conf}:3: unknown option 'tiemout'" in done.stderr
    assert "did you mean 'timeout'?" in done.stderr


def test_a_file_that_is_asked_for_must_exist(tmp_path):
    done = cove("config", "--config", str(tmp_path / "missing"))
    assert done.returncode == EXIT_NOT_FOUND


def test_help_and_version_work_although_the_file_is_broken(tmp_path):
    conf = tmp_path / "cove.conf"
    conf.write_text("nonsense\n")
    env = {"COVE_CONFIG": str(conf)}
    assert cove("config", env=env).returncode == EXIT_MISUSE
    assert cove("help", env=env).returncode == 0
    assert cove("config", "--help", env=env).returncode == 0
    assert cove("version", env=env).returncode == 0


def test_data_dir_also_comes_from_its_other_name(tmp_path):
    rows = options(env={"SANDBOX_ROOT": str(tmp_path)})
    assert (rows["data-dir"]["value"], rows["data-dir"]["origin"]) == (str(tmp_path), "environment SANDBOX_ROOT")


def test_the_runtime_also_comes_from_its_other_name():
    rows = options(env={"RUNTIME_TYPE": "native"})
    assert (rows["runtime"]["value"], rows["runtime"]["origin"]) == ("native", "environment RUNTIME_TYPE")
    done = cove("serve", env={"RUNTIME_TYPE": "kubernetes"})
    assert done.returncode == EXIT_MISUSE
    assert "option 'runtime' (environment RUNTIME_TYPE): 'kubernetes' must be one of: native" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_ordinary_user_has_places_of_his_own():
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        conf = home / ".config/cove/cove.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text("pids = 50\n")
        program = shutil.copy(COVE, home / "cove")  # where anybody may run it
        os.chmod(home, 0o755)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(program), "config", "--json"]
        env = {"PATH": "/usr/bin:/bin"}

        done = subprocess.run(command, env=env | {"HOME": name}, capture_output=True, text=True)
        rows = {row["name"]: row for row in json.loads(done.stdout)["options"]}
        assert rows["pids"]["origin"] == f"file {conf}"
        assert rows["data-dir"]["value"] == f"{name}/.local/share/cove"

        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert "HOME is not set" in json.loads(done.stdout)["error"]["message"]
    assert options()["data-dir"]["value"] == "/var/lib/cove"


# --- misuse -------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, message, hint", [
    (["confg"], "unknown command 'confg'", "did you mean 'config'?"),
    (["zzz"], "unknown command 'zzz'", "`cove help` lists the commands"),
    (["help", "verson"], "unknown command 'verson'", "did you mean 'version'?"),
    (["config", "--timout", "3"], "unknown option '--timout'", "did you mean '--timeout'?"),
    (["--timout", "3", "config"], "unknown option '--timout'", "did you mean '--timeout'?"),
    (["config", "-Z"], "unknown option '-Z'", "`cove config --help` shows what is allowed"),
    (["config", "--timeout"], "option '--timeout' needs a value: --timeout TIME", ""),
    (["config", "extra"], "'cove config' takes no arguments", ""),
])
def test_misuse_is_told_in_words_and_in_json(args, message, hint):
    done = cove(*args)
    assert (done.returncode, done.stdout) == (EXIT_MISUSE, "")
    assert done.stderr.startswith(f"cove: {message}\n")
    assert hint in done.stderr
    if args[-1] == "--timeout":
        return  # --json would be taken for its value
    done = cove(*args, "--json")
    assert (done.returncode, done.stderr) == (EXIT_MISUSE, "")
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["message"]) == ("invalid", message)
    assert hint in (error["hint"] or "")


def test_what_the_user_typed_cannot_drive_the_terminal():
    done = cove("config", "--\x1b]0;owned\x07")
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
    assert "\\x1b" in done.stderr


def test_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([COVE, "config"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0
    assert "no space left" in done.stderr


# --- help ---------------------------------------------------------------------------------------

def commands():
    """Every command and verb, as the help lists them."""
    found, waiting = [], [[]]
    while waiting:
        path = waiting.pop()
        text = cove("help", *path).stdout
        listed = re.search(r"^Commands:\n((?:  \S.*\n| {3,}.*\n)+)", text, re.MULTILINE)
        for name in re.findall(r"^  (\S+)", listed.group(1), re.MULTILINE) if listed else []:
            found.append([*path, name])
            waiting.append([*path, name])
    return found


def test_every_command_has_help_that_fits_eighty_columns():
    assert ["config"] in commands()
    for path in commands():
        done = cove("help", *path)
        assert done.returncode == 0
        assert done.stdout == cove(*path, "--help").stdout
        assert done.stdout.startswith("cove " + " ".join(path) + ": ")
        assert "Usage:" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80, path


def test_help_follows_the_width_of_the_terminal():
    narrow = in_terminal(60, "help", "config", env={"NO_COLOR": "1"})
    wide = in_terminal(200, "help", "config", env={"NO_COLOR": "1"})
    assert max(map(len, narrow.splitlines())) <= 60
    assert 80 < max(map(len, wide.splitlines())) <= 96
    assert narrow.split() == wide.split()


def test_colours_only_where_they_are_wanted():
    assert "\x1b[1m" in in_terminal(80, "help", env={"NO_COLOR": ""})
    assert "\x1b" not in in_terminal(80, "help", env={"NO_COLOR": "1"})
    assert "\x1b" not in in_terminal(80, "help", env={"TERM": "dumb"})
    assert "\x1b" not in cove("help").stdout


def test_no_command_shows_help_as_a_misuse():
    done = cove()
    assert (done.returncode, done.stdout) == (EXIT_MISUSE, "")
    assert done.stderr == cove("--help").stdout == cove("help").stdout


def test_version_in_three_spellings():
    assert re.fullmatch(r"cove \d+\.\d+\.\d+\n", cove("version").stdout)
    assert cove("--version").stdout == cove("version").stdout == cove("config", "--version").stdout
    assert json.loads(cove("version", "--json").stdout)["version"] in cove("version").stdout


# --- manual and completion ----------------------------------------------------------------------

def test_the_manual_names_every_command_and_option(tmp_path):
    page = cove("help", "--man").stdout
    plain = page.replace("\\-", "-")
    for path in commands():
        assert f".SS cove {' '.join(path)}" in plain
    for row in options().values():
        assert f"--{row['name']}" in plain
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def complete(*words):
    """What bash offers for the last word."""
    script = cove("help", "--completion").stdout + """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cove; printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script, "bash", "cove", *words], capture_output=True, text=True, cwd="/etc")
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_offers_what_fits():
    assert "config" in complete("")
    assert complete("conf") == ["config"]
    assert complete("config", "--time") == ["--timeout", "--timeout-max"]
    assert complete("config", "--timeout-m") == ["--timeout-max"]
    assert complete("config", "--log-level", "w") == ["warn"]
    assert "--man" in complete("help", "--")
    assert "--man" not in complete("config", "--")
    assert "passwd" in complete("config", "--log-file", "pass")
    assert complete("config", "--memory", "") == []


# --- installation -------------------------------------------------------------------------------

def test_an_installed_tree_works_where_it_is_put(tmp_path):
    build = pathlib.Path(COVE).parent
    if not (build / "build.ninja").exists():
        pytest.skip("not in a build directory")
    done = subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild"], capture_output=True, text=True,
                          env=os.environ | {"DESTDIR": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    program = next(tmp_path.rglob("bin/cove"))
    prefix = program.parents[1]
    for name in ["share/man/man1/cove.1", "share/bash-completion/completions/cove",
                 "share/cove/images/python/runner.conf", "libexec/cove/cove-spawner", "libexec/cove/cove-init"]:
        assert (prefix / name).exists(), name
    done = subprocess.run([program, "version"], capture_output=True, text=True)
    assert done.stdout == cove("version").stdout
