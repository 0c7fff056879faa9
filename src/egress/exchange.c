/* exchange.c - whatever happens, one turn: what waits is written, what is there is read
 *
 * Nobody reads for an end that is full, so the slower of the two sets the pace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/exchange.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "egress/exchange_inside.h"
#include "http/tls.h"

#define IDLE_NS (300 * EXCHANGE_SECOND_NS)
#define LIFE_NS (3600 * EXCHANGE_SECOND_NS)
#define LINGER_NS                                                                                  \
    (2 * EXCHANGE_SECOND_NS) /* for an answer to arrive before the connection goes                 \
                              */
#define READ_BYTES   (32 * KIB)
#define HEAD_OUT_MAX (2 * FRAMING_HEAD_MAX_BYTES + 4 * EGRESS_SECRET_BYTES)

struct exchange *exchange_next(const struct exchange *e)
{
    return e->next;
}

struct exchange **exchange_link(struct exchange *e)
{
    return &e->next;
}

bool exchange_is_late(const struct exchange *e, int64_t now)
{
    return now >= e->deadline_ns || now - e->born_ns >= LIFE_NS;
}

void exchange_give_time(struct exchange *e, int64_t ns)
{
    e->deadline_ns = clock_now_ns() + ns;
}

void exchange_free(struct exchange *e)
{
    tenant_remove(e->tenant, e);
    names_leave(&e->waiter);
    channel_close(&e->client);
    channel_close(&e->host);
    framing_release(&e->framing);
    response_release(&e->response);
    tls_free(e->tls);
    strbuf_release(&e->rest);
    free(e);
}

/* --- the request ------------------------------------------------------------------------------ */

static void judge(struct exchange *e)
{
    char words[EXCHANGE_WORDS_BYTES];
    const struct authority *to = &e->request.to;
    const char *wrong = request_read(&e->request, &e->framing.head);
    if (wrong) {
        exchange_answer(e, 400, "bad_request", wrong);
        return;
    }
    secrets_choose(&e->view, &e->tenant->secrets, to, e->request.is_tunnel);
    e->is_ended_here = e->request.is_tunnel && e->view.count > 0;
    switch (policy_ask(&e->tenant->policy, to, &e->is_private)) {
    case POLICY_ALLOWED:
        if (!tenant_count(e->tenant, 0))
            exchange_deny(e, 403, "the sandbox has used up the bytes that it may send and receive");
        else
            exchange_find_host(e);
        break;
    case POLICY_NO_HOST:
        snprintf(words, sizeof(words), "%s is not among the hosts that this sandbox may reach",
                 to->name);
        exchange_deny(e, 403, words);
        break;
    case POLICY_NO_PORT:
        snprintf(words, sizeof(words), "this sandbox may reach %s, but not at port %u", to->name,
                 to->port);
        exchange_deny(e, 403, words);
        break;
    }
}

static bool begin_request(struct exchange *e);

/* The one to the proxy, or the one inside a tunnel that is ended here. False: cut. */
static bool take_head(struct exchange *e, const char *data, size_t len)
{
    size_t used, body_len;
    const char *body;
    switch (framing_next(&e->framing, data, len, &used, &body, &body_len)) {
    case FRAMING_HEAD:
        strbuf_add(&e->rest, data + used, len - used);
        if (e->stage == STAGE_INNER)
            return !exchange_judge_inner(e) || begin_request(e);
        judge(e);
        return true;
    case FRAMING_BAD: {
        const struct refusal_info *info = refusal_info(e->framing.refusal);
        exchange_answer(e, info->status, info->code, info->message);
        return true;
    }
    case FRAMING_MORE:
        return true;
    case FRAMING_BODY:
    case FRAMING_END:
        break;
    }
    return false;
}

static void pass_body(struct exchange *e, const char *body, size_t len)
{
    char size[24];
    if (e->framing.head.is_chunked)
        outqueue_add(&e->host.out, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", len));
    outqueue_add(&e->host.out, body, len);
    if (e->framing.head.is_chunked)
        outqueue_add(&e->host.out, "\r\n", 2);
}

/* What comes behind the request is dropped: there is one on each connection. False: cut. */
static bool take_body(struct exchange *e, const char *data, size_t len)
{
    size_t used, body_len;
    const char *body;
    while (!e->has_request) {
        switch (framing_next(&e->framing, data, len, &used, &body, &body_len)) {
        case FRAMING_BODY:
            pass_body(e, body, body_len);
            break;
        case FRAMING_END:
            if (e->framing.head.is_chunked)
                outqueue_add(&e->host.out, "0\r\n\r\n", 5);
            e->has_request = true;
            break;
        case FRAMING_MORE:
            return true;
        case FRAMING_HEAD:
        case FRAMING_BAD:
            return false;
        }
        data += used;
        len -= used;
    }
    return true;
}

static bool take_from_client(struct exchange *e, const char *data, size_t len)
{
    switch (e->stage) {
    case STAGE_HEAD:
    case STAGE_INNER:
        return take_head(e, data, len);
    case STAGE_OPEN:
        if (!e->request.is_tunnel)
            return take_body(e, data, len);
        outqueue_add(&e->host.out, data, len);
        return true;
    case STAGE_LAST: /* nobody is interested any more */
        return true;
    case STAGE_NAME:
    case STAGE_CONNECT:
    case STAGE_SHAKE:
    case STAGE_WELCOME:
        break;
    }
    return false;
}

/* --- the way is open -------------------------------------------------------------------------- */

static bool begin_request(struct exchange *e)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    scoped_strbuf struct strbuf head;
    strbuf_init(&head, HEAD_OUT_MAX);
    e->stage = STAGE_OPEN;
    exchange_give_time(e, IDLE_NS);
    request_add_head(&e->request, &e->framing.head, &e->view, &head);
    bool is_too_large = head.overflow;
    if (!is_too_large)
        outqueue_add(&e->host.out, head.data, head.len);
    OPENSSL_cleanse(head.data, head.len);
    if (is_too_large) {
        exchange_fail(e, 431, "the head is too large");
        return true;
    }
    if (e->framing.head.expects_continue)
        outqueue_add(&e->client.out, go_on, sizeof(go_on) - 1);
    return take_body(e, strbuf_str(&e->rest), e->rest.len);
}

static bool begin_relay(struct exchange *e)
{
    static const char opened[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (e->is_ended_here) {
        exchange_welcome(e);
        return true;
    }
    if (!e->request.is_tunnel)
        return begin_request(e);
    e->stage = STAGE_OPEN;
    exchange_give_time(e, IDLE_NS);
    outqueue_add(&e->client.out, opened, sizeof(opened) - 1);
    outqueue_add(&e->host.out, strbuf_str(&e->rest), e->rest.len);
    e->has_answered = true;
    return true;
}

static bool take_from_host(struct exchange *e, const char *data, size_t len)
{
    if (e->request.is_tunnel) {
        outqueue_add(&e->client.out, data, len);
        return true;
    }
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, RESPONSE_HEAD_MAX_BYTES + EGRESS_SECRET_BYTES + len + 64);
    if (!response_feed(&e->response, data, len, &out) || out.overflow)
        return false;
    outqueue_add(&e->client.out, strbuf_str(&out), out.len);
    e->has_answered |= out.len > 0;
    return true;
}

/* Who hears of a 503 asks again; of a 502 pip does not. */
static void fail_unanswered(struct exchange *e, bool is_broken, int error)
{
    char words[96];
    snprintf(words, sizeof(words), "the connection broke%s%.60s", error ? ": " : "",
             error ? strerror(error) : "");
    exchange_fail(e, 503, is_broken ? words : "it closed the connection without answer");
}

/* Nothing more comes from the host, for good or bad. Errno says why it broke, if it is not 0. */
static void end_of_host(struct exchange *e, bool is_broken)
{
    if (!e->has_answered) {
        fail_unanswered(e, is_broken, errno);
        return;
    }
    scoped_strbuf struct strbuf rest;
    strbuf_init(&rest, EGRESS_SECRET_BYTES);
    response_end(&e->response, &rest);
    outqueue_add(&e->client.out, strbuf_str(&rest), rest.len);
    e->client.is_finishing = true;
    e->client.is_cut = is_broken; /* what came may not be all */
    if (!e->request.is_tunnel || is_broken) {
        e->stage = STAGE_LAST;
        channel_close(&e->host);
        e->host.t.fd = -1;
        exchange_give_time(e, IDLE_NS);
    }
}

/* --- a turn ----------------------------------------------------------------------------------- */

static bool client_is_wanted(const struct exchange *e)
{
    switch (e->stage) {
    case STAGE_HEAD:
    case STAGE_INNER:
    case STAGE_LAST:
        return true;
    case STAGE_OPEN:
        return !e->has_request && !channel_is_full(&e->host);
    case STAGE_NAME:
    case STAGE_CONNECT:
    case STAGE_SHAKE:
    case STAGE_WELCOME:
        break;
    }
    return false;
}

static bool host_is_wanted(const struct exchange *e)
{
    return e->stage == STAGE_SHAKE || (e->stage == STAGE_OPEN && !channel_is_full(&e->client));
}

static void note_progress(struct exchange *e)
{
    if (e->stage == STAGE_OPEN)
        exchange_give_time(e, IDLE_NS);
}

static bool cut_at_limit(struct exchange *e, size_t bytes)
{
    if (tenant_count(e->tenant, bytes) || e->stage != STAGE_OPEN) /* else it is told so */
        return false;
    tenant_tell(e->tenant, EGRESS_DENIED, &e->request.to,
                "the sandbox has used up the bytes that it may send and receive");
    return true;
}

/* False: it is over. */
static bool pump_client(struct exchange *e)
{
    char data[READ_BYTES];
    if (!client_is_wanted(e) || e->client.has_ended)
        return true;
    ssize_t n = channel_read(&e->client, data, sizeof(data));
    if (n < 0)
        return false;
    if (n > 0) {
        note_progress(e);
        return !cut_at_limit(e, (size_t)n) && take_from_client(e, data, (size_t)n);
    }
    if (!e->client.has_ended)
        return true;
    if (e->stage == STAGE_OPEN && e->request.is_tunnel)
        e->host.is_finishing = true;
    return e->stage == STAGE_OPEN && (e->request.is_tunnel || e->has_request);
}

static bool pump_host(struct exchange *e)
{
    char data[READ_BYTES];
    if (e->stage == STAGE_CONNECT || e->stage == STAGE_SHAKE)
        return !exchange_is_reached(e) || begin_relay(e);
    if (!host_is_wanted(e) || e->host.has_ended)
        return true;
    errno = 0;
    ssize_t n = channel_read(&e->host, data, sizeof(data));
    if (n > 0) {
        note_progress(e);
        return !cut_at_limit(e, (size_t)n) && take_from_host(e, data, (size_t)n);
    }
    if (n < 0 || e->host.has_ended)
        end_of_host(e, n < 0);
    return true;
}

static bool flush(struct exchange *e)
{
    if (!channel_flush(&e->client))
        return false;
    errno = 0;
    if (e->stage == STAGE_OPEN && !channel_flush(&e->host))
        end_of_host(e, true);
    if (e->stage == STAGE_WELCOME && e->client.out.len == 0)
        exchange_begin_inner(e);
    return true;
}

static bool is_over(const struct exchange *e)
{
    bool is_told = e->client.is_shut && e->client.has_ended;
    if (e->stage == STAGE_LAST)
        return is_told;
    return e->stage == STAGE_OPEN && is_told && e->host.is_shut && e->host.has_ended;
}

void exchange_turn(struct exchange *e)
{
    if (!flush(e) || !pump_client(e) || !pump_host(e) || !flush(e) || is_over(e)) {
        exchange_free(e);
        return;
    }
    if (e->stage == STAGE_LAST && e->client.is_shut && !e->is_lingering) {
        e->is_lingering = true;
        exchange_give_time(e, LINGER_NS);
    }
    channel_watch(&e->client, client_is_wanted(e));
    if (e->stage >= STAGE_SHAKE && e->stage <= STAGE_OPEN)
        channel_watch(&e->host, host_is_wanted(e));
}

static void on_client(void *ctx, unsigned events)
{
    (void)events;
    exchange_turn(ctx);
}

void exchange_begin(struct tenant *tenant, int fd)
{
    struct error err;
    struct exchange *e = xcalloc(1, sizeof(*e));
    e->tenant = tenant;
    e->host.t.fd = -1;
    e->born_ns = clock_now_ns();
    framing_init_proxy(&e->framing);
    response_init(&e->response, &e->view);
    strbuf_init(&e->rest, READ_BYTES);
    tenant_add(tenant, e);
    exchange_give_time(e, EXCHANGE_HEAD_NS);
    if (channel_open(&e->client, tenant->world->loop, fd, on_client, e, &err) < 0) {
        e->client.t.fd = -1;
        exchange_free(e);
        return;
    }
    exchange_turn(e);
}
