/* pool.c - a list of parked sessions and a rule for how long it should be */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pool.h"

#include <stdlib.h>

#include "base/memory.h"

#define CREATES_AT_ONCE 2   /* refilling leaves the machine to those who run */
#define TICK_MS         100 /* how often demand is looked at */
#define LEAD_TICKS      3   /* demand of this many ticks is kept in stock */
#define DECAY           64  /* demand falls by 1/64 a tick: half in about 4.5 s */
#define RETRY_MS        500 /* after a session that could not be made */

struct parked {
    struct parked *next;
    struct pool *pool;
    struct session *session;
    bool is_ready;
};

struct pool {
    struct loop *loop;
    struct spawner_client *spawner;
    struct pool_order order;
    struct session_template template;
    struct warm *warm;
    struct parked *first; /* the oldest first */
    size_t ready, creating;
    struct loop_timer *timer;
    uint64_t retry_ticks;
    unsigned taken_now; /* in this tick */
    unsigned demand;    /* of a tick, times DECAY; rises at once, falls slowly */
    uint64_t taken, missed;
    struct error error;
    bool is_closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static void refill(struct pool *p);

static size_t target(const struct pool *p)
{
    size_t wanted = ((size_t)p->demand * LEAD_TICKS + DECAY - 1) / DECAY;
    return MIN(MAX(wanted, p->order.min_parked), p->order.max_parked);
}

/* --- parked ones ----------------------------------------------------------------------------- */

static void unlink_parked(struct pool *p, struct parked *parked)
{
    struct parked **at = &p->first;
    while (*at != parked)
        at = &(*at)->next;
    *at = parked->next;
    if (parked->is_ready)
        p->ready--;
    else
        p->creating--;
}

/* After its last event nobody refers to the session any more. */
static void on_parked_changed(void *ctx, struct session *session)
{
    struct parked *parked = ctx;
    struct pool *p = parked->pool;
    const struct session_info *info = session_info(session);
    switch (info->state) {
    case SESSION_READY:
        if (!parked->is_ready) {
            parked->is_ready = true;
            p->creating--;
            p->ready++;
            refill(p);
        }
        break;
    case SESSION_FAILED: /* never used, so nothing is lost with it */
        p->error = info->error;
        p->retry_ticks = RETRY_MS / TICK_MS;
        session_close(session);
        break;
    case SESSION_TERMINATED:
        unlink_parked(p, parked);
        session_free(session);
        free(parked);
        if (p->is_closing && !p->first)
            p->closed(p->closed_ctx);
        break;
    case SESSION_CREATING:
    case SESSION_BUSY:
    case SESSION_TERMINATING:
        break;
    }
}

static const struct session_events parked_events = {.changed = on_parked_changed};

static struct parked *find_ready(const struct pool *p)
{
    struct parked *at = p->first;
    while (at && !(at->is_ready && session_info(at->session)->state == SESSION_READY))
        at = at->next;
    return at;
}

/* Somebody needs the room more than the stock does. */
static bool on_yield(void *ctx)
{
    struct parked *parked = find_ready(ctx);
    if (!parked)
        return false;
    session_give_way(parked->session);
    return true;
}

static int add(struct pool *p)
{
    struct parked **end = &p->first;
    struct parked *parked = xcalloc(1, sizeof(*parked));
    parked->pool = p;
    p->template.zygote = p->warm ? warm_zygote(p->warm) : 0;
    if (session_open(&parked->session, p->loop, p->spawner, &p->template, &parked_events, parked,
                     &p->error) < 0) {
        free(parked);
        return -1;
    }
    while (*end)
        end = &(*end)->next;
    *end = parked;
    p->creating++;
    return 0;
}

/* With a warm interpreter on its way, a cold start would only delay it. */
static bool can_create(const struct pool *p)
{
    return !p->is_closing && p->retry_ticks == 0 && (!p->warm || warm_zygote(p->warm));
}

static void refill(struct pool *p)
{
    while (can_create(p) && p->creating < CREATES_AT_ONCE && p->ready + p->creating < target(p) &&
           capacity_has_room(p->template.capacity, &p->template.limits)) {
        if (add(p) < 0)
            return;
    }
}

static void shrink(struct pool *p)
{
    size_t wanted = target(p);
    for (struct parked *at = p->first; at && p->ready > wanted; at = at->next) {
        if (at->is_ready && session_info(at->session)->state == SESSION_READY) {
            session_close(at->session);
            return; /* one a tick is quick enough */
        }
    }
}

/* --- demand ---------------------------------------------------------------------------------- */

static void on_tick(void *ctx)
{
    struct pool *p = ctx;
    unsigned now = p->taken_now * DECAY;
    p->demand -= p->demand / DECAY;
    if (p->demand < DECAY && !now)
        p->demand = 0;
    p->demand = MAX(p->demand, now);
    p->taken_now = 0;
    if (p->retry_ticks > 0)
        p->retry_ticks--;
    loop_timer_free(p->timer);
    p->timer = loop_timer_new(p->loop, TICK_MS, on_tick, p);
    shrink(p);
    refill(p);
}

static void on_warm_changed(void *ctx)
{
    struct pool *p = ctx;
    refill(p);
}

/* --- the interface --------------------------------------------------------------------------- */

int pool_take(struct pool *p, struct session **out, bool *is_parked,
              const struct session_events *events, void *ctx, struct error *err)
{
    struct parked *parked = find_ready(p);
    p->taken++;
    p->taken_now++;
    *is_parked = parked;
    if (!parked) {
        p->missed++;
        p->template.zygote = p->warm ? warm_zygote(p->warm) : 0;
        return session_open(out, p->loop, p->spawner, &p->template, events, ctx, err);
    }
    unlink_parked(p, parked);
    *out = parked->session;
    session_give(parked->session, events, ctx);
    free(parked);
    refill(p);
    return 0;
}

void pool_get_info(const struct pool *p, struct pool_info *out)
{
    *out = (struct pool_info){
        .parked = p->ready,
        .creating = p->creating,
        .target = target(p),
        .taken = p->taken,
        .missed = p->missed,
        .is_warm = p->warm && warm_zygote(p->warm),
        .error = p->error,
    };
}

uint64_t pool_zygote(const struct pool *p)
{
    return p->warm ? warm_zygote(p->warm) : 0;
}

void pool_on_event(struct pool *p, const struct spawn_message *m)
{
    if (p->warm)
        warm_on_event(p->warm, m);
    for (struct parked *at = p->first, *next; at; at = next) {
        next = at->next; /* an event may be the session's last */
        session_on_event(at->session, m);
    }
}

int pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
              const struct pool_order *order, struct error *err)
{
    struct pool *p = xcalloc(1, sizeof(*p));
    p->loop = loop;
    p->spawner = spawner;
    p->order = *order;
    p->template = *order->template;
    if (order->warm) {
        struct warm_order warm = *order->warm;
        warm.changed = on_warm_changed;
        warm.ctx = p;
        if (warm_open(&p->warm, loop, spawner, &warm, err) < 0) {
            pool_free(p);
            return -1;
        }
    }
    if (p->template.capacity)
        capacity_add_yielder(p->template.capacity, on_yield, p);
    p->timer = loop_timer_new(loop, TICK_MS, on_tick, p);
    refill(p);
    *out = p;
    return 0;
}

void pool_close(struct pool *p, void (*closed)(void *ctx), void *ctx)
{
    p->is_closing = true;
    p->closed = closed;
    p->closed_ctx = ctx;
    loop_timer_free(take_ptr(&p->timer));
    if (p->warm)
        warm_stop(p->warm);
    if (!p->first) {
        closed(ctx); /* which may free it */
        return;
    }
    for (struct parked *at = p->first, *next; at; at = next) {
        next = at->next;
        session_close(at->session);
    }
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    if (p->template.capacity)
        capacity_remove_yielder(p->template.capacity, p);
    loop_timer_free(p->timer);
    while (p->first) {
        struct parked *parked = p->first;
        p->first = parked->next;
        session_free(parked->session);
        free(parked);
    }
    warm_free(p->warm);
    free(p);
}
