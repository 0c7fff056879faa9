/* http_server.h - listens, accepts, and hands requests to the handlers of a table of routes
 *
 * What is sent in the wrong form, from the wrong page, too slowly or too much of is answered here
 * and never reaches a handler. One thread: the loop's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"
#include "http/guard.h"
#include "http/method.h"
#include "http/route.h"

struct http_request;
struct http_server;
struct loop;
struct tls;

/* What became of a request; for logs and metrics. Borrowed for the call. */
struct http_record {
    const char *id;
    const char *peer;
    enum method method;           /* METHOD_COUNT: it was not understood */
    const char *path;             /* NULL: the same */
    const struct route *route;    /* NULL: none was found */
    void *user;                   /* of http_set_user() */
    int status;                   /* 0: the peer left before the answer */
    uint64_t bytes_in, bytes_out; /* of bodies */
    int64_t duration_ns;
};

struct http_server_config {
    const struct route *routes; /* borrowed, as all that is named here */
    size_t route_count;
    struct guard guard;
    void *ctx; /* of the handlers and of what follows */

    /* Asked at the head of each request that has a route, before anything of its body is read.
     * False: it has answered. NULL: all may pass. */
    bool (*authorize)(struct http_request *r, const struct route *route, void *ctx);
    /* Told at the end of each request; NULL: nobody wants to know. */
    void (*on_end)(const struct http_record *record, void *ctx);

    /* 0 takes the preset. */
    uint32_t connection_max;      /* 4096 */
    uint32_t connection_peer_max; /* 256, of one address */
    uint32_t head_ms;   /* 10,000: from the first byte (or the accept) to the last of a head */
    uint32_t body_ms;   /* 30,000: for a body... */
    uint32_t body_rate; /* 16,384: ...plus a second for each so many bytes of it */
    uint32_t idle_ms;   /* 75,000: between requests */
    uint32_t stall_ms;  /* 30,000: for 4 KiB of an answer to be taken */
    uint32_t linger_ms; /* 1,000: after a refusal, for the peer to read it */
};

MUST_CHECK int http_server_open(struct http_server **out, struct loop *loop,
                                const struct http_server_config *config, struct error *err);
void http_server_free(struct http_server *server); /* ends all connections; callers hear of it */
SCOPED_DEFINE(http_server)

struct http_listen {
    const char *address; /* numeric: "127.0.0.1", "::1"; NULL: path counts */
    uint16_t port;       /* 0: any */
    const char *path;    /* of a unix socket; one that nobody listens at is replaced */
    unsigned mode;       /* of that socket: 0600 */
    struct tls *tls;     /* NULL: plain */
};

/* May be called more than once. */
MUST_CHECK int http_server_listen(struct http_server *server, const struct http_listen *where,
                                  struct error *err);

/* The same in two steps, for a program that may open no socket any more when its server begins.
 * Who comes in between waits. *out is owned by the caller; `fd` is taken, even on failure. */
MUST_CHECK int http_server_bind(int *out, const struct http_listen *where, struct error *err);
MUST_CHECK int http_server_take(struct http_server *server, int fd, const struct http_listen *where,
                                struct error *err);
uint16_t http_server_port(const struct http_server *server); /* of the last one; 0: a unix socket */

/* Stops listening, lets requests that run come to their end, closes idle connections. When all are
 * gone, or at the deadline when the rest is cut off, `done` is called from the loop. */
typedef void (*http_server_done_fn)(void *ctx);
void http_server_drain(struct http_server *server, uint32_t deadline_ms, http_server_done_fn done,
                       void *ctx);

struct http_server_counts {
    uint32_t connections;
    uint64_t accepted, refused; /* since the start; refused by a cap */
    uint64_t requests;
};
struct http_server_counts http_server_counts(const struct http_server *server);
