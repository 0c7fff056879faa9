/* disposition.c - first a clean name, then its two spellings */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/disposition.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

#define NAME_MAX_BYTES 255 /* as file systems have it; each takes three at most */

/* The code point of a valid sequence. */
static uint32_t code_point(const uint8_t *at, size_t len)
{
    static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = at[0] & masks[len];
    for (size_t i = 1; i < len; i++)
        value = value << 6 | (at[i] & 0x3f);
    return value;
}

/* Characters with which a name looks like another one, or ends a line. */
static bool is_harmful(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {'\\', '\\'},     {0x061c, 0x061c},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff},
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

/* The name as people may see it: valid, at most NAME_MAX_BYTES, never empty. */
static void add_clean_name(struct strbuf *out, const void *name, size_t len)
{
    const char *slash = len > 0 ? memrchr(name, '/', len) : NULL;
    const char *begin = slash ? slash + 1 : name;
    size_t rest = len - (size_t)(begin - (const char *)name);
    scoped_strbuf struct strbuf valid;
    strbuf_init(&valid, 3 * NAME_MAX_BYTES + 1);
    utf8_add_clean(&valid, begin, MIN(rest, (size_t)NAME_MAX_BYTES));
    const uint8_t *text = (const uint8_t *)strbuf_str(&valid);
    for (size_t i = 0, step; i < valid.len; i += step) {
        step = utf8_step(text + i, valid.len - i);
        bool is_bad = is_harmful(code_point(text + i, step));
        if (out->len + step > NAME_MAX_BYTES)
            break;
        strbuf_add(out, is_bad ? (const uint8_t *)"_" : text + i, is_bad ? 1 : step);
    }
    if (out->len == 0)
        strbuf_add_str(out, "download");
}

/* A quoted string that needs no escapes, since readers differ about them; a percent sign, too. */
static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '%';
}

/* attr-char of RFC 8187. */
static bool is_attr_char(uint8_t c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return true;
    return c && strchr("!#$&+-.^_`|~", c);
}

/* Answers whether the name is plain throughout; an underscore stands for each character that is
 * not. */
static bool add_plain(struct strbuf *out, const struct strbuf *name)
{
    bool is_whole = true;
    for (size_t i = 0; i < name->len; i++) {
        uint8_t c = (uint8_t)name->data[i];
        if ((c & 0xc0) == 0x80) /* the rest of a character */
            continue;
        is_whole = is_whole && is_plain(c);
        strbuf_add_char(out, is_plain(c) ? (char)c : '_');
    }
    return is_whole;
}

static void add_encoded(struct strbuf *out, const struct strbuf *name)
{
    for (size_t i = 0; i < name->len; i++) {
        uint8_t c = (uint8_t)name->data[i];
        if (is_attr_char(c))
            strbuf_add_char(out, (char)c);
        else
            strbuf_add_fmt(out, "%%%02X", c);
    }
}

void disposition_add(struct strbuf *out, enum disposition kind, const void *name, size_t len)
{
    scoped_strbuf struct strbuf clean;
    strbuf_init(&clean, NAME_MAX_BYTES + 1);
    add_clean_name(&clean, name, len);
    strbuf_add_str(out, kind == DISPOSITION_INLINE ? "inline" : "attachment");
    strbuf_add_str(out, "; filename=\"");
    bool is_whole = add_plain(out, &clean);
    strbuf_add_char(out, '"');
    if (is_whole)
        return;
    strbuf_add_str(out, "; filename*=UTF-8''");
    add_encoded(out, &clean);
}
