/* journal.c - a list of events, the oldest of which make room */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct entry {
    struct entry *next;
    uint64_t number;
    enum journal_kind kind;
    size_t len;
    char data[];
};

struct journal {
    unsigned refs;
    size_t max_bytes, bytes;
    uint64_t last;
    bool has_ended;
    struct entry *first, **end;
    struct journal_reader *readers;
};

struct journal_reader {
    struct journal *journal;
    struct journal_reader *next;
    uint64_t read; /* up to this one */
    uint64_t told; /* that this one is there */
    bool is_awake; /* was woken, and has not read to the end since */
    journal_wake_fn wake;
    void *ctx;
};

const char *journal_kind_name(enum journal_kind kind)
{
    static const char *const names[JOURNAL_KINDS] = {
        [JOURNAL_STARTED] = "started", [JOURNAL_STDOUT] = "stdout",     [JOURNAL_STDERR] = "stderr",
        [JOURNAL_RESULT] = "result",   [JOURNAL_ARTIFACT] = "artifact", [JOURNAL_ENDED] = "ended",
    };
    return names[kind];
}

struct journal *journal_new(size_t max_bytes)
{
    struct journal *j = xcalloc(1, sizeof(*j));
    *j = (struct journal){.refs = 1, .max_bytes = max_bytes, .end = &j->first};
    return j;
}

static void forget_first(struct journal *j)
{
    struct entry *first = j->first;
    j->first = first->next;
    if (!j->first)
        j->end = &j->first;
    j->bytes -= first->len;
    free(first);
}

void journal_drop(struct journal *j)
{
    if (!j || --j->refs > 0)
        return;
    while (j->first)
        forget_first(j);
    free(j);
}

/* From the first one again after each call, in which any of them may leave. */
static void wake_readers(struct journal *j)
{
    for (struct journal_reader *r = j->readers; r;) {
        bool shall_wake = !r->is_awake && r->told < j->last;
        r->told = j->last;
        if (!shall_wake) {
            r = r->next;
            continue;
        }
        r->is_awake = true;
        if (r->wake)
            r->wake(r->ctx);
        r = j->readers;
    }
}

void journal_add(struct journal *j, enum journal_kind kind, const void *data, size_t len)
{
    BUG_ON(j->has_ended);
    struct entry *e = xmalloc(sizeof(*e) + len + 1);
    *e = (struct entry){.number = ++j->last, .kind = kind, .len = len};
    if (len > 0)
        memcpy(e->data, data, len);
    e->data[len] = '\0';
    *j->end = e;
    j->end = &e->next;
    j->bytes += len;
    j->has_ended = kind == JOURNAL_ENDED;
    while (j->bytes > j->max_bytes && j->first != e)
        forget_first(j);
    j->refs++; /* a reader may be the last to hold it, and leave */
    wake_readers(j);
    journal_drop(j);
}

bool journal_has_ended(const struct journal *j)
{
    return j->has_ended;
}

uint64_t journal_last(const struct journal *j)
{
    return j->last;
}

struct journal_reader *journal_listen(struct journal *j, uint64_t after, journal_wake_fn wake,
                                      void *ctx)
{
    struct journal_reader *r = xcalloc(1, sizeof(*r));
    *r = (struct journal_reader){.journal = j,
                                 .next = j->readers,
                                 .read = MIN(after, j->last),
                                 .is_awake = true,
                                 .wake = wake,
                                 .ctx = ctx};
    j->readers = r;
    j->refs++;
    return r;
}

void journal_reader_free(struct journal_reader *r)
{
    if (!r)
        return;
    struct journal_reader **at = &r->journal->readers;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    journal_drop(r->journal);
    free(r);
}

bool journal_read(struct journal_reader *r, struct journal_event *out, uint64_t *missed)
{
    const struct entry *e = r->journal->first;
    while (e && e->number <= r->read)
        e = e->next;
    if (!e) {
        r->is_awake = false;
        return false;
    }
    *missed = e->number - r->read - 1;
    *out = (struct journal_event){
        .number = e->number, .kind = e->kind, .data = e->data, .len = e->len};
    r->read = e->number;
    return true;
}
