/* discard.c - one helper at a time, for all that has gathered */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/discard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"

#define RETRY_MS 100

void discard_init(struct discard *d)
{
    *d = (struct discard){.pid_fd = -1};
}

void discard_release(struct discard *d)
{
    free(d->fds);
    *d = (struct discard){.pid_fd = -1};
}

bool discard_is_harmless(int fd)
{
    return fcntl(fd, F_GETPIPE_SZ) >= 0 || fcntl(fd, F_GET_SEALS) >= 0;
}

static void add(struct discard *d, int fd)
{
    if (d->count == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 64;
        d->fds = xrealloc(d->fds, d->cap * sizeof(*d->fds));
    }
    d->fds[d->count++] = fd;
}

void discard_add(struct discard *d, int *fd)
{
    int taken = take_fd(fd);
    if (taken < 0)
        return;
    if (discard_is_harmless(taken))
        close(taken);
    else
        add(d, taken);
}

void discard_bag(struct discard *d, struct fd_bag *bag)
{
    while (bag->count > 0)
        discard_add(d, &bag->fds[--bag->count]);
}

void discard_channel(struct discard *d, int *fd)
{
    int taken = take_fd(fd);
    if (taken < 0)
        return;
    if (fd_may_hold_others(taken))
        add(d, taken);
    else
        close(taken);
}

/* Until the spawner has closed its own, of which the end of the pipe tells. */
static _Noreturn void outlast(int pipe_fd)
{
    char none;
    (void)!read(pipe_fd, &none, 1);
    _exit(0);
}

void discard_begin(struct discard *d)
{
    int ends[2];
    d->is_late = false;
    if (d->count == 0 || d->pid > 0)
        return;
    d->is_late = true; /* if any of this fails */
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    scoped_fd int theirs = ends[0];
    scoped_fd int ours = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        close(ours);
        outlast(theirs);
    }
    d->pid_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (d->pid_fd < 0) {
        if (pid > 0) { /* it holds copies as well, so it is not the last of any */
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        return;
    }
    d->pid = pid;
    d->is_late = false;
    while (d->count > 0)
        close(d->fds[--d->count]);
}

void discard_on_poll(struct discard *d)
{
    siginfo_t info = {0};
    if (d->pid == 0 || waitid(P_PIDFD, (id_t)d->pid_fd, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    scoped_close_fd(&d->pid_fd);
    d->pid_fd = -1;
    d->pid = 0;
}

int64_t discard_wait_ms(const struct discard *d)
{
    return d->is_late ? RETRY_MS : -1;
}
