/* blob.h - bytes at rest by a key: workspaces and artifacts, on any back end
 *
 * Everything here is called on the loop's thread and does not block. Callbacks come later, on the
 * same thread, and never from inside the call that asks for them. Nothing is ever whole in memory:
 * who writes and who reads waits for who is slower.
 *
 * A put is all or nothing: until it is done a reader finds what was there before, afterwards the
 * new bytes, and kill -9 in between leaves the old ones and no rest. What was told as done survives
 * the end of any process.
 *
 * Errors name the key and never a path of the host nor a secret:
 *   ERROR_NOT_FOUND    nothing is there ("blob_not_found")
 *   ERROR_UNAVAILABLE  the back end cannot now: full ("storage_full"), dead, slow, refusing us
 *                      ("storage_unavailable", "storage_denied"); nothing has changed unless said
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"

struct strbuf;
struct blob; /* one place where blobs are kept; opened by disk.h or s3.h */

/* Cuts off all that is under way, without a call to anybody; a put that was not done leaves
 * nothing. Not from a callback. NULL is fine. */
void blob_free(struct blob *blob);
SCOPED_DEFINE(blob)

/* --- keys ------------------------------------------------------------------------------------ */

/* "artifacts/exe_.../9f86d081": segments of letters, digits, "-", "_" and "." (not in front), with
 * slashes between them. Made by us of ids and digests; a name that a stranger chose is never part
 * of a key. A bad key is a bug of the caller. */
#define BLOB_KEY_MAX_BYTES     512
#define BLOB_SEGMENT_MAX_BYTES 200
#define BLOB_KEY_MAX_SEGMENTS  12
#define BLOB_ETAG_MAX_BYTES    96

bool blob_key_is_valid(const char *key);
bool blob_prefix_is_valid(const char *prefix); /* "" and what a key may begin with */

struct blob_info {
    uint64_t size;
    int64_t modified_ns;            /* wall time */
    bool is_near;                   /* not yet where a presigned address leads */
    char etag[BLOB_ETAG_MAX_BYTES]; /* another one when the bytes are others; no quotes */
};

/* --- put ------------------------------------------------------------------------------------- */

#define BLOB_SIZE_UNKNOWN UINT64_MAX

struct blob_put;

struct blob_put_order {
    const char *key;             /* borrowed for the call; what is there is replaced */
    uint64_t size;               /* then exactly so many must come; or BLOB_SIZE_UNKNOWN */
    const char *content_type;    /* NULL: bytes; for who gets it by a presigned address */
    void (*on_drain)(void *ctx); /* more is welcome again; NULL: not of interest */
    /* Exactly once: after blob_put_end() when it is kept (err is NULL), or as soon as it failed.
     * The put is gone when this is called. */
    void (*on_done)(void *ctx, const struct error *err);
    void *ctx;
};

struct blob_put *blob_put_open(struct blob *blob, const struct blob_put_order *order);

/* Copies. True: more is welcome. False: wait for on_drain(); what comes before is kept in memory.
 */
bool blob_put_write(struct blob_put *put, const void *data, size_t len);
void blob_put_end(struct blob_put *put);   /* all was written; on_done() comes */
void blob_put_abort(struct blob_put *put); /* nothing is left of it; no call comes any more */

/* --- get ------------------------------------------------------------------------------------- */

struct blob_get;

struct blob_get_order {
    const char *key;
    uint64_t offset; /* beyond the end is ERROR_INVALID ("range_not_satisfiable") */
    uint64_t length; /* at most; 0: to the end */
    /* Once, before the first bytes; the size is that of the whole. May be NULL. */
    void (*on_begin)(void *ctx, const struct blob_info *info);
    void (*on_data)(void *ctx, const void *data, size_t len); /* borrowed for the call */
    /* Exactly once: NULL when all has come. The get is gone when this is called. */
    void (*on_done)(void *ctx, const struct error *err);
    void *ctx;
};

struct blob_get *blob_get_open(struct blob *blob, const struct blob_get_order *order);
void blob_get_pause(struct blob_get *get);  /* no call comes until... */
void blob_get_resume(struct blob_get *get); /* ...this */
void blob_get_abort(struct blob_get *get);  /* no call comes any more; also from its callbacks */

/* --- the rest -------------------------------------------------------------------------------- */

/* err is NULL when it went well; all is borrowed for the call. */
typedef void (*blob_fn)(void *ctx, const struct error *err);
typedef void (*blob_stat_fn)(void *ctx, const struct error *err, const struct blob_info *info);

void blob_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx);

/* One that is not there is removed already. */
void blob_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx);

#define BLOB_PAGE_MAX 1000

struct blob_entry {
    const char *key;
    struct blob_info info;
};

struct blob_page {
    const struct blob_entry *entries; /* in the order of their bytes */
    size_t count;
    bool has_more; /* ask again with `after` as the last key */
};

typedef void (*blob_list_fn)(void *ctx, const struct error *err, const struct blob_page *page);

struct blob_list_order {
    const char *prefix;
    const char *after; /* a key, or NULL: from the beginning */
    size_t limit;      /* 0: BLOB_PAGE_MAX */
};

void blob_list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn, void *ctx);

/* --- addresses that work without us ---------------------------------------------------------- */

enum blob_method { BLOB_GET, BLOB_PUT };

#define BLOB_PRESIGN_MAX_S (7 * 24 * 3600u)

struct blob_presign_order {
    enum blob_method method;
    const char *key;
    unsigned expires_s;      /* 1 to BLOB_PRESIGN_MAX_S */
    const char *disposition; /* GET: what Content-Disposition the answer is to have; NULL: none */
    const char *type;        /* GET: and what Content-Type; NULL: that with which it was put */
};

bool blob_can_presign(const struct blob *blob); /* disks have no address */
/* Adds the address to `out`. It is a secret as long as it lives: in no log. */
void blob_presign(struct blob *blob, const struct blob_presign_order *order, struct strbuf *out);

/* --- for /health and metrics ------------------------------------------------------------------ */

struct blob_health {
    const char *kind;               /* "disk", "s3" */
    bool is_failing;                /* the last request failed by the back end's fault... */
    char why[512];                  /* ...because of this; may name the bucket or the endpoint */
    uint64_t done, failed, retried; /* requests so far */
};

void blob_get_health(const struct blob *blob, struct blob_health *out);
