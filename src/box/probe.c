/* probe.c - one small experiment per layer
 *
 * Each runs in a child of its own and answers 0, or the errno that a sandbox would meet. An
 * experiment shows that the layer bites, not only that a call exists: the filter must refuse, the
 * memory limit must kill, the process limit must stop a fork. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scoped.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/seccomp.h"
#include "box/syscalls.h"
#include "box/veil.h"

#define DID_NOT_BITE EBADE /* the call worked, and had no effect */

struct trial {
    const struct cgroup_tree *cgroups;
    const struct power *power;
    struct cgroup group;
    bool has_group;
    struct cgroup_entry entry;
};

/* --- namespaces ------------------------------------------------------------------------------ */

static int try_clone(uint64_t flag)
{
    struct clone_args args = {.flags = flag, .exit_signal = SIGCHLD};
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return 0;
}

static int try_pid_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWPID);
}

static int try_mount_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWNS);
}

static int try_net_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWNET);
}

static int try_ipc_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWIPC);
}

static int try_uts_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWUTS);
}

static int try_cgroup_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWCGROUP);
}

static int try_user_ns(struct trial *t)
{
    (void)t;
    return try_clone(CLONE_NEWUSER);
}

static int try_uid(struct trial *t)
{
    uid_t uid = t->power->uid_first;
    if (t->power->uid_count == 0)
        return ENOENT;
    return setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ? errno : 0;
}

/* --- files ----------------------------------------------------------------------------------- */

static int try_root(struct trial *t)
{
    (void)t;
    if (unshare(CLONE_NEWNS) < 0 || sys_mount("none", "/tmp", "tmpfs", 0, "size=64k") < 0)
        return errno;
    return chdir("/tmp") < 0 || sys_pivot_root(".", ".") < 0 || sys_umount2(".", MNT_DETACH) < 0
               ? errno
               : 0;
}

static int mount_proc_in_child(void)
{
    return unshare(CLONE_NEWNS) < 0 ||
                   sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                             "hidepid=invisible,subset=pid") < 0
               ? errno
           : access("/proc/sys", F_OK) == 0 ? DID_NOT_BITE
                                            : 0;
}

static int try_proc(struct trial *t)
{
    (void)t;
    struct clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS, .exit_signal = SIGCHLD};
    int status;
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(mount_proc_in_child());
    return waitpid(pid, &status, 0) < 0 ? errno : WEXITSTATUS(status);
}

static int try_disk(struct trial *t)
{
    (void)t;
    static const char block[128 * KIB];
    if (unshare(CLONE_NEWNS) < 0 ||
        sys_mount("none", "/tmp", "tmpfs", 0, "size=64k,nr_inodes=8") < 0)
        return errno;
    scoped_fd int fd = open("/tmp/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    return write(fd, block, sizeof(block)) == (ssize_t)sizeof(block) ? DID_NOT_BITE : 0;
}

/* A thing in an overlay is another than what lies below, here an empty directory of veil_prepare().
 */
static int try_overlay(struct trial *t)
{
    (void)t;
    struct veil veil;
    struct error err;
    struct stat below, own;
    int fd;
    if (!veil_is_known())
        return ENODEV;
    if (unshare(CLONE_NEWNS) < 0)
        return errno;
    scoped_fd int tree = open("/tmp/none", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return errno;
    if (veil_open(&veil, VEIL_IMAGE, tree, &err) < 0 || veil_mount(&veil, &fd, &err) < 0)
        return err.sys_errno;
    veil_close(&veil);
    if (fstat(tree, &below) < 0 || fstat(fd, &own) < 0)
        return errno;
    return below.st_dev == own.st_dev ? DID_NOT_BITE : 0;
}

/* --- privileges ------------------------------------------------------------------------------ */

static int try_caps(struct trial *t)
{
    (void)t;
    return caps_drop_bounding() < 0 || caps_drop_all() < 0 ? errno : 0;
}

static int try_no_new_privs(struct trial *t)
{
    (void)t;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errno;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : DID_NOT_BITE;
}

static int try_seccomp(struct trial *t)
{
    static struct sock_filter filter[SECCOMP_FILTER_MAX];
    int error = try_no_new_privs(t);
    if (error)
        return error;
    if (seccomp_apply(filter, seccomp_compile(filter, SECCOMP_WHOLE, true)) < 0)
        return errno;
    return unshare(0) < 0 && errno == EPERM ? 0 : DID_NOT_BITE;
}

static int try_landlock(struct trial *t)
{
    int error = try_no_new_privs(t);
    if (error)
        return error;
    if (landlock_abi() == 0)
        return EOPNOTSUPP;
    const struct {
        uint64_t fs;
    } attr = {LANDLOCK_ACCESS_FS_READ_DIR};
    scoped_fd int ruleset = sys_landlock_create_ruleset(&attr, sizeof(attr), 0);
    if (ruleset < 0 || sys_landlock_restrict_self(ruleset) < 0)
        return errno;
    scoped_fd int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : DID_NOT_BITE;
}

static int try_rlimits(struct trial *t)
{
    (void)t;
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_FSIZE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &none) < 0)
        return errno;
    return open("/", O_PATH | O_CLOEXEC) < 0 ? 0 : DID_NOT_BITE;
}

/* --- cgroups --------------------------------------------------------------------------------- */

#define PROBE_MEMORY_BYTES (8 * MIB)

/* A child inside the group. What it answers, or 0 when it was killed. */
static int run_in_group(struct trial *t, int (*fn)(void))
{
    int status;
    if (!t->has_group)
        return ENODEV;
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (t->entry.into_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)t->entry.into_fd;
    }
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(cgroup_enter(&t->entry) < 0 ? errno : fn());
    if (waitpid(pid, &status, 0) < 0)
        return errno;
    return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
}

/* Being killed is the good end. */
static int touch_too_much(void)
{
    size_t len = 4 * PROBE_MEMORY_BYTES;
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    for (size_t i = 0; i < len; i += 4096)
        ((volatile char *)memory)[i] = 1;
    return DID_NOT_BITE;
}

static int try_cg_memory(struct trial *t)
{
    return cgroup_tree_has(t->cgroups, CGROUP_MEMORY) ? run_in_group(t, touch_too_much) : ENODEV;
}

/* The group holds one process, and that is us. */
static int fork_once(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid > 0 ? DID_NOT_BITE : errno == EAGAIN ? 0 : errno;
}

static int try_cg_pids(struct trial *t)
{
    return cgroup_tree_has(t->cgroups, CGROUP_PIDS) ? run_in_group(t, fork_once) : ENODEV;
}

static int do_nothing(void)
{
    return 0;
}

/* The quota was written when the group was made. */
static int try_cg_cpu(struct trial *t)
{
    return cgroup_tree_has(t->cgroups, CGROUP_CPU) ? run_in_group(t, do_nothing) : ENODEV;
}

static int (*const trials[LAYER_COUNT])(struct trial *t) = {
    [LAYER_PID_NS] = try_pid_ns,   [LAYER_MOUNT_NS] = try_mount_ns,
    [LAYER_NET_NS] = try_net_ns,   [LAYER_IPC_NS] = try_ipc_ns,
    [LAYER_UTS_NS] = try_uts_ns,   [LAYER_CGROUP_NS] = try_cgroup_ns,
    [LAYER_USER_NS] = try_user_ns, [LAYER_UID] = try_uid,
    [LAYER_ROOT] = try_root,       [LAYER_PROC] = try_proc,
    [LAYER_CAPS] = try_caps,       [LAYER_NO_NEW_PRIVS] = try_no_new_privs,
    [LAYER_SECCOMP] = try_seccomp, [LAYER_LANDLOCK] = try_landlock,
    [LAYER_RLIMITS] = try_rlimits, [LAYER_CG_MEMORY] = try_cg_memory,
    [LAYER_CG_PIDS] = try_cg_pids, [LAYER_CG_CPU] = try_cg_cpu,
    [LAYER_DISK] = try_disk,       [LAYER_OVERLAY] = try_overlay,
};

static int run_trial(struct trial *t, enum layer layer)
{
    int status;
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(trials[layer](t));
    if (waitpid(pid, &status, 0) < 0)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : DID_NOT_BITE;
}

/* Rootless and with nothing delegated, other means stand in: the memory watch, RLIMIT_NPROC. */
static bool has_stand_in(const struct power *power, enum layer layer)
{
    return power->is_rootless && (layer == LAYER_CG_MEMORY || layer == LAYER_CG_PIDS);
}

void probe_layers(struct spawn_probe_reply *out, const struct cgroup_tree *cgroups,
                  const struct power *power, unsigned slot)
{
    struct trial t = {.cgroups = cgroups, .power = power, .entry = {.into_fd = -1}};
    struct error err;
    const struct spawn_limits limits = {
        .memory_bytes = PROBE_MEMORY_BYTES, .pids = 1, .cpu_milli = 1000};
    t.has_group = cgroup_create(&t.group, cgroups, slot, &limits, &err) == 0 &&
                  cgroup_open_entry(&t.entry, &t.group, cgroups, &err) == 0;
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        int error = run_trial(&t, (enum layer)layer);
        out->layers[layer].sys_errno = (uint8_t)error;
        out->layers[layer].state = error == 0                               ? SPAWN_PROBE_HOLDS
                                   : has_stand_in(power, (enum layer)layer) ? SPAWN_PROBE_WEAKER
                                                                            : SPAWN_PROBE_MISSING;
    }
    cgroup_entry_release(&t.entry);
    for (int tries = 0; tries < 1000 && !cgroup_remove(&t.group, cgroups); tries++)
        usleep(1000); /* the kernel lets go of reaped processes a little later */
    out->landlock_abi = (uint8_t)landlock_abi();
    out->cgroup_version = (uint8_t)cgroups->version;
    out->cgroup_place = (uint8_t)cgroups->place;
    snprintf(out->cgroup_path, sizeof(out->cgroup_path), "%.*s", SPAWN_PATH_BYTES - 1,
             cgroups->path);
}
