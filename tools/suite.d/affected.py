# SPDX-License-Identifier: Apache-2.0
"""Which tests a change can break: `./test --changed`.

What is compiled is answered by the build itself: ninja knows which sources and headers an object was made of, and the
linker's symbols tell which programs an object of a library went into. Scripts of tests are answered by their imports. What
neither knows, which tests are about a source, is the table SUBJECTS.
"""
import ast
import fnmatch
import functools
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("tests/integration", "tests/server", "tests/hostile", "tests/tools")

# By subject: files of tests, and the paths that they are about. All rows that fit a path count. A subject is what a change of
# the path can break in a way of its own; what every program uses has a few tests that touch all of it, and the whole suite
# runs before a change lands.
SUBJECTS = (
    # the command line
    ("integration/cli integration/run integration/repl integration/doctor integration/image server/mcp_stdio",
     "src/cli/*.[ch] src/base/option.* src/base/nearest.* src/core/config.* src/core/tier.*"),
    ("server/client server/client_exec server/client_server server/client_top server/cp integration/cli",
     "src/cli/client/* src/codec/event_stream.*"),
    ("integration/cli", "man/* README.md src/base/conf.*"),
    ("integration/repl", "src/cli/repl* src/cli/line_* src/cli/term*"),
    # what runs code
    ("integration/session integration/checkpoint server/execute server/inside_api",
     "src/core/cell* src/core/session* src/core/execution* src/core/kernel_answer.* src/core/pipes.* src/core/result.* src/core/feed.* "
     "src/runtime/kernel.* src/runtime/frame.* src/runtime/guest.* src/runtime/outbox.* src/wire/kernel.h src/wire/guest.h src/init/*"),
    ("integration/run integration/crash hostile/hostile",
     "src/core/run.* src/core/collect.* src/core/stdio.* src/core/output* src/core/verdict.* src/core/tail.* src/core/artifact.* src/init/*"),
    ("integration/restart server/takeover server/begin",
     "src/core/attach.* src/core/session_keep.* src/core/output_file.* src/runtime/keeper.* src/core/plane_recover.* src/spawner/keep.* "
     "src/spawner/serve.*"),
    ("integration/checkpoint integration/fork integration/fork_frames integration/brood",
     "src/core/checkpoint.* src/core/fork.* src/core/family.* guest/python/* src/spawner/apart.*"),
    ("integration/terminal server/terminal_http", "src/core/terminal* src/wire/terminal.h src/init/terminal.* src/api/rest_terminal.*"),
    ("integration/capacity integration/zygote server/execute server/crowd",
     "src/core/pool.* src/core/warm.* src/core/crew.* src/core/catalog* src/core/capacity.* src/core/machine.* src/core/recipe.*"),
    ("integration/zygote integration/zygote_apart integration/zygote_end integration/zygote_group integration/zygote_seal",
     "src/spawner/zygote.* src/spawner/spare_group.* src/spawner/hot.* src/box/seal_warm.* src/box/seal_zygote.* src/box/cgroup_renew.* "
     "src/box/netns.* src/wire/zygote.h guest/python/*"),
    ("integration/kernel_python integration/kernel_python_code integration/session integration/zygote",
     "images/python/kernel.* guest/python/*"),
    ("integration/kernel_node integration/session", "images/node/* src/init/shim.*"),
    ("integration/kernel_bash integration/session", "images/bash/* src/init/shim.*"),
    ("integration/image integration/run", "images/* src/image/*"),
    # the wall
    ("integration/inside integration/failclosed integration/doctor integration/run integration/zygote_seal hostile/hostile",
     "src/box/* src/wire/layer.* tests/hostile/programs/*"),
    ("tools/compare_seccomp", "src/box/seccomp_rules.c tools/compare-seccomp tools/seccomp.d/* tests/integration/seccomp_table.c"),
    ("integration/spawner_protocol integration/spawner_group integration/keeper integration/failmalloc integration/crash "
     "integration/uninitialised integration/run", "src/spawner/* src/wire/spawn.h src/runtime/spawner_client.* src/wire/meter.* src/box/cgroup*"),
    ("integration/placement server/server_group", "src/box/cgroup_place.* src/box/cgroup_tree.* src/spawner/client_group.* src/spawner/starter.*"),
    ("integration/strays server/wall",
     "src/base/fd.* src/event/closer.* src/runtime/sandbox_socket.* src/box/seccomp_rules.* src/spawner/discard.* src/spawner/watchdog.* "
     "src/spawner/starter.*"),
    ("server/held", "src/base/budget.* src/runtime/frame.* src/core/result.*"),
    ("server/pairs", "src/box/veil.* src/box/rootfs.* src/box/seal_warm.* src/box/seal_steps.* src/box/seccomp_rules.c "
     "src/spawner/host.* tests/hostile/programs/pair.py tests/hostile/programs/glances.py "
     "tests/hostile/programs/pages.c"),
    ("integration/layer", "src/box/veil.* src/spawner/layer_* src/box/layer_copy.* src/image/layer_cache.*"),
    ("server/serve server/two_servers", "src/confine/* src/coved/*"),
    ("server/two_servers", "src/egress/egress_calls.*"),
    # the way out
    ("server/egress server/egress_abuse server/egress_programs server/secrets server/packages hostile/network",
     "src/egress/* src/core/gateway.* src/core/network.* src/core/vault.* src/core/plane_network.* src/core/plane_secrets.* src/wire/egress.h "
     "src/confine/* src/event/resolve.*"),
    ("server/packages integration/layer",
     "src/core/builder.* src/core/packages.* src/core/requirement.* src/core/address.* src/core/catalog_kept.* src/image/module.* images/*/install.*"),
    # the control plane
    ("server/execute server/inside_api server/executors server/begin server/freeze server/keys",
     "src/core/job* src/core/plane* src/core/wish.* src/core/executors.* src/core/report* src/core/journal.*"),
    ("server/serve server/rotation server/health", "src/coved/* src/core/server_config.* src/core/selfstat.* src/core/node.* src/base/log.*"),
    ("server/log", "src/base/log.* src/spawner/log_writer.* src/coved/greet.* src/coved/upkeep.* src/cli/serving.* src/cli/mcp_log.*"),
    ("server/health", "src/core/linux_feature.*"),
    ("server/keys", "src/core/api_key.* src/core/scope.* src/core/rate_limit.* src/api/auth* src/api/credential.* src/api/rest_key.*"),
    ("server/template_api", "src/core/template.* src/core/shelf.* src/api/rest_template.* src/image/*"),
    ("server/store_trouble server/serve server/power_cut server/keys server/template_api server/begin", "src/store/*"),
    ("server/artifact server/artifact_s3 server/s3 server/upload server/workspace server/files",
     "src/blob/* src/core/archive* src/core/haul.* src/core/links.* src/core/upload* src/core/workspace* src/core/mime.* src/codec/chunk.* "
     "src/codec/sigv4.* src/codec/signature.* src/api/rest_link.* src/api/rest_upload.* src/api/rest_workspace.*"),
    ("server/files server/cp server/upload hostile/files",
     "src/core/errand.* src/runtime/file_stream.* src/wire/files.h src/init/p* src/init/tar_* src/init/files.* src/init/tree.* "
     "src/init/beneath.* src/codec/multipart* src/codec/range.* src/codec/disposition.* src/codec/etag.* src/api/*load* src/api/file_* "
     "src/api/rest_files.* src/core/plane_errand.*"),
    ("server/http server/http_peers server/http_tls server/http_websocket server/abuse server/heartbeat",
     "src/http/* src/event/* src/codec/header_value.* src/codec/authority.* src/codec/url.* src/codec/certificate.*"),
    ("server/contract server/openapi server/docs server/schemathesis server/execute server/health",
     "src/api/*.[ch] src/codec/params* src/codec/json.*"),
    ("server/docs", "src/api/docs/*"),
    ("server/mcp_arguments server/mcp_clients server/mcp_hostile server/mcp_http server/mcp_load server/mcp_resources server/mcp_results "
     "server/mcp_stdio server/mcp_tasks server/mcp_tools conformance", "src/mcp/* src/api/mcp/*"),
    ("conformance", "tests/mcp/* tools/conformance"),
    ("server/bundle", "packaging/* tools/make-bundle"),
    ("server/examples", "examples/* README.md"),
    # what everything stands on
    ("integration/run integration/session integration/spawner_protocol server/execute server/http server/files",
     "src/base/* src/event/* src/codec/* src/wire/* src/runtime/*"),
    # the tools
    ("tools/affected tools/reports", "tools/suite tools/suite.d/*"),
    ("vm", "tests/vm/* tools/vm tools/vm.d/*"),
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
        self.known = {}  # file: its symbols
        self.users = {}  # input: what is made of it
        for output, inputs in self.inputs.items():
            for one in inputs:
                self.users.setdefault(one, []).append(output)

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
        return made.union(*(users for one, users in self.users.items() if self.name(one) in files))

    def is_program(self, output):
        return (self.folder / output).is_file() and os.access(self.folder / output, os.X_OK)

    def programs_with(self, outputs):
        """Programs that hold one of these objects. Of a library only what somebody asks for is linked, so its symbols tell."""
        found, members, waiting = set(), {}, set(outputs)
        while waiting:
            one = waiting.pop()
            for user in self.users.get(one, ()):
                if user.endswith(".a"):
                    members.setdefault(user, set()).add(one)
                elif self.is_program(user):
                    found.add(user)
                elif user.endswith((".o", ".c", ".h", ".inc")):
                    waiting.add(user)
        return found.union(*(self.linked_with(library, objects) for library, objects in members.items()))

    def linked_with(self, library, members):
        programs = [user for user in self.users.get(library, ()) if self.is_program(user)]
        wanted = set().union(*self.symbols(members).values())
        return {program for program, symbols in self.symbols(programs).items() if symbols & wanted}

    def symbols(self, files):
        """{file: the symbols that it defines for others}"""
        if unknown := sorted(set(files) - self.known.keys()):
            self.known |= {name: set() for name in unknown}
            lines = subprocess.run(["nm", "-A", "--defined-only", "--extern-only", *unknown], cwd=self.folder,
                                   capture_output=True, text=True).stdout.splitlines()
            for line in lines:
                name, _, rest = line.partition(":")
                self.known[name].add(rest.rpartition(" ")[2])
        return {name: self.known[name] for name in files}


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
    """What the table says of a path: files of tests, and parts."""
    words = {word for goals, patterns in SUBJECTS if any(fnmatch.fnmatch(path, one) for one in patterns.split()) for word in goals.split()}
    return {f"tests/{word}_test.py" for word in words if "/" in word}, {word for word in words if "/" not in word}


def units_of(programs):
    """Names of meson's tests among the programs."""
    units = {program.removeprefix("tests/test_") for program in programs if program.startswith("tests/test_")}
    return units | {"replay " + program.removeprefix("fuzz/replay_") for program in programs if program.startswith("fuzz/replay_")}


def fuzz_inputs(files):
    """Replays whose inputs have changed."""
    return {"replay " + path.split("/")[2] for path in files if re.match(r"fuzz/(corpus|regress)/[^/]+/", path)}


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
        units |= units_of(made.programs_with(made.outputs_of({path})))
        found, parts = reached(path)
        tests, others = tests | found, others | parts
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
