/* s3.c - where the bucket is, and the calls that are one request each */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/s3.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "blob/s3_inside.h"

#define REGION        "us-east-1"
#define PART_BYTES    (5 * MIB)
#define PAUSE_MS      250
#define ATTEMPTS      6
#define URL_MAX_BYTES (16 * KIB)

/* --- requests -------------------------------------------------------------------------------- */

struct sigv4_keys s3_keys(const struct s3 *s3)
{
    return (struct sigv4_keys){.access_key = s3->access_key,
                               .secret_key = s3->secret_key,
                               .session_token = s3->session_token,
                               .region = s3->region,
                               .service = "s3"};
}

int64_t s3_now_s(const struct s3 *s3)
{
    return clock_wall_ns() / 1000000000ll + s3->skew_s;
}

struct question {
    const struct s3 *s3;
    blob_stat_fn stat_fn; /* one of these */
    blob_fn remove_fn;
    blob_list_fn list_fn;
    void *ctx;
};

static void begin_question(struct s3 *s3, const struct s3_call_order *order,
                           const struct question *wanted)
{
    struct s3_call_order full = *order;
    struct question *q = xcalloc(1, sizeof(*q));
    *q = *wanted;
    q->s3 = s3;
    full.ctx = full.owned = q;
    s3_call_begin(s3, &full);
}

static void on_stat(void *ctx, struct s3_call *call, const struct error *err)
{
    const struct question *q = ctx;
    struct blob_info info;
    if (!err)
        s3_call_info(call, &info);
    q->stat_fn(q->ctx, err, err ? NULL : &info);
}

static void s3_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx)
{
    const struct s3_call_order order = {
        .what = "look at", .method = "HEAD", .key = key, .on_done = on_stat};
    begin_question((struct s3 *)blob, &order, &(struct question){.stat_fn = fn, .ctx = ctx});
}

static void on_remove(void *ctx, struct s3_call *call, const struct error *err)
{
    const struct question *q = ctx;
    (void)call;
    q->remove_fn(q->ctx, err && err->code != ERROR_NOT_FOUND ? err : NULL);
}

static void s3_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    const struct s3_call_order order = {
        .what = "remove", .method = "DELETE", .key = key, .on_done = on_remove};
    begin_question((struct s3 *)blob, &order, &(struct question){.remove_fn = fn, .ctx = ctx});
}

/* What others keep below our prefix by names of their own is not ours. */
static void add_entry(struct blob_page *page, struct blob_entry *entries,
                      const struct s3_item *item)
{
    struct blob_entry *entry = &entries[page->count];
    if (!blob_key_is_valid(item->key))
        return;
    *entry = (struct blob_entry){.key = item->key,
                                 .info = {.size = item->size, .modified_ns = item->modified_ns}};
    snprintf(entry->info.etag, sizeof(entry->info.etag), "%s", item->etag);
    page->count++;
}

static void on_list(void *ctx, struct s3_call *call, const struct error *err)
{
    const struct question *q = ctx;
    const struct s3_answer *answer = s3_call_answer(call);
    scoped_free struct blob_entry *entries = xcalloc(S3_ITEMS_MAX, sizeof(*entries));
    struct blob_page page = {.entries = entries, .has_more = answer->is_truncated};
    size_t skipped = strlen(q->s3->prefix);
    for (size_t i = 0; !err && i < answer->count; i++) {
        struct s3_item item = answer->items[i];
        if (strlen(item.key) < skipped)
            continue;
        item.key += skipped;
        add_entry(&page, entries, &item);
    }
    q->list_fn(q->ctx, err, err ? NULL : &page);
}

static void s3_list(struct blob *blob, const struct blob_list_order *order, blob_list_fn fn,
                    void *ctx)
{
    struct s3 *s3 = (struct s3 *)blob;
    scoped_free char *prefix = xasprintf("%s%s", s3->prefix, order->prefix);
    scoped_free char *after = xasprintf("%s%s", s3->prefix, order->after ? order->after : "");
    char limit[FORMAT_BYTES];
    format_u64(order->limit, limit);
    const struct s3_call_order call = {.what = "list",
                                       .method = "GET",
                                       .query = {{"list-type", "2"},
                                                 {"max-keys", limit},
                                                 {"prefix", prefix},
                                                 {order->after ? "start-after" : NULL, after}},
                                       .on_done = on_list};
    begin_question(s3, &call, &(struct question){.list_fn = fn, .ctx = ctx});
}

static void s3_presign(struct blob *blob, const struct blob_presign_order *order,
                       struct strbuf *out)
{
    static const char *const methods[] = {[BLOB_GET] = "GET", [BLOB_PUT] = "PUT"};
    const struct s3 *s3 = (const struct s3 *)blob;
    const struct sigv4_keys keys = s3_keys(s3);
    struct sigv4_pair query[2];
    size_t count = 0;
    if (order->disposition)
        query[count++] = (struct sigv4_pair){"response-content-disposition", order->disposition};
    if (order->type)
        query[count++] = (struct sigv4_pair){"response-content-type", order->type};
    scoped_strbuf struct strbuf path;
    strbuf_init(&path, URL_MAX_BYTES);
    strbuf_add_fmt(&path, "%s", s3->root);
    sigv4_add_path(&path, s3->prefix);
    sigv4_add_path(&path, order->key);
    const struct sigv4_request request = {.method = methods[order->method],
                                          .host = s3->host,
                                          .path = strbuf_str(&path),
                                          .query = query,
                                          .query_count = count,
                                          .payload_hash = SIGV4_UNSIGNED,
                                          .time_s = s3_now_s(s3)};
    strbuf_add_fmt(out, "%s%s?", s3->base, strbuf_str(&path));
    BUG_ON(!sigv4_presign(&keys, &request, order->expires_s, out));
}

/* --- open and end ---------------------------------------------------------------------------- */

static void free_secret(char *secret)
{
    if (secret)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
}

static void s3_free(struct blob *blob)
{
    struct s3 *s3 = (struct s3 *)blob;
    while (s3->writers)
        s3_put_cut(s3->writers);
    while (s3->readers)
        s3_get_cut(s3->readers);
    while (s3->calls)
        s3_call_cancel(s3->calls);
    free_secret(s3->secret_key);
    free_secret(s3->session_token);
    free_secret(s3->access_key);
    free(s3->base);
    free(s3->host);
    free(s3->root);
    free(s3->bucket);
    free(s3->prefix);
    free(s3->endpoint);
    free(s3->region);
    free(s3);
}

static void s3_get_health(const struct blob *blob, struct blob_health *out)
{
    *out = ((const struct s3 *)blob)->figures;
    out->kind = "s3";
}

static const struct blob_ops s3_ops = {
    .free = s3_free,
    .put_open = s3_put_open,
    .put_write = s3_put_write,
    .put_end = s3_put_end,
    .put_abort = s3_put_abort,
    .get_open = s3_get_open,
    .get_pause = s3_get_pause,
    .get_resume = s3_get_resume,
    .get_abort = s3_get_abort,
    .stat = s3_stat,
    .remove = s3_remove,
    .list = s3_list,
    .presign = s3_presign,
    .get_health = s3_get_health,
};

/* A bucket with dots is no name that a certificate for "*.host" covers. */
static bool is_virtual(const struct s3_order *o, const char *host)
{
    size_t len = strlen(host), tail = strlen(".amazonaws.com");
    if (o->addressing != S3_ADDRESSING_AUTO)
        return o->addressing == S3_ADDRESSING_VIRTUAL;
    return len > tail && strcmp(host + len - tail, ".amazonaws.com") == 0 &&
           !strchr(o->bucket, '.');
}

static void set_place(struct s3 *s3, const struct s3_order *o)
{
    s3->endpoint =
        o->endpoint ? xstrdup(o->endpoint) : xasprintf("https://s3.%s.amazonaws.com", s3->region);
    const char *host = s3_authority(s3->endpoint);
    bool is_in_host = is_virtual(o, host);
    s3->host = is_in_host ? xasprintf("%s.%s", o->bucket, host) : xstrdup(host);
    s3->base = xasprintf("%.*s%s", (int)(host - s3->endpoint), s3->endpoint, s3->host);
    s3->root = is_in_host ? xstrdup("/") : xasprintf("/%s/", o->bucket);
}

static char *copy_of(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

int s3_open(struct blob **out, struct loop *loop, struct http_client *client,
            const struct s3_order *o, struct error *err)
{
    if (s3_check(o, err) < 0)
        return -1;
    struct s3 *s3 = xcalloc(1, sizeof(*s3));
    *s3 = (struct s3){.blob = {.ops = &s3_ops},
                      .loop = loop,
                      .client = client,
                      .bucket = xstrdup(o->bucket),
                      .prefix = xstrdup(o->prefix ? o->prefix : ""),
                      .region = xstrdup(o->region ? o->region : REGION),
                      .access_key = xstrdup(o->access_key),
                      .secret_key = xstrdup(o->secret_key),
                      .session_token = copy_of(o->session_token),
                      .part_bytes = o->part_bytes ? o->part_bytes : PART_BYTES,
                      .pause_ms = o->pause_ms ? o->pause_ms : PAUSE_MS,
                      .attempts = o->attempts ? o->attempts : ATTEMPTS};
    set_place(s3, o);
    *out = &s3->blob;
    return 0;
}
