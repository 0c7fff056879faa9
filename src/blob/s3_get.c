/* s3_get.c - reading: one call, which goes on by itself where it broke off */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "blob/s3_inside.h"

struct s3_get {
    struct blob_get get;
    struct s3 *s3;
    struct s3_get *next, **at;
    struct blob_get_order order;
    char *key;
    struct s3_call *call;
    bool is_told, is_dropped; /* in a callback that has more to do; and ended there */
};

static struct s3_get *of(struct blob_get *get)
{
    return (struct s3_get *)get;
}

static void get_free(struct s3_get *g)
{
    *g->at = g->next;
    if (g->next)
        g->next->at = g->at;
    free(g->key);
    free(g);
}

static void finish(struct s3_get *g, const struct error *err)
{
    g->order.on_done(g->order.ctx, err);
    get_free(g);
}

static void on_head(void *ctx, struct s3_call *call)
{
    struct s3_get *g = ctx;
    struct blob_info info;
    s3_call_info(call, &info);
    if (g->order.on_begin)
        g->order.on_begin(g->order.ctx, &info);
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct s3_get *g = ctx;
    g->order.on_data(g->order.ctx, data, len);
}

/* S3 refuses a range in which there is no byte; reading nothing at the very end is fine, though. */
static void on_size(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_get *g = ctx;
    struct blob_info info;
    struct error local;
    g->call = NULL;
    if (err) {
        finish(g, err);
        return;
    }
    s3_call_info(call, &info);
    if (g->order.offset <= info.size) {
        g->is_told = true;
        if (g->order.on_begin)
            g->order.on_begin(g->order.ctx, &info);
    } else {
        error_set(&local, ERROR_INVALID, "blob '%s' has %llu bytes, and no byte %llu", g->key,
                  (unsigned long long)info.size, (unsigned long long)g->order.offset);
        error_word(&local, "range_not_satisfiable");
        err = &local;
    }
    if (g->is_dropped)
        get_free(g);
    else
        finish(g, err);
}

static void on_done(void *ctx, struct s3_call *call, const struct error *err)
{
    struct s3_get *g = ctx;
    g->call = NULL;
    if (err && s3_call_status(call) == 416) {
        g->call = s3_call_begin(
            g->s3,
            &(struct s3_call_order){
                .what = "look at", .method = "HEAD", .key = g->key, .on_done = on_size, .ctx = g});
        return;
    }
    finish(g, err);
}

struct blob_get *s3_get_open(struct blob *blob, const struct blob_get_order *order)
{
    struct s3 *s3 = (struct s3 *)blob;
    struct s3_get *g = xcalloc(1, sizeof(*g));
    *g = (struct s3_get){.get = {.ops = blob->ops},
                         .s3 = s3,
                         .next = s3->readers,
                         .at = &s3->readers,
                         .order = *order,
                         .key = xstrdup(order->key)};
    if (g->next)
        g->next->at = &g->next;
    s3->readers = g;
    g->call = s3_call_begin(s3, &(struct s3_call_order){.what = "read",
                                                        .method = "GET",
                                                        .key = g->key,
                                                        .is_stream = true,
                                                        .offset = order->offset,
                                                        .length = order->length,
                                                        .on_head = on_head,
                                                        .on_data = on_data,
                                                        .on_done = on_done,
                                                        .ctx = g});
    return &g->get;
}

void s3_get_pause(struct blob_get *get)
{
    if (of(get)->call)
        s3_call_pause(of(get)->call);
}

void s3_get_resume(struct blob_get *get)
{
    if (of(get)->call)
        s3_call_resume(of(get)->call);
}

void s3_get_cut(struct s3_get *g)
{
    if (g->call)
        s3_call_cancel(g->call);
    g->is_dropped = true;
    if (!g->is_told)
        get_free(g);
}

void s3_get_abort(struct blob_get *get)
{
    s3_get_cut(of(get));
}
