/* mcp_peer.c - a message comes in: it is a request, a word beside one, or an answer to ours */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mcp/mcp_meta.h"

/* --- the server ------------------------------------------------------------------------------- */

struct mcp_server *mcp_server_new(const struct mcp_service *service)
{
    struct mcp_server *s = xcalloc(1, sizeof(*s));
    s->service = service;
    s->offers = mcp_offers(service);
    s->tools = mcp_make_tools(service);
    mcp_state_draw_key(&s->key);
    return s;
}

void mcp_server_free(struct mcp_server *s)
{
    if (!s)
        return;
    mcp_tasks_free(s);
    BUG_ON(s->watches);
    json_decref(s->tools);
    free(s);
}

const struct mcp_service *mcp_server_service(const struct mcp_server *s)
{
    return s->service;
}

/* --- a peer ----------------------------------------------------------------------------------- */

struct mcp_peer *mcp_peer_new(const struct mcp_peer_order *order)
{
    struct mcp_peer *p = xcalloc(1, sizeof(*p));
    p->server = order->server;
    p->owner = xstrdup(order->user.owner);
    p->user = (struct mcp_user){.owner = p->owner, .data = order->user.data};
    p->send = order->send;
    p->ctx = order->ctx;
    p->is_lasting = order->is_lasting;
    p->level = MCP_INFO;
    p->holders = 1;
    return p;
}

static void free_peer(struct mcp_peer *p)
{
    map_release(&p->calls);
    map_release(&p->asks);
    json_decref(p->capabilities);
    free(p->owner);
    free(p);
}

/* Comes once from the transport, and then with the end of each call that is left. */
void mcp_peer_close(struct mcp_peer *p)
{
    if (!p->is_closed) {
        p->is_closed = true;
        p->send = NULL;
        if (p->watch)
            mcp_watch_free(take_ptr(&p->watch));
        MAP_EACH(&p->calls, node)
        mcp_call_cancel(MAP_OF(node, struct mcp_call, by_id));
        p->holders--;
    }
    if (p->holders == 0)
        free_peer(p);
}

const struct mcp_user *mcp_peer_user(const struct mcp_peer *p)
{
    return &p->user;
}

const struct mcp_version *mcp_peer_version(const struct mcp_peer *p)
{
    return p->version;
}

bool mcp_peer_is_busy(const struct mcp_peer *p)
{
    return p->calls.count > 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static void refuse(const struct rpc_message *m, const struct mcp_delivery *d,
                   const struct mcp_refusal *r)
{
    scoped_json json_t *message = rpc_error(m->id, r->code, r->text, r->data);
    d->outlet->end(d->ctx, message, r->status);
}

/* From which level on the caller wants to hear what we log. */
static int level_of(const struct mcp_call *call, const json_t *meta)
{
    const struct mcp_peer *peer = call->peer;
    if (!(peer->server->offers & MCP_NEEDS_LOGS))
        return -1;
    if (call->version->era == MCP_MODERN)
        return mcp_level_find(json_string_value(json_object_get(meta, MCP_KEY_LEVEL)));
    return (int)peer->level;
}

static struct mcp_call *new_call(struct mcp_peer *peer, const struct rpc_message *m,
                                 const struct mcp_delivery *d, const struct mcp_version *version)
{
    const json_t *meta = json_object_get(m->params, MCP_META);
    const json_t *token = json_object_get(meta, "progressToken");
    struct mcp_call *call = xcalloc(1, sizeof(*call));
    call->peer = peer;
    call->version = version;
    call->outlet = d->outlet;
    call->outlet_ctx = d->ctx;
    call->slot = d->slot;
    call->id = json_incref(m->id);
    call->params = json_incref(m->params);
    call->empty = json_object();
    call->key = rpc_id_text(m->id);
    call->token = json_is_string(token) || json_is_integer(token) ? token : NULL;
    call->capabilities =
        json_incref(version->era == MCP_MODERN ? json_object_get(meta, MCP_KEY_CAPABILITIES)
                                               : peer->capabilities);
    call->level = level_of(call, meta);
    peer->holders++;
    map_add(&peer->calls, &call->by_id, call->key);
    if (d->slot)
        *d->slot = call;
    return call;
}

/* The schema of the tool that is called, whose arguments headers may repeat; NULL: none. */
static const json_t *schema_of(const struct mcp_peer *peer, const struct rpc_message *m)
{
    size_t i;
    json_t *tool;
    const char *name = json_string_value(json_object_get(m->params, "name"));
    if (!name || strcmp(m->method, "tools/call") != 0)
        return NULL;
    json_array_foreach(peer->server->tools, i, tool)
    {
        if (strcmp(json_string_value(json_object_get(tool, "name")), name) == 0)
            return json_object_get(tool, "inputSchema");
    }
    return NULL;
}

static bool has_room(const struct mcp_peer *peer, const struct rpc_message *m,
                     struct mcp_refusal *out)
{
    scoped_free char *key = rpc_id_text(m->id);
    *out = (struct mcp_refusal){.code = RPC_INVALID_REQUEST, .status = MCP_STATUS_BAD_REQUEST};
    if (map_find(&peer->calls, key))
        snprintf(out->text, sizeof(out->text), "id: a request with this id is under way");
    else if (peer->calls.count >= MCP_CALLS_MAX)
        snprintf(out->text, sizeof(out->text),
                 "%d requests are under way already: wait for an answer", MCP_CALLS_MAX);
    return !out->text[0];
}

static void begin(struct mcp_peer *peer, const struct rpc_message *m, const struct mcp_delivery *d)
{
    struct mcp_refusal refusal;
    const struct mcp_version *version = mcp_meta_version(m, d, peer->version, &refusal);
    if (!version || !has_room(peer, m, &refusal)) {
        refuse(m, d, &refusal);
        return;
    }
    const struct mcp_method *method = mcp_method_find(peer->server, m->method, version->era);
    if (version->era == MCP_MODERN &&
        !mcp_meta_check_headers(m, d, method ? method->named_by : NULL, schema_of(peer, m),
                                &refusal)) {
        refuse(m, d, &refusal);
        return;
    }
    struct mcp_call *call = new_call(peer, m, d, version);
    call->method = method;
    if (!method)
        mcp_fail(call, RPC_NO_METHOD, NULL, "there is no method '%.100s' in version %s", m->method,
                 version->name);
    else if (mcp_input_read(call))
        method->handle(call);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void on_cancelled(struct mcp_peer *peer, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    if (!json_is_string(id) && !json_is_integer(id))
        return;
    scoped_free char *key = rpc_id_text(id);
    struct map_node *node = map_find(&peer->calls, key);
    if (node)
        mcp_call_cancel(MAP_OF(node, struct mcp_call, by_id));
}

bool mcp_receive(struct mcp_peer *peer, struct rpc_message *m, const struct mcp_delivery *d)
{
    const enum rpc_kind kind = m->kind;
    switch (kind) {
    case RPC_REQUEST:
        begin(peer, m, d);
        break;
    case RPC_NOTIFICATION: /* others tell nothing that we have to know */
        if (strcmp(m->method, "notifications/cancelled") == 0)
            on_cancelled(peer, m->params);
        break;
    case RPC_RESPONSE:
        mcp_input_take(peer, m);
        break;
    }
    rpc_release(m);
    return kind != RPC_REQUEST;
}
