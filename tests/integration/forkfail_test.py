# SPDX-License-Identifier: Apache-2.0
"""Every system call on the way to a fork is made to fail once: in the seal of an heir, in the heir and what it forks, in both
sandboxes' init, in the interpreter until it stands, and in the spawner's look at the two. Either the fork is refused and its sandbox
goes, or it is as sealed and whole as ever; the session that was to be forked goes on, and nothing is left."""
import json
import pathlib
import re

import pytest

import covetest
import failclosed_test
from brood_test import apart, begin_brood, fork
from covetest import name_of, nothing_is_left, status_of, wait_for
from fork_test import Family, Fork, pytestmark as of_forks, take_over
from spawner_protocol_test import DESTROY, SEALED
from zygotes import READY, Session, host  # noqa: F401

pytestmark = [of_forks, *failclosed_test.pytestmark]

LOOK = pathlib.Path(__file__).with_name("sealreport.py").read_text()


@pytest.fixture
def tracer(tmp_path):
    return failclosed_test.Tracer(tmp_path)


# --- the seal -----------------------------------------------------------------------------------

# As in every seal by a zygote.
HARMLESS_IN_SEAL = {"close", "rseq"}


def report_of(session):
    report = json.loads(session.run(LOOK))
    report.pop("limits")
    return report


def leave_networks(host, zygote):
    """One each, and one for the zygote's spare, that can be used again: so every seal has the same calls."""
    for session in [host.session(zygote) for _ in range(3)]:
        host.destroy(session)


class Brood:
    """A session and an heir; in the seal of one of them one call may fail."""

    def __init__(self, tracer, host, zygote, watched, index=-1):
        leave_networks(host, zygote)
        answer = begin_brood(host, zygote)
        assert host.news(SEALED, answer.sandbox).failure is None
        depths = {pid: status_of(pid).get("NSpid", "").split() for pid in host.find("python3")}
        pid, = (pid for pid, numbers in depths.items() if len(numbers) == 2 and numbers[1] != "300")
        self.failure = self.report = None
        made = []
        for name in ("session", "heir"):
            watcher = tracer.watch(pid, index) if name == watched else None
            one = host.ask_warm(answer.sandbox)
            assert one.failure is None, one.failure
            made.append(Session(one))
            news = host.news(SEALED, one.sandbox)
            if watcher:
                assert watcher.wait(covetest.PATIENCE) == 0
                watcher.stdout.close()
                self.calls, self.failure = tracer.calls(), news.failure
            else:
                assert news.failure is None, news.failure
        assert host.ask(DESTROY, answer.sandbox).failure is None
        self.use(host, watched, *made)

    def use(self, host, watched, session, heir):
        """Whoever was sealed can be used, and the other says nothing but that it is gone."""
        is_whole = self.failure is None
        if is_whole or watched == "heir":
            assert session.frame()[0] == READY
            assert session.run("x = 1; print(x)") == "1\n"
        if is_whole:
            fork(session, heir)
            assert apart(host, heir) is None
            assert heir.run("print(x)") == "1\n"
            self.report = report_of(session), report_of(heir)
        else:
            lost = heir if watched == "heir" else session
            while frame := lost.frame():
                assert frame[0] == READY
        for one in (session, heir):
            if is_whole or (one is session) == (watched == "heir"):
                host.destroy(one)
            else:
                one.close()


@pytest.mark.parametrize("watched", ["session", "heir"])
def test_each_call_of_the_seal_in_a_brood_fails_closed(host, tracer, watched, is_long):  # noqa: F811
    zygote = host.zygote()
    usual = Brood(tracer, host, zygote, watched)
    names = [call.name for call in usual.calls]
    assert names[-1] == "execveat" and {"unshare", "setns", "setresuid", "seccomp", "landlock_restrict_self", "clone"} <= set(names)
    wrong = []
    for call in failclosed_test.choose("child", usual.calls, is_long):
        one = Brood(tracer, host, zygote, watched, call.index)
        assert one.calls[call.index].name == call.name
        if one.failure is None and call.name not in HARMLESS_IN_SEAL:
            wrong.append(f"{call}: it was sealed")
        elif one.report not in (None, usual.report):
            wrong.append(f"{call}: sealed otherwise")
    assert not wrong, "\n".join(wrong)
    host.end()


# --- the fork -----------------------------------------------------------------------------------

HEIRS = 8  # the most that a session can have: one for each try
FIRST = "first"  # how the interpreter of the session calls itself


def is_init(pid):
    return name_of(pid) == "cove-init" and status_of(pid).get("NSpid", "").split()[-1:] == ["1"]


class Targets:
    """Whose calls may fail when a session is forked. Sandboxes of a brood are made in the order of their pids, which begin
    anew behind the highest: they are counted from that of the session."""

    def __init__(self, family):
        self.spawner = family.spawner()
        inits = covetest.wait_for(self.find_inits, "each of them to have given itself its name")
        self.init, = (pid for pid in inits if FIRST in map(name_of, covetest.children_of(pid)))
        count = int(covetest.read_text("/proc/sys/kernel/pid_max"))
        inits.sort(key=lambda pid: (pid - self.init) % count)
        self.heir_inits = inits[1:]
        self.interpreter, = covetest.children_of(self.init)

    def find_inits(self):
        inits = [pid for pid in covetest.children_of(self.spawner) if is_init(pid) and len(status_of(pid)["NSpid"].split()) == 3]
        return inits if len(inits) == 1 + HEIRS else None

    def next(self, role):
        """-> whom to watch, and the init of the heir whose turn it is"""
        heir_init = self.heir_inits.pop(0)
        if role == "heir":
            return covetest.children_of(heir_init)[0], heir_init
        return {"heir's init": heir_init, "init": self.init, "interpreter": self.interpreter,
                "spawner": self.spawner}[role], heir_init


class Trial:
    """Forks that are tried, one after the other, of one session after the other."""

    def __init__(self, tracer, role, code=""):
        self.tracer, self.role, self.code = tracer, role, code
        self.family = None

    def open(self):
        self.family = Family(forks=HEIRS)
        self.family.run(f"__import__('ctypes').CDLL(None).prctl(15, b'{FIRST}')")
        self.family.run("import os\nx = [1]; open('file', 'w').write('kept'); kept = open('file'); os.mkdir('d'); os.chdir('d')")
        if self.code:
            self.family.run(self.code)
        self.targets = Targets(self.family)

    def close(self):
        if self.family:
            self.family.close()
        self.family = None

    def fork(self, index=-1):
        """-> the calls, what the fork says of itself (None: it was refused), and what is wrong"""
        if not self.family or not self.targets.heir_inits:
            self.close()
            self.open()
        pid, heir_init = self.targets.next(self.role)
        with self.tracer.watch_tree(pid, index):
            answer = self.family.ask("fork")
        calls, said, wrong = self.tracer.calls(), None, []
        if "session" in answer:
            child = Fork(self.family, answer["session"])
            said = child.run(self.probe()), json.loads(child.run(LOOK))
            if self.role == "interpreter":  # what earlier tries have left open there comes along
                said[1].pop("open")
            child.close_session()
        elif not answer["error"]["message"]:
            wrong.append("the refusal says nothing")
        wait_for(lambda: not is_init(heir_init), "the end of the fork's sandbox")
        if (seen := self.family.run(self.probe())) != self.expected():
            wrong.append(f"the session is not as it was: {seen}")
        return calls, said, answer.get("error", {}).get("message"), wrong

    @staticmethod
    def probe():
        return "print(x, os.getcwd(), open('/workspace/file').read(), kept.fileno() > 2)"

    @staticmethod
    def expected():
        return "[1] /workspace/d kept True"


# Calls whose failure is no matter of forks: a loop that ends, and with it a sandbox or all of them, as at any other time.
LOOPS = {("init", name) for name in ("recvmsg", "sendmsg", "poll", "waitid")} | {
    ("heir's init", name) for name in ("recvmsg", "sendmsg", "poll", "waitid")}
# Of the own process with good arguments; kill(-1) fails where nobody is. The alarm of the spawner's helper is setitimer().
CANNOT_FAIL = {"exit_group", "getpid", "gettid", "umask", "set_tid_address", "set_robust_list", "rt_sigprocmask", "kill", "setitimer"}
SAMPLE = 3  # of calls that look the same


def kind_of(call):
    """What stays the same from one time to the next."""
    names = re.findall(r'<[^>]*>|"[a-z0-9_/.]{4,}"', call.text)
    return call.name, re.sub(r"\d+", "N", " ".join(names))


def is_loop(role, call):
    # An init looks at its children when it has to, which may be after the fork was told; one that cannot list them kills all.
    is_look = role == "heir's init" and re.search(r"/proc/(self|\d+)/task", call.text)
    return (role, call.name) in LOOPS or "signalfd" in call.text or bool(is_look)


FORKED = 100_000  # from here on a process's first child has its numbers


def until_it_stands(calls, is_own):
    """From then on it only waits, as at any other time."""
    end = next((i for i, call in enumerate(calls) if is_own(call) and call.name == "sendto"), len(calls))
    return [call for i, call in enumerate(calls) if i <= end or not is_own(call)]


def choose(role, calls, is_long):
    """Of calls that look alike, some."""
    if role == "interpreter":
        calls = until_it_stands(calls, lambda call: True)
    if role == "heir":
        calls = until_it_stands(calls, lambda call: call.index >= FORKED)
    by_kind = {}
    for call in calls:
        if call.name not in CANNOT_FAIL and not is_loop(role, call):
            by_kind.setdefault(kind_of(call), []).append(call)
    return [call for same in by_kind.values() for call in (same if is_long else same[::max(len(same) // SAMPLE, 1)])]


def way_of(tracer, call, usual):
    """-> how to name this call: by its number, what its line says, and how often that comes before; and how often that is"""
    names = re.findall(r'<[^>\[]*|"[a-z0-9_/.]{4,}"', call.text)
    text = re.sub(r"\d.*", "", names[0]) if names else ""
    alike = [other for other in usual if other.name == call.name and text in other.text]
    number = next(number for number, name in tracer.names.items() if name == call.name)
    return f"{number}:{alike.index(call)}:{text}", lambda calls: sum(
        other.name == call.name and text in other.text for other in calls) > alike.index(call)


def fail_one(trial, call, usual):
    """Makes this call fail. Some are made only by the first fork of a session."""
    way, is_made = way_of(trial.tracer, call, usual)
    for _ in range(3):
        outcome = trial.fork(way)
        if is_made(outcome[0]):
            return outcome
        trial.close()
    raise AssertionError("it is not made again")


# The spawner looks until all stand still, so its calls are named: number of turns, and what their line in the log has.
THREADS = "cgroup.threads" if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() else "tasks"
LOOKS = [(name, turn, text) for name, text in [
    ("clone3", ""), ("prctl", ""), ("kcmp", ""), ("openat", "cgroup.freeze"), ("write", "cgroup.freeze"), ("close", "cgroup.freeze"),
    ("openat", "cgroup.events"), ("read", "cgroup.events"), ("openat", THREADS), ("read", THREADS), ("openat", "map_files"),
    ("openat", "maps"), ("read", "maps"), ("fstatfs", ""), ("fcntl", ""), ("openat", "/fd"), ("getdents64", ""), ("openat", "fdinfo"),
    ("waitid", ""), ("close", "pidfd")] for turn in (0, 1, 2)]
LOOKS_ONCE = {"clone3", "prctl", "waitid"}


def looks(tracer):
    numbers = {name: number for number, name in tracer.names.items()}
    return {look: f"{numbers[look[0]]}:{look[1]}:{look[2]}" for look in LOOKS if look[1] == 0 or look[0] not in LOOKS_ONCE}


def try_all(trial, ways, usual_said):
    """-> what is wrong, and how many forks were refused. `ways`: what fails, and how to make it fail."""
    complaints, refused = [], 0
    for what, make_it_fail in ways:
        try:
            _, seen, why, wrong = make_it_fail()
        except AssertionError as error:  # of the session, or of the fork, which did not do what it always does
            complaints.append(f"{what}: {error}")
            trial.close()
            continue
        if seen and "chdir" in str(what):  # it falls back to the root of the workspace
            seen = seen[0].replace("/workspace", "/workspace/d", 1), seen[1] | {"cwd": usual_said[1]["cwd"]}
        if seen and seen[1] != usual_said[1]:
            wrong.append("the fork is sealed otherwise")
        if seen and seen[0] != usual_said[0]:
            wrong.append(f"the fork is not whole: {seen[0]}")
        refused += seen is None
        complaints += [f"{what}: {one} ({why})" for one in wrong]
    trial.close()
    nothing_is_left()
    return complaints, refused


@pytest.mark.parametrize("role", ["heir", "heir's init", "init", "interpreter"])
def test_each_call_of_a_fork_may_fail(tracer, role, is_long):
    trial = Trial(tracer, role)
    usual, said, why, wrong = trial.fork()
    assert said and said[0] == trial.expected() and not wrong, (why, wrong)
    chosen = choose(role, usual, is_long)
    complaints, refused = try_all(trial, [(call, lambda call=call: fail_one(trial, call, usual)) for call in chosen], said)
    assert not complaints, "\n".join(complaints)
    assert refused > len(chosen) // 8, "calls do fail"


def test_each_call_of_the_spawners_look_may_fail(tracer):
    trial = Trial(tracer, "spawner")
    _, said, why, wrong = trial.fork()
    assert said and not wrong, (why, wrong)
    complaints, refused = try_all(trial, [(look, lambda way=way: trial.fork(way)) for look, way in looks(tracer).items()], said)
    assert not complaints, "\n".join(complaints)
    assert refused >= 4, "without a helper, what it compares with, or groups that stand still, nobody can tell"


def test_no_call_of_the_look_that_fails_makes_a_fork_of_what_is_none(tracer):
    """Heirs that code has taken over share the session's memory. They are refused whichever call fails."""
    trial = Trial(tracer, "spawner", take_over())
    _, said, why, _ = trial.fork()
    assert said is None and why == "the fork has no memory of its own"
    granted = [str(look) for look, way in looks(tracer).items() if trial.fork(way)[1]]
    trial.close()
    nothing_is_left()
    assert not granted, "\n".join(granted)
