"""A16: no descriptor left, and the result must still get out."""
import os
import sys

from guard import attempt, fact, finish

held = []
try:
    while len(held) < 10**7:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    fact("errno", error.errno)
fact("held", len(held))
attempt("next", os.open, "/dev/null", os.O_RDONLY)
finish()
if sys.argv[1:] == ["raise"]:
    raise RuntimeError("no descriptor left")
os._exit(5)
