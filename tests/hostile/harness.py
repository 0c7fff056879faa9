"""Starts one `cove run`, watches it from outside, and keeps what it said."""
from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import pwd
import resource
import secrets
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import host
from covetest import CGROUP_PARENT

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SLACK_SECONDS = 20.0
FILE_SIZE_MAX = 1 << 30
LANGUAGES = {".py": "python", ".sh": "bash", ".js": "javascript", ".c": "bash"}


@dataclass(frozen=True)
class Mode:
    """As whom `cove` is started."""

    name: str
    user: str | None = None  # None: as root

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.user).pw_uid if self.user else 0

    def prefix(self) -> list[str]:
        if not self.user:
            return []
        entry = pwd.getpwnam(self.user)
        return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]


class Doors:
    """Things of the host that a program is told of and must not reach: files with a secret, and
    listeners that note every contact. All are open to everyone, so that only the sandbox guards
    them."""

    def __init__(self, mode: Mode):
        self.mode = mode
        self.root = Path(tempfile.mkdtemp(prefix="cove-hostile-"))
        self.secret = secrets.token_hex(16)
        self.env_secret = secrets.token_hex(16)
        self.hits: list[str] = []
        self.root.chmod(0o755)
        self.canary = self._canary("canary", "secret.txt")
        self.other = self._canary("session-other/workspace", "notes.txt")
        self.cwd = self._directory("cwd")
        self.tmp = self._directory("tmp")
        self.out = self._directory("out")
        self.build = self._directory("build")
        self.socket_path = str(self.root / "canary" / "door.sock")
        self.abstract = f"cove-hostile-{os.getpid()}-{secrets.token_hex(4)}"
        self._sockets = [self._listen(socket.AF_UNIX, self.socket_path, "unix socket"),
                         self._listen(socket.AF_UNIX, "\0" + self.abstract, "abstract socket")]
        os.chmod(self.socket_path, 0o777)
        tcp = self._listen(socket.AF_INET, ("0.0.0.0", 0), "tcp port")
        self.port = tcp.getsockname()[1]
        self._sockets += [tcp, self._listen(socket.AF_INET6, ("::", self.port), "tcp6 port")]
        self.address = self._own_address()
        self.canaries = [self.canary, self.canary.parent, self.other, self.other.parent]

    def _directory(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True)
        path.chmod(0o777)
        if self.mode.user:
            os.chown(path, self.mode.uid, -1)
        return path

    def _canary(self, directory: str, name: str) -> Path:
        path = self._directory(directory) / name
        path.write_text(f"{self.secret}\n")
        path.chmod(0o666)
        if self.mode.user:
            os.chown(path, self.mode.uid, -1)
        return path

    def _listen(self, family: int, address, what: str) -> socket.socket:
        door = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        door.bind(address)
        door.listen(16)
        threading.Thread(target=self._accept, args=(door, what), daemon=True).start()
        return door

    def _accept(self, door: socket.socket, what: str) -> None:
        while True:
            try:
                contact, _ = door.accept()
            except OSError:
                return
            self.hits.append(what)
            contact.close()

    @staticmethod
    def _own_address() -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                return probe.getsockname()[0]
            except OSError:
                return "127.0.0.1"

    def take_hits(self) -> list[str]:
        taken, self.hits[:] = list(self.hits), []
        return taken

    def environment(self) -> dict[str, str]:
        """What a program is told, by --env."""
        return {
            "COVE_HOSTILE": "1",
            "HOSTILE_CANARY": str(self.canary),
            "HOSTILE_CANARY_NAME": str(self.canary),
            "HOSTILE_OTHER": str(self.other),
            "HOSTILE_SOCKET": self.socket_path,
            "HOSTILE_ABSTRACT": self.abstract,
            "HOSTILE_PORT": str(self.port),
            "HOSTILE_ADDRESS": self.address,
        }

    def close(self) -> None:
        for door in self._sockets:
            door.close()
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.root)], check=False)


@dataclass
class Run:
    """One finished `cove run`."""

    argv: list[str]
    exit_code: int
    wall: float
    stdout: bytes
    stderr: bytes
    hung: bool
    peaks_kb: dict[str, int]
    out: Path
    sockets_mb: float = 0  # by how much the machine's TCP and UDP buffers grew meanwhile, everybody's
    tables_mb: float = 0  # the page tables of what ran inside
    typed: bytes = b""  # what arrived at the terminal the run was given
    document: dict | None = None
    problem: str = ""

    def __post_init__(self):
        try:
            self.document = json.loads(self.stdout)
        except ValueError as error:
            self.problem = f"{error}; {self.stdout[:300]!r}; stderr {self.stderr[-600:]!r}"
        if self.document is not None and not isinstance(self.document, dict):
            self.document, self.problem = None, "not an object"

    @property
    def text(self) -> str:
        return (self.document or {}).get("stdout") or ""

    @property
    def error_text(self) -> str:
        return (self.document or {}).get("stderr") or ""

    @property
    def kind(self) -> str | None:
        return ((self.document or {}).get("reason") or {}).get("kind")

    def lines(self) -> dict[str, str]:
        """The probe's lines as {name: result}; of one name, a success wins over a refusal."""
        found: dict[str, str] = {}
        for line in self.text.splitlines():
            name, _, result = line.partition(" ")
            if found.get(name) != "ok":
                found[name] = result
        return found

    def places(self) -> dict[str, bytes]:
        """Everything that left the sandbox, by where it is."""
        found = {"stdout": self.stdout, "stderr": self.stderr}
        for path, _, names in os.walk(self.out):
            for name in names:
                full = Path(path) / name
                found[f"name {name!r}"] = os.fsencode(name)
                if full.is_symlink():
                    found[f"link {name!r}"] = os.fsencode(os.readlink(full))
                elif full.is_file() and full.stat().st_size < 64 << 20:
                    found[f"file {name!r}"] = full.read_bytes()
        return found

    def describe(self) -> str:
        document = dict(self.document or {})
        for key in ("stdout", "stderr"):
            if isinstance(document.get(key), str):
                document[key] = document[key][-1500:]
        return (f"$ {' '.join(self.argv)}\nstatus {self.exit_code} after {self.wall:.2f} s, "
                f"host side {self.peaks_kb} kB\n{json.dumps(document, indent=1)[:6000]}\n"
                f"cove's stderr: {self.stderr[-1500:].decode(errors='replace')}")


def compile_program(source: Path, into: Path) -> Path:
    """Builds a probe as a static program; answers the path, made once per content."""
    text = source.read_bytes() + (PROGRAMS / "guard.h").read_bytes()
    target = into / f"{source.stem}-{hashlib.sha256(text).hexdigest()[:12]}"
    if not target.exists():
        part = into / f"{target.name}.part{os.getpid()}"
        subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-static",
                        "-pthread", "-o", str(part), str(source)], check=True)
        part.chmod(0o755)
        part.rename(target)
    return target


@dataclass
class Cove:
    """The program under test, and as whom it runs."""

    program: Path
    mode: Mode
    doors: Doors
    cache: Path
    children: set[int] = field(default_factory=set)

    def environment(self) -> dict[str, str]:
        entry = pwd.getpwuid(self.mode.uid)
        kept = {key: value for key, value in os.environ.items()
                if key.startswith(("COVE_", "ASAN_", "UBSAN_", "LSAN_"))}
        # A report goes to a file, which the run then has left behind: none can go unseen.
        for tool in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            kept.setdefault(tool, f"log_path={self.doors.tmp}/sanitizer:print_stacktrace=1")
        return kept | {
            "COVE_CGROUP_PARENT": CGROUP_PARENT,
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": entry.pw_dir,
            "USER": entry.pw_name,
            "TMPDIR": str(self.doors.tmp),
            "HOSTILE_ENV_SECRET": self.doors.env_secret,
            "AWS_SECRET_ACCESS_KEY": self.doors.env_secret,
            "LD_PRELOAD_CANARY": self.doors.env_secret,
        }

    def command(self, program: str, args=(), options=(), files=(), env=None) -> list[str]:
        """The command line that runs tests/hostile/programs/PROGRAM with its guard."""
        source = PROGRAMS / program
        argv = [*self.mode.prefix(), str(self.program), "run", "--json"]
        argv += ["-l", LANGUAGES[source.suffix], *options]
        for key, value in (self.doors.environment() | (env or {})).items():
            argv += ["--env", f"{key}={value}"]
        for path in files:
            argv += ["--file", str(path)]
        if source.suffix == ".c":
            binary = compile_program(source, self.cache)
            argv += ["--file", f"{binary}:probe",
                     "-c", 'chmod +x probe && exec ./probe "$@"', "--"]
        else:
            guard = PROGRAMS / f"guard{source.suffix}"
            argv += ["--file", str(guard)] if guard.exists() else []
            argv += [str(source)]
        return [*argv, *args]

    def start(self, argv: list[str], stdin="null") -> "Running":
        return Running(self, argv, stdin)

    def run(self, program: str, stdin="null", limit=60.0, **kwargs) -> Run:
        return self.start(self.command(program, **kwargs), stdin).finish(limit)


class Running:
    """A `cove run` that has been started."""

    def __init__(self, cove: Cove, argv: list[str], stdin: str):
        self.cove, self.argv, self.stdin = cove, argv, stdin
        self.peaks: dict[str, int] = {}
        self.sockets_mb, self._sockets_before = 0.0, host.socket_mb()
        self.tables_mb = 0.0
        self.master = self.slave = -1
        self.input = None
        self._out = tempfile.TemporaryFile(dir=cove.cache)
        self._err = tempfile.TemporaryFile(dir=cove.cache)
        # Descriptors a careless parent forgot to close: a file to write, a way out of any root.
        leaks = [os.open(cove.doors.canary, os.O_RDWR), os.open("/", os.O_RDONLY)]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv, stdin=self._open_stdin(), stdout=self._out, stderr=self._err, pass_fds=leaks,
            env=cove.environment(), cwd=cove.doors.cwd, start_new_session=True,
            preexec_fn=self._prepare)
        for fd in leaks:
            os.close(fd)
        cove.children.add(self.process.pid)
        if stdin == "open":
            self.input = self.process.stdin
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def _open_stdin(self):
        if self.stdin == "open":
            return subprocess.PIPE
        if self.stdin == "tty":
            self.master, self.slave = pty.openpty()
            return self.slave
        return subprocess.DEVNULL

    def _prepare(self) -> None:
        """In the child: a `cove` that copies out too much dies of it, not the host's disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_MAX, FILE_SIZE_MAX))
        if self.stdin == "tty":
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _sample(self) -> None:
        """Keeps the largest resident size of each program that runs outside the sandbox, and what the kernel counts of it."""
        while not self._stop.wait(0.05):
            self.sockets_mb = max(self.sockets_mb, host.socket_mb() - self._sockets_before)
            outside, inside = host.outside_of(self.process.pid)
            self.tables_mb = max(self.tables_mb, sum(host.page_tables_mb(process.pid) for process in inside))
            for process in outside:
                if process.name.startswith("cove"):
                    peak = max(self.peaks.get(process.name, 0), process.peak_kb)
                    self.peaks[process.name] = peak

    def is_inside(self) -> bool:
        """Whether something of this run lives in a pid namespace of its own."""
        return bool(host.outside_of(self.process.pid)[1])

    def wait_inside(self, limit=20.0) -> None:
        end = time.monotonic() + limit
        while not self.is_inside() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def finish(self, limit: float) -> Run:
        hung = False
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            hung = True
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        wall = time.monotonic() - self.started
        self._stop.set()
        self._sampler.join()
        self.cove.children.discard(self.process.pid)
        if self.input:
            self.input.close()
        self._out.seek(0)
        self._err.seek(0)
        code = self.process.returncode
        return Run(self.argv, code if code >= 0 else 128 - code, wall, self._out.read(),
                   self._err.read(), hung, self.peaks, self.cove.doors.out, self.sockets_mb,
                   self.tables_mb, self._typed())

    def _typed(self) -> bytes:
        """What a reader of the terminal would get, had the run typed into it."""
        if self.slave < 0:
            return b""
        os.set_blocking(self.master, False)
        try:
            return os.read(self.master, 65536)  # the terminal echoes what is typed into it
        except OSError:
            return b""
        finally:
            os.close(self.slave)
            os.close(self.master)
