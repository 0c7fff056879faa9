/* test_term.c - what is drawn on a terminal, and what is printed where there is none */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term.h"

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/scoped.h"
#include "check.h"

struct screen {
    int master, terminal;
    char text[8192];
};

static void screen_open(struct screen *screen, unsigned short columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(openpty(&screen->master, &screen->terminal, NULL, NULL, &size), 0);
    assert_int_equal(fcntl(screen->master, F_SETFL, O_NONBLOCK), 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
}

static void screen_close(struct screen *screen)
{
    close(screen->master);
    close(screen->terminal);
}

/* What was drawn since the last call. */
static const char *drawn(struct screen *screen)
{
    size_t len = 0;
    ssize_t n;
    while ((n = read(screen->master, screen->text + len, sizeof(screen->text) - 1 - len)) > 0)
        len += (size_t)n;
    screen->text[len] = '\0';
    return screen->text;
}

/* Columns that a drawn line takes: escape sequences none, other sequences one. */
static size_t columns(const char *text)
{
    size_t count = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '\033') {
            p += strcspn(p, "mK");
            continue;
        }
        bool is_continuation = (*p & 0xc0) == 0x80;
        count += *p != '\r' && *p != '\n' && !is_continuation;
    }
    return count;
}

static void test_width(void **state)
{
    (void)state;
    struct screen screen;
    screen_open(&screen, 132);
    assert_true(term_is_terminal(screen.terminal));
    assert_int_equal(term_width(screen.terminal), 132);
    screen_close(&screen);
    scoped_fd int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_false(term_is_terminal(file));
    assert_int_equal(term_width(file), 80);
}

static void test_colour(void **state)
{
    (void)state;
    struct screen screen;
    screen_open(&screen, 80);
    assert_true(term_has_colour(screen.terminal));
    setenv("NO_COLOR", "", 1); /* empty counts as not set */
    assert_true(term_has_colour(screen.terminal));
    setenv("NO_COLOR", "1", 1);
    assert_false(term_has_colour(screen.terminal));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_false(term_has_colour(screen.terminal));
    assert_string_equal(term_style(false, TERM_RED), "");
    assert_string_equal(term_style(true, TERM_RED), "\033[31m");
    screen_close(&screen);
}

static void test_bar(void **state)
{
    (void)state;
    struct screen screen;
    screen_open(&screen, 40);
    setenv("NO_COLOR", "1", 1);
    struct term_bar bar;
    term_bar_init(&bar, screen.terminal);
    term_bar_update(&bar, "unpacking", 1, 4);
    const char *text = drawn(&screen);
    assert_memory_equal(text, "\r\033[K", 4);
    assert_non_null(strstr(text, " 25% unpacking"));
    assert_non_null(strstr(text, "━━━──────────"));

    term_bar_update(&bar, "unpacking", 2, 4); /* too soon after the last */
    assert_string_equal(drawn(&screen), "");
    term_bar_update(&bar, "unpacking", 4, 4); /* but the end is always shown */
    assert_non_null(strstr(drawn(&screen), "100%"));
    term_bar_update(&bar, "a label that is far too long for this line, and goes on", 9, 4);
    assert_true(columns(drawn(&screen)) < 40);
    term_bar_update(&bar, "evil \033[2J\n\xff label", 0, 0);
    assert_string_equal(drawn(&screen), "\r\033[Kevil ?[2J?? label");
    term_bar_finish(&bar);
    assert_string_equal(drawn(&screen), "\r\033[K");
    term_bar_finish(&bar);
    assert_string_equal(drawn(&screen), "");
    screen_close(&screen);
}

static void test_no_terminal(void **state)
{
    (void)state;
    int pair[2];
    char text[200];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    struct term_bar bar;
    term_bar_init(&bar, pair[1]);
    for (uint64_t i = 0; i <= 100; i++)
        term_bar_update(&bar, i < 50 ? "download" : "unpack", i, 100);
    term_bar_finish(&bar);
    close(pair[1]);
    ssize_t n = read(pair[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, "download\nunpack\n");
    close(pair[0]);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "the width is the terminal's, or 80", test_width);
    check_one(&check, "colours need a terminal that wants them", test_colour);
    check_one(&check, "a bar fits its line, is not drawn too often, and goes away", test_bar);
    check_one(&check, "without a terminal each step is one line", test_no_terminal);
    return check_run(&check, "term");
}
