/* shelve.c - page by page; one that cannot be used any more is told in the log and left alone */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coved/shelve.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "codec/json.h"

#define DOC_MAX MIB

struct shelving {
    struct store *store;
    struct catalog *catalog;
    const struct log *log;
    void (*done)(void *ctx, const struct error *err);
    void *ctx;
    size_t found, waiting;
    struct error failed; /* of the first seed that could not be written */
};

static void finish(struct shelving *s, const struct error *err)
{
    s->done(s->ctx, err);
    free(s);
}

static void put(struct shelving *s, const char *id, const char *doc)
{
    const struct json_limits limits = {.max_bytes = DOC_MAX};
    scoped_json json_t *value = NULL;
    struct error err;
    if (json_parse(&value, doc, strlen(doc), &limits, &err) < 0 ||
        catalog_put(s->catalog, id, value, &err) < 0)
        log_warn(s->log, "a template cannot be used", LOG_STR("template", id),
                 LOG_STR("error", err.msg));
}

/* --- a store without any ---------------------------------------------------------------------- */

static void load(struct shelving *s, const char *cursor);

static void on_seeded(void *ctx, const struct store_answer *answer)
{
    struct shelving *s = ctx;
    if (answer->err && !s->failed.msg[0])
        s->failed = *answer->err;
    if (--s->waiting > 0)
        return;
    if (s->failed.msg[0])
        finish(s, &s->failed);
    else
        load(s, NULL);
}

static void seed_one(struct shelving *s, const struct runner *runner)
{
    char id[ID_BYTES];
    struct error err;
    scoped_strbuf struct strbuf text;
    scoped_json json_t *doc =
        json_pack("{s:s, s:s}", "name", runner->language, "language", runner->language);
    if (id_make(ID_TEMPLATE, id, &err) < 0)
        return;
    strbuf_init(&text, DOC_MAX);
    json_add(&text, doc, JSON_STYLE_COMPACT);
    const struct store_template record = {.id = id,
                                          .name = runner->language,
                                          .doc = strbuf_str(&text),
                                          .created_ns = clock_wall_ns(),
                                          .updated_ns = clock_wall_ns()};
    s->waiting++;
    store_add_template(s->store, &record, on_seeded, s);
}

static bool is_first_of_its_language(const struct runner_list *list, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (strcmp(list->items[i].language, list->items[at].language) == 0)
            return false;
    }
    return true;
}

static void seed(struct shelving *s)
{
    const struct runner_list *list = catalog_runners(s->catalog);
    for (size_t i = 0; i < list->count; i++) {
        if (is_first_of_its_language(list, i))
            seed_one(s, &list->items[i]);
    }
    if (s->waiting == 0)
        finish(s, NULL);
}

/* --- a store with some ------------------------------------------------------------------------ */

static void on_page(void *ctx, const struct store_answer *answer)
{
    struct shelving *s = ctx;
    if (answer->err) {
        finish(s, answer->err);
        return;
    }
    for (size_t i = 0; i < answer->count; i++)
        put(s, answer->templates[i].id, answer->templates[i].doc);
    bool is_first = s->found == 0;
    s->found += answer->count;
    if (answer->next_cursor)
        load(s, answer->next_cursor);
    else if (is_first && s->found == 0)
        seed(s);
    else
        finish(s, NULL);
}

static void load(struct shelving *s, const char *cursor)
{
    const struct store_filter filter = {.cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_templates(s->store, &filter, on_page, s);
}

void shelve_templates(struct store *store, struct catalog *catalog, const struct log *log,
                      void (*done)(void *ctx, const struct error *err), void *ctx)
{
    struct shelving *s = xcalloc(1, sizeof(*s));
    *s =
        (struct shelving){.store = store, .catalog = catalog, .log = log, .done = done, .ctx = ctx};
    load(s, NULL);
}
