/* blob.c - checks what back ends rely on, and hands over */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/blob.h"

#include <string.h>

#include "blob/blob_ops.h"

#define SEGMENT_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

/* --- keys ------------------------------------------------------------------------------------ */

/* Whole segments up to the last one, which may be cut short when `is_prefix`. */
static bool is_path(const char *text, bool is_prefix)
{
    size_t segments = 0;
    if (strlen(text) > BLOB_KEY_MAX_BYTES)
        return false;
    for (;; text++) {
        size_t len = strspn(text, SEGMENT_CHARACTERS);
        bool is_last = text[len] == '\0';
        if (len == 0 && !(is_last && is_prefix))
            return false;
        if (len > BLOB_SEGMENT_MAX_BYTES || *text == '.' || ++segments > BLOB_KEY_MAX_SEGMENTS)
            return false;
        if (is_last)
            return true;
        text += len;
        if (*text != '/')
            return false;
    }
}

bool blob_key_is_valid(const char *key)
{
    return is_path(key, false);
}

bool blob_prefix_is_valid(const char *prefix)
{
    return is_path(prefix, true);
}

/* --- calls ----------------------------------------------------------------------------------- */

void blob_free(struct blob *blob)
{
    if (blob)
        blob->ops->free(blob);
}

struct blob_put *blob_put_open(struct blob *blob, const struct blob_put_order *order)
{
    BUG_ON(!blob_key_is_valid(order->key));
    return blob->ops->put_open(blob, order);
}

bool blob_put_write(struct blob_put *put, const void *data, size_t len)
{
    return put->ops->put_write(put, data, len);
}

void blob_put_end(struct blob_put *put)
{
    put->ops->put_end(put);
}

void blob_put_abort(struct blob_put *put)
{
    put->ops->put_abort(put);
}

struct blob_get *blob_get_open(struct blob *blob, const struct blob_get_order *order)
{
    BUG_ON(!blob_key_is_valid(order->key));
    return blob->ops->get_open(blob, order);
}

void blob_get_pause(struct blob_get *get)
{
    get->ops->get_pause(get);
}

void blob_get_resume(struct blob_get *get)
{
    get->ops->get_resume(get);
}

void blob_get_abort(struct blob_get *get)
{
    get->ops->get_abort(get);
}

void blob_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx)
{
    BUG_ON(!blob_key_is_valid(key));
    blob->ops->stat(blob, key, fn, ctx);
}

void blob_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    BUG_ON(!blob_key_is_valid(key));
    blob->ops->remove(blob, key, fn, ctx);
}

void blob_list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn, void *ctx)
{
    struct blob_list_order checked = *order;
    BUG_ON(!blob_prefix_is_valid(order->prefix) ||
           (order->after && !blob_key_is_valid(order->after)));
    if (checked.limit == 0 || checked.limit > BLOB_PAGE_MAX)
        checked.limit = BLOB_PAGE_MAX;
    blob->ops->list(blob, &checked, fn, ctx);
}

bool blob_can_presign(const struct blob *blob)
{
    return blob->ops->presign != NULL;
}

void blob_presign(struct blob *blob, const struct blob_presign_order *order, struct strbuf *out)
{
    BUG_ON(!blob_can_presign(blob) || !blob_key_is_valid(order->key) || order->expires_s < 1 ||
           order->expires_s > BLOB_PRESIGN_MAX_S);
    blob->ops->presign(blob, order, out);
}

void blob_get_health(const struct blob *blob, struct blob_health *out)
{
    *out = (struct blob_health){0};
    blob->ops->get_health(blob, out);
}
