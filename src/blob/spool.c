/* spool.c - the calls of blob.h on two stores: into the near one, out of whichever has it
 *
 * A blob is looked for near first: what is not there any more has reached the far store before it
 * went. A removal goes the other way round, and waits for a move of the same blob, which would
 * bring it back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "blob/spool_inside.h"

static struct spool *spool_of(struct blob *blob)
{
    return (struct spool *)blob;
}

/* --- put -------------------------------------------------------------------------------------- */

struct spool_put {
    struct blob_put base;
    struct spool *spool;
    struct spool_put *next, **at; /* of all that are open */
    struct blob_put *inner;
    void (*on_drain)(void *ctx);
    void (*on_done)(void *ctx, const struct error *err);
    void *ctx;
};

static void free_put(struct spool_put *p)
{
    *p->at = p->next;
    if (p->next)
        p->next->at = p->at;
    free(p);
}

static void on_put_drain(void *ctx)
{
    const struct spool_put *p = ctx;
    if (p->on_drain)
        p->on_drain(p->ctx);
}

static void on_put_done(void *ctx, const struct error *err)
{
    struct spool_put *p = ctx;
    const struct spool_put copy = *p;
    free_put(p);
    if (!err)
        spool_move_begin(copy.spool);
    copy.on_done(copy.ctx, err);
}

static struct blob_put *spool_put_open(struct blob *blob, const struct blob_put_order *order)
{
    struct spool *s = spool_of(blob);
    struct spool_put *p = xcalloc(1, sizeof(*p));
    *p = (struct spool_put){.base.ops = blob->ops,
                            .spool = s,
                            .next = s->writers,
                            .at = &s->writers,
                            .on_drain = order->on_drain,
                            .on_done = order->on_done,
                            .ctx = order->ctx};
    if (p->next)
        p->next->at = &p->next;
    s->writers = p;
    struct blob_put_order inner = *order;
    inner.on_drain = on_put_drain;
    inner.on_done = on_put_done;
    inner.ctx = p;
    p->inner = blob_put_open(s->order.near, &inner);
    return &p->base;
}

static bool spool_put_write(struct blob_put *put, const void *data, size_t len)
{
    return blob_put_write(((struct spool_put *)put)->inner, data, len);
}

static void spool_put_end(struct blob_put *put)
{
    blob_put_end(((struct spool_put *)put)->inner);
}

static void spool_put_abort(struct blob_put *put)
{
    struct spool_put *p = (struct spool_put *)put;
    blob_put_abort(p->inner); /* NOLINT(clang-analyzer-unix.Malloc): those freed left the list */
    free_put(p);
}

/* --- get -------------------------------------------------------------------------------------- */

struct spool_get {
    struct blob_get base;
    struct spool *spool;
    struct spool_get *next, **at;
    struct blob_get *inner;
    struct blob_get_order order;
    char key[BLOB_KEY_MAX_BYTES + 1];
    bool is_far, is_paused;
};

static void free_get(struct spool_get *g)
{
    *g->at = g->next;
    if (g->next)
        g->next->at = g->at;
    free(g);
}

static void on_get_begin(void *ctx, const struct blob_info *info)
{
    const struct spool_get *g = ctx;
    if (g->order.on_begin)
        g->order.on_begin(g->order.ctx, info);
}

static void on_get_data(void *ctx, const void *data, size_t len)
{
    const struct spool_get *g = ctx;
    g->order.on_data(g->order.ctx, data, len);
}

static void get_from(struct spool_get *g, struct blob *blob);

static void on_get_done(void *ctx, const struct error *err)
{
    struct spool_get *g = ctx;
    if (err && err->code == ERROR_NOT_FOUND && !g->is_far) {
        g->is_far = true;
        get_from(g, g->spool->order.far);
        return;
    }
    const struct blob_get_order order = g->order;
    free_get(g);
    order.on_done(order.ctx, err);
}

static void get_from(struct spool_get *g, struct blob *blob)
{
    struct blob_get_order inner = g->order;
    inner.key = g->key;
    inner.on_begin = on_get_begin;
    inner.on_data = on_get_data;
    inner.on_done = on_get_done;
    inner.ctx = g;
    g->inner = blob_get_open(blob, &inner);
    if (g->is_paused)
        blob_get_pause(g->inner);
}

static struct blob_get *spool_get_open(struct blob *blob, const struct blob_get_order *order)
{
    struct spool *s = spool_of(blob);
    struct spool_get *g = xcalloc(1, sizeof(*g));
    *g = (struct spool_get){
        .base.ops = blob->ops, .spool = s, .next = s->readers, .at = &s->readers, .order = *order};
    snprintf(g->key, sizeof(g->key), "%s", order->key);
    if (g->next)
        g->next->at = &g->next;
    s->readers = g;
    get_from(g, s->order.near);
    return &g->base;
}

static void spool_get_pause(struct blob_get *get)
{
    struct spool_get *g = (struct spool_get *)get;
    g->is_paused = true;
    blob_get_pause(g->inner);
}

static void spool_get_resume(struct blob_get *get)
{
    struct spool_get *g = (struct spool_get *)get;
    g->is_paused = false;
    blob_get_resume(g->inner);
}

static void spool_get_abort(struct blob_get *get)
{
    struct spool_get *g = (struct spool_get *)get;
    blob_get_abort(g->inner); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    free_get(g);
}

/* --- stat and remove -------------------------------------------------------------------------- */

struct spool_question {
    struct spool *spool;
    struct spool_question *next, **at;
    char key[BLOB_KEY_MAX_BYTES + 1];
    blob_stat_fn stat_fn; /* one of the two */
    blob_fn fn;
    void *ctx;
    bool is_waiting; /* for the end of a move */
};

static struct spool_question *ask(struct spool *s, const char *key, const struct spool_question *o)
{
    struct spool_question *q = xcalloc(1, sizeof(*q));
    *q = *o;
    q->spool = s;
    q->next = s->questions;
    q->at = &s->questions;
    snprintf(q->key, sizeof(q->key), "%s", key);
    if (q->next)
        q->next->at = &q->next;
    s->questions = q;
    return q;
}

/* What was asked, off the list. */
static struct spool_question close_question(struct spool_question *q)
{
    const struct spool_question copy = *q;
    *q->at = q->next;
    if (q->next)
        q->next->at = q->at;
    free(q);
    return copy;
}

static void on_far_stat(void *ctx, const struct error *err, const struct blob_info *info)
{
    const struct spool_question q = close_question(ctx);
    q.stat_fn(q.ctx, err, info);
}

static void on_near_stat(void *ctx, const struct error *err, const struct blob_info *info)
{
    struct spool_question *q = ctx;
    if (err && err->code == ERROR_NOT_FOUND) {
        blob_stat(q->spool->order.far, q->key, on_far_stat, q);
        return;
    }
    struct blob_info near = err ? (struct blob_info){0} : *info;
    near.is_near = true;
    const struct spool_question copy = close_question(q);
    copy.stat_fn(copy.ctx, err, err ? NULL : &near);
}

static void spool_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx)
{
    struct spool *s = spool_of(blob);
    struct spool_question *q = ask(s, key, &(struct spool_question){.stat_fn = fn, .ctx = ctx});
    blob_stat(s->order.near, key, on_near_stat, q);
}

static void on_near_removed(void *ctx, const struct error *err)
{
    const struct spool_question q = close_question(ctx);
    q.fn(q.ctx, err);
}

static void on_far_removed(void *ctx, const struct error *err)
{
    struct spool_question *q = ctx;
    if (err)
        on_near_removed(q, err);
    else
        blob_remove(q->spool->order.near, q->key, on_near_removed, q);
}

static void remove_or_wait(struct spool_question *q)
{
    const char *moving = q->spool->move.key;
    q->is_waiting = moving && strcmp(moving, q->key) == 0;
    if (!q->is_waiting)
        blob_remove(q->spool->order.far, q->key, on_far_removed, q);
}

static void spool_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    remove_or_wait(ask(spool_of(blob), key, &(struct spool_question){.fn = fn, .ctx = ctx}));
}

void spool_on_moved(struct spool *s)
{
    for (struct spool_question *q = s->questions; q; q = q->next) {
        if (q->is_waiting)
            remove_or_wait(q);
    }
}

/* --- the rest --------------------------------------------------------------------------------- */

static void spool_presign(struct blob *blob, const struct blob_presign_order *order,
                          struct strbuf *out)
{
    blob_presign(spool_of(blob)->order.far, order, out);
}

static void spool_get_health(const struct blob *blob, struct blob_health *out)
{
    blob_get_health(((const struct spool *)blob)->order.far, out);
}

static void spool_free(struct blob *blob)
{
    struct spool *s = spool_of(blob);
    spool_move_release(s);
    while (s->writers)
        spool_put_abort(&s->writers->base);
    while (s->readers)
        spool_get_abort(&s->readers->base);
    while (s->questions)
        close_question(s->questions); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    free(s->prefix);
    free(s);
}

static const struct blob_ops spool_ops = {
    .free = spool_free,
    .put_open = spool_put_open,
    .put_write = spool_put_write,
    .put_end = spool_put_end,
    .put_abort = spool_put_abort,
    .get_open = spool_get_open,
    .get_pause = spool_get_pause,
    .get_resume = spool_get_resume,
    .get_abort = spool_get_abort,
    .stat = spool_stat,
    .remove = spool_remove,
    .presign = spool_presign,
    .get_health = spool_get_health,
};

struct blob *spool_new(const struct spool_order *order)
{
    struct spool *s = xcalloc(1, sizeof(*s));
    *s = (struct spool){.blob.ops = &spool_ops, .order = *order, .prefix = xstrdup(order->prefix)};
    spool_move_begin(s);
    return &s->blob;
}
