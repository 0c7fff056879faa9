/* client.c - finds the command, opens the link, tells errors; and what the commands share */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/client.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "cli/term_text.h"

#define PAGE_LIMIT    "200" /* rows that one request asks for */
#define SAY_MAX_BYTES (1 * MIB)
#define PAIR_NAME_MAX 256
#define MESSAGE_MAX   (4 * KIB)

static const client_fn verbs[REMOTE_COUNT] = {
    [REMOTE_SESSION_LIST] = client_session_list,
    [REMOTE_SESSION_CREATE] = client_session_create,
    [REMOTE_SESSION_SHOW] = client_session_show,
    [REMOTE_SESSION_RM] = client_session_rm,
    [REMOTE_SESSION_EXTEND] = client_session_extend,
    [REMOTE_SESSION_RESET] = client_session_reset,
    [REMOTE_SESSION_INTERRUPT] = client_session_interrupt,
    [REMOTE_EXEC] = client_exec,
    [REMOTE_LOGS] = client_logs,
    [REMOTE_CP] = client_cp,
    [REMOTE_TEMPLATE_LIST] = client_template_list,
    [REMOTE_TEMPLATE_SHOW] = client_template_show,
    [REMOTE_TEMPLATE_CREATE] = client_template_create,
    [REMOTE_TEMPLATE_UPDATE] = client_template_update,
    [REMOTE_TEMPLATE_RM] = client_template_rm,
    [REMOTE_KEY_LIST] = client_key_list,
    [REMOTE_KEY_CREATE] = client_key_create,
    [REMOTE_KEY_RM] = client_key_rm,
    [REMOTE_WORKSPACE_LIST] = client_workspace_list,
    [REMOTE_WORKSPACE_SHOW] = client_workspace_show,
    [REMOTE_WORKSPACE_SAVE] = client_workspace_save,
    [REMOTE_WORKSPACE_RESTORE] = client_workspace_restore,
    [REMOTE_WORKSPACE_RM] = client_workspace_rm,
    [REMOTE_TOP] = client_top,
    [REMOTE_MCP] = client_mcp,
};

/* With --json the server's own words; people get the id that its logs know as well. */
static int tell(const struct client *c, const struct error *err)
{
    struct error ignored;
    const json_t *problem = c->link ? link_problem(c->link) : NULL;
    const char *id = c->link ? link_request_id(c->link) : "";
    if (c->cli->config.json && problem) {
        (void)!json_write(STDOUT_FILENO, problem, JSON_STYLE_COMPACT, &ignored);
        return error_info(err->code)->exit_status;
    }
    int status = cli_fail(c->cli, err);
    if (id[0] && !c->cli->config.json)
        fprintf(stderr, "      request %s\n", id);
    return status;
}

int remote_run(struct cli *cli, enum remote_verb verb, void *options, int argc, char **argv)
{
    struct error err;
    struct client c = {.cli = cli};
    signal(SIGPIPE, SIG_IGN);
    int status = link_open(&c.link, &cli->config, &err);
    if (status == 0)
        status = verbs[verb](&c, options, argc, argv, &err);
    if (status < 0)
        status = tell(&c, &err);
    link_free(c.link);
    return status;
}

/* --- requests -----------------------------------------------------------------------------------
 */

char *client_path(const char *before, const char *word, const char *after)
{
    struct strbuf path;
    strbuf_init(&path, CLIENT_PATH_MAX);
    strbuf_add_str(&path, before);
    link_add_word(&path, word);
    strbuf_add_str(&path, after);
    return strbuf_take(&path);
}

int client_ask(struct client *c, const char *method, const char *path, json_t *body, json_t **out,
               struct error *err)
{
    scoped_json json_t *owned = body;
    const struct link_request request = {.method = method, .path = path, .body = owned};
    return link_ask(c->link, &request, out, err);
}

/* The rows of one page are moved to `all`; *cursor is where the next begins, or NULL. */
static int add_page(struct client *c, const char *path, const char *key, json_t *all, char **cursor,
                    struct error *err)
{
    scoped_json json_t *page = NULL;
    scoped_strbuf struct strbuf whole;
    strbuf_init(&whole, CLIENT_PATH_MAX);
    strbuf_add_str(&whole, path);
    link_add_query(&whole, "limit", PAGE_LIMIT);
    link_add_query(&whole, "cursor", *cursor);
    if (client_ask(c, "GET", strbuf_str(&whole), NULL, &page, err) < 0)
        return -1;
    json_t *rows = json_object_get(page, key);
    if (!json_is_array(rows))
        return error_set(err, ERROR_UNAVAILABLE, "the server's answer has no list of '%s'", key);
    free(take_ptr(cursor));
    const char *next = doc_text(page, "next_cursor", NULL);
    *cursor = next && json_array_size(rows) > 0 ? xstrdup(next) : NULL;
    json_array_extend(all, rows);
    return 0;
}

int client_list(struct client *c, const char *path, const char *key, json_t **out,
                struct error *err)
{
    scoped_free char *cursor = NULL;
    scoped_json json_t *all = json_array();
    do {
        if (add_page(c, path, key, all, &cursor, err) < 0)
            return -1;
    } while (cursor);
    *out = json_pack("{s:O, s:n}", key, all, "next_cursor");
    return 0;
}

int client_for_each(struct client *c, const struct client_each *each, int argc, char **argv,
                    struct error *err)
{
    scoped_json json_t *answers = json_array();
    if (argc == 0)
        return error_set(err, ERROR_INVALID, "which one? Give the name or the id of %s",
                         each->what);
    for (int i = 0; i < argc; i++) {
        scoped_free char *path = client_path(each->before, argv[i], each->after);
        json_t *answer;
        if (client_ask(c, each->method, path, NULL, &answer, err) < 0)
            return -1;
        json_array_append_new(answers, answer);
        if (!c->cli->config.json && each->show(c, argv[i], answer, err) < 0)
            return -1;
    }
    if (!c->cli->config.json)
        return 0;
    return client_print_json(argc == 1 ? json_array_get(answers, 0) : answers, err);
}

/* --- answers ------------------------------------------------------------------------------------
 */

int client_print(const struct strbuf *text, struct error *err)
{
    return fd_write_all(STDOUT_FILENO, strbuf_str(text), text->len, err);
}

int client_print_json(const json_t *document, struct error *err)
{
    return json_write(STDOUT_FILENO, document, JSON_STYLE_PRETTY, err);
}

int client_say(struct error *err, const char *fmt, ...)
{
    va_list args;
    char text[MESSAGE_MAX];
    scoped_strbuf struct strbuf line;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    strbuf_init(&line, SAY_MAX_BYTES);
    term_text_add(&line, text, strlen(text), false);
    strbuf_add_char(&line, '\n');
    return client_print(&line, err);
}

/* --- documents that are sent --------------------------------------------------------------------
 */

int client_set_pairs(json_t *object, const char *key, const struct option_list *pairs,
                     const char *option, struct error *err)
{
    if (pairs->count == 0)
        return 0;
    json_t *members = json_object_get(object, key);
    if (!json_is_object(members)) {
        members = json_object();
        json_object_set_new(object, key, members);
    }
    for (size_t i = 0; i < pairs->count; i++) {
        const char *text = pairs->items[i], *equals = strchr(text, '=');
        if (!equals || equals == text || equals - text >= PAIR_NAME_MAX)
            return error_set(err, ERROR_INVALID, "%s '%.200s' is not NAME=VALUE", option, text);
        scoped_free char *name = xstrndup(text, (size_t)(equals - text));
        json_object_set_new(members, name, json_text(equals + 1, strlen(equals + 1)));
    }
    return 0;
}

void client_set_resources(json_t *object, const char *key, const struct resource_options *r)
{
    json_t *members = json_object_get(object, key);
    scoped_json json_t *all = json_is_object(members) ? json_incref(members) : json_object();
    if (r->memory_bytes)
        json_object_set_new(all, "memory_bytes", json_number(r->memory_bytes));
    if (r->cpus_milli)
        json_object_set_new(all, "cpus", json_real((double)r->cpus_milli / 1000));
    if (r->pids)
        json_object_set_new(all, "pids", json_number(r->pids));
    if (r->disk_bytes)
        json_object_set_new(all, "disk_bytes", json_number(r->disk_bytes));
    if (json_object_size(all) > 0)
        json_object_set(object, key, all);
}

void client_set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        json_object_set_new(object, key, json_text(text, strlen(text)));
}

void client_set_seconds(json_t *object, const char *key, uint64_t milliseconds)
{
    if (milliseconds)
        json_object_set_new(object, key, json_real((double)milliseconds / 1000));
}
