# SPDX-License-Identifier: Apache-2.0
"""The parts of the test suite: one row each, with what it runs, when, and beside what. And on which build a test runs."""
import dataclasses
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True

PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
# Collects what a killed spawner leaves: not every host's first process does so at once.
REAPED = ["tini", "-s", "--"]
RELEASE, ASAN = "build", "build-asan"


@dataclasses.dataclass
class Part:
    """One row: what to run, when, and how to count what it did."""

    name: str
    command: list
    counts: str = "exit"  # exit: one test; junit: a report file; line: "N passed, ..." in the output
    build: str = RELEASE
    needs: str = ""  # a file without which there is nothing to run
    packages: str = ""  # groups of tools/install-deps without which the part is skipped
    extras: str = ""  # groups without which some of its tests are skipped
    when: str = "always"  # always | full (not with --quick) | long (only with --long) | split (neither of them: another row has it then)
    limit_s: int = 600
    fatal: bool = False  # nothing after it makes sense when it fails
    is_light: bool = False  # mostly waits: it takes no place of those that work
    left_to_other: list = dataclasses.field(default_factory=list)  # tests of it that run on the other build; --long runs them on both
    slow: list = dataclasses.field(default_factory=list)  # tests of it that --quick leaves out
    apart: str = ""  # runs beside others, but those of the same word: they look at the same things of the host. "": alone
    is_behind: bool = False  # promises no time: it takes what others leave of the processors, and no place of theirs
    after: str = ""  # the part that must have ended first
    again: str = ""  # the command that runs it alone; "": ./test NAME


def files(folder, *names):
    return [f"tests/{folder}/{name}_test.py" for name in names]


# --- on which build -------------------------------------------------------------------------------
# A test runs where it finds most: under sanitizers what drives our C with all kinds of input, on the build of users what
# measures time or memory, attacks the seal, or runs code that is compiled in neither. Where both matter it runs on both.

# Interpreters and what is handed to them, and programs of others, which ask a server for the same as the tests beside them.
NOT_OURS = files("integration", "kernel_bash", "kernel_node", "kernel_python", "kernel_python_code")
OF_OTHERS = files("server", "bundle", "egress_programs", "examples", "mcp_clients", "openapi", "packages")
# The kernel does here what is tried, and there is next to nothing of ours that a sanitizer could watch.
SEAL = files("integration", "inside", "uninitialised", "zygote_apart", "zygote_end", "zygote_group", "zygote_seal")
# They measure, or count on as many rounds as a minute has.
MEASURED = files("server", "crashloop", "crowd", "held", "mcp_load", "out_of_memory")

# What attacks from inside of a session, and by what it leaves in its files: as root under sanitizers, rootless on the build of users.
INSIDE = files("hostile", "files", "session")

# These wait for clocks most of the time (dead buckets, silent streams, locks that are given up), so they run beside all others.
PATIENT = files("server", "artifact_s3", "client_exec", "executors", "heartbeat", "mcp_tasks", "s3", "store_trouble", "upload", "workspace")
ASAN_SERVER = [*PATIENT, *files(
    "server", "artifact", "begin", "client", "client_server", "client_top", "contract", "cp", "docs", "egress", "egress_abuse", "execute",
    "freeze", "http_peers", "http_tls", "inside_api", "keys", "mcp_arguments", "mcp_http", "mcp_results", "mcp_stdio", "mcp_tools",
    "power_cut", "rotation", "schemathesis", "secrets", "template_api")]
ASAN_INTEGRATION = files(
    "integration", "cli", "crash", "doctor", "failclosed", "forkfail", "image", "keeper", "layer", "repl", "restart", "run",
    "spawner_group", "spawner_protocol")

# What --quick leaves out: they take longest, or ask what the tests beside them ask under other circumstances.
SLOW_SERVER = [*PATIENT, *MEASURED, *files("server", "mcp_hostile", "mcp_stdio", "power_cut", "schemathesis", "secrets", "takeover", "template_api")]
SLOW_INTEGRATION = files("integration", "failclosed", "forkfail", "keeper", "restart", "spawner_protocol", "uninitialised", "zygote_end")


def left_out(paths):
    return [f"--ignore={path}" for path in paths]


def unit(build, scale):
    return ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "-t", str(scale)]


PARTS = [
    Part("build release", ["tools/build", "release"], fatal=True, limit_s=1200, again="tools/build release"),
    Part("lint", ["tools/lint", "--quick"], again="tools/lint --quick"),
    Part("lint thorough", ["tools/lint"], packages="lint", when="long", limit_s=1800, again="tools/lint"),
    Part("images", ["tools/build-images"], limit_s=1800, again="tools/build-images"),
    # Some tests of the server want it, and are skipped without it; it is built once.
    Part("s3 server", ["tools/get-s3-server"], limit_s=1800, again="tools/get-s3-server"),
    Part("unit release", unit(RELEASE, 1), counts="junit"),
    Part("tools", [*PYTEST, "tests/tools"], counts="junit"),
    # In an order in which the last ones end together; what waits for the second build needs it early.
    Part("build asan", ["tools/build", "asan"], limit_s=2400, when="full", apart="build", again="tools/build asan"),
    Part("unit asan", unit(ASAN, 16), counts="junit", build=ASAN, needs="build-asan/build.ninja", limit_s=1200, when="full",
         apart="unit", after="build asan", is_behind=True),
    # It has a clock of its own, which stands still when others have the processor.
    Part("vm", ["tests/vm/run"], counts="line", needs="tests/vm/run", packages="vm", when="full", limit_s=3600, apart="vm",
         is_behind=True),
    Part("hostile release", [*PYTEST, "tests/hostile"], counts="junit", limit_s=900, when="full", apart="hostile",
         left_to_other=INSIDE),
    Part("integration release", [*REAPED, *PYTEST, "tests/integration"], counts="junit", limit_s=900, apart="integration release",
         left_to_other=ASAN_INTEGRATION, slow=SLOW_INTEGRATION),
    Part("others release", [*REAPED, *PYTEST, *OF_OTHERS], counts="junit", extras="browser", limit_s=1200, when="full",
         apart="others", is_light=True),
    Part("patient asan", [*REAPED, *PYTEST, *PATIENT], counts="junit", build=ASAN, when="full", limit_s=900, apart="patient",
         after="build asan", is_light=True),
    Part("integration asan", [*REAPED, *PYTEST, "tests/integration", *left_out(NOT_OURS)], counts="junit", build=ASAN, when="full",
         limit_s=900, apart="integration asan", after="build asan", left_to_other=SEAL),
    Part("server asan", [*REAPED, *PYTEST, "tests/server", *left_out(OF_OTHERS + PATIENT)], counts="junit", build=ASAN, when="full",
         limit_s=1200, apart="server asan", after="build asan", left_to_other=MEASURED),
    Part("others asan", [*REAPED, *PYTEST, *OF_OTHERS], counts="junit", build=ASAN, when="long", limit_s=1200, apart="server asan",
         after="build asan"),
    Part("server release", [*REAPED, *PYTEST, "tests/server", *left_out(OF_OTHERS)], counts="junit", extras="browser", limit_s=1200,
         apart="server release", left_to_other=ASAN_SERVER, slow=SLOW_SERVER),
    Part("hostile user", [*PYTEST, *INSIDE, "--modes", "rootless"], counts="junit", limit_s=900, when="split", apart="hostile"),
    Part("hostile asan", [*PYTEST, "tests/hostile", "--modes", "root"], counts="junit", build=ASAN, when="full", limit_s=900,
         apart="hostile", after="build asan", left_to_other=files("hostile", "hostile")),
    Part("conformance", ["tools/conformance"], needs="build/tests/mcp_fixture", apart="conformance", again="tools/conformance"),
]


def chosen_parts(choice, build):
    """The rows that run these tests alone: {"unit": names of meson, "all_units": bool, "tests": names of pytest,
    "parts": names of rows, "lint": bool}."""
    name = "asan" if build == ASAN else "release"
    rows = [part for part in PARTS if part.name == f"build {name}"]
    rows[0].apart, rows[0].fatal = "", True
    if choice["lint"]:
        rows += [part for part in PARTS if part.name == "lint"]
    if choice["unit"] or choice["all_units"]:
        rows.append(Part(f"unit {name}", [*unit(build, 16 if build == ASAN else 1), *choice["unit"]], counts="junit", build=build))
    folders = sorted({test.split("/")[1] for test in choice["tests"]})
    for folder in folders:
        tests = [test for test in choice["tests"] if test.split("/")[1] == folder]
        rows.append(Part(f"{folder} {name}", [*REAPED, *PYTEST, *tests], counts="junit", build=build, limit_s=1800,
                         extras="browser" if any("docs_test" in test for test in tests) else "", apart=folder))
    rows += [part for part in PARTS if part.name in choice["parts"]]
    return rows


def is_wanted(part, options):
    if part.when == "long" and not options.long:
        return False
    if part.when in ("full", "split") and options.quick or part.when == "split" and options.long:
        return False
    return not options.what or any(word in part.name for word in options.what)


def full_command(part, options):
    """What is run for a part, with what the options of this run add."""
    words = list(part.command)
    if options.long and part.name.startswith("hostile"):
        words.append("--long")
    if not (options.quick or options.long or options.what):
        words += left_out(part.left_to_other)  # of a run that has both builds
    if options.quick:
        words += left_out(part.slow)
    return words


def environment(part, options):
    build = str(ROOT / part.build)
    return dict(os.environ, BUILD_DIR=build, COVE_BUILD_DIR=build, COVE=f"{build}/cove",
                COVE_ASAN="1" if part.build == ASAN else "", PYTHONDONTWRITEBYTECODE="1",
                COVE_TEST_LONG="1" if options.long else "", COVE_WERROR="1",
                ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:exitcode=99",
                UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
