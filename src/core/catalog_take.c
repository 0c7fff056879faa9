/* catalog_take.c - a session of a kind, or of one that differs a little */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/catalog_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define WARM_RETRY_MS 1000

static bool is_nothing(const struct resource_spec *over)
{
    static const struct resource_spec nothing;
    /* Who reads one zeroes it first, the gaps between its fields included.
     * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
    return !over || memcmp(over, &nothing, sizeof(nothing)) == 0;
}

/* The template's packages and those of the request; an installer sees whether they agree. The
 * strings stay their owners'. */
static struct param_strings join(const struct param_strings *a, const struct param_strings *b)
{
    struct param_strings both = {.items = xcalloc(a->count + b->count + 1, sizeof(*both.items))};
    for (size_t i = 0; i < a->count; i++)
        both.items[both.count++] = a->items[i];
    for (size_t i = 0; i < b->count; i++)
        both.items[both.count++] = b->items[i];
    return both;
}

static bool has_packages(const struct catalog_extra *extra)
{
    return extra->requirements && extra->requirements->count > 0;
}

static int make_other(struct catalog_kind **out, struct catalog_kind *k,
                      const struct template_spec *spec, const struct resource_spec *over,
                      struct error *err)
{
    if (kind_make(out, k->catalog, k->book, k->id, spec, over, err) < 0)
        return -1;
    (*out)->base = kind_hold(k);
    /* With packages of the request's own, what the image brings would be imported while somebody
     * waits, and shared with nobody. */
    if (!recipe_template(k->recipe)->preload)
        recipe_template((*out)->recipe)->preload = NULL;
    return 0;
}

/* One that differs from `k` by its packages only: the next who asks has it ready. */
static int hold_kept(struct catalog_kind **held, struct catalog_kind *k,
                     const struct template_spec *spec, struct error *err)
{
    struct catalog_kind *kept = kept_find(k->catalog, k, &spec->requirements), *made;
    if (kept) {
        *held = kind_hold(kept);
        return 0;
    }
    if (make_other(&made, k, spec, NULL, err) < 0)
        return -1;
    *held = kept_add(k->catalog, made);
    return 0;
}

static int hold_with(struct catalog_kind *k, const struct catalog_extra *extra,
                     struct catalog_kind **held, struct error *err)
{
    struct template_spec spec = k->spec;
    if (is_nothing(extra->over) && !has_packages(extra)) {
        *held = kind_hold(k);
        return 0;
    }
    if (!has_packages(extra))
        return make_other(held, k, &spec, extra->over, err);
    spec.requirements = join(&k->spec.requirements, extra->requirements);
    int status = is_nothing(extra->over) ? hold_kept(held, k, &spec, err)
                                         : make_other(held, k, &spec, extra->over, err);
    free(spec.requirements.items);
    return status;
}

int catalog_hold(struct catalog_kind *k, const struct resource_spec *over,
                 struct catalog_kind **held, struct error *err)
{
    return hold_with(k, &(struct catalog_extra){.over = over}, held, err);
}

int catalog_reckon(const struct catalog_kind *k, const struct resource_spec *over,
                   struct spawn_limits *out, struct error *err)
{
    return template_limits(out, &k->catalog->order.bounds, &k->spec.resources, over, err);
}

/* The same as every session of the kind has: then it needs none of its own. */
static bool is_usual(const struct catalog_kind *k, const struct resource_spec *spec)
{
    const struct spawn_limits *limits = catalog_limits(k);
    return spec->memory_bytes == limits->memory_bytes && spec->disk_bytes == limits->disk_bytes &&
           (uint64_t)spec->pids == limits->pids &&
           (uint64_t)(spec->cpus * 1000 + 0.5) == limits->cpu_milli;
}

static int revive_as(struct catalog *c, const char *id, const char *language,
                     const struct resource_spec *limits, struct catalog_kind **held,
                     struct error *err)
{
    struct map_node *node = map_find(&c->by_id, id);
    struct catalog_kind *k = node ? MAP_OF(node, struct catalog_kind, by_id) : NULL;
    if (k && strcmp(k->spec.language, language) == 0)
        return catalog_hold(k, limits && is_usual(k, limits) ? NULL : limits, held, err);
    char *word = (char *)language; /* it is only read */
    const struct template_spec plain = {.name = word, .language = word};
    return kind_make(held, c, c->book, id, &plain, limits, err);
}

int catalog_revive(struct catalog *c, const char *id, const char *language,
                   const struct resource_spec *limits, struct catalog_kind **held,
                   struct error *err)
{
    if (revive_as(c, id, language, limits, held, err) == 0)
        return 0;
    return revive_as(c, id, language, NULL, held, err); /* its sandbox has them, told or not */
}

/* One that is started cold could never be forked, and nobody would know before. */
static int check_forks(const struct catalog_kind *k, const struct catalog_kind *own,
                       struct error *err)
{
    if (recipe_template(own->recipe)->forks == 0 || (k->pool && pool_zygote(k->pool)))
        return 0;
    error_set(err, ERROR_UNAVAILABLE, "the warm interpreter that forks are made of is not ready");
    error_word(err, "warming_up");
    error_hint(err, "try again in a moment");
    err->retry_ms = WARM_RETRY_MS;
    return -1;
}

int catalog_take(struct catalog_kind *k, const struct catalog_extra *extra, struct session **out,
                 struct catalog_kind **held, bool *is_parked, const struct session_events *events,
                 void *ctx, struct error *err)
{
    struct catalog_kind *own = NULL;
    if (extra->over && extra->over->forks > 0 && !kind_can_be_warm(k))
        return error_set(err, ERROR_INVALID, "resources.forks: only python can be forked");
    if (kind_need_pool(k, err) < 0 || hold_with(k, extra, &own, err) < 0)
        return -1;
    struct session_template *t = recipe_template(own->recipe);
    int status = check_forks(k, own, err);
    if (status == 0 && own->pool && !own->is_closing) {
        status = pool_take(own->pool, out, is_parked, events, ctx, err);
    } else if (status == 0) {
        *is_parked = false;
        t->zygote = kind_find_zygote(own);
        status = session_open(out, k->catalog->order.loop, k->catalog->order.spawner, t, events,
                              ctx, err);
    }
    if (status < 0) {
        catalog_let_go(own);
        return -1;
    }
    *held = own;
    return 0;
}
