/* seal.c - the order of steps that seals a sandbox
 *
 * The order matters: the cgroup first, so that everything is charged and killed with it; mounts
 * while there is power to mount; then no_new_privs, landlock, ids, capabilities; seccomp last,
 * since the filter refuses what the earlier steps do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "box/seal_steps.h"
#include "box/syscalls.h"
#include "wire/guest.h"

/* --- in the child ---------------------------------------------------------------------------- */

static int step_rootfs(struct seal *s)
{
    struct rootfs root;
    if (seal_take_root(s, &root) < 0 || rootfs_enter(&root, &s->step) < 0)
        return -1;
    s->layers |= LAYER_BIT(ROOT) | LAYER_BIT(PROC) | LAYER_BIT(DISK);
    return 0;
}

static int step_exec(struct seal *s)
{
    static char name[] = "cove-init";
    char *const argv[] = {name, NULL};
    static char *const envp[] = {NULL};
    if (seal_report(s, SEAL_DONE, 0, -1, NULL) < 0)
        return -1;
    return sys_execveat(SEAL_INIT_FD, argv, envp);
}

static const struct seal_step steps[] = {
    {"join cgroup", -1, seal_step_cgroup},
    {"score for the memory killer", -1, seal_step_oom_score}, /* while it can be written */
    {"namespaces", LAYER_MOUNT_NS, seal_step_namespaces},
    {"cgroup namespace", LAYER_CGROUP_NS, seal_step_cgroup_ns},
    {"new session", -1, seal_step_session},
    {"network settings", -1, seal_step_network},
    {"root file system", LAYER_ROOT, step_rootfs},
    {"network figures", -1, seal_step_network_figures}, /* in the /proc of its own */
    {"host name", -1, seal_step_hostname},
    {"loopback", -1, seal_step_loopback},
    {"rlimits", LAYER_RLIMITS, seal_step_rlimits},
    {"user namespace", LAYER_USER_NS, seal_step_user_ns},
    {"no_new_privs", LAYER_NO_NEW_PRIVS, seal_step_no_new_privs},
    {"landlock", LAYER_LANDLOCK, seal_step_landlock},
    {"id maps", -1, seal_step_id_maps},
    {"user and group ids", LAYER_UID, seal_step_ids},
    {"limits of the user", LAYER_RLIMITS, seal_step_user_limits},
    {"capabilities", LAYER_CAPS, seal_step_caps},
    {"parent death signal", -1, seal_step_parent_death},
    {"file descriptors", -1, seal_step_fds},
    {"seccomp", LAYER_SECCOMP, seal_step_seccomp},
    {"exec cove-init", -1, step_exec},
};

static NORETURN void child_main(const struct seal_plan *plan, int report_fd)
{
    struct seal s = {.plan = plan, .report_fd = report_fd};
    (void)!seal_run(&s, steps, ARRAY_LEN(steps));
    _exit(127);
}

/* --- the spawner's side ---------------------------------------------------------------------- */

int seal_open_report(int *ours, int *theirs, struct error *err)
{
    int on = 1;
    if (fd_make_channel(ours, theirs, err) < 0)
        return -1;
    if (setsockopt(*ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        fd_set_nonblock(*ours) < 0)
        BUG_ON(true);
    return 0;
}

/* The kernel itself says who sent it, in our own numbers. A process that is no child of ours cannot
 * be waited for, and so is not taken. */
static int know(struct seal_child *child, struct msghdr *msg)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    struct ucred who;
    siginfo_t info;
    errno = EPROTO;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return -1;
    memcpy(&who, CMSG_DATA(c), sizeof(who));
    scoped_fd int fd = who.pid > 0 ? (int)syscall(SYS_pidfd_open, who.pid, 0) : -1;
    if (fd < 0 || waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    child->pid = who.pid;
    child->pid_fd = take_fd(&fd);
    return 0;
}

ssize_t seal_receive(struct seal_child *child, struct seal_report *out, struct fd_bag *strays)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * FD_BAG_MAX)];
    } control;
    struct iovec iov = {out, sizeof(*out)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    /* One that ends with something unread in its queue resets the connection; its last words are
     * there all the same, behind that error. */
    ssize_t n = recvmsg(child->report_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == ECONNRESET)
        n = recvmsg(child->report_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    strays->count = 0;
    if (n > 0)
        fd_collect(&msg, strays);
    if (strays->count > 0) {
        errno = EPROTO;
        return -1;
    }
    if (n > 0 && child->pid == 0 && know(child, &msg) < 0)
        return -1;
    return n;
}

int seal_start(struct seal_child *out, const struct seal_plan *plan, struct error *err)
{
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    if (seal_open_report(&ours, &theirs, err) < 0)
        return -1;
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
    *out = (struct seal_child){.pid = pid, .pid_fd = pid_fd, .report_fd = take_fd(&ours)};
    return 0;
}

int seal_give_root(const struct seal_child *child, const struct rootfs *root, struct error *err)
{
    const int all[SEAL_ROOT_FDS] = {root->image_fd, root->storage_fd, root->packages_fd};
    int fds[SEAL_ROOT_FDS];
    size_t count = 0;
    char which = 0; /* a bit for each that comes */
    for (size_t i = 0; i < SEAL_ROOT_FDS; i++) {
        if (all[i] < 0)
            continue;
        which |= (char)(1 << i);
        fds[count++] = all[i];
    }
    if (fd_send(child->report_fd, &which, 1, fds, count) < 0)
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

int seal_let_go(const struct seal_child *child, struct error *err)
{
    if (send(child->report_fd, "", 1, MSG_NOSIGNAL) != 1)
        return error_sys(err, "answer the child");
    return 0;
}

int seal_write_maps(const struct seal_child *child, const char *map, bool is_rootless,
                    struct error *err)
{
    /* With no power over groups (rootless) the kernel wants setgroups given up first. */
    if (is_rootless && write_proc(child->pid, "setgroups", "deny", err) < 0)
        return -1;
    if (write_proc(child->pid, "uid_map", map, err) < 0 ||
        write_proc(child->pid, "gid_map", map, err) < 0)
        return -1;
    return seal_let_go(child, err);
}

int seal_map_ids(const struct seal_child *child, const struct seal_plan *plan, struct error *err)
{
    char map[64];
    snprintf(map, sizeof(map), "%d %u 1\n", GUEST_UID, plan->uid);
    return seal_write_maps(child, map, plan->is_rootless, err);
}
