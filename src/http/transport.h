/* transport.h - a connected socket, plain or with TLS, that never blocks */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct ssl_st;
struct tls;

#define TRANSPORT_AGAIN (-1) /* not now */
#define TRANSPORT_GONE  (-2) /* broken, for good */

struct transport {
    int fd; /* owned; -1: closed */
    struct ssl_st *ssl;
    bool read_wants_write; /* TLS must send before it can give more */
    bool write_wants_read;
};

/* Takes `fd`. `tls` may be NULL; the transport must not move afterwards. */
void transport_open(struct transport *t, int fd, struct tls *tls);
void transport_close(struct transport *t);

/* A plain one goes on with TLS; `ssl` is taken, and was made for its fd. */
void transport_secure(struct transport *t, struct ssl_st *ssl);

/* 0: both sides know each other, TRANSPORT_AGAIN or TRANSPORT_GONE. Reading and writing do it, too.
 */
int transport_shake_hands(struct transport *t);
const char *transport_trouble(const struct transport *t); /* why it is gone, in words */

/* Whom the other side has asked for; NULL: it has not said. */
const char *transport_server_name(const struct transport *t);

/* Bytes, 0 at the end, TRANSPORT_AGAIN or TRANSPORT_GONE. */
ssize_t transport_read(struct transport *t, void *data, size_t len);
ssize_t transport_write(struct transport *t, const struct iovec *pieces, int count);

bool transport_has_more(const struct transport *t); /* TLS has bytes that the socket has not */
void transport_end(struct transport *t);            /* says that nothing more will be written */
