/* chunk.h - a long stream as compressed chunks that are named by their content, and the list of
 * them
 *
 * A chunk at rest is one zstd frame; its name is the SHA-256 of what is in it, so whoever reads it
 * can tell whether it is the right one. The list says which chunks make up a stream, whose it is,
 * and ends with a hash of itself. Both come from a storage that others may have written to: sizes
 * are known before anything is unpacked, and nothing is larger than CHUNK_BYTES. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "codec/sha256.h"

#define CHUNK_BYTES           (2 * MIB)
#define CHUNK_PACKED_MAX      (CHUNK_BYTES + CHUNK_BYTES / 128 + 1024)
#define CHUNK_LIST_MAX        65536 /* chunks: 128 GiB */
#define CHUNK_LIST_MAX_BYTES  ((size_t)CHUNK_LIST_MAX * 36 + 256)
#define CHUNK_OWNER_MAX_BYTES 63

/* The name of what is in `data`. */
void chunk_name(const void *data, size_t len, uint8_t name[SHA256_BYTES]);

/* Adds the frame to `out`, which has room for CHUNK_PACKED_MAX. `len` is 1 to CHUNK_BYTES. */
void chunk_pack(const void *data, size_t len, struct strbuf *out);

/* Adds what is in the frame to `out`: exactly `len` bytes of that name, or ERROR_INVALID
 * ("chunk_broken") and nothing. */
MUST_CHECK int chunk_unpack(const void *packed, size_t packed_len, const uint8_t name[SHA256_BYTES],
                            size_t len, struct strbuf *out, struct error *err);

/* --- the list -------------------------------------------------------------------------------- */

struct chunk_entry {
    uint8_t name[SHA256_BYTES];
    uint32_t len; /* of what is in it, 1 to CHUNK_BYTES */
};

struct chunk_list { /* zeroed: empty */
    char owner[CHUNK_OWNER_MAX_BYTES + 1];
    int64_t saved_ns;            /* wall time */
    uint64_t bytes;              /* of the stream; the sum */
    struct chunk_entry *entries; /* owned */
    size_t count;
};

void chunk_list_release(struct chunk_list *list);
#define scoped_chunk_list __attribute__((cleanup(chunk_list_release)))

/* False: there are CHUNK_LIST_MAX already. */
bool chunk_list_add(struct chunk_list *list, const uint8_t name[SHA256_BYTES], size_t len);
bool chunk_list_has(const struct chunk_list *list, const uint8_t name[SHA256_BYTES]);

void chunk_list_write(const struct chunk_list *list, struct strbuf *out);
/* *out is touched only when all is well; else ERROR_INVALID ("chunk_list_broken"). */
MUST_CHECK int chunk_list_parse(struct chunk_list *out, const void *data, size_t len,
                                struct error *err);
