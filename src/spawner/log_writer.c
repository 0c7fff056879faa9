/* log_writer.c - a pipe, and a process between its end and where the log goes
 *
 * The process has two descriptors, no capability, and copies whole lines as they come; it never
 * drops one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "box/caps.h"

#define MS         1000000ll
#define RETRY_MS   200  /* a disk that was full is tried again */
#define REST_MS    5    /* while lines gather: who writes one wakes nobody then */
#define RESTART_MS 1000 /* one that was killed is followed */
#define CLOSE_MS   1000
#define LAST_S     2 /* to write what is left when the spawner was killed */

/* --- the process ------------------------------------------------------------------------------ */

static void on_orphaned(int number)
{
    (void)number;
    alarm(LAST_S);
}

/* Keys of a terminal are not for it, and a file that may not grow is one that is full. What it
 * waits for may never come, so it must end some time after the spawner was killed. */
static void watch_signals(pid_t parent)
{
    sigset_t most;
    const struct sigaction orphaned = {.sa_handler = on_orphaned, .sa_flags = SA_RESTART};
    sigfillset(&most);
    sigdelset(&most, SIGALRM);
    sigdelset(&most, SIGUSR2);
    signal(SIGALRM, SIG_DFL);
    sigaction(SIGUSR2, &orphaned, NULL);
    if (sigprocmask(SIG_SETMASK, &most, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGUSR2) < 0 ||
        getppid() != parent)
        alarm(LAST_S);
}

static int drop_power(void)
{
    if (geteuid() == 0 && (caps_drop_bounding() < 0 || caps_drop_all() < 0))
        return -1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 : prctl(PR_SET_DUMPABLE, 0);
}

static void rest(unsigned ms)
{
    const struct timespec time = {.tv_nsec = ms * MS};
    nanosleep(&time, NULL);
}

/* Whatever stands in the way may pass: a disk has room again, a pipe that is read by its name has a
 * reader again. */
static void write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            poll(&p, 1, RETRY_MS);
        } else if (n == 0 || errno != EINTR) {
            rest(RETRY_MS);
        }
    }
}

/* As many whole lines at a time as a pipe takes without mixing them with those of others; what has
 * no line's end is passed on when there is no more room, or no more to come. */
static _Noreturn void copy(int from, int to)
{
    char data[PIPE_BUF];
    size_t len = 0;
    for (;;) {
        ssize_t n = read(from, data + len, sizeof(data) - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            write_all(to, data, len);
            _exit(0);
        }
        bool is_all = (size_t)n < sizeof(data) - len;
        len += (size_t)n;
        const char *end = memrchr(data, '\n', len);
        size_t whole = end ? (size_t)(end - data) + 1 : len == sizeof(data) ? len : 0;
        write_all(to, data, whole);
        memmove(data, data + whole, len - whole);
        len -= whole;
        if (is_all)
            rest(REST_MS);
    }
}

/* Its standard input and error; whatever else is open is not its own. */
static _Noreturn void be_writer(const struct log_writer *w, pid_t parent)
{
    if (dup2(w->pipe_fd, STDIN_FILENO) < 0 || dup2(w->out_fd, STDERR_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) < 0 || drop_power() < 0)
        _exit(1);
    prctl(PR_SET_NAME, "cove-log");
    watch_signals(parent);
    copy(STDIN_FILENO, STDERR_FILENO);
}

/* --- the spawner ------------------------------------------------------------------------------ */

static int start(struct log_writer *w)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        be_writer(w, parent);
    if (pid < 0)
        return -1;
    w->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (w->pid_fd < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return -1;
    }
    w->pid = pid;
    return 0;
}

void log_writer_init(struct log_writer *w)
{
    *w = (struct log_writer){.pid_fd = -1, .pipe_fd = -1, .out_fd = -1};
}

int log_writer_open(struct log_writer *w, struct error *err)
{
    int ends[2];
    log_writer_init(w);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_sys(err, "make a pipe");
    scoped_fd int reading = ends[0];
    scoped_fd int writing = ends[1];
    (void)!fcntl(writing, F_SETPIPE_SZ, LOG_WRITER_PIPE_BYTES);
    scoped_fd int out = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (out < 0 || fd_set_nonblock(writing) < 0)
        return error_sys(err, "keep standard error");
    w->pipe_fd = take_fd(&reading);
    w->out_fd = take_fd(&out);
    if (start(w) < 0 || dup2(writing, STDERR_FILENO) < 0) {
        error_sys(err, "start what writes the log");
        scoped_close_fd(&writing);
        writing = -1;
        log_writer_close(w);
        return -1;
    }
    return 0;
}

static void reap(struct log_writer *w, int options)
{
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)w->pid_fd, &info, WEXITED | options) < 0 || info.si_pid == 0)
        return;
    scoped_close_fd(&w->pid_fd);
    w->pid_fd = -1;
    w->pid = 0;
}

void log_writer_close(struct log_writer *w)
{
    if (w->pipe_fd < 0)
        return;
    dup2(w->out_fd, STDERR_FILENO); /* and with that the last writing end is gone */
    if (w->pid > 0) {
        struct pollfd p = {.fd = w->pid_fd, .events = POLLIN};
        if (poll(&p, 1, CLOSE_MS) <= 0)
            syscall(SYS_pidfd_send_signal, w->pid_fd, SIGKILL, NULL, 0);
        reap(w, 0);
    }
    scoped_close_fd(&w->pipe_fd);
    scoped_close_fd(&w->out_fd);
    log_writer_init(w);
}

void log_writer_on_poll(struct log_writer *w)
{
    reap(w, WNOHANG);
    if (w->pid == 0)
        w->start_ns = clock_now_ns() + RESTART_MS * MS;
}

void log_writer_on_time(struct log_writer *w)
{
    if (w->pid == 0 && w->pipe_fd >= 0 && clock_now_ns() >= w->start_ns && start(w) < 0)
        w->start_ns = clock_now_ns() + RESTART_MS * MS;
}

int64_t log_writer_due_ns(const struct log_writer *w)
{
    return w->pid == 0 && w->pipe_fd >= 0 ? w->start_ns : INT64_MAX;
}
