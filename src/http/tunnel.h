/* tunnel.h - a connection whose request asked to go on in another protocol, as plain bytes
 *
 * The other kind of upgrade is websocket.h. No function here calls back: callbacks come from the
 * loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_request;
struct tunnel;

struct tunnel_config {
    const char *protocol; /* its name in Upgrade */
    /* `data` is borrowed. Nothing comes while HTTP_STREAM_HIGH bytes wait for the peer. */
    void (*on_bytes)(void *ctx, const char *data, size_t len);
    void (*on_end)(void *ctx);        /* the peer sends nothing more; it may still read */
    void (*on_server_end)(void *ctx); /* the server ends soon */
    void (*on_close)(void *ctx);      /* the last call; the tunnel is freed after it */
    void *ctx;
};

/* Whether the request asks for it. */
bool tunnel_is_wanted(const struct http_request *r, const char *protocol);

/* Answers a request that does. NULL: the peer has left, and the request has ended; no callback
 * follows. */
struct tunnel *tunnel_accept(struct http_request *r, const struct tunnel_config *config);

void tunnel_send(struct tunnel *tunnel, const void *data, size_t len); /* copies */
size_t tunnel_waiting(const struct tunnel *tunnel); /* bytes that the peer has not taken */
/* When all is written: on_close comes then. Nothing more is read. */
void tunnel_close(struct tunnel *tunnel);
