# SPDX-License-Identifier: Apache-2.0
"""Which tests a change can break: `./test --changed`.

What is compiled is answered by the build itself: ninja knows which sources and headers an object was made of, and the
linker's symbols tell which programs an object of a library went into. Scripts of tests are answered by their imports. What
neither knows, which tests drive a program or read a page, is the table REACH.
"""
import ast
import fnmatch
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("tests/integration", "tests/server", "tests/hostile", "tests/tools")

# Programs of users. What is in one of them can break the tests that start it.
PROGRAMS = ("cove", "coved", "cove-client", "cove-egress", "cove-spawner", "cove-init", "cove_zygote.so", "cove_checkpoint.so")
EVERYTHING = ("tests/*/*_test.py",)

SERVER = ("server/*_test.py",)
MCP = ("server/mcp_*_test.py", "server/bundle_test.py")
EGRESS = ("server/egress_*test.py", "server/secrets_test.py", "server/packages_test.py", "hostile/network_test.py")
FILES = ("server/files_test.py", "server/cp_test.py", "server/upload_test.py", "server/artifact_*test.py", "server/workspace_test.py",
         "hostile/files_test.py")
STORE = ("server/store_trouble_test.py", "server/serve_test.py", "server/power_cut_test.py", "server/crashloop_test.py",
         "server/keys_test.py", "server/template_api_test.py", "server/takeover_test.py", "server/begin_test.py")
HTTP = ("server/http_*test.py", "server/abuse_test.py", "server/contract_test.py", "server/schemathesis_test.py",
        "server/heartbeat_test.py", "server/terminal_http_test.py")
API = ("server/contract_test.py", "server/openapi_test.py", "server/schemathesis_test.py", "server/docs_test.py",
       "server/execute_test.py", "server/health_test.py", "server/keys_test.py", "server/serve_test.py")
CLIENT = ("server/client_*test.py", "server/cp_test.py", "integration/cli_test.py")
CLI = ("integration/cli_test.py", "integration/run_test.py", "integration/repl_test.py", "integration/doctor_test.py",
       "integration/image_test.py", "server/mcp_stdio_test.py", *CLIENT)
SEAL = ("integration/inside_test.py", "integration/failclosed_test.py", "integration/forkfail_test.py", "integration/doctor_test.py",
        "integration/layer_test.py", "integration/spawner_*_test.py", "integration/zygote_*test.py", "integration/run_test.py",
        "hostile/*_test.py")
SPAWNER = (*SEAL, "integration/brood_test.py", "integration/capacity_test.py", "integration/crash_test.py", "integration/failmalloc_test.py",
           "integration/fork_test.py", "integration/keeper_test.py", "integration/restart_test.py", "integration/uninitialised_test.py",
           "server/serve_test.py", "server/takeover_test.py", "server/crashloop_test.py")
SESSION = ("integration/session_test.py", "integration/checkpoint_test.py", "integration/fork_test.py", "integration/repl_test.py",
           "integration/terminal_test.py", "integration/run_test.py", "server/execute_test.py", "server/inside_api_test.py",
           "server/freeze_test.py", "server/begin_test.py", "hostile/session_test.py")
PYTHON = ("integration/kernel_python_*test.py", "integration/zygote_*test.py", *SESSION)

# Of a path: the tests that drive it. All rows that fit count. A source without a row reaches the tests of every program.
REACH = (
    ("src/api/mcp/*", MCP),
    ("src/api/docs/*", ("server/docs_test.py",)),
    ("src/api/terminal*", ("server/terminal_http_test.py",)),
    ("src/api/*", (*API, *HTTP, *FILES)),
    ("src/blob/*", ("server/s3_test.py", *FILES)),
    ("src/box/*", SEAL),
    ("src/cli/client/*", CLIENT),
    ("src/cli/*", CLI),
    ("src/core/archive*", FILES),
    ("src/core/builder.*", ("server/packages_test.py", "integration/layer_test.py")),
    ("src/core/gateway.*", EGRESS),
    ("src/core/network.*", EGRESS),
    ("src/core/packages.*", ("server/packages_test.py",)),
    ("src/core/requirement.*", ("server/packages_test.py",)),
    ("src/core/terminal*", ("integration/terminal_test.py", "server/terminal_http_test.py")),
    ("src/core/upload*", FILES),
    ("src/core/vault.*", EGRESS),
    ("src/core/workspace*", FILES),
    ("src/core/*", (*SESSION, *SERVER)),
    ("src/coved/*", SERVER),
    ("src/egress/*", EGRESS),
    ("src/http/*", (*HTTP, *MCP, "server/client_*test.py", "server/s3_test.py")),
    ("src/image/*", ("integration/image_test.py", "integration/layer_test.py", "server/packages_test.py", "server/template_api_test.py")),
    ("src/init/*", (*SESSION, *FILES, "integration/inside_test.py", "integration/kernel_*_test.py")),
    ("src/mcp/*", MCP),
    ("src/runtime/*", (*SESSION, *SPAWNER)),
    ("src/spawner/*", SPAWNER),
    ("src/store/*", STORE),
    ("guest/python/*", PYTHON),
    ("images/python/kernel.*", PYTHON),
    ("images/node/*", ("integration/kernel_node_test.py", "integration/session_test.py")),
    ("images/bash/*", ("integration/kernel_bash_test.py", "integration/session_test.py")),
    ("images/*", ("integration/image_test.py", "integration/run_test.py")),
    ("examples/*", ("server/examples_test.py",)),
    ("man/*", ("integration/cli_test.py",)),
    ("README.md", ("server/examples_test.py", "integration/cli_test.py")),
    ("packaging/*", ("server/bundle_test.py",)),
    ("tools/make-bundle", ("server/bundle_test.py",)),
    ("tools/suite*", ("tools/*_test.py",)),
    ("tests/mcp/*", ("conformance",)),
    ("src/mcp/*", ("conformance",)),
    ("tests/vm/*", ("vm",)),
    ("tools/vm*", ("vm",)),
)


# --- what has changed -----------------------------------------------------------------------------

def git(*words):
    return subprocess.run(["git", "-c", f"safe.directory={ROOT}", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changed_files(rev):
    """Paths that differ from a revision, also what git does not track yet."""
    try:
        against = git("diff", "--name-only", "--no-renames", rev, "--").splitlines()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"./test --changed: git does not know '{rev}': {error.stderr.strip().splitlines()[0]}") from None
    return sorted({*against, *git("ls-files", "--others", "--exclude-standard").splitlines()})


# --- what is compiled -----------------------------------------------------------------------------

class Build:
    """What ninja knows of one build directory."""

    def __init__(self, folder):
        self.folder = ROOT / folder
        self.sources = self.read_deps()  # object: the files of ours that it was made of
        self.inputs = self.read_edges()  # output: what it is made of, as the build file has it

    def name(self, path):
        """Of a file, from the root of the tree; None for one elsewhere."""
        full = pathlib.Path(path) if path.startswith("/") else pathlib.Path(re.sub(r"/[^/]+/\.\./", "/", str(self.folder / path)))
        return str(full.relative_to(ROOT)) if full.is_relative_to(ROOT) else None

    def read_deps(self):
        found, target = {}, None
        listed = subprocess.run(["ninja", "-C", str(self.folder), "-t", "deps"], check=True, capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if line.startswith("    "):
                if name := self.name(line.strip()):
                    found.setdefault(target, set()).add(name)
            elif ": #deps" in line:
                target = line.split(": #deps")[0]
        return found

    def read_edges(self):
        found = {}
        for line in (self.folder / "build.ninja").read_text().splitlines():
            if line.startswith("build "):
                outputs, _, rest = line[len("build "):].partition(": ")
                inputs = re.split(r"(?<!\$) ", rest)[1:]
                for output in re.split(r"(?<!\$) ", outputs.split(" | ")[0]):
                    found[output] = [one.replace("$ ", " ") for one in inputs if one not in ("|", "||")]
        return found

    def outputs_of(self, files):
        """Objects made of one of these files, and what other commands make of one."""
        made = {out for out, sources in self.sources.items() if sources & files}
        return made | {out for out, inputs in self.inputs.items() if files & {self.name(one) for one in inputs}}

    def users_of(self, output):
        return [out for out, inputs in self.inputs.items() if output in inputs]

    def programs_with(self, objects):
        """Programs that hold one of these objects. Of a library only what somebody asks for is linked, so its symbols tell."""
        direct, by_library = set(), {}
        for one in objects:
            for user in self.users_of(one):
                if user.endswith(".a"):
                    by_library.setdefault(user, set()).add(one)
                elif not user.endswith((".p", ".o", ".h", ".c", ".inc")) and user not in ("all", "test", "install"):
                    direct.add(user)
                elif user.endswith((".c", ".h", ".inc")):
                    direct |= self.programs_with(self.outputs_of({self.name(user)}))
        for library, members in by_library.items():
            direct |= self.linked_with(library, members)
        return direct

    def linked_with(self, library, members):
        programs = [user for user in self.users_of(library) if not user.endswith(".a") and (self.folder / user).is_file()]
        wanted = {symbol for one in members for symbol in self.symbols([one])[one]}
        return {program for program, symbols in self.symbols(programs).items() if symbols & wanted}

    def symbols(self, files):
        """{file: the symbols that it defines for others}"""
        found = {name: set() for name in files}
        if files:
            lines = subprocess.run(["nm", "-A", "--defined-only", "--extern-only", *files], cwd=self.folder,
                                   capture_output=True, text=True).stdout.splitlines()
            for line in lines:
                name, _, rest = line.partition(":")
                found[name].add(rest.split()[-1])
        return found


# --- what is imported -----------------------------------------------------------------------------

@functools.cache
def imports_of(path):
    """Files of the tests that this one imports."""
    tree = ast.parse((ROOT / path).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    folder = str(pathlib.Path(path).parent)
    places = [folder, "tests/integration", *([] if folder != "tests/hostile" else ["tests/server"])]
    found = ([f"{place}/{name.split('.')[0]}.py" for place in places] for name in names)
    return {there[0] for files in found if (there := [one for one in files if (ROOT / one).exists()])}


@functools.cache
def all_imports_of(path):
    found, waiting = set(), [path]
    while waiting:
        for one in imports_of(waiting.pop()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def tests_of_scripts(files):
    """Tests that are, import or share a folder's conftest with one of these."""
    found = set()
    for test in test_files():
        conftest = str(pathlib.Path(test).parent / "conftest.py")
        seen = {test, *all_imports_of(test), conftest, *(all_imports_of(conftest) if (ROOT / conftest).exists() else ())}
        if seen & files:
            found.add(test)
    return found


@functools.cache
def test_files():
    return tuple(sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).glob("*_test.py")))


# --- the choice -----------------------------------------------------------------------------------

def reached(path):
    """What the table says of a path: (tests, parts); None where no row fits."""
    patterns = [one for pattern, goals in REACH if fnmatch.fnmatch(path, pattern) for one in goals]
    if not patterns:
        return None
    tests = {test for test in test_files() for pattern in patterns if fnmatch.fnmatch(test, f"tests/{pattern}")}
    return tests, {one for one in patterns if "/" not in one}


def units_of(programs):
    """Names of meson's tests among the programs."""
    units = {program.removeprefix("tests/test_") for program in programs if program.startswith("tests/test_")}
    return units | {"replay " + program.removeprefix("fuzz/replay_") for program in programs if program.startswith("fuzz/replay_")}


def fuzz_inputs(files):
    """Replays whose inputs have changed."""
    return {"replay " + path.split("/")[2] for path in files if re.match(r"fuzz/(corpus|regress)/[^/]+/", path)}


def program_tests(path):
    """Tests of a source that is in a program: what the table says, or else all."""
    found = reached(path)
    return found[0] if found else set(test_files())


def choose(rev, build):
    """-> {"unit": names, "tests": files, "parts": names of parts}; builds first, for what ninja knows is what it has built."""
    files = set(changed_files(rev))
    if not files:
        raise SystemExit(f"./test --changed: nothing differs from {rev}; to test what has been committed since, name a revision: "
                         "--changed=origin/main")
    if subprocess.run(["tools/build", build], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
        raise SystemExit(f"./test --changed: the build failed; see it with: tools/build {build}")
    made = Build("build-asan" if build == "asan" else "build")
    units, tests, others = fuzz_inputs(files), set(), set()
    if any(pathlib.Path(path).name in ("meson.build", "meson_options.txt") for path in files):
        units.add("*")
    for path in sorted(files):
        programs = made.programs_with(made.outputs_of({path}))
        units |= units_of(programs)
        found = reached(path)
        if found:
            tests, others = tests | found[0], others | found[1]
        elif programs & set(PROGRAMS):
            tests |= program_tests(path)
    tests |= tests_of_scripts(files)
    units = {"*"} if "*" in units else units
    tell(files, units, tests, others)
    return {"unit": [] if units == {"*"} else sorted(units), "all_units": units == {"*"}, "tests": sorted(tests), "parts": others,
            "lint": True}


def tell(files, units, tests, others):
    """What was chosen, before it runs."""
    names = ", ".join(sorted(pathlib.Path(test).stem.removesuffix("_test") for test in tests))
    print(f"{len(files)} changed files reach:")
    print(f"  unit tests and replays: {'all' if units == {'*'} else ', '.join(sorted(units)) or 'none'}")
    print(f"  files of tests: {'all' if len(tests) == len(test_files()) else names or 'none'}")
    if others:
        print(f"  parts: {', '.join(sorted(others))}")


def named(words):
    """Tests that a person names by their paths."""
    choice = {"unit": [], "all_units": False, "tests": [], "parts": set(), "lint": False}
    for word in words:
        path = ROOT / word.partition("::")[0]
        if not path.is_file():
            raise SystemExit(f"./test: there is no {word.partition('::')[0]}")
        name = path.stem
        if path.suffix == ".c" and name.startswith("test_"):
            choice["unit"].append(name.removeprefix("test_"))
        elif path.suffix == ".c" and name.startswith("fuzz_"):
            choice["unit"].append(f"replay {name.removeprefix('fuzz_')}")
        elif path.suffix == ".py" and name.endswith("_test"):
            choice["tests"].append(word)
        else:
            raise SystemExit(f"./test: {word} is no test: those are tests/unit/test_*.c, fuzz/fuzz_*.c and tests/*/*_test.py")
    return choice
