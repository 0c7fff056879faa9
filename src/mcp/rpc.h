/* rpc.h - JSON-RPC 2.0 as MCP has it: one message at a time, ids that are text or whole numbers
 *
 * Pure: text in, a message out, and the other way round. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_NO_METHOD = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_HEADER_MISMATCH = -32020,
    RPC_MISSING_CAPABILITY = -32021,
    RPC_UNSUPPORTED_VERSION = -32022,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

/* Owns `document`; the rest is borrowed from it. */
struct rpc_message {
    enum rpc_kind kind;
    json_t *document;
    json_t *id;         /* NULL: a notification */
    const char *method; /* NULL: a response */
    json_t *params;     /* an object; NULL: none */
    json_t *result;     /* of a response: one of these */
    json_t *error;
};

/* What is wrong, for rpc_error(). */
struct rpc_fault {
    enum rpc_code code;
    json_t *id; /* new, as far as it could be read; NULL: it could not */
    char text[256];
};

/* Fills *out and answers 0, or fills *fault and answers -1. */
MUST_CHECK int rpc_parse(struct rpc_message *out, const char *text, size_t len, size_t max_bytes,
                         struct rpc_fault *fault);
void rpc_release(struct rpc_message *message); /* a zeroed one is fine */
void rpc_fault_release(struct rpc_fault *fault);

/* New messages. `id` and texts are borrowed; other values are taken. */
json_t *rpc_result(json_t *id, json_t *result);
json_t *rpc_error(json_t *id, int code, const char *text, json_t *data); /* both may be NULL */
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_request(const char *id, const char *method, json_t *params);

/* A message as it is sent, in one line; owned. One longer than `max_bytes` becomes an error that
 * says so. */
char *rpc_text(const json_t *message, size_t max_bytes, size_t *len);

/* An id as a name for maps; owned. "1" and 1 are not the same. */
char *rpc_id_text(const json_t *id);
