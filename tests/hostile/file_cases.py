"""The table of what code leaves in its workspace for the host to stumble over. Each runs after guard.py, in a session."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileCase:
    """`code` plants it. One that races goes on until it is cancelled, while the host works on the files `races`."""

    rows: str
    name: str
    code: str
    races: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.rows.replace(' ', '_')}-{self.name.replace(' ', '-')}"


LINKS = """
import os
canary, token = os.environ["HOSTILE_CANARY"], os.environ["HOSTILE_TOKEN"]
for i, target in enumerate([canary, os.path.dirname(canary), os.environ["HOSTILE_OTHER"], token, os.path.dirname(token), "/proc/self/environ",
                            "/proc/1/environ", "/proc/self/root", "/proc/self/cwd", "/proc/self/fd/3", "/dev/stdin", "/dev/zero", "/", "/etc/passwd",
                            "..", ".", "../../../../../../../.." + canary, "nowhere", "a" * 4000]):
    os.symlink(target, f"link-{i}")
os.symlink("loop-b", "loop-a"); os.symlink("loop-a", "loop-b")
os.makedirs("deep/er"); os.symlink("../..", "deep/er/up"); os.symlink(os.path.dirname(canary), "deep/out")
for i in range(60): os.symlink(f"chain-{i + 1}", f"chain-{i}")
open("honest", "w").write("honest"); os.link("honest", "hard")
"""

SPECIAL = """
import os, socket
os.mkfifo("pipe"); os.mkfifo("closed-pipe", 0)
for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)): socket.socket(socket.AF_UNIX, kind).bind(name)
held = socket.socket(socket.AF_UNIX); held.bind("listening"); held.listen()
for name, mode in (("char", 0o020666), ("block", 0o060666)):
    try: os.mknod(name, mode, os.makedev(1, 3)); print("made", name)
    except PermissionError: pass
os.mkdir("d"); os.mkfifo("d/pipe")
"""

NAMES = r"""
import os
os.mkdir("d")
names = [b"-rf", b"--help", b"-", b"new\nline", b"x\r\nSet-Cookie: y", b"\xff\xfe", b"\x1b]0;title\x07", b"\x1b[2J", b"\x7f", b"\xe2\x80\xaetxt.exe", b"%00", b"%2e%2e",
         b"..%2f", b"~", b"~root", b"*", b"?", b"$(id)", b"`id`", b";id", b"|id", b"a" * 255, "\u00e9".encode(), "e\u0301".encode(), b"a.", b"a ", b" ", b"CON",
         b"<script>alert(1)", b"'", b'"', b"\\", b"\\..\\..", b"...", b"upload", b"move", b"mkdir", b"C:", b"a:b", b"@", b"#", b"&x=y", b"\x01"]
for name in names:
    for folder in (b"", b"d/"):
        with open(folder + name, "wb") as f: f.write(b"odd")
"""

STUBBORN = """
import os
os.makedirs("closed/inner"); open("closed/inner/f", "w").close(); os.chmod("closed/inner", 0); os.chmod("closed", 0)
os.makedirs("frozen/inner"); open("frozen/inner/f", "w").close(); os.chmod("frozen/inner", 0o555); os.chmod("frozen", 0o555)
open("secret", "w").write("x"); os.chmod("secret", 0)
open("program", "w").write("#!/bin/sh"); os.chmod("program", 0o6755)
for i in range(200):
    try: os.setxattr("secret" if i % 2 else "program", f"user.{i}", b"x" * 4000)
    except OSError: break
for name, value in (("security.capability", b"\\1\\0\\0\\2" + b"\\xff" * 16), ("system.posix_acl_access", b"\\2\\0\\0\\0"), ("trusted.overlay.opaque", b"y")):
    try: os.setxattr("program", name, value); print("set", name)
    except OSError: pass
for i in range(500): os.link("program", f"name-{i}")
for name in (".bashrc", ".bash_profile", ".profile", ".npmrc", ".curlrc", ".gitconfig", ".netrc", "cove.conf", "sitecustomize.py", "usercustomize.py", "setup.cfg"):
    open(name, "w").write("evil = 1\\n")
os.makedirs(".git/hooks"); open(".git/hooks/post-checkout", "w").write("#!/bin/sh"); os.chmod(".git/hooks/post-checkout", 0o755)
"""

DEEP = """
import os
name = "d" * 200
for i in range(2000):
    try: os.mkdir(name); os.chdir(name)
    except OSError: break
open("f", "w").write("deep"); os.chdir("/workspace"); os.mkdir("beside")
"""

MANY = """
import os
os.mkdir("many"); count = 0
try:
    while True: open(f"many/{count}", "w").close(); count += 1
except OSError: pass
print(count)
"""

SPARSE = """
import os, resource
size = min(resource.getrlimit(resource.RLIMIT_FSIZE)[0], 1 << 50)
for i in range(4):
    with open(f"monster-{i}", "wb") as f:
        try: os.truncate(f.fileno(), size)
        except OSError: os.truncate(f.fileno(), 1 << 20)
os.mkdir("d"); os.link("monster-0", "d/monster")
"""

STRAGGLER = """
import os, subprocess
os.makedirs("held/inner"); held = open("held/inner/f", "w")
subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; cd /workspace/held/inner; exec 9>open; while :; do echo x >&9; sleep 0.01; done"], start_new_session=True)
"""

# Two places change what they are, without a pause: a directory and a link to the canary's, a file and a link to the canary.
SWAP = """
import os, threading
canary = os.environ["HOSTILE_CANARY"]; folder = os.path.dirname(canary)
os.makedirs("real"); open("real/" + os.path.basename(canary), "w").write("own"); open("file", "w").write("own")
def swap(one, other, make):
    while True:
        try: make(); os.rename(one + ".new", other)
        except OSError: pass
        try: os.rename(other, one + ".old")
        except OSError: pass
        try: os.unlink(one + ".old")
        except OSError: pass
        try: os.rename("real", other); os.rename(other, "real")
        except OSError: pass
threads = [threading.Thread(target=swap, args=("place", "place", lambda: os.symlink(folder, "place.new"))),
           threading.Thread(target=swap, args=("thing", "thing", lambda: os.symlink(canary, "thing.new")))]
for thread in threads: thread.start()
"""

SHRINK = """
import os
fd = os.open("breathing", os.O_RDWR | os.O_CREAT)
while True:
    for size in (0, 1, 4096, 1 << 20, 3, 5 << 20): os.ftruncate(fd, size)
"""

CASES = [
    FileCase("E118 E119 E120", "links to everywhere", LINKS),
    FileCase("E125 E126", "pipes and sockets", SPECIAL),
    FileCase("E130", "names that are more than names", NAMES),
    FileCase("E133 E140", "permissions and attributes in the way", STUBBORN),
    FileCase("A22", "directories without an end", DEEP),
    FileCase("A23 E142", "as many files as there can be", MANY),
    FileCase("A24", "files of nothing", SPARSE),
    FileCase("E141", "somebody holds on to it", STRAGGLER),
    FileCase("E122 E123", "places that change while they are looked at", SWAP, ("place", "thing", "place/secret.txt", "real")),
    FileCase("E128", "a file that breathes", SHRINK, ("breathing",)),
]
