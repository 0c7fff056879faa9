/* strbuf.h - a growing string that demands its maximum; going over it is sticky and checked once */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct strbuf {
    char *data; /* always NUL-terminated once anything was added; owned */
    size_t len;
    size_t cap;
    size_t max;    /* never holds more than this many bytes */
    bool overflow; /* something did not fit: the content is cut */
};

void strbuf_init(struct strbuf *b, size_t max_bytes);
void strbuf_release(struct strbuf *b); /* ends it; may be used on a zeroed struct */
void strbuf_clear(struct strbuf *b);   /* empty again, memory kept */

/* Room for so many bytes more, in one piece with what is there. */
void strbuf_reserve(struct strbuf *b, size_t extra);

void strbuf_add(struct strbuf *b, const void *data, size_t len);
void strbuf_add_str(struct strbuf *b, const char *text);
void strbuf_add_char(struct strbuf *b, char c);
void strbuf_add_fmt(struct strbuf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *strbuf_str(const struct strbuf *b); /* borrowed, never NULL */
char *strbuf_take(struct strbuf *b);            /* ownership of the text leaves; b is empty */

#define scoped_strbuf __attribute__((cleanup(strbuf_release)))
