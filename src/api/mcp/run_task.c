/* run_task.c - first it is written down, then it is told
 *
 * A run in a session is in the store already by then, and a later coved takes it over. One without
 * a session ends with coved; its record says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/run_task.h"

#include <stdlib.h>
#include <string.h>

#include "api/mcp/run_result.h"
#include "base/clock.h"
#include "base/memory.h"
#include "mcp/mcp_task.h"

#define DOCUMENT_MAX (256 * MIB)

/* --- becoming one ----------------------------------------------------------------------------- */

/* Until the plane has answered; outlives a run that ends before. */
struct noting {
    struct run_task *task; /* NULL: it has */
};

struct run_task {
    struct run_task_order order;
    struct loop_timer *timer;
    struct noting *noting; /* NULL: nobody is asked */
    int64_t created_ns;
};

/* What is not there yet (its session is being made) cannot be written down, but told. */
static void on_noted(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct noting *noting = ctx;
    struct run_task *t = noting->task;
    (void)text, (void)len;
    free(noting);
    if (!t)
        return;
    t->noting = NULL;
    const struct mcp_task_order order = {.id = t->order.id, .created_ns = t->created_ns};
    if ((err && err->code != ERROR_NOT_FOUND) || !mcp_task_begin(t->order.call, &order))
        return;
    mcp_task_on_drop(t->order.call, t->order.dropped, t->order.ctx);
    t->order.begun(t->order.ctx);
}

static void on_long(void *ctx)
{
    struct run_task *t = ctx;
    struct error err;
    const struct mcp_call *call = t->order.call;
    loop_timer_free(take_ptr(&t->timer));
    if (!mcp_can_be_task(call) || (!t->order.id[0] && id_make(ID_EXECUTION, t->order.id, &err) < 0))
        return;
    t->noting = xcalloc(1, sizeof(*t->noting));
    t->noting->task = t;
    plane_make_known(toolbox_api(call)->plane, toolbox_caller(call), t->order.id, on_noted,
                     t->noting);
}

struct run_task *run_task_new(const struct run_task_order *order)
{
    if (!mcp_can_be_task(order->call))
        return NULL;
    struct run_task *t = xcalloc(1, sizeof(*t));
    t->order = *order;
    t->created_ns = clock_wall_ns();
    t->timer = loop_timer_new(toolbox_api(order->call)->loop, RUN_TASK_AFTER_MS, on_long, t);
    return t;
}

void run_task_free(struct run_task *t)
{
    if (!t)
        return;
    mcp_task_on_drop(t->order.call, NULL, NULL);
    loop_timer_free(t->timer);
    if (t->noting)
        t->noting->task = NULL;
    free(t);
}

/* --- its end ---------------------------------------------------------------------------------- */

static const char *state_of(const json_t *document)
{
    const char *state = json_string_value(json_object_get(document, "state"));
    return state ? state : "";
}

static bool was_cancelled(const json_t *document)
{
    return strcmp(state_of(document), store_execution_names[STORE_EXECUTION_CANCELLED]) == 0;
}

/* Ends a task in the way in which it would be found again. */
void run_task_answer(struct mcp_call *call, json_t *document)
{
    if (mcp_is_task(call) && was_cancelled(document)) {
        mcp_task_end_cancelled(call);
        return;
    }
    mcp_task_set_kept(call);
    run_result_begin(call, json_incref(document));
}

/* --- found again ------------------------------------------------------------------------------ */

static int64_t time_of(const json_t *document, const char *name)
{
    int64_t ns;
    const char *text = json_string_value(json_object_get(document, name));
    return text && clock_parse(text, &ns) ? ns : 0;
}

static void on_found(void *ctx, const char *text, size_t len, const struct error *cause)
{
    struct mcp_call *call = ctx;
    struct error err;
    scoped_json json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = DOCUMENT_MAX, .has_nul = true};
    if (cause && cause->code == ERROR_NOT_FOUND) {
        mcp_task_unknown(call);
        return;
    }
    if (cause || json_parse(&document, text, len, &limits, &err) < 0) {
        mcp_fail(call, RPC_INTERNAL, NULL, "%s", cause ? cause->msg : err.msg);
        return;
    }
    struct mcp_task_view view = {.created_ns = time_of(document, "created_at"),
                                 .ended_ns = time_of(document, "ended_at")};
    if (view.ended_ns)
        view.status = was_cancelled(document) ? MCP_TASK_CANCELLED : MCP_TASK_COMPLETED;
    if (mcp_task_tell(call, &view))
        run_result_begin(call, json_incref(document));
}

/* Whoever may run code may have tasks; only his own, even when he sees everybody's executions. */
void run_task_find(struct mcp_call *call, const char *id, bool is_cancelled)
{
    struct plane *plane = toolbox_api(call)->plane;
    const struct plane_caller me = {.owner = toolbox_caller(call)->owner};
    if (!id_is_valid(ID_EXECUTION, id) ||
        !(toolbox_has_scope(call, SCOPE_EXECUTE) || toolbox_has_scope(call, SCOPE_SESSIONS_WRITE)))
        mcp_task_unknown(call);
    else if (is_cancelled)
        plane_cancel(plane, &me, id, on_found, call);
    else
        plane_get_execution(plane, &me, id, on_found, call);
}
