/* websocket.c - the handshake, and wslay between the connection and its user
 *
 * wslay copies what is to be sent into frames and hands them to the connection's queue at once, so
 * all that waits, waits there. Bytes of the peer are given to wslay while it asks for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/websocket.h"

#include <openssl/evp.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "codec/base64.h"
#include "event/loop.h"
#include "http/conn.h"

#define KEY_CHARS      24
#define KEY_BYTES      16
#define FRAMES_MAX     1024 /* of one message: wslay keeps a block of memory for each */
#define CLOSE_GRACE_MS 2000
#define SHA1_BYTES     20

struct websocket {
    struct http_conn *conn;
    struct loop *loop;
    struct loop_timer *timer;
    struct websocket_config config;
    wslay_event_context_ptr wslay;
    const char *in; /* bytes of the peer, during one call */
    size_t in_len;
    size_t frames; /* of the message that is not complete */
    unsigned close_code;
    bool is_paused, is_closing, is_alive; /* is_alive: something came since the last look */
};

/* --- what wslay asks and tells
 * ------------------------------------------------------------------------ */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buffer, size_t len, int flags,
                       void *user)
{
    struct websocket *ws = user;
    (void)flags;
    if (ws->in_len == 0 || ws->is_paused) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    len = MIN(len, ws->in_len);
    memcpy(buffer, ws->in, len);
    ws->in += len;
    ws->in_len -= len;
    return (ssize_t)len;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *user)
{
    struct websocket *ws = user;
    (void)ctx;
    (void)flags;
    conn_tunnel_write(ws->conn, data, len);
    return (ssize_t)len;
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *user)
{
    struct websocket *ws = user;
    if (wslay_is_ctrl_frame(frame->opcode))
        return;
    if (++ws->frames > FRAMES_MAX) {
        wslay_event_queue_close(ctx, WEBSOCKET_TOO_LARGE, NULL, 0);
        wslay_event_shutdown_read(ctx);
    }
    if (frame->fin)
        ws->frames = 0;
}

static void on_message(wslay_event_context_ptr ctx,
                       const struct wslay_event_on_msg_recv_arg *message, void *user)
{
    struct websocket *ws = user;
    (void)ctx;
    if (message->opcode == WSLAY_CONNECTION_CLOSE)
        ws->close_code = message->status_code ? message->status_code : 1005; /* RFC 6455 7.1.5 */
    else if (!wslay_is_ctrl_frame(message->opcode) && !ws->is_closing)
        ws->config.on_message(ws->config.ctx, message->opcode == WSLAY_TEXT_FRAME, message->msg,
                              message->msg_length);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_recv,
    .send_callback = on_send,
    .on_frame_recv_start_callback = on_frame,
    .on_msg_recv_callback = on_message,
};

/* Frames go out; when both sides have closed, so does the connection. */
static void push(struct websocket *ws)
{
    if (wslay_event_want_write(ws->wslay) && wslay_event_send(ws->wslay) != 0)
        conn_tunnel_end(ws->conn);
    if (!wslay_event_want_read(ws->wslay) && !wslay_event_want_write(ws->wslay))
        conn_tunnel_end(ws->conn);
}

/* --- what the connection tells
 * --------------------------------------------------------------------------- */

static size_t tunnel_bytes(void *ctx, const char *data, size_t len)
{
    struct websocket *ws = ctx;
    ws->in = data;
    ws->in_len = len;
    ws->is_alive = true;
    if (wslay_event_recv(ws->wslay) != 0)
        conn_tunnel_end(ws->conn);
    push(ws);
    return len - ws->in_len;
}

static void tunnel_drain(void *ctx)
{
    struct websocket *ws = ctx;
    if (ws->config.on_drain && !ws->is_closing)
        ws->config.on_drain(ws->config.ctx);
}

static void tunnel_gone(void *ctx)
{
    struct websocket *ws = ctx;
    ws->config.on_close(ws->config.ctx, ws->close_code);
    loop_timer_free(ws->timer);
    wslay_event_context_free(ws->wslay);
    free(ws);
}

static void begin_close(struct websocket *ws, unsigned code, const char *reason);

static void tunnel_server_end(void *ctx)
{
    begin_close(ctx, WEBSOCKET_GOING_AWAY, "the server is shutting down");
}

static const struct conn_tunnel tunnel = {tunnel_bytes, tunnel_drain, tunnel_gone,
                                          tunnel_server_end};

/* --- time
 * ---------------------------------------------------------------------------------------------------
 */

static void on_timer(void *ctx);

static void set_timer(struct websocket *ws, uint32_t delay_ms)
{
    loop_timer_free(ws->timer);
    ws->timer = delay_ms ? loop_timer_new(ws->loop, delay_ms, on_timer, ws) : NULL;
}

static void on_timer(void *ctx)
{
    struct websocket *ws = ctx;
    if (ws->is_closing || !ws->is_alive) {
        conn_drop(ws->conn); /* frees ws */
        return;
    }
    conn_enter(ws->conn);
    ws->is_alive = ws->is_paused; /* while nothing is read there can be no answer */
    wslay_event_queue_msg(ws->wslay, &(struct wslay_event_msg){WSLAY_PING, NULL, 0});
    push(ws);
    set_timer(ws, ws->config.ping_ms);
    conn_leave(ws->conn);
}

/* --- the handshake
 * --------------------------------------------------------------------------------------------- */

static bool is_key(const char *key)
{
    uint8_t bytes[BASE64_DECODED_MAX_LEN(KEY_CHARS)];
    size_t len;
    return key && strlen(key) == KEY_CHARS && base64_decode(key, KEY_CHARS, bytes, &len) &&
           len == KEY_BYTES;
}

/* 0, or why not. */
static enum refusal check_handshake(struct http_request *r)
{
    const char *upgrade = http_header(r, "upgrade");
    const char *version = http_header(r, "sec-websocket-version");
    if (!http_head(r)->is_upgrade || !framing_list_has(upgrade ? upgrade : "", "websocket"))
        return REFUSAL_UPGRADE_REQUIRED;
    if (http_method(r) != METHOD_GET || http_head(r)->is_http_1_0)
        return REFUSAL_UPGRADE;
    if (!version || strcmp(version, "13") != 0)
        return REFUSAL_UPGRADE_REQUIRED;
    return is_key(http_header(r, "sec-websocket-key")) ? REFUSAL_NONE : REFUSAL_UPGRADE;
}

static void add_proof(struct strbuf *out, const char *key)
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455 1.3 */
    char text[KEY_CHARS + sizeof(guid)];
    uint8_t hash[EVP_MAX_MD_SIZE];
    memcpy(text, key, KEY_CHARS);
    memcpy(text + KEY_CHARS, guid, sizeof(guid));
    BUG_ON(EVP_Digest(text, strlen(text), hash, NULL, EVP_sha1(), NULL) != 1);
    base64_add(out, hash, SHA1_BYTES);
}

static void answer_handshake(struct http_request *r, const struct websocket_config *config)
{
    const char *offered = http_header(r, "sec-websocket-protocol");
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, CONN_HEADERS_MAX);
    strbuf_add_str(&text, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                          "Connection: Upgrade\r\nX-Request-Id: ");
    strbuf_add_str(&text, http_id(r));
    strbuf_add_str(&text, "\r\nSec-WebSocket-Accept: ");
    add_proof(&text, http_header(r, "sec-websocket-key"));
    if (config->protocol && offered && framing_list_has(offered, config->protocol))
        strbuf_add_fmt(&text, "\r\nSec-WebSocket-Protocol: %s", config->protocol);
    strbuf_add_str(&text, "\r\n\r\n");
    r->status = 101;
    outqueue_add(&r->conn->out, text.data, text.len);
}

static struct websocket *open_websocket(struct http_request *r, struct loop *loop,
                                        const struct websocket_config *config)
{
    struct websocket *ws = xcalloc(1, sizeof(*ws));
    ws->conn = r->conn;
    ws->loop = loop;
    ws->config = *config;
    ws->close_code = WEBSOCKET_ABNORMAL;
    ws->is_alive = true;
    BUG_ON(wslay_event_context_server_init(&ws->wslay, &callbacks, ws) != 0); /* no memory */
    wslay_event_config_set_max_recv_msg_length(ws->wslay, config->message_max);
    set_timer(ws, config->ping_ms);
    return ws;
}

struct websocket *websocket_accept(struct http_request *r, struct loop *loop,
                                   const struct websocket_config *config)
{
    enum refusal refusal = check_handshake(r);
    if (refusal) {
        http_add_header(r, "Upgrade", "websocket");
        http_add_header(r, "Sec-WebSocket-Version", "13");
        http_send_refusal(r, refusal, NULL);
        return NULL;
    }
    struct http_conn *conn = r->conn;
    conn_enter(conn);
    if (conn->is_closed) { /* nobody is there any more, and nobody had asked to be told */
        conn_end_request(conn);
        conn_leave(conn);
        return NULL;
    }
    answer_handshake(r, config);
    struct websocket *ws = open_websocket(r, loop, config);
    conn_take_over(conn, &tunnel, ws);
    conn_leave(conn);
    return ws;
}

/* --- what its user asks
 * ------------------------------------------------------------------------------------------ */

bool websocket_send(struct websocket *ws, bool is_text, const void *data, size_t len)
{
    const struct wslay_event_msg message = {is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, data,
                                            len};
    conn_enter(ws->conn);
    wslay_event_queue_msg(ws->wslay, &message); /* refused after a close */
    push(ws);
    conn_leave(ws->conn);
    return ws->conn->out.len <= HTTP_STREAM_HIGH;
}

void websocket_pause(struct websocket *ws)
{
    ws->is_paused = true;
    conn_enter(ws->conn);
    conn_tunnel_pause(ws->conn, true);
    conn_leave(ws->conn);
}

void websocket_resume(struct websocket *ws)
{
    ws->is_paused = false;
    conn_enter(ws->conn);
    conn_tunnel_pause(ws->conn, false);
    conn_leave(ws->conn);
}

static void begin_close(struct websocket *ws, unsigned code, const char *reason)
{
    if (ws->is_closing)
        return;
    ws->is_closing = true;
    ws->close_code = code;
    ws->is_paused = false; /* the peer's answer must be read */
    conn_tunnel_pause(ws->conn, false);
    wslay_event_queue_close(ws->wslay, (uint16_t)code, (const uint8_t *)reason, strlen(reason));
    push(ws);
    set_timer(ws, CLOSE_GRACE_MS);
}

void websocket_close(struct websocket *ws, unsigned code, const char *reason)
{
    conn_enter(ws->conn);
    begin_close(ws, code, reason);
    conn_leave(ws->conn);
}
