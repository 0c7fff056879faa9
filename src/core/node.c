/* node.c - one beat at a time: the next is due when the last was answered
 *
 * A beat that is under way when the node is freed finds nobody: the answer frees what is left. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/node.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"

#define DOCUMENT_MAX (16 * KIB)

struct node {
    struct node_order order;
    struct loop_timer *timer;
    bool is_asking;  /* the store owes an answer */
    bool is_freed;   /* and nobody wants it */
    bool is_failing; /* the last beat did; told once */
};

json_t *node_figures(const struct plane *plane, const struct capacity *capacity)
{
    struct plane_info info;
    struct capacity_info seats = {0};
    uint64_t sessions = 0;
    plane_get_info(plane, &info);
    for (size_t i = 0; i < ARRAY_LEN(info.sessions); i++)
        sessions += info.sessions[i];
    if (capacity)
        capacity_get_info(capacity, &seats);
    return json_pack("{s:{s:o, s:o}, s:{s:o, s:o, s:o}}", "capacity", "sessions",
                     json_number(capacity ? seats.live : sessions), "max_sessions",
                     capacity ? json_number(seats.max_sandboxes) : json_null(), "load", "sessions",
                     json_number(sessions), "running", json_number(info.running), "queued",
                     json_number(info.queued));
}

static void on_answer(void *ctx, const struct store_answer *answer);

static void beat(void *ctx)
{
    struct node *n = ctx;
    scoped_json json_t *document = node_figures(n->order.plane, n->order.capacity);
    scoped_strbuf struct strbuf text;
    json_object_set_new(document, "version", json_string(COVE_VERSION));
    strbuf_init(&text, DOCUMENT_MAX);
    json_add(&text, document, JSON_STYLE_COMPACT);
    const struct store_node record = {
        .id = n->order.id,
        .epoch = n->order.epoch,
        .heartbeat_ns = clock_wall_ns(),
        .doc = strbuf_str(&text),
    };
    loop_timer_free(n->timer);
    n->timer = NULL;
    n->is_asking = true;
    store_beat_node(n->order.store, &record, on_answer, n);
}

static void tell_failure(struct node *n, const struct error *err)
{
    if (err && !n->is_failing)
        log_warn(n->order.log, "heartbeat failed", LOG_STR("node", n->order.id),
                 LOG_STR("error", err->msg));
    n->is_failing = err != NULL;
}

static void on_answer(void *ctx, const struct store_answer *answer)
{
    struct node *n = ctx;
    n->is_asking = false;
    if (n->is_freed) {
        free(n);
        return;
    }
    tell_failure(n, answer->err);
    if (answer->err && answer->err->code == ERROR_CONFLICT)
        n->order.replaced(n->order.ctx);
    else
        n->timer = loop_timer_new(n->order.loop, NODE_BEAT_MS, beat, n);
}

struct node *node_new(const struct node_order *order)
{
    struct node *n = xcalloc(1, sizeof(*n));
    n->order = *order;
    beat(n);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    loop_timer_free(n->timer);
    n->timer = NULL;
    n->is_freed = true;
    if (!n->is_asking)
        free(n);
}
