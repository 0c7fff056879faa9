/* archive.h - artifacts at rest: kept when an execution has ended, found again, removed in time
 *
 * Bytes lie in the blob store under artifacts/{execution}/{sha256}, and each has a row in the store
 * that names its place. The row is written before the bytes, and forgets its place after they were
 * removed: so whatever dies in between, no bytes lie there that no row knows of. Nothing is shared
 * between executions, so nothing has to be counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "blob/blob.h"
#include "codec/sha256.h"
#include "core/haul.h"
#include "event/loop.h"
#include "store/store.h"

struct archive;

#define ARCHIVE_PREFIX "artifacts/" /* of all keys */

/* Borrowed as long as the archive lives. */
struct archive_order {
    struct loop *loop;
    struct store *store;
    struct blob *blob;
    const struct log *log;
    uint64_t retention_ms;    /* after the session's end */
    uint64_t disk_bytes;      /* of all; the oldest go first */
    uint64_t execution_bytes; /* of one execution; 0: nothing is kept */
};

struct archive *archive_new(const struct archive_order *order);
/* After the store and before the blob store, which it then asks nothing any more. Whoever waits is
 * told that it is over. */
void archive_free(struct archive *archive);

/* What an execution that ends now may leave, at most; 0: nothing, for the moment or at all. */
uint64_t archive_room(const struct archive *archive);

struct session;

/* Where the bytes of large files are until they were read. */
struct archive_source {
    /* The session with the files of an execution (`session` is NULL for one without any); NULL: it
     * is gone. Asked anew each time. */
    struct session *(*find)(void *ctx, const char *execution, const char *session);
    /* They were read, or will not be, or it took too long: the session may go on. Once for each
     * haul with such files, from the loop. */
    void (*carried)(void *ctx, const char *execution, const char *session);
};
void archive_set_source(struct archive *archive, const struct archive_source *source, void *ctx);

/* The rows of what an execution left, which its end is written with: before the first byte is put,
 * and so that nobody finds an end whose files have no address. */
struct archive_rows {
    struct store_list list; /* of struct store_artifact; borrows from `haul` and the execution */
    char *places;
};
void archive_rows_init(struct archive_rows *rows, const char *execution, const struct haul *haul);
void archive_rows_release(struct archive_rows *rows);

/* Whether this file's bytes are still on their way, so that it has no place in its row. */
bool archive_awaits(const struct archive *archive, const char *execution, const char *path);

/* Keeps what is wanted of `haul`, which is taken. Its rows are there already. */
void archive_keep(struct archive *archive, const char *execution, const char *session,
                  struct haul *haul);

/* Borrowed for the call. */
struct archive_file {
    const char *place; /* for blob_get_open() */
    const char *mime;
    uint64_t size;
    int64_t modified_ns;
    uint8_t sha256[SHA256_BYTES];
};

/* Once, from the loop: NULL with *err when it is not there ("artifact_not_found"), or not any more
 * ("artifact_gone"). Waits for what is being kept. */
typedef void (*archive_fn)(void *ctx, const struct archive_file *file, const struct error *err);
void archive_find(struct archive *archive, const char *execution, const char *path, archive_fn fn,
                  void *ctx);
