/* digest.h - the name of an image: a hash of what is in it, not of when or by whom it was made
 *
 * Counted: each entry's type, permission bits and path, a file's content, a link's target. Not
 * counted: owners (all of them root in an image), times, the order on disk. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "codec/sha256.h"

struct digest_summary {
    uint8_t hash[SHA256_BYTES];
    uint64_t entries;
    uint64_t bytes; /* content of all files */
};

/* Told after each entry, with the count so far; may be NULL. */
typedef void (*digest_progress_fn)(void *ctx, uint64_t entries);

/* Hashes the tree below `root_fd` (borrowed). Devices, sockets and pipes are ERROR_INVALID: no
 * image has them. */
MUST_CHECK int digest_tree(int root_fd, digest_progress_fn progress, void *ctx,
                           struct digest_summary *out, struct error *err);
