/* start.c - fork and exec of the tenant's program */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/init.h"

/* The strings: directory, then arguments, then variables, each ended by a NUL. */
struct program {
    const char *directory;
    char *argv[GUEST_ARGS_MAX + 1];
    char *envp[GUEST_ARGS_MAX + 1];
};

static char *next_string(char **at, const char *end)
{
    char *text = *at;
    char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;
    if (!nul)
        return NULL;
    *at = nul + 1;
    return text;
}

static bool take_list(char **at, const char *end, uint32_t count, char **list)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = next_string(at, end);
        if (!list[i])
            return false;
    }
    list[count] = NULL;
    return true;
}

static bool parse_program(struct program *p, const struct guest_message *m, char *strings)
{
    char *at = strings;
    const char *end = strings + m->strings_len;
    if (m->argc == 0 || m->argc > GUEST_ARGS_MAX || m->envc > GUEST_ARGS_MAX)
        return false;
    p->directory = next_string(&at, end);
    return p->directory && take_list(&at, end, m->argc, p->argv) &&
           take_list(&at, end, m->envc, p->envp) && at == end;
}

/* A killer that looks for memory shall find the program before it finds init. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "500", 3);
        close(fd);
    }
}

static NORETURN void run_program(const struct program *p, const int fds[3], int fail_fd)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* what the spawner ignores came along */
    setsid(); /* a process group of its own: signals reach all of the program */
    offer_to_oom_killer();
    if (dup2(fds[0], 0) >= 0 && dup2(fds[1], 1) >= 0 && dup2(fds[2], 2) >= 0 &&
        chdir(p->directory) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(p->argv[0], p->argv, p->envp);
    int error = errno;
    (void)!write(fail_fd, &error, sizeof(error));
    _exit(127);
}

pid_t init_start_program(const struct guest_message *m, char *strings, const int fds[3])
{
    static struct program program;
    int fail[2];
    if (!parse_program(&program, m, strings)) {
        errno = EINVAL;
        return -1;
    }
    if (pipe2(fail, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_program(&program, fds, fail[1]);
    int error = pid < 0 ? errno : 0;
    close(fail[1]);
    if (pid > 0 && read(fail[0], &error, sizeof(error)) == sizeof(error))
        waitpid(pid, NULL, 0);
    close(fail[0]);
    errno = error;
    return error ? -1 : pid;
}
