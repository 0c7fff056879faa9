"""B54 B77 C91: what /proc says of pid 1 and of any process that is not this one, and whether the
program file behind a process can be reached or written."""
import os

from guard import attempt, fact, finish

FILES = """environ cmdline maps smaps mem auxv stack syscall pagemap numa_maps io limits mountinfo
    mounts cgroup oom_score_adj clear_refs fd fdinfo map_files task ns attr/current personality
    timers wchan stat status comm loginuid coredump_filter uid_map gid_map setgroups""".split()
LINKS = ["exe", "cwd", "root", "ns/net", "ns/mnt", "ns/pid", "ns/user", "fd/0", "fd/3"]


def read_some(path):
    if os.path.isdir(path):
        return " ".join(os.listdir(path))
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 65536).decode("latin-1").replace("\0", " ").replace("\n", "|")
    finally:
        os.close(fd)


def write_open(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))


mine = {"self", "thread-self", str(os.getpid())}
others = sorted({p for p in os.listdir("/proc") if p.isdigit()} - mine, key=int)
fact("visible", ",".join(others))
fact("entries", ",".join(sorted(p for p in os.listdir("/proc") if not p.isdigit())))
for pid in ["1"] + [p for p in others if p != "1"]:
    for name in FILES:
        text = attempt(f"read.{pid}.{name}", read_some, f"/proc/{pid}/{name}")
        if text and name in ("environ", "cmdline", "cgroup", "mountinfo"):
            fact(f"text.{pid}.{name}", text[:2000])
    for name in LINKS:
        where = attempt(f"link.{pid}.{name}", os.readlink, f"/proc/{pid}/{name}")
        if where:
            fact(f"text.{pid}.{name}", where)
    for name in ("mem", "exe", "oom_score_adj", "uid_map", "attr/current", "clear_refs"):
        attempt(f"write.{pid}.{name}", write_open, f"/proc/{pid}/{name}")
    attempt(f"exe.{pid}.read", read_some, f"/proc/{pid}/exe")

# The CVE-2019-5736 shape on this process: its own program must stay what it is.
attempt("self.exe.write", write_open, "/proc/self/exe")
attempt("self.exe.reopen", write_open, os.path.realpath("/proc/self/exe"))
fd = os.open("/proc/self/exe", os.O_RDONLY | os.O_CLOEXEC)
attempt("self.exe.fd", write_open, f"/proc/self/fd/{fd}")
for name, text in (("oom_score_adj", b"-1000"), ("uid_map", b"0 0 1"), ("gid_map", b"0 0 1"),
                   ("setgroups", b"allow"), ("loginuid", b"0")):
    attempt(f"self.{name}", lambda n=name, t=text: os.write(os.open(f"/proc/self/{n}", 1), t))
fact("self.cgroup", read_some("/proc/self/cgroup"))
finish()
