/* line_view.c - first where each row begins and ends, then the bytes that bring it to the screen
 *
 * A row that is full is followed by another at once, even an empty one: so the cursor always has a
 * place. On the screen a full row leaves the terminal between two rows, where an erase would take
 * the last column; nothing is erased there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_view.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "cli/term_text.h"
#include "cli/term_width.h"

#define TAB_COLUMNS 4

struct row {
    size_t start, end; /* bytes of the text */
    unsigned width;    /* columns in use, with its prompt */
    bool is_full;      /* the next one goes on with the same line */
    const char *prompt;
};

struct layout {
    struct row *rows; /* owned; at least one */
    size_t count, cap;
    size_t cursor_row;
    unsigned cursor_column;
};

static unsigned text_width(const char *text)
{
    unsigned width = 0;
    uint32_t code;
    for (size_t len = strlen(text), step; len > 0; text += step, len -= step) {
        step = term_text_step(text, len, &code);
        width += term_width_of(code);
    }
    return width;
}

static unsigned shown_width(uint32_t code)
{
    if (code == '\t')
        return TAB_COLUMNS;
    if (code < 0x20 || code == 0x7f)
        return 2;
    return term_text_is_safe(code) ? term_width_of(code) : 1;
}

static void add_shown(struct strbuf *out, const char *text, size_t step, uint32_t code)
{
    if (code == '\t')
        strbuf_add_str(out, "    ");
    else if (code < 0x20 || code == 0x7f)
        strbuf_add_fmt(out, "^%c", (int)(code ^ 0x40));
    else if (term_text_is_safe(code) && code != TERM_TEXT_BROKEN)
        strbuf_add(out, text, step);
    else
        strbuf_add_str(out, "\xef\xbf\xbd");
}

static struct row *add_row(struct layout *l, size_t start, const char *prompt)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 16;
        l->rows = xrealloc(l->rows, l->cap * sizeof(*l->rows));
    }
    l->rows[l->count] = (struct row){
        .start = start, .end = start, .prompt = prompt, .width = prompt ? text_width(prompt) : 0};
    return &l->rows[l->count++];
}

static void lay_out(struct layout *l, const struct line_frame *f, unsigned width)
{
    *l = (struct layout){0};
    struct row *row = add_row(l, 0, f->prompt);
    size_t step = 0;
    for (size_t i = 0;; i += step) {
        uint32_t code = 0;
        unsigned columns = 0;
        if (i < f->len) {
            step = term_text_step(f->text + i, f->len - i, &code);
            columns = code == '\n' ? 0 : shown_width(code);
        }
        if (row->width + columns > width ||
            (row->width == width && (columns > 0 || i == f->len || code == '\n'))) {
            row->is_full = true;
            row = add_row(l, i, NULL);
        }
        if (i <= f->cursor) {
            l->cursor_row = l->count - 1;
            l->cursor_column = row->width;
        }
        if (i >= f->len)
            return;
        if (code == '\n') {
            row = add_row(l, i + 1, f->more);
            continue;
        }
        row->width += columns;
        row->end = i + step;
    }
}

static void add_row_text(const struct line_view *v, struct strbuf *out, const struct line_frame *f,
                         const struct row *row)
{
    size_t step;
    if (row->prompt && row->prompt[0])
        strbuf_add_fmt(out, "%s%s%s", v->style_on, row->prompt, v->style_off);
    for (size_t i = row->start; i < row->end; i += step) {
        uint32_t code;
        step = term_text_step(f->text + i, row->end - i, &code);
        add_shown(out, f->text + i, step, code);
    }
    for (unsigned i = row->width; row->is_full && i < v->width; i++)
        strbuf_add_char(out, ' '); /* a wide character did not fit */
    if (!row->is_full)
        strbuf_add_str(out, "\033[K");
}

/* The window of rows that is drawn: it holds the cursor and moves no more than it must. */
static size_t place_window(struct line_view *v, const struct layout *l)
{
    size_t height = MIN((size_t)v->height, l->count);
    if (v->top > l->cursor_row)
        v->top = l->cursor_row;
    if (l->cursor_row >= v->top + height)
        v->top = l->cursor_row - height + 1;
    v->top = MIN(v->top, l->count - height);
    return height;
}

static void go_to_first_row(const struct line_view *v, struct strbuf *out)
{
    if (v->row > 0)
        strbuf_add_fmt(out, "\033[%zuA", v->row);
    strbuf_add_char(out, '\r');
}

static void draw(struct line_view *v, struct strbuf *out, const struct line_frame *f,
                 const struct layout *l)
{
    size_t height = place_window(v, l), last = v->top + height - 1;
    go_to_first_row(v, out);
    for (size_t i = v->top; i <= last; i++) {
        const struct row *row = &l->rows[i], *next = row + 1;
        add_row_text(v, out, f, row);
        if (i == last)
            strbuf_add_str(out, row->is_full ? "" : "\033[J");
        else if (!row->is_full)
            strbuf_add_str(out, "\r\n");
        else if (next->start == next->end)
            strbuf_add_str(out, " \r"); /* nothing else would bring the cursor there */
    }
    if (last > l->cursor_row)
        strbuf_add_fmt(out, "\033[%zuA", last - l->cursor_row);
    strbuf_add_char(out, '\r');
    if (l->cursor_column > 0)
        strbuf_add_fmt(out, "\033[%uC", l->cursor_column);
    v->row = l->cursor_row - v->top;
}

void line_view_draw(struct line_view *v, struct strbuf *out, const struct line_frame *f)
{
    struct layout l;
    lay_out(&l, f, v->width);
    draw(v, out, f, &l);
    free(l.rows);
}

void line_view_finish(struct line_view *v, struct strbuf *out, const struct line_frame *f)
{
    struct line_frame end = *f;
    end.cursor = f->len;
    line_view_draw(v, out, &end);
    strbuf_add_str(out, "\r\n");
    v->row = v->top = 0;
}

void line_view_erase(struct line_view *v, struct strbuf *out)
{
    go_to_first_row(v, out);
    strbuf_add_str(out, "\033[J");
    v->row = v->top = 0;
}

void line_view_resize(struct line_view *v, const struct line_frame *f, unsigned width,
                      unsigned height)
{
    struct layout l;
    v->width = width;
    v->height = height;
    lay_out(&l, f, width);
    place_window(v, &l);
    v->row = l.cursor_row - v->top;
    free(l.rows);
}
