"""C103: what must differ between two fresh interpreters."""
import ctypes
import os
import random
import tempfile
import uuid

from guard import fact, finish

fact("random", random.random())
fact("hash", hash("hostile"))
fact("uuid", uuid.uuid4())
fact("urandom", os.urandom(8).hex())
fact("address", hex(ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value))
fact("temporary", os.path.basename(tempfile.mktemp()))
with open("/proc/self/auxv", "rb") as auxv:
    fact("auxv", auxv.read().hex())
finish()
