/* catalog_kind.c - kinds are counted; the last who lets go closes the pool */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/catalog_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define WARM_MEMORY_MIN (512 * MIB)
#define ROTATE_MS       (6 * 3600 * 1000ull)
#define KEPT_PARKED     2 /* with packages of a request's own: for the next, and the one after */

static void free_kind(struct catalog_kind *k)
{
    struct catalog_kind **at = &k->catalog->all;
    while (*at && *at != k)
        at = &(*at)->next;
    if (*at)
        *at = k->next;
    pool_free(k->pool);
    recipe_free(k->recipe);
    packages_release(&k->packages);
    catalog_drop_book(k->book);
    params_release(&k->spec, &template_table);
    if (k->base)
        catalog_let_go(k->base);
    free(k);
}

void kind_free_unheld(struct catalog *c)
{
    struct catalog_kind *k = c->all;
    while (k) {
        bool is_unheld = k->refs == 0;
        if (is_unheld)
            free_kind(k); /* and with it, perhaps, its base */
        k = is_unheld ? c->all : k->next;
    }
}

static void on_pool_closed(void *ctx)
{
    struct catalog_kind *k = ctx;
    struct catalog *c = k->catalog;
    pool_free(k->pool);
    k->pool = NULL;
    if (k->refs == 0)
        free_kind(k);
    if (c->is_closing)
        catalog_tell_closed(c);
}

void kind_close_pool(struct catalog_kind *k)
{
    if (!k->pool || k->is_closing)
        return;
    k->is_closing = true;
    pool_close(k->pool, on_pool_closed, k);
}

void catalog_let_go(struct catalog_kind *k)
{
    if (!k || --k->refs > 0)
        return;
    if (k->pool)
        kind_close_pool(k);
    else
        free_kind(k);
}

struct catalog_kind *kind_hold(struct catalog_kind *k)
{
    k->refs++;
    return k;
}

/* NAME=VALUE, NULL-terminated. */
static char **join_env(const struct param_map *env)
{
    char **list = xcalloc(env->count + 1, sizeof(*list));
    for (size_t i = 0; i < env->count; i++)
        list[i] = xasprintf("%s=%s", env->names[i], env->values[i]);
    return list;
}

static void free_list(char **list)
{
    for (char **item = list; *item; item++)
        free(*item);
    free(list);
}

const struct runner *kind_find_runner(const struct runner_book *book,
                                      const struct template_spec *spec, struct error *err)
{
    const struct runner *found = runner_find(&book->list, spec->language, err);
    if (!found || !spec->image)
        return found;
    for (size_t i = 0; i < book->list.count; i++) {
        const struct runner *r = &book->list.items[i];
        if (strcmp(r->image, spec->image) == 0 && strcmp(r->language, found->language) == 0)
            return r;
    }
    error_set(err, ERROR_NOT_FOUND, "image '%s' has no language '%s'", spec->image, spec->language);
    error_hint(err, "cove image list shows which there are");
    return NULL;
}

static int open_packages(struct packages *out, const struct catalog *c, const struct runner *runner,
                         const struct template_spec *spec, struct error *err)
{
    *out = (struct packages){0};
    if (spec->requirements.count == 0)
        return 0;
    if (!c->order.builder)
        return error_set(err, ERROR_UNAVAILABLE, "requirements: packages cannot be installed here");
    return packages_make(out, c->order.packages, runner, spec->requirements.items,
                         spec->requirements.count, err);
}

/* `packages` must outlive the recipe. */
static int open_recipe(struct recipe **out, const struct catalog *c, const struct runner *runner,
                       const struct template_spec *spec, const struct resource_spec *over,
                       const struct packages *packages, struct error *err)
{
    char **env = join_env(&spec->env);
    struct recipe_order order = {.packages = packages->set.count ? packages : NULL,
                                 .builder = c->order.builder,
                                 .runner = runner,
                                 .recipes_dir = c->order.recipes_dir,
                                 .copier = c->order.copier,
                                 .env = env,
                                 .allow_degraded = c->order.allow_degraded};
    int status = template_limits(&order.limits, &c->order.bounds, &spec->resources, over, err);
    if (status == 0)
        status = recipe_open(out, &order, err);
    free_list(env);
    if (status < 0)
        return -1;
    struct session_template *t = recipe_template(*out);
    t->capacity = c->order.capacity;
    t->idle_freeze_ms = c->order.idle_freeze_ms;
    t->forks = (size_t)(over && over->forks ? over->forks : spec->resources.forks);
    return 0;
}

static int copy_spec(struct template_spec *out, const struct template_spec *spec, struct error *err)
{
    scoped_json json_t *document = params_json(spec, &template_table);
    return params_read(out, &template_table, document, err);
}

int kind_make(struct catalog_kind **out, struct catalog *c, struct runner_book *book,
              const char *id, const struct template_spec *spec, const struct resource_spec *over,
              struct error *err)
{
    const struct runner *runner = kind_find_runner(book, spec, err);
    if (!runner)
        return -1;
    struct catalog_kind *k = xcalloc(1, sizeof(*k));
    *k = (struct catalog_kind){.refs = 1, .catalog = c, .book = book, .next = c->all};
    book->refs++;
    c->all = k;
    memcpy(k->id, id, MIN(strlen(id), sizeof(k->id) - 1));
    if (copy_spec(&k->spec, spec, err) < 0 ||
        open_packages(&k->packages, c, runner, spec, err) < 0 ||
        open_recipe(&k->recipe, c, runner, spec, over, &k->packages, err) < 0) {
        catalog_let_go(k);
        return -1;
    }
    if (k->packages.set.count > 0 && k->spec.preload.count > 0 && kind_can_be_warm(k))
        recipe_template(k->recipe)->preload = (const char *const *)k->spec.preload.items;
    *out = k;
    return 0;
}

int kind_try(const struct catalog *c, const struct runner *runner, const struct template_spec *spec,
             struct error *err)
{
    struct packages packages;
    if (open_packages(&packages, c, runner, spec, err) < 0)
        return -1;
    struct recipe *tried = NULL;
    int status = open_recipe(&tried, c, runner, spec, NULL, &packages, err);
    recipe_free(tried);
    packages_release(&packages);
    return status;
}

bool kind_can_be_warm(const struct catalog_kind *k)
{
    return strcmp(k->spec.language, CATALOG_WARM_LANGUAGE) == 0 &&
           !recipe_template(k->recipe)->is_plain;
}

/* A zygote has what the operator's image carries, and nothing that a package may bring, perhaps in
 * another version: that is imported by each sandbox itself. */
static bool imports_before(const struct catalog_kind *k)
{
    return k->spec.preload.count > 0 && k->packages.set.count == 0;
}

uint64_t kind_find_zygote(const struct catalog_kind *own)
{
    const struct catalog_kind *k = own->base ? own->base : own;
    if (own->packages.set.count == 0 || !imports_before(k))
        return k->pool ? pool_zygote(k->pool) : 0;
    for (const struct catalog_kind *other = k->catalog->all; other; other = other->next) {
        const struct session_template *t = recipe_template(other->recipe);
        if (other->pool && pool_zygote(other->pool) && !imports_before(other) &&
            other->spec.env.count == 0 &&
            memcmp(t->image, catalog_template(own)->image, sizeof(t->image)) == 0)
            return pool_zygote(other->pool);
    }
    return 0;
}

static uint64_t lend_zygote(void *ctx)
{
    return kind_find_zygote(ctx);
}

int kind_need_pool(struct catalog_kind *k, struct error *err)
{
    struct session_template *t = recipe_template(k->recipe);
    const struct warm_order warm = {
        .template = t,
        .preload = imports_before(k) ? (const char *const *)k->spec.preload.items : NULL,
        .memory_bytes = MAX(t->limits.memory_bytes, WARM_MEMORY_MIN),
        .rotate_ms = ROTATE_MS,
    };
    struct pool_order order = {
        .template = t,
        .warm = kind_can_be_warm(k) ? &warm : NULL,
        .log = k->catalog->order.log,
        .name = k->id,
        .min_parked = (size_t)k->spec.pool.min,
        .max_parked = (size_t)MAX(k->spec.pool.min, k->spec.pool.max),
    };
    if (k->base) { /* which has an interpreter, and as many kinds beside it as there are requests */
        order.warm = NULL;
        order.lent = lend_zygote;
        order.borrower = k;
        order.min_parked = MIN((size_t)KEPT_PARKED, order.max_parked);
    }
    if (k->pool || k->catalog->is_closing)
        return 0;
    return pool_open(&k->pool, k->catalog->order.loop, k->catalog->order.spawner, &order, err);
}

int kind_stock(struct catalog_kind *k, struct error *err)
{
    return k->spec.pool.min > 0 ? kind_need_pool(k, err) : 0;
}

const char *catalog_id(const struct catalog_kind *k)
{
    return k->id;
}

const struct template_spec *catalog_spec(const struct catalog_kind *k)
{
    return &k->spec;
}

const struct session_template *catalog_template(const struct catalog_kind *k)
{
    return recipe_template(k->recipe);
}

const struct spawn_limits *catalog_limits(const struct catalog_kind *k)
{
    return &catalog_template(k)->limits;
}

json_t *catalog_requirements(const struct catalog_kind *k)
{
    json_t *list = json_array();
    for (size_t i = 0; i < k->packages.set.count; i++)
        json_array_append_new(list, json_string(k->packages.set.items[i]));
    return list;
}

int catalog_find_index(const struct catalog_kind *k, enum runner_index *out, struct error *err)
{
    scoped_installer struct runner_installer installer = {0};
    const struct runner *runner = kind_find_runner(k->book, &k->spec, err);
    if (!runner ||
        runner_find_installer(&installer, runner, k->catalog->order.recipes_dir, err) < 0)
        return -1;
    *out = installer.index;
    return 0;
}

bool catalog_get_pool(const struct catalog_kind *k, struct pool_info *out)
{
    if (!k->pool)
        return false;
    pool_get_info(k->pool, out);
    return true;
}
