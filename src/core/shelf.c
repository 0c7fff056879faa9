/* shelf.c - each change goes to the store first, and what the store has committed to the catalog
 *
 * The store answers writes in the order of its commits, so the catalog sees changes of one template
 * in the order in which the next start would find them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shelf.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "image/module.h"

struct shelf {
    struct shelf_order order;
    size_t count; /* of templates, those included that are being added */
    bool is_loading;
};

/* Something that somebody waits for. */
struct errand {
    struct shelf *shelf;
    shelf_fn fn;
    void *ctx;
    json_t *spec; /* what it is to be; NULL: it goes */
    char *name;
    uint64_t version; /* that it is to have; 0: any */
    char *own_id;     /* that the change says it has; NULL: nothing */
    char id[ID_BYTES];
};

struct shelf *shelf_new(const struct shelf_order *order)
{
    struct shelf *s = xcalloc(1, sizeof(*s));
    s->order = *order;
    return s;
}

void shelf_free(struct shelf *s)
{
    free(s);
}

/* An alias is kept as the language that it means now. */
static json_t *write_spec(const struct shelf *s, const struct template_spec *spec)
{
    struct error ignored;
    json_t *document = params_json(spec, &template_table);
    const struct runner *r =
        runner_find(catalog_runners(s->order.catalog), spec->language, &ignored);
    if (r)
        json_object_set_new(document, "language", json_string(r->language));
    return document;
}

static struct errand *new_errand(struct shelf *s, const struct template_spec *spec, shelf_fn fn,
                                 void *ctx)
{
    struct errand *e = xcalloc(1, sizeof(*e));
    *e = (struct errand){.shelf = s, .fn = fn, .ctx = ctx};
    if (spec) {
        e->spec = write_spec(s, spec);
        e->name = xstrdup(spec->name);
    }
    return e;
}

static void finish(struct errand *e, json_t *document, const struct error *err)
{
    e->fn(e->ctx, document, err);
    json_decref(e->spec);
    free(e->name);
    free(e->own_id);
    free(e);
}

/* --- documents -------------------------------------------------------------------------------- */

static int parse_doc(json_t **out, const struct store_template *t, struct error *err)
{
    const char *text = t->doc ? t->doc : "";
    const struct json_limits limits = {.max_bytes = STORE_RECORD_MAX_BYTES};
    return json_parse(out, text, strlen(text), &limits, err);
}

/* One that cannot be read, since another version of Cove wrote it, has a name and nothing else. */
static int read_spec(struct template_spec *out, const struct store_template *t, struct error *err)
{
    scoped_json json_t *doc = NULL;
    if (parse_doc(&doc, t, err) == 0 && params_read(out, &template_table, doc, err) == 0)
        return 0;
    *out = (struct template_spec){.name = xstrdup(t->name), .language = xstrdup("")};
    return -1;
}

/* What only another template would mend; the rest passes, or is the operator's to see. */
static bool is_its_own(const struct error *err)
{
    static const char *const words[] = {"install_failed", "install_refused", "install_too_large",
                                        "preload_failed"};
    size_t i = 0;
    while (err->word && i < ARRAY_LEN(words) && strcmp(err->word, words[i]) != 0)
        i++;
    return err->word && i < ARRAY_LEN(words);
}

static json_t *problem_of(const struct shelf *s, const struct store_template *t,
                          const struct template_spec *spec, bool is_read, struct error *err)
{
    struct error ignored;
    struct pool_info pool;
    const struct catalog_kind *kind = catalog_find(s->order.catalog, t->id, &ignored);
    if (kind && catalog_get_pool(kind, &pool) && pool.parked == 0 && is_its_own(&pool.error))
        return json_text(pool.error.msg, strlen(pool.error.msg));
    if (kind)
        return json_null();
    if (is_read && catalog_check(s->order.catalog, spec, err) == 0)
        return json_string("it could not be used when it was last looked at");
    return json_text(err->msg, strlen(err->msg));
}

static void set_time(json_t *document, const char *name, int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    clock_format(wall_ns, text);
    json_object_set_new(document, name, json_string(text));
}

static json_t *document_of(const struct shelf *s, const struct store_template *t)
{
    struct template_spec spec;
    struct error err;
    bool is_read = read_spec(&spec, t, &err) == 0;
    scoped_json json_t *fields = params_json(&spec, &template_table);
    json_t *document = json_pack("{s:s}", "id", t->id);
    json_object_update(document, fields);
    json_object_set_new(document, "problem", problem_of(s, t, &spec, is_read, &err));
    json_object_set_new(document, "version", json_number(t->version));
    set_time(document, "created_at", t->created_ns);
    set_time(document, "updated_at", t->updated_ns);
    params_release(&spec, &template_table);
    return document;
}

/* --- into the catalog ------------------------------------------------------------------------- */

/* What is committed stays, whatever becomes of this: the next start would find it, too. */
static void take_in(struct shelf *s, const struct store_template *t)
{
    struct error err;
    scoped_json json_t *doc = NULL;
    if (parse_doc(&doc, t, &err) == 0 && catalog_put(s->order.catalog, t->id, doc, &err) == 0)
        return;
    catalog_remove(s->order.catalog, t->id); /* nor is it what it was before */
    log_warn(s->order.log, "template cannot be used", LOG_STR("template", t->id),
             LOG_STR("name", t->name), LOG_STR("error", err.msg));
}

/* --- checks ----------------------------------------------------------------------------------- */

/* One that is not known may have come since the last look. */
static int check_image(struct shelf *s, const struct template_spec *spec, struct error *err)
{
    if (catalog_check(s->order.catalog, spec, err) == 0)
        return 0;
    if (err->code != ERROR_NOT_FOUND)
        return -1;
    shelf_look(s);
    return catalog_check(s->order.catalog, spec, err);
}

/* A missing language or image is the request's fault, not that of its path. */
static int check(struct shelf *s, const struct template_spec *spec, struct error *err)
{
    if (id_is_valid(ID_TEMPLATE, spec->name))
        return error_set(err, ERROR_INVALID, "name: '%s' has the form of an id", spec->name);
    if (check_image(s, spec, err) == 0)
        return 0;
    if (err->code == ERROR_NOT_FOUND) {
        err->code = ERROR_INVALID;
        error_word(err, "runner_not_found");
    }
    return -1;
}

static struct store_name name_of(const char *word)
{
    bool is_id = id_is_valid(ID_TEMPLATE, word);
    return (struct store_name){.id = is_id ? word : NULL, .name = is_id ? NULL : word};
}

static void fail(struct errand *e, const struct error *err)
{
    struct error copy = *err;
    if (copy.code == ERROR_NOT_FOUND && !copy.word)
        error_word(&copy, "template_not_found");
    finish(e, NULL, &copy);
}

/* --- add and change --------------------------------------------------------------------------- */

static void on_written(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    take_in(e->shelf, &answer->templates[0]);
    scoped_json json_t *document = document_of(e->shelf, &answer->templates[0]);
    finish(e, document, NULL);
}

static void on_added(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err)
        e->shelf->count--;
    on_written(e, answer);
}

typedef void (*write_fn)(struct store *store, const struct store_template *template, store_fn fn,
                         void *ctx);

static void write_down(struct errand *e, write_fn write, store_fn fn, void *ctx)
{
    scoped_strbuf struct strbuf doc;
    strbuf_init(&doc, STORE_RECORD_MAX_BYTES);
    json_add(&doc, e->spec, JSON_STYLE_COMPACT);
    int64_t now = clock_wall_ns();
    const struct store_template record = {.id = e->id,
                                          .name = e->name,
                                          .doc = strbuf_str(&doc),
                                          .version = e->version,
                                          .created_ns = now,
                                          .updated_ns = now};
    write(e->shelf->order.store, &record, fn, ctx);
}

static int begin_add(struct shelf *s, const struct template_spec *spec, const char *id,
                     char own_id[ID_BYTES], struct error *err)
{
    if (check(s, spec, err) < 0)
        return -1;
    if (s->count >= SHELF_MAX) {
        error_set(err, ERROR_LIMIT, "there are %zu templates, and no room for more", s->count);
        return error_hint(err, "delete one that nobody uses");
    }
    if (!id)
        return id_make(ID_TEMPLATE, own_id, err);
    snprintf(own_id, ID_BYTES, "%s", id);
    return 0;
}

void shelf_add(struct shelf *s, const char *id, const struct template_spec *spec, shelf_fn fn,
               void *ctx)
{
    struct error err;
    struct errand *e = new_errand(s, spec, fn, ctx);
    if (begin_add(s, spec, id, e->id, &err) < 0) {
        fail(e, &err);
        return;
    }
    s->count++;
    write_down(e, store_add_template, on_added, e);
}

/* A name may go over to another template meanwhile: what is changed is the one that had it. */
static void on_found_to_change(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    struct error err;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    const struct store_template *t = &answer->templates[0];
    if (e->own_id && strcmp(e->own_id, t->id) != 0) {
        error_set(&err, ERROR_INVALID, "id: '%s' is not that of template '%s'", e->own_id, t->name);
        fail(e, &err);
        return;
    }
    snprintf(e->id, sizeof(e->id), "%s", t->id);
    write_down(e, store_change_template, on_written, e);
}

void shelf_change(struct shelf *s, const char *word, const struct template_change *change,
                  shelf_fn fn, void *ctx)
{
    struct error err;
    struct errand *e = new_errand(s, &change->spec, fn, ctx);
    const struct store_name name = name_of(word);
    e->version = (uint64_t)change->version;
    e->own_id = change->id ? xstrdup(change->id) : NULL;
    if (check(s, &change->spec, &err) < 0)
        fail(e, &err);
    else
        store_get_template(s->order.store, &name, on_found_to_change, e);
}

/* --- remove ----------------------------------------------------------------------------------- */

static void on_removed(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    e->shelf->count--;
    catalog_remove(e->shelf->order.catalog, e->id);
    finish(e, NULL, NULL);
}

static void on_found_to_remove(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    snprintf(e->id, sizeof(e->id), "%s", answer->templates[0].id);
    const struct store_name name = {.id = e->id, .version = e->version};
    store_remove_template(e->shelf->order.store, &name, on_removed, e);
}

void shelf_remove(struct shelf *s, const char *word, uint64_t version, shelf_fn fn, void *ctx)
{
    struct errand *e = new_errand(s, NULL, fn, ctx);
    const struct store_name name = name_of(word);
    e->version = version;
    store_get_template(s->order.store, &name, on_found_to_remove, e);
}

/* --- read ------------------------------------------------------------------------------------- */

static void on_found(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    scoped_json json_t *document = NULL;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    document = document_of(e->shelf, &answer->templates[0]);
    finish(e, document, NULL);
}

void shelf_get(struct shelf *s, const char *word, shelf_fn fn, void *ctx)
{
    const struct store_name name = name_of(word);
    store_get_template(s->order.store, &name, on_found, new_errand(s, NULL, fn, ctx));
}

static void on_listed(void *ctx, const struct store_answer *answer)
{
    struct errand *e = ctx;
    if (answer->err) {
        fail(e, answer->err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, document_of(e->shelf, &answer->templates[i]));
    scoped_json json_t *page = json_pack("{s:o, s:o}", "templates", list, "next_cursor",
                                         json_text_or_null(answer->next_cursor));
    finish(e, page, NULL);
}

void shelf_list(struct shelf *s, const char *cursor, uint64_t limit, shelf_fn fn, void *ctx)
{
    const struct store_filter filter = {.cursor = cursor, .limit = limit};
    store_list_templates(s->order.store, &filter, on_listed, new_errand(s, NULL, fn, ctx));
}

/* --- the start -------------------------------------------------------------------------------- */

#define WARM_LANGUAGE "python"
#define SEED_PARKED   4 /* sessions that wait for whoever comes first */

static const char *const warm_modules[] = {"numpy", "pandas", "matplotlib.pyplot"};

struct loading {
    struct shelf *shelf;
    shelf_loaded_fn fn;
    void *ctx;
    size_t waiting; /* for seeds */
    size_t count;
};

static void end_loading(struct loading *l, const struct error *err)
{
    l->shelf->is_loading = false;
    l->fn(l->ctx, err);
    free(l);
}

static void count_down(struct loading *l)
{
    if (--l->waiting == 0)
        end_loading(l, NULL);
}

static void on_seeded(void *ctx, const struct store_answer *answer)
{
    struct loading *l = ctx;
    if (answer->err) {
        log_warn(l->shelf->order.log, "template cannot be seeded",
                 LOG_STR("error", answer->err->msg));
    } else if (answer->count > 0) {
        l->shelf->count++;
        take_in(l->shelf, &answer->templates[0]);
    }
    count_down(l);
}

/* A language that has no sessions is refused by the check, and gets no template. */
static int seed(struct loading *l, const json_t *document, struct error *err)
{
    struct template_spec spec;
    struct errand e = {.shelf = l->shelf};
    if (params_read(&spec, &template_table, document, err) < 0)
        return -1;
    int status = catalog_check(l->shelf->order.catalog, &spec, err);
    if (status == 0)
        status = id_make(ID_TEMPLATE, e.id, err);
    if (status == 0) {
        scoped_json json_t *whole = params_json(&spec, &template_table);
        e.spec = whole;
        e.name = spec.name;
        l->waiting++;
        write_down(&e, store_seed_template, on_seeded, l);
    }
    params_release(&spec, &template_table);
    return status;
}

static void seed_plain(struct loading *l, const struct runner *r)
{
    struct error err;
    bool is_warm = strcmp(r->language, WARM_LANGUAGE) == 0; /* a parked one costs 1.6 MB */
    scoped_json json_t *document = json_pack("{s:s, s:s, s:{s:i}}", "name", r->language, "language",
                                             r->language, "pool", "min", is_warm ? SEED_PARKED : 0);
    if (seed(l, document, &err) < 0)
        log_info(l->shelf->order.log, "language has no template", LOG_STR("language", r->language),
                 LOG_STR("error", err.msg));
}

static void seed_warm(struct loading *l, const struct runner *r)
{
    struct error err;
    scoped_json json_t *modules = json_array();
    for (size_t i = 0; i < ARRAY_LEN(warm_modules); i++) {
        if (!module_is_in(r, warm_modules[i]))
            return;
        json_array_append_new(modules, json_string(warm_modules[i]));
    }
    scoped_json json_t *document =
        json_pack("{s:s, s:s, s:s, s:O}", "name", "python-data", "description",
                  "Python with numpy, pandas and matplotlib imported already", "language",
                  r->language, "preload", modules);
    if (seed(l, document, &err) < 0)
        log_warn(l->shelf->order.log, "template cannot be seeded", LOG_STR("error", err.msg));
}

/* The first image that has a language is the one that the name stands for. */
static bool is_first(const struct runner_list *list, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(list->items[i].language, list->items[index].language) == 0)
            return false;
    }
    return true;
}

static void seed_all(struct loading *l)
{
    const struct runner_list *list = catalog_runners(l->shelf->order.catalog);
    l->waiting = 1;
    for (size_t i = 0; i < list->count; i++) {
        if (!is_first(list, i))
            continue;
        seed_plain(l, &list->items[i]);
        if (strcmp(list->items[i].language, WARM_LANGUAGE) == 0)
            seed_warm(l, &list->items[i]);
    }
    count_down(l);
}

static void load_page(struct loading *l, const char *cursor);

static void on_page(void *ctx, const struct store_answer *answer)
{
    struct loading *l = ctx;
    if (answer->err) {
        end_loading(l, answer->err);
        return;
    }
    for (size_t i = 0; i < answer->count; i++)
        take_in(l->shelf, &answer->templates[i]);
    l->count += answer->count;
    if (answer->next_cursor) {
        load_page(l, answer->next_cursor);
        return;
    }
    l->shelf->count = l->count;
    seed_all(l);
}

static void load_page(struct loading *l, const char *cursor)
{
    const struct store_filter filter = {.cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_templates(l->shelf->order.store, &filter, on_page, l);
}

void shelf_load(struct shelf *s, shelf_loaded_fn fn, void *ctx)
{
    struct loading *l = xcalloc(1, sizeof(*l));
    *l = (struct loading){.shelf = s, .fn = fn, .ctx = ctx};
    s->is_loading = true;
    load_page(l, NULL);
}

static void on_loaded_again(void *ctx, const struct error *err)
{
    const struct shelf *s = ctx;
    if (err)
        log_warn(s->order.log, "templates could not be loaded again", LOG_STR("error", err->msg));
}

void shelf_look(struct shelf *s)
{
    struct error err;
    bool has_changed;
    if (s->is_loading) /* it may be told of a change that this has missed: the next look */
        return;
    if (catalog_look(s->order.catalog, &has_changed, &err) < 0) {
        log_warn(s->order.log, "images cannot be looked at", LOG_STR("error", err.msg));
    } else if (has_changed) {
        log_info(s->order.log, "images have changed");
        shelf_load(s, on_loaded_again, s);
    }
}
