"""A24: files that are enormous only by their own account."""
import os

from guard import attempt, fact, finish

for name, size in (("sparse-1g", 1 << 30), ("sparse-1t", 1 << 40), ("sparse-8e", (1 << 63) - 1)):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o600)
    attempt(f"truncate.{name}", os.ftruncate, fd, size)
    # Room is really taken here, so only as much as any host can spare.
    attempt(f"allocate.{name}", os.posix_fallocate, fd, 0, 200 << 20)
    fact(f"size.{name}", os.fstat(fd).st_size)
# Each is within what one file may claim; together they are far more than there is.
for i in range(40):
    fd = os.open(f"claim-{i}", os.O_CREAT | os.O_WRONLY, 0o600)
    attempt("truncate.claim", os.ftruncate, fd, 99 << 20)
    os.close(fd)
finish()
