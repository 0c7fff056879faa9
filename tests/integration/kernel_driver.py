# SPDX-License-Identifier: Apache-2.0
"""Plays the host of one kernel: makes the channel, sends requests, collects the frames that come back.

Nothing here knows a language. A test says how the interpreter is called and where the kernel's text
lies; see docs/PROTOCOL-kernel.md for what goes over the channel.

    with Kernel(["/usr/bin/python3", "/proc/self/fd/4"], program="images/python/kernel.py") as kernel:
        answer = kernel.execute("print(1); 6 * 7")
        assert answer.stdout == "1\n" and answer.value == "42"
"""
import array
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import time

SET, EXECUTE, VARIABLES, VARIABLE, COMPLETE, IS_WHOLE, ACK, SYNC, CHECKPOINT, FORK, IMPORT = range(1, 12)
READY, DATA, ERROR, REPLY, DONE, SYNCED = range(64, 70)
MORE, FIRST, MAIN, LAST, UNTOUCHED = 1, 2, 4, 8, 16
CHANNEL_FD, PROGRAM_FD = 3, 4
HEADER = struct.Struct("<IHHII")
FRAME_MAX = 65536
BODY_MAX = FRAME_MAX - HEADER.size
PATIENCE = 60  # seconds that a loaded machine may take for anything
INTERRUPT_AGAIN = 1  # seconds after which an interrupt was missed; a second one while the first is dealt with may end a shell


class Died(Exception):
    """The kernel closed its end of the channel."""


class Frame:
    """One body, with its pieces put together again."""

    def __init__(self, type, flags, generation, body):
        self.type, self.flags, self.generation, self.body = type, flags, generation, body

    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def __repr__(self):
        return f"Frame({self.type}, {self.flags}, {self.generation}, {self.body[:200]!r})"


class Answer:
    """What came of one request; `results` is a list of {MIME type: text or bytes}."""

    def __init__(self, frames, stdout=b"", stderr=b""):
        self.frames = frames
        self.stdout, self.stderr = stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")
        self.results, self.main, self.error, self.reply, self.code = [], None, None, None, None
        for frame in frames:
            self._add(frame)

    def _add(self, frame):
        if frame.type == DATA:
            self._add_data(frame)
        elif frame.type == ERROR:
            self.error = frame.json()
        elif frame.type == REPLY:
            self.reply = frame.json()
        elif frame.type == DONE:
            (self.code,) = struct.unpack("<i", frame.body)

    def _add_data(self, frame):
        mime, _, data = frame.body.partition(b"\0")
        mime = mime.decode("ascii")
        is_text = not mime.startswith("image/") or mime == "image/svg+xml"
        if frame.flags & FIRST:
            self.results.append({})
        self.results[-1][mime] = data.decode("utf-8") if is_text else data
        if frame.flags & MAIN:
            self.main = self.results[-1]

    @property
    def value(self):
        """The value of the last expression as text, or None."""
        return self.main and self.main.get("text/plain")


class Kernel:
    """A started kernel; use it in a with statement, which ends it."""

    def __init__(self, argv, program=None, env=None, cwd=None, limits=None):
        """`program` is the file that the kernel finds as descriptor 4, `limits` {RLIMIT_...: value}."""
        self.generation = 0
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        text = _memory_file(program) if program else -1
        self.pid = os.fork()
        if self.pid == 0:
            _become_kernel(argv, theirs.fileno(), text, env, cwd, limits or {})
        theirs.close()
        if text >= 0:
            os.close(text)
        self.status = None  # as of waitpid, once it is known
        self.ready = None   # what READY said, once it came
        self.rest = b""     # frames that came with others

    def __enter__(self):
        self.wait_ready()
        return self

    def __exit__(self, *exception):
        self.kill()

    # --- frames ----------------------------------------------------------------------------------

    def send(self, type, body=b"", generation=None, fds=()):
        """One frame, or as many as the body needs; descriptors go with the first."""
        generation = self.generation if generation is None else generation
        pieces = [body[at:at + BODY_MAX] for at in range(0, len(body), BODY_MAX)] or [b""]
        for number, piece in enumerate(pieces):
            flags = MORE if number < len(pieces) - 1 else 0
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            self.channel.sendmsg([HEADER.pack(len(piece), type, flags, generation, 0), piece], rights)
            fds = ()

    def request(self, type, body=b"", fds=()):
        """Begins a request of the next generation."""
        self.generation += 1
        self.send(type, body, fds=fds)

    def receive(self, seconds=PATIENCE):
        """The next frame, whole."""
        whole = None
        while True:
            frame = self._receive_piece(seconds)
            if whole is None:
                whole = frame
            else:
                assert (frame.type, frame.generation) == (whole.type, whole.generation)
                whole.body += frame.body
            if not frame.flags & MORE:
                return whole

    def _receive_piece(self, seconds):
        if not self.rest:
            self.channel.settimeout(seconds)
            try:
                self.rest = self.channel.recv(FRAME_MAX + 1)
            except ConnectionResetError:
                pass
            if not self.rest:
                raise Died(f"the kernel has gone: {self.wait()}")
            assert len(self.rest) <= FRAME_MAX
        length, type, flags, generation, reserved = HEADER.unpack_from(self.rest)
        end = HEADER.size + length
        assert len(self.rest) >= end and reserved == 0
        assert not flags & ~(UNTOUCHED if type == DONE else MORE | FIRST | MAIN | LAST)
        body, self.rest = self.rest[HEADER.size:end], self.rest[end:]
        return Frame(type, flags, generation, body)

    def receive_answer(self, seconds=PATIENCE):
        """All frames up to DONE; those of older generations are dropped."""
        end, frames = time.monotonic() + seconds, []
        while not frames or frames[-1].type != DONE:
            frame = self.receive(max(end - time.monotonic(), 0.001))
            assert frame.generation <= self.generation
            if frame.generation == self.generation:
                frames.append(frame)
        return frames

    # --- requests --------------------------------------------------------------------------------

    def wait_ready(self, seconds=PATIENCE):
        frame = self.receive(seconds)
        assert (frame.type, frame.flags, frame.generation) == (READY, 0, 0)
        self.ready = frame.json()

    def start(self, code, stdin=b"", env=None, args=(), **settings):
        """Begins an execution; answers an Execution. Without any `stdin` (None) it stays open and empty.
        `settings` are further SETs, by name."""
        self.generation += 1
        for name, value in settings.items():
            self.send(SET, f"{name}\0{value}".encode())
        for name, value in (env or {}).items():
            self.send(SET, f"env\0{name}={value}".encode())
        for value in args:
            self.send(SET, f"arg\0{value}".encode())
        return Execution(self, code if isinstance(code, bytes) else code.encode("utf-8", "surrogatepass"), stdin)

    def execute(self, code, stdin=b"", seconds=PATIENCE, **settings):
        """A whole execution; answers an Answer."""
        return self.start(code, stdin, **settings).finish(seconds)

    def ask(self, type, body=b"", seconds=PATIENCE):
        """Any request that has no streams; answers an Answer."""
        self.request(type, body)
        return Answer(self.receive_answer(seconds))

    def variables(self):
        """{name: its row}"""
        return {row["name"]: row for row in self.ask(VARIABLES).reply["variables"]}

    def variable(self, name, form="json"):
        return self.ask(VARIABLE, f"{name}\0{form}".encode())

    def complete(self, code, cursor=None):
        cursor = len(code) if cursor is None else cursor
        return self.ask(COMPLETE, f"{cursor}\0{code}".encode()).reply

    def is_whole(self, code):
        return self.ask(IS_WHOLE, code.encode()).reply

    def interrupt(self):
        os.killpg(self.pid, signal.SIGINT)

    # --- the end ---------------------------------------------------------------------------------

    def wait(self, seconds=PATIENCE):
        """Waits until the process has ended; its exit code, negative for a signal."""
        end = time.monotonic() + seconds
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < end, "the kernel does not end"
                time.sleep(0.002)  # between two looks
        return self.status

    def close(self):
        """End of file on the channel, which asks the kernel to exit."""
        self.channel.close()

    def kill(self):
        """Ends the kernel and what it started in its process group; may be called again."""
        self.close()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait()


class Execution:
    """An EXECUTE under way, with the three pipes of its code."""

    def __init__(self, kernel, code, stdin):
        self.kernel = kernel
        self.frames, self.output = [], {"stdout": b"", "stderr": b""}
        self.ended = set()  # of the pipes that are read
        self.unsent = memoryview(stdin or b"")
        theirs_in, self.stdin = os.pipe2(os.O_CLOEXEC)
        self.stdout, theirs_out = os.pipe2(os.O_CLOEXEC)
        self.stderr, theirs_err = os.pipe2(os.O_CLOEXEC)
        theirs = (theirs_in, theirs_out, theirs_err)
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self.keeps_stdin = stdin is None  # open and empty
        if not self.unsent and not self.keeps_stdin:
            self._close_stdin()
        kernel.send(EXECUTE, code, fds=theirs)
        for fd in theirs:
            os.close(fd)

    def _close_stdin(self):
        if self.stdin >= 0:
            os.close(self.stdin)
        self.stdin = -1

    @property
    def is_done(self):
        return bool(self.frames) and self.frames[-1].type == DONE

    def wait_for(self, condition, seconds=PATIENCE):
        """Serves the pipes and the channel until condition(self) is true."""
        end = time.monotonic() + seconds
        while not condition(self):
            left = end - time.monotonic()
            assert left > 0, f"waited in vain; so far {self.frames} {self.output}"
            self._serve(left)

    def wait_output(self, text, stream="stdout", seconds=PATIENCE):
        """Waits until the code has printed this."""
        self.wait_for(lambda self: text.encode() in self.output[stream], seconds)

    def finish(self, seconds=PATIENCE):
        """Waits for DONE; answers an Answer. What was printed before DONE is all there by then."""
        try:
            self.wait_for(lambda self: self.is_done, seconds)
            self._drain()
        finally:
            self._close_stdin()
            os.close(self.stdout)
            os.close(self.stderr)
        return Answer(self.frames, self.output["stdout"], self.output["stderr"])

    def finish_interrupted(self):
        """As a host ends it: an interrupt can be missed, and is sent again. One too many may meet the next code."""
        end, count = time.monotonic() + PATIENCE, 0
        while not self.is_done:
            assert time.monotonic() < end, f"waited in vain; so far {self.frames} {self.output}"
            self.kernel.interrupt()
            count, again = count + 1, time.monotonic() + INTERRUPT_AGAIN
            while not self.is_done and (
                    self.kernel.rest or select.select([self.kernel.channel], [], [], max(again - time.monotonic(), 0))[0]):
                self._serve(PATIENCE)
        answer = self.finish()
        assert count == 1 or self.kernel.execute("").code in (0, 130)
        return answer

    def _serve(self, seconds):
        poller = select.poll()
        for source in {self.kernel.channel.fileno(), self.stdout, self.stderr} - self.ended:
            poller.register(source, select.POLLIN)
        if self.unsent:
            poller.register(self.stdin, select.POLLOUT)
        events = dict(poller.poll(0 if self.kernel.rest else seconds * 1000))
        if self.kernel.rest:
            events[self.kernel.channel.fileno()] = select.POLLIN
        self._drain()
        if self.stdin in events:
            self._feed()
        if self.kernel.channel.fileno() in events:
            frame = self.kernel.receive(seconds)
            if frame.generation == self.kernel.generation:
                self.frames.append(frame)

    def _feed(self):
        try:
            self.unsent = self.unsent[os.write(self.stdin, self.unsent):]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = b""
        if not self.unsent:
            self._close_stdin()

    def _drain(self):
        for name, fd in (("stdout", self.stdout), ("stderr", self.stderr)):
            while fd not in self.ended:
                try:
                    data = os.read(fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    self.ended.add(fd)
                self.output[name] += data


def _memory_file(path):
    """A sealed memory file with the content of that one."""
    fd = os.memfd_create("kernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(path, "rb") as source, os.fdopen(os.dup(fd), "wb") as copy:
        copy.write(source.read())
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
    return fd


def _become_kernel(argv, channel, text, env, cwd, limits):
    """Runs in the child, and does not return."""
    try:
        os.setpgid(0, 0)
        if cwd:
            os.chdir(cwd)
        # First out of the way, since each may lie where the other has to go.
        channel, text = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) if fd >= 0 else -1 for fd in (channel, text))
        os.closerange(3, 10)
        os.dup2(channel, CHANNEL_FD)
        if text >= 0:
            os.dup2(text, PROGRAM_FD)
        os.closerange(5, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for limit, value in limits.items():
            resource.setrlimit(limit, (value, value))
        os.execve(argv[0], argv, {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"} | (env or {}))
    finally:
        os._exit(127)
