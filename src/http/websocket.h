/* websocket.h - RFC 6455 on a connection whose request asked for it; wslay does the framing */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct loop;
struct websocket;

#define WEBSOCKET_NORMAL     1000
#define WEBSOCKET_GOING_AWAY 1001
#define WEBSOCKET_PROTOCOL   1002
#define WEBSOCKET_ABNORMAL   1006 /* told, never sent: the peer is gone without a word */
#define WEBSOCKET_POLICY     1008
#define WEBSOCKET_TOO_LARGE  1009
#define WEBSOCKET_INTERNAL   1011

struct websocket_config {
    size_t message_max; /* bytes of one message of the peer's; required */
    uint32_t ping_ms;   /* after so much silence a ping is sent, and after as much again it is over;
                           0: never */
    const char *protocol; /* chosen when the peer offers it; NULL: none */
    /* Text is valid UTF-8. `data` is borrowed. */
    void (*on_message)(void *ctx, bool is_text, const void *data, size_t len);
    void (*on_drain)(void *ctx);                /* may be sent again; may be NULL */
    void (*on_close)(void *ctx, unsigned code); /* the last call; the websocket is freed after it */
    void *ctx;
};

/* Answers the request. NULL when it is no proper handshake, or the peer has left: then the request
 * has ended. */
struct websocket *websocket_accept(struct http_request *r, struct loop *loop,
                                   const struct websocket_config *config);

/* Copies. False: enough waits for the peer; on_drain comes. After a close, nothing is sent. */
bool websocket_send(struct websocket *ws, bool is_text, const void *data, size_t len);

/* Messages already read (4 KiB at most) may still come after a pause. */
void websocket_pause(struct websocket *ws);
void websocket_resume(struct websocket *ws);

/* Begins to close; on_close comes when the peer has answered, or has not for two seconds. */
void websocket_close(struct websocket *ws, unsigned code, const char *reason);
