/* start.c - fork and exec of the tenant's program */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/init.h"
#include "init/program.h"

/* A killer that looks for memory shall find the program before it finds init. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "500", 3);
        close(fd);
    }
}

/* All fds of a start are above the places they go to, and close themselves at the exec. */
static int place_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dup2(fds[i], (int)i) < 0)
            return -1;
    }
    return 0;
}

static NORETURN void run_program(const struct program *p, const int *fds, size_t fd_count,
                                 int fail_fd)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* what the spawner ignores came along */
    setsid();                 /* a process group of its own: signals reach all of the program */
    offer_to_oom_killer();
    if (place_fds(fds, fd_count) == 0 && chdir(p->directory) == 0 &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(p->argv[0], p->argv, p->envp);
    int error = errno;
    (void)!write(fail_fd, &error, sizeof(error));
    _exit(127);
}

pid_t init_start_program(const struct guest_message *m, char *strings, const int *fds,
                         size_t fd_count)
{
    static struct program program;
    int fail[2];
    if (!program_parse(&program, m, strings)) {
        errno = EINVAL;
        return -1;
    }
    if (pipe2(fail, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_program(&program, fds, fd_count, fail[1]);
    int error = pid < 0 ? errno : 0;
    close(fail[1]);
    if (pid > 0 && read(fail[0], &error, sizeof(error)) == sizeof(error))
        waitpid(pid, NULL, 0);
    close(fail[0]);
    errno = error;
    return error ? -1 : pid;
}
