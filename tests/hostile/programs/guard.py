"""What every Python probe begins with: refuse to run on a host, report one line per attempt.

The lines are those of guard.h: "name ok", "name ENOENT", "name =value", and "done N" at the end.
"""
import errno
import os
import sys

_count = 0


def _inside():
    return (
        os.environ.get("COVE_HOSTILE") == "1"
        and os.uname().nodename == "cove"
        and os.getuid() == 1000
        and os.getcwd() == "/workspace"
        and not os.path.exists("/sys/kernel")
    )


if not _inside():
    sys.stderr.write("hostile probe: this is not a sandbox, refusing to run\n")
    sys.exit(99)


def _line(name, result):
    global _count
    _count += 1
    print(f"{name.replace(' ', '_')} {result}", flush=True)


def fact(name, value):
    """Reports something seen."""
    _line(name, f"={value}")


def attempt(name, call, *args, **kwargs):
    """Reports whether call(*args) worked; answers its value, or None."""
    try:
        value = call(*args, **kwargs)
    except OSError as error:
        _line(name, errno.errorcode.get(error.errno, type(error).__name__))
        return None
    except (ValueError, OverflowError, MemoryError) as error:
        _line(name, type(error).__name__)
        return None
    _line(name, "ok")
    return value


def finish():
    """Says that the probe reached its end."""
    print(f"done {_count}", flush=True)
