/* blob_ops.h - what a back end brings: the calls of blob.h, with keys that were checked
 *
 * Its own struct begins with a struct blob, and those of its puts and gets have a struct blob_put
 * or blob_get in them. What blob.h promises of each call is the back end's to keep. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob.h"

struct blob_ops {
    void (*free)(struct blob *blob);

    struct blob_put *(*put_open)(struct blob *blob, const struct blob_put_order *order);
    bool (*put_write)(struct blob_put *put, const void *data, size_t len);
    void (*put_end)(struct blob_put *put);
    void (*put_abort)(struct blob_put *put);

    struct blob_get *(*get_open)(struct blob *blob, const struct blob_get_order *order);
    void (*get_pause)(struct blob_get *get);
    void (*get_resume)(struct blob_get *get);
    void (*get_abort)(struct blob_get *get);

    void (*stat)(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx);
    void (*remove)(struct blob *blob, const char *key, blob_fn fn, void *ctx);
    /* with a limit of 1 to BLOB_PAGE_MAX; NULL: it cannot be listed */
    void (*list)(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn,
                 void *ctx);

    /* NULL: it has no addresses */
    void (*presign)(struct blob *blob, const struct blob_presign_order *order, struct strbuf *out);
    void (*get_health)(const struct blob *blob, struct blob_health *out);
};

struct blob {
    const struct blob_ops *ops;
};

struct blob_put {
    const struct blob_ops *ops;
};

struct blob_get {
    const struct blob_ops *ops;
};
