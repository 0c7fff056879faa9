/* keep.h - fds of a sandbox that its client wants to find again after its own death
 *
 * They are held and handed out, and nothing else: no byte is ever read from or written to one. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/macros.h"
#include "spawner/discard.h"
#include "wire/spawn.h"

struct keep { /* all zero: nothing is kept */
    uint8_t label[SPAWN_LABEL_BYTES];
    uint8_t note[SPAWN_NOTE_BYTES];
    unsigned counts[SPAWN_KEEP_SLOTS];
    int fds[SPAWN_KEEP_SLOTS][SPAWN_KEEP_FDS];
};

/* Takes the `order->count` fds on success; otherwise they stay the caller's and *failure says why.
 */
MUST_CHECK int keep_set(struct keep *keep, struct discard *discard, const struct spawn_keep *order,
                        const int *fds, struct spawn_failure *failure);
void keep_release(struct keep *keep, struct discard *discard);

/* Fills the entry's label, note and counts; answers how many of `fds` (borrowed) were filled. */
size_t keep_get(const struct keep *keep, struct spawn_entry *entry,
                int fds[SPAWN_KEEP_SLOTS * SPAWN_KEEP_FDS]);
