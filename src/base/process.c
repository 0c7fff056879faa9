/* process.c - fork, exec, and one poll loop over output, exit and deadline
 *
 * The child only makes async-signal-safe calls on data prepared before the fork. Why exec failed
 * comes back as errno over a pipe that a successful exec closes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"

#define GRACE_MS         2000 /* between SIGTERM and SIGKILL */
#define READ_BYTES       (16 * KIB)
#define READS_MAX        64 /* times READ_BYTES: the largest pipe */
#define TAIL_MAX_BYTES   (4 * KIB)
#define PATH_PRESET      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define EXEC_FAILED_EXIT 127

struct child {
    pid_t pid;
    int pid_fd;
    int out_fd, err_fd; /* our ends, -1 once at their end */
};

/* What the child needs, all of it ready before the fork. */
struct plan {
    const struct process *process;
    char **paths; /* what to try to exec, in order, NULL-terminated; owned */
    char *const *envp;
    int stdin_fd, out_fd, err_fd;
    int failure_fd; /* CLOEXEC: an errno is written here */
    pid_t parent;
};

static void plan_release(struct plan *plan)
{
    for (size_t i = 0; plan->paths && plan->paths[i]; i++)
        free(plan->paths[i]);
    free(plan->paths);
}

/* execvp() is not async-signal-safe on every libc, so PATH is walked beforehand. */
static void plan_paths(struct plan *plan, const char *program)
{
    const char *path = getenv("PATH");
    if (!path || !*path)
        path = PATH_PRESET;
    size_t count = 1;
    for (const char *p = path; *p; p++)
        count += *p == ':';
    plan->paths = xcalloc(count + 1, sizeof(*plan->paths));
    if (strchr(program, '/')) {
        plan->paths[0] = xstrdup(program);
        return;
    }
    /* An empty element would mean the current folder, which may be anybody's: it is skipped. */
    for (size_t at = 0; *path; path += *path == ':') {
        size_t len = strcspn(path, ":");
        if (len > 0)
            plan->paths[at++] = xasprintf("%.*s/%s", (int)len, path, program);
        path += len;
    }
}

/* --- in the child --------------------------------------------------------------------------- */

static void reset_signals(void)
{
    struct sigaction preset = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        sigaction(sig, &preset, NULL); /* fails for SIGKILL, SIGSTOP and the C library's own */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int place_fds(const struct plan *plan)
{
    const int from[3] = {plan->stdin_fd, plan->out_fd, plan->err_fd};
    int safe[3];
    for (int i = 0; i < 3; i++) { /* above 2 first: a source may be one of the targets */
        safe[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3);
        if (safe[i] < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(safe[i], i) < 0)
            return -1;
    }
    return 0;
}

NORETURN static void run_child(const struct plan *plan)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != plan->parent)
        _exit(EXEC_FAILED_EXIT); /* the parent died before the line above could tell us */
    int why = 0;
    if (place_fds(plan) < 0 || (plan->process->cwd && chdir(plan->process->cwd) < 0)) {
        why = errno;
    } else {
        reset_signals();
        why = ENOENT;
        for (size_t i = 0; plan->paths[i]; i++) {
            execve(plan->paths[i], (char *const *)plan->process->argv, plan->envp);
            if (errno != ENOENT && errno != ENOTDIR)
                why = errno; /* a found program that cannot run tells more than a missing one */
        }
    }
    ssize_t n = write(plan->failure_fd, &why, sizeof(why));
    (void)n;
    _exit(EXEC_FAILED_EXIT);
}

/* --- start ---------------------------------------------------------------------------------- */

static void child_release(struct child *child)
{
    scoped_close_fd(&child->pid_fd);
    scoped_close_fd(&child->out_fd);
    scoped_close_fd(&child->err_fd);
}

static void reap(const struct child *child, int *status)
{
    while (waitpid(child->pid, status, 0) < 0 && errno == EINTR)
        continue;
}

/* Waits until exec happened; the child is gone when it did not. */
static int await_exec(const struct child *child, int failure_fd, const char *program,
                      struct error *err)
{
    int why, status;
    if (fd_read_full(failure_fd, &why, sizeof(why)) != sizeof(why))
        return 0;
    reap(child, &status);
    errno = why;
    return error_sys(err, "start '%s'", program);
}

static int start(struct plan *plan, struct child *child, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_sys(err, "make a pipe");
    scoped_fd int failure_fd = pair[0];
    plan->failure_fd = pair[1];
    plan->parent = getpid();
    child->pid = fork();
    if (child->pid == 0)
        run_child(plan);
    int saved = errno;
    close(pair[1]);
    errno = saved;
    if (child->pid < 0)
        return error_sys(err, "fork");
    setpgid(child->pid, child->pid); /* also here: a kill of the group must never come too early */

    if (await_exec(child, failure_fd, plan->process->argv[0], err) < 0)
        return -1;
    child->pid_fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pid_fd < 0) {
        int status;
        error_sys(err, "watch '%s'", plan->process->argv[0]);
        kill(-child->pid, SIGKILL);
        reap(child, &status);
        return -1;
    }
    return 0;
}

/* Connects stdin and output, and starts the child. */
static int start_connected(const struct process *process, struct child *child, struct error *err)
{
    __attribute__((cleanup(plan_release))) struct plan plan = {
        .process = process, .out_fd = STDOUT_FILENO, .err_fd = STDERR_FILENO};
    plan.envp = process->envp ? (char *const *)process->envp : environ;
    plan_paths(&plan, process->argv[0]);

    scoped_fd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return error_sys(err, "open '/dev/null'");
    plan.stdin_fd = process->stdin_fd ? *process->stdin_fd : null_fd;

    scoped_fd int out_write = -1, err_write = -1;
    if (process->output) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) < 0)
            return error_sys(err, "make a pipe");
        child->out_fd = pair[0];
        plan.out_fd = out_write = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
            return error_sys(err, "make a pipe");
        child->err_fd = pair[0];
        plan.err_fd = err_write = pair[1];
        fd_set_nonblock(child->out_fd);
        fd_set_nonblock(child->err_fd);
    }
    return start(&plan, child, err);
}

/* --- watch ---------------------------------------------------------------------------------- */

/* Hands on what is there now, at most a pipe's worth, so that a fast writer cannot hide the exit or
 * the deadline; closes the fd at its end. */
static int drain(const struct process *process, int *fd, int stream, struct error *err)
{
    char data[READ_BYTES];
    for (int i = 0; i < READS_MAX && *fd >= 0; i++) {
        ssize_t n = read(*fd, data, sizeof(data));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0) {
            close(*fd);
            *fd = -1;
            return 0;
        }
        if (process->output(process->ctx, stream, data, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

static int drain_both(const struct process *process, struct child *child, struct error *err)
{
    if (drain(process, &child->out_fd, STDOUT_FILENO, err) < 0)
        return -1;
    return drain(process, &child->err_fd, STDERR_FILENO, err);
}

/* The deadline and the signals it has led to so far. */
struct deadline {
    int64_t at_ns; /* 0: none */
    int next_signal;
    bool has_passed;
};

static int wait_ms(const struct deadline *deadline)
{
    if (deadline->at_ns == 0)
        return -1;
    int64_t left = deadline->at_ns - clock_now_ns();
    return left <= 0 ? 0 : (int)MIN(left / 1000000 + 1, (int64_t)1000000);
}

static void enforce(struct deadline *deadline, const struct child *child)
{
    if (deadline->at_ns == 0 || clock_now_ns() < deadline->at_ns)
        return;
    /* The child is not reaped yet, so its group id cannot belong to anybody else. */
    kill(-child->pid, deadline->next_signal);
    deadline->has_passed = true;
    deadline->at_ns =
        deadline->next_signal == SIGTERM ? clock_now_ns() + (int64_t)GRACE_MS * 1000000 : 0;
    deadline->next_signal = SIGKILL;
}

/* Until the child has exited. A grandchild that keeps the pipes open does not hold us up. */
static int watch(const struct process *process, struct child *child, struct deadline *deadline,
                 struct error *err)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = child->pid_fd, .events = POLLIN},
                               {.fd = child->out_fd, .events = POLLIN},
                               {.fd = child->err_fd, .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), wait_ms(deadline)) < 0 && errno != EINTR)
            return error_sys(err, "poll");
        if (drain_both(process, child, err) < 0)
            return -1;
        if (fds[0].revents)
            return drain_both(process, child, err);
        enforce(deadline, child);
    }
}

int process_run(const struct process *process, struct process_end *end, struct error *err)
{
    __attribute__((cleanup(child_release))) struct child child = {
        .pid_fd = -1, .out_fd = -1, .err_fd = -1};
    struct deadline deadline = {.next_signal = SIGTERM};
    if (start_connected(process, &child, err) < 0)
        return -1;
    if (process->timeout_ms > 0)
        deadline.at_ns = clock_now_ns() + (int64_t)process->timeout_ms * 1000000;

    int result = watch(process, &child, &deadline, err), status = 0;
    if (result < 0 || deadline.has_passed)
        kill(-child.pid, SIGKILL); /* whoever of the group is left, while its id is still ours */
    reap(&child, &status);
    if (result < 0)
        return -1;
    *end = (struct process_end){
        .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .timed_out = deadline.has_passed,
    };
    return 0;
}

/* --- check ---------------------------------------------------------------------------------- */

/* Keeps the last TAIL_MAX_BYTES of what was printed. */
struct tail {
    char text[TAIL_MAX_BYTES + 1];
    size_t len;
};

static int keep_tail(void *ctx, int stream, const char *data, size_t len, struct error *err)
{
    struct tail *tail = ctx;
    (void)stream;
    (void)err;
    if (len > TAIL_MAX_BYTES) {
        data += len - TAIL_MAX_BYTES;
        len = TAIL_MAX_BYTES;
    }
    size_t drop = tail->len + len > TAIL_MAX_BYTES ? tail->len + len - TAIL_MAX_BYTES : 0;
    memmove(tail->text, tail->text + drop, tail->len - drop);
    memcpy(tail->text + tail->len - drop, data, len);
    tail->len += len - drop;
    return 0;
}

/* The last line that is not empty; changes the text. */
static const char *last_line(struct tail *tail)
{
    while (tail->len > 0 && strchr("\r\n\t ", tail->text[tail->len - 1]))
        tail->len--;
    tail->text[tail->len] = '\0';
    char *newline = memrchr(tail->text, '\n', tail->len);
    return newline ? newline + 1 : tail->text;
}

static int tell_end(const char *program, const struct process_end *end, const char *words,
                    struct error *err)
{
    const char *colon = *words ? ": " : "";
    if (end->timed_out)
        return error_set(err, ERROR_TIMEOUT, "'%s' took too long%s%.300s", program, colon, words);
    if (end->signal)
        return error_set(err, ERROR_INTERNAL, "'%s' was ended by signal %d%s%.300s", program,
                         end->signal, colon, words);
    return error_set(err, ERROR_INTERNAL, "'%s' failed with status %d%s%.300s", program,
                     end->exit_status, colon, words);
}

int process_check(const struct process *process, struct error *err)
{
    struct process captured = *process;
    struct process_end end;
    struct tail tail = {.len = 0};
    if (!process->output) {
        captured.output = keep_tail;
        captured.ctx = &tail;
    }
    if (process_run(&captured, &end, err) < 0)
        return -1;
    if (end.exit_status == 0 && !end.timed_out)
        return 0;
    return tell_end(process->argv[0], &end, last_line(&tail), err);
}
