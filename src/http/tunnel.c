/* tunnel.c - the handshake of an upgrade, and bytes after it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tunnel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "base/memory.h"
#include "http/conn.h"

struct tunnel {
    struct http_conn *conn;
    struct tunnel_config config;
};

/* --- what the connection tells ---------------------------------------------------------------- */

static size_t conn_bytes(void *ctx, const char *data, size_t len)
{
    struct tunnel *t = ctx;
    t->config.on_bytes(t->config.ctx, data, len);
    return len;
}

/* Who sends asks how much waits, and is not told when that changes. */
static void conn_drained(void *ctx)
{
    (void)ctx;
}

static void conn_ended(void *ctx)
{
    struct tunnel *t = ctx;
    t->config.on_end(t->config.ctx);
}

static void conn_gone(void *ctx)
{
    struct tunnel *t = ctx;
    t->config.on_close(t->config.ctx);
    free(t);
}

static void conn_server_end(void *ctx)
{
    struct tunnel *t = ctx;
    t->config.on_server_end(t->config.ctx);
}

static const struct conn_tunnel calls = {.on_bytes = conn_bytes,
                                         .on_drain = conn_drained,
                                         .on_gone = conn_gone,
                                         .on_server_end = conn_server_end,
                                         .on_end = conn_ended};

/* --- the handshake ---------------------------------------------------------------------------- */

bool tunnel_is_wanted(const struct http_request *r, const char *protocol)
{
    const char *upgrade = http_header(r, "upgrade");
    const struct framing_head *head = http_head(r);
    return head->is_upgrade && !head->is_http_1_0 && http_method(r) == METHOD_GET && upgrade &&
           framing_list_has(upgrade, protocol);
}

static void answer_handshake(struct http_request *r, const char *protocol)
{
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CONN_HEADERS_MAX);
    strbuf_add_fmt(&text,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n"
                   "X-Request-Id: %s\r\n\r\n",
                   protocol, http_id(r));
    r->status = 101;
    outqueue_add(&r->conn->out, text.data, text.len);
}

/* A protocol without pings: a machine that vanished without a word shows by these alone. On a
 * socket that is no TCP they do nothing. */
static void keep_alive(int fd)
{
    static const struct {
        int level, name, value;
    } rows[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, 30},
                {IPPROTO_TCP, TCP_KEEPINTVL, 10},
                {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        setsockopt(fd, rows[i].level, rows[i].name, &rows[i].value, sizeof(rows[i].value));
}

struct tunnel *tunnel_accept(struct http_request *r, const struct tunnel_config *config)
{
    struct http_conn *conn = r->conn;
    conn_enter(conn);
    if (conn->is_closed) { /* nobody is there any more, and nobody had asked to be told */
        conn_end_request(conn);
        conn_leave(conn);
        return NULL;
    }
    struct tunnel *t = xcalloc(1, sizeof(*t));
    t->conn = conn;
    t->config = *config;
    keep_alive(conn->transport.fd);
    answer_handshake(r, config->protocol);
    conn_take_over(conn, &calls, t);
    conn_leave(conn);
    return t;
}

/* --- what its user asks ----------------------------------------------------------------------- */

void tunnel_send(struct tunnel *t, const void *data, size_t len)
{
    conn_enter(t->conn);
    conn_tunnel_write(t->conn, data, len);
    conn_leave(t->conn);
}

size_t tunnel_waiting(const struct tunnel *t)
{
    return t->conn->out.len;
}

void tunnel_close(struct tunnel *t)
{
    conn_enter(t->conn);
    conn_tunnel_end(t->conn);
    conn_leave(t->conn);
}
