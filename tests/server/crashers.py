# SPDX-License-Identifier: Apache-2.0
"""What tests of crashes share: a server that keeps address, data and cgroups over its deaths, and what is left of it."""
import datetime
import http.client
import pathlib
import shutil
import tempfile
import threading

import covetest
from covetest import PATIENCE, wait_for
from server import Server, free_port

SESSIONS = "/api/v1/sessions"
EXECUTIONS = "/api/v1/executions"
ENDS = ("completed", "failed", "timeout", "cancelled", "lost")
# What a client sees of a server that dies under its request: nobody can say what became of that.
BROKEN = (OSError, http.client.HTTPException)
FILES = {"blobs", "file-secret", "internal-token", "node", "token"}  # and those of the database


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Home:
    """Where a server lives: the next one finds there what the one before has left."""

    def __init__(self, *args, cove=None, env=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-home-"))
        self.folder.chmod(0o755)
        self.data_dir, self.port = self.folder / "data", free_port()
        self.args, self.cove, self.env, self.server, self.group = args, cove, env or {}, None, None
        self.spawner_died_at = ""  # as documents say it
        self.start()

    def start(self):
        group = {"COVE_CGROUP_PARENT": self.group} if self.group else {}
        server = Server(*self.args, cove=self.cove, env=self.env | group, data_dir=self.data_dir,
                        listen=f"127.0.0.1:{self.port}", is_ready=False)
        self.group = server.group = self.group or server.group
        try:
            server.wait_ready()
        finally:
            self.server = server  # for others from now on, when it can be asked
        return server

    def kill(self, *names):
        """SIGKILL for 'coved', 'spawner' or both, in that order, and a server that answers again."""
        server = self.server
        pids = {"spawner": server.process.pid, "coved": server.find_coved() or 0}
        count = len(server.addresses())
        for name in names:
            if pids[name]:
                covetest.kill_quietly(pids[name])
        if "spawner" in names:
            self.spawner_died_at = now()
            self.bury(pids["coved"])
            self.spawner_died_at = now()  # its coved has accepted things until it noticed, which are lost with it
            self.start()
        else:
            wait_for(lambda: server.find_coved() not in (None, pids["coved"]), "another coved")
            server.wait_ready(count + 1)
        return self.server

    def bury(self, coved):
        """After the end of a spawner: nothing that it had lives on, whatever its cgroups are."""
        server = self.server
        server.process.wait(PATIENCE)
        wait_for(lambda: covetest.reap() or not coved or not covetest.is_alive(coved), "the end of coved")
        wait_for(lambda: covetest.reap() or not server_pids(self.group), "no process of a sandbox")
        shutil.rmtree(server.folder)

    def end(self):
        """Stops it and looks for what must not be left: processes, cgroups, mounts, files."""
        server = self.server
        coved = server.find_coved()
        assert server.stop() == 0, server.say()
        wait_for(lambda: covetest.reap(server.process.pid) or not (coved and covetest.is_alive(coved)), "the end of coved")
        server.nothing_is_left()
        mounts = covetest.read_text("/proc/self/mountinfo")
        assert self.group not in mounts and str(self.folder) not in mounts
        names = {path.name for path in (self.data_dir / "server").iterdir()}
        assert {name for name in names if not name.startswith("cove.db")} == FILES
        assert list((self.data_dir / "server/blobs/tmp").glob("*")) == [], "what was cut off is removed"
        assert {path.name for path in self.data_dir.iterdir()} <= {"server", "images", "layers"}
        assert list(self.data_dir.glob("layers/*")) == [], "nobody asked for packages"
        self.release()

    def release(self):
        if self.server.folder.exists():
            self.server.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def server_pids(group):
    return [pid for pid in covetest.pids() if covetest.is_in_group(pid, group)]


# --- asking -----------------------------------------------------------------------------------------


def create(server, **wish):
    answer = server.post(SESSIONS, wish)
    assert answer.status == 201, answer
    return answer.json


def execute(server, session, code, mode="sync", **wish):
    answer = server.post(f"{SESSIONS}/{session}/execute", {"code": code, "mode": mode} | wish)
    assert answer.status == (200 if mode == "sync" else 202), answer
    return answer.json


def value(server, session, code):
    """What an expression prints."""
    return execute(server, session, f"print({code})", queue=True)["stdout"].strip()


def read(server, execution):
    answer = server.get(f"{EXECUTIONS}/{execution}")
    assert answer.status == 200, answer
    return answer.json


def ended(server, execution):
    """The document, when it has ended."""
    return wait_for(lambda: (doc := read(server, execution))["state"] in ENDS and doc, f"the end of {execution}")


def settled(server, execution):
    """What it ended with, once all that it made is at rest: before that it is not said where to fetch it."""
    ended(server, execution)

    def look():
        doc = read(server, execution)
        return doc if all(artifact["download_url"] for artifact in doc["artifacts"]) else None
    return wait_for(look, "what it made is at rest")


def pages(server, path, name):
    """All of a list."""
    found, cursor = [], ""
    while True:
        answer = server.get(f"{path}{'&' if '?' in path else '?'}limit=100{cursor}")
        assert answer.status == 200, answer
        found += answer.json[name]
        if not answer.json["next_cursor"]:
            return found
        cursor = f"&cursor={answer.json['next_cursor']}"


def side_by_side(function, items):
    """Each item in a thread of its own; answers the results in order, or raises the first failure."""
    results = [None] * len(items)

    def run(index):
        try:
            results[index] = (function(items[index]), None)
        except BaseException as error:  # pylint: disable=broad-except
            results[index] = (None, error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error:
            raise error
    return [result for result, _ in results]


class Listener:
    """Reads the events of an execution and comes back with Last-Event-ID, over any number of deaths."""

    def __init__(self, home, execution=None, start=None):
        self.home, self.execution, self.start = home, execution, start
        self.last, self.output, self.ends, self.breaks, self.numbers = None, "", [], 0, []

    def path(self):
        return ("GET", f"{EXECUTIONS}/{self.execution}/events", None) if self.execution else ("POST", *self.start)

    def once(self):
        method, path, body = self.path()
        headers = {"Last-Event-ID": self.last} if self.last else {}
        for number, name, data in self.home.server.events(method, path, body, headers=headers):
            if name == "started":  # all of it, from its beginning
                self.output, self.numbers, self.execution = "", [], data["id"]
            assert number is None or number not in self.numbers, f"event {number} came twice"  # None: a heartbeat
            self.numbers.append(number)
            self.last = number or self.last
            if name == "stdout":
                self.output += data["text"]
            assert name != "missed", data
            if name == "ended":
                self.ends.append(data)
        return bool(self.ends)

    def run(self):
        """Until the end; answers the document that it came with."""
        def try_once():
            try:
                is_over = self.once()
            except BROKEN:
                is_over = False
            self.breaks += not is_over  # an end without the last event is a break, too
            return is_over
        wait_for(try_once, "the last event")
        assert len(self.ends) == 1
        return self.ends[0]
