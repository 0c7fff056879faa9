# SPDX-License-Identifier: Apache-2.0
"""What a session and its fork have in common in memory, as the host sees it: maps by smaps, frames by pagemap. Once each has
written all that it can write there is nothing, whatever the code has done before."""
import pathlib
import re
import struct

import pytest

import covetest
import fork_test
from fork_test import Family

pytestmark = [fork_test.pytestmark, pytest.mark.skipif(not covetest.IS_ROOT, reason="frames are shown to root alone")]

PAGE = 4096
PRESENT, IS_FRAME = 1 << 63, (1 << 55) - 1
OF_THE_KERNEL = ("[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]")  # the same for every process of the machine

BEGIN = "import ctypes, mmap, os, tempfile; libc = ctypes.CDLL(None, use_errno=True); libc.prctl(15, b'forked')\n"

# Each private map is one that its process can make writable. MADV_POPULATE_WRITE: as if each page were written.
WRITE_ALL = """
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
failed, written = [], 0
for line in open('/proc/self/maps').read().splitlines():
    span, rights, *rest = line.split()
    start, end = (int(part, 16) for part in span.split('-'))
    if rest[-1] in %r or rights[3] != 'p' or (rights == '---p' and end - start > 64 << 20):
        continue
    if libc.mprotect(start, end - start, 7) or libc.madvise(start, end - start, 23):
        failed.append((line, ctypes.get_errno()))
    written += end - start
print(failed, written > 10 << 20)
""" % (OF_THE_KERNEL,)

# What it has done, and whether a fork is refused then.
BEFORE = {
    "nothing": ("", False),
    "much memory": ("x = bytearray(os.urandom(1 << 20) * 32); y = list(range(100000))", False),
    "large pages": ("m = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(14); m.write(b'x' * (8 << 20))", False),
    "pages to be merged": ("m = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(12); m.write(b'x' * (8 << 20))", False),
    "a map of the image": ("m = mmap.mmap(os.open('/usr/bin/base64', os.O_RDONLY), 0, mmap.MAP_PRIVATE); sum(m[::4096])", False),
    "shared memory that is gone": ("m = mmap.mmap(-1, 1 << 20); m.write(b'x'); m.close()", False),
    "shared memory": ("m = mmap.mmap(-1, 1 << 20); m.write(b'x')", True),
    "shared memory that can only be read while it is looked at": (
        "m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "assert libc.mprotect(ctypes.c_void_p(at), 1 << 20, 1) == 0", True),
    "a private map of its own file": (
        "f = open('/workspace/f', 'wb+'); f.truncate(1 << 20); f.flush()\nm = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE)", True),
    "a private map of a memory file": (
        "f = os.memfd_create('f'); os.truncate(f, 1 << 20); libc.mmap.restype = ctypes.c_void_p\n"
        "at = libc.mmap(None, ctypes.c_size_t(1 << 20), 3, mmap.MAP_PRIVATE, f, ctypes.c_long(0)); os.close(f); assert at > 0", True),
    "a segment of System V": ("libc.shmat.restype = ctypes.c_void_p; at = libc.shmat(libc.shmget(0, 1 << 20, 0o600), None, 0)", True),
}


def pids_of(family):
    """Of the two, by their name."""
    found = [pid for pid in covetest.descendants(family.spawner()) if covetest.name_of(pid) == "forked"]
    assert len(found) == 2, found
    return found


def maps_of(pid):
    """Start, end, rights, device and inode, name; and the flags of each map."""
    head = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ (\S+ \d+) *(.*)$")
    maps = []
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if found := head.match(line):
            start, end, rights, file, name = found.groups()
            maps.append([int(start, 16), int(end, 16), rights, file, name])
        elif line.startswith("VmFlags:"):
            maps[-1].append(line.split()[1:])
    return maps


def frames_of(pid):
    """Each frame that is in a map of it."""
    frames = {}
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        for start, end, _, _, name, _ in maps_of(pid):
            if name in OF_THE_KERNEL:
                continue
            file.seek(start // PAGE * 8)
            data = file.read((end - start) // PAGE * 8)
            for at, (entry,) in enumerate(struct.iter_unpack("<Q", data)):
                if entry & PRESENT:
                    frames[entry & IS_FRAME] = (hex(start + at * PAGE), name)
    assert 0 not in frames, "frames are hidden from us"
    return frames


def shared_maps(pid):
    return {file for _, _, rights, file, _, flags in maps_of(pid) if rights[3] == "s" or "sh" in flags}


@pytest.mark.parametrize("before", BEFORE)
def test_a_session_and_its_fork_have_no_frame_in_common_that_either_can_write(before):
    code, is_refused = BEFORE[before]
    with Family("--memory", "512M", forks=1) as parent:
        parent.run(BEGIN + code)
        if is_refused:
            refusal = parent.refusal()
            assert "memory" in refusal["message"] or "map" in refusal["message"], refusal
            return
        child = parent.fork()
        one, two = pids_of(parent)
        assert shared_maps(one).isdisjoint(shared_maps(two))
        assert len(frames_of(one).keys() & frames_of(two).keys()) > 1000, "copied when they are written"
        for session in (parent, child):
            assert session.run(WRITE_ALL) == "[] True"
        first, second = frames_of(one), frames_of(two)
        common = {first[frame]: second[frame] for frame in first.keys() & second.keys()}
        assert len(first) > 1000 and not common, common
        assert parent.run("print(1)") == child.run("print(1)") == "1"
