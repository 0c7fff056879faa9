/* tail.c - pieces in a ring of bytes: a head of fixed size, then what was printed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tail.h"

#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

#define FIRST_BYTES    512
#define TOGETHER_NS    (50 * 1000000ll) /* within which output is one piece... */
#define TOGETHER_BYTES 4096             /* ...up to this length */

struct head {
    int64_t wall_ns;
    uint32_t len;
    uint32_t stream;
};

struct tail {
    char *data;
    size_t size;        /* of the ring; grows up to max */
    size_t max;         /* heads included */
    size_t start, used; /* the oldest head, and all bytes from there */
    size_t last;        /* of the newest head, counted from `start`; none when used is 0 */
    uint64_t dropped;
};

struct tail *tail_new(size_t max_bytes)
{
    BUG_ON(max_bytes < FIRST_BYTES);
    struct tail *t = xcalloc(1, sizeof(*t));
    t->max = max_bytes;
    return t;
}

void tail_free(struct tail *t)
{
    if (t)
        free(t->data);
    free(t);
}

/* --- bytes of the ring, counted from its start ------------------------------------------------ */

static void copy_out(const struct tail *t, size_t at, void *out, size_t len)
{
    size_t from = (t->start + at) % t->size;
    size_t first = MIN(len, t->size - from);
    memcpy(out, t->data + from, first);
    memcpy((char *)out + first, t->data, len - first);
}

static void copy_in(struct tail *t, size_t at, const void *data, size_t len)
{
    size_t to = (t->start + at) % t->size;
    size_t first = MIN(len, t->size - to);
    memcpy(t->data + to, data, first);
    memcpy(t->data, (const char *)data + first, len - first);
}

static struct head head_at(const struct tail *t, size_t at)
{
    struct head head;
    copy_out(t, at, &head, sizeof(head));
    return head;
}

/* So many bytes, or a head's more: of a long piece the end stays. */
static void drop_oldest(struct tail *t, size_t excess)
{
    struct head head = head_at(t, 0);
    bool is_cut = head.len > excess;
    size_t len = is_cut ? excess : sizeof(head) + head.len;
    t->start = (t->start + len) % t->size;
    t->used -= len;
    t->last -= MIN(t->last, len);
    t->dropped += MIN(head.len, excess);
    head.len -= (uint32_t)MIN(head.len, excess);
    if (is_cut)
        copy_in(t, 0, &head, sizeof(head));
}

/* A larger ring with the same bytes, from its first on. */
static void grow(struct tail *t, size_t needed)
{
    size_t size = MAX(t->size, FIRST_BYTES);
    while (size < needed)
        size *= 2;
    size = MIN(size, t->max);
    char *data = xmalloc(size);
    if (t->used > 0)
        copy_out(t, 0, data, t->used);
    free(t->data);
    t->data = data;
    t->size = size;
    t->start = 0;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void make_room(struct tail *t, size_t len)
{
    while (t->used > 0 && t->used + len > t->max)
        drop_oldest(t, t->used + len - t->max);
    if (t->used + len > t->size)
        grow(t, t->used + len);
}

/* True: the newest piece has become longer. It must not be dropped for its own sake, so that only
 * one to which the rest fits is made longer. */
static bool extend(struct tail *t, enum execution_stream stream, const void *data, size_t len,
                   int64_t wall_ns)
{
    if (t->used == 0 || len > TOGETHER_BYTES)
        return false;
    struct head head = head_at(t, t->last);
    int64_t age = wall_ns - head.wall_ns;
    if (head.stream != stream || age < 0 || age > TOGETHER_NS || head.len + len > TOGETHER_BYTES ||
        sizeof(head) + head.len + len > t->max)
        return false;
    make_room(t, len);
    copy_in(t, t->used, data, len);
    t->used += len;
    head.len += (uint32_t)len;
    copy_in(t, t->last, &head, sizeof(head));
    return true;
}

void tail_add(struct tail *t, enum execution_stream stream, const void *data, size_t len,
              int64_t wall_ns)
{
    if (len == 0 || extend(t, stream, data, len, wall_ns))
        return;
    size_t kept = MIN(len, t->max - sizeof(struct head));
    const struct head head = {.wall_ns = wall_ns, .len = (uint32_t)kept, .stream = stream};
    t->dropped += len - kept;
    make_room(t, sizeof(head) + kept);
    t->last = t->used;
    copy_in(t, t->used, &head, sizeof(head));
    copy_in(t, t->used + sizeof(head), (const char *)data + (len - kept), kept);
    t->used += sizeof(head) + kept;
}

uint64_t tail_dropped(const struct tail *t)
{
    return t->dropped;
}

bool tail_read(const struct tail *t, size_t *at, struct tail_piece *out, struct strbuf *text)
{
    if (*at >= t->used)
        return false;
    struct head head = head_at(t, *at);
    size_t from = (t->start + *at + sizeof(head)) % t->size;
    size_t first = MIN(head.len, t->size - from);
    *out =
        (struct tail_piece){.wall_ns = head.wall_ns, .stream = (enum execution_stream)head.stream};
    strbuf_add(text, t->data + from, first);
    strbuf_add(text, t->data, head.len - first);
    *at += sizeof(head) + head.len;
    return true;
}
