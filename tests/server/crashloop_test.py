# SPDX-License-Identifier: Apache-2.0
"""coved, its spawner, or both are killed at random instants under a mixed load; after each death every promise is checked.

The same dice are thrown for the same COVE_TEST_SEED; what the machine makes of them differs."""
import collections
import itertools
import os
import random
import threading
import time

import pytest

import covetest
from covetest import IS_ASAN, SLOWNESS, wait_for
from crashers import BROKEN, EXECUTIONS, SESSIONS, Home, Listener, ended, pages, read, side_by_side

pytestmark = pytest.mark.skipif(not covetest.IS_ROOT, reason="uids and cgroups of their own need root")

ROUNDS, LONG_ROUNDS, WORKERS = (8 if IS_ASAN else 20), 200, 4
VICTIMS = {("coved",): 6, ("spawner",): 1, ("coved", "spawner"): 1, ("spawner", "coved"): 1}
LOAD_S = 0.6 * SLOWNESS  # the latest instant of a death
SMALL = {"resources": {"memory_bytes": 64 << 20, "pids": 16}}
UNSET = "unset"
LAST_WORDS = ("cove-spawner went away", "the sandbox is gone")
SAMPLE = 40
LINES = 10
WORK = """
import time
for i in range({lines}):
    print("{word}", i, flush=True)
    time.sleep({pause})
x = "{word}"
"""


def without_files(doc):
    """Those of a stateless run are told once, and not kept."""
    return {key: value for key, value in doc.items() if key != "files"}


class Session:
    """What a client knows of a session of its own."""

    def __init__(self, doc):
        self.id, self.doc = doc["id"], doc
        self.may_have_failed = False  # a death cut off what kills its interpreter: a reset, or a cancel
        self.values = {UNSET}  # what x may be
        self.loose = set()  # what it may yet become, by code that may run, or wait
        self.may_be_over, self.over = False, None  # somebody tried to end it; the document with which it ended


def is_orphan(session, doc):
    """It was accepted while its session was on its way back, which then had no interpreter any more."""
    return session.may_have_failed and doc["state"] == "cancelled" and \
        doc["reason"]["message"] == "the interpreter of the session is gone"


class Execution:
    def __init__(self, doc, session, output, may_fail=False):
        self.id, self.session, self.output = doc["id"], session, output
        self.may_fail = may_fail  # it was cancelled, or its session reset or ended
        self.end = None  # the document that was told at its end
        self.heard = []  # the documents that came with events
        self.is_checked = False


class Worker:
    """A client with sessions of its own, who remembers what he was told."""

    def __init__(self, home, number, seed):
        self.home, self.number, self.dice = home, number, random.Random(f"{seed} {number}")
        self.sessions, self.executions, self.tries = {}, {}, {}
        self.words = itertools.count()
        self.count, self.failure = collections.Counter(), None

    @property
    def server(self):
        return self.home.server

    def word(self):
        return f"w{self.number}n{next(self.words)}"

    # --- the load ---------------------------------------------------------------------------------

    def run(self, stop):
        acts = [self.create, self.sync, self.sync, self.background, self.background, self.stream, self.line, self.cancel,
                self.delete, self.reset, self.list, self.stateless]
        try:
            while not stop.is_set():
                act = self.dice.choice(acts)
                try:
                    act()
                    self.count[act.__name__] += 1
                except BROKEN:
                    self.count["broken"] += 1
                    if not stop.wait(0.01):
                        continue
        except BaseException as error:  # pylint: disable=broad-except
            self.failure = error

    def is_lost(self, session):
        """With the spawner that had made it."""
        return session.doc["created_at"] <= self.home.spawner_died_at

    def usable(self):
        return [s for s in self.sessions.values() if not s.may_be_over and not self.is_lost(s)]

    def pick(self):
        if not self.usable():
            self.create()
        usable = self.usable()
        if not usable:
            raise ConnectionError("the spawner died behind the answer, and the new session with it")
        return self.dice.choice(usable)

    def create(self):
        if len(self.usable()) >= 3:
            return
        word = self.word()
        wish = {"metadata": {"worker": str(self.number), "word": word}, **SMALL}
        self.tries[word] = wish
        answer = self.post(SESSIONS, wish, headers={"Idempotency-Key": word})
        assert answer.status == 201, answer
        self.sessions[answer.json["id"]] = Session(answer.json)
        del self.tries[word]

    def post(self, path, wish=None, **more):
        """The last words of a server whose spawner has just died are that it could not be done: as good as none. A sandbox
        that went alone is found by the check, which knows of no reason for it."""
        return self.unless_gone(self.server.post(path, wish, **more))

    @staticmethod
    def unless_gone(answer):
        if answer.status == 503 and answer.json["error"]["message"] in LAST_WORDS:
            raise ConnectionError(answer)
        return answer

    def ask(self, session, code, statuses, **wish):
        """Nothing but what was asked for, or that something else runs."""
        answer = self.post(f"{SESSIONS}/{session.id}/execute", {"code": code} | wish)
        if answer.status == 409 and answer.code in ("session_busy", "session_failed"):
            return None
        if answer.status == 404 and self.is_lost(session):
            return None
        assert answer.status in statuses, (session.id, answer)
        return None if is_orphan(session, answer.json) else answer.json

    def told(self, session, doc):
        """A result of what was to be the end of all that ran in the session before."""
        assert doc["state"] == "completed", doc
        seen = doc["stdout"].split()[0]
        assert seen in session.values, f"x is {seen}, not one of {session.values}"

    def loosen(self, session, word):
        """Code that sets x to this word is on its way."""
        session.values.add(word)
        session.loose.add(word)

    def tighten(self, session, word):
        """It did not begin, or has ended."""
        session.values.discard(word)
        session.loose.discard(word)

    def sync(self):
        session, word = self.pick(), self.word()
        self.loosen(session, word)
        doc = self.ask(session, f"print(globals().get('x', '{UNSET}')); x = '{word}'", [200], mode="sync")
        self.tighten(session, word)
        if not doc:
            return
        self.told(session, doc)
        session.values = {word} | session.loose
        self.keep(Execution(doc, session, doc["stdout"]), doc)

    def keep(self, execution, end=None):
        execution.end = end
        self.executions[execution.id] = execution

    def start(self, **wish):
        session, word = self.pick(), self.word()
        pause = self.dice.choice([0, 0.005, 0.03])
        self.loosen(session, word)
        doc = self.ask(session, WORK.format(lines=LINES, pause=pause, word=word), [202], mode="async", **wish)
        if not doc:
            self.tighten(session, word)
            return None
        execution = Execution(doc, session, "".join(f"{word} {i}\n" for i in range(LINES)))
        self.keep(execution)
        return execution

    def background(self):
        self.start()

    def line(self):
        for _ in range(2):
            self.start(queue=True)

    def stream(self):
        session, word = self.pick(), self.word()
        self.loosen(session, word)
        wish = {"code": WORK.format(lines=LINES, pause=0.02, word=word), "mode": "stream"}
        listener = Listener(self.home, start=(f"{SESSIONS}/{session.id}/execute", wish))
        try:
            listener.once()
        except BROKEN:
            self.count["broken"] += 1
        except AssertionError as error:
            if any(word in str(error) for word in ("session_busy", "session_failed", *LAST_WORDS, *["not_found"] * self.is_lost(session))):
                self.tighten(session, word)
                return
            raise
        if not listener.execution:  # it was cut off before the first event
            return
        execution = Execution({"id": listener.execution}, session, "".join(f"{word} {i}\n" for i in range(LINES)))
        self.keep(execution)
        doc = listener.run() if not listener.ends else listener.ends[0]
        execution.heard.append(doc)
        if doc["state"] == "completed":
            assert listener.output == execution.output, listener.output

    def cancel(self):
        execution = self.start()
        if execution:
            execution.may_fail = execution.session.may_have_failed = True
            answer = self.post(f"{EXECUTIONS}/{execution.id}/cancel")
            assert answer.status == 200, answer

    def delete(self):
        if self.dice.random() < 0.5:
            return
        session = self.pick()
        session.may_be_over = True
        self.spoil(session)
        answer = self.unless_gone(self.server.delete(f"{SESSIONS}/{session.id}"))
        assert answer.status == 200 and answer.json["state"] == "terminated", answer
        session.over = answer.json

    def spoil(self, session):
        for execution in self.executions.values():
            if execution.session is session and not execution.end:
                execution.may_fail = True

    def reset(self):
        session = self.pick()
        self.spoil(session)
        session.may_have_failed = True
        session.values |= {UNSET}
        answer = self.post(f"{SESSIONS}/{session.id}/reset")
        assert answer.status == 200 or answer.status == 404 and self.is_lost(session), answer
        session.values = {UNSET} | session.loose  # what waits is not ended by it

    def list(self):
        known = self.usable()
        path = f"{SESSIONS}?live=true&metadata=worker={self.number}"
        found = {doc["id"] for doc in pages(self.server, path, "sessions")}
        assert [s.id for s in known if s.id not in found and not self.is_lost(s)] == []
        pages(self.server, EXECUTIONS, "executions")

    def stateless(self):
        word = self.word()
        answer = self.post("/execute", {"code": f"print('{word}')"})
        assert answer.status == 200 and answer.json["stdout"] == f"{word}\n", answer
        self.keep(Execution(answer.json, None, f"{word}\n"), without_files(answer.json))

    # --- the check --------------------------------------------------------------------------------

    def check(self, is_last):
        self.check_tries()
        for execution in self.sample([e for e in self.executions.values() if e.is_checked], is_last):
            assert read(self.server, execution.id) == execution.end
        for execution in [e for e in self.executions.values() if not e.is_checked]:
            self.check_execution(execution)
        for session in self.sample([s for s in self.sessions.values() if s.over], is_last):
            assert self.server.get(f"{SESSIONS}/{session.id}").json == session.over
        for session in [s for s in self.sessions.values() if not s.over]:
            if session.may_be_over:
                self.check_over(session)
            elif self.is_lost(session):
                self.check_lost(session)
            else:
                self.check_live(session)

    def sample(self, found, is_last):
        """What is over for long is looked at again, at the end all of it."""
        return found if is_last or len(found) <= SAMPLE else self.dice.sample(found, SAMPLE)

    def check_tries(self):
        """However far they had come: one key, one session."""
        for word, wish in list(self.tries.items()):
            answer = self.server.post(SESSIONS, wish, headers={"Idempotency-Key": word})
            assert answer.status == 201, answer
            path = f"{SESSIONS}?metadata=word={word}"
            assert [doc["id"] for doc in pages(self.server, path, "sessions")] == [answer.json["id"]]
            session = Session(answer.json)
            session.may_be_over = True  # it may have been lost before it was asked for again
            self.sessions[session.id] = session
            del self.tries[word]

    def check_execution(self, execution):
        doc = ended(self.server, execution.id)
        if execution.end:
            assert doc == execution.end, f"it has two endings:\n{doc}\n{execution.end}"
        for heard in execution.heard:
            assert doc == heard, f"it has two endings:\n{doc}\n{heard}"
        if not execution.end and not execution.may_fail:
            is_hit = doc["created_at"] <= self.home.spawner_died_at
            assert is_orphan(execution.session, doc) or doc["state"] in ("completed", *["lost"] * is_hit), (execution.session.id, doc["reason"], doc)
        if doc["state"] == "completed":
            assert doc["stdout"] == execution.output, doc
        execution.end, execution.is_checked = doc, True

    def check_live(self, session):
        """It answers, and knows what it knew."""
        session.may_have_failed = False
        answer = self.server.get(f"{SESSIONS}/{session.id}")
        assert answer.status == 200 and answer.json["state"] in ("ready", "busy", "failed"), answer
        if answer.json["state"] == "failed":  # a cancel that had to kill
            assert self.server.post(f"{SESSIONS}/{session.id}/reset").status == 200
            session.values, session.loose = {UNSET}, set()
            return
        doc = self.ask(session, f"print(globals().get('x', '{UNSET}'))", [200], mode="sync", queue=True)
        assert doc, session.id
        self.told(session, doc)
        session.values, session.loose = {doc["stdout"].strip()}, set()
        self.keep(Execution(doc, session, doc["stdout"]), doc)

    def check_lost(self, session):
        """It has ended, or does as soon as that is written, and says why."""
        def look():
            answer = self.server.get(f"{SESSIONS}/{session.id}")
            assert answer.status == 200 and answer.json["state"] in ("terminating", "terminated"), answer
            return answer if answer.json["state"] == "terminated" else None
        answer = wait_for(look, "its end")
        assert answer.json["problem"] and answer.json["ended_at"], answer
        session.over, session.may_be_over = answer.json, True

    def check_over(self, session):
        answer = self.server.delete(f"{SESSIONS}/{session.id}")
        assert answer.status == 200 and answer.json["state"] == "terminated", answer
        session.over = answer.json


def play(home, workers, dice):
    """One death at some instant of the load; answers who died."""
    stop = threading.Event()
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    victims = dice.choices(list(VICTIMS), list(VICTIMS.values()))[0]
    delay = dice.uniform(0, LOAD_S)
    for thread in threads:
        thread.start()
    try:
        time.sleep(delay)  # the instant is what is tried here
        home.kill(*victims)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for worker in workers:
        if worker.failure:
            raise worker.failure
    return victims


def orphans(home, workers):
    """Live sessions that were made for somebody who never heard of them are told apart by their metadata."""
    known = {session.id for worker in workers for session in worker.sessions.values()}
    return [doc for doc in pages(home.server, f"{SESSIONS}?live=true", "sessions") if doc["id"] not in known]


def test_every_promise_is_kept_over_every_death(is_long):
    seed = os.environ.get("COVE_TEST_SEED") or str(random.SystemRandom().randrange(1 << 32))
    dice = random.Random(seed)
    rounds = int(os.environ.get("COVE_TEST_ROUNDS") or (LONG_ROUNDS if is_long else ROUNDS))
    count = collections.Counter()
    with covetest.orphans_come_to_us():
        home = Home()
        try:
            workers = [Worker(home, number, seed) for number in range(WORKERS)]
            for number in range(rounds):
                victims = ()
                try:
                    victims = play(home, workers, dice)
                    side_by_side(lambda worker: worker.check(number == rounds - 1), workers)
                    assert orphans(home, workers) == []
                except BaseException:
                    print(f"COVE_TEST_SEED={seed}, round {number}, killed: {victims}\n{home.server.say()}")
                    raise
                count[victims] += 1
            acts = sum((worker.count for worker in workers), collections.Counter())
            print(f"seed {seed}: {dict(count)}\n{dict(acts)}")
            home.end()
        finally:
            home.release()
