/* frame.h - datagrams of a kernel put together to messages; pure, no I/O
 *
 * Whatever is wrong with a datagram is the end of its channel: a kernel that miscounts once cannot
 * be followed any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/strbuf.h"
#include "wire/kernel.h"

#define FRAME_MESSAGE_MAX (17u * 1024 * 1024) /* what one message may have, however many frames */
#define FRAME_REQUEST_MAX (24u * 1024 * 1024) /* and all that come from one request to the next */

struct frame_inbox {
    struct strbuf body; /* of a message that has not ended yet */
    struct kernel_frame open;
    bool is_open;
    uint32_t generation;   /* the last that was asked for */
    uint64_t total;        /* of what came since then, of whichever generation */
    struct budget *budget; /* for bodies that have not ended yet; NULL: without an end */
    bool is_dropping;      /* the one that has begun found none */
    bool awaits_sync;      /* of an earlier host's requests nothing is known until the SYNCED */
};

/* One whole message. `body` borrows from the datagram or the inbox until the next call. */
struct frame_message {
    enum kernel_frame_type type;
    unsigned flags; /* without KERNEL_MORE */
    uint32_t generation;
    const char *body;
    size_t len;
    bool is_dropped; /* there was no room for it: it came whole, and nothing of it is left */
};

void frame_inbox_init(struct frame_inbox *inbox);
void frame_inbox_release(struct frame_inbox *inbox);

/* A request of this generation goes out. A frame of a later one is bad, and what comes before the
 * next is counted together: changing the generation back and forth gains nothing. */
void frame_inbox_expect(struct frame_inbox *inbox, uint32_t generation);

/* A SYNC goes out, on a channel that another host had before; `generation` is the last of its
 * requests that is known of. */
void frame_inbox_await_sync(struct frame_inbox *inbox, uint32_t generation);

enum frame_answer { FRAME_PART, FRAME_WHOLE, FRAME_BAD };

/* Takes the next frame of a datagram, which has one or more, of `len` bytes from `at` on; *used is
 * its size. *why is a constant text when it is bad. */
enum frame_answer frame_inbox_add(struct frame_inbox *inbox, const void *at, size_t len,
                                  size_t *used, struct frame_message *out, const char **why);

/* The last message was used: gives back the memory of its body, which may be much. */
void frame_inbox_forget(struct frame_inbox *inbox);
