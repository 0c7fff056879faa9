/* output.h - what is kept of a program's output: head and tail, and its true size */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct output {
    uint64_t total;     /* bytes that came */
    struct strbuf head; /* the first half of what may be kept */
    char *tail;         /* a ring with the second half; owned, made when it is needed */
    size_t tail_cap;
    size_t tail_at; /* where the next byte goes */
};

void output_init(struct output *o, size_t max_bytes);
void output_release(struct output *o);

void output_add(struct output *o, const void *data, size_t len);
void output_skip(struct output *o, uint64_t len); /* as if bytes came that nobody has any more */
size_t output_kept(const struct output *o);
bool output_is_cut(const struct output *o);

/* The kept bytes in order; where something is missing, one line says how much. */
void output_text(const struct output *o, struct strbuf *out);

/* `out` becomes what `o` would be if so much less were kept; to be released. */
void output_cut(struct output *out, const struct output *o, size_t max_bytes);
