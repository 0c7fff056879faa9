"""What code inside can say in the name of its kernel. Executed in a session, after guard.py; the
rows of session_cases.py follow it."""
import signal
import struct
import time

_inside() or sys.exit("outside of a sandbox")  # both from guard.py, which runs in front of this

DATA, ERROR, REPLY, DONE = range(65, 69)
MORE, FIRST, MAIN, UNTOUCHED = 1, 2, 4, 16
channel = display.__self__.channel  # frozen objects are not in the collector's list


def frame(kind, body=b"", flags=0, generation=None, length=None, reserved=0):
    generation = channel.generation if generation is None else generation
    length = len(body) if length is None else length
    os.write(3, struct.pack("<IHHII", length, kind, flags, generation, reserved) + body)


def deaf():
    """From now on only a kill ends this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
