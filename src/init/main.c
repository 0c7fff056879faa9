/* main.c - cove-init: the event loop of pid 1
 *
 * Two sources: the control socket and SIGCHLD. When the control socket closes, nobody outside wants
 * this sandbox any more: init exits and the kernel kills the rest of the pid namespace with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "init/init.h"
#include "wire/files.h"

struct init {
    pid_t program; /* 0 = none runs */
    pid_t worker;
    struct guest_message work;        /* that it was asked for */
    pid_t keepers[GUEST_KEEPERS_MAX]; /* of terminals; 0 = none */
    pid_t porters[FILES_CHILDREN];    /* of errands with files; the same */
    int put_error;                    /* of the last GUEST_FILES_PUT_NOW */
    struct guest_message end;         /* of the last program */
};

/* Kept out of the stack; pages are touched only as far as a start needs them. */
static struct {
    struct guest_message m;
    char strings[GUEST_STRINGS_MAX];
} request;

static void tell(const struct guest_message *m)
{
    if (fd_send(GUEST_CONTROL_FD, m, sizeof(*m), NULL, 0) < 0)
        _exit(1); /* the host is gone */
}

static void tell_value(enum guest_verb verb, int value)
{
    tell(&(struct guest_message){.verb = verb, .value = value});
}

static void tell_files_done(int error, uint32_t epoch)
{
    tell(&(struct guest_message){.verb = GUEST_FILES_DONE, .value = error, .flags = epoch});
}

static void tell_exit(struct init *in, const siginfo_t *info)
{
    bool has_exited = info->si_code == CLD_EXITED;
    in->end = (struct guest_message){.verb = GUEST_EXITED,
                                     .exit_code = has_exited ? info->si_status : 0,
                                     .signal = has_exited ? 0 : info->si_status};
    tell(&in->end);
}

static void tell_state(const struct init *in)
{
    struct guest_message m = in->end;
    m.verb = GUEST_TOLD;
    m.value = in->program > 0;
    tell(&m);
}

static void forget(pid_t *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == pid)
            list[i] = 0;
    }
}

/* A free place; NULL: there is none. */
static pid_t *find_free(pid_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == 0)
            return &list[i];
    }
    return NULL;
}

static void reap(void *ctx)
{
    struct init *in = ctx;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
            return;
        init_forget_dying(info.si_pid);
        if (info.si_pid == in->program) {
            in->program = 0;
            tell_exit(in, &info);
        } else if (info.si_pid == in->worker) {
            in->worker = 0;
            tell_files_done(info.si_code == CLD_EXITED ? info.si_status : EIO, in->work.flags);
        } else {
            forget(in->keepers, ARRAY_LEN(in->keepers), info.si_pid);
            forget(in->porters, ARRAY_LEN(in->porters), info.si_pid);
        }
    }
}

#define KEEP_MAX (GUEST_KEEP_MAX + 1 + GUEST_KEEPERS_MAX + FILES_CHILDREN)

/* The strings of a message are the pids that stay. */
static size_t read_keep(int32_t keep[KEEP_MAX])
{
    size_t count = request.m.strings_len / sizeof(keep[0]);
    if (count > GUEST_KEEP_MAX)
        count = 0;
    memcpy(keep, request.strings, count * sizeof(keep[0]));
    return count;
}

static size_t add_pids(int32_t *keep, size_t count, const pid_t *list, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (list[i])
            keep[count++] = list[i];
    }
    return count;
}

/* And sees it dead, so that it is in nobody's way; the next reap() takes it. */
static void kill_child(pid_t pid)
{
    siginfo_t info = {0};
    if (pid > 1 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        kill(pid, SIGKILL) == 0)
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

/* What somebody else may write to meanwhile would be a copy of no moment. Porters are the host's,
 * which sends none that writes. */
static bool is_alone(struct init *in)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    int32_t keep[KEEP_MAX];
    size_t count = read_keep(keep);
    keep[count++] = in->program;
    count = add_pids(keep, count, in->porters, ARRAY_LEN(in->porters));
    for (int tries = 0; tries < 20; tries++) { /* some may be about to end */
        init_wait_for_dying();
        reap(in);
        if (!init_has_others(keep, count))
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

/* One that carries files to or from a host who has gone, or gone on, carries them to nobody. */
static void end_stale_worker(struct init *in, uint32_t epoch)
{
    siginfo_t info;
    if (!in->worker || in->work.flags == epoch || in->work.value > GUEST_FILES_GET)
        return;
    kill(in->worker, SIGKILL);
    while (waitid(P_PID, (id_t)in->worker, &info, WEXITED) < 0 && errno == EINTR)
        ;
    init_forget_dying(in->worker);
    in->worker = 0;
}

static void start_worker(struct init *in, const struct guest_message *m, const int fds[2])
{
    if (m->value == GUEST_FILES_PUT_NOW) {
        in->put_error = init_files(m, fds[0], fds[1]);
        tell_files_done(in->put_error, m->flags);
        return;
    }
    if (m->value == GUEST_FILES_LIST_NOW) {
        tell_files_done(init_files(m, fds[0], fds[1]), m->flags);
        return;
    }
    end_stale_worker(in, m->flags);
    bool is_copy = m->value == GUEST_FILES_SAVE || m->value == GUEST_FILES_PACK;
    if (is_copy && !in->worker && !is_alone(in)) {
        tell_files_done(ECHILD, m->flags);
        return;
    }
    if (m->value == GUEST_FILES_FORGET) {
        kill_child((pid_t)m->envc);
        kill_child(m->exit_code);
    }
    pid_t pid = in->worker ? -1 : fork();
    if (pid == 0)
        _exit(init_files(m, fds[0], fds[1]));
    if (pid < 0) {
        tell_files_done(in->worker ? EBUSY : errno, m->flags);
    } else {
        in->worker = pid;
        in->work = *m;
    }
}

static void start_program(struct init *in, const int *fds, size_t fd_count)
{
    pid_t pid = -1;
    errno = in->put_error ? ECANCELED : EBUSY;
    if (!in->program && !in->put_error)
        pid = init_start_program(&request.m, request.strings, fds, fd_count);
    tell_value(GUEST_STARTED, pid < 0 ? errno : 0);
    if (pid > 0)
        in->program = pid;
}

/* Its channel says what came of it. */
static void start_terminal(struct init *in, int channel)
{
    pid_t *place = find_free(in->keepers, ARRAY_LEN(in->keepers));
    if (!place) {
        init_refuse_terminal(channel, EBUSY);
        return;
    }
    pid_t pid = init_start_terminal(&request.m, request.strings, channel);
    if (pid < 0)
        init_refuse_terminal(channel, errno);
    else
        *place = pid;
}

/* The same. */
static void start_porter(struct init *in, int channel)
{
    pid_t *place = find_free(in->porters, ARRAY_LEN(in->porters));
    pid_t pid = place ? init_start_porter(channel) : -1;
    if (pid < 0)
        init_refuse_porter(channel, place ? errno : EBUSY);
    else
        *place = pid;
}

static void kill_all(struct init *in)
{
    int32_t keep[KEEP_MAX];
    size_t count = read_keep(keep);
    if (!(request.m.value & GUEST_KILL_TERMINALS)) {
        /* A keeper with all below it, which never become ours. */
        count = add_pids(keep, count, in->keepers, ARRAY_LEN(in->keepers));
        count = add_pids(keep, count, in->porters, ARRAY_LEN(in->porters));
    }
    init_kill_others(keep, count, in->program, reap, in);
    if (request.m.value & GUEST_KILL_TELL)
        tell_value(GUEST_KILLED, 0);
}

/* It may have ended already; then nobody would ever tell of its end. */
static void adopt(struct init *in, pid_t pid)
{
    siginfo_t info = {0};
    bool is_child = pid > 1 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (is_child)
        in->program = pid;
    tell_value(GUEST_ADOPTED, is_child ? 0 : ECHILD);
}

static void serve(struct init *in, const int *fds, size_t fd_count)
{
    switch ((enum guest_verb)request.m.verb) {
    case GUEST_START:
        if (fd_count >= 3 && fd_count <= GUEST_START_FDS)
            start_program(in, fds, fd_count);
        break;
    case GUEST_SIGNAL:
        if (in->program)
            kill(-in->program, request.m.value);
        break;
    case GUEST_KILL:
        kill_all(in);
        break;
    case GUEST_FILES:
        if (fd_count == (request.m.value < GUEST_FILES_SAVE ? 2 : 0))
            start_worker(in, &request.m, fds);
        break;
    case GUEST_ADOPT:
        adopt(in, request.m.value);
        break;
    case GUEST_TELL:
        tell_state(in);
        break;
    case GUEST_TERMINAL:
        if (fd_count == 1)
            start_terminal(in, fds[0]);
        break;
    case GUEST_PORTER:
        if (fd_count == 1)
            start_porter(in, fds[0]);
        break;
    case GUEST_READY:
    case GUEST_STARTED:
    case GUEST_EXITED:
    case GUEST_FILES_DONE:
    case GUEST_KILLED:
    case GUEST_ADOPTED:
    case GUEST_TOLD:
        break; /* ours to say */
    }
}

static void receive(struct init *in)
{
    int fds[FD_PASS_MAX];
    size_t count = 0;
    ssize_t n = fd_recv(GUEST_CONTROL_FD, &request, sizeof(request), fds, &count);
    if (n <= 0)
        _exit(0);
    if ((size_t)n >= sizeof(request.m) && request.m.strings_len == (size_t)n - sizeof(request.m))
        serve(in, fds, count);
    while (count > 0)
        close(fds[--count]);
}

/* A zygote's sandbox comes with its program: the argument is the pid. */
static pid_t born_with(int argc, char **argv)
{
    pid_t pid = 0;
    for (const char *p = argc > 1 ? argv[1] : ""; *p >= '0' && *p <= '9'; p++)
        pid = pid * 10 + (*p - '0');
    return pid;
}

int main(int argc, char **argv)
{
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    /* The control socket came through exec, and must not go through another. */
    if (fcntl(GUEST_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
        prctl(PR_SET_NAME, "cove-init") < 0 || sigprocmask(SIG_BLOCK, &chld, NULL) < 0)
        return 1;
    int signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return 1;
    tell_value(GUEST_READY, 0);

    struct init in = {.program = born_with(argc, argv)};
    struct pollfd sources[2] = {{.fd = GUEST_CONTROL_FD, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
    for (;;) {
        if (poll(sources, 2, -1) < 0)
            continue;
        if (sources[1].revents) {
            struct signalfd_siginfo drained;
            while (read(signals, &drained, sizeof(drained)) > 0)
                ;
            reap(&in);
        }
        if (sources[0].revents)
            receive(&in);
    }
}
