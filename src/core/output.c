/* output.c - bounded memory for unbounded output */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void output_init(struct output *o, size_t max_bytes)
{
    *o = (struct output){.tail_cap = max_bytes / 2};
    strbuf_init(&o->head, max_bytes - max_bytes / 2);
}

void output_release(struct output *o)
{
    strbuf_release(&o->head);
    free(o->tail);
    o->tail = NULL;
}

static void add_to_tail(struct output *o, const char *data, size_t len)
{
    if (o->tail_cap == 0)
        return;
    if (!o->tail)
        o->tail = xmalloc(o->tail_cap);
    if (len > o->tail_cap) { /* only its end can stay */
        size_t skip = len - o->tail_cap;
        o->tail_at = (o->tail_at + skip) % o->tail_cap;
        data += skip;
        len = o->tail_cap;
    }
    size_t first = MIN(len, o->tail_cap - o->tail_at);
    memcpy(o->tail + o->tail_at, data, first);
    memcpy(o->tail, data + first, len - first);
    o->tail_at = (o->tail_at + len) % o->tail_cap;
}

void output_add(struct output *o, const void *data, size_t len)
{
    size_t first = MIN(len, o->head.max - o->head.len);
    o->total += len;
    if (first > 0)
        strbuf_add(&o->head, data, first);
    if (len > first)
        add_to_tail(o, (const char *)data + first, len - first);
}

void output_skip(struct output *o, uint64_t len)
{
    if (!o->tail && o->tail_cap > 0)
        o->tail = xcalloc(1, o->tail_cap);
    o->total += len;
}

static size_t tail_len(const struct output *o)
{
    return (size_t)MIN(o->total - o->head.len, (uint64_t)o->tail_cap);
}

size_t output_kept(const struct output *o)
{
    return o->head.len + tail_len(o);
}

bool output_is_cut(const struct output *o)
{
    return o->total > output_kept(o);
}

/* The tail in the two parts that it has in its ring, and how long the first is. */
static size_t tail_start(const struct output *o, size_t *first)
{
    size_t len = tail_len(o);
    size_t start = (o->tail_at + o->tail_cap - len) % o->tail_cap;
    *first = MIN(len, o->tail_cap - start);
    return start;
}

void output_text(const struct output *o, struct strbuf *out)
{
    size_t len = tail_len(o), first;
    strbuf_add(out, strbuf_str(&o->head), o->head.len);
    if (output_is_cut(o))
        strbuf_add_fmt(out, "\n[... %" PRIu64 " bytes left out ...]\n", o->total - output_kept(o));
    if (len == 0)
        return;
    size_t start = tail_start(o, &first);
    strbuf_add(out, o->tail + start, first);
    strbuf_add(out, o->tail, len - first);
}

void output_cut(struct output *out, const struct output *o, size_t max_bytes)
{
    size_t len = tail_len(o), first;
    output_init(out, max_bytes);
    output_add(out, strbuf_str(&o->head), o->head.len);
    if (output_is_cut(o))
        output_skip(out, o->total - output_kept(o));
    if (len == 0)
        return;
    size_t start = tail_start(o, &first);
    output_add(out, o->tail + start, first);
    output_add(out, o->tail, len - first);
}
