/* serve.c - starting the client, with nothing of the spawner's power or files
 *
 * The spawner changes its namespaces when it starts, and an ordinary user's has no way back. So a
 * process that was forked before, the starter, makes the clients: as children of the spawner, in
 * the namespaces that it came from. It takes one kind of order and opens nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/caps.h"
#include "wire/spawn.h"

#define MS             1000000ll
#define PAUSE_MS       100 /* before the second start; doubled each time */
#define PAUSE_MAX_MS   5000
#define WELL_MS        10000 /* one that lived this long did not fail at its start */
#define LINGER_MS      1000  /* between hanging up and being gone */
#define STOP_MS        10000 /* for a client to leave things in order */
#define SEND_SECONDS   5     /* one that does not read for so long is taken for dead */
#define FDS_WANTED     (1u << 20)
#define EXIT_NOT_BEGUN 127

/* --- the child ------------------------------------------------------------------------------- */

/* An ordinary user has no power to drop, and gets none from here on. */
static int drop_power(const struct serve_options *o)
{
    gid_t gid = (gid_t)o->gid;
    uid_t uid = (uid_t)o->uid;
    if (geteuid() == 0 &&
        (caps_drop_bounding() < 0 || setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
         setresuid(uid, uid, uid) < 0 || caps_drop_all() < 0))
        return -1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int take_fds(int socket)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0)
        return -1;
    if (socket == SPAWN_CLIENT_FD ? fcntl(socket, F_SETFD, 0) < 0
                                  : dup2(socket, SPAWN_CLIENT_FD) < 0)
        return -1;
    return (int)syscall(SYS_close_range, SPAWN_CLIENT_FD + 1, ~0u, 0);
}

/* Between fork and exec. It dies with the spawner: a signal that a change of ids would clear. */
static _Noreturn void become_client(const struct serve *s, int socket, pid_t parent)
{
    static const char words[] = "cove-spawner: the client could not be started\n";
    sigset_t none;
    sigemptyset(&none);
    if (take_fds(socket) == 0 && drop_power(s->options) == 0 &&
        prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execv(s->options->program, s->argv);
    (void)!write(2, words, sizeof(words) - 1);
    _exit(EXIT_NOT_BEGUN);
}

/* --- the starter ----------------------------------------------------------------------------- */

/* Each order brings the client's end of a pair, and is answered by its pid, or -1. Signals that are
 * meant for all of us are the spawner's to answer. */
static _Noreturn void start_clients(const struct serve *s, int link, pid_t parent)
{
    int fds[FD_PASS_MAX];
    size_t count;
    char order;
    sigset_t all;
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0 || getppid() != parent)
        _exit(1);
    while (fd_recv(link, &order, sizeof(order), fds, &count) == sizeof(order) && count == 1) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0)
            become_client(s, fds[0], parent);
        close(fds[0]);
        if (fd_send(link, &pid, sizeof(pid), NULL, 0) < 0)
            break;
    }
    _exit(0);
}

static int open_starter(struct serve *s, struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make a socket");
    s->starter_fd = pair[0];
    scoped_fd int theirs = pair[1];
    pid_t parent = getpid();
    s->starter = fork();
    if (s->starter < 0)
        return error_sys(err, "fork");
    if (s->starter == 0) {
        close(pair[0]);
        start_clients(s, theirs, parent);
    }
    return 0;
}

/* -1: it could not. */
static pid_t ask_starter(const struct serve *s, int socket)
{
    int fds[FD_PASS_MAX];
    size_t count;
    pid_t pid;
    if (fd_send(s->starter_fd, "", 1, &socket, 1) < 0 ||
        fd_recv(s->starter_fd, &pid, sizeof(pid), fds, &count) != sizeof(pid))
        return -1;
    return pid;
}

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

int serve_open(struct serve *s, const struct serve_options *options, char **arguments,
               struct error *err)
{
    size_t count = 0;
    *s = (struct serve){.options = options, .pid_fd = -1, .starter_fd = -1};
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
    return open_starter(s, err);
}

static void forget(struct serve *s)
{
    scoped_close_fd(&s->pid_fd);
    s->pid_fd = -1;
    s->pid = 0;
    s->kill_ns = 0;
}

void serve_close(struct serve *s)
{
    siginfo_t info;
    if (s->pid > 0) {
        syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)s->pid_fd, &info, WEXITED);
    }
    forget(s);
    scoped_close_fd(&s->starter_fd); /* which ends the starter */
    if (s->starter > 0)
        waitpid(s->starter, NULL, 0);
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

bool serve_start(struct serve *s, int *socket)
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
    pid_t pid = ask_starter(s, theirs);
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

enum serve_news serve_on_poll(struct serve *s)
{
    siginfo_t info = {0};
    if (s->pid == 0 || waitid(P_PIDFD, (id_t)s->pid_fd, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return SERVE_NO_NEWS;
    forget(s);
    plan_next(s);
    int status = info.si_code == CLD_EXITED ? info.si_status : -1;
    if (s->is_last || status == 0)
        return SERVE_IS_OVER;
    return status == SPAWN_REFUSAL ? SERVE_HAS_REFUSED : SERVE_HAS_ENDED;
}

static int64_t grace_ends_ns(const struct serve *s)
{
    return s->alone_ns + (int64_t)s->options->grace_ms * MS;
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
    return due;
}
