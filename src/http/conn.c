/* conn.c - the life of one connection: what is read when, and when it ends
 *
 * One request at a time. While it is answered nothing more is read, so the kernel's buffers hold
 * back a peer that sends ahead; that the peer has left is told all the same, by the hang-up that
 * the loop watches for. A peer that only shuts down its sending side while it waits for an answer
 * counts as gone: nobody can tell the two apart, and what runs for nobody must stop. Only who has
 * sent ahead more than the kernel's buffers take has its end behind bytes that wait, and is found
 * out when they are wanted.
 *
 * Callbacks come from events and kicks only, never from inside a call of a handler's; so whatever a
 * handler does, no other function of it runs meanwhile, and nothing it holds is freed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "event/loop.h"
#include "http/dispatch.h"

#define NS_PER_MS         1000000LL
#define NS_PER_S          1000000000LL
#define WRITE_PIECES      16
#define STALL_BYTES       4096 /* this much progress makes an answer alive */
#define READS_IN_ONE_TURN 4

static const struct http_server_config *config_of(const struct http_conn *c)
{
    return http_server_config(c->server);
}

static int64_t deadline_in(uint32_t ms)
{
    return clock_now_ns() + ms * NS_PER_MS;
}

/* --- writing -------------------------------------------------------------------------------- */

static void note_progress(struct http_conn *c, size_t len)
{
    c->output_progress += len;
    if (c->out.len == 0)
        c->output_deadline_ns = 0;
    else if (c->output_deadline_ns == 0 || c->output_progress >= STALL_BYTES) {
        c->output_deadline_ns = deadline_in(config_of(c)->stall_ms);
        c->output_progress = 0;
    }
}

static void flush(struct http_conn *c)
{
    struct iovec pieces[WRITE_PIECES];
    size_t total = 0;
    while (c->out.len > 0 && !c->is_lost) {
        int count = outqueue_peek(&c->out, pieces, WRITE_PIECES);
        ssize_t n = transport_write(&c->transport, pieces, count);
        if (n == TRANSPORT_AGAIN)
            break;
        if (n < 0) {
            c->is_lost = true;
            break;
        }
        outqueue_drop(&c->out, (size_t)n);
        total += (size_t)n;
    }
    note_progress(c, total);
}

/* All is written, and nothing more will be: the peer is told, and has a moment to read it. To close
 * at once, with bytes unread, would throw away what the peer has not read yet (RFC 9112 9.6). */
static void begin_linger(struct http_conn *c)
{
    transport_end(&c->transport);
    c->phase = CONN_LINGER;
    c->input_deadline_ns = deadline_in(config_of(c)->linger_ms);
}

/* --- the end -------------------------------------------------------------------------------- */

static void tell_record(struct http_conn *c)
{
    const struct http_request *r = &c->request;
    const struct http_server_config *config = config_of(c);
    http_server_count_request(c->server);
    if (!config->on_end)
        return;
    const struct http_record record = {
        .id = http_id(r),
        .peer = c->peer_text,
        .method = c->framing.head.method,
        .path = r->has_path ? r->url.path : NULL,
        .route = r->match.route,
        .user = r->user,
        .status = r->status,
        .bytes_in = r->body_seen,
        .bytes_out = r->bytes_out,
        .duration_ns = clock_now_ns() - r->started_ns,
    };
    config->on_end(&record, config->ctx);
}

static void close_socket(struct http_conn *c)
{
    loop_watch_free(c->watch);
    c->watch = NULL;
    transport_close(&c->transport);
    outqueue_release(&c->out);
    free(c->pending);
    c->pending = NULL;
    c->is_closed = true;
    http_server_unkick(c->server, c);
}

/* The connection is over. Whoever works for it hears of it, here and nowhere else. */
void conn_end(struct http_conn *c)
{
    struct http_request *r = &c->request;
    if (c->is_closed)
        return;
    close_socket(c);
    c->phase = CONN_LINGER;
    if (c->tunnel) {
        c->tunnel->on_gone(c->tunnel_ctx);
        return;
    }
    if (!r->is_open) {
        if (r->started_ns && !r->status) /* no handler was called yet */
            tell_record(c);
        return;
    }
    if (!r->is_stream)
        r->status = 0;
    if (!r->on_gone) /* it must still be answered */
        return;
    r->is_open = false;
    tell_record(c);
    r->on_gone(r->gone_ctx);
}

static void free_conn(struct http_conn *c)
{
    http_server_unkick(c->server, c);
    http_server_remove(c->server, c);
    framing_release(&c->framing);
    http_release(&c->request);
    free(c);
}

void conn_drop(struct http_conn *c)
{
    conn_enter(c);
    conn_end(c);
    conn_leave(c);
}

/* --- what is waited for --------------------------------------------------------------------- */

/* Whether bytes of the peer could be used now. */
static bool takes_input(const struct http_conn *c)
{
    const struct http_request *r = &c->request;
    switch (c->phase) {
    case CONN_LINGER:
        return true;
    case CONN_HEAD: /* who does not take the answers may not go on asking */
        return c->out.len <= HTTP_STREAM_HIGH;
    case CONN_BODY:
        return !r->is_open || !r->is_streamed_in || (r->on_body && !r->is_body_paused);
    case CONN_TUNNEL: /* the same for pings */
        return !c->is_tunnel_paused && !c->is_tunnel_deaf && c->out.len <= HTTP_STREAM_HIGH;
    case CONN_BUSY:
    case CONN_LAST:
        return false;
    }
    return false;
}

/* Who may stop to send and still read is not gone by that: its end is found where it is read. */
static bool ends_by_hangup(const struct http_conn *c)
{
    return c->phase != CONN_LAST && !(c->tunnel && c->tunnel->on_end);
}

static void update_interest(struct http_conn *c)
{
    unsigned want = 0;
    if (ends_by_hangup(c))
        want = LOOP_HANGUP;
    if (takes_input(c) && !c->pending)
        want |= LOOP_READ;
    /* A request that runs for moments is not worth two system calls: what was waited for before it
     * stays, until bytes do come. */
    if (c->phase == CONN_BUSY)
        want |= c->interest & LOOP_READ;
    if (c->out.len > 0 || c->transport.read_wants_write)
        want |= LOOP_WRITE;
    if (c->transport.write_wants_read)
        want |= LOOP_READ;
    if (want == c->interest)
        return;
    c->interest = want;
    loop_watch_set(c->watch, want);
}

void conn_enter(struct http_conn *c)
{
    c->depth++;
}

static bool owes_a_call(const struct http_conn *c)
{
    const struct http_request *r = &c->request;
    if (c->is_lost || ((c->pending || c->is_step_due) && takes_input(c)))
        return true;
    if (c->out.len > HTTP_STREAM_LOW)
        return false;
    return (r->is_full && r->is_stream) || (c->is_tunnel_full && c->phase == CONN_TUNNEL);
}

void conn_leave(struct http_conn *c)
{
    if (c->depth == 1 && !c->is_closed) {
        if (c->out.len > 0)
            flush(c);
        if (c->phase == CONN_LAST && c->out.len == 0 && !c->is_lost)
            begin_linger(c);
        if (owes_a_call(c))
            http_server_kick(c->server, c);
        update_interest(c);
    }
    if (--c->depth == 0 && c->is_closed && !c->request.is_open)
        free_conn(c);
}

/* --- requests ------------------------------------------------------------------------------- */

bool conn_keeps_alive(const struct http_conn *c)
{
    const struct framing_head *head = &c->framing.head;
    if (!head->is_kept_alive || http_server_is_draining(c->server) || c->phase == CONN_LAST)
        return false;
    if (c->phase != CONN_BODY || c->framing.has_end)
        return true;
    /* The rest of a body that nobody wants: read when it is short and surely on its way. */
    return c->request.is_continued && head->content_length != FRAMING_NO_LENGTH &&
           head->content_length - c->request.body_seen <= CONN_DISCARD_BYTES;
}

void conn_next_request(struct http_conn *c)
{
    framing_again(&c->framing);
    http_reset(&c->request);
    c->phase = CONN_HEAD;
    c->input_deadline_ns = deadline_in(config_of(c)->idle_ms);
}

void conn_end_request(struct http_conn *c)
{
    struct http_request *r = &c->request;
    r->is_open = r->is_stream = false;
    if (!c->is_closed) { /* who waits for it does not wait for its line in the log */
        flush(c);
        loop_yield(http_server_loop(c->server));
    }
    tell_record(c);
    if (c->is_closed)
        return;
    if (r->is_last || http_server_is_draining(c->server))
        c->phase = CONN_LAST;
    else if (c->phase == CONN_BUSY)
        conn_next_request(c);
    /* In a body that goes on: its end begins the next message. */
}

/* --- reading -------------------------------------------------------------------------------- */

static void take_step(struct http_conn *c, enum framing_step step, const char *body, size_t len)
{
    switch (step) {
    case FRAMING_MORE:
        break;
    case FRAMING_HEAD:
        dispatch_head(c);
        break;
    case FRAMING_BODY:
        dispatch_body(c, body, len);
        break;
    case FRAMING_END:
        dispatch_end(c);
        break;
    case FRAMING_BAD:
        dispatch_fault(c, c->framing.refusal);
        break;
    }
}

static void note_first_byte(struct http_conn *c, size_t len)
{
    if (c->phase == CONN_HEAD && len > 0 && c->request_count > 0 && !framing_is_begun(&c->framing))
        c->input_deadline_ns = deadline_in(config_of(c)->head_ms);
}

static void keep_pending(struct http_conn *c, const char *data, size_t len)
{
    if (len == 0 || c->is_closed || c->phase == CONN_LAST || c->phase == CONN_LINGER)
        return;
    c->pending = xmalloc(len);
    memcpy(c->pending, data, len);
    c->pending_len = len;
}

static bool is_in_request(const struct http_conn *c)
{
    return c->phase == CONN_HEAD || c->phase == CONN_BODY;
}

/* Uses as much as can be used now; the rest is kept. `is_more`: a step is due without any bytes. */
static void take_steps(struct http_conn *c, const char *data, size_t len, bool is_more)
{
    size_t at = 0;
    while (!c->is_closed && takes_input(c) && is_in_request(c) && (at < len || is_more)) {
        const char *body = NULL;
        size_t used = 0, body_len = 0;
        note_first_byte(c, len - at);
        enum framing_step step =
            framing_next(&c->framing, data + at, len - at, &used, &body, &body_len);
        at += used;
        is_more = step == FRAMING_HEAD || step == FRAMING_BODY;
        take_step(c, step, body, body_len);
    }
    if (at < len && c->phase == CONN_TUNNEL && takes_input(c) && !c->is_closed)
        at += c->tunnel->on_bytes(c->tunnel_ctx, data + at, len - at);
    c->is_step_due = is_more && is_in_request(c);
    keep_pending(c, data + at, len - at);
}

/* What was kept, and steps that need no bytes. */
static void take_kept(struct http_conn *c)
{
    scoped_free char *bytes = take_ptr(&c->pending);
    size_t len = bytes ? c->pending_len : 0;
    bool is_due = c->is_step_due;
    c->is_step_due = false;
    take_steps(c, bytes ? bytes : "", len, is_due);
}

/* The peer will send nothing more. */
static void take_end(struct http_conn *c)
{
    if (c->phase == CONN_HEAD && c->out.len > 0 && !c->is_lost) {
        c->phase = CONN_LAST; /* its answers are complete, and it may still read them */
    } else if (c->phase == CONN_TUNNEL && c->tunnel->on_end && !c->is_tunnel_deaf && !c->is_lost) {
        c->is_tunnel_deaf = true; /* one that is gone altogether shows when we write */
        c->tunnel->on_end(c->tunnel_ctx);
    } else {
        conn_end(c);
    }
}

/* `is_last`: nothing comes after what the kernel has, so it is read to the end. After a reset there
 * is no second event. */
static void read_some(struct http_conn *c, bool is_last)
{
    char *buffer = http_server_buffer(c->server);
    for (int i = 0; i < READS_IN_ONE_TURN || is_last; i++) {
        ssize_t n = transport_read(&c->transport, buffer, CONN_READ_BYTES);
        if (n == TRANSPORT_AGAIN)
            return;
        if (n <= 0) {
            take_end(c);
            return;
        }
        if (c->phase != CONN_LINGER)
            take_steps(c, buffer, (size_t)n, false);
        bool has_more =
            is_last || (size_t)n == CONN_READ_BYTES || transport_has_more(&c->transport);
        if (c->is_closed || !takes_input(c) || c->pending || !has_more)
            return;
    }
    /* Bytes that only TLS knows of wake nobody. */
    if (transport_has_more(&c->transport))
        http_server_kick(c->server, c);
}

static void on_event(void *ctx, unsigned events)
{
    struct http_conn *c = ctx;
    conn_enter(c);
    bool can_read = takes_input(c) && !c->pending;
    bool is_hangup = events & LOOP_HANGUP;
    if (is_hangup)
        c->interest = 0; /* after an error nothing is watched, so it is asked for anew */
    if (events & LOOP_WRITE || c->transport.write_wants_read)
        flush(c);
    if (can_read && (events & (LOOP_READ | LOOP_HANGUP) || c->transport.read_wants_write)) {
        read_some(c, is_hangup);
    } else if (!can_read && events & LOOP_READ && c->interest & LOOP_READ) {
        c->interest &= ~(unsigned)LOOP_READ; /* it sends ahead: not until we can use it */
        loop_watch_set(c->watch, c->interest);
    }
    /* In the last phase it may still read; a peer that is gone altogether shows when we write. */
    if (is_hangup && !takes_input(c) && c->phase != CONN_LAST)
        take_end(c);
    conn_leave(c);
}

static void call_drained(struct http_conn *c)
{
    struct http_request *r = &c->request;
    if (c->out.len > HTTP_STREAM_LOW)
        return;
    if (c->phase == CONN_TUNNEL && c->is_tunnel_full) {
        c->is_tunnel_full = false;
        c->tunnel->on_drain(c->tunnel_ctx);
    } else if (r->is_stream && r->is_full) {
        r->is_full = false;
        if (r->on_drain)
            r->on_drain(r->drain_ctx);
    }
}

void conn_kicked(struct http_conn *c)
{
    conn_enter(c);
    if (c->is_lost) {
        conn_end(c);
    } else {
        call_drained(c);
        if ((c->pending || c->is_step_due) && takes_input(c) && !c->is_closed)
            take_kept(c);
        if (!c->is_closed && takes_input(c) && !c->pending && transport_has_more(&c->transport))
            read_some(c, false);
    }
    conn_leave(c);
}

/* --- deadlines ------------------------------------------------------------------------------ */

/* A body may take its time, and a second more for each `body_rate` bytes of it. */
static int64_t body_deadline(const struct http_conn *c)
{
    const struct http_server_config *config = config_of(c);
    const struct http_request *r = &c->request;
    return r->body_from_ns + config->body_ms * NS_PER_MS +
           (int64_t)(r->body_seen / config->body_rate) * NS_PER_S;
}

static void input_is_late(struct http_conn *c)
{
    bool is_silent = c->phase == CONN_LINGER || !framing_is_begun(&c->framing);
    if (is_silent)
        conn_end(c);
    else
        dispatch_fault(c, REFUSAL_SLOW);
}

void conn_check_deadlines(struct http_conn *c, int64_t now_ns)
{
    int64_t input = c->phase == CONN_BODY ? body_deadline(c) : c->input_deadline_ns;
    if (c->is_closed)
        return;
    if (!takes_input(c))
        input = 0; /* it is our turn */
    conn_enter(c);
    if (c->output_deadline_ns && now_ns >= c->output_deadline_ns)
        conn_end(c);
    else if (input && now_ns >= input)
        input_is_late(c);
    conn_leave(c);
}

bool conn_is_idle(const struct http_conn *c)
{
    return !c->is_closed && c->phase == CONN_HEAD && !framing_is_begun(&c->framing) &&
           c->out.len == 0;
}

void conn_drain(struct http_conn *c)
{
    conn_enter(c);
    if (conn_is_idle(c) && !c->pending)
        c->phase = CONN_LAST;
    else if (c->phase == CONN_TUNNEL)
        c->tunnel->on_server_end(c->tunnel_ctx);
    conn_leave(c);
}

/* --- tunnels -------------------------------------------------------------------------------- */

void conn_take_over(struct http_conn *c, const struct conn_tunnel *tunnel, void *ctx)
{
    struct http_request *r = &c->request;
    r->is_open = false;
    tell_record(c);
    c->tunnel = tunnel;
    c->tunnel_ctx = ctx;
    c->input_deadline_ns = 0;
    c->phase = CONN_TUNNEL;
}

void conn_tunnel_write(struct http_conn *c, const void *data, size_t len)
{
    if (!c->is_closed)
        outqueue_add(&c->out, data, len);
    if (c->out.len > HTTP_STREAM_HIGH)
        c->is_tunnel_full = true;
}

void conn_tunnel_pause(struct http_conn *c, bool is_paused)
{
    c->is_tunnel_paused = is_paused;
}

void conn_tunnel_end(struct http_conn *c)
{
    c->phase = CONN_LAST;
}

/* --- birth ---------------------------------------------------------------------------------- */

void conn_open(struct http_server *server, int fd, const struct sockaddr *address, struct tls *tls)
{
    struct error err;
    struct http_conn *c = xcalloc(1, sizeof(*c));
    int on = 1;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->server = server;
    c->is_tls = tls != NULL;
    c->peer = peers_key(address);
    c->request.conn = c;
    peers_text(address, c->peer_text);
    framing_init(&c->framing);
    transport_open(&c->transport, fd, tls);
    strbuf_init(&c->request.text, FRAMING_HEAD_MAX_BYTES);
    strbuf_init(&c->request.headers, CONN_HEADERS_MAX);
    strbuf_init(&c->request.body, 1);
    http_reset(&c->request);
    c->interest = LOOP_READ | LOOP_HANGUP;
    http_server_add(server, c);
    c->input_deadline_ns = deadline_in(config_of(c)->head_ms);
    if (loop_watch_new(&c->watch, http_server_loop(server), fd, c->interest, on_event, c, &err) < 0)
        conn_drop(c); /* the kernel has no room to watch it */
}
