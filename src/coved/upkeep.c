/* upkeep.c - one timer; a step of forgetting is bounded, and the next follows while there is more
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/upkeep.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define FIRST_MS    5000   /* not while the server begins */
#define RETAIN_MS   300000 /* between two looks at what is over */
#define RETAIN_STEP 200    /* records of each kind in one transaction */
#define NS_PER_MS   1000000ll

struct upkeep {
    struct upkeep_order order;
    struct loop_timer *timer;
};

static void retain(struct upkeep *u);

static void on_retained(void *ctx, const struct store_answer *answer)
{
    struct upkeep *u = ctx;
    if (answer->err)
        log_warn(u->order.log, "what is over could not be removed",
                 LOG_STR("error", answer->err->msg));
    else if (answer->count > 0 && u->timer)
        retain(u);
}

static void retain(struct upkeep *u)
{
    int64_t now = clock_wall_ns();
    const struct store_retention step = {.before_ns =
                                             now - (int64_t)u->order.retention_ms * NS_PER_MS,
                                         .now_ns = now,
                                         .limit = RETAIN_STEP};
    store_retain(u->order.store, &step, on_retained, u);
}

static void on_time(void *ctx)
{
    struct upkeep *u = ctx;
    loop_timer_free(u->timer);
    u->timer = loop_timer_new(u->order.loop, RETAIN_MS, on_time, u);
    retain(u);
}

struct upkeep *upkeep_new(const struct upkeep_order *order)
{
    struct upkeep *u = xcalloc(1, sizeof(*u));
    u->order = *order;
    u->timer = loop_timer_new(order->loop, FIRST_MS, on_time, u);
    return u;
}

void upkeep_stop(struct upkeep *u)
{
    if (u)
        loop_timer_free(take_ptr(&u->timer));
}

void upkeep_free(struct upkeep *u)
{
    upkeep_stop(u);
    free(u);
}
