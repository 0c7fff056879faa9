/* terminal.c - a shell on a pseudo-terminal, and the process that stands between it and the host
 *
 * The keeper is a child of init's, of which code inside sees nothing but its name. It holds the
 * master side, so that the host has a plain socket and never a terminal, and carries bytes both
 * ways; what one side does not take waits in buffers of fixed size, and then with who sends. It is
 * the reaper of all that the shell starts: whatever becomes of those processes, they stay below it,
 * apart from what the program has started, and end with the terminal. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "init/init.h"
#include "init/program.h"
#include "wire/terminal.h"

#define CHANNEL_FD    GUEST_CONTROL_FD /* in its place: a keeper has nothing to tell init's host */
#define TYPED_MAX     (64 * KIB)
#define DRAIN_MAX     (1024 * KIB) /* of what was printed before the end */
#define HANGUP_ROUNDS 10
#define HANGUP_MS     200 /* for the shell to end by itself */
#define FRAME_BYTES   sizeof(struct terminal_frame)

struct message {
    struct terminal_frame frame;
    char bytes[TERMINAL_BYTES_MAX];
};

/* Out of the stack; pages are touched only as far as they are used. */
static struct keeper {
    int master; /* -1: it gives nothing any more */
    int slave;  /* held, so that a shell which closes its own end does not end the terminal */
    int signals;
    pid_t shell;
    bool has_ended;
    siginfo_t end; /* of the shell */
    char typed[TYPED_MAX];
    size_t typed_len;
    struct message printed;
    size_t printed_len; /* of the whole message; 0: none waits */
} keeper;

/* --- the shell ------------------------------------------------------------------------------- */

static void set_size(int fd, unsigned columns, unsigned rows)
{
    const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    (void)!ioctl(fd, TIOCSWINSZ, &size); /* who watches it gets a SIGWINCH */
}

/* As a terminal of our time has it: Backspace takes a character, not a byte. */
static void set_modes(int fd)
{
    struct termios modes;
    if (tcgetattr(fd, &modes) == 0) {
        modes.c_iflag |= IUTF8;
        tcsetattr(fd, TCSANOW, &modes);
    }
}

static int open_pair(struct keeper *k, uint32_t size)
{
    int unlocked = 0;
    k->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (k->master < 0 || ioctl(k->master, TIOCSPTLCK, &unlocked) < 0)
        return -1;
    k->slave = ioctl(k->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (k->slave < 0)
        return -1;
    set_size(k->master, size >> 16, size & 0xffff);
    set_modes(k->slave);
    return 0;
}

static NORETURN void run_shell(const struct program *p, int slave, int fail_fd)
{
    init_settle_child();
    if (setsid() >= 0 && ioctl(slave, TIOCSCTTY, 0) == 0 && dup2(slave, 0) == 0 &&
        dup2(slave, 1) == 1 && dup2(slave, 2) == 2 && chdir(p->directory) == 0) {
        for (char *const *path = p->argv; *path; path++) {
            char *name = strrchr(*path, '/');
            char *const argv[] = {name ? name + 1 : *path, NULL};
            execve(*path, argv, p->envp);
        }
    }
    int error = errno;
    (void)!write(fail_fd, &error, sizeof(error));
    _exit(127);
}

/* 0, or an errno. */
static int start_shell(struct keeper *k, const struct program *p)
{
    int fail[2], error = 0;
    if (pipe2(fail, O_CLOEXEC) < 0)
        return errno;
    k->shell = fork();
    if (k->shell == 0)
        run_shell(p, k->slave, fail[1]);
    error = k->shell < 0 ? errno : 0;
    close(fail[1]);
    if (k->shell > 0)
        (void)!read(fail[0], &error, sizeof(error));
    close(fail[0]);
    return error;
}

/* --- what is carried ------------------------------------------------------------------------- */

static bool send_frame(const struct terminal_frame *frame)
{
    return send(CHANNEL_FD, frame, FRAME_BYTES, MSG_NOSIGNAL) == FRAME_BYTES;
}

/* False: the host is gone, or speaks nonsense. */
static bool receive(struct keeper *k)
{
    static struct message m;
    ssize_t n = recv(CHANNEL_FD, &m, sizeof(m), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n < (ssize_t)FRAME_BYTES)
        return false;
    if (m.frame.type == TERMINAL_SIZE && k->master >= 0) {
        set_size(k->master, m.frame.columns, m.frame.rows);
    } else if (m.frame.type == TERMINAL_BYTES) {
        memcpy(k->typed + k->typed_len, m.bytes, (size_t)n - FRAME_BYTES);
        k->typed_len += (size_t)n - FRAME_BYTES;
    }
    return true;
}

static bool is_transient(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void close_master(struct keeper *k)
{
    close(k->master);
    k->master = -1;
}

static void type(struct keeper *k)
{
    ssize_t n = write(k->master, k->typed, k->typed_len);
    if (n < 0 && !is_transient())
        close_master(k);
    if (n <= 0)
        return;
    k->typed_len -= (size_t)n;
    memmove(k->typed, k->typed + n, k->typed_len);
}

/* False: there is nothing. */
static bool take_printed(struct keeper *k)
{
    ssize_t n = read(k->master, k->printed.bytes, sizeof(k->printed.bytes));
    if (n < 0 && !is_transient())
        close_master(k);
    if (n <= 0)
        return false;
    k->printed.frame = (struct terminal_frame){.type = TERMINAL_BYTES};
    k->printed_len = FRAME_BYTES + (size_t)n;
    return true;
}

static bool send_printed(struct keeper *k)
{
    ssize_t n = send(CHANNEL_FD, &k->printed, k->printed_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return is_transient();
    k->printed_len = 0;
    return true;
}

static void reap(void *ctx)
{
    struct keeper *k = ctx;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
            return;
        if (info.si_pid == k->shell) {
            k->has_ended = true;
            k->end = info;
        }
    }
}

static void on_signals(struct keeper *k)
{
    struct signalfd_siginfo drained;
    while (read(k->signals, &drained, sizeof(drained)) > 0)
        ;
    reap(k);
}

/* Until the shell ends; false: until the host does. */
static bool carry(struct keeper *k)
{
    while (!k->has_ended) {
        bool has_room = k->typed_len + TERMINAL_BYTES_MAX <= TYPED_MAX;
        struct pollfd p[3] = {
            {.fd = CHANNEL_FD, .events = (has_room ? POLLIN : 0) | (k->printed_len ? POLLOUT : 0)},
            {.fd = k->master,
             .events = (k->printed_len ? 0 : POLLIN) | (k->typed_len ? POLLOUT : 0)},
            {.fd = k->signals, .events = POLLIN},
        };
        if (poll(p, ARRAY_LEN(p), -1) < 0)
            continue;
        if (p[0].revents & (POLLHUP | POLLERR))
            return false;
        if (p[2].revents)
            on_signals(k);
        if (p[0].revents & POLLIN && !receive(k))
            return false;
        if (p[1].revents & POLLOUT)
            type(k);
        if (p[1].revents & ~POLLOUT && k->master >= 0 && !k->printed_len)
            take_printed(k);
        if (k->printed_len && !send_printed(k))
            return false;
    }
    return true;
}

/* --- ends ------------------------------------------------------------------------------------ */

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* What a terminal does whose user goes away: the kernel sends SIGHUP to the shell and to what runs
 * in its foreground, which may put away what it has. */
static void hang_up(struct keeper *k)
{
    struct pollfd p = {.fd = k->signals, .events = POLLIN};
    close(k->master);
    close(k->slave);
    for (int i = 0; i < HANGUP_ROUNDS && has_children(); i++) {
        if (poll(&p, 1, HANGUP_MS / HANGUP_ROUNDS) > 0)
            on_signals(k);
    }
}

static bool wait_for_room(void)
{
    struct pollfd p = {.fd = CHANNEL_FD, .events = POLLOUT};
    while (poll(&p, 1, -1) < 0)
        ;
    return (p.revents & (POLLHUP | POLLERR)) == 0;
}

/* Nobody of its own prints any more; but others inside may have opened the terminal, too. */
static void drain(struct keeper *k)
{
    size_t sent = 0;
    close(k->slave);
    while (k->printed_len > 0 || (k->master >= 0 && sent < DRAIN_MAX && take_printed(k))) {
        sent += k->printed_len;
        if (!wait_for_room() || !send_printed(k))
            return;
    }
}

static void tell_end(const struct keeper *k)
{
    bool has_exited = k->end.si_code == CLD_EXITED;
    const struct terminal_frame frame = {.type = TERMINAL_EXITED,
                                         .exit_code = has_exited ? k->end.si_status : 0,
                                         .signal = has_exited ? 0 : k->end.si_status};
    send_frame(&frame);
}

void init_refuse_terminal(int channel, int error)
{
    const struct terminal_frame frame = {.type = TERMINAL_FAILED, .error = error};
    (void)!send(channel, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- the keeper ------------------------------------------------------------------------------ */

/* Nothing of init's stays but the channel. No signal ends it but SIGKILL, and those that the C
 * library keeps for itself. */
static int settle(struct keeper *k, int channel)
{
    sigset_t all, chld;
    sigfillset(&all);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    setsid();
    if (dup3(channel, CHANNEL_FD, O_CLOEXEC) < 0 ||
        syscall(SYS_close_range, CHANNEL_FD + 1, ~0u, 0) < 0 ||
        prctl(PR_SET_NAME, "cove-terminal") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
        sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -1;
    k->signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    return k->signals < 0 ? -1 : 0;
}

static NORETURN void run_keeper(const struct program *p, int channel, uint32_t size)
{
    struct keeper *k = &keeper;
    int error = settle(k, channel) < 0 || open_pair(k, size) < 0 ? errno : start_shell(k, p);
    if (error) {
        init_refuse_terminal(CHANNEL_FD, error);
        _exit(1);
    }
    bool is_heard = send_frame(&(struct terminal_frame){.type = TERMINAL_STARTED}) && carry(k);
    if (!is_heard)
        hang_up(k);
    init_kill_children(reap, k);
    if (is_heard) {
        drain(k);
        tell_end(k);
    }
    _exit(0);
}

pid_t init_start_terminal(const struct guest_message *m, char *strings, int channel)
{
    static struct program program;
    if (!program_parse(&program, m, strings)) {
        errno = EINVAL;
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_keeper(&program, channel, (uint32_t)m->value);
    return pid;
}
