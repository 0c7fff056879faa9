/* pool.c - a list of parked sessions and a rule for how long it should be */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pool.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "core/crew.h"

#define CREATES_AT_ONCE   2     /* refilling leaves the machine to those who run */
#define TICK_MS           100   /* how often demand is looked at; crew_tick() counts on it */
#define LEAD_TICKS        3     /* demand of this many ticks is kept in stock */
#define DECAY             64    /* demand falls by 1/64 a tick: half in about 4.5 s */
#define RETRY_MS          500   /* after a session that could not be made */
#define PACKAGES_RETRY_MS 60000 /* the same, when each try may have packages installed */
#define REST_MS           3     /* what was taken is used meanwhile, with the spawner to itself */
#define LOW_PART          4     /* with less than this part of the stock left there is no rest */
#define CALM_MS           10    /* one that nobody took for so long has time to rehearse */

struct parked {
    struct parked *next;
    struct pool *pool;
    struct session *session;
    bool is_ready, has_rehearsed, is_settled;
};

struct pool {
    struct loop *loop;
    struct spawner_client *spawner;
    struct pool_order order;
    struct crew *crew;    /* NULL: none of its own */
    struct parked *first; /* the oldest first */
    size_t ready, creating;
    struct loop_timer *timer;
    struct loop_timer *rest; /* after which it refills; NULL: nothing was taken */
    struct loop_timer *calm; /* after which some rehearse, or have; NULL: nothing is left to do */
    uint64_t retry_ticks;
    unsigned taken_now; /* in this tick */
    unsigned demand;    /* of a tick, times DECAY; rises at once, falls slowly */
    uint64_t taken, missed;
    struct error error;
    bool is_cold_told; /* that it has no warm interpreter stands in the log */
    bool is_closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static void refill(struct pool *p);

static uint64_t find_lent(const struct pool *p)
{
    return p->order.lent ? p->order.lent(p->order.borrower) : 0;
}

static bool has_zygote(const struct pool *p)
{
    return p->crew ? crew_find(p->crew) : find_lent(p);
}

static uint64_t next_zygote(struct pool *p)
{
    return p->crew ? crew_next(p->crew) : find_lent(p);
}

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

static void on_calm(void *ctx);

static void wait_for_calm(struct pool *p)
{
    if (!p->calm)
        p->calm = loop_timer_new(p->loop, CALM_MS, on_calm, p);
}

/* Under a load that takes each as soon as it is there, a rehearsal would only cost. What it took is
 * nobody's: from the next time on, it is not counted any more. What becomes a session has less to
 * do then, too. */
static void on_calm(void *ctx)
{
    struct pool *p = ctx;
    loop_timer_free(take_ptr(&p->calm));
    for (struct parked *at = p->first; at; at = at->next) {
        if (!at->is_ready || at->is_settled || session_info(at->session)->state != SESSION_READY)
            continue;
        if (at->has_rehearsed) {
            session_forget_usage(at->session);
            session_keep_early(at->session);
            at->is_settled = true;
        } else {
            session_rehearse(at->session);
            at->has_rehearsed = true;
            wait_for_calm(p);
        }
    }
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
            p->error = (struct error){0};
            wait_for_calm(p);
            refill(p);
        }
        break;
    case SESSION_FAILED: /* never used, so nothing is lost with it */
        p->error = info->error;
        p->retry_ticks = (p->order.template->packages ? PACKAGES_RETRY_MS : RETRY_MS) / TICK_MS;
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

static const struct session_events parked_events = {.changed = on_parked_changed,
                                                    .is_parked = true};

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
    p->order.template->zygote = next_zygote(p);
    if (session_open(&parked->session, p->loop, p->spawner, p->order.template, &parked_events,
                     parked, &p->error) < 0) {
        free(parked);
        return -1;
    }
    while (*end)
        end = &(*end)->next;
    *end = parked;
    p->creating++;
    return 0;
}

/* With a warm interpreter on its way, a cold start would only delay it; and what is to be forked
 * cannot do without one. */
static bool can_create(const struct pool *p)
{
    bool needs_zygote = p->crew || p->order.template->forks > 0;
    return !p->is_closing && p->retry_ticks == 0 && (!needs_zygote || has_zygote(p));
}

static void refill(struct pool *p)
{
    while (can_create(p) && p->creating < CREATES_AT_ONCE && p->ready + p->creating < target(p) &&
           capacity_has_room(p->order.template->capacity, &p->order.template->limits)) {
        if (add(p) < 0)
            return;
    }
}

static void on_rested(void *ctx)
{
    struct pool *p = ctx;
    loop_timer_free(take_ptr(&p->rest));
    refill(p);
}

/* Making one costs the machine more than using one does: it can wait while enough are left. */
static void refill_soon(struct pool *p)
{
    if (p->ready * LOW_PART < target(p) || p->ready == 0)
        refill(p);
    else if (!p->rest)
        p->rest = loop_timer_new(p->loop, REST_MS, on_rested, p);
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
    if (p->crew)
        crew_tick(p->crew, p->taken_now);
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

/* Once when it goes missing, however often it is tried again, and once when it is there. */
static void tell_warmth(struct pool *p)
{
    const struct error *why = crew_error(p->crew);
    bool is_cold = !crew_find(p->crew) && why->msg[0];
    if (is_cold && !p->is_cold_told)
        log_warn(p->order.log, "no warm interpreter: sessions start slowly",
                 LOG_STR("template", p->order.name), LOG_STR("error", why->msg),
                 LOG_STR("hint", why->hint[0] ? why->hint : NULL));
    else if (p->is_cold_told && crew_find(p->crew))
        log_info(p->order.log, "a warm interpreter is there again",
                 LOG_STR("template", p->order.name));
    p->is_cold_told = is_cold || (p->is_cold_told && !crew_find(p->crew));
}

static void on_warm_changed(void *ctx)
{
    struct pool *p = ctx;
    if (p->crew) /* else it is being opened */
        tell_warmth(p);
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
        p->order.template->zygote = next_zygote(p);
        return session_open(out, p->loop, p->spawner, p->order.template, events, ctx, err);
    }
    unlink_parked(p, parked);
    *out = parked->session;
    session_give(parked->session, events, ctx);
    free(parked);
    refill_soon(p);
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
        .wants_warm = p->crew,
        .is_warm = p->crew && crew_find(p->crew),
        .error = p->error,
    };
    if (p->crew && !out->is_warm)
        out->cold = *crew_error(p->crew);
}

uint64_t pool_zygote(const struct pool *p)
{
    return p->crew ? crew_find(p->crew) : 0;
}

void pool_on_event(struct pool *p, const struct spawn_message *m)
{
    if (p->crew)
        crew_on_event(p->crew, m);
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
    if (order->warm) {
        struct warm_order warm = *order->warm;
        warm.changed = on_warm_changed;
        warm.ctx = p;
        if (crew_open(&p->crew, loop, spawner, &warm, 0, err) < 0) {
            pool_free(p);
            return -1;
        }
    }
    if (p->order.template->capacity)
        capacity_add_yielder(p->order.template->capacity, on_yield, p);
    p->timer = loop_timer_new(loop, TICK_MS, on_tick, p);
    if (!order->lent) /* else it was opened for somebody, who is served first */
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
    loop_timer_free(take_ptr(&p->rest));
    loop_timer_free(take_ptr(&p->calm));
    if (p->crew)
        crew_stop(p->crew);
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
    if (p->order.template->capacity)
        capacity_remove_yielder(p->order.template->capacity, p);
    loop_timer_free(p->timer);
    loop_timer_free(p->rest);
    loop_timer_free(p->calm);
    while (p->first) {
        struct parked *parked = p->first;
        p->first = parked->next;
        session_free(parked->session);
        free(parked);
    }
    crew_free(p->crew);
    free(p);
}
