# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: runs code in a namespace that lives on, and tells what came of it.

docs/PROTOCOL-kernel.md is what it speaks. Code and kernel share one process, so nothing here is a
defence: what the code breaks is its own answer. But it must not break the next answer by accident, and
a kernel that cannot go on has to end rather than hang. Three rules follow:

- What touches objects of the code (their repr, their __del__, their streams) runs inside
  Interrupts.guard(), which lets no exception out and no interrupt in at its edges.
- Nothing is looked up late that the code may have replaced: references are taken on import, and what is
  imported later is not searched for among the code's own files.
- Importing this file has no effects, and needs built-in modules only. It may be imported before a fork;
  the child calls serve().

It is one file because it goes into a sandbox as one, in memory: inside there is nothing of ours to import.
Cut into six modules and handed in as a zip it starts with 34 ms of work in place of 15, most of it Python's
own zip importer. Pieces that are joined before they are handed in would cost nothing, but be no modules: each
would live on names of the others that it nowhere mentions.
"""
import builtins
import itertools
import os
import sys
import _ast
import _io
import _signal
import _socket
import _struct
import _thread
from os import _exit, chdir, close, dup2, environ, getcwd, getpid, scandir, stat
from sys import setprofile, settrace
from time import clock_gettime_ns, monotonic

BUILTINS = vars(builtins)
# The functions below find these and not the ones of the code, which it may replace or delete.
__builtins__ = dict(BUILTINS)

PROTOCOL = 1
CHANNEL_FD, PROGRAM_FD = 3, 4
SET, EXECUTE, VARIABLES, VARIABLE, COMPLETE, IS_WHOLE, ACK, SYNC, CHECKPOINT, FORK, IMPORT = range(1, 12)
READY, DATA, ERROR, REPLY, DONE, SYNCED = range(64, 70)
MORE, FIRST, MAIN, LAST, UNTOUCHED = 1, 2, 4, 8, 16

REHEARSE = b"rehearse\0"

HEADER = _struct.Struct("<IHHII")
STATUS = _struct.Struct("<i")
FRAME_MAX = 65536
BODY_MAX = FRAME_MAX - HEADER.size
RIGHTS_SPACE = _socket.CMSG_SPACE(3 * 4)

ANSWER_MAX = 16 << 20   # bytes of all frames of one request
ERROR_SHARE = 1 << 20   # of these, kept free for ERROR and DONE
RESULT_COST_MIN = 1024  # a form counts as at least this, so that tiny ones cannot be countless
PLAIN_MAX = 1 << 20
NOTE_SPACE = 100        # for what is said in place of something cut
JSON_MAX = 8 << 20
ERROR_TEXT_MAX = 60_000  # characters of a message and of a traceback, each
PREVIEW_MAX = 200
VARIABLES_MAX = 1000
VARIABLES_BYTES_MAX = 256 << 10
MATCHES_MAX = 200
REHEARSALS = 12
CELLS_MAX = 1000  # whose source is kept for tracebacks
GLANCE_MAX = 64   # files that are looked at after each execution

LOOK_SECONDS = 0.3   # for the preview of one variable
LOOKS_SECONDS = 1.5  # for those of all
VALUE_SECONDS = 10.0
ALARM_AGAIN_SECONDS = 0.05

CO_COROUTINE = 0x80
ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
FUTURE_FLAGS = 0x1FE0000  # what `from __future__ import ...` leaves in the flags of a code object

Module = type(sys)
type_name = type.__dict__["__name__"].__get__
arguments_of = BaseException.__dict__["args"].__get__


def exact(text):
    """The same text with no methods of the code's own."""
    return text if type(text) is str else str.__getitem__(text, slice(None))


def to_utf8(text):
    return str.encode(text, "utf-8", "replace")


# --- JSON of our own answers ----------------------------------------------------------------------
# The json module takes ten times as long to load as a whole execution takes, and belongs to the code.

ESCAPES = {number: f"\\u{number:04x}" for number in range(32)} | {34: '\\"', 92: "\\\\"}
JSON_WORDS = {None: "null", True: "true", False: "false"}


def to_json(value):
    kind = type(value)
    if kind is str:
        return f'"{value.translate(ESCAPES)}"'
    if kind is int:
        return str(value)
    if kind is dict:
        return "{" + ", ".join(f"{to_json(key)}: {to_json(item)}" for key, item in value.items()) + "}"
    if kind is list:
        return "[" + ", ".join(map(to_json, value)) + "]"
    return JSON_WORDS[value]


# --- interrupts and deadlines ---------------------------------------------------------------------


class Late(BaseException):
    """Something took longer than it may. No Exception, so that code rarely catches it."""


LOOP_MODULES = ("asyncio.", "selectors")
SIGNALS = range(1, _signal.NSIG)


class Interrupts:
    """Who may be interrupted, when; and the handlers that the code has set itself.

    A handler runs between two instructions of the innermost frame. guard() and timed() are the edges of
    what may be interrupted: in their own frames nothing is raised, so nothing can escape them."""

    def __init__(self):
        self.is_running = False
        self.is_shielded = False  # a body is half sent
        self.is_late = False      # an interrupt came meanwhile
        self.is_owed = False      # one came between two parts of an execution
        self.is_settling = False  # between the code and the report: nothing there is left half done
        self.cancel = None        # what to call rather than raise, while an event loop itself is busy
        self.theirs = {}          # handlers of the code, which rest while none of it runs
        self.ours = (self.on_interrupt, self.on_rest)  # bound once: compared by identity
        self.calm = None          # all handlers as they were when none of theirs was awake
        self.mask = None

    def attach(self):
        self.mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        _signal.signal(_signal.SIGINT, self.ours[0])

    def on_interrupt(self, number, frame):
        at_edge = not self.is_running or self.is_settling or frame is None
        if at_edge or frame.f_code is Interrupts.guard.__code__:
            self.is_owed = True
            return
        if self.is_shielded:
            self.is_late = True
        elif self.cancel and str(frame.f_globals.get("__name__")).startswith(LOOP_MODULES):
            self.cancel()
        else:
            raise KeyboardInterrupt

    def guard(self, work, *arguments):
        """Calls work, which may be interrupted. Answers the exception that came out of it, or None."""
        error = None
        self.is_late = False
        self.is_running = True
        try:
            work(*arguments)
        except BaseException as exception:
            error = exception
        self.is_running = False
        return error

    def unshield(self):
        self.is_shielded = False
        if self.is_late and self.is_running:
            self.is_late = False
            raise KeyboardInterrupt

    def on_alarm(self, number, frame):
        if frame is not None and frame.f_code is not Interrupts.timed.__code__:
            raise Late("took longer than it may")

    def timed(self, seconds, work, *arguments):
        """Answers work(*arguments), or raises Late. Only inside with_alarm()."""
        _signal.setitimer(_signal.ITIMER_REAL, seconds, ALARM_AGAIN_SECONDS)
        try:
            return work(*arguments)
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)

    def with_alarm(self, work, *arguments):
        """Calls work while the alarm is ours; one that the code has set goes on afterwards."""
        timer = _signal.setitimer(_signal.ITIMER_REAL, 0)
        handler = _signal.signal(_signal.SIGALRM, self.on_alarm)
        try:
            work(*arguments)
        finally:
            _signal.signal(_signal.SIGALRM, handler or _signal.SIG_DFL)
            _signal.setitimer(_signal.ITIMER_REAL, *timer)

    def wake_theirs(self):
        for number, handler in self.theirs.items():
            _signal.signal(number, handler)
        self.theirs = {}

    def rest_theirs(self):
        """A handler of the code could raise in the middle of the kernel, so it rests until the next
        execution. Without the signal module there is none."""
        if "signal" not in sys.modules:
            return
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.mask)
        if list(map(_signal.getsignal, SIGNALS)) == self.calm:
            return
        on_interrupt, on_rest = self.ours
        for number in SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler is not on_rest and number != _signal.SIGINT:
                self.theirs[number] = handler
                _signal.signal(number, on_rest)
        _signal.signal(_signal.SIGINT, on_interrupt)
        self.calm = list(map(_signal.getsignal, SIGNALS))

    def on_rest(self, number, frame):
        pass


# --- the channel ----------------------------------------------------------------------------------


class Channel:
    """Frames in and out. Keeps what it sent for the last generation until that is acknowledged."""

    def __init__(self, interrupts):
        self.socket = None
        self.interrupts = interrupts
        self.lock = _thread.allocate_lock()  # threads of the code may show results
        self.main_thread = self.pid = None
        self.generation = 0
        self.is_open = False  # from the begin of a request to its DONE
        self.kept, self.sent = [], 0  # frames, and how many of them went out
        self.buffer = bytearray(FRAME_MAX)  # there even when memory is short

    def attach(self, fd):
        os.set_inheritable(fd, False)
        self.socket = _socket.socket(fileno=fd)
        self.main_thread = _thread.get_ident()

    def receive(self, body=b"", fds=()):
        """The next whole frame: type, generation, body, descriptors; or the rest of one that has begun with these. Ends the
        kernel at end of file."""
        fds = list(fds)
        while True:
            size, rights, _, _ = self.socket.recvmsg_into((self.buffer,), RIGHTS_SPACE, _socket.MSG_CMSG_CLOEXEC)
            if size == 0:
                _exit(0)
            for _, _, numbers in rights:
                fds += _struct.unpack(f"={len(numbers) // 4}i", numbers[:len(numbers) & ~3])
            length, kind, flags, generation, _ = HEADER.unpack_from(self.buffer)
            body += self.buffer[HEADER.size:HEADER.size + length]
            if not flags & MORE:
                return kind, generation, body, fds

    def begin(self, generation):
        self.kept, self.sent = [], 0
        self.generation = generation
        self.is_open = True

    def send(self, kind, body, flags=0):
        """Sends a body in as many frames as it needs; an interrupt waits until all are out."""
        is_main = _thread.get_ident() == self.main_thread
        if is_main and self.interrupts.is_shielded:
            return  # a signal handler of the code, in the middle of another body
        try:
            if is_main:
                self.interrupts.is_shielded = True
            with self.lock:
                self._send_pieces(kind, body, flags)
        finally:
            if is_main:
                self.interrupts.unshield()

    def _send_pieces(self, kind, body, flags):
        if not self.is_open or getpid() != self.pid:
            return
        for at in range(0, len(body) or 1, BODY_MAX):
            piece = body[at:at + BODY_MAX]
            more = MORE if at + BODY_MAX < len(body) else 0
            self.kept.append(HEADER.pack(len(piece), kind, flags | more, self.generation, 0) + piece)
        # The value of the last expression can wait for what is told next, mostly DONE: one datagram wakes
        # the host once.
        if not flags & MAIN or len(body) > BODY_MAX:
            while self.sent < len(self.kept):
                self._send_next()
        self.is_open = kind != DONE

    def _send_next(self):
        """One datagram, of as many frames as go into it."""
        datagram, end = self.kept[self.sent], self.sent + 1
        while end < len(self.kept) and len(datagram) + len(self.kept[end]) <= FRAME_MAX:
            datagram += self.kept[end]
            end += 1
        self.sent = end  # first: a handler of the code may raise as soon as the frames are out
        self.socket.send(datagram)

    def reply(self, value):
        self.send(REPLY, to_utf8(to_json(value)))

    def done(self, status=0, flags=0):
        self.send(DONE, STATUS.pack(status), flags)

    def acknowledge(self, generation):
        if generation == self.generation:
            self.kept, self.sent = [], 0

    def send_again(self):
        """What follows the SYNCED is the whole answer: another host may have read the beginning of it before."""
        self.socket.send(HEADER.pack(0, SYNCED, 0, self.generation, 0))
        for frame in self.kept:
            self.socket.send(frame)

    def revive(self):
        """In a kernel that a checkpoint has borne: the descriptor is the same, its other end is not."""
        self.pid = getpid()
        self.lock = _thread.allocate_lock()
        self.begin(0)

    def leave(self):
        """In a child of the code: it must neither speak nor keep the channel open."""
        try:
            self.socket.close()
        except OSError:
            pass


# --- standard streams -----------------------------------------------------------------------------


def output_stream(fd, name, errors):
    raw = _io.FileIO(fd, "w", closefd=False)
    raw.name = name
    return _io.TextIOWrapper(_io.BufferedWriter(raw), "utf-8", errors, None, True)


class InputFile(_io.FileIO):
    """Knows whether anything was read from it."""

    is_read = False

    def readinto(self, buffer):
        self.is_read = True
        return super().readinto(buffer)

    def readall(self):
        self.is_read = True
        return super().readall()

    def read(self, size=-1):
        self.is_read = True
        return super().read(size)


def input_stream():
    raw = InputFile(0, "r", closefd=False)
    raw.name = "<stdin>"
    return _io.TextIOWrapper(_io.BufferedReader(raw), "utf-8", "surrogateescape")


class Streams:
    """Descriptors 0, 1 and 2, and the objects on them."""

    def __init__(self):
        self.null = -1
        self.spare = ()  # numbers that the code cannot use up, so that the next three can arrive
        self.ours = ()
        self.input = None
        self.is_stuck = False
        self.make_early()

    def make_early(self):
        """Makes the objects before there is an execution: on pipes, as those of one are, since they remember
        whether they can be rewound."""
        ends, kept = os.pipe(), [os.dup(fd) for fd in (0, 1, 2)]
        for fd in (0, 1, 2):
            dup2(ends[fd > 0], fd)
        self.make_input()
        self.make_outputs()
        for fd, old in enumerate(kept):
            dup2(old, fd)
            close(old)
        for fd in ends:
            close(fd)

    def make_input(self):
        self.input = sys.stdin = sys.__stdin__ = input_stream()

    def make_outputs(self):
        sys.stdout = sys.__stdout__ = output_stream(1, "<stdout>", "surrogateescape")
        sys.stderr = sys.__stderr__ = output_stream(2, "<stderr>", "backslashreplace")
        self.ours = (sys.stdout, sys.stderr)

    def begin(self):
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.disconnect()

    def connect(self, fds):
        if len(fds) != 3 or min(fds) < 3:
            for fd in fds:
                close(fd)
            raise OSError(24, "Too many open files: the streams of this execution could not be received")
        for number, fd in enumerate(fds):
            dup2(fd, number)
            dup2(self.null, fd, False)
        self.spare = fds
        if not self.is_unread():
            self.make_input()  # a new one: the last may have read ahead
        if not self.is_as_left():
            self.make_outputs()

    def is_unread(self):
        try:
            raw = self.input.buffer.raw
            return (sys.stdin is sys.__stdin__ is self.input and type(raw) is InputFile and not raw.is_read
                    and not self.input.closed and not self.input.__dict__)
        except (AttributeError, ValueError):  # it has lost its buffer
            return False

    def is_as_left(self):
        """Whether the objects of the last execution are still whole and in their place."""
        for name, stream in zip(("stdout", "stderr"), self.ours):
            try:
                if getattr(sys, name, None) is not stream or stream.closed or stream.__dict__:
                    return False
            except ValueError:  # it has lost its buffer
                return False
        return bool(self.ours)

    def flush(self):
        """The code's own streams first, since they may write to ours."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *self.ours):
            try:
                stream.flush()
            except BaseException:
                self.is_stuck |= any(stream is one for one in self.ours)

    def give_spare(self):
        for fd in self.spare:
            try:
                close(fd)
            except OSError:
                pass
        self.spare = ()

    def disconnect(self):
        for fd in (0, 1, 2):
            try:
                dup2(self.null, fd)
            except OSError:  # the code has closed what it did not open
                self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
                dup2(self.null, fd)
        if self.is_stuck:  # what it still holds goes to nobody, rather than to the next execution
            self.ours = sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = ()
            self.is_stuck = False


# --- files ----------------------------------------------------------------------------------------

WORKSPACE = "/workspace"
FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE, by which files are dated


class Workspace:
    """Spares the host a question, which would wake cove-init, after an execution that left all files alone."""

    def __init__(self):
        self.seen = 0  # when it was last looked at
        self.is_empty = False  # as it was then

    def is_untouched(self):
        """False where it is not known, as in a workspace of many files."""
        since, self.seen = self.seen, clock_gettime_ns(FILE_CLOCK)
        try:
            if not self.is_empty or stat(WORKSPACE).st_mtime_ns >= since:
                return self.has_nothing_since(since)
            return True
        except Exception:
            return False

    def has_nothing_since(self, since):
        waiting, left = [WORKSPACE], GLANCE_MAX
        self.is_empty = False
        while waiting:
            with scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0 or entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                        return False
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        self.is_empty = left == GLANCE_MAX
        return True


# --- results --------------------------------------------------------------------------------------

# Nothing to look for beside their text; and the common case is quick.
PLAIN_TYPES = {bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None)}
# The fewest characters that an item of theirs takes in a text.
SLICED_TYPES = {str: 1, bytes: 1, bytearray: 1, list: 3, tuple: 3}
RICH_METHODS = {
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_latex_": "text/latex",
    "_repr_svg_": "image/svg+xml", "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg",
    "_repr_json_": "application/json"}


def plain_text(value):
    """repr(), without making gigabytes only to cut them."""
    least = SLICED_TYPES.get(type(value))
    if least and len(value) > PLAIN_MAX // least:
        most = PLAIN_MAX // least - NOTE_SPACE
        return f"{repr(value[:most])}\n[{len(value) - most} more items were cut]"
    return exact(repr(value))


def call_rich(value, name):
    """What that method answers, or None. Asks the class: objects that have every attribute would lie."""
    method = getattr(type(value), name, None)
    if not callable(method):
        return None
    try:
        form = method(value)
    except Exception:
        return None
    return form[0] if type(form) is tuple and form else form


def to_form(mime, value):
    """The bytes of one form, or None when they cannot be had."""
    if isinstance(value, str):
        is_base64 = mime.startswith("image/") and mime != "image/svg+xml"
        return __import__("binascii").a2b_base64(value) if is_base64 else to_utf8(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"".join((value,))
    if mime == "application/json" or mime.endswith("+json"):
        return to_utf8(import_own("json").dumps(value))
    return None


def is_mime(mime):
    return isinstance(mime, str) and 3 <= len(mime) <= 100 and mime.isascii() and mime.isprintable()


def add_forms(forms, values):
    for mime, value in values:
        try:
            form = to_form(mime, value) if is_mime(mime) and value is not None else None
        except Exception:
            form = None
        if form is not None:
            forms[exact(mime)] = form


def forms_of(value):
    """{MIME type: bytes}, text/plain first."""
    if type(value) in PLAIN_TYPES:
        return {"text/plain": to_utf8(plain_text(value))}
    forms = {"text/plain": None}
    if not issubclass(type(value), type):
        add_forms(forms, ((mime, call_rich(value, name)) for name, mime in RICH_METHODS.items()))
        bundle = call_rich(value, "_repr_mimebundle_")
        if isinstance(bundle, dict):
            add_forms(forms, list(bundle.items()))
        figure = picture_of(value)
        if figure:
            forms["image/png"] = figure
    if forms["text/plain"] is None:
        forms["text/plain"] = to_utf8(plain_text(value))
    return forms


def cut_utf8(data, most):
    if len(data) <= most:
        return data
    kept = data[:max(most - NOTE_SPACE, 0)].decode("utf-8", "ignore").encode()
    return kept + b"\n[%d more bytes were cut]" % (len(data) - len(kept))


def flush_output():
    """What was printed comes before what is shown next. The code may have put anything in the streams' place."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass


class Results:
    """Sends results, within what one request may send."""

    def __init__(self, channel):
        self.channel = channel
        self.left = 0
        self.old_threads = frozenset()

    def begin(self):
        self.left = ANSWER_MAX - ERROR_SHARE
        self.old_threads = self._threads() if _thread._count() else frozenset()

    def _threads(self):
        """By the kernel's number, as that is not given twice."""
        try:
            return frozenset(map(int, os.listdir("/proc/self/task"))) - {self.channel.pid}
        except OSError:
            return frozenset()

    def is_theirs(self):
        """Whether the caller belongs to this execution: no thread of an older one, no child."""
        return getpid() == self.channel.pid and not (
            self.old_threads and _thread.get_native_id() in self.old_threads)

    def show(self, value, flags=0):
        if self.is_theirs() and self.left > 0:
            self.send(forms_of(value), flags)

    def send(self, forms, flags=0):
        if not flags & MAIN:
            flush_output()
        flags |= FIRST
        fitting = self._within_limits(forms)
        for left, (mime, data) in zip(range(len(fitting) - 1, -1, -1), fitting):
            self.channel.send(DATA, to_utf8(mime) + b"\0" + data, flags | (0 if left else LAST))
            flags &= ~FIRST

    def _within_limits(self, forms):
        """The forms that fit. The text tells which did not."""
        text = cut_utf8(forms.pop("text/plain", b""), min(PLAIN_MAX, max(self.left, 0)))
        self._charge(text)
        fitting = []
        for mime, data in forms.items():
            if len(data) <= self.left:
                self._charge(data)
                fitting.append((mime, data))
            else:
                text += b"\n[%s of %d bytes was left out]" % (to_utf8(mime), len(data))
        if self.left <= 0:
            text += b"\n[further results are left out: one execution may show %d MiB]" % (ANSWER_MAX >> 20)
        return [("text/plain", text), *fitting]

    def _charge(self, data):
        self.left -= max(len(data) + 256, RESULT_COST_MIN)


# --- figures --------------------------------------------------------------------------------------


def picture_of(value):
    """The PNG of a matplotlib figure, or None for anything else."""
    module = sys.modules.get("matplotlib.figure")
    if module is None or not isinstance(value, module.Figure):
        return None
    file = _io.BytesIO()
    value.savefig(file, format="png", bbox_inches="tight")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close(value)  # shown, so not again at the end of the execution
    return file.getvalue()


class Figures:
    """Those that pyplot holds open."""

    def __init__(self, results):
        self.results = results

    def adopt(self, pyplot):
        """The backend has no windows; where the code wants to see its figures, they are results."""
        pyplot.show = lambda *_, **__: self.show()  # a function, as pyplot itself adds attributes to it

    def show(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if not pyplot or not self.results.is_theirs():
            return
        try:
            for number in pyplot.get_fignums():
                self.results.show(pyplot.figure(number))
        finally:
            pyplot.close("all")

    def close(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot:
            pyplot.close("all")


# --- imports --------------------------------------------------------------------------------------

own_path = []  # where the interpreter's modules are, without the code's folder


def import_own(name):
    """Imports a module for the kernel; a file of that name in the workspace is not meant."""
    theirs, sys.path = sys.path, own_path
    try:
        return __import__(name)
    finally:
        sys.path = theirs


class AfterImport:
    """Calls functions when a module of that name gets loaded: neither does the kernel want to load them
    itself, nor does it see the code do so."""

    def __init__(self, actions):
        self.actions = actions
        for name, action in actions.items():
            if name in sys.modules:
                action(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        action = self.actions.get(name)
        if action is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec.loader, action)
                return spec
        return None

    def _follow(self, loader, action):
        load = loader.exec_module

        def load_and_act(module):
            load(module)
            action(module)

        loader.exec_module = load_and_act


# --- cells and their errors -----------------------------------------------------------------------


class Cells:
    """The sources of what was run, as tracebacks and inspect want them."""

    def __init__(self):
        self.count = 0
        self.lines = {}  # by file name

    def add(self, source, name):
        self.count += 1
        name = name or f"<cell {self.count}>"
        self.lines.pop(name, None)
        self.lines[name] = (len(source), None, [line + "\n" for line in source.split("\n")], name)
        oldest = next(iter(self.lines)) if len(self.lines) > CELLS_MAX else None
        self.lines.pop(oldest, None)
        cache = getattr(sys.modules.get("linecache"), "cache", None)
        if type(cache) is dict:
            cache[name] = self.lines[name]
            cache.pop(oldest, None)
        return name

    def forget(self):
        self.count = 0
        self.lines.clear()

    def fill(self, linecache):
        linecache.cache.update(self.lines)

    def complete(self, error):
        """Some errors of syntax are found when the text is no longer at hand."""
        lines = self.lines.get(error.filename, (0, None, ()))[2]
        if error.text is None and error.lineno and error.lineno <= len(lines):
            error.text = lines[error.lineno - 1]

    def trim(self, traceback):
        """The frames of the code: none of the kernel's, none of what called its first one."""
        chain = []
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename != KERNEL_FILE:
                chain.append(traceback)
            traceback = traceback.tb_next
        names = [entry.tb_frame.f_code.co_filename for entry in chain]
        first = next((at for at, name in enumerate(names) if name in self.lines), 0)
        following = None
        for entry in reversed(chain[first:]):
            entry.tb_next = following
            following = entry
        return following

    def trim_all(self, error):
        """Those of its causes too."""
        waiting, seen = [error], set()
        while waiting and len(seen) < 1000:
            error = waiting.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            error.__traceback__ = self.trim(error.__traceback__)
            waiting += [error.__cause__, error.__context__]
            members = getattr(error, "exceptions", None)
            if type(members) is tuple:
                waiting += [member for member in members if isinstance(member, BaseException)]


KERNEL_FILE = Cells.trim.__code__.co_filename


def keep_ends(text, most=ERROR_TEXT_MAX):
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters were cut]\n{text[-half:]}"


NO_TEXT = "<its text cannot be had>"


def describe_error(error, cells):
    """What ERROR says of an exception."""
    cells.trim_all(error)
    try:
        value = exact(str(error))  # first, since the traceback module would swallow an interrupt
    except Exception:
        value = NO_TEXT
    if isinstance(error, SyntaxError):
        cells.complete(error)
    traceback = import_own("traceback")
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    if error.__traceback__ is None and not error.__cause__ and not error.__context__:
        lines = traceback.format_exception_only(type(error), error)  # no heading over no frames
    return {"name": exact(type_name(type(error))), "value": keep_ends(value), "traceback": keep_ends("".join(lines))}


def describe_plainly(error):
    """The same without a call to anything of the code's."""
    name, arguments = exact(type_name(type(error))), arguments_of(error)
    is_text = len(arguments) == 1 and type(arguments[0]) is str
    value = keep_ends(arguments[0]) if is_text else NO_TEXT
    return {"name": name, "value": value, "traceback": f"{name}: {value}\n"}


def exit_status(error):
    """What an exit code means to a parent process; any other object goes to stderr."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    print(code, file=sys.stderr)
    return 1


# --- looking at variables -------------------------------------------------------------------------

BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}"}
BRIEF_ITEMS = 10
BRIEF_INT_BITS = 2000


def brief(value, depth=3):
    """A short text. Looks at no more than it shows, for types that could hold a lot."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return repr(value[:PREVIEW_MAX]) + ("..." if len(value) > PREVIEW_MAX else "")
    if kind is int and value.bit_length() > BRIEF_INT_BITS:
        return f"<int of {value.bit_length()} bits>"
    if kind in BRACKETS:
        return brief_items(value, kind, depth) if value else repr(value)
    return str.__getitem__(repr(value), slice(PREVIEW_MAX + 1))


def brief_items(value, kind, depth):
    first, last = BRACKETS[kind]
    if depth == 0:
        return f"{first}...{last}"
    items = list(itertools.islice(value.items() if kind is dict else value, BRIEF_ITEMS))
    if kind is dict:
        texts = [f"{brief(key, depth - 1)}: {brief(item, depth - 1)}" for key, item in items]
    else:
        texts = [brief(item, depth - 1) for item in items]
    if len(value) > len(items):
        texts.append("...")
    elif kind is tuple and len(items) == 1:
        texts.append("")
    return first + ", ".join(texts).rstrip() + last


def is_array(value):
    module = type(value).__module__
    return isinstance(module, str) and module.partition(".")[0] in ("numpy", "pandas")


def size_of(value):
    if is_array(value):
        if hasattr(value, "nbytes"):
            return int(value.nbytes)
        if hasattr(value, "memory_usage"):
            used = value.memory_usage()
            return int(used.sum() if hasattr(used, "sum") else used)
    return sys.getsizeof(value)


def shape_of(value):
    shape = getattr(value, "shape", None) if is_array(value) else None
    return [int(length) for length in shape] if isinstance(shape, tuple) else None


def look_at(value, row):
    """Fills in what it can, the costly last; what the object does not let it know stays as it is."""
    for field, function in (("shape", shape_of), ("size", size_of), ("preview", brief)):
        try:
            row[field] = function(value)
        except Late:
            raise
        except BaseException as error:
            if field == "preview":
                row[field] = no_preview(error)
    if len(row["preview"]) > PREVIEW_MAX:
        row["preview"] = row["preview"][:PREVIEW_MAX - 3] + "..."


def no_preview(error):
    reason = "it took too long" if type(error) is Late else exact(type_name(type(error)))
    return f"<no preview: {reason}>"[:PREVIEW_MAX]


def to_plain(value):
    """What json does not know by itself, as something that it does."""
    if is_array(value):
        if getattr(value, "size", 0) > JSON_MAX:
            raise ValueError("too large to be written as JSON")
        if hasattr(value, "to_json"):
            orient = "records" if hasattr(value, "columns") else "values"
            return import_own("json").loads(value.to_json(orient=orient, date_format="iso"))
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"an object of type '{type_name(type(value))}' has no form in JSON")


def json_of(value):
    """Bounded while it is made. Numbers that JSON does not have become null."""
    if type(value) in (str, bytes, bytearray) and len(value) > JSON_MAX:
        raise ValueError(f"more than {JSON_MAX >> 20} MiB as JSON")
    chunks, length = [], 0
    for chunk in import_own("json").JSONEncoder(default=to_plain, ensure_ascii=False).iterencode(value):
        for word in ("-Infinity", "Infinity", "NaN"):
            if chunk.endswith(word):
                chunk = chunk[:-len(word)] + "null"
        chunk = to_utf8(chunk)
        length += len(chunk)
        if length > JSON_MAX:
            raise ValueError(f"more than {JSON_MAX >> 20} MiB as JSON")
        chunks.append(chunk)
    return b"".join(chunks)


# --- help while typing ----------------------------------------------------------------------------


KEYS_MAX = 10_000


def static_attribute(value, name):
    """An attribute that can be had without running anything, or LookupError."""
    if isinstance(value, Module):
        return Module.__getattribute__(value, "__dict__")[name]
    try:
        return object.__getattribute__(value, "__dict__")[name]
    except (AttributeError, KeyError):
        pass
    owners = type.__dict__["__mro__"].__get__(value if isinstance(value, type) else type(value))
    for owner in owners:
        found = type.__dict__["__dict__"].__get__(owner).get(name)
        if found is not None and not hasattr(type(found), "__set__"):
            return found
    raise LookupError(name)


def static_value(namespace, path):
    """What a dotted path means, or an error when finding out would run something."""
    value = namespace[path[0]] if path[0] in namespace else BUILTINS[path[0]]
    for name in path[1:]:
        value = static_attribute(value, name)
    return value


def attributes(namespace, path):
    try:
        return dir(static_value(namespace, path))
    except BaseException:
        return []


def keys(namespace, path):
    """Those of a plain dictionary that can be written as they are."""
    try:
        value = static_value(namespace, path)
        some = [key for key, _ in zip(value, range(KEYS_MAX))] if type(value) is dict else []
        return [key for key in some if type(key) is str and key.isprintable() and not {"'", '"', "\\"} & {*key}]
    except BaseException:
        return []


def module_names():
    """What could be imported, by the names of files."""
    names = set(sys.stdlib_module_names)
    for folder in {"/workspace", *own_path}:
        try:
            names.update(name.partition(".")[0] for name in os.listdir(folder)[:KEYS_MAX] if not name.endswith(".dist-info"))
        except OSError:
            pass
    return [name for name in names if name.isidentifier()]


def open_quote(line):
    """Where the string begins that the end of the line is in; None: it is in code, -1: in a comment."""
    quote, at, is_escaped = None, None, False
    for place, char in enumerate(line):
        if quote:
            if char == quote and not is_escaped:
                quote = at = None
            is_escaped = char == "\\" and not is_escaped
        elif char == "#":
            return -1
        elif char in "'\"":
            quote, at, is_escaped = char, place, False
    return at


def name_start(text):
    """Where the dotted name begins that the text ends with."""
    start = len(text)
    while start and (text[start - 1].isidentifier() or text[start - 1].isdigit() or text[start - 1] == "."):
        start -= 1
    return start


def completions(namespace, code, cursor):
    """Names that go on from the cursor, and which part of the code they replace."""
    head = code[:cursor]
    line = head.rpartition("\n")[2]
    *path, prefix = head[name_start(head):].split(".")
    quote = open_quote(line)
    if quote is not None:  # in a string nothing is a name, but it may be a key
        before = line[:max(quote, 0)]
        is_key = before.endswith("[")
        names = keys(namespace, before[name_start(before[:-1]):-1].split(".")) if is_key else []
        prefix = line[quote + 1:]
    elif not path and line[:len(line) - len(prefix)].split() in (["import"], ["from"]):
        names = module_names()
    else:
        names = attributes(namespace, path) if path else [*namespace, *BUILTINS, *import_own("keyword").kwlist]
    names = {exact(name) for name in names if isinstance(name, str)}
    matches = sorted(name for name in names if name.startswith(prefix) and (prefix or name[:1] != "_"))
    return {"matches": matches[:MATCHES_MAX], "start": cursor - len(prefix), "end": cursor}


LEAVE_BLOCK = ("return", "pass", "raise", "break", "continue")
INDENT = "    "


def next_indent(code):
    line = code.rstrip().rpartition("\n")[2]
    indent = line[:len(line) - len(line.lstrip())]
    words = line.split("#")[0].split()
    if words and words[-1].endswith(":"):
        return indent + INDENT
    if words and words[0] in LEAVE_BLOCK and indent.endswith(INDENT):
        return indent[:-len(INDENT)]
    return indent


def wholeness(code, flags):
    compiler = import_own("codeop").CommandCompiler()
    compiler.compiler.flags |= flags
    try:
        if compiler(code, "<input>", "exec") is None:
            return {"status": "incomplete", "indent": next_indent(code)}
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return {"status": "invalid", "indent": ""}
    tree = compile(code, "<input>", "exec", flags | ONLY_AST, True)
    last = tree.body[-1] if tree.body else None
    # A block could go on as long as no empty line ends it.
    if hasattr(last, "body") and last.end_lineno > last.lineno and code.rpartition("\n")[2].strip():
        return {"status": "incomplete", "indent": next_indent(code)}
    return {"status": "complete", "indent": ""}


# --- code that awaits -----------------------------------------------------------------------------


class Tasks:
    """The event loop of the code: made when it first awaits, and kept from one execution to the next."""

    def __init__(self, interrupts):
        self.interrupts = interrupts
        self.loop = self.task = None
        self.reason = None  # why that task was cancelled

    def forget(self):
        """In a copy: the loop's descriptors did not come along."""
        self.loop = None

    def wait_for(self, coroutine):
        """Runs the loop until that is done; other tasks go on meanwhile, and rest afterwards."""
        asyncio = import_own("asyncio")
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.task = self.loop.create_task(coroutine)
        task.add_done_callback(self.stop_loop)
        self.reason, self.interrupts.cancel = None, self.cancel_task
        try:
            self.run_until(task)
        except asyncio.CancelledError as cancelled:
            if self.reason is None:
                raise
            raise self.reason.with_traceback(cancelled.__traceback__) from None
        finally:
            self.interrupts.cancel = None

    def cancel_task(self):
        """Instead of an exception in the middle of the loop, which would lose track of its tasks."""
        self.reason = KeyboardInterrupt()
        self.loop.call_soon_threadsafe(self.task.cancel)

    def run_until(self, task):
        try:
            self.run_loop(task)
        except (KeyboardInterrupt, SystemExit) as error:
            if task.done():
                task.cancelled() or task.exception()  # or the loop complains that nobody asked for it
                raise
            self.reason = error  # which came out of another task
            task.cancel()
            self.run_loop(task)
            raise

    def run_loop(self, task):
        """Not run_until_complete(): when that is interrupted, what it left in the loop stops the next one."""
        while not task.done():
            self.loop.run_forever()
        task.result()

    def stop_loop(self, task):
        if task is self.task:
            self.loop.stop()


# --- questions ------------------------------------------------------------------------------------


class Questions:
    """What can be asked about a namespace; `flags` tells those that its code is compiled with."""

    def __init__(self, channel, interrupts, namespace, flags):
        self.channel, self.interrupts = channel, interrupts
        self.namespace, self.flags = namespace, flags
        self.answers = {VARIABLES: self.variables, VARIABLE: self.variable,
                        COMPLETE: self.complete, IS_WHOLE: self.is_whole}

    def answer(self, kind, body):
        self.interrupts.with_alarm(self.answers.get(kind, self.unknown), body.decode("utf-8", "replace"))

    def variables(self, _):
        rows, size, is_cut = [], 0, False
        end = monotonic() + LOOKS_SECONDS
        for name, value in list(self.namespace.items()):
            if type(name) is not str or name.startswith("_") or issubclass(type(value), Module):
                continue
            row = self.look(name, value, end)
            size += len(to_utf8(to_json(row))) + 2
            if len(rows) == VARIABLES_MAX or size > VARIABLES_BYTES_MAX - 100:
                is_cut = True
                break
            rows.append(row)
        self.channel.reply({"variables": rows, "truncated": is_cut})

    def look(self, name, value, end):
        row = {"name": name, "type": exact(type_name(type(value))), "size": None, "shape": None, "preview": ""}
        if monotonic() > end:
            row["preview"] = "<not looked at: the time for all variables was up>"
            return row
        try:
            self.interrupts.timed(LOOK_SECONDS, look_at, value, row)
        except BaseException as error:
            row["preview"] = no_preview(error)
        return row

    def variable(self, request):
        name, _, form = request.partition("\0")
        if name not in self.namespace:
            raise NameError(f"name '{name}' is not defined")
        if form == "json":
            mime, data = "application/json", self.interrupts.timed(VALUE_SECONDS, json_of, self.namespace[name])
        else:
            mime, data = "text/plain", to_utf8(self.interrupts.timed(VALUE_SECONDS, plain_text, self.namespace[name]))
            data = cut_utf8(data, PLAIN_MAX)
        self.channel.send(DATA, to_utf8(mime) + b"\0" + data, FIRST)

    def complete(self, request):
        cursor, _, code = request.partition("\0")
        cursor = min(max(int(cursor), 0), len(code))
        self.channel.reply(self.interrupts.timed(LOOKS_SECONDS, completions, self.namespace, code, cursor))

    def is_whole(self, code):
        self.channel.reply(self.interrupts.timed(LOOKS_SECONDS, wholeness, code, self.flags()))

    def unknown(self, _):
        raise NotImplementedError("this kernel does not know that request")


# --- the extension that makes copies --------------------------------------------------------------


class Spec:
    """As much of an importlib spec as a dynamic library wants."""

    def __init__(self, name, origin):
        self.name, self.origin = name, origin


def load_extension(name, fd):
    imp = __import__("_imp")
    module = imp.create_dynamic(Spec(name, f"/proc/self/fd/{fd}"))
    imp.exec_dynamic(module)
    sys.modules.pop(name, None)
    return module


# --- the kernel -----------------------------------------------------------------------------------


class Kernel:
    """Made before a fork, where there is one, and attached to the channel that the copy will have under the same number: what is
    made there is shared until somebody writes to it. Then guest/python/quick.c serves in the place of serve(), and calls what
    it finds here by name."""

    QUICK = 1  # changes when quick.c has to

    def __init__(self):
        self.fork_point = self.refresh = None  # of a kernel that has heirs
        self.interrupts = Interrupts()
        self.channel = Channel(self.interrupts)
        self.streams = Streams()
        self.workspace = Workspace()
        self.results = Results(self.channel)
        self.figures = Figures(self.results)
        self.cells = Cells()
        self.main = Module("__main__")
        self.namespace = vars(self.main)
        self.namespace["__builtins__"] = builtins
        self.flags = TOP_LEVEL_AWAIT
        self.tasks = Tasks(self.interrupts)
        self.questions = Questions(self.channel, self.interrupts, self.namespace, lambda: self.flags)
        self.status = 0
        self.settings = []  # what SET said for the next execution
        self.environment = {}  # what it replaced there
        self.arguments = None  # the same: sys.argv...
        self.place = None      # ...and the working directory
        self.copier = None  # the extension that makes checkpoints, once one was asked for
        self.description = self.describe()
        AfterImport({"linecache": self.cells.fill, "matplotlib.pyplot": self.figures.adopt})

    def attach(self, channel_fd):
        self.interrupts.attach()
        self.channel.attach(channel_fd)
        os.register_at_fork(after_in_child=self.channel.leave)

    def serve(self):
        self.channel.pid = getpid()
        self.streams.begin()
        self.channel.begin(0)
        self.channel.send(READY, self.description)
        while True:
            self.take(*self.channel.receive())

    def take(self, kind, generation, body, fds):
        if kind == SET and body == REHEARSE:
            self.rehearse()
        elif kind == SET:
            self.settings.append(body)
        elif kind == ACK:
            self.channel.acknowledge(generation)
        elif kind == SYNC:
            for fd in fds:  # of a request whose rest was never sent
                os.close(fd)
            self.settings = []
            self.channel.send_again()
        else:
            self.channel.begin(generation)
            self.handle(kind, body, fds)

    # --- for quick.c ------------------------------------------------------------------------------

    def prepare_ready(self):
        """The frame that a copy sends first, kept as if it had."""
        self.channel.begin(0)
        frame = HEADER.pack(len(self.description), READY, 0, 0, 0) + self.description
        self.channel.kept, self.channel.sent = [frame], 1
        return frame

    def take_rest(self, kind, generation, body, fds):
        self.take(*self.channel.receive(body, fds))

    def find_packages(self):
        find_packages()

    def end_figures(self, error):
        if issubclass(type(error), KeyboardInterrupt):
            self.figures.close()  # who interrupts does not want to wait for pictures
        else:
            self.figures.show()

    # --- requests ---------------------------------------------------------------------------------

    def rehearse(self):
        """An execution for nobody. What the first one writes to is no longer shared with siblings then, which takes longer
        than the execution itself."""
        self.channel.is_open = False
        try:
            self.execute(b"print(1)\n1", [os.dup(self.streams.null) for _ in range(3)])
        except BaseException:
            pass
        self.cells.forget()
        BUILTINS.pop("_", None)

    def describe(self):
        version = ".".join(map(str, sys.version_info[:3]))
        return to_utf8(to_json({"protocol": PROTOCOL, "language": "python", "version": version}))

    def handle(self, kind, body, fds):
        """A request. What goes wrong in the kernel itself, for want of memory perhaps, has a DONE too."""
        try:
            if kind == EXECUTE:
                self.execute(body, fds)
            elif kind == CHECKPOINT:
                self.checkpoint(fds)
            elif kind == FORK:
                self.fork(fds)
            elif kind == IMPORT:
                self.load(body)
            else:
                self.questions.answer(kind, body)
                self.channel.done()
        except BaseException as error:
            self.fail(error)

    def fail(self, error):
        self.interrupts.is_running = self.interrupts.is_settling = False
        self.streams.disconnect()
        self.send_error(describe_plainly(error))
        self.channel.done(1)

    # --- EXECUTE ----------------------------------------------------------------------------------

    def execute(self, body, fds):
        settings, self.settings = self.settings, []
        self.streams.connect(fds)
        self.prepare()
        self.interrupts.is_owed = False
        outcome = [self.interrupts.guard(self.run, body, settings)]
        if getpid() != self.channel.pid:
            self.leave_child(outcome)
        self.streams.give_spare()  # imports may need them, and the next streams
        self.interrupts.is_settling = True
        self.settle()
        self.interrupts.is_settling = False
        self.report(outcome)
        self.interrupts.guard(self.streams.flush)
        self.streams.disconnect()
        self.channel.done(self.status, UNTOUCHED if self.workspace.is_untouched() else 0)

    def prepare(self):
        """What an earlier execution may have taken away."""
        sys.modules["__main__"] = self.main
        BUILTINS["display"] = self.display
        self.results.begin()
        self.interrupts.wake_theirs()

    def run(self, body, settings):
        try:
            name = self.apply(settings)
            self.evaluate(body.decode("utf-8"), name)
            self.end_figures(None)
        except BaseException as error:
            self.end_figures(error)
            raise
        finally:
            # Here, where a function that they call is the last to raise: it is dropped when it does.
            try:
                setprofile(None)
            finally:
                settrace(None)

    def apply(self, settings):
        """Sets environment, arguments and working directory; answers the name of the code, or None."""
        name, arguments = None, []
        for setting in settings:
            what, _, value = setting.decode("utf-8", "surrogateescape").partition("\0")
            if what == "name":
                name = value
            elif what == "env":
                key, _, value = value.partition("=")
                self.environment.setdefault(key, environ.get(key))
                environ[key] = value
            elif what == "arg":
                arguments.append(value)
            elif what == "cwd":
                self.enter(value)
        if arguments:
            self.arguments = getattr(sys, "argv", [""])
            sys.argv = ["", *arguments]
        return name

    def enter(self, path):
        try:
            before = getcwd()
        except OSError:  # it was removed
            before = WORKSPACE
        try:
            chdir(path)
        except OSError as error:
            raise type(error)(f"cwd: {error.strerror}: '{path}'") from None
        self.place = before

    def evaluate(self, source, name):
        self.call(self.compile(source, self.cells.add(source, name)))

    def call(self, codes):
        if codes[0].co_flags & CO_COROUTINE or codes[-1].co_flags & CO_COROUTINE:
            self.tasks.wait_for(self.call_awaiting(codes))
        else:
            for code in codes:
                self.take_value(eval(code, self.namespace))

    def compile(self, source, name):
        """What has to be called one after the other; only the last has a value."""
        if "\n" not in source and "=" not in source:  # an expression, perhaps: half the work
            try:
                return [compile(source, name, "eval", self.flags, True)]
            except SyntaxError:
                pass
        tree = compile(source, name, "exec", self.flags | ONLY_AST, True)
        last = tree.body.pop() if tree.body and type(tree.body[-1]) is _ast.Expr else None
        codes = []
        if tree.body or last is None:
            codes.append(compile(tree, name, "exec", self.flags, True))
            self.flags |= codes[0].co_flags & FUTURE_FLAGS
        if last is not None:
            codes.append(compile(_ast.Expression(last.value), name, "eval", self.flags, True))
        return codes

    async def call_awaiting(self, codes):
        for code in codes:
            value = eval(code, self.namespace)
            self.take_value(await value if code.co_flags & CO_COROUTINE else value)

    def take_value(self, value):
        if value is not None:
            BUILTINS["_"] = value
            self.results.show(value, MAIN)

    def display(self, *values, raw=False, **_):
        """display(*values): shows each value as a result of its own."""
        for value in values:
            if raw and isinstance(value, dict):
                forms = {"text/plain": b""}
                add_forms(forms, list(value.items()))
                if self.results.is_theirs() and self.results.left > 0:
                    self.results.send(forms)
            else:
                self.results.show(value)

    def settle(self):
        """Ends what the code has left switched on. One step that fails does not stop the others."""
        guard = self.interrupts.guard
        guard(self.raise_recursion_limit)
        self.settle_handlers()
        if self.environment:
            guard(self.restore_environment)
        if self.arguments is not None:
            sys.argv, self.arguments = self.arguments, None
        if self.place is not None:
            guard(self.go_back)

    def settle_handlers(self):
        for _ in range(3):  # a handler of theirs may raise while it is put to rest
            if self.interrupts.guard(self.interrupts.rest_theirs) is None:
                break

    def raise_recursion_limit(self):
        if sys.getrecursionlimit() < 500:
            sys.setrecursionlimit(1000)

    def restore_environment(self):
        before, self.environment = self.environment, {}
        for key, value in before.items():
            if value is None:
                environ.pop(key, None)
            else:
                environ[key] = value

    def go_back(self):
        place, self.place = self.place, None
        try:
            chdir(place)
        except OSError:
            chdir(WORKSPACE)

    def report(self, outcome):
        """Tells how it ended. `outcome` is emptied, so that what the exception holds goes within a guard."""
        error, self.status = outcome[0], 0
        if error is None:
            return
        plain = describe_plainly(error)
        self.status = 130 if issubclass(type(error), KeyboardInterrupt) else 1
        del error
        if self.interrupts.guard(self.report_fully, outcome) is not None:
            self.send_error(plain)
        self.interrupts.guard(outcome.clear)

    def report_fully(self, outcome):
        if self.interrupts.is_owed:  # else what the exception says of itself might never end
            raise KeyboardInterrupt
        if issubclass(type(outcome[0]), SystemExit):
            self.status = exit_status(outcome[0])
        else:
            self.send_error(describe_error(outcome[0], self.cells))

    def send_error(self, description):
        self.channel.send(ERROR, to_utf8(to_json(description)))

    def leave_child(self, outcome):
        """A fork of the code has come to the end of the cell. It ends like a program of its own."""
        self.interrupts.guard(self.report_in_child, outcome)
        self.interrupts.guard(self.streams.flush)
        _exit(self.status)

    def report_in_child(self, outcome):
        self.status = 0 if outcome[0] is None else 1
        if issubclass(type(outcome[0]), SystemExit):
            self.status = exit_status(outcome[0])
        elif outcome[0] is not None:
            sys.stderr.write(describe_error(outcome[0], self.cells)["traceback"])

    # --- IMPORT -----------------------------------------------------------------------------------

    def load(self, body):
        """Modules that are to be there before the code is; of the interpreter's own, not of the workspace."""
        error = self.interrupts.guard(self.load_all, body.decode("utf-8", "replace").split())
        if error is None:
            self.channel.reply({"ok": True})
        elif self.interrupts.guard(lambda: self.send_error(describe_error(error, self.cells))) is not None:
            self.send_error(describe_plainly(error))
        self.channel.done(0 if error is None else 1)

    def load_all(self, names):
        for name in names:
            import_own(name)

    # --- CHECKPOINT, FORK -------------------------------------------------------------------------

    def checkpoint(self, fds):
        """Answers in the kernel that goes on; returns once more, later, in each that the copy bears."""
        copy = self.take_copier(fds)
        pid = self.copier.checkpoint(copy, self.channel.socket.fileno())
        if pid:
            self.channel.reply({"ok": True, "pid": pid})
            self.channel.done()
        else:
            self.come_to_life()

    def fork(self, fds):
        """Stands still until it was forked into another sandbox; returns there, too."""
        gate = self.take_copier(fds)
        if self.fork_point is None:
            close(gate)
            raise RuntimeError("this interpreter was not started as one that can be forked")
        if self.copier.fork(gate, self.channel.socket.fileno(), self.fork_point):
            self.channel.reply({"ok": True})
            self.channel.done()
        else:
            self.fork_point = None  # the heirs that are left have the other's memory
            self.refresh()
            self.come_to_life()

    def take_copier(self, fds):
        """The first descriptor; the second is the extension."""
        if len(fds) != 2:
            for fd in fds:
                close(fd)
            raise OSError(24, "Too many open files: the channel of the copy could not be received")
        first, program = fds
        try:
            if self.copier is None:
                self.copier = load_extension("cove_checkpoint", program)
        except BaseException:
            close(first)
            raise
        finally:
            close(program)
        return first

    def come_to_life(self):
        self.settings = []
        self.tasks.forget()
        self.channel.revive()
        self.channel.send(READY, self.description)


def rehearse():
    """Executions for nobody. What the interpreter makes at the first use is there then, before a fork; and what it learns at
    later ones it writes into the code, which would be shared no longer."""
    kept = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    finders, main, register = sys.meta_path[:], sys.modules.get("__main__"), os.register_at_fork
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    interrupt = _signal.getsignal(_signal.SIGINT)
    os.register_at_fork = lambda **_: None
    try:
        kernel = Kernel()
        kernel.attach(theirs.detach())
        kernel.channel.pid = getpid()
        kernel.streams.begin()
        code = b"def f(x): return [x]\nprint(f(1), 1.5, {'a': f'{2}'})\nf(2)"
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _struct.pack("=3i", null, null, null))]
        for generation in range(1, REHEARSALS + 1):
            ours.sendmsg([HEADER.pack(len(code), EXECUTE, 0, generation, 0), code], rights)
            kernel.channel.begin(generation)
            kind, _, body, fds = kernel.channel.receive()
            kernel.handle(kind, body, fds)
            kernel.channel.reply({"a": [1, None]})
        kernel.channel.socket.close()
        close(kernel.streams.null)
    finally:
        os.register_at_fork = register
        _signal.signal(_signal.SIGINT, interrupt)
        sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__ = kept
        sys.meta_path[:], sys.modules["__main__"] = finders, main
        BUILTINS.pop("_", None)
        BUILTINS.pop("display", None)
        close(null)
        ours.close()


def prepare():
    """A kernel that has yet to be attached, with all that it needs of the interpreter."""
    own_path[:] = [entry for entry in sys.path if entry]
    sys.path[:] = ["", *own_path]
    sys.argv[:] = [""]
    return Kernel()


PACKAGES = "/packages"  # where the layer of packages is, in a sandbox that has one


def find_packages():
    """Makes the packages of this sandbox known: behind the standard library, before what the image brings."""
    try:
        if not os.listdir(PACKAGES):
            return
    except OSError:
        return
    own_path[:] = [entry for entry in own_path if entry != PACKAGES]
    places = [at for at, entry in enumerate(own_path) if entry.endswith(("dist-packages", "site-packages"))]
    own_path.insert(places[0] if places else len(own_path), PACKAGES)
    sys.path[:] = ["", *own_path]
    # For programs that the code starts.
    environ["PYTHONPATH"] = PACKAGES
    environ["PATH"] = f"{PACKAGES}/bin:{environ.get('PATH', '/usr/local/bin:/usr/bin:/bin').removeprefix(PACKAGES + '/bin:')}"


def serve(channel_fd=CHANNEL_FD):
    """Speaks on that channel until its other end is closed, and then ends the process."""
    status = 1
    try:
        kernel = prepare()
        find_packages()
        kernel.attach(channel_fd)
        kernel.serve()
    except ConnectionError:
        status = 0
    finally:
        _exit(status)  # at once: handlers that the code left for the end could wait forever


if __name__ == "__main__":
    if not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the folder of this file
    if sys.argv[0] == f"/proc/self/fd/{PROGRAM_FD}":
        close(PROGRAM_FD)
    # Through a namespace in between, or Python 3.9 hands on the builtins of this frame and not our own.
    eval("serve()", {"serve": serve})
