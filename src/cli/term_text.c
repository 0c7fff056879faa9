/* term_text.c - code points, their columns, and escapes for those that are no text */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term_text.h"

#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/term_width.h"

size_t term_text_step(const char *text, size_t len, uint32_t *code)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t step = utf8_step(text, len);
    if (step == 0) {
        *code = TERM_TEXT_BROKEN;
        return 1;
    }
    *code = (unsigned char)text[0] & masks[step];
    for (size_t i = 1; i < step; i++)
        *code = *code << 6 | ((unsigned char)text[i] & 0x3f);
    return step;
}

bool term_text_is_safe(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } unsafe[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     /* controls, of which some terminals know all */
        {0x061c, 0x061c}, {0x200e, 0x200f}, /* directions: what is shown is not what is there */
        {0x2028, 0x202e}, {0x2066, 0x2069},
    };
    for (size_t i = 0; i < ARRAY_LEN(unsafe); i++) {
        if (code >= unsafe[i].first && code <= unsafe[i].last)
            return false;
    }
    return true;
}

static void add_escaped(struct strbuf *out, uint32_t code)
{
    if (code == '\n')
        strbuf_add_str(out, "\\n");
    else
        strbuf_add_fmt(out, code < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)code);
}

static void add_one(struct strbuf *out, const char *text, size_t step, uint32_t code)
{
    if (code == TERM_TEXT_BROKEN)
        strbuf_add_str(out, "\xef\xbf\xbd");
    else if (term_text_is_safe(code))
        strbuf_add(out, text, step);
    else
        add_escaped(out, code);
}

void term_text_add(struct strbuf *out, const char *text, size_t len, bool may_have_lines)
{
    size_t step;
    for (size_t i = 0; i < len; i += step) {
        uint32_t code;
        step = term_text_step(text + i, len - i, &code);
        if (may_have_lines && (code == '\n' || code == '\t'))
            strbuf_add_char(out, (char)code);
        else
            add_one(out, text + i, step, code);
    }
}

static unsigned shown_width(uint32_t code)
{
    if (term_text_is_safe(code))
        return term_width_of(code);
    return code == '\n' ? 2 : code < 0x100 ? 4 : 6;
}

unsigned term_text_add_cut(struct strbuf *out, const char *text, size_t len, unsigned columns)
{
    size_t step, fits = 0;
    unsigned used = 0, fitting = 0; /* with room for the ellipsis */
    uint32_t code;
    for (size_t i = 0; i < len; i += step) {
        step = term_text_step(text + i, len - i, &code);
        unsigned width = shown_width(code);
        if (used + width > columns) {
            term_text_add(out, text, fits, false);
            strbuf_add_str(out, columns ? "…" : "");
            return fitting + (columns ? 1 : 0);
        }
        used += width;
        if (used + 1 <= columns) {
            fits = i + step;
            fitting = used;
        }
    }
    term_text_add(out, text, len, false);
    return used;
}
