/* client_template.c - `cove template list|show|create|update|rm` */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/client/table.h"

#define OUTPUT_MAX_BYTES   (64 * MIB)
#define DOCUMENT_MAX_BYTES (1 * MIB)
#define PATTERN            "/templates/"

/* --- list and show ------------------------------------------------------------------------------
 */

static const char *const heads[] = {"NAME",  "LANGUAGE", "IMAGE", " MEMORY",
                                    " CPUS", "PRELOAD",  "ID",    NULL};

static void add_words(struct strbuf *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        strbuf_add_fmt(out, "%s%s", i ? " " : "", word ? word : "?");
    }
    if (out->len == 0)
        strbuf_add_char(out, '-');
}

static void add_template(struct table *table, const json_t *t)
{
    char memory[DOC_TEXT_BYTES], cpus[DOC_TEXT_BYTES] = "-";
    const json_t *resources = json_object_get(t, "resources");
    double cores = doc_number(resources, "cpus", 0);
    scoped_strbuf struct strbuf preload;
    strbuf_init(&preload, DOCUMENT_MAX_BYTES);
    add_words(&preload, json_object_get(t, "preload"));
    doc_format_bytes(doc_number(resources, "memory_bytes", 0), memory);
    if (cores > 0)
        snprintf(cpus, sizeof(cpus), "%.4g", cores);
    table_add(table, doc_text(t, "name", "-"), doc_has(t, "problem") ? TERM_RED : TERM_BOLD);
    table_add(table, doc_text(t, "language", "-"), TERM_PLAIN);
    table_add(table, doc_text(t, "image", "-"), TERM_PLAIN);
    table_add(table, memory, TERM_PLAIN);
    table_add(table, cpus, TERM_PLAIN);
    table_add(table, strbuf_str(&preload), TERM_PLAIN);
    table_add(table, doc_text(t, "id", "-"), TERM_DIM);
}

static int print_list(const json_t *document, struct error *err)
{
    const json_t *list = json_object_get(document, "templates");
    scoped_strbuf struct strbuf out;
    scoped_table struct table *table = table_new(heads);
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < json_array_size(list); i++)
        add_template(table, json_array_get(list, i));
    const struct table_view view = {
        .count = table_rows(table), .has_colour = term_has_colour(STDOUT_FILENO), .line_end = "\n"};
    table_write(table, &view, &out);
    return client_print(&out, err);
}

int client_template_list(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    scoped_json json_t *document = NULL;
    (void)options, (void)argc, (void)argv;
    if (client_list(c, "/templates", "templates", &document, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(document, err) : print_list(document, err);
}

static int show_template(struct client *c, const char *word, const json_t *document,
                         struct error *err)
{
    (void)c, (void)word;
    return client_print_json(document, err);
}

int client_template_show(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a template", "GET", PATTERN, "", show_template};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

/* --- create and update --------------------------------------------------------------------------
 */

static int read_document(const char *path, json_t **out, struct error *err)
{
    const struct json_limits limits = {.max_bytes = DOCUMENT_MAX_BYTES};
    scoped_free char *text = NULL;
    int status = strcmp(path, "-") == 0 ? fd_read_text(STDIN_FILENO, &text, DOCUMENT_MAX_BYTES, err)
                                        : fd_read_file(path, &text, DOCUMENT_MAX_BYTES, err);
    if (status < 0 || json_parse(out, text, strlen(text), &limits, err) < 0)
        return error_wrap(err, "--file '%.200s'", path);
    if (json_is_object(*out))
        return 0;
    json_decref(take_ptr(out));
    return error_set(err, ERROR_INVALID, "--file '%.200s' is no JSON object", path);
}

static int set_pool(json_t *t, const char *text, struct error *err)
{
    uint64_t min, max;
    if (!text)
        return 0;
    const char *colon = strchr(text, ':');
    scoped_free char *first = xstrndup(text, colon ? (size_t)(colon - text) : 0);
    if (!colon || !parse_u64(first, &min) || !parse_u64(colon + 1, &max))
        return error_set(err, ERROR_INVALID, "--pool '%.80s' is not MIN:MAX, like 2:16", text);
    json_object_set_new(t, "pool",
                        json_pack("{s:o, s:o}", "min", json_number(min), "max", json_number(max)));
    return 0;
}

static void set_preload(json_t *t, const struct option_list *modules)
{
    json_t *list = json_array();
    for (size_t i = 0; i < modules->count; i++)
        json_array_append_new(list, json_text(modules->items[i], strlen(modules->items[i])));
    if (modules->count > 0)
        json_object_set(t, "preload", list);
    json_decref(list);
}

static int apply(json_t *t, const struct template_options *o, struct error *err)
{
    client_set_text(t, "description", o->description);
    client_set_text(t, "language", o->language);
    client_set_text(t, "image", o->image);
    client_set_resources(t, "resources", &o->resources);
    client_set_seconds(t, "timeout", o->timeout_ms);
    client_set_seconds(t, "ttl", o->ttl_ms);
    client_set_seconds(t, "idle_timeout", o->idle_ms);
    set_preload(t, &o->preload);
    return client_set_pairs(t, "env", &o->env, "--env", err) < 0 ? -1 : set_pool(t, o->pool, err);
}

/* What the server alone says of a template, and what was not said. */
static void strip(json_t *t, bool with_version)
{
    static const char *const told[] = {"id", "created_at", "updated_at", "problem"};
    void *next;
    const char *key;
    json_t *value;
    for (size_t i = 0; i < ARRAY_LEN(told); i++)
        json_object_del(t, told[i]);
    if (with_version)
        json_object_del(t, "version");
    json_object_foreach_safe(t, next, key, value)
    {
        if (json_is_null(value))
            json_object_del(t, key);
    }
}

static int send_template(struct client *c, const char *method, const char *path, json_t *t,
                         struct error *err)
{
    scoped_json json_t *answer = NULL;
    if (client_ask(c, method, path, json_incref(t), &answer, err) < 0)
        return -1;
    if (c->cli->config.json)
        return client_print_json(answer, err);
    return client_say(err, "%s", doc_text(answer, "name", doc_text(answer, "id", "")));
}

int client_template_create(struct client *c, void *options, int argc, char **argv,
                           struct error *err)
{
    const struct template_options *o = options;
    scoped_json json_t *t = NULL;
    if (argc > 1 || (argc == 0 && !o->file))
        return error_set(err, ERROR_INVALID,
                         "give the template a name, like "
                         "`cove template create data --language python`");
    if (o->file && read_document(o->file, &t, err) < 0)
        return -1;
    t = t ? t : json_object();
    strip(t, true);
    client_set_text(t, "name", argc == 1 ? argv[0] : NULL);
    if (apply(t, o, err) < 0)
        return -1;
    return send_template(c, "POST", "/templates", t, err);
}

/* The version that was read goes back with it: who changed it meanwhile is not overrun. */
int client_template_update(struct client *c, void *options, int argc, char **argv,
                           struct error *err)
{
    const struct template_options *o = options;
    scoped_json json_t *t = NULL;
    if (argc != 1)
        return error_set(err, ERROR_INVALID, "which one? Give the name or the id of a template");
    scoped_free char *path = client_path(PATTERN, argv[0], "");
    int status =
        o->file ? read_document(o->file, &t, err) : client_ask(c, "GET", path, NULL, &t, err);
    if (status < 0)
        return -1;
    strip(t, false);
    if (apply(t, o, err) < 0)
        return -1;
    return send_template(c, "PUT", path, t, err);
}

/* --- rm -----------------------------------------------------------------------------------------
 */

static int tell_removed(struct client *c, const char *word, const json_t *answer, struct error *err)
{
    (void)c, (void)answer;
    return client_say(err, "%s: removed", word);
}

int client_template_rm(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a template", "DELETE", PATTERN, "", tell_removed};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}
