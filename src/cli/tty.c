/* tty.c - termios, and handlers that put it back */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tty.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/term.h"

#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"
#define COLUMNS_MIN 8
#define SIDE_MAX    1000

struct tty {
    int in, out;
    enum tty_mode mode;
};

static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* The one global: what a crash has to put back. Written before the handlers are there. */
static struct {
    volatile sig_atomic_t is_changed;
    int in, out;
    struct termios found;
    struct sigaction before[ARRAY_LEN(crashes)];
} kept = {.in = -1};

static void put_back(void)
{
    if (!kept.is_changed)
        return;
    kept.is_changed = 0;
    tcsetattr(kept.in, TCSADRAIN, &kept.found);
    (void)!write(kept.out, PASTE_OFF, strlen(PASTE_OFF));
}

static void on_crash(int number)
{
    put_back();
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        if (crashes[i] == number)
            sigaction(number, &kept.before[i], NULL);
    }
    raise(number);
}

static void watch_crashes(void)
{
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
        sigaction(crashes[i], &action, &kept.before[i]);
    atexit(put_back);
}

/* An open file of its own: the loop makes fds non-blocking, which must not reach the shell's. */
static int open_again(int fd)
{
    int again = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int tty_open(struct tty **out, struct error *err)
{
    int screen = term_is_terminal(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO;
    if (!term_is_terminal(STDIN_FILENO) || !term_is_terminal(screen))
        return error_set(err, ERROR_UNAVAILABLE, "this is not a terminal");
    if (tcgetattr(STDIN_FILENO, &kept.found) < 0)
        return error_sys(err, "look at the terminal");
    int in = open_again(STDIN_FILENO);
    if (in < 0)
        return error_sys(err, "open the terminal");
    bool is_first = kept.in < 0;
    kept.in = STDIN_FILENO;
    kept.out = screen;
    if (is_first)
        watch_crashes();
    struct tty *tty = xcalloc(1, sizeof(*tty));
    *tty = (struct tty){.in = in, .out = screen};
    *out = tty;
    return 0;
}

void tty_free(struct tty *tty)
{
    if (!tty)
        return;
    tty_enter(tty, TTY_FOUND);
    close(tty->in);
    free(tty);
}

int tty_in(const struct tty *tty)
{
    return tty->in;
}

int tty_out(const struct tty *tty)
{
    return tty->out;
}

static struct termios mode_of(enum tty_mode mode)
{
    struct termios t = kept.found;
    if (mode == TTY_FOUND)
        return t;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL);
    t.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR);
    t.c_cc[VMIN] = 1;
    t.c_cc[VTIME] = 0;
    if (mode == TTY_EDITING) {
        t.c_lflag &= ~(tcflag_t)(ISIG | IEXTEN);
        t.c_iflag &= ~(tcflag_t)(IXON | ISTRIP);
    }
    return t;
}

void tty_enter(struct tty *tty, enum tty_mode mode)
{
    tty->mode = mode;
    if (mode == TTY_FOUND) {
        put_back();
        return;
    }
    struct termios t = mode_of(mode);
    kept.is_changed = 1;
    tcsetattr(tty->in, TCSADRAIN, &t);
    const char *paste = mode == TTY_EDITING ? PASTE_ON : PASTE_OFF;
    (void)!write(tty->out, paste, strlen(paste));
}

void tty_size(const struct tty *tty, unsigned *columns, unsigned *rows)
{
    struct winsize size = {0};
    if (ioctl(tty->out, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    *columns = MIN(MAX((unsigned)size.ws_col, COLUMNS_MIN), SIDE_MAX);
    *rows = MIN(MAX((unsigned)size.ws_row, 2), SIDE_MAX);
}

bool tty_is_foreground(const struct tty *tty)
{
    return tcgetpgrp(tty->in) == getpgrp();
}

bool tty_is_as_left(const struct tty *tty)
{
    struct termios now, ours = mode_of(tty->mode);
    return tcgetattr(tty->in, &now) == 0 && now.c_lflag == ours.c_lflag &&
           now.c_iflag == ours.c_iflag;
}
