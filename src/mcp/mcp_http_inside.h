/* mcp_http_inside.h - sessions and streams, for the files of the HTTP transport */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/map.h"
#include "event/loop.h"
#include "http/http.h"
#include "http/sse.h"
#include "mcp/mcp_http.h"

#define MCP_SESSION_ID_BYTES  53 /* 52 letters of five bits */
#define MCP_STREAMS_KEPT      16 /* of a session, that have ended */
#define MCP_STREAM_STANDING   0  /* its number; those of answers count from 1 */
#define MCP_EVENTS_KEPT       256
#define MCP_EVENTS_KEPT_BYTES (4 * 1024 * 1024) /* of a session */

struct mcp_http {
    struct mcp_http_order order;
    struct map sessions;
    struct loop_timer *sweep;
    struct mcp_stream *strays; /* standing streams of no session */
    bool is_stopping;
};

struct mcp_session {
    struct map_node by_id;
    char id[MCP_SESSION_ID_BYTES];
    struct mcp_http *http;
    struct mcp_peer *peer;
    char *owner;
    int64_t used_ns;
    struct mcp_stream *streams;  /* newest first */
    struct mcp_stream *standing; /* of GET; NULL: none is open */
    uint64_t stream_count;
};

/* An event that a client may not have got. */
struct mcp_event {
    struct mcp_event *next;
    uint64_t number;
    char *text; /* "": the first of a stream */
    size_t len;
};

/* What one request of HTTP is answered with: a document, or events. */
struct mcp_stream {
    struct mcp_stream *next;
    struct mcp_http *http;
    struct mcp_session *session;  /* NULL: of none, or it has ended */
    struct mcp_peer *peer;        /* its own; NULL: the session's */
    struct mcp_call *call;        /* that is under way; NULL: none */
    struct http_request *request; /* NULL: nobody is there to read */
    struct sse *sse;              /* NULL: no event was sent yet */
    void *watch;
    struct loop_timer *timer; /* nobody has come back, or the client has heard nothing yet */
    uint64_t number;          /* in its session */
    uint64_t event_count;
    struct mcp_event *first, **last;
    size_t kept, kept_bytes;
    bool is_standing, has_ended;
    bool takes_events, takes_json; /* by Accept */
    bool is_primed;                /* begins with an event without data */
};

/* --- mcp_stream.c ----------------------------------------------------------------------------- */

extern const struct mcp_outlet mcp_stream_outlet; /* ctx: the stream */

/* `session` may be NULL. The request is the stream's from now on. */
struct mcp_stream *mcp_stream_open(struct mcp_http *http, struct mcp_session *session,
                                   struct http_request *request);
const char *mcp_stream_header(void *stream, const char *name);

/* Begins to send events, as far as somebody is there. */
void mcp_stream_begin(struct mcp_stream *stream);
void mcp_stream_send(struct mcp_stream *stream, const json_t *message);

/* Goes on at another request, behind event `after`. */
void mcp_stream_resume(struct mcp_stream *stream, struct http_request *request, uint64_t after);

/* Ends a standing one. */
void mcp_stream_close(struct mcp_stream *stream);
/* Its session ends: what it waits for is cancelled by others. */
void mcp_stream_orphan(struct mcp_stream *stream);

/* --- mcp_session.c ---------------------------------------------------------------------------- */

/* NULL: there are too many. */
struct mcp_session *mcp_session_new(struct mcp_http *http, const struct mcp_user *user);
/* NULL: none of this owner's. */
struct mcp_session *mcp_session_find(struct mcp_http *http, const char *id, const char *owner);
void mcp_session_end(struct mcp_session *session);
void mcp_session_sweep(void *http); /* a timer's */
/* Forgets what is too much of streams that have ended. */
void mcp_session_trim(struct mcp_session *session);

/* --- mcp_tunnel.c ----------------------------------------------------------------------------- */

/* A connection that goes on as lines; the request asks for it. */
void mcp_tunnel_open(struct mcp_http *http, struct http_request *request,
                     const struct mcp_user *user);
