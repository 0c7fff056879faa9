"""A6 A7: anonymous memory. grab: at once; touch: page by page; child: in a child whose parent lives
on; hold MB SECONDS: just under the limit for a while."""
import mmap
import os
import sys
import time

from guard import fact, finish

MODE = sys.argv[1]
ENOUGH_MB = 2048  # far above any limit the runner sets; a host with none survives it


def grow():
    held = []
    for _ in range(ENOUGH_MB):
        held.append(b"x" * (1 << 20))
    fact("filled_mb", ENOUGH_MB)


if MODE == "grab":
    bytearray(10**11)
elif MODE == "touch":
    grow()
elif MODE == "child":
    pid = os.fork()
    if pid == 0:
        grow()
    fact("child", os.waitpid(pid, 0)[1])
elif MODE == "hold":
    size = int(sys.argv[2]) << 20
    held = mmap.mmap(-1, size)
    end = time.monotonic() + float(sys.argv[3])
    at = 0
    while time.monotonic() < end:
        held[at:at + 4096] = b"y" * 4096
        at = (at + 4096) % size
finish()
