/* B51 B52 B55 B56 B64 B65 B66 B67 B68 B81: system calls that no sandboxed program may use.
 *
 * The arguments are chosen so that a call which gets through either does no harm (a wrong magic
 * number, a path that does not exist, the value that is set already) or would work for an ordinary
 * user: only a refusal before the kernel looks at them gives the errno that the runner expects.
 */
#include "guard.h"

#include <linux/bpf.h>
#include <linux/fanotify.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <time.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
/* Numbers that this libc may be too old to name. */
enum {
    NR_OPEN_TREE_ATTR = 467,
    NR_QUOTACTL_FD = 443,
    NR_LISTNS = 470,
    NR_STATMOUNT = 457,
    NR_LISTMOUNT = 458,
    NR_LSM_SET_SELF_ATTR = 460
};

static char target[] = "/tmp/target";
static char buffer[4096];
static char missing[] = "/tmp/no-such-file";

static void mounts(void)
{
    mkdir(target, 0755);
    TRY("mount.tmpfs", syscall(SYS_mount, "none", target, "tmpfs", 0, ""));
    TRY("mount.proc", syscall(SYS_mount, "none", target, "proc", 0, ""));
    TRY("mount.sysfs", syscall(SYS_mount, "none", target, "sysfs", 0, ""));
    TRY("mount.overlay", syscall(SYS_mount, "none", target, "overlay", 0, ""));
    TRY("mount.fuse", syscall(SYS_mount, "none", target, "fuse", 0, "fd=0"));
    TRY("mount.bind", syscall(SYS_mount, "/workspace", target, 0, 4096 /* MS_BIND */, 0));
    TRY("mount.remount", syscall(SYS_mount, 0, "/workspace", 0, 32 /* MS_REMOUNT */, 0));
    TRY("mount.remount_bind", syscall(SYS_mount, 0, "/", 0, 32 | 4096, 0));
    TRY("mount.propagation", syscall(SYS_mount, 0, "/", 0, 1 << 20 /* MS_SHARED */, 0));
    TRY("mount.move", syscall(SYS_mount, "/workspace", target, 0, 8192 /* MS_MOVE */, 0));
    TRY("mount.umount2", syscall(SYS_umount2, "/workspace", 2 /* MNT_DETACH */));
    TRY("mount.umount2_proc", syscall(SYS_umount2, "/proc", 2));
    TRY("mount.fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("mount.fsconfig", syscall(SYS_fsconfig, 0, FSCONFIG_CMD_CREATE, 0, 0, 0));
    TRY("mount.fsmount", syscall(SYS_fsmount, 0, 0, 0));
    TRY("mount.fspick", syscall(SYS_fspick, -100, "/workspace", 0));
    TRY("mount.open_tree", syscall(SYS_open_tree, -100, "/workspace", OPEN_TREE_CLONE));
    TRY("mount.open_tree_attr",
        syscall(NR_OPEN_TREE_ATTR, -100, "/workspace", OPEN_TREE_CLONE, 0, 0));
    TRY("mount.move_mount", syscall(SYS_move_mount, -100, "/workspace", -100, target, 0));
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NOSUID};
    TRY("mount.mount_setattr",
        syscall(SYS_mount_setattr, -100, "/workspace", 0, &attr, sizeof attr));
    TRY("mount.pivot_root", syscall(SYS_pivot_root, "/workspace", "/workspace"));
    TRY("mount.chroot", syscall(SYS_chroot, "/workspace"));
}

static void namespaces(void)
{
    static const char *const kinds[] = {"cgroup", "ipc",  "mnt",  "net",
                                        "pid",    "time", "user", "uts"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64], name[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        snprintf(name, sizeof name, "setns.%s", kinds[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        TRY(name, syscall(SYS_setns, fd, 0));
    }
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    TRY("setns.pidfd", syscall(SYS_setns, pidfd, 0x10000000));
    int init = (int)syscall(SYS_pidfd_open, 1, 0);
    TRY("setns.init", syscall(SYS_setns, init, 0x20000));
}

static void kernel_surface(void)
{
    union bpf_attr map = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    TRY("surface.bpf_map", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
    TRY("surface.bpf_prog", syscall(SYS_bpf, BPF_PROG_LOAD, &map, sizeof map));
    struct perf_event_attr perf = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof perf, .exclude_kernel = 1, .exclude_hv = 1};
    TRY("surface.perf_event_open", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
    TRY("surface.userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
    TRY("surface.userfaultfd_user", syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
    struct io_uring_params ring;
    memset(&ring, 0, sizeof ring);
    TRY("surface.io_uring_setup", syscall(SYS_io_uring_setup, 4, &ring));
    TRY("surface.io_uring_enter", syscall(SYS_io_uring_enter, 0, 1, 0, 0, 0, 0));
    TRY("surface.io_uring_register", syscall(SYS_io_uring_register, -1, 0, 0, 0));
    TRY("keys.keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1));
    TRY("keys.keyctl_join", syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "hostile"));
    TRY("keys.add_key", syscall(SYS_add_key, "user", "hostile", "x", 1, KEY_SPEC_PROCESS_KEYRING));
    TRY("keys.request_key", syscall(SYS_request_key, "user", "hostile", 0, 0));
    TRY("surface.fanotify_init", syscall(SYS_fanotify_init, FAN_CLASS_NOTIF, 0));
    TRY("surface.fanotify_fid", syscall(SYS_fanotify_init, FAN_REPORT_FID, 0));
    TRY("surface.listns", syscall(NR_LISTNS, buffer, 0, 0, 0));
    TRY("surface.statmount", syscall(NR_STATMOUNT, 0, buffer, sizeof buffer, 0));
    TRY("surface.listmount", syscall(NR_LISTMOUNT, 0, buffer, 1, 0));
    TRY("surface.lsm_set_self_attr", syscall(NR_LSM_SET_SELF_ATTR, 100, buffer, 32, 0));
}

static void handles(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {.head = {.handle_bytes = 8, .handle_type = 1}, .bytes = {2, 0, 0, 0}};
    TRY("handle.open_by_handle_at", syscall(SYS_open_by_handle_at, -100, &handle, O_RDONLY));
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int inode = 1; inode < 4; inode++) {
        handle.bytes[0] = (unsigned char)inode;
        TRY("handle.open_by_handle_at_root",
            syscall(SYS_open_by_handle_at, root, &handle, O_RDONLY));
    }
    int mount_id = 0;
    handle.head.handle_bytes = sizeof handle.bytes;
    TRY("probe.name_to_handle_at",
        syscall(SYS_name_to_handle_at, -100, "/workspace", &handle, &mount_id, 0));
}

static void administration(void)
{
    struct timeval tv = {.tv_sec = 1, .tv_usec = 2000000};     /* not a valid time */
    struct timespec ts = {.tv_sec = 1, .tv_nsec = 2000000000}; /* neither */
    struct timex slew = {.modes = ADJ_FREQUENCY};
    struct timex same = {.modes = 0};
    if (syscall(SYS_adjtimex, &same) >= 0)
        slew.freq = same.freq;
    TRY("admin.kexec_load", syscall(SYS_kexec_load, 0, 0, 0, -1L));
    TRY("admin.kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, 0, -1L));
    TRY("admin.init_module", syscall(SYS_init_module, buffer, 0, ""));
    TRY("admin.finit_module", syscall(SYS_finit_module, -1, "", 0));
    TRY("admin.delete_module", syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
    TRY("admin.reboot", syscall(SYS_reboot, 0, 0, 0, 0));
    TRY("admin.swapon", syscall(SYS_swapon, missing, 0));
    TRY("admin.swapoff", syscall(SYS_swapoff, missing));
    TRY("admin.acct", syscall(SYS_acct, missing));
    TRY("admin.quotactl", syscall(SYS_quotactl, 0x800007 << 8, missing, 0, 0));
    TRY("admin.quotactl_fd", syscall(NR_QUOTACTL_FD, -1, 0x800007 << 8, 0, 0));
    TRY("admin.syslog_read", syscall(SYS_syslog, 3, buffer, sizeof buffer));
    TRY("admin.syslog_size", syscall(SYS_syslog, 10, 0, 0));
    TRY("admin.settimeofday", syscall(SYS_settimeofday, &tv, 0));
    TRY("admin.clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &ts));
    TRY("admin.clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &slew));
    TRY("admin.adjtimex", syscall(SYS_adjtimex, &slew));
    TRY("admin.sethostname", syscall(SYS_sethostname, "cove", 4));
    TRY("admin.setdomainname", syscall(SYS_setdomainname, "cove", 4));
    TRY("admin.vhangup", syscall(SYS_vhangup));
    TRY("admin.nfsservctl", syscall(SYS_nfsservctl, 0, 0, 0));
    TRY("admin.lookup_dcookie", syscall(SYS_lookup_dcookie, 1L, buffer, sizeof buffer));
    TRY("x86.iopl", syscall(SYS_iopl, 3));
    TRY("x86.ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
    TRY("x86.modify_ldt", syscall(SYS_modify_ldt, 0, buffer, 64));
    TRY("x86.personality", syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */));
    TRY("x86.uselib", syscall(SYS_uselib, missing));
}

static void other_processes(void)
{
    char byte = 0;
    struct iovec local = {&byte, 1}, remote = {&byte, 1};
    pid_t parent = getppid();
    TRY("ptrace.traceme", syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
    TRY("ptrace.attach_init", syscall(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0));
    TRY("ptrace.seize_parent", syscall(SYS_ptrace, PTRACE_SEIZE, parent, 0, 0));
    TRY("ptrace.vm_readv_self", syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0));
    TRY("ptrace.vm_readv_init", syscall(SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0));
    TRY("ptrace.vm_writev_init", syscall(SYS_process_vm_writev, 1, &local, 1, &remote, 1, 0));
    int init = (int)syscall(SYS_pidfd_open, 1, 0);
    TRY("ptrace.pidfd_getfd", syscall(SYS_pidfd_getfd, init, 0, 0));
    TRY("ptrace.kcmp", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
    int pids[2] = {getpid(), 1};
    TRY("ptrace.migrate_pages", syscall(SYS_migrate_pages, pids[1], 1, buffer, buffer));
    TRY("ptrace.move_pages", syscall(SYS_move_pages, pids[1], 0, 0, 0, 0, 0));
}

int main(void)
{
    guard();
    mounts();
    namespaces();
    kernel_surface();
    handles();
    administration();
    other_processes();
    return finish();
}
