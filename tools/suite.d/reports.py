# SPDX-License-Identifier: Apache-2.0
"""What the parts of the test suite leave behind, read: how many tests passed, which failed, why, and the command that runs one again."""
import dataclasses
import pathlib
import re
import shlex
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build-logs"
SKIP_CODE = 77  # exit code by which a script says that it cannot run here
WHY_LEN = 160  # of a reason in the summary: a line of a terminal, or two


@dataclasses.dataclass(frozen=True)
class Failure:
    """One test that failed."""

    name: str
    why: str
    again: str  # the command that runs this one alone


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list = dataclasses.field(default_factory=list)  # of what was skipped
    failures: list = dataclasses.field(default_factory=list)

    def add(self, name, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += [f"{name}: {reason}" for reason in other.reasons]
        self.failures += [dataclasses.replace(one, name=f"{name}: {one.name}") for one in other.failures]

    def fail(self, name, why, again):
        self.failed += 1
        self.failures.append(Failure(name, " ".join(why.split())[:WHY_LEN], again))

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def log_path(part):
    return LOGS / f"{part.name.replace(' ', '-')}.log"


def report_path(part):
    if part.command[0] == "meson":
        return ROOT / part.build / "meson-logs" / "testlog.junit.xml"
    return LOGS / f"{part.name.replace(' ', '-')}.xml"


def command(*words, build="build"):
    """The command of a person who runs one test again."""
    return shlex.join(["./test", *(["--build", "asan"] if build == "build-asan" else []), *words])


def source_of_unit(suite):
    """'cove:unit / pool' -> tests/unit/test_pool.c; 'cove:fuzz / replay json' -> fuzz/fuzz_json.c"""
    kind, _, name = suite.rpartition(" / ")
    return f"fuzz/fuzz_{name.removeprefix('replay ')}.c" if kind.endswith("fuzz") else f"tests/unit/test_{name}.c"


def why_of_tap(text, case):
    """What a unit test said behind its 'not ok' line; of one that died, its last words."""
    found = re.search(rf"^not ok {re.escape(case.split(' - ')[0])}\b.*\n((?:#.*\n?)*)", text, re.MULTILINE)
    said = found.group(1).replace("#", "") if found else ""
    return said or (text.strip().splitlines() or ["it said nothing"])[-1]


def read_meson(root, part):
    found = Outcome()
    for suite in root.iter("testsuite"):
        for case in suite.iter("testcase"):
            name = case.get("name")
            unit = name if " / " in name else suite.get("name")
            if case.find("failure") is not None or case.find("error") is not None:
                text = (suite.findtext("system-out") or "") + (suite.findtext("system-err") or "") + (case.findtext("system-err") or "")
                source = source_of_unit(unit)
                found.fail(f"{source}: {name}", why_of_tap(text, name), command(source, build=part.build))
            elif case.find("skipped") is not None:
                found.skipped += 1
                reason = (case.find("skipped").get("message") or "").strip()
                label = f"{unit.split('/ ')[-1]} {name}"
                found.reasons.append(f"{label}: {reason}" if reason else label)
            else:
                found.passed += 1
    return found


def node_of(case):
    """How pytest names a test: its file, and its name."""
    module = (case.get("classname") or "").replace(".", "/")
    return f"{module}.py::{case.get('name')}" if module else case.get("name")


def read_pytest(root, part):
    found, failed = Outcome(), {}
    for case in root.iter("testcase"):
        node = node_of(case)
        trouble = next((one for kind in ("failure", "error") if (one := case.find(kind)) is not None), None)
        if trouble is not None:
            failed.setdefault(node, trouble.get("message") or trouble.text or "")
        elif case.find("skipped") is not None:
            found.skipped += 1
            reason = (case.find("skipped").get("message") or "").strip()
            found.reasons.append(f"{case.get('name')}: {reason}" if reason else case.get("name"))
        else:
            found.passed += 1
    for node, why in failed.items():
        found.fail(node, why, command(node, build=part.build))
    return found


def read_junit(part):
    """Adds up the test cases of a report by meson or pytest; None where there is none."""
    if not report_path(part).exists():
        return None
    # meson copies what a test printed as it is, also what XML cannot hold
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "?", report_path(part).read_text(errors="replace"))
    try:
        root = ElementTree.fromstring(re.sub(r"^<\?xml.*?\?>", "", text))
    except ElementTree.ParseError:
        return None  # it was ended while it wrote
    return (read_meson if part.command[0] == "meson" else read_pytest)(root, part)


def read_lines(part):
    """The last 'N passed, N failed, N skipped' of an output, and its lines FAIL machine: check; None where there is none."""
    text = log_path(part).read_text(errors="replace")
    sums = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.MULTILINE)
    if not sums:
        return None
    passed, failed, skipped = map(int, sums[-1])
    found = Outcome(passed=passed, skipped=skipped)
    for machine, why in re.findall(r"^FAIL ([\w-]+)[^:]*: (.*)$", text, re.MULTILINE):
        found.fail(machine, why, shlex.join([*part.command, machine]))
    found.failed = max(found.failed, failed)
    return found


def read_exit(part, code):
    return Outcome(passed=1) if code == 0 else None


def last_words(part):
    lines = [line for line in log_path(part).read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


READERS = {"junit": lambda part, code: read_junit(part), "line": lambda part, code: read_lines(part), "exit": read_exit}


def count(part, code):
    """Turns the end of a part into numbers; a part that broke down has at least one failure."""
    if code == SKIP_CODE:
        return Outcome(skipped=1, reasons=[last_words(part)])
    found = READERS[part.counts](part, code)
    has_run = found is not None and found.passed + found.failed + found.skipped > 0
    found = found or Outcome()
    if found.failed == 0 and (code != 0 or not has_run):
        why = "its time limit ended it" if code is None else f"exit code {code}: {last_words(part)}"
        found.fail("all of it", why, part.again or command(part.name))
    return found
