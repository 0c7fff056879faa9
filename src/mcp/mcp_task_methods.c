/* mcp_task_methods.c - tasks/get, tasks/update, tasks/cancel: for who knows tasks, about his own
 *
 * What is not remembered here may be known to the service. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "mcp/mcp_inside.h"
#include "mcp/mcp_task.h"

#define NS_PER_MS 1000000ll

void mcp_fail_extension(struct mcp_call *call, const char *name)
{
    mcp_fail(call, RPC_MISSING_CAPABILITY,
             json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", name),
             "this needs a client with the extension '%s'", name);
}

static const char *id_of(const struct mcp_call *call)
{
    return json_string_value(json_object_get(mcp_params(call), "taskId"));
}

/* False: it is answered. */
static bool check(struct mcp_call *call)
{
    if (!mcp_has_extension(call, MCP_TASKS_EXTENSION)) {
        mcp_fail_extension(call, MCP_TASKS_EXTENSION);
        return false;
    }
    if (!id_of(call)) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "taskId: must be text, as tools/call gave it");
        return false;
    }
    return true;
}

static struct mcp_task *find(const struct mcp_call *call)
{
    return mcp_task_find(call->peer->server, call->peer->owner, id_of(call));
}

static void ask_service(struct mcp_call *call, bool is_cancelled)
{
    const struct mcp_service *service = call->peer->server->service;
    if (service->find_task)
        service->find_task(call, id_of(call), is_cancelled);
    else
        mcp_task_unknown(call);
}

/* --- what the service says of one ------------------------------------------------------------- */

void mcp_task_unknown(struct mcp_call *call)
{
    mcp_fail(call, RPC_INVALID_PARAMS, NULL,
             "there is no task '%.100s' of yours: it never was, or its time is over", id_of(call));
}

static bool is_get(const struct mcp_call *call)
{
    return call->method->handle == mcp_handle_task_get;
}

bool mcp_task_tell(struct mcp_call *call, const struct mcp_task_view *view)
{
    int64_t now_ns = clock_wall_ns();
    int64_t ttl_ms = mcp_task_ttl_ms(view->created_ns, view->ended_ns, now_ns);
    const struct mcp_task *t = find(call);
    if (!t && view->ended_ns && now_ns - view->created_ns > ttl_ms * NS_PER_MS) {
        mcp_task_unknown(call);
        return false;
    }
    if (!is_get(call)) {
        mcp_answer(call, json_object());
        return false;
    }
    json_t *task = t ? mcp_task_detail(t)
                     : mcp_task_json(&(struct mcp_task_face){
                           .id = id_of(call),
                           .status = view->status,
                           .created_ns = view->created_ns,
                           .updated_ns = view->ended_ns ? view->ended_ns : view->created_ns,
                           .ttl_ms = ttl_ms});
    if (view->status == MCP_TASK_COMPLETED)
        call->telling = task;
    else
        mcp_answer(call, task);
    return view->status == MCP_TASK_COMPLETED;
}

/* --- methods ---------------------------------------------------------------------------------- */

void mcp_handle_task_get(struct mcp_call *call)
{
    if (!check(call))
        return;
    const struct mcp_task *t = find(call);
    if (t && (t->call || !t->is_kept))
        mcp_answer(call, mcp_task_detail(t));
    else
        ask_service(call, false);
}

/* The acknowledgement goes first: what the handler does with the answers may take its time. */
void mcp_handle_task_update(struct mcp_call *call)
{
    json_t *answers = json_object_get(mcp_params(call), "inputResponses");
    if (!check(call))
        return;
    if (!answers) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "inputResponses: is missing");
        return;
    }
    struct mcp_task *t = find(call);
    if (!t) {
        ask_service(call, false);
        return;
    }
    struct mcp_call *goes_on = mcp_task_take(t, answers) ? t->call : NULL;
    mcp_answer(call, json_object());
    if (goes_on)
        goes_on->method->handle(goes_on);
}

void mcp_handle_task_cancel(struct mcp_call *call)
{
    if (!check(call))
        return;
    struct mcp_task *t = find(call);
    if (!t) {
        ask_service(call, true);
        return;
    }
    mcp_task_cancel(t);
    mcp_answer(call, json_object());
}
