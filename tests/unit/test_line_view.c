/* test_line_view.c - what is drawn, seen on a small terminal of our own */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "check.h"
#include "cli/term_text.h"
#include "cli/term_width.h"

#define ROWS    6
#define COLUMNS 40

/* Like xterm: a full row leaves the cursor on it until the next character. */
struct screen {
    unsigned width, height;
    char cells[ROWS][COLUMNS][8];
    unsigned row, column;
    bool is_pending;
};

static void screen_init(struct screen *s, unsigned width, unsigned height)
{
    *s = (struct screen){.width = width, .height = height};
}

static void line_feed(struct screen *s)
{
    if (++s->row < s->height)
        return;
    s->row--;
    memmove(s->cells[0], s->cells[1], sizeof(s->cells[0]) * (ROWS - 1));
    memset(s->cells[s->height - 1], 0, sizeof(s->cells[0]));
}

static void print(struct screen *s, const char *text, size_t len, unsigned width)
{
    if (width == 0) { /* into the cell before it */
        char *cell = s->cells[s->row][s->is_pending ? s->column : s->column - 1];
        size_t used = strlen(cell);
        snprintf(cell + used, sizeof(s->cells[0][0]) - used, "%.*s", (int)len, text);
        return;
    }
    if (s->is_pending || s->column + width > s->width) {
        s->is_pending = false;
        s->column = 0;
        line_feed(s);
    }
    snprintf(s->cells[s->row][s->column], sizeof(s->cells[0][0]), "%.*s", (int)len, text);
    if (width == 2)
        snprintf(s->cells[s->row][s->column + 1], sizeof(s->cells[0][0]), "_"); /* its other half */
    s->column += width;
    if (s->column == s->width) {
        s->column--;
        s->is_pending = true;
    }
}

static void erase(struct screen *s, bool is_below)
{
    for (unsigned c = s->column; c < s->width; c++)
        s->cells[s->row][c][0] = '\0';
    for (unsigned r = s->row + 1; is_below && r < s->height; r++)
        memset(s->cells[r], 0, sizeof(s->cells[r]));
}

static size_t sequence(struct screen *s, const char *text)
{
    char *end;
    unsigned long n = strtoul(text + 2, &end, 10);
    s->is_pending = *end == 'm' ? s->is_pending : false;
    switch (*end) {
    case 'A':
        s->row -= MIN(s->row, (unsigned)n);
        break;
    case 'C':
        s->column = MIN(s->column + (unsigned)n, s->width - 1);
        break;
    case 'K':
    case 'J':
        erase(s, *end == 'J');
        break;
    default:
        assert_int_equal(*end, 'm');
    }
    return (size_t)(end - text) + 1;
}

static void feed(struct screen *s, const struct strbuf *bytes)
{
    const char *text = strbuf_str(bytes);
    size_t step;
    for (size_t i = 0; i < bytes->len; i += step) {
        uint32_t code;
        step = term_text_step(text + i, bytes->len - i, &code);
        if (code == '\033')
            step = sequence(s, text + i);
        else if (code == '\r')
            s->column = 0, s->is_pending = false;
        else if (code == '\n')
            line_feed(s);
        else
            print(s, text + i, step, term_width_of(code));
    }
}

/* Rows up to the last that has something, ends trimmed, the cursor as a bar. */
static const char *see(const struct screen *s)
{
    static char text[4096];
    size_t len = 0, end = 0;
    for (unsigned r = 0; r < s->height; r++) {
        for (unsigned c = 0; c < s->width; c++) {
            if (r == s->row && c == s->column)
                text[len++] = '|', end = len;
            const char *cell = s->cells[r][c];
            if (strcmp(cell, "_") != 0)
                len += (size_t)snprintf(text + len, 8, "%s", cell[0] ? cell : " ");
            if (cell[0] && cell[0] != ' ')
                end = len;
        }
        len = end;
        text[len++] = '\n';
    }
    while (end > 0 && text[end - 1] == '\n')
        end--;
    text[end] = '\0';
    return text;
}

struct view_case {
    const char *name;
    unsigned width, height;
    const char *text; /* a bar is the cursor */
    const char *screen;
};

static const struct view_case cases[] = {
    {"an empty text is its prompt", 20, 6, "|", "> |"},
    {"the cursor stands where it is", 20, 6, "ab|c", "> ab|c"},
    {"each line has its prompt", 20, 6, "a\nb|\n", "> a\n.. b|\n.."},
    {"a long line wraps", 10, 6, "0123456789abc|", "> 01234567\n89abc|"},
    {"a full row has its cursor on the next", 10, 6, "01234567|", "> 01234567\n|"},
    {"also before a newline", 10, 6, "01234567|\nx", "> 01234567\n|\n.. x"},
    {"a wide character is not halved", 10, 6, "0123456漢|x", "> 0123456\n漢|x"},
    {"wide characters take two columns", 20, 6, "漢字|x", "> 漢字|x"},
    {"an accent takes none", 20, 6, "e\xcc\x81|x", "> e\xcc\x81|x"},
    {"control characters are shown as such", 20, 6, "\033[2J|", "> ^[[2J|"},
    {"a tab is some blanks", 20, 6, "\tx|", ">     x|"},
    {"of a high text the end is seen", 20, 3, "a\nb\nc\nd|", ".. b\n.. c\n.. d|"},
    {"or where the cursor is", 20, 3, "a|\nb\nc\nd", "> a|\n.. b\n.. c"},
};

static struct line_frame frame_of(const char *text, char *buffer)
{
    const char *bar = strchr(text, '|');
    size_t cursor = (size_t)(bar - text);
    memcpy(buffer, text, cursor);
    memcpy(buffer + cursor, bar + 1, strlen(bar + 1) + 1);
    return (struct line_frame){
        .prompt = "> ", .more = ".. ", .text = buffer, .len = strlen(buffer), .cursor = cursor};
}

static void show(struct line_view *v, struct screen *s, const char *text)
{
    char buffer[256];
    struct line_frame frame = frame_of(text, buffer);
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 10000);
    line_view_draw(v, &out, &frame);
    feed(s, &out);
}

static void test_view(void **state)
{
    const struct view_case *row = *state;
    struct screen s;
    struct line_view v = {
        .width = row->width, .height = row->height, .style_on = "\033[32m", .style_off = "\033[0m"};
    screen_init(&s, row->width, row->height);
    show(&v, &s, row->text);
    assert_string_equal(see(&s), row->screen);
    show(&v, &s, row->text); /* over itself */
    assert_string_equal(see(&s), row->screen);
}

/* Whatever was there before, the next text is drawn as if it were the first. */
static void test_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
            struct screen s;
            struct line_view v = {.width = 10, .height = 6, .style_on = "", .style_off = ""};
            screen_init(&s, 10, 6);
            show(&v, &s, cases[k].text);
            struct screen fresh = s;
            scoped_strbuf struct strbuf out;
            strbuf_init(&out, 1000);
            line_view_erase(&v, &out);
            feed(&fresh, &out);
            assert_string_equal(see(&fresh), "|");
            v.row = s.row;
            show(&v, &s, cases[i].text);
            struct line_view clean = {.width = 10, .height = 6, .style_on = "", .style_off = ""};
            show(&clean, &fresh, cases[i].text);
            scoped_strbuf struct strbuf expected;
            strbuf_init(&expected, 5000);
            strbuf_add_str(&expected, see(&fresh));
            assert_string_equal(see(&s), strbuf_str(&expected));
        }
    }
}

static void test_finish(void **state)
{
    (void)state;
    struct screen s;
    char buffer[256];
    struct line_view v = {.width = 20, .height = 6, .style_on = "", .style_off = ""};
    struct line_frame frame = frame_of("a|\nb", buffer);
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 1000);
    screen_init(&s, 20, 6);
    show(&v, &s, "a|\nb");
    line_view_finish(&v, &out, &frame);
    feed(&s, &out);
    assert_string_equal(see(&s), "> a\n.. b\n|");
    show(&v, &s, "c|");
    assert_string_equal(see(&s), "> a\n.. b\n> c|");
}

static void test_resize(void **state)
{
    (void)state;
    struct screen s;
    char buffer[256];
    struct line_view v = {.width = 20, .height = 6, .style_on = "", .style_off = ""};
    struct line_frame frame = frame_of("0123456789abc|", buffer);
    screen_init(&s, 10, 6);
    line_view_resize(&v, &frame, 10, 6); /* as if it had been drawn on 20 columns and wrapped */
    assert_int_equal(v.row, 1);
    s.row = 1;
    s.column = 5;
    show(&v, &s, "0123456789abc|");
    assert_string_equal(see(&s), "> 01234567\n89abc|");
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_view);
    check_one(&check, "any text can be drawn over any other", test_over);
    check_one(&check, "a finished text stays, the next is below", test_finish);
    check_one(&check, "a terminal that became narrower has wrapped by itself", test_resize);
    return check_run(&check, "line_view");
}
