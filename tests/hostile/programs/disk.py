"""A20 A21 A23 A42: the disk, filled by bytes or by names, or kept busy. Dies of the refusal, as
most programs do."""
import os
import sys
import time

from guard import fact, finish

MODE = sys.argv[1]
ENOUGH_MB = 500  # far above any limit the runner sets; a host with none survives it
ENOUGH_NAMES = 500_000
if MODE == "fill":
    with open("big", "wb", buffering=0) as file:
        for i in range(ENOUGH_MB):
            try:
                file.write(b"x" * (1 << 20))
            except OSError:
                fact("written_mb", i)
                raise
elif MODE == "names":
    where = sys.argv[2] if len(sys.argv) > 2 else "."
    for i in range(ENOUGH_NAMES):
        try:
            os.close(os.open(f"{where}/{i}", os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            fact("names", i)
            raise
elif MODE == "entries":
    for i in range(int(sys.argv[2])):
        with open(f"{i:07d}", "wb") as file:
            file.write(b"x")
elif MODE == "sync":
    end = time.monotonic() + float(sys.argv[2])
    fd = os.open("busy", os.O_CREAT | os.O_WRONLY, 0o600)
    rounds = 0
    while time.monotonic() < end:
        os.pwrite(fd, b"x" * (1 << 20), 0)
        os.fsync(fd)
        rounds += 1
    fact("rounds", rounds)
finish()
