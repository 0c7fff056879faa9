/* start.c - fork and exec of the tenant's program, and of the shim that a plain kernel needs */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/init.h"
#include "init/program.h"
#include "init/shim.h"
#include "wire/kernel.h"

/* All fds of a start are above the places they go to, and close themselves at the exec. */
static int place_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dup2(fds[i], (int)i) < 0)
            return -1;
    }
    return 0;
}

void init_settle_child(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* what the spawner ignores came along */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static NORETURN void run_program(const struct program *p, const int *fds, size_t fd_count,
                                 int fail_fd)
{
    setsid(); /* a process group of its own: signals reach all of the program */
    init_settle_child();
    if (place_fds(fds, fd_count) == 0 && chdir(p->directory) == 0)
        execve(p->argv[0], p->argv, p->envp);
    int error = errno;
    (void)!write(fail_fd, &error, sizeof(error));
    _exit(127);
}

static pid_t start(const struct program *p, const int *fds, size_t fd_count)
{
    int fail[2];
    if (pipe2(fail, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_program(p, fds, fd_count, fail[1]);
    int error = pid < 0 ? errno : 0;
    close(fail[1]);
    if (pid > 0 && read(fail[0], &error, sizeof(error)) == sizeof(error))
        waitpid(pid, NULL, 0);
    close(fail[0]);
    errno = error;
    return error ? -1 : pid;
}

/* Keeps the two ends and nothing else of init's; 0, 1 and 2 are then free for the streams of an
 * execution. A session of its own keeps the kernel's signals away. */
static NORETURN void run_shim(int channel, int stream)
{
    setsid();
    prctl(PR_SET_NAME, "cove-shim");
    if (dup2(channel, KERNEL_CHANNEL_FD) < 0 || dup2(stream, KERNEL_CHANNEL_FD + 1) < 0 ||
        syscall(SYS_close_range, 0, KERNEL_CHANNEL_FD - 1, 0) < 0 ||
        syscall(SYS_close_range, KERNEL_CHANNEL_FD + 2, ~0u, 0) < 0)
        _exit(1);
    prctl(PR_SET_DUMPABLE, 1); /* from here on /proc/PID/fd can be opened; nothing of init's left */
    shim_run(KERNEL_CHANNEL_FD, KERNEL_CHANNEL_FD + 1);
    _exit(0);
}

/* The shim comes first: a kernel that cannot have one is not started. When the kernel's exec fails
 * the stream ends, and the shim with it. */
static pid_t start_plain(const struct program *p, const int *fds, size_t fd_count)
{
    int pair[2], placed[GUEST_START_FDS];
    if (fd_count <= KERNEL_CHANNEL_FD) {
        errno = EINVAL;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_shim(fds[KERNEL_CHANNEL_FD], pair[0]);
    if (pid > 0) {
        for (size_t i = 0; i < fd_count; i++)
            placed[i] = i == KERNEL_CHANNEL_FD ? pair[1] : fds[i];
        pid = start(p, placed, fd_count);
    }
    int error = errno;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return pid;
}

pid_t init_start_program(const struct guest_message *m, char *strings, const int *fds,
                         size_t fd_count)
{
    static struct program program;
    if (!program_parse(&program, m, strings) || m->flags & ~GUEST_START_PLAIN) {
        errno = EINVAL;
        return -1;
    }
    return (m->flags & GUEST_START_PLAIN ? start_plain : start)(&program, fds, fd_count);
}
