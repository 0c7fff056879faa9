"""A46: what an interpreter does to itself."""
import sys

import guard

MODE = sys.argv[1]
print("ready ok", flush=True)
if MODE == "recursion":
    def down(n):
        return down(n + 1)
    down(0)
elif MODE == "deep-recursion":
    sys.setrecursionlimit(10**9)
    exec("def down(n): return [down(n + 1)]\ndown(0)")
elif MODE == "power":
    print(9 ** 9 ** 9)
elif MODE == "repr":
    print([0] * 10**9)
elif MODE == "traceback":
    raise RuntimeError("m" * 50_000_000)
elif MODE == "nested":
    value = []
    for _ in range(10**6):
        value = [value]
    print(value)
elif MODE == "parser":
    eval("(" * 10**5 + ")" * 10**5)
elif MODE == "exit-hooks":
    import atexit
    import os
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    atexit.register(lambda: [os.fork() for _ in range(3)] and any(False for _ in iter(int, 1)))
elif MODE == "chain":
    error = None
    for i in range(100000):
        new = ValueError(i)
        new.__cause__ = error
        error = new
    raise error
guard.finish()
