/* layer_seal.h - a helper that copies what a finished build has left into a package layer
 *
 * A process of its own, since it may take seconds: without capabilities, confined by landlock to
 * the two directories it works on, with a deadline. It writes a draft; only the spawner gives it
 * the name by which sandboxes can have it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spawner/layer_store.h"
#include "spawner/sandbox.h"

#define LAYER_DRAFT_BYTES 32

struct layer_seal {
    struct layer_seal *next;
    uint64_t sandbox;
    uint32_t serial; /* of who asks; 0: he is gone */
    uint8_t digest[SPAWN_DIGEST_BYTES];
    char draft[LAYER_DRAFT_BYTES];
    pid_t pid;
    int pid_fd, report_fd; /* owned */
};

/* Starts the helper. The sandbox must be over. `note_fd` is borrowed for the call. */
MUST_CHECK int layer_seal_start(struct layer_seal **out, const struct layer_store *store,
                                const struct sandbox *sb, const uint8_t digest[SPAWN_DIGEST_BYTES],
                                int note_fd, struct spawn_failure *failure);

void layer_seal_cancel(const struct layer_seal *seal); /* its end follows at once */

/* The helper has ended; frees `seal`. 0: the layer can be mounted. */
MUST_CHECK int layer_seal_finish(struct layer_seal *seal, struct layer_store *store,
                                 struct spawn_failure *failure);
