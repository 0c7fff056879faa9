# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: prints one line of JSON that says how it is sealed, then waits for stdin to end."""
import json
import os
import re
import socket
import stat
import sys

# Numbers that differ from one sandbox to the next.
VARYING = [(r"\b19000\d{5}\b", "UID"), (r"(veils/)\w+", r"\1NAME")]
STATUS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Groups")


def read(path):
    with open(path) as file:
        text = file.read()
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text)
    return text


def error_of(call, *args):
    """0, or why the kernel refused."""
    try:
        call(*args)
    except OSError as error:
        return error.errno
    return 0


def mounts():
    """Mount point, options, type, source and options of the file system; no ids."""
    rows = (line.split(" - ") for line in read("/proc/self/mountinfo").splitlines())
    return sorted(" ".join([*left.split()[3:6], right]) for left, right in rows)


def devices():
    found = {}
    for name in sorted(os.listdir("/dev")):
        info = os.lstat(f"/dev/{name}")
        found[name] = f"{info.st_mode:o} {info.st_rdev:x}" if stat.S_ISCHR(info.st_mode) else f"{info.st_mode:o}"
    return found


def use_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def report():
    status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
    return {
        "status": {key: status[key].strip() for key in STATUS},
        "ids": {"uids": len(set(os.getresuid())), "is_root": 0 in os.getresuid() + os.getresgid(),
                "uid": read("/proc/self/status").split("Uid:")[1].splitlines()[0],
                "uid_map": read("/proc/self/uid_map"), "gid_map": read("/proc/self/gid_map")},
        # Whiteouts need no capability, and no mount option or filter of ours forbids them: landlock does.
        "landlock": error_of(os.mknod, "/workspace/whiteout", stat.S_IFCHR | 0o600, os.makedev(0, 0)),
        "unshare": error_of(os.chroot, "/tmp"),
        "write_root": error_of(os.mkdir, "/etc/x"),
        "mounts": mounts(),
        "devices": devices(),
        "fds": sorted(re.sub(r"\d+", "N", os.readlink(f"/proc/self/fd/{fd}")) for fd in range(3)),
        "open": [fd for fd in range(3, 4096) if error_of(os.fstat, fd) == 0],
        "limits": read("/proc/self/limits"),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "root": sorted(os.listdir("/")),
        "hostname": socket.gethostname(),
        "loopback": error_of(use_loopback),
        "session": os.getsid(0) == os.getpid(),
        "umask": os.umask(0o22),
        "cwd": os.getcwd(),
    }


print(json.dumps(report()), flush=True)
sys.stdin.read()
