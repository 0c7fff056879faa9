/* apart.c - the helper that compares memories */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/apart.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/syscalls.h"

#define DEADLINE_S 10
#define PIDS_MAX   8192
#define LOOK_NS    1000000000 /* who has just been killed may take a while to let go of it */
#define ROUND_US   100
#define FREEZE_US  50

enum { EXIT_APART = 0, EXIT_UNKNOWN = 1, EXIT_SHARED = 3 };

static bool is_kin(const struct sandbox *sb, uint64_t brood, uint64_t sandbox)
{
    return sb->brood == brood && sb->id != sandbox && !sb->is_reaped &&
           sb->state != SANDBOX_SEALING;
}

/* --- in the helper --------------------------------------------------------------------------- */

static bool freeze_kin(const struct sandbox *sb, const struct roster *all)
{
    struct error err;
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        if (!is_kin(k, sb->brood, sb->id))
            continue;
        if (cgroup_freeze(&k->cgroup, k->tree, true, &err) < 0)
            return false;
        while (!cgroup_is_frozen(&k->cgroup, k->tree))
            usleep(FREEZE_US); /* the alarm ends this */
    }
    return true;
}

/* One who is gone has no memory. */
static int compare(pid_t a, pid_t b)
{
    long answer = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
    if (answer < 0 && errno != ESRCH)
        return EXIT_UNKNOWN;
    return answer == 0 ? EXIT_SHARED : EXIT_APART;
}

/* Whether kcmp() can be trusted here: everybody is the same as himself. */
static bool can_compare(void)
{
    return compare(getpid(), getpid()) == EXIT_SHARED;
}

static int look_once(const struct sandbox *sb, const struct roster *all, pid_t *own, pid_t *other)
{
    size_t count = cgroup_list(&sb->cgroup, sb->tree, own, PIDS_MAX);
    if (count == 0 || count > PIDS_MAX)
        return EXIT_UNKNOWN; /* nothing that could be told to be good */
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        size_t others =
            is_kin(k, sb->brood, sb->id) ? cgroup_list(&k->cgroup, k->tree, other, PIDS_MAX) : 0;
        if (others > PIDS_MAX)
            return EXIT_UNKNOWN;
        for (size_t i = 0; i < count * others; i++) {
            int answer = compare(own[i / others], other[i % others]);
            if (answer != EXIT_APART)
                return answer;
        }
    }
    return EXIT_APART;
}

static NORETURN void helper_main(const struct sandbox *sb, const struct roster *all)
{
    static pid_t own[PIDS_MAX], other[PIDS_MAX];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    if (!can_compare() || !freeze_kin(sb, all))
        _exit(EXIT_UNKNOWN);
    int64_t end_ns = clock_now_ns() + LOOK_NS;
    int answer;
    while ((answer = look_once(sb, all, own, other)) != EXIT_APART && clock_now_ns() < end_ns)
        usleep(ROUND_US);
    _exit(answer);
}

/* --- the spawner's side ---------------------------------------------------------------------- */

static int fail(struct spawn_failure *failure, enum error_code code, const char *step)
{
    *failure = (struct spawn_failure){.code = code, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

int apart_start(struct apart **out, struct sandbox *sb, const struct roster *all,
                struct spawn_failure *failure)
{
    int pid_fd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pid_fd, .exit_signal = SIGCHLD};
    if (!sb->brood || sb->state != SANDBOX_LIVE)
        return fail(failure, ERROR_CONFLICT, "the sandbox has no kin, or is over");
    pid_t pid = sys_clone3(&args);
    if (pid == 0)
        helper_main(sb, all);
    if (pid < 0)
        return fail(failure, ERROR_UNAVAILABLE, "start a helper");
    *out = xcalloc(1, sizeof(**out));
    **out = (struct apart){.sandbox = sb->id, .brood = sb->brood, .pid = pid, .pid_fd = pid_fd};
    return 0;
}

/* One that a client has frozen wakes up, too: it is asked again when it is unused again. */
static void thaw_kin(const struct apart *a, const struct roster *all)
{
    struct error err;
    for (struct sandbox *k = roster_first(all); k; k = roster_after(all, k)) {
        if (is_kin(k, a->brood, a->sandbox) &&
            cgroup_freeze(&k->cgroup, k->tree, false, &err) < 0 && err.code != ERROR_UNAVAILABLE &&
            cgroup_freeze(&k->cgroup, k->tree, false, &err) < 0)
            sandbox_kill(k); /* frozen for good it would be of no use */
    }
}

int apart_finish(struct apart *a, const struct roster *all, struct spawn_failure *failure)
{
    siginfo_t info = {0};
    waitid(P_PIDFD, (id_t)a->pid_fd, &info, WEXITED);
    thaw_kin(a, all);
    close(a->pid_fd);
    free(a);
    if (info.si_code == CLD_EXITED && info.si_status == EXIT_APART)
        return 0;
    if (info.si_code == CLD_EXITED && info.si_status == EXIT_SHARED)
        return fail(failure, ERROR_ISOLATION, "the fork has no memory of its own");
    return fail(failure, ERROR_DENIED, "this host cannot tell whether a fork is apart");
}
