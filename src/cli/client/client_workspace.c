/* client_workspace.c - `cove workspace list|show|save|restore|rm` */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/client/client.h"
#include "cli/client/table.h"

#define OUTPUT_MAX_BYTES (64 * MIB)

static const char *const heads[] = {"ID", " SIZE", " CHUNKS", " SAVED", NULL};

static void add_workspace(struct table *table, const json_t *workspace, int64_t now)
{
    char text[DOC_TEXT_BYTES];
    table_add(table, doc_text(workspace, "session_id", "-"), TERM_BOLD);
    doc_format_bytes(doc_number(workspace, "bytes", 0), text);
    table_add(table, text, TERM_PLAIN);
    snprintf(text, sizeof(text), "%.0f", doc_number(workspace, "chunks", 0));
    table_add(table, text, TERM_PLAIN);
    doc_format_span(doc_time(workspace, "saved_at"), now, text);
    table_add(table, text, TERM_PLAIN);
}

static int print_table(struct table *table, struct error *err)
{
    scoped_strbuf struct strbuf out;
    const struct table_view view = {
        .count = table_rows(table), .has_colour = term_has_colour(STDOUT_FILENO), .line_end = "\n"};
    strbuf_init(&out, OUTPUT_MAX_BYTES);
    table_write(table, &view, &out);
    return client_print(&out, err);
}

static int print_list(const json_t *document, struct error *err)
{
    const json_t *list = json_object_get(document, "workspaces");
    scoped_table struct table *table = table_new(heads);
    for (size_t i = 0; i < json_array_size(list); i++)
        add_workspace(table, json_array_get(list, i), clock_wall_ns());
    if (table_rows(table) == 0)
        return client_say(err, "No saved workspaces: `cove workspace save SESSION` saves one.");
    return print_table(table, err);
}

int client_workspace_list(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    scoped_json json_t *document = NULL;
    (void)options, (void)argc, (void)argv;
    if (client_list(c, "/workspaces", "workspaces", &document, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(document, err) : print_list(document, err);
}

static int show(struct client *c, const char *word, const json_t *workspace, struct error *err)
{
    scoped_table struct table *table = table_new(heads);
    (void)c, (void)word;
    add_workspace(table, workspace, clock_wall_ns());
    return print_table(table, err);
}

int client_workspace_show(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a workspace", "GET", "/workspaces/", "", show};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

static int tell(const char *word, const char *what, const json_t *workspace, struct error *err)
{
    char text[DOC_TEXT_BYTES];
    doc_format_bytes(doc_number(workspace, "bytes", 0), text);
    return client_say(err, "%s: %s, %s", word, what, text);
}

static int tell_saved(struct client *c, const char *word, const json_t *answer, struct error *err)
{
    (void)c, (void)word; /* a session may have been named: what is needed later is its id */
    return tell(doc_text(answer, "session_id", word), "saved", answer, err);
}

int client_workspace_save(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a session", "POST", "/sessions/", "/workspace/save",
                                            tell_saved};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}

int client_workspace_restore(struct client *c, void *options, int argc, char **argv,
                             struct error *err)
{
    scoped_json json_t *answer = NULL;
    (void)options;
    if (argc != 2)
        return error_set(err, ERROR_INVALID,
                         "give a session, and the id of the one whose files were saved");
    scoped_free char *path = client_path("/sessions/", argv[0], "/workspace/restore");
    json_t *body = json_object();
    client_set_text(body, "from", argv[1]);
    if (client_ask(c, "POST", path, body, &answer, err) < 0)
        return -1;
    return c->cli->config.json ? client_print_json(answer, err)
                               : tell(argv[0], "restored", answer, err);
}

static int tell_removed(struct client *c, const char *word, const json_t *answer, struct error *err)
{
    (void)c;
    return tell(word, "removed", answer, err);
}

int client_workspace_rm(struct client *c, void *options, int argc, char **argv, struct error *err)
{
    static const struct client_each each = {"a workspace", "DELETE", "/workspaces/", "",
                                            tell_removed};
    (void)options;
    return client_for_each(c, &each, argc, argv, err);
}
