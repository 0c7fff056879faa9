/* catalog.c - kinds are counted; the last who lets go closes the pool */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/strbuf.h"

#define WARM_LANGUAGE   "python" /* whose interpreter can be forked */
#define WARM_MEMORY_MIN (512 * MIB)
#define ROTATE_MS       (6 * 3600 * 1000ull)
#define WARM_RETRY_MS   1000
#define ENV_MAX_BYTES   (64 * KIB) /* a start carries GUEST_STRINGS_MAX, with the session's own */

/* The runners of one look; recipes point into it. */
struct runner_book {
    unsigned refs;
    struct runner_list list;
};

struct catalog_kind {
    unsigned refs;
    struct catalog *catalog;
    struct map_node by_id;
    struct catalog_kind *next; /* of all that live */
    struct catalog_kind *base; /* with whose warm interpreter it is made; NULL: its own */
    char id[ID_BYTES];
    struct template_spec spec;
    struct runner_book *book;
    struct recipe *recipe;
    struct pool *pool; /* NULL: not wanted yet, or has gone */
    bool is_closing;
};

struct catalog {
    struct catalog_order order;
    struct runner_book *book;
    struct map by_id;
    struct catalog_kind *all;
    void (*closed)(void *ctx);
    void *closed_ctx;
    bool is_started, is_closing;
};

static void drop_book(struct runner_book *book)
{
    if (!book || --book->refs > 0)
        return;
    runner_list_release(&book->list);
    free(book);
}

/* --- kinds ----------------------------------------------------------------------------------- */

static void free_kind(struct catalog_kind *k)
{
    struct catalog_kind **at = &k->catalog->all;
    while (*at && *at != k)
        at = &(*at)->next;
    if (*at)
        *at = k->next;
    pool_free(k->pool);
    recipe_free(k->recipe);
    drop_book(k->book);
    params_release(&k->spec, &template_table);
    if (k->base)
        catalog_let_go(k->base);
    free(k);
}

static void tell_closed(struct catalog *c)
{
    for (const struct catalog_kind *k = c->all; k; k = k->next) {
        if (k->pool)
            return;
    }
    void (*closed)(void *ctx) = c->closed;
    c->closed = NULL;
    if (closed)
        closed(c->closed_ctx);
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
        tell_closed(c);
}

static void close_pool(struct catalog_kind *k)
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
        close_pool(k);
    else
        free_kind(k);
}

static struct catalog_kind *hold(struct catalog_kind *k)
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

static const struct runner *find_runner(const struct runner_book *book,
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

static int open_recipe(struct recipe **out, const struct catalog *c, const struct runner *runner,
                       const struct template_spec *spec, const struct resource_spec *over,
                       struct error *err)
{
    char **env = join_env(&spec->env);
    struct recipe_order order = {.runner = runner,
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

/* Takes nothing of `spec`; the answer has one holder. */
static int make_kind(struct catalog_kind **out, struct catalog *c, struct runner_book *book,
                     const char *id, const struct template_spec *spec,
                     const struct resource_spec *over, struct error *err)
{
    const struct runner *runner = find_runner(book, spec, err);
    struct recipe *recipe = NULL;
    if (!runner || open_recipe(&recipe, c, runner, spec, over, err) < 0)
        return -1;
    struct catalog_kind *k = xcalloc(1, sizeof(*k));
    *k = (struct catalog_kind){
        .refs = 1, .catalog = c, .recipe = recipe, .book = book, .next = c->all};
    book->refs++;
    c->all = k;
    memcpy(k->id, id, MIN(strlen(id), sizeof(k->id) - 1));
    if (copy_spec(&k->spec, spec, err) < 0) {
        catalog_let_go(k);
        return -1;
    }
    *out = k;
    return 0;
}

static bool can_be_warm(const struct catalog_kind *k)
{
    return strcmp(k->spec.language, WARM_LANGUAGE) == 0 && !recipe_template(k->recipe)->is_plain;
}

static int need_pool(struct catalog_kind *k, struct error *err)
{
    struct session_template *t = recipe_template(k->recipe);
    const struct warm_order warm = {
        .template = t,
        .preload = (const char *const *)k->spec.preload.items,
        .memory_bytes = MAX(t->limits.memory_bytes, WARM_MEMORY_MIN),
        .rotate_ms = ROTATE_MS,
    };
    const struct pool_order order = {
        .template = t,
        .warm = can_be_warm(k) ? &warm : NULL,
        .min_parked = (size_t)k->spec.pool.min,
        .max_parked = (size_t)MAX(k->spec.pool.min, k->spec.pool.max),
    };
    if (k->pool || k->catalog->is_closing)
        return 0;
    return pool_open(&k->pool, k->catalog->order.loop, k->catalog->order.spawner, &order, err);
}

static int stock(struct catalog_kind *k, struct error *err)
{
    return k->spec.pool.min > 0 ? need_pool(k, err) : 0;
}

/* --- the catalog ----------------------------------------------------------------------------- */

int catalog_look(struct catalog *c, struct error *err)
{
    struct runner_book *book = xcalloc(1, sizeof(*book));
    book->refs = 1;
    if (runner_list_load(&book->list, c->order.data_dirs, err) < 0) {
        drop_book(book);
        return -1;
    }
    drop_book(c->book);
    c->book = book;
    return 0;
}

int catalog_open(struct catalog **out, const struct catalog_order *order, struct error *err)
{
    scoped(catalog) struct catalog *c = xcalloc(1, sizeof(*c));
    c->order = *order;
    if (catalog_look(c, err) < 0)
        return -1;
    *out = take_ptr(&c);
    return 0;
}

int catalog_start(struct catalog *c, struct error *err)
{
    int status = 0;
    c->is_started = true;
    MAP_EACH(&c->by_id, node)
    {
        if (stock(MAP_OF(node, struct catalog_kind, by_id), err) < 0)
            status = -1;
    }
    return status;
}

void catalog_close(struct catalog *c, void (*closed)(void *ctx), void *ctx)
{
    c->is_closing = true;
    c->closed = closed;
    c->closed_ctx = ctx;
    for (struct catalog_kind *k = c->all; k; k = k->next)
        close_pool(k);
    tell_closed(c);
}

void catalog_free(struct catalog *c)
{
    if (!c)
        return;
    c->is_closing = true;
    MAP_EACH(&c->by_id, node)
    {
        struct catalog_kind *k = MAP_OF(node, struct catalog_kind, by_id);
        map_remove(&c->by_id, node);
        pool_free(k->pool);
        k->pool = NULL;
        catalog_let_go(k);
    }
    map_release(&c->by_id);
    drop_book(c->book);
    free(c);
}

const struct runner_list *catalog_runners(const struct catalog *c)
{
    return &c->book->list;
}

static int check_time(const char *name, uint64_t ms, uint64_t most, struct error *err)
{
    if (most == 0 || ms <= most)
        return 0;
    error_set(err, ERROR_INVALID, "%s: %.15g is more than the %.15g seconds that are allowed here",
              name, (double)ms / 1000, (double)most / 1000);
    return error_hint(err, "ask for less, or have the operator raise the limit");
}

static int check_env(const struct param_map *env, struct error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < env->count; i++)
        bytes += strlen(env->names[i]) + strlen(env->values[i]) + sizeof("=");
    if (bytes <= ENV_MAX_BYTES)
        return 0;
    return error_set(err, ERROR_TOO_LARGE, "env: has %zu bytes; at most %zu are taken", bytes,
                     (size_t)ENV_MAX_BYTES);
}

static int check_spec(const struct template_bounds *b, const struct template_spec *spec,
                      struct error *err)
{
    if (spec->pool.min > spec->pool.max)
        return error_set(err, ERROR_INVALID, "pool.min: %d is more than pool.max, %d",
                         (int)spec->pool.min, (int)spec->pool.max);
    if (check_time("timeout", spec->timeout_ms, b->timeout_max_ms, err) < 0 ||
        check_time("ttl", spec->ttl_ms, b->most.lifetime_ms, err) < 0)
        return -1;
    return check_env(&spec->env, err);
}

int catalog_check(const struct catalog *c, const struct template_spec *spec, struct error *err)
{
    scoped(recipe) struct recipe *tried = NULL;
    const struct runner *runner = find_runner(c->book, spec, err);
    if (!runner || check_spec(&c->order.bounds, spec, err) < 0)
        return -1;
    bool is_warm = strcmp(runner->language, WARM_LANGUAGE) == 0;
    if (spec->preload.count > 0 && !is_warm)
        return error_set(err, ERROR_INVALID, "preload: only python has modules to import before");
    if (spec->resources.forks > 0 && !is_warm)
        return error_set(err, ERROR_INVALID, "resources.forks: only python can be forked");
    return open_recipe(&tried, c, runner, spec, NULL, err);
}

int catalog_put(struct catalog *c, const char *id, const json_t *document, struct error *err)
{
    struct template_spec spec;
    struct catalog_kind *k = NULL;
    if (params_read(&spec, &template_table, document, err) < 0)
        return -1;
    int status = catalog_check(c, &spec, err);
    if (status == 0)
        status = make_kind(&k, c, c->book, id, &spec, NULL, err);
    params_release(&spec, &template_table);
    if (status < 0)
        return -1;
    catalog_remove(c, id);
    map_add(&c->by_id, &k->by_id, k->id);
    struct error later; /* a pool that cannot be made now is tried with the first session */
    if (c->is_started && stock(k, &later) < 0)
        k->pool = NULL;
    return 0;
}

void catalog_remove(struct catalog *c, const char *id)
{
    struct map_node *node = map_find(&c->by_id, id);
    if (!node)
        return;
    map_remove(&c->by_id, node);
    catalog_let_go(MAP_OF(node, struct catalog_kind, by_id));
}

struct catalog_kind *catalog_find(const struct catalog *c, const char *word, struct error *err)
{
    struct map_node *found = map_find(&c->by_id, word);
    if (found)
        return MAP_OF(found, struct catalog_kind, by_id);
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, 4 * KIB);
    MAP_EACH(&c->by_id, node)
    {
        struct catalog_kind *k = MAP_OF(node, struct catalog_kind, by_id);
        if (strcmp(k->spec.name, word) == 0)
            return k;
        strbuf_add_fmt(&names, "%s%s", names.len ? ", " : "", k->spec.name);
    }
    error_set(err, ERROR_NOT_FOUND, "no template '%.64s'", word);
    error_word(err, "template_not_found");
    error_hint(err, "there are: %.200s", names.len ? strbuf_str(&names) : "none");
    return NULL;
}

struct catalog_kind *catalog_next(const struct catalog *c, const struct catalog_kind *kind)
{
    const struct map_node *node = map_next(&c->by_id, kind ? &kind->by_id : NULL);
    return node ? MAP_OF(node, struct catalog_kind, by_id) : NULL;
}

bool catalog_has_sessions(const struct catalog *c, const struct runner *runner)
{
    struct error ignored;
    struct runner_kernel kernel = {0};
    bool is_found = runner_find_kernel(&kernel, runner, c->order.recipes_dir, &ignored) == 0;
    runner_kernel_release(&kernel);
    return is_found;
}

static bool are_same(char *const *a, char *const *b)
{
    while (*a && *b && strcmp(*a, *b) == 0)
        a++, b++;
    return !*a && !*b;
}

bool catalog_is_same_kernel(const struct catalog *c, const struct runner *a, const struct runner *b)
{
    struct error ignored;
    struct runner_kernel x = {0}, y = {0};
    bool is_same = strcmp(a->image, b->image) == 0 &&
                   runner_find_kernel(&x, a, c->order.recipes_dir, &ignored) == 0 &&
                   runner_find_kernel(&y, b, c->order.recipes_dir, &ignored) == 0 &&
                   are_same(x.command.items, y.command.items) && !x.text == !y.text &&
                   (!x.text || strcmp(x.text, y.text) == 0);
    runner_kernel_release(&x);
    runner_kernel_release(&y);
    return is_same;
}

/* --- one kind -------------------------------------------------------------------------------- */

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

bool catalog_get_pool(const struct catalog_kind *k, struct pool_info *out)
{
    if (!k->pool)
        return false;
    pool_get_info(k->pool, out);
    return true;
}

static bool is_nothing(const struct resource_spec *over)
{
    static const struct resource_spec nothing;
    return !over || memcmp(over, &nothing, sizeof(nothing)) == 0;
}

int catalog_hold(struct catalog_kind *k, const struct resource_spec *over,
                 struct catalog_kind **held, struct error *err)
{
    if (is_nothing(over)) {
        *held = hold(k);
        return 0;
    }
    if (make_kind(held, k->catalog, k->book, k->id, &k->spec, over, err) < 0)
        return -1;
    (*held)->base = hold(k);
    return 0;
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
    return make_kind(held, c, c->book, id, &plain, limits, err);
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

int catalog_take(struct catalog_kind *k, const struct resource_spec *over, struct session **out,
                 struct catalog_kind **held, bool *is_parked, const struct session_events *events,
                 void *ctx, struct error *err)
{
    struct catalog_kind *own = NULL;
    if (over && over->forks > 0 && !can_be_warm(k))
        return error_set(err, ERROR_INVALID, "resources.forks: only python can be forked");
    if (need_pool(k, err) < 0 || catalog_hold(k, over, &own, err) < 0)
        return -1;
    struct session_template *t = recipe_template(own->recipe);
    int status = check_forks(k, own, err);
    if (status == 0 && own == k && k->pool) {
        status = pool_take(k->pool, out, is_parked, events, ctx, err);
    } else if (status == 0) {
        *is_parked = false;
        t->zygote = k->pool ? pool_zygote(k->pool) : 0;
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

void catalog_on_event(struct catalog *c, const struct spawn_message *m)
{
    for (struct catalog_kind *k = c->all; k; k = k->next) {
        if (k->pool)
            pool_on_event(k->pool, m);
    }
}
