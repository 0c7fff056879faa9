/* guard.h - what every C probe begins with: refuse to run on a host, report one line per attempt.
 *
 * A probe prints "name result" lines, where result is "ok", the name of an errno, "killed-SIGxxx"
 * for an attempt that died, or "=value" for a fact. finish() prints "done N": the runner refuses
 * output that lacks it, so a probe that died half-way cannot pass by having said little.
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned guard_count;

/* Ends the program with status 99 unless everything looks like the inside of a sandbox. */
static inline void guard(void)
{
    char host[64] = "", cwd[4096] = "";
    const char *mark = getenv("COVE_HOSTILE");
    bool inside = mark && strcmp(mark, "1") == 0;
    inside = inside && gethostname(host, sizeof host) == 0 && strcmp(host, "cove") == 0;
    inside = inside && getcwd(cwd, sizeof cwd) && strcmp(cwd, "/workspace") == 0;
    inside = inside && getuid() == 1000 && access("/sys/kernel", F_OK) != 0;
    if (!inside) {
        fputs("hostile probe: this is not a sandbox, refusing to run\n", stderr);
        exit(99);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
}

__attribute__((format(printf, 2, 3))) static inline void fact(const char *name, const char *fmt,
                                                              ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%s =", name);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    guard_count++;
}

static inline void say_errno(const char *name, int error)
{
    const char *word = error ? strerrorname_np(error) : "ok";
    printf("%s %s\n", name, word ? word : "E?");
    guard_count++;
}

/* Reports the outcome of a call that answers -1 and sets errno. */
static inline void say(const char *name, long rc)
{
    say_errno(name, rc == -1 ? errno : 0);
}

/* Waits for `pid`, whose exit status is an errno (0: the attempt worked), and reports it. */
static inline void say_child(const char *name, pid_t pid)
{
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        say_errno(name, errno);
        return;
    }
    if (WIFSIGNALED(status)) {
        printf("%s killed-SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
        guard_count++;
        return;
    }
    say_errno(name, WEXITSTATUS(status));
}

/* Evaluates `expr` in a child, so that its success cannot change what follows. */
#define TRY(name, expr)                                                                            \
    do {                                                                                           \
        fflush(stdout);                                                                            \
        pid_t try_pid = fork();                                                                    \
        if (try_pid == 0) {                                                                        \
            alarm(3);                                                                              \
            errno = 0;                                                                             \
            long try_rc = (long)(expr);                                                            \
            _exit(try_rc == -1 ? errno : 0);                                                       \
        }                                                                                          \
        say_child(name, try_pid);                                                                  \
    } while (0)

static inline int finish(void)
{
    printf("done %u\n", guard_count);
    fflush(stdout);
    return 0;
}
