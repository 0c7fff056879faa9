/* channel.h - one end of an exchange: bytes that come, and bytes that wait until it takes them */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "event/loop.h"
#include "http/outqueue.h"
#include "http/transport.h"

#define CHANNEL_FULL_BYTES (128 * KIB) /* that wait: then nobody reads more for it */

struct channel {
    struct transport t; /* fd -1: there is none yet */
    struct loop_watch *watch;
    struct outqueue out;
    unsigned events;   /* that are watched for */
    bool has_ended;    /* nothing more comes */
    bool is_finishing; /* nothing more will be added to what waits */
    bool is_cut;       /* ...for it broke: TLS is to say no goodbye, as if that had been all */
    bool is_shut;      /* ...and that was told */
};

/* Takes `fd`. Nothing is watched for yet. */
MUST_CHECK int channel_open(struct channel *c, struct loop *loop, int fd, loop_watch_fn fn,
                            void *ctx, struct error *err);
void channel_close(struct channel *c); /* none is fine */

/* Bytes, 0 when nothing is there now or any more; -1: it is broken. */
ssize_t channel_read(struct channel *c, void *data, size_t len);

/* What waits, as far as it is taken; and the end, when that is due. False: it is broken. */
bool channel_flush(struct channel *c);

bool channel_is_full(const struct channel *c);

/* What to wait for now. */
void channel_watch(struct channel *c, bool wants_read);
