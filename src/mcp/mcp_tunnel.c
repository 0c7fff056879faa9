/* mcp_tunnel.c - MCP as lines on a connection that was upgraded: what `cove mcp` speaks
 *
 * The end of the input is the end of the conversation: what is under way has a moment to be
 * answered, and is cancelled then. So it is when the client is killed, which looks the same. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/memory.h"
#include "http/tunnel.h"
#include "mcp/mcp_http_inside.h"
#include "mcp/mcp_lines.h"

#define LAST_ANSWERS_MS 1000       /* less than clients wait before they send SIGTERM */
#define UNREAD_MAX      (64 * MIB) /* answers that the client does not take */

struct mcp_tunnel {
    struct mcp_http *http;
    struct tunnel *tunnel;
    struct mcp_lines *lines; /* NULL: it is over */
    void *watch;
    struct loop_timer *timer; /* of the end */
    bool is_ending;           /* nothing more is taken */
};

static void unwatch(struct mcp_tunnel *t)
{
    if (t->watch)
        t->http->order.unwatch(take_ptr(&t->watch));
}

/* What is under way is cancelled; what was said already is still sent. */
static void finish(void *ctx)
{
    struct mcp_tunnel *t = ctx;
    t->is_ending = true;
    loop_timer_free(take_ptr(&t->timer));
    unwatch(t);
    mcp_lines_free(take_ptr(&t->lines));
    tunnel_close(t->tunnel);
}

static void finish_in(struct mcp_tunnel *t, uint64_t delay_ms)
{
    loop_timer_free(t->timer);
    t->timer = loop_timer_new(t->http->order.loop, delay_ms, finish, t);
}

/* --- what is said ----------------------------------------------------------------------------- */

/* From inside of the lines, which therefore are not ended here. */
static void on_send(void *ctx, const char *text, size_t len)
{
    struct mcp_tunnel *t = ctx;
    if (tunnel_waiting(t->tunnel) + len <= UNREAD_MAX)
        tunnel_send(t->tunnel, text, len);
    else if (!t->is_ending)
        finish_in(t, 0);
}

static size_t on_waiting(void *ctx)
{
    const struct mcp_tunnel *t = ctx;
    return tunnel_waiting(t->tunnel);
}

static bool on_admit(void *ctx, const struct mcp_user *user, struct error *err)
{
    const struct mcp_tunnel *t = ctx;
    const struct mcp_http_order *order = &t->http->order;
    return !order->admit || order->admit(order->ctx, user, err);
}

static void on_idle(void *ctx)
{
    struct mcp_tunnel *t = ctx;
    if (t->is_ending)
        finish_in(t, 0);
}

/* --- what the connection tells ---------------------------------------------------------------- */

static void on_bytes(void *ctx, const char *data, size_t len)
{
    struct mcp_tunnel *t = ctx;
    if (!t->is_ending)
        mcp_lines_take(t->lines, data, len);
}

static void on_end(void *ctx)
{
    struct mcp_tunnel *t = ctx;
    if (!t->lines)
        return;
    if (!t->is_ending)
        mcp_lines_end(t->lines);
    t->is_ending = true;
    finish_in(t, mcp_lines_is_busy(t->lines) ? LAST_ANSWERS_MS : 0);
}

/* Requests that run have as long as those of HTTP; the server ends the connection then. */
static void on_server_end(void *ctx)
{
    struct mcp_tunnel *t = ctx;
    if (t->is_ending)
        return;
    t->is_ending = true;
    if (!mcp_lines_is_busy(t->lines))
        finish_in(t, 0);
}

static void on_close(void *ctx)
{
    struct mcp_tunnel *t = ctx;
    loop_timer_free(t->timer);
    unwatch(t);
    mcp_lines_free(t->lines);
    free(t);
}

void mcp_tunnel_open(struct mcp_http *http, struct http_request *r, const struct mcp_user *user)
{
    const struct mcp_http_order *order = &http->order;
    struct mcp_tunnel *t = xcalloc(1, sizeof(*t));
    const struct tunnel_config config = {.protocol = MCP_HTTP_LINES,
                                         .on_bytes = on_bytes,
                                         .on_end = on_end,
                                         .on_server_end = on_server_end,
                                         .on_close = on_close,
                                         .ctx = t};
    t->http = http;
    t->tunnel = tunnel_accept(r, &config);
    if (!t->tunnel) {
        free(t);
        return;
    }
    t->lines = mcp_lines_new(&(struct mcp_lines_order){.server = order->server,
                                                       .user = *user,
                                                       .send = on_send,
                                                       .waiting = on_waiting,
                                                       .admit = on_admit,
                                                       .idle = on_idle,
                                                       .ctx = t});
    if (order->watch)
        t->watch = order->watch(order->ctx, user, finish, t);
}
