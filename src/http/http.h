/* http.h - what a handler sees: one request, and how it is answered
 *
 * A handler is called once for each request, on the loop's thread: when the body is there, or at
 * the head for a route that streams its body. It answers right away or any time later. Each request
 * is answered exactly once: by http_respond() or one of its relatives, by a stream from
 * http_stream_begin() to http_stream_end(), or by an upgrade (websocket.h). With the answer the
 * request ends, and its pointer with it.
 *
 * When the peer leaves before that, http_on_gone()'s function is called, within milliseconds, and
 * the request has ended, too; so it is when a body that is streamed turns out to be malformed, too
 * large or too late, which the peer is told by this layer. A handler that asked for no such call
 * has to answer nevertheless; nobody reads it.
 *
 * No function here calls back: callbacks come from the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "http/framing.h"
#include "http/method.h"
#include "http/refusal.h"
#include "http/route.h"

struct http_request;
struct url;

#define HTTP_LENGTH_UNKNOWN UINT64_MAX
#define HTTP_STREAM_HIGH    (256 * 1024) /* bytes that wait for the peer: above it, stop... */
#define HTTP_STREAM_LOW     (64 * 1024)  /* ...and go on below it */

/* --- the request; all text is borrowed and lives as long as the request --------------------- */

enum method http_method(const struct http_request *r);
const char *http_path(const struct http_request *r);                        /* decoded */
const char *http_parameter(const struct http_request *r, const char *name); /* {name}; never NULL */
const char *http_query(const struct http_request *r, const char *name);     /* or NULL */
const struct url *http_url(const struct http_request *r);                   /* all of the query */
const char *http_header(const struct http_request *r, const char *name); /* lower case; or NULL */
const struct framing_head *http_head(const struct http_request *r);
const struct route *http_route(const struct http_request *r); /* NULL before one was found */
const char *http_id(const struct http_request *r);            /* as in X-Request-Id */
const char *http_peer(const struct http_request *r);          /* address, or "unix" */
bool http_is_tls(const struct http_request *r);
const char *http_body(const struct http_request *r,
                      size_t *len); /* of a collected body; a NUL follows */

/* A pointer for whoever authorizes and whoever handles; the layer does not look at it. */
void http_set_user(struct http_request *r, void *user);
void *http_user(const struct http_request *r);

typedef void (*http_gone_fn)(void *ctx);
void http_on_gone(struct http_request *r, http_gone_fn fn, void *ctx);

/* --- a body that is streamed ---------------------------------------------------------------- */

/* `data` is borrowed for the call. At the end comes one call with `len` 0. Before the answer
 * begins, if a client that waits for 100 is to send its body at all. */
typedef void (*http_body_fn)(void *ctx, const void *data, size_t len);
void http_body_start(struct http_request *r, http_body_fn fn, void *ctx);
void http_body_pause(
    struct http_request *r); /* at most what was read already still comes: nothing */
void http_body_resume(struct http_request *r);

/* --- the answer ----------------------------------------------------------------------------- */

/* Before the answer. `value` must have no control characters; one that has is a bug of the caller.
 */
void http_add_header(struct http_request *r, const char *name, const char *value);

/* `type` may be NULL when there is no body. */
void http_respond(struct http_request *r, int status, const char *type, const void *body,
                  size_t len);
void http_respond_give(struct http_request *r, int status, const char *type, char *body,
                       size_t len); /* takes malloc'ed memory */

/* Errors, in the one shape: {"error":{"code","message","hint","request_id"}}. */
struct http_error {
    int status;
    const char *code;
    const char *message;
    const char *hint;  /* NULL: none */
    unsigned retry_ms; /* Retry-After; 0: none */
};
void http_fail_as(struct http_request *r, const struct http_error *error);
void http_fail(struct http_request *r, const struct error *err);
void http_fail_with(struct http_request *r, int status, const struct error *err);
void http_refuse(struct http_request *r, enum refusal refusal);

/* A body in pieces: chunked, or `length` bytes, which must then be written exactly. */
void http_stream_begin(struct http_request *r, int status, const char *type, uint64_t length);
/* Copies. True: more is welcome. False: wait for http_on_drain()'s call, unless it is little. */
bool http_stream_write(struct http_request *r, const void *data, size_t len);
size_t http_stream_waiting(const struct http_request *r); /* bytes that the peer has not taken */
void http_stream_end(struct http_request *r);
void http_stream_abort(
    struct http_request *r); /* so that the peer sees that something is missing */

typedef void (*http_drain_fn)(void *ctx);
void http_on_drain(struct http_request *r, http_drain_fn fn, void *ctx); /* each time, until NULL */
