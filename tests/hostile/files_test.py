"""What a session leaves in its workspace goes through every door that the host has for files: REST, `cove cp`, artifacts.

Each case has a server of its own. Whatever was planted, each door answers soon and with no failure of the server's, what comes out holds
nothing of the host's, and when the server has ended the host is as it was."""
from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.parse
from pathlib import Path

import pytest

import harness
from file_cases import CASES, FileCase
from hostile_test import take_baseline
from invariants import assert_invariants, check_sanitizers, check_secrets

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "server"), str(HERE.parent / "integration")]

import covetest  # noqa: E402  (needs the path above)
import server as serving  # noqa: E402

ANSWER_SECONDS = 20  # of one door; a FIFO that is waited for takes for ever
HEALTH_SECONDS = 1
GROWTH_KB = 4096  # of coved, until its caches are full
TAKE_BYTES = 4 << 20  # of an answer: files of nothing have no end
ROUNDS, ROUNDS_LONG = 3, 200  # of a race
INODES, INODES_LONG = 16384, 65536  # of a session: a copy of so many files must be over in time on a busy machine, too
LISTED = 12  # names that are tried of each directory


class House:
    """A server, a session in it, and everything that came out of them."""

    def __init__(self, bench):
        self.bench, self.out = bench, bench.doors.out
        cove = covetest.Cove(bench.cove.program.parent, bench.cove.mode.user)
        self.server = serving.Server(cove=cove)
        self.came, self.slow, self.failures = {}, [], []
        env = bench.doors.environment() | {"HOSTILE_TOKEN": str(self.server.data_dir / "server/token")}
        answer = self.server.post("/api/v1/sessions", {"language": "python", "env": env, "resources": {
            "disk_bytes": 16 << 20, "inodes": INODES_LONG if bench.long else INODES}})
        assert answer.status == 201, answer
        self.session = answer.json["id"]
        self.path = f"/api/v1/sessions/{self.session}"

    def execute(self, code, mode="sync"):
        answer = self.server.post(self.path + "/execute", {"code": code, "mode": mode, "timeout": 60})
        self.keep("execution", answer.status, answer.body)
        return answer.json

    def keep(self, what, status, data):
        self.came[f"{what} #{len(self.came)}"] = data
        if status >= 500:
            self.failures.append(f"{what}: {status} {data[:300]!r}")

    def ask(self, method, path, body=None, headers=None):
        """The beginning of the answer, which must come soon."""
        started, connection = time.monotonic(), self.server.connect(ANSWER_SECONDS)
        what = f"{method} {path[:100]}"
        try:
            self.server.begin(connection, method, self.path + path, body, headers=headers)
            response = connection.getresponse()
            data = response.read(TAKE_BYTES)
            self.keep(what, response.status, data)
            self.came[f"headers of {what} #{len(self.came)}"] = str(response.headers).encode()
            return response.status, data
        except (OSError, serving.http.client.HTTPException) as error:  # cut off: what was there is no longer
            if isinstance(error, TimeoutError):
                self.slow.append(what)
            return 0, b""
        finally:
            connection.close()
            if time.monotonic() - started > ANSWER_SECONDS:
                self.slow.append(what)

    def cp(self, *words):
        """`cove cp`, as an operator types it; its output goes to his terminal."""
        cove = covetest.Cove(self.bench.cove.program.parent, self.bench.cove.mode.user)
        env = {"COVE_SERVER": self.server.url, "COVE_DATA_DIR": str(self.server.data_dir), "COVE_TOKEN": self.server.token}
        argv = ["prlimit", f"--fsize={256 << 20}", "timeout", str(3 * ANSWER_SECONDS), *cove.argv("cp", *words)]
        done = subprocess.run(argv, env=covetest.environment(cove.home, **env), stdin=subprocess.DEVNULL, capture_output=True, cwd=self.bench.doors.cwd)
        if done.returncode in (124, 137) or done.returncode < 0:
            self.slow.append(f"cp {words}: {done.returncode}")
        self.came[f"cp {words} #{len(self.came)}"] = done.stdout + done.stderr

    def close(self):
        self.server.delete(self.path)
        self.server.release()


# --- the doors ------------------------------------------------------------------------------------------


def quoted(path: str) -> str:
    return "/files/" + urllib.parse.quote(os.fsencode(path))


def names_of(house: House, directory: str = "") -> list[str]:
    query = f"?limit=1000&{urllib.parse.urlencode({'directory': directory})}" if directory else "?limit=1000"
    status, data = house.ask("GET", "/files" + query)
    return [one["path"] for one in json.loads(data)["files"]] if status == 200 and len(data) < TAKE_BYTES else []


def read(house: House, path: str) -> None:
    for query in ("", "?format=json", "?format=tar"):
        house.ask("GET", quoted(path) + query)
    house.ask("HEAD", quoted(path))
    house.ask("GET", quoted(path), headers={"Range": "bytes=-5"})
    house.ask("GET", "/files?" + urllib.parse.urlencode({"directory": path}))
    house.ask("POST", "/files/sign", {"path": path})


def write(house: House, path: str) -> None:
    for where in (path, f"{path}/below", f"{path}/secret.txt"):
        house.ask("PUT", quoted(where), b"written by the host")
        house.ask("POST", "/files/mkdir", {"path": where})
        house.ask("POST", "/files/move", {"from": "honest-of-ours", "to": where, "overwrite": True})
        house.ask("POST", "/files/move", {"from": where, "to": "taken", "overwrite": True})
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("secret.txt"))
    house.ask("PUT", "/files?" + urllib.parse.urlencode({"directory": path}), archive.getvalue())


def remove(house: House, path: str) -> None:
    house.ask("DELETE", quoted(f"{path}/secret.txt"))
    house.ask("DELETE", quoted(path) + "?recursive=true")


def copy(house: House, path: str) -> None:
    local = house.bench.doors.cwd / "local"
    local.write_text("written by cp")
    house.cp(f"{house.session}:{path}", str(house.out / f"one-{len(house.came)}"))
    house.cp(str(local), f"{house.session}:{path}")
    local.unlink()


def copy_all(house: House) -> None:
    """Twice to the same place: what the first has left there is in the way of the second."""
    for _ in range(2):
        house.cp(f"{house.session}:", str(house.out / "all"))


def try_doors(house: House, paths: list[str], copies: int) -> None:
    house.ask("PUT", "/files/honest-of-ours", b"ours")
    for number, path in enumerate(paths):
        read(house, path)
        write(house, path)
        if number < copies:
            copy(house, path)
        remove(house, path)


# --- what must hold -------------------------------------------------------------------------------------


def fds_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_of(pid: int) -> int:
    return int(covetest.status_of(pid)["VmRSS"].split()[0])


def check_answering(house: House) -> None:
    took = []
    while not took or (took[-1] >= HEALTH_SECONDS and len(took) < 3):  # the machine may be busy once, but not each time
        started = time.monotonic()
        assert house.server.get("/health").status == 200
        took.append(time.monotonic() - started)
    assert min(took) < HEALTH_SECONDS * covetest.SLOWNESS, took
    assert house.execute("print('alive')")["stdout"] == "alive\n", "the session itself is broken"


def check_copied(house: House) -> None:
    """Files, directories and links, none of them anybody else's; no link is followed to look."""
    for folder, folders, files in os.walk(house.out):
        for name in folders + files:
            mode = os.lstat(os.path.join(folder, name)).st_mode
            assert mode & 0o170000 in (0o100000, 0o040000, 0o120000) and not mode & 0o7000, f"{name!r} has mode {mode:o}"


def outside(house: House) -> dict[str, bytes]:
    """Everything that left; the paths that we told it are no secret, and neither is a link to them."""
    found = dict(house.came)
    for folder, _, files in os.walk(house.out):
        for name in files:
            full = Path(folder) / name
            if not full.is_symlink() and full.stat().st_size < 64 << 20:
                found[f"file {name!r}"] = full.read_bytes()
    return found


def check_all(house: House, log: bytes) -> None:
    doors = house.bench.doors
    found = check_secrets([doors.secret, doors.env_secret, house.server.token], outside(house)) + check_sanitizers(log)
    found += [f"took too long: {what}" for what in house.slow[:5]] + house.failures[:5]
    assert not found, "\n".join(found)


def attack(house: House, case: FileCase, rounds: int) -> None:
    guard = (harness.PROGRAMS / "guard.py").read_text()
    planted = house.execute(guard + case.code, "async" if case.races else "sync")
    if not case.races:
        assert planted["state"] == "completed" and "made" not in planted["stdout"], json.dumps(planted)[-3000:]
        copy_all(house)
        check_copied(house)
        paths = names_of(house)
        for directory in list(paths)[:LISTED]:
            paths += names_of(house, directory)[:LISTED]
        try_doors(house, paths[:LISTED], 3)
        return
    for _ in range(rounds):
        try_doors(house, list(case.races), 1)
        copy_all(house)
        check_copied(house)
    house.server.post(f"/api/v1/executions/{planted['id']}/cancel")
    covetest.wait_for(lambda: house.server.get(house.path).json["state"] == "ready", "its end")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_hostile_files(case: FileCase, bench):
    base = take_baseline(bench)
    house = House(bench)
    try:
        coved = house.server.coved
        attack(house, case, ROUNDS_LONG if bench.long else ROUNDS)
        check_answering(house)
        assert house.server.coved == coved, "the server died on the way"
    finally:
        log = house.server.log_path.read_bytes()
        house.close()
    check_all(house, log)
    for path in bench.doors.cwd.iterdir():
        path.unlink()
    assert_invariants(base, hits=bench.doors.take_hits())


# Leaves nothing of the last case, no process of it either.
CLEAN = """
import os, subprocess
try: os.kill(-1, 9)
except OSError: pass
subprocess.run("chmod -R u+rwx . ; rm -rf ./* ./.[!.]*", shell=True)
"""


def cost_of_all(house: House) -> tuple[int, int]:
    """Descriptors and memory of the server, when every case was there."""
    guard = (harness.PROGRAMS / "guard.py").read_text()
    for case in CASES:
        if not case.races:
            house.execute(guard + case.code)
            try_doors(house, names_of(house)[:LISTED], 0)
            house.execute(CLEAN)
    check_answering(house)
    return fds_of(house.server.coved), memory_of(house.server.coved)


def test_what_the_doors_cost_stays_flat(bench):
    """The second time costs what the first did."""
    if bench.cove.mode.user:
        pytest.skip("the same server as in root mode, tried there")
    house = House(bench)
    try:
        files, memory = cost_of_all(house)
        grown = cost_of_all(house)[1] - memory
        covetest.wait_for(lambda: fds_of(house.server.coved) <= files, "the descriptors to be closed")
        assert bench.is_asan or grown < GROWTH_KB, f"coved grew by {grown} kB"
    finally:
        house.close()
    assert not house.slow and not house.failures, house.slow + house.failures
