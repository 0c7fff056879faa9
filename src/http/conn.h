/* conn.h - one connection, inside of http/: for conn.c, dispatch.c, http.c, http_server.c,
 * websocket.c */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/id.h"
#include "base/strbuf.h"
#include "codec/url.h"
#include "http/framing.h"
#include "http/http.h"
#include "http/http_server.h"
#include "http/outqueue.h"
#include "http/peers.h"
#include "http/transport.h"

#define CONN_READ_BYTES  (64 * KIB) /* one read; the server has one buffer for all */
#define CONN_HEADERS_MAX (16 * KIB) /* of an answer */
#define CONN_DISCARD_BYTES                                                                         \
    (64 * KIB) /* of a body that nobody wants: read, to keep the connection */

enum conn_phase {
    CONN_HEAD,   /* between requests, or in the head of one */
    CONN_BODY,   /* in a body */
    CONN_BUSY,   /* the request is complete, its answer is not */
    CONN_TUNNEL, /* another protocol */
    CONN_LAST,   /* nothing is read any more; ends when all is written... */
    CONN_LINGER, /* ...and here, when the peer has closed, too */
};

/* Who takes over after an upgrade. */
struct conn_tunnel {
    size_t (*on_bytes)(void *ctx, const char *data, size_t len); /* how many were taken */
    void (*on_drain)(void *ctx);                                 /* little waits any more */
    void (*on_gone)(void *ctx);                                  /* the last call */
    void (*on_server_end)(void *ctx);                            /* the server drains */
    /* The peer sends nothing more, and may still read. NULL: who sends nothing is gone. */
    void (*on_end)(void *ctx);
};

struct http_request {
    struct http_conn *conn;
    char id[ID_BYTES];
    struct url url;
    struct route_match match;
    struct strbuf text; /* values of path parameters, each with its NUL */
    size_t parameters[ROUTE_PARAMETER_MAX];
    struct strbuf body;
    struct strbuf headers; /* added to the answer */
    http_body_fn on_body;
    void *body_ctx;
    http_gone_fn on_gone;
    void *gone_ctx;
    http_drain_fn on_drain;
    void *drain_ctx;
    void *user;
    int64_t started_ns;
    int64_t body_from_ns; /* when its time began to count */
    int64_t paused_ns;    /* since when it does not */
    uint64_t body_seen;
    uint64_t bytes_out;
    uint64_t stream_left; /* HTTP_LENGTH_UNKNOWN: nobody said */
    int status;           /* 0: no answer yet */
    bool has_path;        /* url is valid */
    bool is_open;         /* a handler has it and has not ended it */
    bool is_streamed_in;  /* the handler reads the body itself */
    bool is_body_paused;
    bool is_continued; /* 100 was sent, or need not be */
    bool is_stream;    /* between http_stream_begin() and _end() */
    bool is_chunked_out;
    bool has_no_body; /* HEAD, 204, 304 */
    bool is_full;     /* http_stream_write() said so, and a call is owed */
    bool is_last;     /* the connection ends with this answer */
};

struct http_conn {
    struct http_server *server;
    struct http_conn *prev, *next;
    struct http_conn *kick_next;
    struct loop_watch *watch;
    unsigned interest; /* what the watch waits for */
    struct transport transport;
    struct framing framing;
    struct outqueue out;
    struct http_request request;
    char *pending; /* bytes that were read and cannot be used yet; owned */
    size_t pending_len;
    const struct conn_tunnel *tunnel;
    void *tunnel_ctx;
    enum conn_phase phase;
    unsigned depth; /* of calls that use this connection; it is freed at 0 */
    uint64_t request_count;
    int64_t input_deadline_ns; /* 0: none */
    int64_t output_deadline_ns;
    size_t output_progress; /* bytes since that deadline was set */
    struct peers_key peer;
    char peer_text[PEERS_TEXT_BYTES];
    bool is_tls;
    bool is_kicked;
    bool is_step_due; /* the framing has a step to tell, without more bytes */
    bool is_lost;     /* the peer is gone; told at the next kick */
    bool is_closed;   /* no socket any more */
    bool is_tunnel_paused;
    bool is_tunnel_full;
    bool is_tunnel_deaf; /* the peer has sent its last byte, and may still read */
};

/* Takes `fd`. */
void conn_open(struct http_server *server, int fd, const struct sockaddr *address, struct tls *tls);

/* Around every use from outside: the last leave writes, sets what is waited for, and may free. */
void conn_enter(struct http_conn *conn);
void conn_leave(struct http_conn *conn);

void conn_next_request(struct http_conn *conn); /* after the last one was answered and read */
void conn_end(struct http_conn *conn);          /* closes; for who has entered */
void conn_end_request(struct http_conn *conn);  /* its answer is complete */
void conn_drop(struct http_conn *conn);         /* closes now, as if the peer had gone */
void conn_check_deadlines(struct http_conn *conn, int64_t now_ns);
void conn_drain(struct http_conn *conn);  /* the server ends: so does this one when it is idle */
void conn_kicked(struct http_conn *conn); /* by the server's kick, from the loop */
bool conn_is_idle(const struct http_conn *conn);

/* For an upgrade: from now on bytes go to `tunnel`. The request has ended. */
void conn_take_over(struct http_conn *conn, const struct conn_tunnel *tunnel, void *ctx);
void conn_tunnel_write(struct http_conn *conn, const void *data, size_t len);
void conn_tunnel_pause(struct http_conn *conn, bool is_paused);
void conn_tunnel_end(
    struct http_conn *conn); /* on_gone comes when all is written and the peer left */

/* What http.c and conn.c need of each other. */
bool conn_keeps_alive(const struct http_conn *conn);
void http_send_refusal(struct http_request *r, enum refusal refusal, const char *hint);
void http_send_continue(struct http_request *r);
void http_reset(struct http_request *r);
void http_release(struct http_request *r);

/* What conn.c needs of the server. */
const struct http_server_config *http_server_config(const struct http_server *server);
const struct route_table *http_server_routes(const struct http_server *server);
struct loop *http_server_loop(const struct http_server *server);
char *http_server_buffer(struct http_server *server); /* CONN_READ_BYTES */
const char *http_server_date(struct http_server *server);
bool http_server_is_draining(const struct http_server *server);
void http_server_kick(struct http_server *server, struct http_conn *conn);
void http_server_unkick(struct http_server *server, struct http_conn *conn);
void http_server_add(struct http_server *server, struct http_conn *conn);
void http_server_remove(struct http_server *server, struct http_conn *conn);
void http_server_count_request(struct http_server *server);
