/* haul.h - what an execution left, on its way to where it is kept
 *
 * Small files come with their bytes while the execution ends; of others only the name and the size
 * are known by then. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scoped.h"
#include "base/strbuf.h"
#include "codec/sha256.h"
#include "core/artifact.h"

#define HAUL_MAX_BYTES      (8 * MIB) /* that are held in memory for one execution... */
#define HAUL_FILE_MAX_BYTES (4 * MIB) /* ...and for one file */

struct haul_item {
    char *path;
    uint64_t size;
    uint32_t mode;
    int64_t mtime_ns;
    bool has_hash;
    uint8_t sha256[SHA256_BYTES];
    struct strbuf content;
    bool is_whole;   /* the content is all of it */
    bool is_left;    /* it was not read, since it is large: it can be yet */
    bool is_wanted;  /* it is to be kept */
    bool is_settled; /* it is where it is to be, or will not be */
};

struct haul {                /* zeroed: empty */
    struct haul_item *items; /* sorted by path once haul_complete() was called */
    size_t count;
    size_t bytes; /* of all contents */
};

void haul_release(struct haul *haul);

/* One file's bytes, as execution_events tells them. */
void haul_begin(struct haul *haul, const struct artifact *artifact);
void haul_add(struct haul *haul, const void *data, size_t len);
void haul_end(struct haul *haul, const struct artifact *artifact);

/* All that there are: adds those whose bytes did not come, and says which are to be kept: in order,
 * as long as they have `max_bytes` together. */
void haul_complete(struct haul *haul, const struct artifact_list *all, uint64_t max_bytes);

bool haul_awaits(const struct haul *haul, const char *path); /* it is wanted, and not settled */
bool haul_has_left(const struct haul *haul); /* something wanted has to be read yet */
