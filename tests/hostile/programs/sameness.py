"""C103: what must differ between two fresh interpreters."""
import os
import random
import tempfile
import uuid

from guard import fact, finish

fact("random", random.random())
fact("hash", hash("hostile"))
fact("uuid", uuid.uuid4())
fact("urandom", os.urandom(8).hex())
with open("/proc/self/maps") as maps:
    fact("libc", next(line.split("-")[0] for line in maps if "libc.so" in line))
fact("temporary", os.path.basename(tempfile.mktemp()))
with open("/proc/self/auxv", "rb") as auxv:
    fact("auxv", auxv.read().hex())
finish()
