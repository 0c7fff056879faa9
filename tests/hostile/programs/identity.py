"""C98 C99: everything about the host that a program may stumble on, printed for the runner, which
knows the host's names, addresses, serial numbers and paths and looks for them."""
import glob
import os
import platform
import socket
import subprocess

from guard import attempt, fact, finish

TEXTS = """/etc/hostname /etc/hosts /etc/machine-id /var/lib/dbus/machine-id /etc/resolv.conf
    /etc/os-release /etc/issue /etc/passwd /etc/group /etc/fstab /etc/mtab /proc/mounts
    /proc/self/mounts /proc/self/mountinfo /proc/self/mountstats /proc/self/cgroup
    /proc/self/status /proc/self/environ /proc/self/cmdline /proc/self/maps /proc/self/uid_map
    /proc/self/gid_map /proc/self/limits /proc/self/net/dev /proc/self/net/route
    /proc/self/net/if_inet6 /proc/self/net/arp /proc/self/net/unix /proc/self/net/netstat
    /proc/net/dev /proc/net/unix /proc/sys/kernel/random/boot_id /proc/sys/kernel/hostname
    /proc/version /proc/cpuinfo /proc/modules /proc/kallsyms /proc/cmdline /proc/partitions
    /proc/self/sched /proc/self/autogroup /etc/apt/sources.list""".split()
TEXTS += glob.glob("/etc/apt/sources.list.d/*") + glob.glob("/sys/class/dmi/id/*")
TEXTS += glob.glob("/etc/apt/apt.conf.d/*") + ["/etc/pip.conf", "/etc/npmrc", "/usr/etc/npmrc"]


def read_text(path):
    with open(path, "rb") as file:
        return file.read(200000).decode("latin-1").replace("\0", " ").replace("\n", "|")


for path in TEXTS:
    text = attempt(f"read:{path}", read_text, path)
    if text is not None:
        fact(f"text:{path}", text)
fact("nodename", os.uname().nodename)
fact("platform", platform.node())
fact("fqdn", socket.getfqdn())
with open("/proc/self/net/dev") as file:
    fact("interfaces", ",".join(line.split(":")[0].strip() for line in file if ":" in line))
fact("cwd", os.getcwd())
for command in (["dmesg"], ["ip", "addr"], ["df", "-a"], ["mount"], ["ps", "axww"], ["lsblk"],
                ["ipcs", "-a"], ["who"], ["id"]):
    try:
        done = subprocess.run(command, capture_output=True, timeout=5)
        text = (done.stdout + done.stderr).decode("latin-1").replace("\n", "|")
    except OSError as error:
        text = type(error).__name__
    fact(f"command:{command[0]}", text)
for kind in ("net", "mnt", "pid", "ipc", "uts", "user", "cgroup"):
    fact(f"ns:{kind}", os.readlink(f"/proc/self/ns/{kind}"))
finish()
