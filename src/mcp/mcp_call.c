/* mcp_call.c - a request is answered once; what is sent before that goes the same way */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "mcp/mcp_inside.h"

#define TEXT_MAX 2048

static const char *const level_names[MCP_LEVELS] = {
    [MCP_DEBUG] = "debug",     [MCP_INFO] = "info",          [MCP_NOTICE] = "notice",
    [MCP_WARNING] = "warning", [MCP_ERROR] = "error",        [MCP_CRITICAL] = "critical",
    [MCP_ALERT] = "alert",     [MCP_EMERGENCY] = "emergency"};

int mcp_level_find(const char *name)
{
    for (int i = 0; name && i < MCP_LEVELS; i++) {
        if (strcmp(level_names[i], name) == 0)
            return i;
    }
    return -1;
}

/* --- its end ---------------------------------------------------------------------------------- */

static void free_call(struct mcp_call *call)
{
    if (call->arguments)
        params_release(call->arguments, call->tool->params);
    free(call->arguments);
    json_decref(call->id);
    json_decref(call->params);
    json_decref(call->empty);
    json_decref(call->capabilities);
    json_decref(call->inputs);
    json_decref(call->state);
    json_decref(call->telling);
    free(call->key);
    free(call);
}

/* The outlet may close the peer, so the call is no longer one of its by then. */
void mcp_call_end(struct mcp_call *call, json_t *message, int status)
{
    struct mcp_peer *peer = call->peer;
    mcp_input_drop(call);
    map_remove(&peer->calls, &call->by_id);
    if (call->slot)
        *call->slot = NULL;
    call->outlet->end(call->outlet_ctx, call->is_cancelled ? NULL : message, status);
    json_decref(message);
    free_call(call);
    peer->holders--;
    if (peer->is_closed)
        mcp_peer_close(peer);
}

void mcp_call_fail(struct mcp_call *call, int code, int status, const char *text, json_t *data)
{
    mcp_call_end(call, rpc_error(call->id, code, text, data), status);
}

void mcp_call_cancel(struct mcp_call *call)
{
    if (call->is_cancelled)
        return;
    call->is_cancelled = true;
    if (call->open_asks) { /* nobody but the client is at work */
        mcp_call_end(call, NULL, MCP_STATUS_OK);
        return;
    }
    if (call->on_cancel)
        call->on_cancel(call->cancel_ctx);
}

/* --- what is asked ---------------------------------------------------------------------------- */

void *mcp_ctx(const struct mcp_call *call)
{
    return call->peer->server->service->ctx;
}

const struct mcp_user *mcp_user(const struct mcp_call *call)
{
    return &call->peer->user;
}

const struct mcp_version *mcp_call_version(const struct mcp_call *call)
{
    return call->version;
}

const json_t *mcp_params(const struct mcp_call *call)
{
    return call->params ? call->params : call->empty;
}

const json_t *mcp_raw_arguments(const struct mcp_call *call)
{
    const json_t *given = json_object_get(mcp_params(call), "arguments");
    return given ? given : call->empty;
}

const void *mcp_arguments(const struct mcp_call *call)
{
    return call->arguments;
}

const struct mcp_tool *mcp_call_tool(const struct mcp_call *call)
{
    return call->tool;
}

bool mcp_wants_progress(const struct mcp_call *call)
{
    return call->token;
}

bool mcp_has_capability(const struct mcp_call *call, const char *name)
{
    return json_is_object(json_object_get(call->capabilities, name));
}

void mcp_set_data(struct mcp_call *call, void *data)
{
    call->data = data;
}

void *mcp_data(const struct mcp_call *call)
{
    return call->data;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void add_caching(const struct mcp_call *call, json_t *result)
{
    const struct mcp_service *service = call->peer->server->service;
    bool is_list = call->method->caching == MCP_CACHED_LIST;
    if (call->method->caching == MCP_UNCACHED)
        return;
    json_object_set_new(result, "ttlMs", json_integer(is_list ? service->list_ttl_ms : 0));
    json_object_set_new(result, "cacheScope",
                        json_string(is_list || service->is_public ? "public" : "private"));
}

void mcp_call_complete(const struct mcp_call *call, json_t *result)
{
    const struct mcp_service *service = call->peer->server->service;
    json_t *meta = json_object_get(result, MCP_META);
    if (!mcp_version_has(call->version, MCP_HAS_RESULT_TYPE))
        return;
    if (!meta) {
        meta = json_object();
        json_object_set_new(result, MCP_META, meta);
    }
    json_object_set_new(
        meta, MCP_KEY_SERVER,
        json_pack("{s:s, s:s}", "name", service->name, "version", service->version));
    if (!json_object_get(result, "resultType")) {
        json_object_set_new(result, "resultType", json_string("complete"));
        add_caching(call, result);
    }
}

void mcp_answer(struct mcp_call *call, json_t *result)
{
    mcp_call_complete(call, result);
    if (call->telling) {
        json_object_set_new(call->telling, "result", result);
        result = take_ptr(&call->telling);
        mcp_call_complete(call, result);
    }
    mcp_call_end(call, rpc_result(call->id, result), MCP_STATUS_OK);
}

json_t *mcp_text_content(const char *text, size_t len)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", json_text(text, len));
}

json_t *mcp_media_content(const char *kind, const char *mime, const char *base64)
{
    return json_pack("{s:s, s:s, s:s}", "type", kind, "data", base64, "mimeType", mime);
}

json_t *mcp_tool_result(json_t *content)
{
    return json_pack("{s:o}", "content", content);
}

void mcp_answer_text(struct mcp_call *call, const char *text)
{
    mcp_answer(call, mcp_tool_result(json_pack("[o]", mcp_text_content(text, strlen(text)))));
}

void mcp_answer_error(struct mcp_call *call, const char *text)
{
    mcp_answer(call, json_pack("{s:[o], s:b}", "content", mcp_text_content(text, strlen(text)),
                               "isError", true));
}

void mcp_answer_failure(struct mcp_call *call, const struct error *err)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof(text), "%s%s%s%s", err->msg, err->hint[0] ? " (" : "", err->hint,
             err->hint[0] ? ")" : "");
    mcp_answer_error(call, text);
}

void mcp_answer_contents(struct mcp_call *call, json_t *contents)
{
    mcp_answer(call, json_pack("{s:o}", "contents", contents));
}

/* Which errors of the protocol HTTP has a status for; the rest is an answer like any other. */
static int status_of(const struct mcp_call *call, int code)
{
    static const struct {
        int code, status;
    } rows[] = {{RPC_NO_METHOD, MCP_STATUS_NOT_FOUND},
                {RPC_HEADER_MISMATCH, MCP_STATUS_BAD_REQUEST},
                {RPC_MISSING_CAPABILITY, MCP_STATUS_BAD_REQUEST},
                {RPC_UNSUPPORTED_VERSION, MCP_STATUS_BAD_REQUEST}};
    for (size_t i = 0; i < ARRAY_LEN(rows) && call->version->era == MCP_MODERN; i++) {
        if (rows[i].code == code)
            return rows[i].status;
    }
    return MCP_STATUS_OK;
}

void mcp_fail(struct mcp_call *call, int code, json_t *data, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    mcp_call_fail(call, code, status_of(call, code), text, data);
}

void mcp_not_found(struct mcp_call *call, const char *uri)
{
    mcp_fail(call, call->version->not_found, json_pack("{s:o}", "uri", json_text(uri, strlen(uri))),
             "there is no resource '%.500s'", uri);
}

void mcp_fail_capability(struct mcp_call *call, const char *name)
{
    mcp_fail(call, RPC_MISSING_CAPABILITY, json_pack("{s:{s:{}}}", "requiredCapabilities", name),
             "this needs a client with the capability '%s'", name);
}

/* --- before it -------------------------------------------------------------------------------- */

void mcp_on_cancel(struct mcp_call *call, void (*fn)(void *ctx), void *ctx)
{
    call->on_cancel = fn;
    call->cancel_ctx = ctx;
}

bool mcp_is_cancelled(const struct mcp_call *call)
{
    return call->is_cancelled;
}

void mcp_call_send(struct mcp_call *call, json_t *message)
{
    if (!call->is_cancelled)
        call->outlet->send(call->outlet_ctx, message);
    json_decref(message);
}

void mcp_progress(struct mcp_call *call, double progress, double total, const char *message)
{
    if (call->task && message && !call->is_cancelled)
        mcp_task_say(call->task, message);
    if (!call->token || (call->has_progress && progress <= call->progress))
        return;
    json_t *params = json_pack("{s:O, s:f}", "progressToken", call->token, "progress", progress);
    if (total > 0)
        json_object_set_new(params, "total", json_real(total));
    if (message)
        json_object_set_new(params, "message", json_text(message, strlen(message)));
    call->progress = progress;
    call->has_progress = true;
    mcp_call_send(call, rpc_notification("notifications/progress", params));
}

void mcp_log(struct mcp_call *call, enum mcp_level level, const char *logger, const char *text)
{
    if (call->level < 0 || (int)level < call->level)
        return;
    json_t *params = json_pack("{s:s, s:s, s:o}", "level", level_names[level], "logger", logger,
                               "data", json_text(text, strlen(text)));
    mcp_call_send(call, rpc_notification("notifications/message", params));
}

void mcp_break_stream(struct mcp_call *call)
{
    if (call->outlet->break_off && !call->is_cancelled)
        call->outlet->break_off(call->outlet_ctx);
}
