/* outbox.h - datagrams that a socket does not take yet, kept in order until it does */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "event/loop.h"

struct outbox {
    int fd; /* borrowed; non-blocking */
    struct loop *loop;
    struct loop_watch *watch; /* while something waits */
    int watch_fd;             /* a copy: the loop takes one watch per fd */
    struct outbox_item *first, **last;
    size_t bytes, max_bytes;
};

void outbox_init(struct outbox *box, struct loop *loop, int fd, size_t max_bytes);
void outbox_release(struct outbox *box); /* drops what waits */

/* Sends, or keeps it (with copies of the fds). ERROR_TOO_LARGE when too much waits; a dead peer is
 * no error here: whoever reads the socket notices. */
MUST_CHECK int outbox_send(struct outbox *box, const void *data, size_t len, const int *fds,
                           size_t fd_count, struct error *err);
