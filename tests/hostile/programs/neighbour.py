"""C95: two sandboxes at once. "victim" leaves the secret of its environment wherever it can and
waits for its input to close; "thief" looks everywhere for what another sandbox left."""
import os
import socket
import subprocess
import sys

from guard import attempt, fact, finish

KEY = 0x436F7665
ABSTRACT = "\0hostile-neighbour"
PORT = 45454


def leave(secret):
    for path in ("/workspace/neighbour", "/tmp/neighbour", "/dev/shm/neighbour"):
        attempt(f"leave:{path}", lambda p=path: open(p, "w").write(secret))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(ABSTRACT)
    unix.listen()
    tcp = socket.create_server(("127.0.0.1", PORT))
    child = subprocess.Popen(["sleep", "1000", ], env={"SECRET": secret})
    print("victim ready", flush=True)
    sys.stdin.read()
    child.kill()
    del unix, tcp


def look():
    for path in ("/workspace/neighbour", "/tmp/neighbour", "/dev/shm/neighbour"):
        attempt(f"read:{path}", lambda p=path: open(p).read())
    for where in ("/workspace", "/tmp", "/dev/shm", "/data", "/mnt/data"):
        fact(f"list:{where}", ",".join(sorted(os.listdir(where))))
    attempt("abstract", socket.socket(socket.AF_UNIX).connect, ABSTRACT)
    attempt("tcp", socket.create_connection, ("127.0.0.1", PORT), 1)
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
    fact("pids", len(pids))
    for pid in range(1, 40000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        if pid not in (1, os.getpid(), os.getppid()):
            fact("stranger", pid)
    for pid in pids:
        try:
            fact(f"cmdline.{pid}", open(f"/proc/{pid}/cmdline").read().replace("\0", " "))
        except OSError:
            pass


if sys.argv[1:] == ["victim"]:
    leave(os.environ["HOSTILE_SECRET"])
else:
    look()
finish()
