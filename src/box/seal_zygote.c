/* seal_zygote.c - the steps between a clone of the spawner and a confined python */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/seal_zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/scoped.h"
#include "box/caps.h"
#include "box/seal_steps.h"
#include "box/syscalls.h"

struct zygote_seal {
    struct seal seal; /* first: the steps get a pointer to it */
    const struct seal_zygote_plan *plan;
};

static const struct seal_zygote_plan *plan_of(const struct seal *s)
{
    return ((const struct zygote_seal *)(const void *)s)->plan;
}

/* --- in the child ---------------------------------------------------------------------------- */

/* Not the cgroup namespace: a process may only be cloned into groups that its own one shows. */
static int step_enter(struct seal *s)
{
    return setns(plan_of(s)->shell_pid_fd,
                 CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
}

/* What the spawner blocks and ignores is no python's business, nor that of its copies. */
static int step_signals(struct seal *s)
{
    (void)s;
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

static int step_ids(struct seal *s)
{
    (void)s;
    return setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ? -1 : 0;
}

/* Namespaces and mounts, their root, ids, the bounding set, the loopback interface of a sandbox;
 * and, where all have the uid that is root here, what the kernel wants of those who map it once
 * more. */
static int step_caps(struct seal *s)
{
    static const int kept[] = {CAP_SYS_ADMIN, CAP_SYS_CHROOT, CAP_SETUID, CAP_SETGID,
                               CAP_SETPCAP,   CAP_NET_ADMIN,  CAP_SETFCAP};
    return caps_keep(kept, ARRAY_LEN(kept) - (s->plan->has_own_uid ? 1 : 0));
}

static int step_fds(struct seal *s)
{
    const int *fds = plan_of(s)->fds;
    int high[ZYGOTE_FD_END];
    for (int i = 2; i < ZYGOTE_FD_END; i++) {
        high[i] = fcntl(i == ZYGOTE_SOCKET_FD ? s->report_fd : fds[i], F_DUPFD_CLOEXEC, 64);
        if (high[i] < 0)
            return -1;
    }
    for (int i = 2; i < ZYGOTE_FD_END; i++) {
        if (dup2(high[i], i) < 0)
            return -1;
    }
    s->report_fd = ZYGOTE_SOCKET_FD;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return -1;
    return sys_close_range(ZYGOTE_FD_END, ~0u);
}

/* No flag that changes what a program sees: children of the zygote are what users get. */
static int step_exec(struct seal *s)
{
    static const char *const programs[] = {"/usr/bin/python3", "/usr/local/bin/python3"};
    static char code[] = "import os; exec(compile(os.pread(5, 1 << 20, 0), '<zygote>', 'exec'))";
    static char name[] = "python3", flag[] = "-c";
    char *const argv[] = {name, flag, code, NULL};
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", home[] = "HOME=/workspace",
                lang[] = "LANG=C.UTF-8", bytecode[] = "PYTHONDONTWRITEBYTECODE=1",
                site[] = "PYTHONNOUSERSITE=1",
                bind[] = "LD_BIND_NOW=1"; /* once, not in each copy */
    static char *const envp[] = {path, home, lang, bytecode, site, bind, NULL};
    _Static_assert(ZYGOTE_PROGRAM_FD == 5, "see the code above");
    if (seal_report(s, SEAL_DONE, 0, -1, NULL) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        execve(programs[i], argv, envp);
    return -1;
}

static const struct seal_step steps[] = {
    {"zygote: first word", -1, seal_step_born},
    {"zygote: score for the memory killer", -1, seal_step_oom_score}, /* and of all it makes */
    {"zygote: namespaces", -1, step_enter},
    {"zygote: new session", -1, seal_step_session},
    {"zygote: signals", -1, step_signals},
    {"zygote: core limit", -1, seal_step_no_core}, /* which it cannot change once it is confined */
    {"zygote: user namespace", -1, seal_step_user_ns},
    {"zygote: no_new_privs", -1, seal_step_no_new_privs},
    {"zygote: id maps", -1, seal_step_id_maps},
    {"zygote: user and group ids", -1, step_ids},
    {"zygote: capabilities", -1, step_caps},
    {"zygote: parent death signal", -1, seal_step_parent_death},
    {"zygote: file descriptors", -1, step_fds},
    {"zygote: exec python3", -1, step_exec},
};

static NORETURN void child_main(const struct seal_zygote_plan *plan, int report_fd)
{
    struct zygote_seal s = {.seal = {.plan = plan->shell, .report_fd = report_fd}, .plan = plan};
    (void)!seal_run(&s.seal, steps, ARRAY_LEN(steps));
    _exit(127);
}

/* --- the helper between ---------------------------------------------------------------------- */

/* The pid namespace for children can be changed but, rootless, not changed back: so it is a helper
 * that changes its own, and the zygote becomes its sibling, a child of the spawner's. */
static NORETURN void helper_main(const struct seal_zygote_plan *plan, int report_fd)
{
    struct zygote_seal s = {.seal = {.plan = plan->shell, .report_fd = report_fd}, .plan = plan};
    pid_t wanted = ZYGOTE_PID;
    struct clone_args args = {
        .flags = CLONE_PARENT, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1};
    const char *step = "zygote: join cgroup";
    if (cgroup_enter(&plan->shell->entry) == 0) {
        step = "zygote: pid namespace";
        if (setns(plan->shell_pid_fd, CLONE_NEWPID) == 0) {
            step = "zygote: clone";
            pid_t pid = sys_clone3(&args);
            if (pid == 0)
                child_main(plan, report_fd);
            if (pid > 0)
                _exit(0);
        }
    }
    seal_report(&s.seal, SEAL_FAILED, errno, -1, step);
    _exit(1);
}

/* --- the spawner's side ---------------------------------------------------------------------- */

int seal_zygote_start(struct seal_child *out, const struct seal_zygote_plan *plan,
                      struct error *err)
{
    scoped_fd int ours = -1;
    scoped_fd int theirs = -1;
    if (seal_open_report(&ours, &theirs, err) < 0)
        return -1;
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (plan->shell->entry.into_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)plan->shell->entry.into_fd;
    }
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return error_sys(err, "clone the zygote's helper");
    if (pid == 0) {
        close(ours);
        helper_main(plan, theirs);
    }
    waitpid(pid, NULL, 0);
    *out = (struct seal_child){.pid = 0, .pid_fd = -1, .report_fd = take_fd(&ours)};
    return 0;
}

int seal_zygote_map_ids(const struct seal_child *child, const struct seal_plan *shell,
                        const struct power *power, struct error *err)
{
    char map[256];
    int len = snprintf(map, sizeof(map), "0 %u 1\n", shell->uid);
    if (power->uid_count > 0) {
        unsigned first = power->uid_first, own = shell->uid, end = first + power->uid_count;
        if (own > first)
            len += snprintf(map + len, sizeof(map) - (size_t)len, "%u %u %u\n", first, first,
                            own - first);
        if (own + 1 < end)
            snprintf(map + len, sizeof(map) - (size_t)len, "%u %u %u\n", own + 1, own + 1,
                     end - own - 1);
    }
    return seal_write_maps(child, map, shell->is_rootless, err);
}
