/* mcp_stream.c - an answer over HTTP: a document when there is nothing else to say, else events
 *
 * A stream of a session numbers its events and keeps them, so that a client whose connection broke
 * can go on; while nobody is there it waits for a while, and then what was asked is cancelled. A
 * stream of no session cannot be taken up, so who leaves it has cancelled. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mcp/mcp_http_inside.h"

#define HEARTBEAT_MS   15000
#define SILENCE_MS     5000 /* after which an answer becomes a stream, for its heartbeats */
#define ID_MAX_BYTES   48
#define RETRY_LINE     "retry: 500\n\n"
#define JSON_TYPE      "application/json"
#define EVENTS_TYPE    "text/event-stream"
#define STATUS_OK      200
#define STATUS_NOTHING 204

/* --- its life --------------------------------------------------------------------------------- */

static void drop_first(struct mcp_stream *s)
{
    struct mcp_event *e = s->first;
    s->first = e->next;
    if (!s->first)
        s->last = &s->first;
    s->kept--;
    s->kept_bytes -= e->len;
    free(e->text);
    free(e);
}

static void unwatch(struct mcp_stream *s)
{
    if (s->watch)
        s->http->order.unwatch(take_ptr(&s->watch));
}

static void unlink_from(struct mcp_stream **list, const struct mcp_stream *s)
{
    while (*list && *list != s)
        list = &(*list)->next;
    if (*list)
        *list = s->next;
}

static void free_stream(struct mcp_stream *s)
{
    if (s->session) {
        unlink_from(&s->session->streams, s);
        if (s->session->standing == s)
            s->session->standing = NULL;
    }
    unlink_from(&s->http->strays, s);
    unwatch(s);
    loop_timer_free(s->timer);
    while (s->first)
        drop_first(s);
    if (s->peer)
        mcp_peer_close(s->peer);
    free(s);
}

static void on_nobody_came(void *ctx)
{
    struct mcp_stream *s = ctx;
    loop_timer_free(take_ptr(&s->timer));
    if (s->call)
        mcp_call_cancel(s->call); /* its end frees the stream */
    else
        free_stream(s);
}

/* Nobody reads it any more. */
static void leave(struct mcp_stream *s)
{
    s->request = NULL;
    s->sse = NULL;
    unwatch(s);
    loop_timer_free(take_ptr(&s->timer));
    if (s->is_standing)
        free_stream(s);
    else if (s->session && s->event_count > 0)
        s->timer = loop_timer_new(s->http->order.loop, s->http->order.resume_ms, on_nobody_came, s);
    else if (s->call)
        mcp_call_cancel(s->call);
}

static void on_gone(void *ctx)
{
    leave(ctx);
}

static bool accepts(const struct http_request *r, const char *type)
{
    const char *accept = http_header(r, "accept");
    return accept && strcasestr(accept, type);
}

/* Proxies and clients give up on a server that says nothing at all: some after a minute. */
static void on_silence(void *ctx)
{
    mcp_stream_begin(ctx);
}

struct mcp_stream *mcp_stream_open(struct mcp_http *http, struct mcp_session *session,
                                   struct http_request *r)
{
    struct mcp_stream *s = xcalloc(1, sizeof(*s));
    s->http = http;
    s->session = session;
    s->request = r;
    s->last = &s->first;
    s->takes_events = accepts(r, EVENTS_TYPE);
    s->takes_json = !s->takes_events || accepts(r, JSON_TYPE);
    if (session) {
        const struct mcp_version *version = mcp_peer_version(session->peer);
        s->number = ++session->stream_count;
        s->is_primed = version && mcp_version_has(version, MCP_HAS_PRIMING);
        s->next = session->streams;
        session->streams = s;
    }
    if (s->takes_events)
        s->timer = loop_timer_new(http->order.loop, SILENCE_MS, on_silence, s);
    http_on_gone(r, on_gone, s);
    return s;
}

const char *mcp_stream_header(void *ctx, const char *name)
{
    const struct mcp_stream *s = ctx;
    return http_header(s->request, name);
}

/* --- events ----------------------------------------------------------------------------------- */

static void write_event(struct mcp_stream *s, uint64_t number, const char *text, size_t len)
{
    char id[ID_MAX_BYTES];
    snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu64, s->number, number);
    if (s->sse)
        sse_send(s->sse, &(struct sse_event){.id = s->session ? id : NULL,
                                             .name = len ? "message" : NULL,
                                             .data = text,
                                             .len = len});
}

static void add_event(struct mcp_stream *s, const char *text, size_t len)
{
    uint64_t number = ++s->event_count;
    write_event(s, number, text, len);
    if (!s->session)
        return;
    struct mcp_event *e = xcalloc(1, sizeof(*e));
    *e = (struct mcp_event){.number = number, .text = xstrndup(text, len), .len = len};
    *s->last = e;
    s->last = &e->next;
    s->kept++;
    s->kept_bytes += len;
    while (s->kept > MCP_EVENTS_KEPT || (s->kept > 1 && s->kept_bytes > MCP_EVENTS_KEPT_BYTES))
        drop_first(s);
}

static void on_revoked(void *ctx)
{
    struct mcp_stream *s = ctx;
    unwatch(s);
    if (s->sse)
        sse_close(s->sse);
    leave(s);
}

static void open_events(struct mcp_stream *s)
{
    const struct mcp_http_order *order = &s->http->order;
    const struct mcp_peer *peer = s->peer ? s->peer : s->session ? s->session->peer : NULL;
    s->sse = sse_open(s->request, order->loop, HEARTBEAT_MS, on_gone, s);
    if (order->watch && peer)
        s->watch = order->watch(order->ctx, mcp_peer_user(peer), on_revoked, s);
}

void mcp_stream_begin(struct mcp_stream *s)
{
    if (s->sse || !s->request)
        return;
    loop_timer_free(take_ptr(&s->timer));
    open_events(s);
    if (s->is_primed && s->event_count == 0)
        add_event(s, "", 0);
}

void mcp_stream_send(struct mcp_stream *s, const json_t *message)
{
    size_t len;
    if (!s->takes_events)
        return;
    scoped_free char *text = rpc_text(message, MCP_MESSAGE_MAX_BYTES, &len);
    mcp_stream_begin(s);
    add_event(s, text, len);
}

static void on_send(void *ctx, const json_t *message)
{
    mcp_stream_send(ctx, message);
}

static void on_begin_stream(void *ctx)
{
    struct mcp_stream *s = ctx;
    s->takes_events = true; /* it was asked for nothing else */
    mcp_stream_begin(s);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* It was cancelled, and nothing is said about it. To clients that take events that is a stream
 * without any: everything else they take for a fault of ours. */
static void respond_nothing(struct http_request *r, const struct mcp_stream *s)
{
    if (s->takes_events)
        sse_close(sse_open(r, s->http->order.loop, 0, NULL, NULL));
    else
        http_respond(r, STATUS_NOTHING, NULL, NULL, 0);
}

static void respond(struct mcp_stream *s, const json_t *message, int status)
{
    size_t len;
    struct http_request *r = take_ptr(&s->request);
    http_on_gone(r, NULL, NULL);
    if (!message) {
        respond_nothing(r, s);
        return;
    }
    char *text = rpc_text(message, MCP_MESSAGE_MAX_BYTES, &len);
    http_respond_give(r, status, JSON_TYPE, text, len);
}

static void on_end(void *ctx, const json_t *message, int status)
{
    struct mcp_stream *s = ctx;
    struct mcp_session *session = s->session;
    bool is_stream = s->event_count > 0 || s->sse || (!s->takes_json && status == STATUS_OK);
    s->has_ended = true;
    loop_timer_free(take_ptr(&s->timer));
    if (message && is_stream)
        mcp_stream_send(s, message);
    if (s->sse)
        sse_close(take_ptr(&s->sse));
    else if (s->request)
        respond(s, message, status);
    s->request = NULL;
    unwatch(s);
    if (session && s->event_count > 0 && message)
        mcp_session_trim(session);
    else
        free_stream(s);
}

static void on_break_off(void *ctx)
{
    struct mcp_stream *s = ctx;
    if (!s->session || !s->request || !s->takes_events)
        return;
    mcp_stream_begin(s);
    if (s->event_count == 0)
        add_event(s, "", 0);
    http_stream_write(s->request, RETRY_LINE, strlen(RETRY_LINE));
    sse_close(take_ptr(&s->sse));
    leave(s);
}

const struct mcp_outlet mcp_stream_outlet = {
    .send = on_send, .end = on_end, .break_off = on_break_off, .begin_stream = on_begin_stream};

/* --- another request, or none ----------------------------------------------------------------- */

void mcp_stream_resume(struct mcp_stream *s, struct http_request *r, uint64_t after)
{
    loop_timer_free(take_ptr(&s->timer));
    unwatch(s);
    if (s->sse)
        sse_close(take_ptr(&s->sse)); /* the old connection may be dead without having said so */
    s->request = r;
    s->takes_events = true;
    open_events(s);
    for (const struct mcp_event *e = s->first; e; e = e->next) {
        if (e->number > after)
            write_event(s, e->number, e->text, e->len);
    }
    if (!s->has_ended)
        return;
    sse_close(take_ptr(&s->sse));
    s->request = NULL;
    unwatch(s);
}

void mcp_stream_close(struct mcp_stream *s)
{
    if (s->sse)
        sse_close(take_ptr(&s->sse));
    s->request = NULL;
    free_stream(s);
}

void mcp_stream_orphan(struct mcp_stream *s)
{
    if (s->is_standing || s->has_ended) {
        mcp_stream_close(s);
        return;
    }
    unlink_from(&s->session->streams, s);
    s->session = NULL;
}
