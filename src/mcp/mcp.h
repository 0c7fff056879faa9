/* mcp.h - a server of MCP, and one request to it on its way
 *
 * Independent of what is offered (mcp_service.h) and of how messages travel (mcp_peer.h). One
 * thread: the loop's.
 *
 * A handler answers its call exactly once, now or later, with one of the functions that say so;
 * with that the call is gone. A client that cancels or leaves changes nothing about it: the handler
 * is told (mcp_on_cancel), and its answer goes nowhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "base/scoped.h"
#include "codec/json.h"
#include "mcp/mcp_service.h"
#include "mcp/mcp_version.h"
#include "mcp/rpc.h"

#define MCP_MESSAGE_MAX_BYTES (24 * 1024 * 1024) /* of one message, in either direction */

struct mcp_server;

struct mcp_server *mcp_server_new(const struct mcp_service *service);
/* After all peers. */
void mcp_server_free(struct mcp_server *server);
SCOPED_DEFINE(mcp_server)
const struct mcp_service *mcp_server_service(const struct mcp_server *server);

/* A list has become another (one of MCP_TELLS_...); a resource has. Who listens is told. */
void mcp_tell_changed(struct mcp_server *server, enum mcp_features list);
void mcp_tell_updated(struct mcp_server *server, const char *uri);
/* The server ends: streams of notifications are answered. */
void mcp_server_stop(struct mcp_server *server);

/* Who asks; borrowed from whoever lets him in, who keeps it as long as the server lives. */
struct mcp_user {
    const char *owner; /* whose sessions are whose */
    const void *data;  /* for the service */
};

/* --- what is asked ---------------------------------------------------------------------------- */

void *mcp_ctx(const struct mcp_call *call); /* of the service */
const struct mcp_user *mcp_user(const struct mcp_call *call);
const struct mcp_version *mcp_call_version(const struct mcp_call *call);
const json_t *mcp_params(const struct mcp_call *call);        /* an object, maybe empty */
const void *mcp_arguments(const struct mcp_call *call);       /* the struct of the tool's table */
const json_t *mcp_raw_arguments(const struct mcp_call *call); /* an object, maybe empty */
const struct mcp_tool *mcp_call_tool(const struct mcp_call *call);
bool mcp_wants_progress(const struct mcp_call *call);

/* Whether the client says that it can do so: "sampling", "elicitation", "roots". */
bool mcp_has_capability(const struct mcp_call *call, const char *name);
bool mcp_has_extension(const struct mcp_call *call, const char *name);

/* For whoever handles it; not looked at. */
void mcp_set_data(struct mcp_call *call, void *data);
void *mcp_data(const struct mcp_call *call);

/* --- the answer: one of these, once ------------------------------------------------------------
 */

void mcp_answer(struct mcp_call *call, json_t *result); /* taken */
void mcp_answer_text(struct mcp_call *call, const char *text);
/* A tool that did not work: words for the model, which may try again. */
void mcp_answer_error(struct mcp_call *call, const char *text);
/* The same from an error, with its hint. */
void mcp_answer_failure(struct mcp_call *call, const struct error *err);
/* The same about its arguments, with what it takes and an example. */
void mcp_answer_complaint(struct mcp_call *call, const struct error *err);
void mcp_answer_contents(struct mcp_call *call, json_t *contents); /* of resources/read; taken */
/* The request itself is wrong, or we are: an error of the protocol. `data` is taken, may be NULL.
 */
void mcp_fail(struct mcp_call *call, int code, json_t *data, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void mcp_not_found(struct mcp_call *call, const char *uri);
void mcp_fail_capability(struct mcp_call *call, const char *name);

/* Has the client asked: `requests` is an object of {"method", "params"}, `state` whatever the
 * handler wants back (NULL: nothing); both are taken. The handler is called once more with a call
 * that has mcp_input() and mcp_state(), maybe after a while and maybe with some still missing. */
void mcp_need_input(struct mcp_call *call, json_t *requests, json_t *state);
const json_t *mcp_input(const struct mcp_call *call, const char *key); /* an object; NULL: none */
const json_t *mcp_state(const struct mcp_call *call);                  /* NULL: none */

/* --- before the answer ------------------------------------------------------------------------ */

/* To be called when the client cancels or leaves: what it asked for may be ended. */
void mcp_on_cancel(struct mcp_call *call, void (*fn)(void *ctx), void *ctx);
bool mcp_is_cancelled(const struct mcp_call *call);

/* Drops what nobody asked for, and what is not more than before. `total` 0: not known. */
void mcp_progress(struct mcp_call *call, double progress, double total, const char *message);

enum mcp_level {
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    MCP_LEVELS
};
void mcp_log(struct mcp_call *call, enum mcp_level level, const char *logger, const char *text);

/* Ends the connection that the client waits at, so that it comes back for the rest; where it
 * cannot, nothing happens. */
void mcp_break_stream(struct mcp_call *call);

/* --- content: new values -----------------------------------------------------------------------
 */

json_t *mcp_text_content(const char *text, size_t len);
/* `kind` is "image" or "audio". */
json_t *mcp_media_content(const char *kind, const char *mime, const char *base64);
/* A result of a tool: `content` is an array, taken. */
json_t *mcp_tool_result(json_t *content);
