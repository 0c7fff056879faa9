/* names.c - a map of names, each with its addresses or with those who wait for them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "event/resolve.h"

#define KEEP_NS     30000000000ll /* an answer; of nobody's is the time to live known */
#define KEEP_BAD_NS 3000000000ll
#define PATIENCE_MS 10000
#define ENTRIES_MAX 1024

struct names {
    struct loop *loop;
    struct map entries;
};

struct names_entry {
    struct names *names;
    struct map_node node;
    char *name;
    struct resolve *resolve; /* under way, or NULL */
    struct loop_timer *timer;
    struct names_waiter *waiters;
    union names_address list[NAMES_ADDRESSES_MAX];
    size_t count;
    char why[80];
    int64_t until_ns; /* 0: not answered yet */
    bool is_telling;
};

static void entry_free(struct names_entry *e)
{
    map_remove(&e->names->entries, &e->node);
    resolve_drop(e->resolve);
    loop_timer_free(e->timer);
    while (e->waiters)
        names_leave(e->waiters);
    free(e->name);
    free(e);
}

/* One after the other: whoever is told may end others who wait, too. */
static void tell(struct names_entry *e)
{
    e->is_telling = true;
    while (e->waiters) {
        struct names_waiter *w = e->waiters;
        e->waiters = w->next;
        w->entry = NULL;
        w->fn(w->ctx, e->list, e->count, e->why);
    }
    e->is_telling = false;
}

static void settle(struct names_entry *e, const char *why)
{
    e->resolve = NULL;
    loop_timer_free(take_ptr(&e->timer));
    snprintf(e->why, sizeof(e->why), "%s", why ? why : "");
    e->until_ns = clock_now_ns() + (e->count > 0 ? KEEP_NS : KEEP_BAD_NS);
    tell(e);
}

static void on_resolved(void *ctx, const struct addrinfo *list, const char *why)
{
    struct names_entry *e = ctx;
    for (const struct addrinfo *a = list; a && e->count < NAMES_ADDRESSES_MAX; a = a->ai_next) {
        if (a->ai_addrlen <= sizeof(e->list[0]))
            memcpy(&e->list[e->count++], a->ai_addr, a->ai_addrlen);
    }
    settle(e, e->count > 0 ? NULL : why ? why : "the name has no address");
}

static void on_late(void *ctx)
{
    struct names_entry *e = ctx;
    resolve_drop(e->resolve);
    settle(e, "no name server answered in time");
}

static bool is_stale(const struct names_entry *e, int64_t now)
{
    return e->until_ns && e->until_ns <= now && !e->waiters && !e->is_telling;
}

static void forget_stale(struct names *n, bool all)
{
    int64_t now = all ? INT64_MAX : clock_now_ns();
    MAP_EACH(&n->entries, node)
    {
        struct names_entry *e = MAP_OF(node, struct names_entry, node);
        if (is_stale(e, now))
            entry_free(e);
    }
}

static struct names_entry *entry_new(struct names *n, const char *name)
{
    struct names_entry *e = xcalloc(1, sizeof(*e));
    if (n->entries.count >= ENTRIES_MAX)
        forget_stale(n, false);
    if (n->entries.count >= ENTRIES_MAX)
        forget_stale(n, true);
    e->names = n;
    e->name = xstrdup(name);
    map_add(&n->entries, &e->node, e->name);
    e->timer = loop_timer_new(n->loop, PATIENCE_MS, on_late, e);
    e->resolve = resolve_begin(n->loop, e->name, on_resolved, e);
    return e;
}

void names_ask(struct names *n, const char *name, struct names_waiter *w, names_fn fn, void *ctx)
{
    struct map_node *node = map_find(&n->entries, name);
    struct names_entry *e = node ? MAP_OF(node, struct names_entry, node) : NULL;
    if (e && is_stale(e, clock_now_ns())) {
        entry_free(e);
        e = NULL;
    }
    if (!e)
        e = entry_new(n, name);
    if (e->until_ns) {
        w->entry = NULL;
        fn(ctx, e->list, e->count, e->why);
        return;
    }
    *w = (struct names_waiter){.entry = e, .next = e->waiters, .fn = fn, .ctx = ctx};
    e->waiters = w;
}

void names_leave(struct names_waiter *w)
{
    struct names_waiter **at = w->entry ? &w->entry->waiters : NULL;
    while (at && *at && *at != w)
        at = &(*at)->next;
    if (at && *at)
        *at = w->next;
    w->entry = NULL;
}

struct names *names_new(struct loop *loop)
{
    struct names *n = xcalloc(1, sizeof(*n));
    n->loop = loop;
    return n;
}

void names_free(struct names *n)
{
    MAP_EACH(&n->entries, node)
    {
        entry_free(MAP_OF(node, struct names_entry, node));
    }
    map_release(&n->entries);
    free(n);
}
