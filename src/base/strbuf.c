/* strbuf.c - growing strings with a ceiling */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void strbuf_init(struct strbuf *b, size_t max_bytes)
{
    *b = (struct strbuf){.max = max_bytes};
}

void strbuf_release(struct strbuf *b)
{
    free(b->data);
    *b = (struct strbuf){.max = b->max};
}

void strbuf_clear(struct strbuf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = '\0';
}

static void reserve(struct strbuf *b, size_t extra)
{
    size_t need = b->len + extra + 1;
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

void strbuf_reserve(struct strbuf *b, size_t extra)
{
    reserve(b, MIN(extra, b->max - b->len));
    b->data[b->len] = '\0';
}

void strbuf_add(struct strbuf *b, const void *data, size_t len)
{
    BUG_ON(b->max == 0);
    if (len > b->max - b->len) {
        len = b->max - b->len;
        b->overflow = true;
    }
    reserve(b, len);
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void strbuf_add_str(struct strbuf *b, const char *text)
{
    strbuf_add(b, text, strlen(text));
}

void strbuf_add_char(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_add_fmt(struct strbuf *b, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    BUG_ON(n < 0);
    if ((size_t)n < sizeof(small)) {
        strbuf_add(b, small, (size_t)n);
    } else {
        char *big = xmalloc((size_t)n + 1);
        vsnprintf(big, (size_t)n + 1, fmt, again);
        strbuf_add(b, big, (size_t)n);
        free(big);
    }
    va_end(again);
}

const char *strbuf_str(const struct strbuf *b)
{
    return b->data ? b->data : "";
}

char *strbuf_take(struct strbuf *b)
{
    char *text = b->data ? b->data : xstrdup("");
    *b = (struct strbuf){.max = b->max};
    return text;
}
