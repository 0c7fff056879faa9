/* upkeep.c - a timer for each; a step of forgetting is bounded, and the next follows while there is
 * more */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/upkeep.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define FIRST_MS    5000       /* not while the server begins */
#define RETAIN_MS   300000     /* between two looks at what is over */
#define LOOK_MS     60000      /* between two looks at the images */
#define TRIM_MS     10000      /* between two looks at memory that nothing uses */
#define TELL_MS     1000       /* until lines that were dropped are told of */
#define TRIM_BYTES  (8u << 20) /* so much of it may stay: what comes next takes it */
#define RETAIN_STEP 200        /* records of each kind in one transaction */
#define NS_PER_MS   1000000ll

struct upkeep {
    struct upkeep_order order;
    struct loop_timer *timer, *look_timer, *trim_timer, *tell_timer;
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

static void on_look_time(void *ctx)
{
    struct upkeep *u = ctx;
    loop_timer_free(u->look_timer);
    u->look_timer = loop_timer_new(u->order.loop, LOOK_MS, on_look_time, u);
    shelf_look(u->order.shelf);
}

/* A wave of answers leaves the heap full of holes below something small that lives on; on its own
 * the allocator gives back no more than the end. */
static void on_trim_time(void *ctx)
{
    struct upkeep *u = ctx;
    loop_timer_free(u->trim_timer);
    u->trim_timer = loop_timer_new(u->order.loop, TRIM_MS, on_trim_time, u);
    if (mallinfo2().fordblks > TRIM_BYTES)
        malloc_trim(0);
}

/* A log that has room again may have no line to come. */
static void on_tell_time(void *ctx)
{
    struct upkeep *u = ctx;
    loop_timer_free(u->tell_timer);
    u->tell_timer = loop_timer_new(u->order.loop, TELL_MS, on_tell_time, u);
    log_tell_loss(u->order.log);
}

struct upkeep *upkeep_new(const struct upkeep_order *order)
{
    struct upkeep *u = xcalloc(1, sizeof(*u));
    u->order = *order;
    u->timer = loop_timer_new(order->loop, FIRST_MS, on_time, u);
    u->look_timer = loop_timer_new(order->loop, LOOK_MS, on_look_time, u);
    u->trim_timer = loop_timer_new(order->loop, TRIM_MS, on_trim_time, u);
    u->tell_timer = loop_timer_new(order->loop, TELL_MS, on_tell_time, u);
    return u;
}

void upkeep_stop(struct upkeep *u)
{
    if (!u)
        return;
    loop_timer_free(take_ptr(&u->timer));
    loop_timer_free(take_ptr(&u->look_timer));
    loop_timer_free(take_ptr(&u->trim_timer));
    loop_timer_free(take_ptr(&u->tell_timer));
}

void upkeep_free(struct upkeep *u)
{
    upkeep_stop(u);
    free(u);
}
