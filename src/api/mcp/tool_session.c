/* tool_session.c - close_session and list_runners */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/mcp/toolbox.h"
#include "api/runner_json.h"
#include "base/strbuf.h"
#include "image/module.h"

#define TEXT_MAX (64 * KIB)

struct close_wish {
    char *session;
};

static void on_closed(void *ctx, const char *text, size_t len, const struct error *err)
{
    if (err)
        toolbox_fail(ctx, err);
    else
        toolbox_answer_text(ctx, "The session has ended; its variables and files are gone.",
                            json_parse_own(text, len));
}

static void run_close(struct mcp_call *call)
{
    const struct close_wish *wish = mcp_arguments(call);
    plane_end(toolbox_api(call)->plane, toolbox_caller(call), wish->session, on_closed, call);
}

static void add_words(struct strbuf *out, const char *title, const struct runner_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        strbuf_add_fmt(out, "%s%s", i ? ", " : title, words->items[i]);
}

static void add_packages(struct strbuf *out, const struct runner *r)
{
    scoped_packages struct module_packages found;
    module_list(r, &found);
    for (size_t i = 0; i < found.count; i++)
        strbuf_add_fmt(out, "%s%s %s", i ? ", " : "  with ", found.items[i].name,
                       found.items[i].version);
    if (found.count > 0)
        strbuf_add_char(out, '\n');
}

static void run_list(struct mcp_call *call)
{
    const struct api *api = toolbox_api(call);
    const struct runner_list *list = catalog_runners(api->catalog);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const struct runner *r = &list->items[i];
        strbuf_add_fmt(&text, "- %s %s", r->language, r->version ? r->version : "");
        add_words(&text, "; also called ", &r->aliases);
        strbuf_add_fmt(&text, "; %s%s\n",
                       catalog_has_sessions(api->catalog, r) ? "with sessions"
                                                             : "without session_id only",
                       r->installer ? "; takes requirements" : "");
        add_packages(&text, r);
    }
    if (list->count == 0)
        strbuf_add_str(&text, "There are no languages here yet: the operator has to build images.");
    toolbox_answer_text(call, strbuf_str(&text), runner_json_list(api->catalog));
}

/* clang-format off */
static const struct param close_rows[] = {SESSION_ROW(struct close_wish, true)};
static const struct param_table close_table = PARAM_TABLE(struct close_wish, "CloseSession", close_rows);
const struct mcp_tool tool_close_session = {
    .name = "close_session", .title = "End a session",
    .description = "Ends a session with its variables and files. One that has ended already is fine.\n"
                   "Example: {\"session_id\": \"analysis\"}",
    .example = "{\"session_id\": \"analysis\"}",
    .hints = MCP_DESTRUCTIVE | MCP_IDEMPOTENT, .params = &close_table, .scope = SCOPE_SESSIONS_WRITE, .run = run_close,
};

struct nothing {
    char unused;
};
static const struct param_table no_table = {.name = "ListRunners", .size = sizeof(struct nothing)};
const struct mcp_tool tool_list_runners = {
    .name = "list_runners", .title = "List languages",
    .description = "Tells which languages run_code takes, in which versions, and which of them have sessions. Takes no arguments.\n"
                   "Example: {}",
    .example = "{}",
    .hints = MCP_READ_ONLY | MCP_IDEMPOTENT, .params = &no_table, .run = run_list,
};
/* clang-format on */
