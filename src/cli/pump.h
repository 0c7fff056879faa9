/* pump.h - bytes between standard input and output and a connection, until one of them ends
 *
 * Each direction holds one buffer and waits for who is slower. Nothing is looked into. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PUMP_AGAIN  (-1) /* not now */
#define PUMP_BROKEN (-2)
#define PUMP_ASIDE  2
#define PUMP_ENDS_MS                                                                               \
    1000 /* for last answers, over a connection that cannot tell its input's end                   \
          */

/* The connection; its fd is the caller's. */
struct pump_end {
    int fd;
    ssize_t (*read)(void *ctx, void *data, size_t len); /* 0: it has ended */
    ssize_t (*write)(void *ctx, const void *data, size_t len);
    /* Nothing more will be written. False: it cannot be told. */
    bool (*finish)(void *ctx);
    void *ctx;
};

/* Something else to be watched meanwhile. */
struct pump_aside {
    int fd;                                  /* -1: none; may become that in a call */
    bool (*ready)(struct pump_aside *aside); /* true: stop */
    void *ctx;
};

struct pump_order {
    int in_fd, out_fd;
    struct pump_end end;
    struct pump_aside asides[PUMP_ASIDE];
};

enum pump_outcome {
    PUMP_OVER,   /* the connection has ended after the input, or in time after it */
    PUMP_LOST,   /* the connection has ended, and the input has not */
    PUMP_UNREAD, /* nobody reads the output any more */
    PUMP_ASKED,  /* by one aside */
};

enum pump_outcome pump_run(struct pump_order *order);

/* A socket of ours, for `pump_end`; ctx: its fd. */
ssize_t pump_socket_read(void *fd, void *data, size_t len);
ssize_t pump_socket_write(void *fd, const void *data, size_t len);
bool pump_socket_finish(void *fd);
