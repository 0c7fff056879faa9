/* mcp_input.c - questions to the client: in the result, or as requests of our own
 *
 * In the modern era a result asks, and the client comes again with a new request that has the
 * answers and our state, signed. In the legacy era we send requests beside the call, and its
 * handler runs again when all are answered. Handlers see no difference. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "mcp/mcp_inside.h"

#define NS_PER_S 1000000000ll

/* What a client must be able to do, to be asked so. */
static const struct {
    const char *method, *capability;
} questions[] = {
    {"elicitation/create", "elicitation"},
    {"sampling/createMessage", "sampling"},
    {"roots/list", "roots"},
};

static const char *capability_of(const char *method)
{
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        if (strcmp(questions[i].method, method) == 0)
            return questions[i].capability;
    }
    BUG_ON(true);
    return NULL;
}

static struct mcp_state_claim claim_of(const struct mcp_call *call)
{
    const char *named_by = call->method->named_by;
    const char *name =
        named_by ? json_string_value(json_object_get(mcp_params(call), named_by)) : NULL;
    return (struct mcp_state_claim){
        .owner = call->peer->owner, .method = call->method->name, .name = name ? name : ""};
}

/* --- modern ----------------------------------------------------------------------------------- */

static void answer_with_questions(struct mcp_call *call, json_t *requests, json_t *state)
{
    const struct mcp_state_claim claim = claim_of(call);
    json_t *result =
        json_pack("{s:s, s:O}", "resultType", "input_required", "inputRequests", requests);
    if (state) {
        scoped_free char *text =
            mcp_state_seal(&call->peer->server->key, &claim, state, clock_wall_ns() / NS_PER_S);
        BUG_ON(!text); /* handlers keep it small */
        json_object_set_new(result, "requestState", json_string(text));
    }
    mcp_answer(call, result);
}

static bool read_state(struct mcp_call *call)
{
    const struct mcp_state_claim claim = claim_of(call);
    const json_t *state = json_object_get(mcp_params(call), "requestState");
    if (!state)
        return true;
    call->state = json_is_string(state)
                      ? mcp_state_open(&call->peer->server->key, &claim, json_string_value(state),
                                       clock_wall_ns() / NS_PER_S)
                      : NULL;
    if (call->state)
        return true;
    mcp_fail(call, RPC_INVALID_PARAMS, NULL,
             "requestState: is not as it was given, or too old; begin anew without it");
    return false;
}

bool mcp_input_read(struct mcp_call *call)
{
    const char *key;
    json_t *value;
    json_t *answers = json_object_get(mcp_params(call), "inputResponses");
    if (call->version->era != MCP_MODERN)
        return true;
    if (answers && !json_is_object(answers)) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "inputResponses: must be an object");
        return false;
    }
    json_object_foreach(answers, key, value)
    {
        if (!json_is_object(value)) {
            mcp_fail(call, RPC_INVALID_PARAMS, NULL, "inputResponses.%.100s: must be an object",
                     key);
            return false;
        }
    }
    call->inputs = json_incref(answers);
    return read_state(call);
}

/* --- legacy ----------------------------------------------------------------------------------- */

struct ask {
    struct map_node by_id;
    char *id, *id_key;
    char *key; /* by which the handler knows it */
    struct mcp_call *call;
};

static void free_ask(struct ask *ask)
{
    map_remove(&ask->call->peer->asks, &ask->by_id);
    free(ask->id);
    free(ask->id_key);
    free(ask->key);
    free(ask);
}

void mcp_input_drop(struct mcp_call *call)
{
    MAP_EACH(&call->peer->asks, node)
    {
        struct ask *ask = MAP_OF(node, struct ask, by_id);
        if (ask->call == call)
            free_ask(ask);
    }
    call->open_asks = 0;
}

static void ask_client(struct mcp_call *call, const char *key, const json_t *request)
{
    struct mcp_peer *peer = call->peer;
    struct ask *ask = xcalloc(1, sizeof(*ask));
    ask->call = call;
    ask->key = xstrdup(key);
    ask->id = xasprintf("cove-%" PRIu64, ++peer->ask_count);
    scoped_json json_t *id = json_string(ask->id);
    ask->id_key = rpc_id_text(id);
    map_add(&peer->asks, &ask->by_id, ask->id_key);
    json_t *params = json_object_get(request, "params");
    mcp_call_send(call, rpc_request(ask->id, json_string_value(json_object_get(request, "method")),
                                    params ? json_incref(params) : NULL));
}

static void ask_all(struct mcp_call *call, json_t *requests, json_t *state)
{
    const char *key;
    json_t *request;
    if (call->peer->asks.count + json_object_size(requests) > MCP_ASKS_MAX ||
        !call->peer->is_lasting) {
        mcp_fail(call, RPC_INTERNAL, NULL, "the client cannot be asked here: it has no session");
        return;
    }
    json_decref(call->state);
    call->state = json_incref(state);
    call->open_asks = json_object_size(requests);
    json_object_foreach(requests, key, request) ask_client(call, key, request);
}

static void keep_answer(struct mcp_call *call, const char *key, json_t *result)
{
    if (!call->inputs)
        call->inputs = json_object();
    json_object_set(call->inputs, key, result);
}

void mcp_input_take(struct mcp_peer *peer, const struct rpc_message *m)
{
    scoped_free char *id = rpc_id_text(m->id);
    struct map_node *node = map_find(&peer->asks, id);
    if (!node)
        return;
    struct ask *ask = MAP_OF(node, struct ask, by_id);
    struct mcp_call *call = ask->call;
    if (m->error || !json_is_object(m->result)) {
        const char *why = json_string_value(json_object_get(m->error, "message"));
        mcp_fail(call, RPC_INTERNAL, NULL, "the client did not answer what it was asked: %.300s",
                 why ? why : "no reason was given");
        return;
    }
    keep_answer(call, ask->key, m->result);
    free_ask(ask);
    if (--call->open_asks == 0)
        call->method->handle(call);
}

/* --- for handlers ----------------------------------------------------------------------------- */

void mcp_need_input(struct mcp_call *call, json_t *requests_taken, json_t *state_taken)
{
    scoped_json json_t *requests = requests_taken, *state = state_taken;
    const char *key;
    json_t *request;
    json_object_foreach(requests, key, request)
    {
        const char *need = capability_of(json_string_value(json_object_get(request, "method")));
        if (!mcp_has_capability(call, need)) {
            mcp_fail_capability(call, need);
            return;
        }
    }
    if (call->task)
        mcp_task_ask(call, requests, state);
    else if (call->version->era == MCP_MODERN)
        answer_with_questions(call, requests, state);
    else
        ask_all(call, requests, state);
}

const json_t *mcp_input(const struct mcp_call *call, const char *key)
{
    return json_object_get(call->inputs, key);
}

const json_t *mcp_state(const struct mcp_call *call)
{
    return call->state;
}
