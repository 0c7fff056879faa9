/* mcp_http.c - what POST, GET and DELETE do */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_http.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "http/tunnel.h"
#include "mcp/mcp_http_inside.h"

#define SESSION_MS     (30 * 60 * 1000)
#define RESUME_MS      15000
#define HEADER_SESSION "mcp-session-id"
#define JSON_TYPE      "application/json"
#define EVENTS_TYPE    "text/event-stream"

/* --- its life --------------------------------------------------------------------------------- */

struct mcp_http *mcp_http_new(const struct mcp_http_order *order)
{
    struct mcp_http *http = xcalloc(1, sizeof(*http));
    http->order = *order;
    if (!http->order.session_ms)
        http->order.session_ms = SESSION_MS;
    if (!http->order.resume_ms)
        http->order.resume_ms = RESUME_MS;
    mcp_session_sweep(http);
    return http;
}

void mcp_http_stop(struct mcp_http *http)
{
    http->is_stopping = true;
    mcp_server_stop(http->order.server);
    MAP_EACH(&http->sessions, node)
    mcp_session_end(MAP_OF(node, struct mcp_session, by_id));
    while (http->strays)
        mcp_stream_close(http->strays);
}

void mcp_http_free(struct mcp_http *http)
{
    if (!http)
        return;
    mcp_http_stop(http);
    loop_timer_free(http->sweep);
    map_release(&http->sessions);
    free(http);
}

size_t mcp_http_sessions(const struct mcp_http *http)
{
    return http->sessions.count;
}

/* --- refusals: JSON-RPC, since that is what the client reads -----------------------------------
 */

static void refuse(struct http_request *r, int status, enum rpc_code code, json_t *id,
                   const char *text)
{
    scoped_strbuf struct strbuf out;
    scoped_json json_t *message = rpc_error(id, code, text, NULL);
    strbuf_init(&out, MCP_MESSAGE_MAX_BYTES);
    json_add(&out, message, JSON_STYLE_COMPACT);
    http_respond(r, status, JSON_TYPE, strbuf_str(&out), out.len);
}

static void refuse_session(struct http_request *r, json_t *id)
{
    refuse(r, 404, RPC_INVALID_REQUEST, id,
           "Mcp-Session-Id: there is no such session (any more); initialize a new one");
}

/* --- POST ------------------------------------------------------------------------------------- */

static bool is_json(const struct http_request *r)
{
    const char *type = http_header(r, "content-type");
    size_t len = type ? strcspn(type, "; \t") : 0;
    return len == strlen(JSON_TYPE) && strncasecmp(type, JSON_TYPE, len) == 0;
}

/* Only text/event-stream in Accept, or both, or nothing in particular: all of that is fine. */
static bool read_message(struct http_request *r, struct rpc_message *out)
{
    size_t len;
    struct rpc_fault fault;
    const char *text = http_body(r, &len);
    if (!is_json(r)) {
        refuse(r, 415, RPC_INVALID_REQUEST, NULL, "Content-Type: must be " JSON_TYPE);
        return false;
    }
    if (rpc_parse(out, text, len, MCP_MESSAGE_MAX_BYTES, &fault) == 0)
        return true;
    refuse(r, 400, fault.code, fault.id, fault.text);
    rpc_fault_release(&fault);
    return false;
}

static bool has_mark(const struct rpc_message *m)
{
    return json_object_get(json_object_get(m->params, "_meta"),
                           "io.modelcontextprotocol/protocolVersion");
}

static void give(struct mcp_stream *stream, struct mcp_peer *peer, struct rpc_message *m)
{
    const struct mcp_delivery delivery = {.outlet = &mcp_stream_outlet,
                                          .ctx = stream,
                                          .slot = &stream->call,
                                          .header = mcp_stream_header};
    mcp_receive(peer, m, &delivery);
}

/* Words beside requests, and answers to ours: for a session, or for nobody. */
static void take_word(struct http_request *r, struct mcp_session *session, struct rpc_message *m)
{
    const struct mcp_delivery none = {0};
    if (session)
        mcp_receive(session->peer, m, &none);
    else
        rpc_release(m);
    http_respond(r, 202, NULL, NULL, 0);
}

static struct mcp_peer *lone_peer(struct mcp_http *http, const struct mcp_user *user)
{
    return mcp_peer_new(&(struct mcp_peer_order){.server = http->order.server, .user = *user});
}

static void begin_session(struct mcp_http *http, struct http_request *r,
                          const struct mcp_user *user, struct rpc_message *m)
{
    struct mcp_session *session = mcp_session_new(http, user);
    if (!session) {
        refuse(r, 503, RPC_INTERNAL, m->id, "there are too many sessions: end some, or wait");
        rpc_release(m);
        return;
    }
    http_add_header(r, "Mcp-Session-Id", session->id);
    give(mcp_stream_open(http, session, r), session->peer, m);
    if (!mcp_peer_version(session->peer)) /* it was refused */
        mcp_session_end(session);
}

void mcp_http_post(struct mcp_http *http, struct http_request *r, const struct mcp_user *user)
{
    struct rpc_message m;
    const char *id = http_header(r, HEADER_SESSION);
    if (!read_message(r, &m))
        return;
    /* The modern era knows no sessions: what it says of one is passed over. */
    bool is_modern = has_mark(&m);
    struct mcp_session *session = id && !is_modern ? mcp_session_find(http, id, user->owner) : NULL;
    if (id && !is_modern && !session) {
        refuse_session(r, m.id);
        rpc_release(&m);
    } else if (m.kind != RPC_REQUEST) {
        take_word(r, session, &m);
    } else if (session) {
        give(mcp_stream_open(http, session, r), session->peer, &m);
    } else if (!is_modern && strcmp(m.method, "initialize") == 0) {
        begin_session(http, r, user, &m);
    } else {
        struct mcp_stream *stream = mcp_stream_open(http, NULL, r);
        stream->peer = lone_peer(http, user);
        give(stream, stream->peer, &m);
    }
}

/* --- GET -------------------------------------------------------------------------------------- */

static void on_stray(void *ctx, const json_t *message)
{
    mcp_stream_send(ctx, message);
}

/* What changes here, for somebody without a session. */
static void open_stray(struct mcp_http *http, struct http_request *r, const struct mcp_user *user)
{
    struct mcp_stream *s = mcp_stream_open(http, NULL, r);
    s->is_standing = true;
    s->peer = mcp_peer_new(&(struct mcp_peer_order){
        .server = http->order.server, .user = *user, .send = on_stray, .ctx = s});
    s->next = http->strays;
    http->strays = s;
    mcp_stream_begin(s);
    mcp_peer_listen(s->peer);
}

static void open_standing(struct mcp_http *http, struct mcp_session *session,
                          struct http_request *r)
{
    if (session->standing)
        mcp_stream_close(
            session->standing); /* the newer one is the client's, the older may be dead */
    session->standing = mcp_stream_open(http, session, r);
    session->standing->is_standing = true;
    session->standing->number = MCP_STREAM_STANDING;
    mcp_stream_begin(session->standing);
}

/* Where a client wants to go on. */
struct last_event {
    uint64_t stream, event;
};

/* Event ids are STREAM-EVENT. What is no such id, or of a standing stream, names no answer. */
static bool names_answer(const char *text, struct last_event *out)
{
    const char *dash = text ? strchr(text, '-') : NULL;
    scoped_free char *first = dash ? xstrndup(text, (size_t)(dash - text)) : NULL;
    return dash && parse_u64(first, &out->stream) && parse_u64(dash + 1, &out->event) &&
           out->stream != MCP_STREAM_STANDING;
}

static struct mcp_stream *find_stream(const struct mcp_session *session, uint64_t number)
{
    for (struct mcp_stream *s = session->streams; s; s = s->next) {
        /* One that has sent no event has no id that anybody could know. */
        if (s->number == number && s->event_count > 0)
            return s;
    }
    return NULL;
}

/* The only refusal that clients take for an answer: they ask again after any other, and a standing
 * stream in its place would have them come back for the answer whenever it is closed. */
static void refuse_resuming(struct http_request *r)
{
    http_add_header(r, "Allow", "POST");
    refuse(r, 405, RPC_INVALID_REQUEST, NULL,
           "Last-Event-ID: the answer of which this is a part has ended, or was cancelled");
}

void mcp_http_get(struct mcp_http *http, struct http_request *r, const struct mcp_user *user)
{
    struct last_event last;
    const char *id = http_header(r, HEADER_SESSION);
    const char *accept = http_header(r, "accept");
    struct mcp_session *session = id ? mcp_session_find(http, id, user->owner) : NULL;
    bool is_resuming = session && names_answer(http_header(r, "last-event-id"), &last);
    struct mcp_stream *stream = is_resuming ? find_stream(session, last.stream) : NULL;
    bool is_tunnel = tunnel_is_wanted(r, MCP_HTTP_LINES);
    if (is_tunnel && !http->is_stopping)
        mcp_tunnel_open(http, r, user);
    else if (!is_tunnel && (!accept || !strcasestr(accept, EVENTS_TYPE)))
        refuse(r, 406, RPC_INVALID_REQUEST, NULL,
               "Accept: a stream is " EVENTS_TYPE "; messages are sent by POST");
    else if (http_method(r) == METHOD_HEAD)
        http_respond(r, 200, EVENTS_TYPE, NULL, 0);
    else if (http->is_stopping)
        refuse(r, 503, RPC_INTERNAL, NULL, "the server is shutting down");
    else if (id && !session)
        refuse_session(r, NULL);
    else if (stream)
        mcp_stream_resume(stream, r, last.event);
    else if (is_resuming)
        refuse_resuming(r);
    else if (session)
        open_standing(http, session, r);
    else
        open_stray(http, r, user);
}

/* --- DELETE ----------------------------------------------------------------------------------- */

void mcp_http_delete(struct mcp_http *http, struct http_request *r, const struct mcp_user *user)
{
    const char *id = http_header(r, HEADER_SESSION);
    struct mcp_session *session = id ? mcp_session_find(http, id, user->owner) : NULL;
    if (!id) {
        refuse(r, 400, RPC_INVALID_REQUEST, NULL, "Mcp-Session-Id: says which session is to end");
    } else if (!session) {
        refuse_session(r, NULL);
    } else {
        mcp_session_end(session);
        http_respond(r, 204, NULL, NULL, 0);
    }
}
