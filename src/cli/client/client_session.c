/* client_session.c - `cove session list|create|show|rm|extend|reset|interrupt` */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/client/sessions.h"
#include "cli/secret.h"
#include "cli/term_text.h"
#include "core/network.h"

#define OUTPUT_MAX_BYTES (64 * MIB)
#define PATTERN          "/sessions/"

/* --- list --------------------------------------------------------------------------------------
 */

static int print_list(const json_t *document, struct error *err)
{
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    scoped_table struct table *table = sessions_table(json_object_get(document, "sessions"));
    const struct table_view view = {
        .count = table_rows(table), .has_colour = term_has_colour(STDOUT_FILENO), .line_end = "\n"};
    if (table_rows(table) == 0)
        return client_say(err, "No sessions: `cove session create` makes one.");
    table_write(table, &view, &out);
    return client_print(&out, err);
}

int client_session_list(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    const struct session_list_options *o = options;
    scoped_json json_t *document = NULL;
    scoped_strbuf struct strbuf path;
    (void)argc, (void)argv;
    strbuf_init(&path, CLIENT_PATH_MAX);
    strbuf_add_str(&path, "/sessions");
    link_add_query(&path, "live", o->all || o->state ? NULL : "true");
    link_add_query(&path, "state", o->state);
    link_add_query(&path, "template", o->template);
    link_add_query(&path, "metadata", o->metadata);
    if (client_list(c, strbuf_str(&path), "sessions", &document, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(document, err) : print_list(document, err);
}

/* --- create ------------------------------------------------------------------------------------
 */

/* The id alone on stdout, for scripts; on a terminal also how long it took. */
static int tell_created(const json_t *session, struct error *err)
{
    const json_t *timings = json_object_get(session, "timings");
    double ms = doc_number(timings, "create_ms", 0);
    bool is_pooled = json_is_true(json_object_get(timings, "pooled"));
    if (client_say(err, "%s", doc_text(session, "id", "")) < 0)
        return -1;
    bool has_colour = term_has_colour(STDERR_FILENO);
    if (term_is_terminal(STDOUT_FILENO) && ms > 0)
        fprintf(stderr, "%sready after %.2f ms%s%s\n", term_style(has_colour, TERM_DIM), ms,
                is_pooled ? ", made in advance" : "", term_style(has_colour, TERM_PLAIN));
    return 0;
}

/* Nothing, where the template's is to hold. */
static void set_network(json_t *body, const struct session_create_options *o)
{
    const char *policy = o->network < NETWORK_POLICIES ? network_policy_names[o->network] : NULL;
    if (!policy && o->allow.count == 0)
        return;
    json_t *network = json_pack("{s:s}", "policy", policy ? policy : "allow");
    json_t *hosts = json_array();
    for (size_t i = 0; i < o->allow.count; i++)
        json_array_append_new(hosts, json_text(o->allow.items[i], strlen(o->allow.items[i])));
    json_object_set_new(network, "allow", hosts);
    json_object_set_new(body, "network", network);
}

static int set_secrets(json_t *body, const struct option_list *options, struct error *err)
{
    if (options->count == 0)
        return 0;
    json_t *secrets = secret_read_all(options, err);
    return secrets ? json_object_set_new(body, "secrets", secrets) : -1;
}

int client_session_create(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    const struct session_create_options *o = options;
    scoped_json json_t *body = json_object(), *session = NULL;
    (void)argc, (void)argv;
    client_set_text(body, "template", o->template);
    client_set_text(body, "language", o->language);
    client_set_text(body, "name", o->name);
    client_set_seconds(body, "ttl", o->ttl_ms);
    client_set_seconds(body, "idle_timeout", o->idle_ms);
    client_set_resources(body, "resources", &o->resources);
    set_network(body, o);
    if (set_secrets(body, &o->secrets, err) < 0 ||
        client_set_pairs(body, "env", &o->env, "--env", err) < 0 ||
        client_set_pairs(body, "metadata", &o->metadata, "--metadata", err) < 0 ||
        client_ask(c, "POST", "/sessions", json_incref(body), &session, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(session, err) : tell_created(session, err);
}

/* --- show --------------------------------------------------------------------------------------
 */

static const struct {
    const char *label, *path;
} facts[] = {
    {"id", "id"},
    {"name", "name"},
    {"state", "state"},
    {"problem", "problem"},
    {"template", "template"},
    {"language", "language"},
    {"memory", "resources.memory_bytes"},
    {"cpus", "resources.cpus"},
    {"pids", "resources.pids"},
    {"disk", "resources.disk_bytes"},
    {"network", "network.policy"},
    {"secrets", "secrets"},
    {"created", "created_at"},
    {"last used", "last_used_at"},
    {"expires", "expires_at"},
    {"ended", "ended_at"},
    {"idle timeout", "idle_timeout"},
    {"env", "env"},
    {"metadata", "metadata"},
};

static bool is_bytes(const char *path)
{
    size_t len = strlen(path), tail = strlen("_bytes");
    return len > tail && strcmp(path + len - tail, "_bytes") == 0;
}

static void add_value(struct strbuf *out, const char *path, const json_t *value)
{
    char text[DOC_TEXT_BYTES];
    scoped_strbuf struct strbuf json;
    strbuf_init(&json, OUTPUT_MAX_BYTES);
    if (json_is_string(value)) {
        term_text_add(out, json_string_value(value), json_string_length(value), false);
    } else if (json_is_number(value) && is_bytes(path)) {
        doc_format_bytes(json_number_value(value), text);
        strbuf_add_str(out, text);
    } else if (json_is_number(value)) {
        strbuf_add_fmt(out, "%.15g%s", json_number_value(value),
                       strcmp(path, "idle_timeout") == 0 ? " s" : "");
    } else {
        json_add(&json, value, JSON_STYLE_COMPACT);
        term_text_add(out, strbuf_str(&json), json.len, false);
    }
}

static bool is_worth_showing(const json_t *value)
{
    return value && !json_is_null(value) &&
           !(json_is_object(value) && json_object_size(value) == 0);
}

static int show_session(struct client *c, const char *word, const json_t *session,
                        struct error *err)
{
    (void)c, (void)word;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
        const json_t *value = doc_at(session, facts[i].path);
        if (!is_worth_showing(value))
            continue;
        strbuf_add_fmt(&out, "%-13s ", facts[i].label);
        add_value(&out, facts[i].path, value);
        strbuf_add_char(&out, '\n');
    }
    return client_print(&out, err);
}

int client_session_show(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a session", "GET", PATTERN, "", show_session};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

/* --- rm, reset, interrupt, extend --------------------------------------------------------------
 */

static int tell_state(struct client *c, const char *word, const json_t *session, struct error *err)
{
    (void)c;
    return client_say(err, "%s: %s", word, doc_text(session, "state", "?"));
}

int client_session_rm(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a session", "DELETE", PATTERN, "", tell_state};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

int client_session_reset(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a session", "POST", PATTERN, "/reset", tell_state};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

int client_session_interrupt(struct client *c, void *options, int argc, char **argv,
                             struct error *err)
{
    static const struct client_each each = {"a session", "POST", PATTERN, "/interrupt", tell_state};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

int client_session_extend(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    uint64_t ttl_ms;
    scoped_json json_t *session = NULL;
    (void)options;
    if (argc != 2)
        return error_set(err, ERROR_INVALID,
                         "give a session and a duration, like `cove session extend analysis 2h`");
    if (!parse_duration_ms(argv[1], &ttl_ms))
        return error_set(err, ERROR_INVALID, "'%.80s' is no duration, like 90, 30m or 2h", argv[1]);
    scoped_free char *path = client_path(PATTERN, argv[0], "/extend");
    json_t *body = json_object();
    client_set_seconds(body, "ttl", MAX(ttl_ms, (uint64_t)1));
    if (client_ask(c, "POST", path, body, &session, err) < 0)
        return -1;
    if (c->cli->config.json)
        return client_print_json(session, err);
    return client_say(err, "%s: expires %s", argv[0], doc_text(session, "expires_at", "never"));
}
