"""C105: what a program may leave for the host to fetch: links out of the workspace, files that
block, awkward names."""
import os
import socket

from guard import attempt, finish

canary = os.environ["HOSTILE_CANARY"]
attempt("honest", lambda: open("honest.txt", "w").write("honest"))
for i, target in enumerate([canary, "/etc/passwd", "/etc/shadow", "/proc/self/environ",
                            "/proc/1/environ", "../../../../../../../../etc/passwd", "/dev/zero",
                            "/dev/stdin", "loop", "honest.txt"]):
    attempt(f"symlink:{target}", os.symlink, target, "loop" if target == "loop" else f"link-{i}")
attempt("symlink.dir", os.symlink, os.path.dirname(canary), "link-dir")
attempt("symlink.root", os.symlink, "/", "link-root")
attempt("hardlink", os.link, "/etc/passwd", "hard-passwd")
attempt("hardlink.self", os.link, "honest.txt", "hard-honest.txt")
attempt("fifo", os.mkfifo, "pipe")
attempt("socket", socket.socket(socket.AF_UNIX).bind, "sock")
attempt("unreadable", os.close, os.open("unreadable", os.O_CREAT | os.O_WRONLY, 0))
attempt("unreadable.dir", os.mkdir, "closed", 0)
for name in ["-rf", "new\nline", "\u202etxt.exe", "quote\"'", "%00", "~", "*", "a" * 255,
             "\\..\\..", " ", "...", b"\xff\xfe", "<script>", "x\r\nSet-Cookie: y"]:
    where = name if isinstance(name, str) else os.fsdecode(name)
    attempt("name", lambda n=where: open(n, "w").write("name"))
finish()
