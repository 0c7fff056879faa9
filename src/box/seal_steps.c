/* seal_steps.c - what a process does to seal itself, step by step */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seal_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/seccomp.h"
#include "box/syscalls.h"
#include "wire/guest.h"

#define ANSWER_WAIT_MS 10000
#define OOM_SCORE      "500"

int seal_report(struct seal *s, enum seal_event event, int error, int layer, const char *step)
{
    struct seal_report r = {
        .event = event, .sys_errno = error, .layers = s->layers, .layer = layer};
    if (step)
        memcpy(r.step, step, MIN(strlen(step), sizeof(r.step) - 1));
    return send(s->report_fd, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r) ? 0 : -1;
}

int seal_step_born(struct seal *s)
{
    return seal_report(s, SEAL_BORN, 0, -1, NULL);
}

int seal_take_root(struct seal *s, struct rootfs *root)
{
    char which;
    int fds[FD_PASS_MAX], all[SEAL_ROOT_FDS] = {-1, -1, -1};
    size_t count, next = 0;
    struct pollfd wait = {.fd = s->report_fd, .events = POLLIN};
    if (poll(&wait, 1, ANSWER_WAIT_MS) != 1)
        return -1;
    ssize_t n = fd_recv(s->report_fd, &which, 1, fds, &count);
    for (size_t i = 0; n == 1 && i < SEAL_ROOT_FDS; i++) {
        if (which & 1 << i && next < count)
            all[i] = fds[next++];
    }
    if (n != 1 || count == 0 || next != count) {
        errno = n < 0 ? errno : EPROTO;
        return -1;
    }
    *root = (struct rootfs){.image_fd = all[0], .storage_fd = all[1], .packages_fd = all[2]};
    return 0;
}

int seal_step_cgroup(struct seal *s)
{
    return cgroup_enter(&s->plan->entry);
}

/* Only now: the namespace shows the group in which it was made as its root. */
int seal_step_cgroup_ns(struct seal *s)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        return -1;
    s->layers |= LAYER_BIT(CGROUP_NS);
    return 0;
}

int seal_step_session(struct seal *s)
{
    (void)s;
    return setsid() < 0 ? -1 : 0;
}

/* The dear part of a clone; done by the child, it runs beside the spawner's work on the mounts. */
int seal_step_namespaces(struct seal *s)
{
    int net_fd = s->plan->net_fd;
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | (net_fd < 0 ? CLONE_NEWNET : 0)) < 0 ||
        (net_fd >= 0 && setns(net_fd, CLONE_NEWNET) < 0))
        return -1;
    s->layers |= LAYER_BIT(PID_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(NET_NS) | LAYER_BIT(IPC_NS) |
                 LAYER_BIT(UTS_NS);
    return 0;
}

int seal_step_hostname(struct seal *s)
{
    (void)s;
    return sethostname("cove", 4) < 0 || setdomainname("", 0) < 0 ? -1 : 0;
}

static void write_sysctl(int dir_fd, const char *name, const char *text)
{
    scoped_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, text, strlen(text));
}

/* Where no cgroup counts them, buffers that TCP would let grow to megabytes stay small. Done
 * through the host's /proc, which shows whoever looks the settings of his own network namespace; as
 * good as the host lets us. */
int seal_step_network(struct seal *s)
{
    if (s->plan->sysctl_fd < 0)
        return 0;
    write_sysctl(s->plan->sysctl_fd, "net/ipv4/tcp_rmem", "4096 65536 65536");
    write_sysctl(s->plan->sysctl_fd, "net/ipv4/tcp_wmem", "4096 65536 65536");
    return 0;
}

/* Files of a network namespace that tell of the whole machine: sockets and their memory, packets of
 * each processor, routes looked up. A sandbox would see what others do, to the packet. Each
 * namespace has files of its own, whose rights stay with it when it is used again. */
int seal_step_network_figures(struct seal *s)
{
    static const char *const of_all[] = {"sockstat", "softnet_stat", "protocols", "stat/rt_cache",
                                         "rt_acct"};
    if (s->plan->net_fd >= 0)
        return 0;
    scoped_fd int dir = open("/proc/self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(of_all); i++) {
        if (fchmodat(dir, of_all[i], 0, 0) < 0 && errno != ENOENT)
            return -1;
    }
    return 0;
}

int seal_raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    scoped_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &request);
}

int seal_step_loopback(struct seal *s)
{
    return s->plan->net_fd >= 0 ? 0 : seal_raise_loopback();
}

static int lower_limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return -1;
    rlim_t capped = MIN(value, now.rlim_max); /* raising a hard limit takes a capability */
    const struct rlimit limit = {capped, capped};
    if (now.rlim_cur == capped && now.rlim_max == capped)
        return 0; /* a zygote may read its core limit, but not change it any more */
    return setrlimit(resource, &limit);
}

/* A core limit of 0 stops files, but not the pipe helper of the host's core_pattern; 1 stops both.
 */
int seal_step_no_core(struct seal *s)
{
    (void)s;
    return lower_limit(RLIMIT_CORE, 1);
}

int seal_step_rlimits(struct seal *s)
{
    const struct spawn_limits *l = &s->plan->limits;
    /* A file that fills the disk shall meet ENOSPC; only a sparse monster meets RLIMIT_FSIZE. POSIX
     * queues landlock refuses; nobody has any where it is missing. */
    const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_FSIZE, 2 * l->disk_bytes},
        {RLIMIT_MSGQUEUE, 0},
        {RLIMIT_NICE, 0},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_STACK, 8 * MIB},
        /* that of open files: see seal_step_fds(); of what is counted per user: see
         * seal_step_user_limits() */
    };
    if (seal_step_no_core(s) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (lower_limit(limits[i].resource, limits[i].value) < 0)
            return -1;
    }
    /* The spawner adds up the whole sandbox and kills it over the limit; this bounds one process
     * until it looks. The slack is for what interpreters reserve and never touch: Node takes 10 GiB
     * for each WebAssembly memory, and the tables for all of it would be a quarter of a GiB. */
    if (!s->plan->has_memory_cgroup && (lower_limit(RLIMIT_DATA, l->memory_bytes + 4 * GIB) < 0 ||
                                        lower_limit(RLIMIT_AS, l->memory_bytes + 128 * GIB) < 0))
        return -1;
    s->layers |= LAYER_BIT(RLIMITS);
    return 0;
}

/* What the kernel counts for each user (queued signals, timers, instances of inotify) it counts for
 * the maker of a user namespace as well, and compares with what that one may have. So the maker is
 * the uid that the namespace is for, not root, who makes them all. */
static int become_maker(const struct seal *s)
{
    uid_t uid = s->plan->uid;
    if (!s->plan->has_own_uid)
        return 0;
    return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresgid(uid, uid, uid) < 0 ||
                   setresuid(uid, uid, uid) < 0
               ? -1
               : caps_raise();
}

/* A user namespace in which nothing but the sandbox's own uid exists. It owns none of the other
 * namespaces: those were made outside, so that even full power in here would be power over nothing.
 * Made while still privileged, since hosts may keep it from ordinary users; the spawner maps, and
 * the steps up to the ids do not wait for it. */
int seal_step_user_ns(struct seal *s)
{
    if (setgroups(0, NULL) < 0 && !(s->plan->is_rootless && errno == EPERM))
        return -1;
    if (become_maker(s) < 0) {
        errno = EIO; /* no absence of a layer, whatever it was */
        return -1;
    }
    if (unshare(CLONE_NEWUSER) < 0) {
        /* Done without one where that may be; then this is the last moment with the power to. A new
         * one brings a bounding set of its own, which step_caps empties. */
        int error = errno;
        if (caps_drop_bounding() == 0)
            errno = error;
        else
            errno = EIO;
        return -1;
    }
    if (prctl(PR_SET_DUMPABLE, 1) < 0) /* else the maps belong to a root that may not be ours */
        return -1;
    s->in_user_ns = true;
    return seal_report(s, SEAL_MAP_ME, 0, -1, NULL);
}

int seal_step_id_maps(struct seal *s)
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

int seal_step_ids(struct seal *s)
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

/* Processes, queued signals with timers, and locked memory are counted per user namespace and uid,
 * so these come when both are the sandbox's own. Set earlier, they would count, and limit, what
 * else the spawner's user runs: the limit that a maker of a namespace has is that of all that he
 * makes together. Of signals a sandbox has so few that a hundred of them leave most of the host's.
 */
int seal_step_user_limits(struct seal *s)
{
    /* Behind a pids cgroup it is the second hand, and must not be met first: it does not count. */
    rlim_t slack = s->plan->has_pids_cgroup ? 64 : 0;
    if (lower_limit(RLIMIT_MEMLOCK, 64 * KIB) < 0 || lower_limit(RLIMIT_SIGPENDING, 256) < 0)
        return -1;
    return lower_limit(RLIMIT_NPROC, s->plan->limits.pids + slack);
}

int seal_step_caps(struct seal *s)
{
    /* A new user namespace came with a full bounding set of its own. */
    if (s->in_user_ns && caps_drop_bounding() < 0)
        return -1;
    if (caps_drop_all() < 0)
        return -1;
    s->layers |= LAYER_BIT(CAPS);
    return 0;
}

int seal_step_no_new_privs(struct seal *s)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    s->layers |= LAYER_BIT(NO_NEW_PRIVS);
    return 0;
}

/* A killer that looks for memory shall find what runs inside before it finds the server. What is
 * sealed cannot write to /proc any more, and so cannot take it back; where we have the capability
 * for it this is a floor, too. EACCES: whoever started the spawner has put all of this higher on
 * the list, as Kubernetes does. */
int seal_step_oom_score(struct seal *s)
{
    if (s->plan->is_rootless && prctl(PR_SET_DUMPABLE, 1) < 0) /* else the file is another's */
        return -1;
    scoped_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return write(fd, OOM_SCORE, strlen(OOM_SCORE)) < 0 && errno != EACCES ? -1 : 0;
}

int seal_step_landlock(struct seal *s)
{
    if (landlock_apply() < 0)
        return -1;
    s->layers |= LAYER_BIT(LANDLOCK);
    return 0;
}

/* Changing ids has cleared the signal, so it is set here. It covers a spawner that dies from now
 * on; the closed report socket tells of one that died before. */
int seal_step_parent_death(struct seal *s)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -1;
    struct pollfd alive = {.fd = s->report_fd}; /* hung up is told unasked */
    if (poll(&alive, 1, 0) != 0) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}

/* Out of the way of the places that the next step fills. */
static bool lift_fd(int *fd)
{
    *fd = fcntl(*fd, F_DUPFD_CLOEXEC, 64);
    return *fd >= 0;
}

/* 0, 1, 2 are /dev/null of the new root, 3 is the control socket. What is above closes itself at
 * the exec, and nothing else stays. Their limit comes last: until here we have those of the
 * spawner, which grow with its sandboxes, and no step that opens one could do so above the limit of
 * ours. */
int seal_step_fds(struct seal *s)
{
    int control = s->plan->control_fd, init = s->plan->init_fd, channel = s->plan->channel_fd;
    int gate = s->plan->gate_fd;
    bool has_channel = channel >= 0, has_gate = gate >= 0;
    if (!lift_fd(&control) || !lift_fd(&init) || (has_channel && !lift_fd(&channel)) ||
        (has_gate && !lift_fd(&gate)) || !lift_fd(&s->report_fd))
        return -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return -1;
    if (dup3(control, GUEST_CONTROL_FD, 0) < 0 || dup3(init, SEAL_INIT_FD, O_CLOEXEC) < 0 ||
        dup3(s->report_fd, SEAL_REPORT_FD, O_CLOEXEC) < 0 ||
        (has_channel && dup3(channel, SEAL_CHANNEL_FD, O_CLOEXEC) < 0) ||
        (has_gate && dup3(gate, SEAL_GATE_FD, O_CLOEXEC) < 0))
        return -1;
    s->report_fd = SEAL_REPORT_FD;
    if (sys_close_range(SEAL_CHANNEL_FD + (unsigned)has_channel + (unsigned)has_gate, ~0u) < 0)
        return -1;
    return lower_limit(RLIMIT_NOFILE, s->plan->limits.open_files);
}

int seal_step_seccomp(struct seal *s)
{
    s->layers |= LAYER_BIT(SECCOMP);
    return seccomp_apply(s->plan->filter, s->plan->filter_len);
}

/* --- running a table ------------------------------------------------------------------------- */

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

int seal_run(struct seal *s, const struct seal_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        s->step = steps[i].name;
        if (steps[i].run(s) == 0 || may_skip(s, steps[i].layer, errno))
            continue;
        seal_report(s, SEAL_FAILED, errno, steps[i].layer, s->step);
        return -1;
    }
    return 0;
}
