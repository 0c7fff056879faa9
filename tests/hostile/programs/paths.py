"""B73 B74 B79 B80 B93: files of a host that must not be there, opened for reading and for writing.

Nothing is written: an open that works is the finding.
"""
import os

from guard import attempt, fact, finish

DEVICES = """mem kmem port kvm fuse net/tun vhost-net vhost-vsock vsock loop-control loop0 loop1
    vda vda1 sda nvme0n1 xvda zram0 kmsg userfaultfd uinput uhid input/event0 snapshot hpet rtc rtc0
    mapper/control dri/card0 nvidia0 sgx_enclave tpm0 tpmrm0 watchdog cuse autofs btrfs-control
    console tty0 tty1 ttyS0 vcs vcsa vga_arbiter hwrng nvram msr cpu/0/msr cpu_dma_latency ppp
    udmabuf ion binder hugepages mqueue bus/usb block char disk log initctl snd/seq video0 fb0
    raw/rawctl sg0 ptp0 mei0 vfio/vfio iommu infiniband/uverbs0 hyperv/vmbus xen/xenbus"""
PROC = """sysrq-trigger kcore kallsyms kmsg keys key-users timer_list acpi modules kpagecount
    kpageflags kpagecgroup iomem ioports interrupts irq softirqs slabinfo vmallocinfo vmstat
    zoneinfo buddyinfo pagetypeinfo sched_debug latency_stats config.gz cmdline cpuinfo devices
    diskstats partitions filesystems fs/nfsd scsi scsi/scsi bus bus/pci/devices driver mtrr swaps
    tty/drivers sysvipc/shm sys sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hostname
    sys/kernel/random/boot_id sys/kernel/unprivileged_bpf_disabled sys/kernel/yama/ptrace_scope
    sys/vm/drop_caches sys/vm/panic_on_oom sys/vm/overcommit_memory sys/fs/binfmt_misc/register
    sys/net/ipv4/ip_forward sys/user/max_user_namespaces sys/kernel/ns_last_pid version uptime
    loadavg meminfo stat version_signature consoles crypto dma execdomains locks misc pressure/cpu
    pressure/memory net net/tcp net/unix net/arp net/route asound mdstat fb self/net/tcp
    self/net/unix self/net/arp"""
SYS = """/sys /sys/fs/cgroup /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/release_agent
    /sys/fs/cgroup/unified/cgroup.procs /sys/fs/cgroup/release_agent /sys/power/state
    /sys/kernel/uevent_helper /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/debug
    /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/security /sys/firmware/efi/efivars
    /sys/firmware/acpi/tables /sys/class/dmi/id/product_uuid /sys/class/net /sys/block
    /sys/module /sys/devices/system/cpu/online /sys/kernel/vmcoreinfo /sys/kernel/notes
    /sys/kernel/profiling /sys/bus/pci/rescan /sys/fs/bpf /sys/fs/fuse/connections
    /sys/fs/selinux/enforce /cgroup /cgroup2"""
HOST = """/etc/shadow /etc/gshadow /etc/shadow- /etc/sudoers /etc/ssh /etc/ssh/ssh_host_ed25519_key
    /etc/ssl/private /etc/kubernetes /etc/machine-id /etc/fstab /etc/crypttab /etc/cove /etc/docker
    /etc/systemd/system /etc/cron.d /etc/krb5.keytab /root /root/.ssh /root/.bash_history
    /root/.aws/credentials /root/.docker/config.json /home /home/ubuntu /run /run/secrets
    /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /run/crio/crio.sock
    /run/dbus/system_bus_socket /run/systemd/private /run/systemd/journal/socket /run/udev/data
    /run/user /run/lock /run/cove /run/shm /run/utmp /var/run/secrets/kubernetes.io
    /var/run/docker.sock /var/lib/docker /var/lib/kubelet /var/lib/cove /var/lib/containerd
    /var/log /var/log/syslog /var/log/journal /var/spool/cron /var/backups /var/mail /boot
    /boot/grub/grub.cfg /srv /media /mnt /opt /lost+found /host /rootfs /hostfs /old_root
    /.oldroot /put_old /.pivot_root /.dockerenv /vagrant /data/docker /snap /swapfile
    /proc/1/root/etc/shadow /proc/1/root /proc/1/cwd /proc/self/root/../etc/shadow
    /proc/thread-self/root/../../root /dev/fd/3 /dev/fd/10 /proc/self/fd/3/ /proc/self/fd/7/../.."""


def open_close(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))


def probe(group, path):
    name = f"{group}:{path}"
    attempt(f"read.{name}", open_close, path, os.O_RDONLY)
    attempt(f"write.{name}", open_close, path, os.O_WRONLY)
    if os.path.isdir(path):
        try:
            fact(f"list.{name}", len(os.listdir(path)))
        except OSError:
            fact(f"list.{name}", 0)


for device in DEVICES.split():
    probe("dev", f"/dev/{device}")
for entry in PROC.split():
    probe("proc", f"/proc/{entry}")
for path in SYS.split():
    probe("sys", path)
for path in HOST.split():
    probe("host", path)
fact("dev.nodes", ",".join(sorted(os.listdir("/dev"))))
finish()
