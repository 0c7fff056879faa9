"""Options and shared state of the hostile suite."""
from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "integration"))

import harness  # noqa: E402  (needs the path above)

DEFAULT_USER = "cove-hostile"


def pytest_addoption(parser):
    group = parser.getgroup("hostile")
    group.addoption("--cove", default=os.environ.get("COVE", str(HERE.parents[1] / "build/cove")),
                    help="the program under test")
    group.addoption("--modes", default="root,rootless", help="root, rootless or both")
    group.addoption("--user", default=DEFAULT_USER,
                    help="the ordinary user of rootless mode; the default one is made when missing")
    group.addoption("--long", action="store_true", help="more rounds and the rows that take long")


def ensure_user(name: str) -> str | None:
    """Why there is no such user, or None."""
    if subprocess.run(["id", name], capture_output=True).returncode == 0:
        return None
    if name != DEFAULT_USER:
        return f"there is no user '{name}'"
    made = subprocess.run(["useradd", "--system", "--create-home", "--shell", "/usr/sbin/nologin",
                           name], capture_output=True, text=True)
    return made.stderr.strip() or None if made.returncode else None


def take_turn(config) -> None:
    """Waits until no other run of the suite is on this machine: each would find the other's
    processes. The lock goes with this process."""
    config.hostile_lock = open("/run/lock/cove-hostile.lock", "w")
    fcntl.flock(config.hostile_lock, fcntl.LOCK_EX)
    config.hostile_started = time.monotonic()


def pytest_generate_tests(metafunc):
    if "mode" in metafunc.fixturenames:
        modes = metafunc.config.getoption("--modes").split(",")
        metafunc.parametrize("mode", modes, scope="session")


@pytest.fixture(scope="session")
def cache():
    """Where probes are compiled: readable by the ordinary user, gone at the end."""
    path = Path(tempfile.mkdtemp(prefix="cove-hostile-cache-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class Bench:
    """Everything a case needs in one mode."""

    def __init__(self, cove: harness.Cove, long: bool):
        self.cove, self.doors, self.long = cove, cove.doors, long
        self.is_asan = os.environ.get("COVE_ASAN") == "1"
        self._usual: float | None = None

    def job(self) -> float:
        """Seconds that a fixed piece of work takes in a sandbox of its own."""
        argv = [*self.cove.mode.prefix(), str(self.cove.program), "run", "--json", "-l", "bash",
                "-c", "i=0; while ((i < 60000)); do ((i++)); done; echo counted $i"]
        run = self.cove.start(argv).finish(60)
        assert run.text == "counted 60000\n", run.describe()
        return run.wall

    def usual(self) -> float:
        if self._usual is None:
            self._usual = sorted(self.job() for _ in range(3))[1]
        return self._usual


_benches: dict[str, Bench] = {}


@pytest.fixture
def bench(request, mode, cache):
    """The bench of the current mode, made once."""
    if mode not in _benches:
        options = request.config
        program = Path(options.getoption("--cove")).resolve()
        if not program.exists():
            pytest.fail(f"there is no program '{program}': build first, or give --cove")
        if os.getuid() != 0:
            pytest.skip("needs root, to look at the whole host and to become another user")
        user = options.getoption("--user") if mode == "rootless" else None
        problem = ensure_user(user) if user else None
        if problem:
            pytest.skip(problem)
        who = harness.Mode(mode, user)
        cove = harness.Cove(program, who, harness.Doors(who), cache)
        _benches[mode] = Bench(cove, options.getoption("--long"))
    return _benches[mode]


def pytest_sessionfinish(session, exitstatus):
    for made in _benches.values():
        made.doors.close()


def pytest_sessionstart(session):
    session.config.hostile_started = time.monotonic()
    if os.getuid() == 0:
        take_turn(session.config)
        harness.leave_mount_namespace()
        harness.become_subreaper()


def pytest_terminal_summary(terminalreporter, config):
    took = time.monotonic() - config.hostile_started
    counts = {key: len(terminalreporter.stats.get(key, []))
              for key in ("passed", "failed", "skipped", "error")}
    words = ", ".join(f"{number} {key}" for key, number in counts.items())
    terminalreporter.write_line(f"hostile suite: {words} in {took:.0f} s")
