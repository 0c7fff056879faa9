"""B75 B86: what can be written at all. A file is made in every directory of the tree, and the
operations that a path filter may forget (mode, owner, times, attributes) are tried on its files."""
import os
import stat

from guard import attempt, fact, finish

SKIP = {"/proc"}
OWN = ("/workspace", "/data", "/mnt/data", "/tmp", "/dev/shm")
writable, special, set_id, dirs, files = [], [], [], 0, 0
own = os.environ["HOSTILE_CANARY_NAME"]


def can_create(directory):
    path = os.path.join(directory, "hostile-probe")
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError:
        return False
    os.close(fd)
    os.unlink(path)
    return True


def set_attribute(path):
    os.setxattr(path, "user.hostile", b"x")
    os.removexattr(path, "user.hostile")


sample = []
for top, names, leaves in os.walk("/"):
    names[:] = [n for n in names if os.path.join(top, n) not in SKIP]
    dirs += 1
    if can_create(top):
        writable.append(top)
    for leaf in leaves:
        path = os.path.join(top, leaf)
        try:
            info = os.lstat(path)
        except OSError:
            continue
        files += 1
        mode = info.st_mode
        if stat.S_ISREG(mode):
            if mode & (stat.S_ISUID | stat.S_ISGID):
                set_id.append(path)
            if os.access(path, os.W_OK) and not top.startswith(OWN):
                special.append(f"writable:{path}")
            if len(sample) < 40 and top in ("/etc", "/usr/bin", "/usr/lib", "/"):
                sample.append(path)
        elif not stat.S_ISLNK(mode) and not top.startswith("/dev"):
            special.append(path)
fact("dirs", dirs)
fact("files", files)
fact("writable", ",".join(sorted(writable)))
fact("special", ",".join(sorted(special)))
fact("set_id", ",".join(sorted(set_id)))

for path in sample + ["/", "/etc", "/usr", "/dev", "/proc", "/dev/null", "/dev/pts"]:
    # What is there already is set again: that takes the same rights, and harms nothing.
    seen = os.stat(path)
    attempt(f"chmod:{path}", os.chmod, path, stat.S_IMODE(seen.st_mode))
    attempt(f"utime:{path}", os.utime, path)
    attempt(f"chown:{path}", os.chown, path, seen.st_uid, seen.st_gid)
    attempt(f"xattr:{path}", set_attribute, path)
    attempt(f"link:{path}", os.link, path, "/workspace/hostile-link")

for path in ("/dev/null", "/dev/zero", "/dev/pts", "/dev/shm", "/dev/ptmx", "/dev", "/proc",
             "/workspace", "/tmp", "/data", "/mnt/data"):
    attempt(f"unlink:{path}", os.unlink, path)
    attempt(f"rename:{path}", os.rename, path, path + "-gone")
    attempt(f"rmdir:{path}", os.rmdir, path)
    attempt(f"symlink:{path}", os.symlink, "/etc", path)

# An honest program's needs, so that "nothing works" does not pass for "well confined".
attempt("control.workspace", open, "/workspace/honest", "w")
attempt("control.tmp", open, "/tmp/honest", "w")
attempt("control.null", open, "/dev/null", "w")
fact("canary.visible", int(os.path.exists(own)))
finish()
