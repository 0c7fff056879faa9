"""Options and shared state of the hostile suite."""
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path += [str(HERE.parent / "integration"), str(HERE.parent / "server")]

import apart  # noqa: E402  (needs the path above)
import covetest  # noqa: E402
import harness  # noqa: E402
import host  # noqa: E402
import server as serving  # noqa: E402

GROUPS_SECONDS = 10  # for what a test has left running to end, when it was ended itself


def pytest_addoption(parser):
    group = parser.getgroup("hostile")
    group.addoption("--cove", default=os.environ.get("COVE", str(HERE.parents[1] / "build/cove")),
                    help="the program under test")
    group.addoption("--modes", default="root,rootless", help="root, rootless or both")
    group.addoption("--user", default=apart.DEFAULT_USER,
                    help="the ordinary user of rootless mode; the default one is made when missing")
    group.addoption("--long", action="store_true", help="more rounds and the rows that take long")


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
        user = None
        if mode == "rootless":
            try:
                user, options.hostile_user_lock = apart.take_user(options.getoption("--user"))
            except LookupError as error:
                pytest.skip(str(error))
        who = harness.Mode(mode, user)
        cove = harness.Cove(program, who, harness.Doors(who), cache)
        _benches[mode] = Bench(cove, options.getoption("--long"))
    return _benches[mode]


def end_children(cove: harness.Cove) -> None:
    """Those of a test that was interrupted. Their sandboxes end with them, and so become empty groups."""
    for pid in list(cove.children):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def remove_groups() -> bool:
    """-> whether none is left"""
    covetest.reap()
    for path in sorted(host.cgroup_directories(parents=True), reverse=True):
        with contextlib.suppress(OSError):  # something is still ending in it
            os.rmdir(path)
    return not host.cgroup_directories(parents=True)


@pytest.hookimpl(tryfirst=True)  # a report is written by another one, to where its reader looks for it
def pytest_sessionfinish(session, exitstatus):
    # After an interruption fixtures end no sooner than here, and what they remove is in our mounts.
    session.config.pluginmanager.getplugin("runner").pytest_sessionfinish(session)
    for made in _benches.values():
        end_children(made.cove)
        made.doors.close()
    if hasattr(session.config, "hostile_apart"):
        with contextlib.suppress(AssertionError):  # which a test has said, and here is no place for
            covetest.wait_for(remove_groups, "the end of groups", GROUPS_SECONDS)
        session.config.hostile_apart.leave()


def pytest_sessionstart(session):
    session.config.hostile_started = time.monotonic()
    if os.getuid() == 0:
        serving.port_locks()  # a file in /tmp that all tests of this machine share
        named = [value for name, value in os.environ.items() if name.startswith("COVE_") and value.startswith("/")]
        program = session.config.getoption("--cove")
        session.config.hostile_apart = apart.Apart([str(HERE), str(covetest.BUILD), program, *named, *session.config.args])
        apart.take_orphans()


def pytest_terminal_summary(terminalreporter, config):
    took = time.monotonic() - config.hostile_started
    counts = {key: len(terminalreporter.stats.get(key, []))
              for key in ("passed", "failed", "skipped", "error")}
    words = ", ".join(f"{number} {key}" for key, number in counts.items())
    terminalreporter.write_line(f"hostile suite: {words} in {took:.0f} s")
