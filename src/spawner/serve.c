/* serve.c - starting the client by way of the starter, and mourning it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/serve.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "wire/spawn.h"

#define MS           1000000ll
#define PAUSE_MS     100 /* before the second start; doubled each time */
#define PAUSE_MAX_MS 5000
#define WELL_MS      10000 /* one that lived this long did not fail at its start */
#define LINGER_MS    1000  /* between hanging up and being gone */
#define STOP_MS      10000 /* for a client to leave things in order */
#define SEND_SECONDS 5     /* one that does not read for so long is taken for dead */
#define FDS_WANTED   (1u << 20)

/* --- its life -------------------------------------------------------------------------------- */

static int check_options(const struct serve_options *o, struct error *err)
{
    if (o->program[0] != '/')
        return error_set(err, ERROR_INVALID, "--serve needs an absolute path");
    if (geteuid() == 0 && (o->uid == 0 || o->gid == 0))
        return error_set(err, ERROR_INVALID,
                         "--serve as root needs --uid and --gid: the client must not be root");
    return 0;
}

/* Every sandbox costs fds, and what the usual limits allow is soon used up. */
static void raise_fd_limit(void)
{
    struct rlimit limit = {.rlim_cur = FDS_WANTED, .rlim_max = FDS_WANTED};
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int serve_open(struct serve *s, const struct serve_options *options, const struct log *log,
               char **arguments, struct starter_program *program, struct error *err)
{
    size_t count = 0;
    *s = (struct serve){.options = options, .log = log, .pid_fd = -1};
    watchdog_init(&s->watchdog);
    if (!options->program)
        return 0;
    if (check_options(options, err) < 0)
        return -1;
    while (arguments[count])
        count++;
    s->argv = xcalloc(count + 2, sizeof(*s->argv));
    s->argv[0] = options->program;
    memcpy(s->argv + 1, arguments, count * sizeof(*arguments));
    s->is_on = true;
    s->alone_ns = s->start_ns = clock_now_ns();
    raise_fd_limit();
    *program = (struct starter_program){
        .path = options->program, .argv = s->argv, .uid = options->uid, .gid = options->gid};
    return 0;
}

static void forget(struct serve *s)
{
    scoped_close_fd(&s->pid_fd);
    s->pid_fd = -1;
    s->pid = 0;
    s->kill_ns = 0;
    s->is_watched = false;
    watchdog_close(&s->watchdog);
}

void serve_close(struct serve *s)
{
    siginfo_t info;
    if (s->pid > 0) {
        syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)s->pid_fd, &info, WEXITED);
    }
    forget(s);
    free(s->argv);
    s->argv = NULL;
}

/* A start that fails counts as one of a client that ended at once. */
static void plan_next(struct serve *s)
{
    int64_t now = clock_now_ns();
    bool did_well = s->hello_ns && now - s->hello_ns >= WELL_MS * MS;
    s->failures = did_well ? 0 : s->failures + 1;
    int64_t pause = s->failures < 2 ? 0 : PAUSE_MS << MIN(s->failures - 2, 16u);
    s->start_ns = now + MIN(pause, PAUSE_MAX_MS) * MS;
    s->hello_ns = 0;
    if (!s->alone_ns)
        s->alone_ns = now;
}

/* It is in its group before its first instruction. */
static pid_t start_in(struct client_group *group, struct starter *starter, int socket)
{
    int with[1 + CGROUP_HIERARCHIES_MAX] = {socket};
    size_t count = 1 + client_group_doors(group, with + 1);
    pid_t pid = starter_start(starter, STARTER_CLIENT, with, count);
    while (count > 1)
        close(with[--count]);
    return pid;
}

bool serve_start(struct serve *s, struct starter *starter, struct client_group *group, int *socket)
{
    const struct timeval patience = {.tv_sec = SEND_SECONDS};
    int pair[2];
    if (!s->is_on || s->is_last || s->pid > 0 || clock_now_ns() < s->start_ns)
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        plan_next(s);
        return false;
    }
    scoped_fd int ours = pair[0];
    scoped_fd int theirs = pair[1];
    setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    pid_t pid = start_in(group, starter, theirs);
    s->pid_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (s->pid_fd < 0) {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        plan_next(s);
        return false;
    }
    s->pid = pid;
    *socket = take_fd(&ours);
    return true;
}

void serve_on_hello(struct serve *s)
{
    s->alone_ns = 0;
    s->hello_ns = clock_now_ns();
}

void serve_on_pulse(struct serve *s)
{
    if (s->pid == 0 || s->options->watch_ms == 0)
        return;
    if (!s->is_watched)
        watchdog_open(&s->watchdog, s->pid); /* ours to reap, so its number is still its own */
    s->is_watched = true;
    watchdog_turned(&s->watchdog);
}

/* Its sandboxes survive that, and whoever else uses the server waits for it. */
static void replace_if_stuck(struct serve *s)
{
    char place[WATCHDOG_PLACE_BYTES];
    if (!s->is_watched || s->kill_ns)
        return;
    int64_t stood_ns = watchdog_look(&s->watchdog);
    if (stood_ns < (int64_t)s->options->watch_ms * MS)
        return;
    watchdog_place(&s->watchdog, place);
    log_words(s->log,
              "cove-spawner: the client has not turned its loop for %lld ms (it stands in %s): "
              "replacing it",
              (long long)(stood_ns / MS), place);
    s->is_watched = false;
    watchdog_close(&s->watchdog);
    syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
}

void serve_on_lost(struct serve *s, bool must_die)
{
    if (!s->alone_ns)
        s->alone_ns = clock_now_ns();
    if (s->pid == 0)
        return;
    if (must_die)
        syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
    else if (!s->kill_ns)
        s->kill_ns = clock_now_ns() + LINGER_MS * MS;
}

bool serve_ask_to_stop(struct serve *s)
{
    bool is_asked = s->is_last;
    s->is_last = true;
    if (s->pid == 0 || is_asked)
        return false;
    syscall(SYS_pidfd_send_signal, s->pid_fd, SIGTERM, NULL, 0);
    s->kill_ns = clock_now_ns() + STOP_MS * MS;
    return true;
}

/* It was asked to end when it could not answer that yet, or was about to end already. */
static bool died_as_asked(const siginfo_t *info)
{
    return info->si_code == CLD_KILLED && (info->si_status == SIGTERM || info->si_status == SIGINT);
}

enum serve_news serve_on_poll(struct serve *s)
{
    siginfo_t info = {0};
    if (s->pid == 0 || waitid(P_PIDFD, (id_t)s->pid_fd, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return SERVE_NO_NEWS;
    forget(s);
    plan_next(s);
    int status = info.si_code == CLD_EXITED ? info.si_status : -1;
    if (status != SPAWN_REFUSAL)
        s->refused_ns = 0;
    else if (!s->refused_ns)
        s->refused_ns = clock_now_ns();
    if (s->is_last || status == 0 || died_as_asked(&info))
        return SERVE_IS_OVER;
    return status == SPAWN_REFUSAL ? SERVE_HAS_REFUSED : SERVE_HAS_ENDED;
}

static int64_t grace_ends_ns(const struct serve *s)
{
    return s->alone_ns + (int64_t)s->options->grace_ms * MS;
}

bool serve_is_hopeless(const struct serve *s)
{
    return s->refused_ns && clock_now_ns() - s->refused_ns >= (int64_t)s->options->grace_ms * MS;
}

bool serve_on_time(struct serve *s)
{
    int64_t now = clock_now_ns();
    if (!s->is_on)
        return false;
    if (s->pid > 0 && s->kill_ns && now >= s->kill_ns) {
        s->kill_ns = 0;
        syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
    }
    if (now >= watchdog_due_ns(&s->watchdog))
        replace_if_stuck(s);
    return s->alone_ns && now >= grace_ends_ns(s);
}

int64_t serve_due_ns(const struct serve *s)
{
    int64_t due = INT64_MAX;
    if (!s->is_on)
        return due;
    if (s->pid == 0 && !s->is_last)
        due = s->start_ns;
    if (s->kill_ns)
        due = MIN(due, s->kill_ns);
    if (s->alone_ns)
        due = MIN(due, grace_ends_ns(s));
    return MIN(due, watchdog_due_ns(&s->watchdog));
}
