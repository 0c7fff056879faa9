/* proxy.c - one process, started and reaped */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/proxy.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/scoped.h"

static int fail(struct spawn_failure *failure, enum error_code code, int sys_errno,
                const char *step)
{
    *failure = (struct spawn_failure){.code = code, .sys_errno = sys_errno, .layer = -1};
    memcpy(failure->step, step, MIN(strlen(step), sizeof(failure->step) - 1));
    return -1;
}

static void forget(struct proxy *p)
{
    scoped_close_fd(&p->pid_fd);
    proxy_init(p);
}

static void kill_it(const struct proxy *p)
{
    syscall(SYS_pidfd_send_signal, p->pid_fd, SIGKILL, NULL, 0);
}

void proxy_init(struct proxy *p)
{
    *p = (struct proxy){.pid_fd = -1};
}

void proxy_close(struct proxy *p)
{
    siginfo_t info;
    if (p->pid > 0) {
        kill_it(p);
        waitid(P_PIDFD, (id_t)p->pid_fd, &info, WEXITED);
    }
    forget(p);
}

int proxy_start(struct proxy *p, struct starter *starter, int *link, struct spawn_failure *failure)
{
    int pair[2];
    if (starter->fd < 0 || !starter->programs[STARTER_PROXY].path)
        return fail(failure, ERROR_NOT_FOUND, 0, "this spawner was given no egress proxy");
    if (p->pid > 0) {
        kill_it(p);
        return fail(failure, ERROR_UNAVAILABLE, EBUSY, "the proxy before is about to end");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(failure, ERROR_LIMIT, errno, "make the proxy's link");
    scoped_fd int ours = pair[0];
    scoped_fd int theirs = pair[1];
    pid_t pid = starter_start(starter, STARTER_PROXY, &theirs, 1);
    if (pid < 0)
        return fail(failure, ERROR_UNAVAILABLE, 0, "start the egress proxy");
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid_fd < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return fail(failure, ERROR_LIMIT, EMFILE, "watch the egress proxy");
    }
    *p = (struct proxy){.pid = pid, .pid_fd = pid_fd};
    *link = take_fd(&ours);
    return 0;
}

void proxy_on_poll(struct proxy *p)
{
    siginfo_t info = {0};
    if (p->pid > 0 && waitid(P_PIDFD, (id_t)p->pid_fd, &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0)
        forget(p);
}
