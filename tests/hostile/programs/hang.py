"""A32 A33 A34 A43: ways to use all the time there is."""
import os
import re
import sys
import threading
import time

import guard

MODE = sys.argv[1]
print("ready ok", flush=True)
if MODE == "regex":
    re.match(r"(a+)+$", "a" * 64 + "b")
elif MODE == "sleep":
    time.sleep(10**6)
elif MODE == "stdin":
    sys.stdin.read()
elif MODE == "random":
    while True:
        os.getrandom(1 << 20)
        with open("/dev/urandom", "rb", buffering=0) as file:
            file.read(1 << 20)
elif MODE == "processes":
    for _ in range(16):
        if os.fork() == 0:
            while True:
                pass
    os.wait()
elif MODE == "threads":
    for _ in range(64):
        threading.Thread(target=lambda: [pow(3, 10**6, 10**400 + i) for i in range(10**9)]).start()
elif MODE == "deaf":
    import signal
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
guard.finish()
