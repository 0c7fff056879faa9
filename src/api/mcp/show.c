/* show.c - the few characters that do something, and the few lines that mean something */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/show.h"

#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define PICTURES 0x2400 /* U+2400: of the control characters, in their order */
#define DELETE   0x7f
#define BROKEN   0x80 /* what is no UTF-8 is told like a character of C1 */

/* --- characters ------------------------------------------------------------------------------- */

static uint32_t decode(const char *at, size_t len)
{
    const unsigned char *b = (const unsigned char *)at;
    switch (len) {
    case 2:
        return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    case 3:
        return (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    case 4:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    default:
        return b[0];
    }
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= DELETE && c < 0xa0);
}

/* Characters that are not seen, or that turn the order of others; Unicode calls most of them
 * "format". */
static bool is_unseen(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } rows[] = {{0xad, 0xad},     {0x61c, 0x61c},    {0x180e, 0x180e}, {0x200b, 0x200f},
                {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
                {0xfe00, 0xfe0f}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (c >= rows[i].first && c <= rows[i].last)
            return true;
    }
    return false;
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_odd(const char *name, size_t len)
{
    if (len == 0 || name[0] == ' ' || name[len - 1] == ' ')
        return true;
    for (size_t at = 0, step; at < len; at += step) {
        step = utf8_step(name + at, len - at);
        uint32_t c = step ? decode(name + at, step) : 0;
        if (is_control(c) || is_unseen(c) || c == '"' || c == '\\')
            return true;
    }
    return false;
}

static void add_escaped(struct strbuf *out, uint32_t c)
{
    static const uint32_t supplementary = 0x10000;
    if (c >= supplementary) {
        c -= supplementary;
        strbuf_add_fmt(out, "\\u%04x\\u%04x", 0xd800u | c >> 10, 0xdc00u | (c & 0x3ff));
    } else if (c == '"' || c == '\\') {
        strbuf_add_fmt(out, "\\%c", (char)c);
    } else if (c == '\n') {
        strbuf_add_str(out, "\\n");
    } else {
        strbuf_add_fmt(out, "\\u%04x", c);
    }
}

static void add_quoted(struct strbuf *out, const char *name, size_t len)
{
    strbuf_add_char(out, '"');
    for (size_t at = 0, step; at < len; at += step ? step : 1) {
        step = utf8_step(name + at, len - at);
        uint32_t c = step ? decode(name + at, step) : 0xfffd;
        if (!step || is_control(c) || is_unseen(c) || c == '"' || c == '\\')
            add_escaped(out, c);
        else
            strbuf_add(out, name + at, step);
    }
    strbuf_add_char(out, '"');
}

void show_name(struct strbuf *out, const char *name)
{
    size_t len = strlen(name), kept = MIN(len, (size_t)SHOW_NAME_BYTES);
    while (kept > 0 && kept < len && ((unsigned char)name[kept] & 0xc0) == 0x80)
        kept--;
    if (is_odd(name, len))
        add_quoted(out, name, kept);
    else
        strbuf_add(out, name, kept);
    if (kept < len)
        strbuf_add_fmt(out, "... (a name of %zu bytes)", len);
}

/* --- output ----------------------------------------------------------------------------------- */

/* How lines of ours begin, wherever output of a program stands among them. */
static const char *const marks[] = {"[stdout",    "[stderr", "[value]", "[shown]",   "[exception]",
                                    "[files of ", "[...",    "[more ",  "[pictures", "[bytes "};

static bool is_lookalike(const char *line, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t mark = strlen(marks[i]);
        if (len >= mark && memcmp(line, marks[i], mark) == 0)
            return true;
    }
    return false;
}

static size_t line_end(const char *text, size_t len)
{
    const char *newline = memchr(text, '\n', len);
    return newline ? (size_t)(newline - text) + 1 : len;
}

bool show_has_lookalike(const char *text, size_t len)
{
    for (size_t at = 0; at < len; at += line_end(text + at, len - at)) {
        if (is_lookalike(text + at, len - at))
            return true;
    }
    return false;
}

static void add_picture(struct strbuf *out, uint32_t c)
{
    char text[4] = "\xef\xbf\xbd"; /* U+FFFD: C1 has no pictures */
    uint32_t picture = c < 0x20 ? PICTURES + c : PICTURES + 0x21;
    if (c <= DELETE) {
        text[0] = (char)(0xe0 | picture >> 12);
        text[1] = (char)(0x80 | (picture >> 6 & 0x3f));
        text[2] = (char)(0x80 | (picture & 0x3f));
    }
    strbuf_add(out, text, 3);
}

static void add_line(struct strbuf *out, const char *line, size_t len)
{
    size_t plain = 0; /* from here to `at` nothing has to change */
    for (size_t at = 0, step; at < len; at += step) {
        step = utf8_step(line + at, len - at);
        uint32_t c = step ? decode(line + at, step) : BROKEN;
        bool is_line_end = c == '\n' || (c == '\r' && at + 1 < len && line[at + 1] == '\n');
        step = step ? step : 1;
        if (!is_control(c) || is_line_end || c == '\t')
            continue;
        strbuf_add(out, line + plain, at - plain);
        add_picture(out, c);
        plain = at + step;
    }
    strbuf_add(out, line + plain, len - plain);
}

void show_output(struct strbuf *out, const char *text, size_t len)
{
    for (size_t at = 0, line; at < len; at += line) {
        line = line_end(text + at, len - at);
        if (is_lookalike(text + at, line))
            strbuf_add_char(out, '\\');
        add_line(out, text + at, line);
    }
}
