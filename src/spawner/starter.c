/* starter.c - between fork and exec: fds, ids, signals, and then another program */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "box/caps.h"
#include "spawner/watchdog.h"
#include "wire/egress.h"
#include "wire/spawn.h"

#define EXIT_NOT_BEGUN 127

#define KILL_TIMES 6 /* as long as until it is interrupted may it stand until it is killed */
#define MS         1000000ll

_Static_assert(EGRESS_LINK_FD == SPAWN_CLIENT_FD, "each finds its socket at the same number");

/* --- the child ------------------------------------------------------------------------------- */

/* An ordinary user has no power to drop, and gets none from here on. */
static int drop_power(const struct starter_program *p)
{
    gid_t gid = (gid_t)p->gid;
    uid_t uid = (uid_t)p->uid;
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

/* The options of a server are in our environment, and its tokens among them. */
static void make_bare(char **out)
{
    static const char *const names[] = {"ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        for (char **e = environ; *e; e++) {
            if (strncmp(*e, names[i], strlen(names[i])) == 0) {
                *out++ = *e;
                break;
            }
        }
    }
    *out = NULL;
}

/* Where it is counted; nothing depends on that. */
static void enter_groups(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)!write(fds[i], "0", 1);
}

/* It dies with the spawner: a signal that a change of ids would clear. */
static _Noreturn void become(const struct starter_program *p, int socket, pid_t parent)
{
    static const char words[] = "cove-spawner: a program could not be started\n";
    char *bare[4];
    sigset_t none;
    sigemptyset(&none);
    make_bare(bare);
    if (take_fds(socket) == 0 && drop_power(p) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
        getppid() == parent && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
        execve(p->path, p->argv, p->is_bare ? bare : environ);
    (void)!write(2, words, sizeof(words) - 1);
    _exit(EXIT_NOT_BEGUN);
}

/* --- the starter ----------------------------------------------------------------------------- */

/* What is watched of the spawner. */
struct watch {
    struct watchdog dog;
    pid_t spawner;
    uint32_t turns;    /* at the last look */
    int64_t nudged_ns; /* of its standing, when it was interrupted last */
};

static void look(struct watch *w, const struct starter *s)
{
    char place[WATCHDOG_PLACE_BYTES];
    uint32_t turns = atomic_load(s->turns);
    if (turns != w->turns) {
        w->turns = turns;
        w->nudged_ns = 0;
        watchdog_turned(&w->dog);
        return;
    }
    int64_t stood_ns = watchdog_look(&w->dog), limit_ns = (int64_t)s->watch_ms * MS;
    if (s->watch_ms == 0 || stood_ns < w->nudged_ns + limit_ns)
        return;
    watchdog_place(&w->dog, place);
    bool is_over = stood_ns >= KILL_TIMES * limit_ns;
    log_words(s->log, "cove-spawner: its loop has not turned for %lld ms (it stands in %s): %s",
              (long long)(stood_ns / MS), place,
              is_over ? "killing it, and with it all sandboxes" : "interrupting what it waits for");
    w->nudged_ns = stood_ns;
    kill(w->spawner, is_over ? SIGKILL : STARTER_NUDGE);
}

static void wait_for_order(struct watch *w, const struct starter *s, int link)
{
    struct pollfd p = {.fd = link, .events = POLLIN};
    while (poll(&p, 1, WATCHDOG_LOOK_MS) == 0)
        look(w, s);
}

/* Each order is a kind and brings that program's end of a pair, with the doors of the groups that
 * it belongs into behind it, and is answered by its pid, or -1. Signals that are meant for all of
 * us are the spawner's to answer. */
static _Noreturn void serve_orders(const struct starter *s, int link, pid_t parent)
{
    int fds[FD_PASS_MAX];
    size_t count;
    uint8_t kind;
    sigset_t all;
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_DUMPABLE, 0) < 0 || getppid() != parent)
        _exit(1);
    struct watch w = {.spawner = parent};
    watchdog_init(&w.dog);
    watchdog_open(&w.dog, parent);
    wait_for_order(&w, s, link);
    while (fd_recv(link, &kind, sizeof(kind), fds, &count) == sizeof(kind) && count >= 1 &&
           kind < STARTER_KINDS && s->programs[kind].path) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) {
            enter_groups(fds + 1, count - 1);
            become(&s->programs[kind], fds[0], parent);
        }
        while (count > 0)
            close(fds[--count]);
        if (fd_send(link, &pid, sizeof(pid), NULL, 0) < 0)
            break;
        wait_for_order(&w, s, link);
    }
    _exit(0);
}

int starter_open(struct starter *s, const struct starter_program *programs, struct error *err)
{
    int pair[2];
    memcpy(s->programs, programs, sizeof(s->programs));
    s->turns =
        mmap(NULL, sizeof(*s->turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->turns == MAP_FAILED) {
        s->turns = NULL;
        return error_sys(err, "share memory");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make a socket");
    s->fd = pair[0];
    scoped_fd int theirs = pair[1];
    pid_t parent = getpid();
    s->pid = fork();
    if (s->pid < 0)
        return error_sys(err, "fork");
    if (s->pid == 0) {
        close(pair[0]);
        serve_orders(s, theirs, parent);
    }
    return 0;
}

void starter_close(struct starter *s)
{
    scoped_close_fd(&s->fd); /* which ends it */
    s->fd = -1;
    if (s->pid > 0)
        waitpid(s->pid, NULL, 0);
    s->pid = 0;
    if (s->turns)
        munmap(s->turns, sizeof(*s->turns));
    s->turns = NULL;
}

void starter_on_turn(struct starter *s)
{
    if (s->turns)
        atomic_fetch_add(s->turns, 1);
}

pid_t starter_start(struct starter *s, enum starter_kind kind, const int *with, size_t with_count)
{
    int fds[FD_PASS_MAX];
    size_t count;
    pid_t pid;
    uint8_t order = (uint8_t)kind;
    if (fd_send(s->fd, &order, sizeof(order), with, with_count) < 0 ||
        fd_recv(s->fd, &pid, sizeof(pid), fds, &count) != sizeof(pid)) {
        s->is_gone = true;
        return -1;
    }
    return pid;
}
