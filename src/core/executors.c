/* executors.c - one timer; at each turn all pages of what lives, wherever it does
 *
 * What runs on this machine has no heartbeats, and is none of this file's business. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/executors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/execution_json.h"
#include "core/plane_inside.h"

#define LOOK_MS   5000
#define NS_PER_MS 1000000ll
#define ATTEMPTS  1 /* further ones, of what is idempotent */

struct executors {
    struct executors_order order;
    struct loop_timer *timer; /* NULL: pages are read, or it is over */
    bool is_over;
};

static void on_changed(void *ctx, const struct store_answer *answer)
{
    const struct executors *x = ctx;
    if (answer->err && answer->err->code != ERROR_CONFLICT) /* else it has been heard of just now */
        log_warn(x->order.log, "the loss of an execution could not be written",
                 LOG_STR("error", answer->err->msg));
}

static void queue_again(struct executors *x, const struct store_execution *e, int64_t now)
{
    const struct store_execution_change change = {.id = e->id,
                                                  .from = STORE_BIT(STORE_EXECUTION_RUNNING),
                                                  .to = STORE_EXECUTION_QUEUED,
                                                  .heartbeat_ns = now};
    log_warn(x->order.log, "an executor is gone: its execution is queued again",
             LOG_STR("execution", e->id));
    store_change_execution(x->order.store, &change, on_changed, x);
}

static void lose(struct executors *x, const struct store_execution *e, int64_t now)
{
    static const char *const why[] = {
        [STORE_EXECUTION_QUEUED] = "no executor has taken it again",
        [STORE_EXECUTION_RUNNING] = "its executor has not been heard of any more",
    };
    size_t len;
    struct execution lost = {.created_ns = e->created_ns,
                             .started_ns = e->started_ns,
                             .ended_ns = now,
                             .verdict = {.state = EXECUTION_LOST, .kind = REASON_INFRASTRUCTURE}};
    snprintf(lost.id, sizeof(lost.id), "%s", e->id);
    snprintf(lost.verdict.message, sizeof(lost.verdict.message), "%s", why[e->state]);
    json_t *document = execution_json(&lost, e->language);
    if (e->session_id)
        json_object_set_new(document, "session_id", json_string(e->session_id));
    scoped_free char *doc = plane_dump(document, &len);
    const struct store_execution_change change = {.id = e->id,
                                                  .from = STORE_BIT(e->state),
                                                  .to = STORE_EXECUTION_LOST,
                                                  .ended_ns = now,
                                                  .doc = doc};
    log_warn(x->order.log, "an executor is gone, and its execution lost",
             LOG_STR("execution", e->id));
    store_change_execution(x->order.store, &change, on_changed, x);
}

static void look_at(struct executors *x, const struct store_execution *e, int64_t now)
{
    bool runs = e->state == STORE_EXECUTION_RUNNING;
    int64_t patience = (runs ? EXECUTORS_SILENT_MS : EXECUTORS_TAKE_MS) * NS_PER_MS;
    if (!e->heartbeat_ns || now - e->heartbeat_ns < patience)
        return;
    if (runs && e->is_idempotent && e->attempts < ATTEMPTS)
        queue_again(x, e, now);
    else
        lose(x, e, now);
}

static void look(struct executors *x, const char *cursor);

static void on_time(void *ctx)
{
    struct executors *x = ctx;
    loop_timer_free(take_ptr(&x->timer));
    look(x, NULL);
}

static void on_page(void *ctx, const struct store_answer *answer)
{
    struct executors *x = ctx;
    int64_t now = clock_wall_ns();
    if (x->is_over)
        return;
    for (size_t i = 0; !answer->err && i < answer->count; i++)
        look_at(x, &answer->executions[i], now);
    if (!answer->err && answer->next_cursor)
        look(x, answer->next_cursor);
    else
        x->timer = loop_timer_new(x->order.loop, LOOK_MS, on_time, x);
}

static void look(struct executors *x, const char *cursor)
{
    const struct store_filter filter = {.is_live = true, .cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_executions(x->order.store, &filter, on_page, x);
}

struct executors *executors_new(const struct executors_order *order)
{
    struct executors *x = xcalloc(1, sizeof(*x));
    x->order = *order;
    x->timer = loop_timer_new(order->loop, LOOK_MS, on_time, x);
    return x;
}

void executors_stop(struct executors *x)
{
    if (!x)
        return;
    x->is_over = true;
    loop_timer_free(take_ptr(&x->timer));
}

void executors_free(struct executors *x)
{
    free(x);
}
