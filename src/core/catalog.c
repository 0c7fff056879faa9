/* catalog.c - templates come and go; what was made from them is counted (catalog_kind.c) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/catalog_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"

#define ENV_MAX_BYTES (64 * KIB) /* a start carries GUEST_STRINGS_MAX, with the session's own */

void catalog_drop_book(struct runner_book *book)
{
    if (!book || --book->refs > 0)
        return;
    runner_list_release(&book->list);
    free(book);
}

/* --- the catalog ----------------------------------------------------------------------------- */

static bool is_same_list(const struct runner_list *a, const struct runner_list *b)
{
    bool is_same = a->count == b->count;
    for (size_t i = 0; is_same && i < a->count; i++) {
        const struct runner *x = &a->items[i], *y = &b->items[i];
        is_same = strcmp(x->language, y->language) == 0 && strcmp(x->image, y->image) == 0 &&
                  memcmp(x->digest, y->digest, sizeof(x->digest)) == 0;
    }
    return is_same;
}

int catalog_look(struct catalog *c, bool *has_changed, struct error *err)
{
    struct runner_book *book = xcalloc(1, sizeof(*book));
    book->refs = 1;
    if (runner_list_load(&book->list, c->order.data_dirs, err) < 0) {
        catalog_drop_book(book);
        return -1;
    }
    *has_changed = !c->book || !is_same_list(&c->book->list, &book->list);
    catalog_drop_book(*has_changed ? c->book : book);
    if (*has_changed)
        c->book = book;
    return 0;
}

int catalog_open(struct catalog **out, const struct catalog_order *order, struct error *err)
{
    scoped(catalog) struct catalog *c = xcalloc(1, sizeof(*c));
    bool is_new;
    c->order = *order;
    if (catalog_look(c, &is_new, err) < 0)
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
        if (kind_stock(MAP_OF(node, struct catalog_kind, by_id), err) < 0)
            status = -1;
    }
    return status;
}

void catalog_tell_closed(struct catalog *c)
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

void catalog_close(struct catalog *c, void (*closed)(void *ctx), void *ctx)
{
    c->is_closing = true;
    c->closed = closed;
    c->closed_ctx = ctx;
    kept_drop_of(c, NULL);
    for (struct catalog_kind *k = c->all; k; k = k->next)
        kind_close_pool(k);
    catalog_tell_closed(c);
}

void catalog_free(struct catalog *c)
{
    if (!c)
        return;
    c->is_closing = true;
    for (struct catalog_kind *k = c->all; k; k = k->next)
        pool_free(take_ptr(&k->pool));
    kept_drop_of(c, NULL);
    MAP_EACH(&c->by_id, node)
    {
        map_remove(&c->by_id, node);
        catalog_let_go(MAP_OF(node, struct catalog_kind, by_id));
    }
    kind_free_unheld(c);
    map_release(&c->by_id);
    catalog_drop_book(c->book);
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
    uint64_t ignored;
    if (template_output(&ignored, spec->output_bytes, b->output_bytes, err) < 0 ||
        network_check(&spec->network, &b->network, err) < 0)
        return -1;
    return check_env(&spec->env, err);
}

int catalog_check(const struct catalog *c, const struct template_spec *spec, struct error *err)
{
    const struct runner *runner = kind_find_runner(c->book, spec, err);
    if (!runner || check_spec(&c->order.bounds, spec, err) < 0)
        return -1;
    bool is_warm = strcmp(runner->language, CATALOG_WARM_LANGUAGE) == 0;
    if (spec->preload.count > 0 && !is_warm)
        return error_set(err, ERROR_INVALID, "preload: only python has modules to import before");
    if (spec->resources.forks > 0 && !is_warm)
        return error_set(err, ERROR_INVALID, "resources.forks: only python can be forked");
    return kind_try(c, runner, spec, err);
}

int catalog_put(struct catalog *c, const char *id, const json_t *document, struct error *err)
{
    struct template_spec spec;
    struct catalog_kind *k = NULL;
    if (params_read(&spec, &template_table, document, err) < 0)
        return -1;
    int status = catalog_check(c, &spec, err);
    if (status == 0)
        status = kind_make(&k, c, c->book, id, &spec, NULL, err);
    params_release(&spec, &template_table);
    if (status < 0)
        return -1;
    BUG_ON(!k);
    catalog_remove(c, id);
    map_add(&c->by_id, &k->by_id, k->id);
    struct error later; /* a pool that cannot be made now is tried with the first session */
    if (c->is_started && kind_stock(k, &later) < 0)
        k->pool = NULL;
    return 0;
}

void catalog_remove(struct catalog *c, const char *id)
{
    struct map_node *node = map_find(&c->by_id, id);
    if (!node)
        return;
    struct catalog_kind *k = MAP_OF(node, struct catalog_kind, by_id);
    map_remove(&c->by_id, node);
    kept_drop_of(c, k);
    catalog_let_go(k);
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

void catalog_on_event(struct catalog *c, const struct spawn_message *m)
{
    struct catalog_kind *k = c->all ? kind_hold(c->all) : NULL;
    while (k) {
        if (k->pool)
            pool_on_event(k->pool, m);
        struct catalog_kind *next = k->next ? kind_hold(k->next) : NULL;
        catalog_let_go(k); /* an event may be the last of its pool */
        k = next;
    }
}
