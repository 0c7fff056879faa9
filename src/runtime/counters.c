/* counters.c - files that were read lately stay open for a while */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/counters.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"

static void close_hot(struct counters_hot *h)
{
    if (h->is_open)
        meter_close(&h->files);
    h->is_open = false;
}

static void on_calm(void *ctx);

static void set_timer(struct counters *c)
{
    c->calm_turn = c->turn;
    c->timer = loop_timer_new(c->loop, COUNTERS_CALM_MS, on_calm, c);
}

/* Those that nobody has read since the last time. */
static void on_calm(void *ctx)
{
    struct counters *c = ctx;
    bool is_any_open = false;
    loop_timer_free(take_ptr(&c->timer));
    for (size_t i = 0; i < COUNTERS_HOT; i++) {
        if (c->hot[i].turn <= c->calm_turn)
            close_hot(&c->hot[i]);
        is_any_open |= c->hot[i].is_open;
    }
    if (is_any_open)
        set_timer(c);
}

void counters_init(struct counters *c, struct loop *loop)
{
    *c = (struct counters){.loop = loop};
    for (size_t i = 0; i < SPAWN_METER_COUNT; i++)
        c->meter.dirs[i] = -1;
}

void counters_release(struct counters *c)
{
    loop_timer_free(c->timer);
    for (size_t i = 0; i < COUNTERS_HOT; i++)
        close_hot(&c->hot[i]);
    for (size_t i = 0; i < SPAWN_METER_COUNT; i++)
        scoped_close_fd(&c->meter.dirs[i]);
}

static bool is_of(const struct counters_hot *h, uint32_t slot, uint32_t nest)
{
    return h->is_open && h->slot == slot && h->nest == nest;
}

/* That of the sandbox, or the one that was read longest ago. */
static struct counters_hot *find_hot(struct counters *c, uint32_t slot, uint32_t nest)
{
    struct counters_hot *oldest = &c->hot[0];
    for (size_t i = 0; i < COUNTERS_HOT; i++) {
        struct counters_hot *h = &c->hot[i];
        if (is_of(h, slot, nest))
            return h;
        if (!h->is_open || (oldest->is_open && h->turn < oldest->turn))
            oldest = h;
    }
    close_hot(oldest);
    return oldest;
}

bool counters_read(struct counters *c, uint32_t slot, uint32_t nest, struct spawn_stats *out)
{
    struct counters_hot *h = find_hot(c, slot, nest);
    h->turn = ++c->turn;
    /* A group that is gone may have left its number to the next one. */
    if (h->is_open && meter_read_files(&c->meter, &h->files, out))
        return true;
    close_hot(h);
    h->slot = slot;
    h->nest = nest;
    meter_open(&c->meter, slot, nest, &h->files);
    h->is_open = true;
    if (!meter_read_files(&c->meter, &h->files, out)) {
        close_hot(h);
        return false;
    }
    if (!c->timer)
        set_timer(c);
    return true;
}

void counters_forget(struct counters *c, uint32_t slot, uint32_t nest)
{
    for (size_t i = 0; i < COUNTERS_HOT; i++) {
        if (is_of(&c->hot[i], slot, nest))
            close_hot(&c->hot[i]);
    }
}
