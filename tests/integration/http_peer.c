/* http_peer.c - a server with a handler for each thing that server/http_*_test.py look at
 *
 *   http_peer NAME=VALUE...     see options[]; prints its port and serves until SIGTERM */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/parse.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/json.h"
#include "codec/url.h"
#include "event/loop.h"
#include "http/http.h"
#include "http/http_server.h"
#include "http/sse.h"
#include "http/tls.h"
#include "http/websocket.h"

#define PIECE_BYTES 65536
#define JSON        "application/json"

static struct {
    struct loop *loop;
    struct http_server *server;
    struct tls *tls;
    struct loop_signal *on_term;
    uint64_t gone, ended, open; /* open: handlers that have not answered */
    uint64_t ws_open, ws_code;
    int last_status;
    char last_path[128];
    uint64_t drain_ms, heartbeat_ms, ping_ms;
    char piece[PIECE_BYTES];
} me;

static uint64_t number(struct http_request *r, const char *name, uint64_t preset)
{
    uint64_t value = preset;
    const char *text = http_query(r, name);
    if (text)
        BUG_ON(!parse_u64(text, &value));
    return value;
}

static void answer_json(struct http_request *r, json_t *value)
{
    scoped_json json_t *owned = value;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 1 * MIB);
    json_add(&text, owned, JSON_STYLE_COMPACT);
    http_respond(r, 200, JSON, text.data, text.len);
}

/* --- plain answers -------------------------------------------------------------------------- */

static void get_hello(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_respond(r, 200, "text/plain", "hello\n", 6);
}

static void post_echo(struct http_request *r, void *ctx)
{
    (void)ctx;
    size_t len;
    const char *body = http_body(r, &len);
    http_respond(r, 200, "application/octet-stream", body, len);
}

static void get_status(struct http_request *r, void *ctx)
{
    (void)ctx;
    uint64_t status = 0;
    BUG_ON(!parse_u64(http_parameter(r, "status"), &status));
    http_respond(r, (int)status, "text/plain", "text", 4);
}

static void get_given(struct http_request *r, void *ctx)
{
    (void)ctx;
    size_t len = number(r, "bytes", 0);
    char *body = xmalloc(len + 1);
    memset(body, 'g', len);
    http_respond_give(r, 200, "text/plain", body, len);
}

static void get_show(struct http_request *r, void *ctx)
{
    (void)ctx;
    json_t *query = json_array();
    const struct url *url = http_url(r);
    for (size_t i = 0; i < url->pair_count; i++)
        json_array_append_new(query, json_pack("[ss]", url->pairs[i].key, url->pairs[i].value));
    const char *agent = http_header(r, "user-agent");
    answer_json(r, json_pack("{ss ss ss ss so ss sb ss*}", "method", method_name(http_method(r)),
                             "path", http_path(r), "id", http_parameter(r, "id"), "rest",
                             http_parameter(r, "rest"), "query", query, "peer", http_peer(r), "tls",
                             http_is_tls(r), "agent", agent));
}

static void get_fail(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct error err;
    if (http_query(r, "internal")) {
        error_set(&err, ERROR_INTERNAL, "open '/var/lib/secret': no");
    } else {
        error_set(&err, ERROR_LIMIT, "no more '\"%s\"'", "\x01\xff");
        error_hint(&err, "wait");
        err.retry_ms = 1500;
    }
    http_fail(r, &err);
}

static void get_stats(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct http_server_counts counts = http_server_counts(me.server);
    answer_json(r,
                json_pack("{sI sI sI sI sI sI sI sI ss sI sI}", "gone", me.gone, "ended", me.ended,
                          "open", me.open, "connections", (json_int_t)counts.connections,
                          "accepted", counts.accepted, "refused", counts.refused, "requests",
                          counts.requests, "last_status", (json_int_t)me.last_status, "last_path",
                          me.last_path, "ws_open", me.ws_open, "ws_code", me.ws_code));
}

/* --- answers that come later ---------------------------------------------------------------- */

struct later {
    struct http_request *request;
    struct loop_timer *timer;
};

static void later_free(struct later *later)
{
    loop_timer_free(later->timer);
    free(later);
    me.open--;
}

static void later_answer(void *ctx)
{
    struct later *later = ctx;
    http_respond(later->request, 200, "text/plain", "later\n", 6);
    later_free(later);
}

static void later_gone(void *ctx)
{
    me.gone++;
    later_free(ctx);
}

static void begin_later(struct http_request *r, bool wants_gone)
{
    struct later *later = xcalloc(1, sizeof(*later));
    uint64_t ms = 0;
    BUG_ON(!parse_u64(http_parameter(r, "ms"), &ms));
    later->request = r;
    me.open++;
    if (ms > 0)
        later->timer = loop_timer_new(me.loop, ms, later_answer, later);
    if (wants_gone)
        http_on_gone(r, later_gone, later);
}

static void get_later(struct http_request *r, void *ctx)
{
    (void)ctx;
    begin_later(r, true); /* 0 ms: never */
}

static void get_deaf(struct http_request *r, void *ctx)
{
    (void)ctx;
    begin_later(r, false);
}

/* --- streams -------------------------------------------------------------------------------- */

struct stream {
    struct http_request *request;
    uint64_t left, seen;
    uint32_t sum;
    bool is_reading;
};

static void stream_gone(void *ctx)
{
    me.gone++;
    me.open--;
    free(ctx);
}

static struct stream *stream_new(struct http_request *r)
{
    struct stream *stream = xcalloc(1, sizeof(*stream));
    stream->request = r;
    me.open++;
    http_on_gone(r, stream_gone, stream);
    return stream;
}

static void stream_free(struct stream *stream)
{
    me.open--;
    free(stream);
}

static void push_big(void *ctx)
{
    struct stream *stream = ctx;
    bool is_welcome = true;
    while (stream->left > 0 && is_welcome) {
        size_t len = MIN(stream->left, PIECE_BYTES);
        is_welcome = http_stream_write(stream->request, me.piece, len);
        stream->left -= len;
    }
    if (stream->left == 0) {
        http_stream_end(stream->request);
        stream_free(stream);
    }
}

static void get_big(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct stream *stream = stream_new(r);
    stream->left = number(r, "bytes", 0);
    http_on_drain(r, push_big, stream);
    http_stream_begin(r, 200, "application/octet-stream",
                      http_query(r, "sized") ? stream->left : HTTP_LENGTH_UNKNOWN);
    push_big(stream);
}

static void get_abort(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_stream_begin(r, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
    http_stream_write(r, "half", 4);
    http_stream_abort(r);
}

static void sink_data(void *ctx, const void *data, size_t len)
{
    struct stream *stream = ctx;
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i += 997)
        stream->sum += bytes[i];
    stream->seen += len;
    if (len > 0)
        return;
    answer_json(stream->request, json_pack("{sI}", "bytes", (json_int_t)stream->seen));
    stream_free(stream);
}

static void put_sink(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_body_start(r, sink_data, stream_new(r));
}

static void start_sink(void *ctx)
{
    struct later *later = ctx;
    http_body_start(later->request, sink_data, stream_new(later->request));
    later_free(later);
}

/* Begins to read only after a while. */
static void put_slow_sink(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct later *later = xcalloc(1, sizeof(*later));
    later->request = r;
    me.open++;
    http_on_gone(r, later_gone, later);
    later->timer = loop_timer_new(me.loop, number(r, "ms", 100), start_sink, later);
}

/* Answers without reading the body. */
static void put_deny(struct http_request *r, void *ctx)
{
    (void)ctx;
    http_fail_as(r, &(struct http_error){403, "denied", "no", NULL, 0});
}

static void mirror_data(void *ctx, const void *data, size_t len)
{
    struct stream *stream = ctx;
    if (len == 0) {
        http_stream_end(stream->request);
        stream_free(stream);
    } else if (!http_stream_write(stream->request, data, len)) {
        http_body_pause(stream->request);
    }
}

static void mirror_drained(void *ctx)
{
    http_body_resume(((struct stream *)ctx)->request);
}

static void post_mirror(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct stream *stream = stream_new(r);
    http_on_drain(r, mirror_drained, stream);
    http_body_start(r, mirror_data, stream);
    http_stream_begin(r, 200, "application/octet-stream", HTTP_LENGTH_UNKNOWN);
}

/* --- events --------------------------------------------------------------------------------- */

static void events_gone(void *ctx)
{
    (void)ctx;
    me.gone++;
    me.open--;
}

static void get_events(struct http_request *r, void *ctx)
{
    (void)ctx;
    uint64_t at = 0, count = number(r, "count", 3);
    bool is_endless = http_query(r, "endless");
    if (sse_parse_id(http_header(r, "last-event-id"), &at))
        at++;
    me.open++;
    struct sse *sse = sse_open(r, me.loop, (uint32_t)me.heartbeat_ms, events_gone, NULL);
    for (; at < count; at++) {
        char id[FORMAT_BYTES], data[64];
        format_u64(at, id);
        int len = snprintf(data, sizeof(data), "line %s\nsecond", id);
        sse_send(sse, &(struct sse_event){id, "tick", data, (size_t)len});
    }
    if (!is_endless) {
        sse_close(sse);
        me.open--;
    }
}

/* --- websockets ----------------------------------------------------------------------------- */

struct echo {
    struct websocket *ws;
    uint64_t left; /* messages of a flood */
};

static void flood(void *ctx)
{
    struct echo *echo = ctx;
    bool is_welcome = true;
    while (echo->left > 0 && is_welcome) {
        is_welcome = websocket_send(echo->ws, false, me.piece, PIECE_BYTES);
        echo->left--;
    }
}

static void echo_message(void *ctx, bool is_text, const void *data, size_t len)
{
    struct echo *echo = ctx;
    if (is_text && len == 5 && memcmp(data, "close", 5) == 0)
        websocket_close(echo->ws, WEBSOCKET_NORMAL, "bye");
    else if (!websocket_send(echo->ws, is_text, data, len))
        websocket_pause(echo->ws);
}

static void echo_drain(void *ctx)
{
    struct echo *echo = ctx;
    websocket_resume(echo->ws);
    flood(echo);
}

static void echo_close(void *ctx, unsigned code)
{
    me.ws_code = code;
    me.ws_open--;
    free(ctx);
}

static void get_socket(struct http_request *r, void *ctx)
{
    (void)ctx;
    struct echo *echo = xcalloc(1, sizeof(*echo));
    echo->left = number(r, "flood", 0);
    const struct websocket_config config = {.message_max = 1 * MIB,
                                            .ping_ms = (uint32_t)me.ping_ms,
                                            .protocol = "cove",
                                            .on_message = echo_message,
                                            .on_drain = echo_drain,
                                            .on_close = echo_close,
                                            .ctx = echo};
    echo->ws = websocket_accept(r, me.loop, &config);
    if (!echo->ws) {
        free(echo);
        return;
    }
    me.ws_open++;
    flood(echo);
}

/* --- the server ----------------------------------------------------------------------------- */

enum { SCOPE_ALL, SCOPE_SECRET };

static const struct route routes[] = {
    {METHOD_GET, "/hello", .handler = get_hello},
    {METHOD_GET, "/secret", SCOPE_SECRET, .handler = get_hello},
    {METHOD_POST, "/secret", SCOPE_SECRET, 1 * MIB, .handler = post_echo},
    {METHOD_POST, "/echo", SCOPE_ALL, 1 * MIB, .handler = post_echo},
    {METHOD_POST, "/none", SCOPE_ALL, 0, .handler = post_echo},
    {METHOD_POST, "/ten", SCOPE_ALL, 10, .handler = post_echo},
    {METHOD_GET, "/status/{status}", .handler = get_status},
    {METHOD_GET, "/given", .handler = get_given},
    {METHOD_GET, "/show/{id}/{rest*}", .handler = get_show},
    {METHOD_GET, "/fail", .handler = get_fail},
    {METHOD_GET, "/stats", .handler = get_stats},
    {METHOD_GET, "/later/{ms}", .handler = get_later},
    {METHOD_GET, "/deaf/{ms}", .handler = get_deaf},
    {METHOD_GET, "/big", .handler = get_big},
    {METHOD_GET, "/abort", .handler = get_abort},
    {METHOD_PUT, "/sink", SCOPE_ALL, 8 * GIB, ROUTE_BODY_STREAMED, put_sink},
    {METHOD_PUT, "/slow-sink", SCOPE_ALL, 8 * GIB, ROUTE_BODY_STREAMED, put_slow_sink},
    {METHOD_PUT, "/ten-sink", SCOPE_ALL, 10, ROUTE_BODY_STREAMED, put_sink},
    {METHOD_PUT, "/deny", SCOPE_ALL, 8 * GIB, ROUTE_BODY_STREAMED, put_deny},
    {METHOD_POST, "/mirror", SCOPE_ALL, 8 * GIB, ROUTE_BODY_STREAMED, post_mirror},
    {METHOD_GET, "/events", .handler = get_events},
    {METHOD_GET, "/socket", .handler = get_socket},
};

static bool authorize(struct http_request *r, const struct route *route, void *ctx)
{
    (void)ctx;
    const char *token = http_header(r, "authorization");
    if (route->scope != SCOPE_SECRET || (token && strcmp(token, "Bearer ok") == 0))
        return true;
    http_add_header(r, "WWW-Authenticate", "Bearer");
    http_fail_as(r, &(struct http_error){401, "unauthorized", "a token is needed", NULL, 0});
    return false;
}

static void on_end(const struct http_record *record, void *ctx)
{
    (void)ctx;
    me.ended++;
    if (record->path && strcmp(record->path, "/stats") == 0)
        return;
    me.last_status = record->status;
    snprintf(me.last_path, sizeof(me.last_path), "%s", record->path ? record->path : "");
}

static void drained(void *ctx)
{
    (void)ctx;
    loop_stop(me.loop);
}

static void on_term(void *ctx, int signal)
{
    (void)ctx;
    (void)signal;
    http_server_drain(me.server, (uint32_t)me.drain_ms, drained, NULL);
}

static struct http_server_config config = {
    .routes = routes, .route_count = ARRAY_LEN(routes), .authorize = authorize, .on_end = on_end};
static uint64_t port;
static const char *path, *cert, *key, *address = "127.0.0.1";
static const char *hosts[2], *origins[2];

struct option {
    const char *name;
    uint32_t *number;
    uint64_t *wide;
    const char **text;
};

static const struct option options[] = {
    {"connections", .number = &config.connection_max},
    {"peer", .number = &config.connection_peer_max},
    {"head_ms", .number = &config.head_ms},
    {"body_ms", .number = &config.body_ms},
    {"body_rate", .number = &config.body_rate},
    {"idle_ms", .number = &config.idle_ms},
    {"stall_ms", .number = &config.stall_ms},
    {"linger_ms", .number = &config.linger_ms},
    {"port", .wide = &port},
    {"drain_ms", .wide = &me.drain_ms},
    {"heartbeat_ms", .wide = &me.heartbeat_ms},
    {"ping_ms", .wide = &me.ping_ms},
    {"path", .text = &path},
    {"address", .text = &address},
    {"cert", .text = &cert},
    {"key", .text = &key},
    {"host", .text = &hosts[0]},
    {"origin", .text = &origins[0]},
};

static void read_option(char *argument)
{
    char *value = strchr(argument, '=');
    BUG_ON(!value);
    *value++ = '\0';
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const struct option *option = &options[i];
        if (strcmp(option->name, argument) != 0)
            continue;
        uint64_t n = 0;
        if (option->text)
            *option->text = value;
        else
            BUG_ON(!parse_u64(value, &n));
        if (option->number)
            *option->number = (uint32_t)n;
        if (option->wide)
            *option->wide = n;
        return;
    }
    BUG_ON("unknown option");
}

static int serve(struct error *err)
{
    if (loop_open(&me.loop, err) < 0 ||
        loop_signal_new(&me.on_term, me.loop, SIGTERM, on_term, NULL, err) < 0 ||
        http_server_open(&me.server, me.loop, &config, err) < 0 ||
        (cert && tls_open(&me.tls, cert, key, err) < 0))
        return -1;
    const struct http_listen where = {
        .address = path ? NULL : address, .port = (uint16_t)port, .path = path, .tls = me.tls};
    if (http_server_listen(me.server, &where, err) < 0)
        return -1;
    printf("%u\n", http_server_port(me.server));
    fflush(stdout);
    loop_run(me.loop);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err;
    me.drain_ms = 5000;
    memset(me.piece, 'p', sizeof(me.piece));
    for (int i = 1; i < argc; i++)
        read_option(argv[i]);
    config.guard = (struct guard){hosts, origins};
    if (serve(&err) < 0) {
        fprintf(stderr, "http_peer: %s\n", err.msg);
        return 1;
    }
    http_server_free(me.server);
    tls_free(me.tls);
    loop_signal_free(me.on_term);
    loop_free(me.loop);
    return me.open == 0 ? 0 : 3;
}
