/* catalog_kept.c - kinds with packages of a request's own live on for a while, with a few parked
 *
 * Who asks twice for the same packages gets the second sandbox as fast as one without them. They
 * are few, the one that was asked for longest ago makes room, and nobody's wish is stronger than
 * that of who removes a layer: its sandboxes are let go as soon as he asks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "core/catalog_inside.h"

#define KEEP_NS (60 * 1000000000ll) /* after somebody asked for it last */
#define LOOK_MS 500

static void look(void *ctx);

static void set_timer(struct catalog *c)
{
    loop_timer_free(c->kept.timer);
    c->kept.timer = c->kept.count ? loop_timer_new(c->order.loop, LOOK_MS, look, c) : NULL;
}

/* Whoever has a session of it holds it longer; its pool goes now. */
static void drop(struct catalog *c, size_t index)
{
    struct catalog_kind *k = c->kept.kinds[index];
    c->kept.kinds[index] = c->kept.kinds[--c->kept.count];
    kind_close_pool(k);
    catalog_let_go(k);
}

void kept_drop_of(struct catalog *c, const struct catalog_kind *base)
{
    for (size_t i = c->kept.count; i > 0; i--) {
        if (!base || c->kept.kinds[i - 1]->base == base)
            drop(c, i - 1);
    }
    if (c->kept.count == 0)
        set_timer(c);
}

static bool has_failed(const struct catalog_kind *k)
{
    struct pool_info info;
    return catalog_get_pool(k, &info) && info.error.msg[0] && info.parked + info.creating == 0;
}

/* --- layers that are to be removed ------------------------------------------------------------ */

static void on_found(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds, (void)err;
    struct catalog *c = ctx;
    for (size_t i = c->kept.count; m && m->layer_found.is_unwanted && i > 0; i--) {
        const struct packages *p = &c->kept.kinds[i - 1]->packages;
        if (memcmp(p->digest, m->layer_found.digest, sizeof(p->digest)) == 0)
            drop(c, i - 1);
    }
}

static void ask(struct catalog *c, const struct catalog_kind *k)
{
    struct spawn_message m = {.verb = SPAWN_FIND_LAYER};
    memcpy(m.layer.digest, k->packages.digest, sizeof(m.layer.digest));
    spawner_client_ask(c->order.spawner, &m, on_found, c);
}

static void look(void *ctx)
{
    struct catalog *c = ctx;
    int64_t now = clock_now_ns();
    for (size_t i = c->kept.count; i > 0; i--) {
        const struct catalog_kind *k = c->kept.kinds[i - 1];
        if (now - k->used_ns > KEEP_NS || has_failed(k))
            drop(c, i - 1);
        else
            ask(c, k);
    }
    set_timer(c);
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool has_same(const struct param_strings *a, const struct param_strings *b)
{
    size_t i = 0;
    while (a->count == b->count && i < a->count && strcmp(a->items[i], b->items[i]) == 0)
        i++;
    return a->count == b->count && i == a->count;
}

struct catalog_kind *kept_find(struct catalog *c, const struct catalog_kind *base,
                               const struct param_strings *requirements)
{
    for (size_t i = 0; i < c->kept.count; i++) {
        struct catalog_kind *k = c->kept.kinds[i];
        if (k->base == base && has_same(&k->spec.requirements, requirements)) {
            k->used_ns = clock_now_ns();
            return k;
        }
    }
    return NULL;
}

static struct catalog_kind *find_layer(const struct catalog *c, const struct catalog_kind *like)
{
    for (size_t i = 0; i < c->kept.count; i++) {
        struct catalog_kind *k = c->kept.kinds[i];
        if (k->base == like->base &&
            memcmp(k->packages.digest, like->packages.digest, sizeof(k->packages.digest)) == 0)
            return k;
    }
    return NULL;
}

static size_t find_oldest(const struct catalog *c)
{
    size_t oldest = 0;
    for (size_t i = 1; i < c->kept.count; i++) {
        if (c->kept.kinds[i]->used_ns < c->kept.kinds[oldest]->used_ns)
            oldest = i;
    }
    return oldest;
}

struct catalog_kind *kept_add(struct catalog *c, struct catalog_kind *k)
{
    struct error ignored; /* without a pool it is as if nobody had kept it */
    struct catalog_kind *other = find_layer(c, k);
    if (other) {
        catalog_let_go(k);
        other->used_ns = clock_now_ns();
        return kind_hold(other);
    }
    if (c->is_closing || kind_need_pool(k, &ignored) < 0)
        return k;
    if (c->kept.count == CATALOG_KEPT_MAX)
        drop(c, find_oldest(c));
    k->used_ns = clock_now_ns();
    c->kept.kinds[c->kept.count++] = kind_hold(k);
    if (!c->kept.timer)
        set_timer(c);
    return k;
}
