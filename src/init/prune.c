/* prune.c - the end of every process in the sandbox but for those that shall stay
 *
 * A kill of all is one call, which no fork escapes. Of all but some there is none, so everything is
 * stopped first: what is stopped cannot fork. Then the children of init are killed one generation
 * after the other, since those of a dead process become init's. The list of its own children is the
 * one list that nobody inside can hide from.
 *
 * The end of a process with much memory takes milliseconds. One that has no children can be left to
 * die alone: what was sent a SIGKILL runs no more, and forks no more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "init/init.h"

#define ROUNDS_MAX 100000 /* a tenant may have armed timers that wake what was stopped */

static bool is_kept(pid_t pid, const int32_t *keep, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (keep[i] == pid)
            return true;
    }
    return false;
}

#define DYING_MAX 16

static pid_t dying[DYING_MAX]; /* 0: free */

static bool is_dying(pid_t pid)
{
    for (size_t i = 0; i < DYING_MAX; i++) {
        if (dying[i] == pid)
            return true;
    }
    return false;
}

static bool put_dying(pid_t from, pid_t to)
{
    for (size_t i = 0; i < DYING_MAX; i++) {
        if (dying[i] == from) {
            dying[i] = to;
            return true;
        }
    }
    return false;
}

void init_forget_dying(pid_t pid)
{
    put_dying(pid, 0);
}

void init_wait_for_dying(void)
{
    siginfo_t info;
    for (size_t i = 0; i < DYING_MAX; i++) {
        if (dying[i])
            waitid(P_PID, (id_t)dying[i], &info, WEXITED | WNOWAIT);
    }
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

/* How many children there are that shall not stay, and have to be waited for, or -1; they get
 * `signal`. A list that was cut only means another round. */
static int signal_children(const int32_t *keep, size_t count, int signal)
{
    char text[4096];
    int found = 0;
    pid_t pid = 0;
    int fd = open("/proc/self/task/1/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1 && !is_kept(pid, keep, count) && !is_dying(pid)) {
            kill(pid, signal);
            if (signal != SIGKILL || !is_childless(pid) || !put_dying(0, pid))
                found++;
        }
        pid = 0;
    }
    return n < 0 ? -1 : found;
}

bool init_has_others(const int32_t *keep, size_t count)
{
    return signal_children(keep, count, 0) != 0;
}

void init_kill_others(const int32_t *keep, size_t count, void (*reap)(void *ctx), void *ctx)
{
    siginfo_t info;
    int left = count > 0 ? 1 : -1;
    for (int round = 0; left > 0 && round < ROUNDS_MAX; round++) {
        kill(-1, SIGSTOP);
        left = signal_children(keep, count, SIGKILL);
        if (left > 0) {
            waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
            reap(ctx);
        }
    }
    if (left != 0) { /* no such list, or no end of it: then nothing stays */
        kill(-1, SIGKILL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (keep[i] > 1)
            kill(keep[i], SIGCONT);
    }
}
