/* utf8.c - well-formed sequences after table 3-7 of the Unicode standard */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>

#include "base/macros.h"
#include "base/strbuf.h"

struct lead {
    uint8_t first, last; /* lead bytes */
    uint8_t low, high;   /* allowed second byte; this is what keeps overlong forms out */
    uint8_t len;
};

static const struct lead leads[] = {
    {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

/* How many bytes belong together, and whether they are a whole sequence. Never 0 for len > 0. */
static size_t scan(const uint8_t *p, size_t len, bool *is_whole)
{
    *is_whole = false;
    const struct lead *lead = NULL;
    for (size_t i = 0; i < ARRAY_LEN(leads) && !lead; i++) {
        if (p[0] >= leads[i].first && p[0] <= leads[i].last)
            lead = &leads[i];
    }
    if (!lead)
        return 1;
    size_t have = 1;
    while (have < lead->len && have < len) {
        uint8_t low = have == 1 ? lead->low : 0x80, high = have == 1 ? lead->high : 0xbf;
        if (p[have] < low || p[have] > high)
            return have;
        have++;
    }
    *is_whole = have == lead->len;
    return have;
}

size_t utf8_step(const void *bytes, size_t len)
{
    bool is_whole;
    size_t n = len > 0 ? scan(bytes, len, &is_whole) : 0;
    return n > 0 && is_whole ? n : 0;
}

static size_t valid_prefix(const uint8_t *p, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t n = p[at] < 0x80 ? 1 : utf8_step(p + at, len - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

bool utf8_is_valid(const void *bytes, size_t len)
{
    return valid_prefix(bytes, len) == len;
}

void utf8_add_clean(struct strbuf *out, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    while (len > 0) {
        size_t good = valid_prefix(p, len);
        strbuf_add(out, p, good);
        p += good;
        len -= good;
        if (len > 0) {
            bool is_whole;
            size_t bad = scan(p, len, &is_whole);
            strbuf_add(out, "\xef\xbf\xbd", 3);
            p += bad;
            len -= bad;
        }
    }
}
