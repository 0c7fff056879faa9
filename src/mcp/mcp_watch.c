/* mcp_watch.c - who wants to hear of what: whole conversations, single resources, streams */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mcp/mcp_inside.h"

/* One who listens: a peer with all that is offered, or a call with what it asked for. */
struct mcp_watch {
    struct mcp_watch *next;
    struct mcp_server *server;
    struct mcp_peer *peer; /* one of these */
    struct mcp_call *call;
    unsigned lists; /* enum mcp_features */
    json_t *uris;   /* an object of them */
    json_t *tasks;  /* an object of their ids */
};

/* One row for each list: the flag, the notification, the member of a filter. */
static const struct {
    enum mcp_features list;
    const char *method, *wish;
} lists[] = {
    {MCP_TELLS_TOOLS, "notifications/tools/list_changed", "toolsListChanged"},
    {MCP_TELLS_PROMPTS, "notifications/prompts/list_changed", "promptsListChanged"},
    {MCP_TELLS_RESOURCES, "notifications/resources/list_changed", "resourcesListChanged"},
};
#define WISH_UPDATES "resourceSubscriptions"
#define WISH_TASKS   "taskIds"

static struct mcp_watch *new_watch(struct mcp_server *server)
{
    struct mcp_watch *w = xcalloc(1, sizeof(*w));
    w->server = server;
    w->uris = json_object();
    w->tasks = json_object();
    w->next = server->watches;
    server->watches = w;
    return w;
}

void mcp_watch_free(struct mcp_watch *w)
{
    struct mcp_watch **at = &w->server->watches;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    json_decref(w->uris);
    json_decref(w->tasks);
    free(w);
}

void mcp_peer_listen(struct mcp_peer *peer)
{
    if (!peer->send || peer->watch)
        return;
    peer->watch = new_watch(peer->server);
    peer->watch->peer = peer;
    peer->watch->lists = peer->server->service->features;
}

/* --- telling ---------------------------------------------------------------------------------- */

/* `params` is taken. */
static void tell(struct mcp_watch *w, const char *method, json_t *params)
{
    if (w->call) {
        json_object_set_new(params, MCP_META,
                            json_pack("{s:O}", MCP_KEY_SUBSCRIPTION, w->call->id));
        mcp_call_send(w->call, rpc_notification(method, params));
        return;
    }
    scoped_json json_t *message = rpc_notification(method, params);
    w->peer->send(w->peer->ctx, message);
}

void mcp_tell_changed(struct mcp_server *server, enum mcp_features list)
{
    struct mcp_watch *next;
    size_t i = 0;
    while (lists[i].list != list)
        i++;
    for (struct mcp_watch *w = server->watches; w; w = next) {
        next = w->next;
        if (w->lists & list)
            tell(w, lists[i].method, json_object());
    }
}

void mcp_tell_updated(struct mcp_server *server, const char *uri)
{
    struct mcp_watch *next;
    for (struct mcp_watch *w = server->watches; w; w = next) {
        next = w->next;
        if (json_object_get(w->uris, uri))
            tell(w, "notifications/resources/updated", json_pack("{s:s}", "uri", uri));
    }
}

void mcp_watch_tell_task(const struct mcp_task *t)
{
    struct mcp_watch *next;
    for (struct mcp_watch *w = t->server->watches; w; w = next) {
        next = w->next;
        if (json_object_get(w->tasks, t->id))
            tell(w, "notifications/tasks", mcp_task_detail(t));
    }
}

/* --- resources of a conversation (legacy) ----------------------------------------------------- */

static const char *read_uri(struct mcp_call *call)
{
    const json_t *uri = json_object_get(mcp_params(call), "uri");
    if (json_is_string(uri) && json_string_length(uri) <= MCP_URI_MAX_BYTES)
        return json_string_value(uri);
    mcp_fail(call, RPC_INVALID_PARAMS, NULL, "uri: must be text of at most %d bytes",
             MCP_URI_MAX_BYTES);
    return NULL;
}

void mcp_handle_subscribe(struct mcp_call *call)
{
    struct mcp_peer *peer = call->peer;
    const char *uri = read_uri(call);
    if (!uri)
        return;
    mcp_peer_listen(peer);
    if (!peer->watch) {
        mcp_fail(call, RPC_INVALID_REQUEST, NULL, "a subscription needs a session: initialize");
        return;
    }
    if (json_object_size(peer->watch->uris) >= MCP_SUBSCRIPTIONS_MAX) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "%d resources are subscribed to already",
                 MCP_SUBSCRIPTIONS_MAX);
        return;
    }
    json_object_set_new(peer->watch->uris, uri, json_true());
    mcp_answer(call, json_object());
}

void mcp_handle_unsubscribe(struct mcp_call *call)
{
    const char *uri = read_uri(call);
    if (!uri)
        return;
    if (call->peer->watch)
        json_object_del(call->peer->watch->uris, uri);
    mcp_answer(call, json_object());
}

/* --- a stream (modern) ------------------------------------------------------------------------ */

static void on_cancel(void *ctx)
{
    struct mcp_watch *w = ctx;
    struct mcp_call *call = w->call;
    mcp_watch_free(w);
    mcp_call_end(call, NULL, MCP_STATUS_OK);
}

void mcp_peer_unlisten(struct mcp_peer *peer)
{
    struct mcp_watch *next;
    for (struct mcp_watch *w = peer->server->watches; w; w = next) {
        next = w->next;
        if (w->call && w->call->peer == peer)
            mcp_call_cancel(w->call);
    }
}

static void take_uris(struct mcp_watch *w, const json_t *wanted)
{
    size_t i;
    json_t *uri;
    json_array_foreach(wanted, i, uri)
    {
        if (json_is_string(uri) && json_object_size(w->uris) < MCP_SUBSCRIPTIONS_MAX)
            json_object_set_new(w->uris, json_string_value(uri), json_true());
    }
}

/* Of those that have not ended: what came of the others can be had at once. */
static void take_tasks(struct mcp_watch *w, const json_t *wanted)
{
    size_t i;
    json_t *id;
    const char *owner = w->call->peer->owner;
    json_array_foreach(wanted, i, id)
    {
        const struct mcp_task *t =
            json_is_string(id) ? mcp_task_find(w->server, owner, json_string_value(id)) : NULL;
        if (t && t->call && json_object_size(w->tasks) < MCP_SUBSCRIPTIONS_MAX)
            json_object_set_new(w->tasks, t->id, json_true());
    }
}

static void add_names(json_t *agreed, const char *wish, json_t *names)
{
    const char *name;
    json_t *value;
    if (json_object_size(names) == 0)
        return;
    json_t *list = json_array();
    json_object_foreach(names, name, value) json_array_append_new(list, json_string(name));
    json_object_set_new(agreed, wish, list);
}

/* What of it is offered here; new. */
static json_t *honour(struct mcp_watch *w, const json_t *filter)
{
    unsigned features = w->server->service->features;
    json_t *agreed = json_object();
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (features & lists[i].list && json_is_true(json_object_get(filter, lists[i].wish))) {
            w->lists |= lists[i].list;
            json_object_set_new(agreed, lists[i].wish, json_true());
        }
    }
    if (features & MCP_TELLS_UPDATES)
        take_uris(w, json_object_get(filter, WISH_UPDATES));
    take_tasks(w, json_object_get(filter, WISH_TASKS));
    add_names(agreed, WISH_UPDATES, w->uris);
    add_names(agreed, WISH_TASKS, w->tasks);
    return agreed;
}

void mcp_handle_listen(struct mcp_call *call)
{
    const json_t *filter = json_object_get(mcp_params(call), "notifications");
    if (!json_is_object(filter)) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL,
                 "notifications: must be an object such as {\"toolsListChanged\": true}");
        return;
    }
    if (json_object_get(filter, WISH_TASKS) && !mcp_has_extension(call, MCP_TASKS_EXTENSION)) {
        mcp_fail_extension(call, MCP_TASKS_EXTENSION);
        return;
    }
    struct mcp_watch *w = new_watch(call->peer->server);
    w->call = call;
    mcp_on_cancel(call, on_cancel, w);
    if (call->outlet->begin_stream)
        call->outlet->begin_stream(call->outlet_ctx);
    json_t *params = json_pack("{s:{s:O}, s:o}", MCP_META, MCP_KEY_SUBSCRIPTION, call->id,
                               "notifications", honour(w, filter));
    mcp_call_send(call, rpc_notification("notifications/subscriptions/acknowledged", params));
}

void mcp_server_stop(struct mcp_server *server)
{
    struct mcp_watch *next;
    for (struct mcp_watch *w = server->watches; w; w = next) {
        struct mcp_call *call = w->call;
        next = w->next;
        if (!call)
            continue;
        mcp_watch_free(w);
        mcp_answer(call, json_pack("{s:{s:O}}", MCP_META, MCP_KEY_SUBSCRIPTION, call->id));
    }
}
