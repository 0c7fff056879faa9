/* dispatch.c - guard, route, authorization, limits: in this order, and only then the handler
 *
 * Everything that can be said without the body is said at the head. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/dispatch.h"

#include "base/clock.h"
#include "http/conn.h"

/* Answers a refusal; afterwards the connection ends. */
static void refuse(struct http_conn *c, enum refusal refusal)
{
    c->phase = CONN_LAST;
    http_send_refusal(&c->request, refusal, NULL);
}

static enum refusal check_guard(struct http_conn *c)
{
    static const enum refusal refusals[] = {
        [GUARD_PASS] = REFUSAL_NONE,
        [GUARD_PASS_FOREIGN] = REFUSAL_NONE,
        [GUARD_BAD_HOST] = REFUSAL_HOST,
        [GUARD_FOREIGN_HOST] = REFUSAL_FOREIGN_HOST,
        [GUARD_FOREIGN_ORIGIN] = REFUSAL_FOREIGN_ORIGIN,
    };
    const struct framing_head *head = &c->framing.head;
    const struct guard_question question = {
        .host = head->host,
        .origin = framing_find(head, "origin"),
        .fetch_site = framing_find(head, "sec-fetch-site"),
        .is_tls = c->is_tls,
        .is_safe = head->method == METHOD_GET || head->method == METHOD_HEAD,
    };
    return refusals[guard_check(&http_server_config(c->server)->guard, &question)];
}

static void keep_parameters(struct http_request *r)
{
    strbuf_clear(&r->text);
    for (size_t i = 0; i < r->match.parameter_count; i++) {
        r->parameters[i] = r->text.len;
        strbuf_add(&r->text, r->match.parameters[i].value, r->match.parameters[i].value_len);
        strbuf_add_char(&r->text, '\0');
    }
}

/* Finds the route; *hint says more about what is wrong. */
static enum refusal check_target(struct http_conn *c, const char **hint)
{
    struct http_request *r = &c->request;
    const struct framing_head *head = &c->framing.head;
    *hint = url_parse(&r->url, head->target, NULL);
    if (*hint)
        return REFUSAL_TARGET;
    r->has_path = true;
    switch (route_find(http_server_routes(c->server), head->method, r->url.path, &r->match)) {
    case ROUTE_FOUND:
        keep_parameters(r);
        return REFUSAL_NONE;
    case ROUTE_NO_METHOD:
        http_add_header(r, "Allow", r->match.allow);
        return REFUSAL_NO_METHOD;
    case ROUTE_NO_PATH:
        break;
    }
    return REFUSAL_NO_PATH;
}

static bool has_body(const struct framing_head *head)
{
    return head->is_chunked ||
           (head->content_length != FRAMING_NO_LENGTH && head->content_length > 0);
}

static void call_handler(struct http_conn *c)
{
    struct http_request *r = &c->request;
    r->is_open = true;
    r->match.route->handler(r, http_server_config(c->server)->ctx);
}

void dispatch_head(struct http_conn *c)
{
    struct http_request *r = &c->request;
    const struct http_server_config *config = http_server_config(c->server);
    const struct framing_head *head = &c->framing.head;
    const char *hint = NULL;
    c->phase = CONN_BODY;
    c->request_count++;
    c->input_deadline_ns = 0;
    r->started_ns = r->body_from_ns = clock_now_ns();
    r->is_continued = !head->expects_continue || !has_body(head);
    enum refusal refusal = check_guard(c);
    if (refusal) {
        refuse(c, refusal);
        return;
    }
    r->is_open = true; /* somebody may answer from here on */
    refusal = check_target(c, &hint);
    if (refusal) {
        if (refusal == REFUSAL_TARGET)
            c->phase = CONN_LAST;
        http_send_refusal(r, refusal, hint);
        return;
    }
    if (config->authorize && !config->authorize(r, r->match.route, config->ctx))
        return;
    r->is_open = false;
    if (head->content_length != FRAMING_NO_LENGTH &&
        head->content_length > r->match.route->body_max) {
        refuse(c, REFUSAL_BODY_TOO_LARGE);
        return;
    }
    r->is_streamed_in = r->match.route->flags & ROUTE_BODY_STREAMED;
    r->body.max = MAX(r->match.route->body_max, 1);
    if (r->is_streamed_in)
        call_handler(c);
    else
        http_send_continue(r);
}

void dispatch_fault(struct http_conn *c, enum refusal refusal)
{
    struct http_request *r = &c->request;
    http_gone_fn on_gone = r->is_open ? r->on_gone : NULL;
    void *ctx = r->gone_ctx;
    if (r->status && !r->is_open) { /* answered: what is wrong is only on its way */
        c->phase = CONN_LAST;
        return;
    }
    if (r->status || (r->is_open && !on_gone)) {
        conn_end(c);
        return;
    }
    refuse(c, refusal);
    if (on_gone)
        on_gone(ctx);
}

void dispatch_body(struct http_conn *c, const char *data, size_t len)
{
    struct http_request *r = &c->request;
    r->body_seen += len;
    if (r->status && !r->is_stream) /* answered: this is only on its way */
        return;
    if (r->body_seen > r->match.route->body_max) {
        dispatch_fault(c, REFUSAL_BODY_TOO_LARGE);
        return;
    }
    if (r->is_streamed_in)
        r->on_body(r->body_ctx, data, len);
    else
        strbuf_add(&r->body, data, len);
}

void dispatch_end(struct http_conn *c)
{
    struct http_request *r = &c->request;
    c->phase = CONN_BUSY;
    if (r->status && !r->is_stream) {
        conn_next_request(c);
        return;
    }
    if (!r->is_streamed_in) {
        call_handler(c);
    } else if (r->on_body) {
        r->on_body(r->body_ctx, NULL, 0);
    }
}
