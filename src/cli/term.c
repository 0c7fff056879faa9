/* term.c - isatty, window size, colours, and a bar that draws at most 20 times a second */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/strbuf.h"

#define WIDTH_PRESET   80
#define WIDTH_MIN      20
#define WIDTH_MAX      1000
#define REDRAW_NS      50000000 /* 20 a second: smooth, and no load on a slow line */
#define BAR_MAX_CELLS  30
#define DRAW_MAX_BYTES (4 * KIB)
#define CLEAR_LINE     "\r\033[K"

bool term_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

unsigned term_width(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return WIDTH_PRESET;
    return MIN(MAX((unsigned)size.ws_col, WIDTH_MIN), WIDTH_MAX);
}

bool term_has_colour(int fd)
{
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    if ((none && *none) || !kind || strcmp(kind, "dumb") == 0)
        return false;
    return term_is_terminal(fd);
}

const char *term_style(bool has_colour, enum term_style style)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "\033[0m", [TERM_BOLD] = "\033[1m",   [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",  [TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m",
    };
    return has_colour ? codes[style] : "";
}

static void put(int fd, const struct strbuf *text)
{
    struct error ignored = {.msg = ""}; /* a bar that cannot be drawn is no reason to stop */
    (void)!fd_write_all(fd, strbuf_str(text), text->len, &ignored);
}

void term_bar_init(struct term_bar *bar, int fd)
{
    const char *kind = getenv("TERM");
    *bar = (struct term_bar){.fd = fd};
    bar->is_live = kind && strcmp(kind, "dumb") != 0 && term_is_terminal(fd);
    bar->has_colour = term_has_colour(fd);
}

static void add_cells(struct strbuf *out, const struct term_bar *bar, unsigned cells,
                      unsigned percent)
{
    unsigned full = cells * percent / 100;
    strbuf_add_str(out, term_style(bar->has_colour, TERM_GREEN));
    for (unsigned i = 0; i < full; i++)
        strbuf_add_str(out, "━");
    strbuf_add_str(out, term_style(bar->has_colour, TERM_PLAIN));
    strbuf_add_str(out, term_style(bar->has_colour, TERM_DIM));
    for (unsigned i = full; i < cells; i++)
        strbuf_add_str(out, "─");
    strbuf_add_str(out, term_style(bar->has_colour, TERM_PLAIN));
}

static void draw(const struct term_bar *bar, uint64_t done, uint64_t total)
{
    unsigned width = term_width(bar->fd); /* each time: windows are resized */
    unsigned cells = MIN(width / 3, (unsigned)BAR_MAX_CELLS);
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, DRAW_MAX_BYTES);
    strbuf_add_str(&line, CLEAR_LINE);
    if (total > 0) {
        unsigned percent = (unsigned)((double)MIN(done, total) * 100 / (double)total);
        add_cells(&line, bar, cells, percent);
        strbuf_add_fmt(&line, " %3u%% ", percent);
    } else if (done > 0) {
        strbuf_add_fmt(&line, "%llu ", (unsigned long long)done);
    }
    unsigned used = total > 0 ? cells + 6 : done > 0 ? 12 : 0;
    strbuf_add_fmt(&line, "%.*s", (int)(width > used + 1 ? width - used - 1 : 0), bar->label);
    put(bar->fd, &line);
}

/* Copies a label without what could move the cursor. Bytes outside ASCII are replaced, so that one
 * byte is one column. */
static void set_label(struct term_bar *bar, const char *label)
{
    size_t i = 0;
    for (; label[i] && i + 1 < sizeof(bar->label); i++)
        bar->label[i] = label[i] >= ' ' && label[i] < 0x7f ? label[i] : '?';
    bar->label[i] = '\0';
}

void term_bar_update(struct term_bar *bar, const char *label, uint64_t done, uint64_t total)
{
    char before[sizeof(bar->label)];
    memcpy(before, bar->label, sizeof(before));
    set_label(bar, label);
    bool is_new = strcmp(before, bar->label) != 0;

    if (!bar->is_live) {
        scoped_strbuf struct strbuf line;
        strbuf_init(&line, DRAW_MAX_BYTES);
        strbuf_add_fmt(&line, "%s\n", bar->label);
        if (is_new)
            put(bar->fd, &line);
        return;
    }
    int64_t now = clock_now_ns();
    if (!is_new && now - bar->drawn_ns < REDRAW_NS && done != total)
        return;
    bar->drawn_ns = now;
    draw(bar, done, total);
}

void term_bar_finish(struct term_bar *bar)
{
    scoped_strbuf struct strbuf line;
    strbuf_init(&line, DRAW_MAX_BYTES);
    strbuf_add_str(&line, CLEAR_LINE);
    if (bar->is_live && bar->drawn_ns > 0)
        put(bar->fd, &line);
    bar->drawn_ns = 0;
    bar->label[0] = '\0';
}
