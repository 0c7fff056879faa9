/* seal.c - the order of steps that seals a sandbox
 *
 * The order matters: the cgroup first, so that everything is charged and killed with it; mounts
 * while there is power to mount; then no_new_privs, landlock, ids, capabilities; seccomp last,
 * since the filter refuses what the earlier steps do. Code here runs between clone and exec: no
 * heap, no locks, no stdio, only data that was prepared before. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/seccomp.h"
#include "box/syscalls.h"
#include "wire/guest.h"

#define ANSWER_WAIT_MS 10000

struct seal {
    const struct seal_plan *plan;
    int report_fd;
    uint32_t layers;
    bool in_user_ns;
    const char *step; /* finer than the table's name, where a step sets it */
};

/* --- the steps ------------------------------------------------------------------------------- */

static int step_cgroup(struct seal *s)
{
    return cgroup_enter(&s->plan->entry);
}

/* Only now: the namespace shows the group in which it was made as its root. */
static int step_cgroup_ns(struct seal *s)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        return -1;
    s->layers |= LAYER_BIT(CGROUP_NS);
    return 0;
}

static int step_session(struct seal *s)
{
    (void)s;
    return setsid() < 0 ? -1 : 0;
}

/* The dear part of a clone; done by the child, it runs beside the spawner's work on the mounts. */
static int step_namespaces(struct seal *s)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return -1;
    s->layers |= LAYER_BIT(PID_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) | LAYER_BIT(IPC_NS) |
                 LAYER_BIT(UTS_NS);
    return 0;
}

static int take_root(struct seal *s, struct rootfs *root)
{
    char byte;
    int fds[FD_PASS_MAX];
    size_t count;
    struct pollfd wait = {.fd = s->report_fd, .events = POLLIN};
    if (poll(&wait, 1, ANSWER_WAIT_MS) != 1)
        return -1;
    ssize_t n = fd_recv(s->report_fd, &byte, 1, fds, &count);
    if (n != 1 || count != 2) {
        errno = n < 0 ? errno : EPROTO;
        return -1;
    }
    *root = (struct rootfs){.image_fd = fds[0], .storage_fd = fds[1]};
    return 0;
}

static int step_rootfs(struct seal *s)
{
    struct rootfs root;
    if (take_root(s, &root) < 0 || rootfs_enter(&root, &s->step) < 0)
        return -1;
    s->layers |= LAYER_BIT(ROOT) | LAYER_BIT(PROC) | LAYER_BIT(DISK);
    return 0;
}

static int step_hostname(struct seal *s)
{
    (void)s;
    return sethostname("cove", 4) < 0 || setdomainname("", 0) < 0 ? -1 : 0;
}

static void write_sysctl(const char *path, const char *text)
{
    scoped_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, text, strlen(text));
}

/* Where no cgroup counts them, buffers that TCP would let grow to megabytes stay small. Done
 * through the host's /proc, which shows the settings of our own network namespace; as good as the
 * host lets us. */
static int step_network(struct seal *s)
{
    if (s->plan->has_memory_cgroup)
        return 0;
    write_sysctl("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 65536");
    write_sysctl("/proc/sys/net/ipv4/tcp_wmem", "4096 65536 65536");
    return 0;
}

static int step_loopback(struct seal *s)
{
    (void)s;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    scoped_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &request);
}

static int lower_limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return -1;
    rlim_t capped = MIN(value, now.rlim_max); /* raising a hard limit takes a capability */
    const struct rlimit limit = {capped, capped};
    return setrlimit((__rlimit_resource_t)resource, &limit);
}

static int step_rlimits(struct seal *s)
{
    const struct spawn_limits *l = &s->plan->limits;
    /* A core limit of 0 stops files, but not the pipe helper of the host's core_pattern; 1 stops
     * both. */
    const rlim_t no_core = 1;
    /* A file that fills the disk shall meet ENOSPC; only a sparse monster meets RLIMIT_FSIZE. */
    const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, no_core},
        {RLIMIT_NOFILE, l->open_files},
        {RLIMIT_FSIZE, 2 * l->disk_bytes},
        {RLIMIT_MEMLOCK, 65536},
        {RLIMIT_MSGQUEUE, 65536},
        {RLIMIT_SIGPENDING, 1024},
        {RLIMIT_NICE, 0},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_STACK, 8 * MIB},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (lower_limit(limits[i].resource, limits[i].value) < 0)
            return -1;
    }
    /* The spawner adds up the whole sandbox and kills it over the limit; this bounds one process
     * until it looks. The slack is for what interpreters reserve and never touch. */
    if (!s->plan->has_memory_cgroup && lower_limit(RLIMIT_DATA, l->memory_bytes + 4 * GIB) < 0)
        return -1;
    s->layers |= LAYER_BIT(RLIMITS);
    return 0;
}

static int report(struct seal *s, enum seal_event event, int error, int layer, const char *step)
{
    struct seal_report r = {
        .event = event, .sys_errno = error, .layers = s->layers, .layer = layer};
    if (step)
        memcpy(r.step, step, MIN(strlen(step), sizeof(r.step) - 1));
    return send(s->report_fd, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r) ? 0 : -1;
}

/* A user namespace in which nothing but the sandbox's own uid exists. It owns none of the other
 * namespaces: those were made outside, so that even full power in here would be power over nothing.
 * Made while still privileged, since hosts may keep it from ordinary users; the spawner maps, and
 * the steps up to the ids do not wait for it. */
static int step_user_ns(struct seal *s)
{
    if (setgroups(0, NULL) < 0 && !(s->plan->is_rootless && errno == EPERM))
        return -1;
    if (caps_drop_bounding() < 0)
        return -1;
    if (unshare(CLONE_NEWUSER) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 1) < 0) /* else the maps belong to a root that may not be ours */
        return -1;
    s->in_user_ns = true;
    return report(s, SEAL_MAP_ME, 0, -1, NULL);
}

static int step_id_maps(struct seal *s)
{
    char go;
    struct pollfd wait = {.fd = s->report_fd, .events = POLLIN};
    if (!s->in_user_ns)
        return 0;
    if (poll(&wait, 1, ANSWER_WAIT_MS) != 1 || recv(s->report_fd, &go, 1, 0) != 1)
        return -1;
    s->layers |= LAYER_BIT(USER_NS);
    return 0;
}

static int step_ids(struct seal *s)
{
    uid_t uid = s->in_user_ns ? GUEST_UID : s->plan->uid;
    if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        return -1;
    uid_t r, e, f;
    if (getresuid(&r, &e, &f) < 0 || r != uid || e != uid || f != uid || uid == 0) {
        errno = EPERM;
        return -1;
    }
    if (s->plan->has_own_uid)
        s->layers |= LAYER_BIT(UID);
    return 0;
}

/* Processes are counted per user namespace and uid, so this one comes when both are the sandbox's
 * own; set earlier it would count, and limit, what else the spawner's user runs. */
static int step_process_limit(struct seal *s)
{
    /* Behind a pids cgroup it is the second hand, and must not be met first: it does not count. */
    rlim_t slack = s->plan->has_pids_cgroup ? 64 : 0;
    return lower_limit(RLIMIT_NPROC, s->plan->limits.pids + slack);
}

static int step_caps(struct seal *s)
{
    /* A new user namespace came with a full bounding set of its own. */
    if (s->in_user_ns && caps_drop_bounding() < 0)
        return -1;
    if (caps_drop_all() < 0)
        return -1;
    s->layers |= LAYER_BIT(CAPS);
    return 0;
}

static int step_no_new_privs(struct seal *s)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    s->layers |= LAYER_BIT(NO_NEW_PRIVS);
    return 0;
}

static int step_landlock(struct seal *s)
{
    if (landlock_apply() < 0)
        return -1;
    s->layers |= LAYER_BIT(LANDLOCK);
    return 0;
}

/* Changing ids has cleared the signal, so it is set here. It covers a spawner that dies from now
 * on; the closed report socket tells of one that died before. */
static int step_parent_death(struct seal *s)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -1;
    struct pollfd alive = {.fd = s->report_fd, .events = POLLIN};
    if (poll(&alive, 1, 0) != 0) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}

/* 0, 1, 2 are /dev/null of the new root, 3 is the control socket, and nothing else stays. */
static int step_fds(struct seal *s)
{
    int control = fcntl(s->plan->control_fd, F_DUPFD_CLOEXEC, 64);
    int init = fcntl(s->plan->init_fd, F_DUPFD_CLOEXEC, 64);
    int report_fd = fcntl(s->report_fd, F_DUPFD_CLOEXEC, 64);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (control < 0 || init < 0 || report_fd < 0 || null < 0)
        return -1;
    s->report_fd = report_fd;
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return -1;
    if (dup3(control, GUEST_CONTROL_FD, 0) < 0 || dup3(init, GUEST_CONTROL_FD + 1, O_CLOEXEC) < 0)
        return -1;
    if (dup3(report_fd, GUEST_CONTROL_FD + 2, O_CLOEXEC) < 0)
        return -1;
    s->report_fd = GUEST_CONTROL_FD + 2;
    return close_range(GUEST_CONTROL_FD + 3, ~0u, 0);
}

static int step_seccomp(struct seal *s)
{
    s->layers |= LAYER_BIT(SECCOMP);
    return seccomp_apply(s->plan->filter, s->plan->filter_len);
}

static int step_exec(struct seal *s)
{
    static char name[] = "cove-init";
    char *const argv[] = {name, NULL};
    static char *const envp[] = {NULL};
    if (report(s, SEAL_DONE, 0, -1, NULL) < 0)
        return -1;
    return sys_execveat(GUEST_CONTROL_FD + 1, argv, envp);
}

/* `layer` is what is missing when the step fails; a missing layer is skipped where its need (see
 * layer.h) says that it may be. -1: the step is no layer, its failure is final. */
static const struct {
    const char *name;
    int layer;
    int (*run)(struct seal *s);
} steps[] = {
    {"join cgroup", -1, step_cgroup},
    {"namespaces", LAYER_MOUNT_NS, step_namespaces},
    {"cgroup namespace", LAYER_CGROUP_NS, step_cgroup_ns},
    {"new session", -1, step_session},
    {"network settings", -1, step_network},
    {"root file system", LAYER_ROOT, step_rootfs},
    {"host name", -1, step_hostname},
    {"loopback", -1, step_loopback},
    {"rlimits", LAYER_RLIMITS, step_rlimits},
    {"user namespace", LAYER_USER_NS, step_user_ns},
    {"no_new_privs", LAYER_NO_NEW_PRIVS, step_no_new_privs},
    {"landlock", LAYER_LANDLOCK, step_landlock},
    {"id maps", -1, step_id_maps},
    {"user and group ids", LAYER_UID, step_ids},
    {"process limit", LAYER_RLIMITS, step_process_limit},
    {"capabilities", LAYER_CAPS, step_caps},
    {"parent death signal", -1, step_parent_death},
    {"file descriptors", -1, step_fds},
    {"seccomp", LAYER_SECCOMP, step_seccomp},
    {"exec cove-init", -1, step_exec},
};

/* "Not there", as opposed to "went wrong": only the former may be skipped. */
static bool is_absence(int error)
{
    return error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == ENOSPC ||
           error == EPERM || error == EUSERS;
}

static bool may_skip(const struct seal *s, int layer, int error)
{
    if (layer < 0 || !is_absence(error))
        return false;
    const struct layer_info *info = layer_info((enum layer)layer);
    switch (s->plan->is_rootless ? info->as_user : info->as_root) {
    case LAYER_EXTRA:
        return true;
    case LAYER_NEEDED:
        return s->plan->allow_degraded;
    case LAYER_ALWAYS:
        return false;
    }
    return false;
}

static NORETURN void child_main(const struct seal_plan *plan, int report_fd)
{
    struct seal s = {.plan = plan, .report_fd = report_fd};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        s.step = steps[i].name;
        if (steps[i].run(&s) == 0 || may_skip(&s, steps[i].layer, errno))
            continue;
        report(&s, SEAL_FAILED, errno, steps[i].layer, s.step);
        break;
    }
    _exit(127);
}

/* --- the spawner's side ---------------------------------------------------------------------- */

int seal_start(struct seal_child *out, const struct seal_plan *plan, struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make report socket");
    scoped_fd int ours = pair[0];
    scoped_fd int theirs = pair[1];

    int pid_fd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_NEWPID,
        .pidfd = (uintptr_t)&pid_fd,
        .exit_signal = SIGCHLD,
    };
    if (plan->entry.into_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->entry.into_fd;
    }
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return error_sys(err, "clone into a pid namespace");
    if (pid == 0) {
        close(ours); /* so that the spawner's death closes the socket */
        child_main(plan, theirs);
    }
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        BUG_ON(true);
    *out = (struct seal_child){.pid = pid, .pid_fd = pid_fd, .report_fd = take_fd(&ours)};
    return 0;
}

int seal_give_root(const struct seal_child *child, const struct rootfs *root, struct error *err)
{
    const int fds[2] = {root->image_fd, root->storage_fd};
    if (fd_send(child->report_fd, "", 1, fds, 2) < 0)
        return error_sys(err, "hand over the mounts");
    return 0;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct error *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    scoped_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return error_sys(err, "write %s", file);
    return 0;
}

int seal_map_ids(const struct seal_child *child, const struct seal_plan *plan, struct error *err)
{
    char map[64];
    snprintf(map, sizeof(map), "%d %u 1\n", GUEST_UID, plan->uid);
    /* With no power over groups (rootless) the kernel wants setgroups given up first. */
    if (plan->is_rootless && write_proc(child->pid, "setgroups", "deny", err) < 0)
        return -1;
    if (write_proc(child->pid, "uid_map", map, err) < 0 ||
        write_proc(child->pid, "gid_map", map, err) < 0)
        return -1;
    if (send(child->report_fd, "", 1, MSG_NOSIGNAL) != 1)
        return error_sys(err, "answer the child");
    return 0;
}
