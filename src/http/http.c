/* http.c - reading a request and writing its answer; what happens to the connection is conn.c's */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "http/conn.h"

#define BODY_KEEP_BYTES (16 * KIB) /* a larger buffer is given back after its request */
#define ERROR_MAX_BYTES (16 * KIB)
#define HEX_BYTES       20
#define MS_PER_S        1000
#define JSON_TYPE       "application/json"

/* --- life ----------------------------------------------------------------------------------- */

static void empty(struct strbuf *b)
{
    if (b->cap > BODY_KEEP_BYTES)
        strbuf_release(b);
    else
        strbuf_clear(b);
}

void http_reset(struct http_request *r)
{
    empty(&r->text);
    empty(&r->body);
    empty(&r->headers);
    r->id[0] = '\0';
    r->url.pair_count = 0;
    r->match.route = NULL;
    r->match.parameter_count = 0;
    r->on_body = NULL;
    r->on_gone = NULL;
    r->on_drain = NULL;
    r->user = NULL;
    r->started_ns = 0;
    r->body_seen = r->bytes_out = 0;
    r->status = 0;
    r->has_path = r->is_open = r->is_streamed_in = r->is_body_paused = false;
    r->is_continued = r->is_stream = r->is_chunked_out = r->has_no_body = r->is_full = false;
    r->is_last = false;
}

void http_release(struct http_request *r)
{
    strbuf_release(&r->text);
    strbuf_release(&r->body);
    strbuf_release(&r->headers);
}

/* --- the request ---------------------------------------------------------------------------- */

const struct framing_head *http_head(const struct http_request *r)
{
    return &r->conn->framing.head;
}

enum method http_method(const struct http_request *r)
{
    return http_head(r)->method;
}

const char *http_path(const struct http_request *r)
{
    return r->url.path;
}

const struct url *http_url(const struct http_request *r)
{
    return &r->url;
}

const char *http_parameter(const struct http_request *r, const char *name)
{
    const struct route_parameter *found = route_parameter(&r->match, name);
    BUG_ON(!found); /* the handler's route has no such name */
    return r->text.data + r->parameters[found - r->match.parameters];
}

const char *http_query(const struct http_request *r, const char *name)
{
    return url_find(&r->url, name);
}

const char *http_header(const struct http_request *r, const char *name)
{
    return framing_find(http_head(r), name);
}

const struct route *http_route(const struct http_request *r)
{
    return r->match.route;
}

const char *http_id(const struct http_request *r)
{
    struct http_request *mutable = (struct http_request *)r; /* made when first asked for */
    struct error err;
    if (!r->id[0])
        BUG_ON(id_make(ID_REQUEST, mutable->id, &err) < 0);
    return r->id;
}

const char *http_peer(const struct http_request *r)
{
    return r->conn->peer_text;
}

bool http_is_tls(const struct http_request *r)
{
    return r->conn->is_tls;
}

const char *http_body(const struct http_request *r, size_t *len)
{
    *len = r->body.len;
    return strbuf_str(&r->body);
}

void http_set_user(struct http_request *r, void *user)
{
    r->user = user;
}

void *http_user(const struct http_request *r)
{
    return r->user;
}

void http_on_gone(struct http_request *r, http_gone_fn fn, void *ctx)
{
    r->on_gone = fn;
    r->gone_ctx = ctx;
}

/* --- a body that is streamed ---------------------------------------------------------------- */

void http_send_continue(struct http_request *r)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    /* Behind the head of an answer it would be taken for part of that. */
    if (!r->is_continued && r->body_seen == 0 && r->status == 0 && !r->conn->is_closed)
        outqueue_add(&r->conn->out, text, sizeof(text) - 1);
    r->is_continued = true;
}

void http_body_start(struct http_request *r, http_body_fn fn, void *ctx)
{
    BUG_ON(!r->is_streamed_in || r->on_body);
    conn_enter(r->conn);
    http_send_continue(r);
    r->on_body = fn;
    r->body_ctx = ctx;
    r->body_from_ns = clock_now_ns();
    conn_leave(r->conn);
}

void http_body_pause(struct http_request *r)
{
    if (r->is_body_paused)
        return;
    r->is_body_paused = true;
    r->paused_ns = clock_now_ns();
}

void http_body_resume(struct http_request *r)
{
    if (!r->is_body_paused)
        return;
    conn_enter(r->conn);
    r->is_body_paused = false;
    r->body_from_ns += clock_now_ns() - r->paused_ns; /* the time that we took is not the peer's */
    conn_leave(r->conn);
}

/* --- the answer ----------------------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    }
    return true;
}

void http_add_header(struct http_request *r, const char *name, const char *value)
{
    BUG_ON(!is_plain(name) || !is_plain(value));
    strbuf_add_str(&r->headers, name);
    strbuf_add(&r->headers, ": ", 2);
    strbuf_add_str(&r->headers, value);
    strbuf_add(&r->headers, "\r\n", 2);
    BUG_ON(r->headers.overflow);
}

static void put(struct http_request *r, const char *text)
{
    outqueue_add(&r->conn->out, text, strlen(text));
}

static void put_header(struct http_request *r, const char *name, const char *value)
{
    put(r, name);
    put(r, value);
    put(r, "\r\n");
}

static void put_status(struct http_request *r, int status)
{
    if (status == 200) { /* nearly all of them */
        put(r, "HTTP/1.1 200 OK\r\n");
        return;
    }
    char line[64];
    snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\n", status, refusal_reason(status));
    put(r, line);
}

static void put_connection(struct http_request *r)
{
    if (r->is_last)
        put(r, "Connection: close\r\n");
    else if (http_head(r)->is_http_1_0)
        put(r, "Connection: keep-alive\r\n");
}

static bool may_have_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* The head of an answer. `length` HTTP_LENGTH_UNKNOWN: chunked, or up to the end in HTTP/1.0. */
static void put_head(struct http_request *r, int status, const char *type, uint64_t length)
{
    char number[FORMAT_BYTES];
    BUG_ON(r->status != 0); /* answered twice */
    r->status = status;
    if (r->started_ns == 0)
        r->started_ns = clock_now_ns();
    r->has_no_body = http_method(r) == METHOD_HEAD || !may_have_body(status);
    r->is_chunked_out = length == HTTP_LENGTH_UNKNOWN && !http_head(r)->is_http_1_0;
    bool is_open_end = length == HTTP_LENGTH_UNKNOWN && http_head(r)->is_http_1_0;
    r->is_last = !conn_keeps_alive(r->conn) || (is_open_end && !r->has_no_body);
    if (r->conn->is_closed)
        return;
    put_status(r, status);
    put_header(r, "Date: ", http_server_date(r->conn->server));
    put_header(r, "X-Request-Id: ", http_id(r));
    put(r, "X-Content-Type-Options: nosniff\r\n");
    if (type)
        put_header(r, "Content-Type: ", type);
    if (may_have_body(status) && length != HTTP_LENGTH_UNKNOWN) {
        format_u64(length, number);
        put_header(r, "Content-Length: ", number);
    } else if (may_have_body(status) && r->is_chunked_out) {
        put(r, "Transfer-Encoding: chunked\r\n");
    }
    put_connection(r);
    outqueue_add(&r->conn->out, strbuf_str(&r->headers), r->headers.len);
    put(r, "\r\n");
}

void http_respond(struct http_request *r, int status, const char *type, const void *body,
                  size_t len)
{
    conn_enter(r->conn);
    put_head(r, status, type, len);
    if (!r->has_no_body && !r->conn->is_closed) {
        outqueue_add(&r->conn->out, body, len);
        r->bytes_out = len;
    }
    conn_end_request(r->conn);
    conn_leave(r->conn);
}

void http_respond_give(struct http_request *r, int status, const char *type, char *body, size_t len)
{
    conn_enter(r->conn);
    put_head(r, status, type, len);
    if (!r->has_no_body && !r->conn->is_closed) {
        outqueue_give(&r->conn->out, body, len);
        r->bytes_out = len;
    } else {
        free(body);
    }
    conn_end_request(r->conn);
    conn_leave(r->conn);
}

void http_fail_as(struct http_request *r, const struct http_error *error)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, ERROR_MAX_BYTES);
    refusal_add_json(&text, &(struct refusal_text){.code = error->code,
                                                   .message = error->message,
                                                   .hint = error->hint,
                                                   .request_id = http_id(r)});
    /* who is told to come later is told when, be it by guess */
    unsigned retry_ms = error->retry_ms || error->status != 429 ? error->retry_ms : MS_PER_S;
    if (retry_ms > 0) {
        char seconds[FORMAT_BYTES];
        format_u64((retry_ms + MS_PER_S - 1) / MS_PER_S, seconds);
        http_add_header(r, "Retry-After", seconds);
    }
    http_respond(r, error->status, JSON_TYPE, text.data, text.len);
}

void http_fail(struct http_request *r, const struct error *err)
{
    http_fail_with(r, error_info(err->code)->http_status, err);
}

void http_fail_with(struct http_request *r, int status, const struct error *err)
{
    const struct error_info *info = error_info(err->code);
    http_fail_as(r, &(struct http_error){
                        .status = status,
                        .code = err->word ? err->word : info->name,
                        /* what broke inside is for the log, and may name paths */
                        .message = err->code == ERROR_INTERNAL ? "internal error" : err->msg,
                        .hint = err->hint[0] ? err->hint : NULL,
                        .retry_ms = err->retry_ms,
                    });
}

void http_send_refusal(struct http_request *r, enum refusal refusal, const char *hint)
{
    const struct refusal_info *info = refusal_info(refusal);
    http_fail_as(r, &(struct http_error){info->status, info->code, info->message, hint, 0});
}

void http_refuse(struct http_request *r, enum refusal refusal)
{
    http_send_refusal(r, refusal, NULL);
}

/* --- streams -------------------------------------------------------------------------------- */

void http_stream_begin(struct http_request *r, int status, const char *type, uint64_t length)
{
    conn_enter(r->conn);
    put_head(r, status, type, length);
    r->is_stream = true;
    r->stream_left = length;
    conn_leave(r->conn);
}

static void put_piece(struct http_request *r, const void *data, size_t len)
{
    char size[HEX_BYTES];
    if (r->is_chunked_out) {
        snprintf(size, sizeof(size), "%zx\r\n", len);
        put(r, size);
    }
    outqueue_add(&r->conn->out, data, len);
    if (r->is_chunked_out)
        put(r, "\r\n");
    r->bytes_out += len;
}

bool http_stream_write(struct http_request *r, const void *data, size_t len)
{
    BUG_ON(!r->is_stream);
    if (r->stream_left != HTTP_LENGTH_UNKNOWN) {
        BUG_ON(len > r->stream_left);
        r->stream_left -= len;
    }
    if (len == 0 || r->has_no_body || r->conn->is_closed)
        return true;
    conn_enter(r->conn);
    put_piece(r, data, len);
    conn_leave(r->conn);
    if (r->conn->out.len > HTTP_STREAM_HIGH)
        r->is_full = true;
    return !r->is_full;
}

size_t http_stream_waiting(const struct http_request *r)
{
    return r->conn->out.len;
}

void http_stream_end(struct http_request *r)
{
    BUG_ON(!r->is_stream);
    conn_enter(r->conn);
    if (r->stream_left != HTTP_LENGTH_UNKNOWN && r->stream_left > 0 && !r->has_no_body)
        r->is_last = true; /* less than was promised: only the end can tell */
    if (r->is_chunked_out && !r->has_no_body && !r->conn->is_closed)
        put(r, "0\r\n\r\n");
    conn_end_request(r->conn);
    conn_leave(r->conn);
}

void http_stream_abort(struct http_request *r)
{
    BUG_ON(!r->is_stream);
    conn_enter(r->conn);
    r->is_last = true;
    conn_end_request(r->conn);
    conn_leave(r->conn);
}

void http_on_drain(struct http_request *r, http_drain_fn fn, void *ctx)
{
    r->on_drain = fn;
    r->drain_ctx = ctx;
}
