/* mcp_http.h - MCP over HTTP: one address, POST for messages, GET for a stream, DELETE for the end
 *
 * GET with an upgrade makes the connection one of lines, both ways (mcp_lines.h).
 *
 * A request of the modern era, or one without any mark, is answered by itself. initialize makes a
 * session, which later requests name in Mcp-Session-Id; sessions are few, belong to who made them,
 * and end when nobody uses them. Who authenticates, and which Host and Origin may come in, is
 * decided before this. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mcp/mcp_peer.h"

struct http_request;
struct loop;
struct mcp_http;

#define MCP_HTTP_LINES              "mcp-lines" /* in Upgrade: GET goes on as lines */
#define MCP_HTTP_SESSIONS_MAX       1024        /* of all */
#define MCP_HTTP_SESSIONS_OWNER_MAX 256         /* of one owner */

/* Borrowed as long as it lives. */
struct mcp_http_order {
    struct mcp_server *server;
    struct loop *loop;
    /* For streams, which go on after the door was passed: `fn` is called once when the user may no
     * longer be served. New; NULL: that never happens. Both may be NULL. */
    void *(*watch)(void *ctx, const struct mcp_user *user, void (*fn)(void *ctx), void *fn_ctx);
    void (*unwatch)(void *watch);
    /* Whether the user may send one more request on a connection that carries many; false with
     * *err. NULL: always. */
    bool (*admit)(void *ctx, const struct mcp_user *user, struct error *err);
    void *ctx;
    uint64_t session_ms; /* of a session that nobody uses; 0: half an hour */
    uint64_t resume_ms;  /* for a client whose stream broke, to come back for it; 0: 15 s */
};

struct mcp_http *mcp_http_new(const struct mcp_http_order *order);
/* The server is to end: streams that would go on for ever are closed, sessions end. */
void mcp_http_stop(struct mcp_http *http);
void mcp_http_free(struct mcp_http *http); /* after the HTTP server; calls are answered by then */
SCOPED_DEFINE(mcp_http)

/* Handlers; each answers the request, now or later. */
void mcp_http_post(struct mcp_http *http, struct http_request *request,
                   const struct mcp_user *user);
void mcp_http_get(struct mcp_http *http, struct http_request *request, const struct mcp_user *user);
void mcp_http_delete(struct mcp_http *http, struct http_request *request,
                     const struct mcp_user *user);

size_t mcp_http_sessions(const struct mcp_http *http); /* how many there are */
