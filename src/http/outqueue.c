/* outqueue.c - a list of parts; the last one has room for more */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/outqueue.h"

#include <string.h>

#include "base/memory.h"

#define PART_BYTES (8 * KIB)

struct outqueue_part {
    struct outqueue_part *next;
    char *given; /* owned; NULL: the bytes are in own[] */
    size_t begin, end, cap;
    char own[];
};

static struct outqueue_part *add_part(struct outqueue *q, size_t cap)
{
    struct outqueue_part *part = xmalloc(sizeof(*part) + cap);
    *part = (struct outqueue_part){.cap = cap};
    if (q->last)
        q->last->next = part;
    else
        q->first = part;
    q->last = part;
    return part;
}

static void drop_first(struct outqueue *q)
{
    struct outqueue_part *part = q->first;
    q->first = part->next;
    if (!q->first)
        q->last = NULL;
    free(part->given);
    free(part);
}

void outqueue_release(struct outqueue *q)
{
    while (q->first)
        drop_first(q);
    q->len = 0;
}

void outqueue_add(struct outqueue *q, const void *data, size_t len)
{
    const char *from = data;
    q->len += len;
    if (q->last) {
        size_t part_len = MIN(len, q->last->cap - q->last->end);
        memcpy(q->last->own + q->last->end, from, part_len);
        q->last->end += part_len;
        from += part_len;
        len -= part_len;
    }
    if (len == 0)
        return;
    struct outqueue_part *part = add_part(q, MAX(len, PART_BYTES));
    memcpy(part->own, from, len);
    part->end = len;
}

void outqueue_give(struct outqueue *q, void *data, size_t len)
{
    struct outqueue_part *part = add_part(q, 0);
    part->given = data;
    part->end = part->cap = len; /* full: nothing is added to it */
    q->len += len;
}

int outqueue_peek(const struct outqueue *q, struct iovec *pieces, int room)
{
    int count = 0;
    for (struct outqueue_part *part = q->first; part && count < room; part = part->next) {
        char *bytes = part->given ? part->given : part->own;
        if (part->end > part->begin)
            pieces[count++] = (struct iovec){bytes + part->begin, part->end - part->begin};
    }
    return count;
}

void outqueue_drop(struct outqueue *q, size_t len)
{
    q->len -= len;
    while (q->first && len >= q->first->end - q->first->begin) {
        len -= q->first->end - q->first->begin;
        drop_first(q);
    }
    if (len > 0)
        q->first->begin += len;
}
