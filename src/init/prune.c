/* prune.c - the end of every process in the sandbox but for those that shall stay
 *
 * A kill of all is one call, which no fork escapes. Of all but some there is none, so everything is
 * stopped first: what is stopped cannot fork. Then the children of init are killed one generation
 * after the other, since those of a dead process become init's. The list of its own children is the
 * one list that nobody inside can hide from.
 *
 * The end of a process with much memory takes milliseconds. The program, when it has one thread and
 * no children, is left to die alone: what was sent a SIGKILL forks no more. Others are waited for,
 * since they may be in the middle of a call that still writes.
 *
 * The keeper of a terminal does the same with what is below it. Others are stopped only when that
 * is needed, and it gives up after some seconds: what is left becomes init's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "init/init.h"

#define ROUNDS_MAX      100000 /* a tenant may have armed timers that wake what was stopped */
#define CALM_ROUNDS_MAX 5      /* of init_kill_children(), before others are stopped, too */
#define CHILD_ROUNDS    200
#define ROUND_MS        20

static bool is_kept(pid_t pid, const int32_t *keep, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (keep[i] == pid)
            return true;
    }
    return false;
}

static pid_t dying; /* the program, left to die alone; 0: none */

void init_forget_dying(pid_t pid)
{
    if (pid == dying)
        dying = 0;
}

void init_wait_for_dying(void)
{
    siginfo_t info;
    if (dying)
        waitid(P_PID, (id_t)dying, &info, WEXITED | WNOWAIT);
}

/* False also when that cannot be seen. Each thread has a list of its own. */
static bool is_childless(pid_t pid)
{
    char path[64], byte;
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    if (stat(path, &st) < 0 || st.st_nlink != 3)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_empty = fd >= 0 && read(fd, &byte, 1) == 0;
    if (fd >= 0)
        close(fd);
    return is_empty;
}

struct round {
    int found;  /* children that shall not stay, and were not known to die */
    bool waits; /* for one of them */
};

/* They get `signal`. False when the list cannot be had; one that was cut only means another round.
 */
static bool signal_children(struct round *r, const int32_t *keep, size_t count, pid_t program,
                            int signal)
{
    char path[64], text[4096];
    pid_t pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    *r = (struct round){0};
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1 && pid != dying && !is_kept(pid, keep, count)) {
            kill(pid, signal);
            r->found++;
            if (pid == program && signal == SIGKILL && is_childless(pid))
                dying = pid;
            else
                r->waits = true;
        }
        pid = 0;
    }
    return n >= 0;
}

bool init_has_others(const int32_t *keep, size_t count)
{
    struct round r;
    return !signal_children(&r, keep, count, 0, 0) || r.found > 0;
}

/* The last round finds nobody: of a process that ended meanwhile, the children have come to us. */
void init_kill_others(const int32_t *keep, size_t count, pid_t program, void (*reap)(void *ctx),
                      void *ctx)
{
    siginfo_t info;
    struct round r = {.found = 1};
    bool is_possible = count > 0;
    for (int round = 0; is_possible && r.found > 0 && round < ROUNDS_MAX; round++) {
        kill(-1, SIGSTOP);
        is_possible = signal_children(&r, keep, count, program, SIGKILL);
        if (r.waits) {
            waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
            reap(ctx);
        }
    }
    if (!is_possible || r.found > 0) { /* no such list, or no end of it: then nothing stays */
        kill(-1, SIGKILL);
        return;
    }
    kill(-1, SIGCONT); /* also what one of them was just forking */
}

void init_kill_children(void (*reap)(void *ctx), void *ctx)
{
    const struct timespec moment = {.tv_nsec = ROUND_MS * 1000000L};
    sigset_t chld;
    struct round r = {.found = 1};
    bool is_calm = true;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    for (int round = 0; r.found > 0 && round < CHILD_ROUNDS; round++) {
        is_calm = round < CALM_ROUNDS_MAX;
        if (!is_calm)
            kill(-1, SIGSTOP); /* they fork faster than they are killed */
        if (!signal_children(&r, NULL, 0, 0, SIGKILL))
            break;
        if (r.found > 0)
            sigtimedwait(&chld, NULL, &moment); /* which is blocked */
        reap(ctx);
    }
    if (!is_calm)
        kill(-1, SIGCONT);
}
