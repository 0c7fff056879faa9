/* layer_cache.h - the package layers of a data directory, for who looks after them
 *
 * The spawner makes and mounts them (src/spawner/layer_store.h has the names of their files); here
 * they are listed and removed. What stands in a layer's note came from a client, so it is content.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "codec/sha256.h"

/* Plain data; the texts are owned. */
struct layer_info {
    char name[SHA256_HEX_BYTES]; /* its digest */
    char *language;              /* NULL, as the next: nobody knows */
    char *requirements;          /* with blanks between them */
    uint64_t bytes, entries;
    int64_t created_ns, used_ns; /* wall clock */
    bool is_in_use;              /* a sandbox mounts it, or one that comes is about to */
};

struct layer_cache {
    int fd;
    struct layer_info *items; /* the one that was used last comes first */
    size_t count;
};

/* A directory that is not there has none. ERROR_DENIED: not for the likes of us. */
MUST_CHECK int layer_cache_open(struct layer_cache *out, const char *data_dir, struct error *err);
void layer_cache_close(struct layer_cache *cache); /* a zeroed one is fine */

#define scoped_layer_cache __attribute__((cleanup(layer_cache_close)))

/* As long as the answer (owned; -1: it is gone, or somebody else does) is open, sandboxes that only
 * wait with it for a user are let go. */
MUST_CHECK int layer_cache_claim(const struct layer_cache *cache, const struct layer_info *layer);

/* Removes it, unless it is in use: then *is_removed is false. */
MUST_CHECK int layer_cache_remove(const struct layer_cache *cache, const struct layer_info *layer,
                                  bool *is_removed, struct error *err);
