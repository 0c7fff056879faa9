/* rpc.c - what a message is, is told by which members it has */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

#define ID_MAX_BYTES     256
#define METHOD_MAX_BYTES 128

static int refuse(struct rpc_fault *fault, enum rpc_code code, const json_t *id, const char *fmt,
                  ...) PRINTF_LIKE(4, 5);
static int refuse(struct rpc_fault *fault, enum rpc_code code, const json_t *id, const char *fmt,
                  ...)
{
    va_list args;
    va_start(args, fmt);
    fault->code = code;
    fault->id = id ? json_deep_copy(id) : NULL;
    vsnprintf(fault->text, sizeof(fault->text), fmt, args);
    va_end(args);
    return -1;
}

static bool id_is_valid(const json_t *id)
{
    return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= ID_MAX_BYTES);
}

static int read_call(struct rpc_message *m, struct rpc_fault *fault)
{
    json_t *method = json_object_get(m->document, "method");
    json_t *params = json_object_get(m->document, "params");
    m->kind = m->id ? RPC_REQUEST : RPC_NOTIFICATION;
    m->method = json_string_value(method);
    if (!m->method || json_string_length(method) == 0 ||
        json_string_length(method) > METHOD_MAX_BYTES)
        return refuse(fault, RPC_INVALID_REQUEST, m->id, "method: must be a name");
    if (params && !json_is_object(params))
        return refuse(fault, RPC_INVALID_REQUEST, m->id, "params: must be an object");
    m->params = params;
    return 0;
}

static int read_response(struct rpc_message *m, struct rpc_fault *fault)
{
    m->kind = RPC_RESPONSE;
    m->result = json_object_get(m->document, "result");
    m->error = json_object_get(m->document, "error");
    if (!m->id || !m->result == !m->error)
        return refuse(fault, RPC_INVALID_REQUEST, m->id,
                      "a message has a method, or an id with either result or error");
    return 0;
}

static int read_message(struct rpc_message *m, struct rpc_fault *fault)
{
    json_t *version = json_object_get(m->document, "jsonrpc");
    json_t *id = json_object_get(m->document, "id");
    if (json_is_array(m->document))
        return refuse(fault, RPC_INVALID_REQUEST, NULL,
                      "batches are not taken: send one message at a time");
    if (id && !id_is_valid(id))
        return refuse(fault, RPC_INVALID_REQUEST, NULL,
                      "id: must be text of at most %d bytes or a whole number", ID_MAX_BYTES);
    m->id = id;
    if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return refuse(fault, RPC_INVALID_REQUEST, id, "jsonrpc: must be \"2.0\"");
    return json_object_get(m->document, "method") ? read_call(m, fault) : read_response(m, fault);
}

int rpc_parse(struct rpc_message *out, const char *text, size_t len, size_t max_bytes,
              struct rpc_fault *fault)
{
    struct error err;
    struct rpc_message m = {0};
    const struct json_limits limits = {.max_bytes = max_bytes};
    if (json_parse(&m.document, text, len, &limits, &err) < 0) {
        bool is_large = err.code == ERROR_TOO_LARGE;
        return refuse(fault, is_large ? RPC_INVALID_REQUEST : RPC_PARSE, NULL, "%.200s", err.msg);
    }
    if (read_message(&m, fault) < 0) {
        rpc_release(&m);
        return -1;
    }
    *out = m;
    return 0;
}

void rpc_release(struct rpc_message *m)
{
    json_decref(m->document);
    *m = (struct rpc_message){0};
}

void rpc_fault_release(struct rpc_fault *fault)
{
    json_decref(fault->id);
    fault->id = NULL;
}

json_t *rpc_result(json_t *id, json_t *result)
{
    return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *rpc_error(json_t *id, int code, const char *text, json_t *data)
{
    json_t *error = json_pack("{s:i, s:o}", "code", code, "message", json_text(text, strlen(text)));
    json_t *message = json_pack("{s:s}", "jsonrpc", "2.0");
    if (data)
        json_object_set_new(error, "data", data);
    if (id) /* one that could not be read is not there: null is no id */
        json_object_set(message, "id", id);
    json_object_set_new(message, "error", error);
    return message;
}

json_t *rpc_notification(const char *method, json_t *params)
{
    json_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    if (params)
        json_object_set_new(message, "params", params);
    return message;
}

json_t *rpc_request(const char *id, const char *method, json_t *params)
{
    json_t *message = rpc_notification(method, params);
    json_object_set_new(message, "id", json_string(id));
    return message;
}

char *rpc_text(const json_t *message, size_t max_bytes, size_t *len)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, max_bytes);
    json_add(&text, message, JSON_STYLE_COMPACT);
    if (text.overflow) {
        scoped_json json_t *error = rpc_error(json_object_get(message, "id"), RPC_INTERNAL,
                                              "the answer is too large to be sent", NULL);
        strbuf_release(&text);
        strbuf_init(&text, max_bytes);
        json_add(&text, error, JSON_STYLE_COMPACT);
    }
    *len = text.len;
    return strbuf_take(&text);
}

char *rpc_id_text(const json_t *id)
{
    if (json_is_integer(id))
        return xasprintf("%lld", (long long)json_integer_value(id));
    return xasprintf("\"%s", json_string_value(id));
}
