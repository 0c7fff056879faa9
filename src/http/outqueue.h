/* outqueue.h - bytes that wait until the other side takes them, in order and without limit
 *
 * Small pieces are copied together, so that they leave in one packet; a large body that is given
 * away is not copied at all. Who fills it watches its length. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

struct outqueue_part;

struct outqueue {
    struct outqueue_part *first, *last; /* private */
    size_t len;                         /* bytes that wait */
};

void outqueue_release(struct outqueue *queue); /* a zeroed struct is an empty one */

void outqueue_add(struct outqueue *queue, const void *data, size_t len); /* copies */
void outqueue_give(struct outqueue *queue, void *data, size_t len); /* takes malloc'ed memory */

/* The first pieces, borrowed; answers how many of `room` were filled. */
int outqueue_peek(const struct outqueue *queue, struct iovec *pieces, int room);
void outqueue_drop(struct outqueue *queue, size_t len); /* as many bytes are gone */
