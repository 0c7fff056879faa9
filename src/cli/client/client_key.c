/* client_key.c - `cove key create|list|rm` */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/client/client.h"
#include "cli/client/table.h"

#define OUTPUT_MAX_BYTES (64 * MIB)
#define WORDS_MAX_BYTES  4096

/* --- create -------------------------------------------------------------------------------------
 */

static json_t *scopes_of(const struct option_list *given)
{
    static const char *const usual[] = {"execute", "sessions:read", "sessions:write", "files"};
    json_t *list = json_array();
    for (size_t i = 0; i < given->count; i++)
        json_array_append_new(list, json_text(given->items[i], strlen(given->items[i])));
    for (size_t i = 0; given->count == 0 && i < ARRAY_LEN(usual); i++)
        json_array_append_new(list, json_string(usual[i]));
    return list;
}

/* The key alone on stdout, for scripts. */
static int tell_created(const json_t *key, struct error *err)
{
    const char *text = doc_text(key, "key", NULL);
    if (!text)
        return error_set(err, ERROR_UNAVAILABLE, "the server's answer has no key");
    if (client_say(err, "%s", text) < 0)
        return -1;
    if (term_is_terminal(STDOUT_FILENO))
        fprintf(stderr, "Keep it: it cannot be shown again. `cove key rm %s` revokes it.\n",
                doc_text(key, "id", "ID"));
    return 0;
}

int client_key_create(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    const struct key_create_options *o = options;
    scoped_json json_t *key = NULL;
    if (argc != 1)
        return error_set(err, ERROR_INVALID,
                         "give the key a name, like `cove key create evaluation`");
    json_t *body = json_pack("{s:o}", "scopes", scopes_of(&o->scopes));
    client_set_text(body, "name", argv[0]);
    client_set_seconds(body, "expires_in", o->expires_ms);
    client_set_resources(body, "quota", &o->quota);
    if (o->sessions) {
        json_t *quota = json_object_get(body, "quota");
        quota = quota ? json_incref(quota) : json_object();
        json_object_set_new(quota, "sessions", json_number(o->sessions));
        json_object_set_new(body, "quota", quota);
    }
    if (o->rate_per_minute)
        json_object_set_new(body, "rate_per_minute", json_number(o->rate_per_minute));
    if (client_ask(c, "POST", "/keys", body, &key, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(key, err) : tell_created(key, err);
}

/* --- list ---------------------------------------------------------------------------------------
 */

static const char *const heads[] = {"NAME",       "ID",       "STATE",  " AGE",
                                    " LAST USED", " ENDS IN", "SCOPES", NULL};

static const char *state_of(const json_t *key, int64_t now)
{
    int64_t expires = doc_time(key, "expires_at");
    if (doc_has(key, "revoked_at"))
        return "revoked";
    return expires && expires <= now ? "expired" : "valid";
}

static void add_key(struct table *table, const json_t *key, int64_t now)
{
    char text[DOC_TEXT_BYTES];
    const json_t *scopes = json_object_get(key, "scopes");
    const char *state = state_of(key, now);
    bool is_valid = strcmp(state, "valid") == 0;
    scoped_strbuf struct strbuf words;
    strbuf_init(&words, WORDS_MAX_BYTES);
    for (size_t i = 0; i < json_array_size(scopes); i++) {
        const char *word = json_string_value(json_array_get(scopes, i));
        strbuf_add_fmt(&words, "%s%s", i ? " " : "", word ? word : "?");
    }
    table_add(table, doc_text(key, "name", "-"), is_valid ? TERM_BOLD : TERM_DIM);
    table_add(table, doc_text(key, "id", "-"), TERM_PLAIN);
    table_add(table, state, is_valid ? TERM_GREEN : TERM_DIM);
    doc_format_span(doc_time(key, "created_at"), now, text);
    table_add(table, text, TERM_PLAIN);
    doc_format_span(doc_time(key, "last_used_at"), now, text);
    table_add(table, text, TERM_PLAIN);
    doc_format_span(now, is_valid ? doc_time(key, "expires_at") : 0, text);
    table_add(table, text, TERM_PLAIN);
    table_add(table, strbuf_str(&words), TERM_PLAIN);
}

static int print_list(const json_t *document, struct error *err)
{
    const json_t *list = json_object_get(document, "keys");
    scoped_strbuf struct strbuf out;
    scoped_table struct table *table = table_new(heads);
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < json_array_size(list); i++)
        add_key(table, json_array_get(list, i), clock_wall_ns());
    const struct table_view view = {
        .count = table_rows(table), .has_colour = term_has_colour(STDOUT_FILENO), .line_end = "\n"};
    if (table_rows(table) == 0)
        return client_say(err, "No keys: `cove key create NAME` makes one.");
    table_write(table, &view, &out);
    return client_print(&out, err);
}

int client_key_list(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    scoped_json json_t *document = NULL;
    (void)options, (void)argc, (void)argv;
    if (client_list(c, "/keys", "keys", &document, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(document, err) : print_list(document, err);
}

/* --- rm -----------------------------------------------------------------------------------------
 */

static int tell_revoked(struct client *c, const char *word, const json_t *answer, struct error *err)
{
    (void)c, (void)answer;
    return client_say(err, "%s: revoked", word);
}

int client_key_rm(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a key", "DELETE", "/keys/", "", tell_revoked};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}
