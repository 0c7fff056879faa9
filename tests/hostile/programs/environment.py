"""C90: the environment, as the program sees it and as the kernel keeps it."""
import os
import sys

from guard import fact, finish

for key in sorted(os.environ):
    fact(f"env.{key}", os.environ[key])
with open("/proc/self/environ", "rb") as file:
    for pair in file.read().split(b"\0"):
        if pair:
            fact("kernel." + pair.split(b"=", 1)[0].decode(), pair.split(b"=", 1)[1].decode())
fact("argv", "|".join(sys.argv[1:]))
finish()
