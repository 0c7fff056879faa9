/* complete.c - the rest of an address: ids of executions, and paths of what they left
 *
 * For the variables of the templates; arguments of prompts are people's own words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/mcp/run_text.h"
#include "api/mcp/toolbox.h"

#define VALUES_MAX 100 /* as the protocol has it */

/* Whether there are more is all that is known beyond these. */
static void answer(struct mcp_call *call, json_t *values, bool has_more)
{
    mcp_answer(call,
               json_pack("{s:{s:o, s:b}}", "completion", "values", values, "hasMore", has_more));
}

/* What was typed so far. */
static const char *typed(const struct mcp_call *call)
{
    const json_t *argument = json_object_get(mcp_params(call), "argument");
    return json_string_value(json_object_get(argument, "value"));
}

static bool begins(const struct mcp_call *call, const char *word)
{
    return strncmp(word, typed(call), strlen(typed(call))) == 0;
}

static void on_executions(void *ctx, const struct store_answer *rows)
{
    struct mcp_call *call = ctx;
    json_t *values = json_array();
    for (size_t i = 0; !rows->err && i < rows->count; i++) {
        if (json_array_size(values) < VALUES_MAX && begins(call, rows->executions[i].id))
            json_array_append_new(values, json_string(rows->executions[i].id));
    }
    answer(call, values, !rows->err && rows->next_cursor);
}

static void complete_execution(struct mcp_call *call)
{
    const struct store_filter filter = {.owner = toolbox_caller(call)->owner,
                                        .limit = STORE_PAGE_MAX};
    store_list_executions(toolbox_api(call)->store, &filter, on_executions, call);
}

static void on_document(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct mcp_call *call = ctx;
    size_t i;
    json_t *file, *values = json_array();
    bool has_more = false;
    scoped_json json_t *document = err ? NULL : json_parse_own(text, len);
    json_array_foreach(json_object_get(document, "artifacts"), i, file)
    {
        const char *path = json_string_value(json_object_get(file, "path"));
        if (!begins(call, path) || !run_text_has_uri(path))
            continue;
        if (json_array_size(values) < VALUES_MAX)
            json_array_append_new(values, json_string(path));
        else
            has_more = true;
    }
    answer(call, values, has_more);
}

static void complete_path(struct mcp_call *call)
{
    const json_t *context = json_object_get(mcp_params(call), "context");
    const char *id =
        json_string_value(json_object_get(json_object_get(context, "arguments"), "execution_id"));
    if (id && id_is_valid(ID_EXECUTION, id))
        plane_get_execution(toolbox_api(call)->plane, toolbox_caller(call), id, on_document, call);
    else
        answer(call, json_array(), false);
}

static const struct {
    const char *argument;
    void (*complete)(struct mcp_call *call);
} rows[] = {{"execution_id", complete_execution}, {"path", complete_path}};

void toolbox_complete(struct mcp_call *call)
{
    const json_t *ref = json_object_get(mcp_params(call), "ref");
    const json_t *argument = json_object_get(mcp_params(call), "argument");
    const char *type = json_string_value(json_object_get(ref, "type"));
    const char *name = json_string_value(json_object_get(argument, "name"));
    for (size_t i = 0; i < ARRAY_LEN(rows) && toolbox_has_scope(call, SCOPE_SESSIONS_READ); i++) {
        if (strcmp(type, "ref/resource") == 0 && strcmp(rows[i].argument, name) == 0) {
            rows[i].complete(call);
            return;
        }
    }
    answer(call, json_array(), false);
}
