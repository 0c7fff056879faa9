"""The table of attacks from inside a session, where code and kernel share one process."""
from __future__ import annotations

from dataclasses import dataclass

DONE = frozenset({("completed", None)})
NONSENSE = frozenset({("failed", "runner_died")})
TIMEOUT = frozenset({("timeout", "timeout")})
ANY = frozenset({("completed", None), ("failed", "exception"), ("failed", "runner_died"), ("timeout", "timeout")})


@dataclass(frozen=True)
class SessionCase:
    """`code` runs after guard.py and forge.py; `ends` are the accepted states and reasons."""

    rows: str
    name: str
    code: str
    ends: frozenset
    stdin: str = ""
    timeout: float = 10.0
    secret: str = ""  # a text that must not show in the answer

    @property
    def id(self) -> str:
        return f"{self.rows}-{self.name}"


WAIT = "\ntime.sleep(60)"

CASES = [
    SessionCase("F143", "a forged end, and it goes on",
                "frame(DONE, bytes(4)); time.sleep(0.2); print('after')", DONE, secret="after"),
    SessionCase("F143", "an end that denies what was written",
                "open('denied', 'w').write('x' * 5000); frame(DONE, bytes(4), UNTOUCHED); time.sleep(0.2)", DONE),
    SessionCase("F143", "a forged end does not stop the clock",
                "deaf(); frame(DATA, b'text/plain\\0well', FIRST | MAIN)\nwhile True: pass", TIMEOUT, timeout=1),
    SessionCase("F143", "a forged exception is only that",
                "frame(ERROR, b'not json'); frame(DONE, bytes(4)); time.sleep(0.2)", frozenset({("failed", "exception")})),
    *(SessionCase("F144", name, code + WAIT, NONSENSE) for name, code in {
        "a length of 4 GiB": "frame(DATA, b'x', length=0xffffffff)",
        "a negative length": "frame(DATA, b'x', length=0x80000000)",
        "a length too short": "frame(DATA, b'xxxx', length=3)",
        "half a header": "os.write(3, bytes(15))",
        "a byte": "os.write(3, b'x')",
        "trailing junk": "os.write(3, struct.pack('<IHHII', 0, DATA, 0, channel.generation, 0) + b'junk')",
        "an unknown type": "frame(0xffff)",
        "an unknown flag": "frame(DATA, flags=0x8000)",
        "a body inside of a body": "frame(DATA, b'a', MORE); frame(REPLY, b'b')",
        "a body without an end": "while True: frame(DATA, bytes(65520), MORE)",
    }.items()),
    SessionCase("F146", "it never answers", "os.kill(os.getpid(), signal.SIGSTOP)", TIMEOUT, timeout=1),
    SessionCase("F146", "signs of life while it hangs",
                "deaf()\nwhile True: frame(DATA, b'text/plain\\0alive', FIRST); time.sleep(0.05)", TIMEOUT, timeout=1),
    SessionCase("F146", "a body byte by byte",
                "deaf()\nwhile True: frame(DATA, b'x', MORE); time.sleep(0.05)", TIMEOUT, timeout=1),
    SessionCase("F147", "an answer before it is asked for",
                "frame(DONE, bytes(4), generation=channel.generation + 1)" + WAIT, NONSENSE),
    SessionCase("F147", "a flood of results", "while True: frame(DATA, b'a/b\\0' + bytes(60000), FIRST)", NONSENSE),
    SessionCase("F147", "a flood in two names",
                "while True:\n    frame(DATA, b'a/b\\0' + bytes(60000), FIRST)\n"
                "    frame(DATA, bytes(60000), 0, channel.generation - 1)", NONSENSE),
    *(SessionCase("F149", name, code, NONSENSE) for name, code in {
        "it exits": "os._exit(0)",
        "it crashes": "os.kill(os.getpid(), signal.SIGSEGV)",
        "it is killed by a child": "import subprocess; subprocess.run(['sh', '-c', 'kill -9 $PPID; sleep 60'])",
        "it becomes another": "os.execv('/bin/sleep', ['sleep', '60'])",
        "another speaks for it": "os.set_inheritable(3, True); os.execv('/bin/sh', ['sh', '-c', 'echo x >&3; sleep 60'])",
        "it hangs up": "os.close(3)" + WAIT,
    }.items()),
    SessionCase("F151", "everything is replaced",
                "import builtins, json, threading\nos.write = os.read = json.dumps = json.loads = None\n"
                "sys.stdout = sys.stderr = sys.excepthook = None\nthreading.Thread = None\n"
                "for name in list(vars(builtins)): delattr(builtins, name)", ANY),
    SessionCase("F151", "no end of exit handlers",
                "import atexit\natexit.register(lambda: time.sleep(60))\n"
                "class Sticky:\n    def __del__(self): time.sleep(60)\nsys.exit(Sticky())", ANY | {("failed", "exit")}, timeout=1),
    SessionCase("F155", "code that breaks out of quotes",
                "'''\n\"\"\"\n'); import os; os._exit(7) #\\\n${HOME} $(id) `id` {{7*7}} %s\n'''\n", DONE | {("failed", "exception")}),
    SessionCase("F157", "an input that nobody reads", "sys.stdin.close(); os.close(0)", ANY, stdin="x" * (8 << 20)),
]
