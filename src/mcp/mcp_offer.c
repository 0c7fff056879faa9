/* mcp_offer.c - tools, prompts and resources: listed from their tables, and used */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "mcp/mcp_inside.h"

#define COMPLAINT_MAX (16 * KIB)

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text)
        json_object_set_new(object, name, json_string(text));
}

/* Everything fits on one page, so there is no cursor that could be ours. */
static bool check_cursor(struct mcp_call *call)
{
    if (!json_object_get(mcp_params(call), "cursor"))
        return true;
    mcp_fail(call, RPC_INVALID_PARAMS, NULL, "cursor: is none that was given here");
    return false;
}

/* --- tools ------------------------------------------------------------------------------------ */

/* Texts of our own tables: what is wrong with them is a bug. */
static json_t *parse_schema(const char *text)
{
    json_t *schema = json_loads(text, 0, NULL);
    BUG_ON(!schema);
    return schema;
}

static json_t *make_tool(const struct mcp_tool *t)
{
    json_t *tool = json_pack("{s:s}", "name", t->name);
    set_text(tool, "title", t->title);
    set_text(tool, "description", t->description);
    json_object_set_new(tool, "inputSchema",
                        t->params   ? params_schema(t->params)
                        : t->schema ? parse_schema(t->schema)
                                    : json_pack("{s:s, s:{}}", "type", "object", "properties"));
    if (t->output)
        json_object_set_new(tool, "outputSchema", parse_schema(t->output));
    json_t *annotations = json_pack(
        "{s:b, s:b, s:b, s:b}", "readOnlyHint", (t->hints & MCP_READ_ONLY) != 0, "destructiveHint",
        (t->hints & MCP_DESTRUCTIVE) != 0, "idempotentHint", (t->hints & MCP_IDEMPOTENT) != 0,
        "openWorldHint", (t->hints & MCP_OPEN_WORLD) != 0);
    set_text(annotations, "title", t->title);
    json_object_set_new(tool, "annotations", annotations);
    return tool;
}

json_t *mcp_make_tools(const struct mcp_service *service)
{
    json_t *list = json_array();
    for (const struct mcp_tool *const *t = service->tools; t && *t; t++)
        json_array_append_new(list, make_tool(*t));
    return list;
}

const struct mcp_tool *mcp_find_tool(const struct mcp_service *service, const char *name)
{
    for (const struct mcp_tool *const *t = service->tools; *t; t++) {
        if (strcmp((*t)->name, name) == 0)
            return *t;
    }
    return NULL;
}

void mcp_handle_tools_list(struct mcp_call *call)
{
    if (check_cursor(call))
        mcp_answer(call, json_pack("{s:O}", "tools", call->peer->server->tools));
}

/* What is wrong, and how it is called right: the next try of a model depends on it. */
void mcp_answer_complaint(struct mcp_call *call, const struct error *err)
{
    const struct mcp_tool *tool = call->tool;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, COMPLAINT_MAX);
    strbuf_add_fmt(&text, "%s: %s\n", tool->name, err->msg);
    if (err->hint[0])
        strbuf_add_fmt(&text, "%s\n", err->hint);
    size_t count = tool->params ? tool->params->count : 0;
    strbuf_add_str(&text, count > 0 ? "Arguments:\n" : "It takes no arguments.\n");
    for (size_t i = 0; i < count; i++) {
        const struct param *row = &tool->params->rows[i];
        strbuf_add_fmt(&text, "- %s%s: %s\n", row->name, row->is_required ? " (required)" : "",
                       row->help);
    }
    if (tool->example)
        strbuf_add_fmt(&text, "Example: %s", tool->example);
    mcp_answer_error(call, strbuf_str(&text));
}

static bool read_arguments(struct mcp_call *call)
{
    struct error err;
    const struct param_table *table = call->tool->params;
    if (!table)
        return true;
    if (call->arguments) /* it runs again, with answers of the client */
        params_release(call->arguments, table);
    else
        call->arguments = xcalloc(1, table->size);
    if (params_read(call->arguments, table, mcp_raw_arguments(call), &err) == 0)
        return true;
    free(take_ptr(&call->arguments));
    mcp_answer_complaint(call, &err);
    return false;
}

static void refuse_tool(struct mcp_call *call, const char *name)
{
    scoped_strbuf struct strbuf names;
    struct nearest nearest = {.word = name ? name : ""};
    strbuf_init(&names, COMPLAINT_MAX / 8);
    for (const struct mcp_tool *const *t = call->peer->server->service->tools; *t; t++) {
        nearest_offer(&nearest, (*t)->name);
        strbuf_add_fmt(&names, "%s%s", names.len ? ", " : "", (*t)->name);
    }
    mcp_fail(call, RPC_INVALID_PARAMS, NULL, "there is no tool '%.100s'; %s%s%sthere are: %s",
             name ? name : "", nearest.best ? "did you mean '" : "",
             nearest.best ? nearest.best : "", nearest.best ? "'? " : "", strbuf_str(&names));
}

/* Models sometimes send JSON in a text. */
static void refuse_arguments(struct mcp_call *call, const json_t *given)
{
    struct error err;
    error_set(&err, ERROR_INVALID, "arguments: expected an object, not %s",
              json_is_string(given)  ? "a text (do not quote the object)"
              : json_is_array(given) ? "a list"
                                     : "anything else");
    mcp_answer_complaint(call, &err);
}

void mcp_handle_tools_call(struct mcp_call *call)
{
    struct error err;
    const struct mcp_service *service = call->peer->server->service;
    const char *name = json_string_value(json_object_get(mcp_params(call), "name"));
    const json_t *arguments = json_object_get(mcp_params(call), "arguments");
    call->tool = name ? mcp_find_tool(service, name) : NULL;
    if (!call->tool)
        refuse_tool(call, name);
    else if (arguments && !json_is_object(arguments))
        refuse_arguments(call, arguments);
    else if (call->tool->needs_task && call->version->era == MCP_MODERN &&
             !mcp_has_extension(call, MCP_TASKS_EXTENSION))
        mcp_fail_extension(call, MCP_TASKS_EXTENSION);
    else if (service->may && !service->may(call, call->tool, &err))
        mcp_answer_failure(call, &err);
    else if (read_arguments(call))
        call->tool->run(call);
}

/* --- prompts ---------------------------------------------------------------------------------- */

static json_t *make_prompt(const struct mcp_prompt *p)
{
    json_t *prompt = json_pack("{s:s}", "name", p->name);
    set_text(prompt, "title", p->title);
    set_text(prompt, "description", p->description);
    json_t *list = json_array();
    for (const struct mcp_prompt_argument *a = p->arguments; a && a->name; a++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", a->name, "description",
                                              a->description, "required", a->is_required));
    json_object_set_new(prompt, "arguments", list);
    return prompt;
}

void mcp_handle_prompts_list(struct mcp_call *call)
{
    if (!check_cursor(call))
        return;
    json_t *list = json_array();
    for (const struct mcp_prompt *const *p = call->peer->server->service->prompts; *p; p++)
        json_array_append_new(list, make_prompt(*p));
    mcp_answer(call, json_pack("{s:o}", "prompts", list));
}

/* The name of an argument that must be there and is not, or is no text; NULL: all is well. */
static const char *find_wrong(const struct mcp_prompt *p, const json_t *given)
{
    for (const struct mcp_prompt_argument *a = p->arguments; a && a->name; a++) {
        const json_t *value = json_object_get(given, a->name);
        if (value ? !json_is_string(value) : a->is_required)
            return a->name;
    }
    return NULL;
}

void mcp_handle_prompts_get(struct mcp_call *call)
{
    const struct mcp_prompt *const *p = call->peer->server->service->prompts;
    const char *name = json_string_value(json_object_get(mcp_params(call), "name"));
    while (*p && !(name && strcmp((*p)->name, name) == 0))
        p++;
    const char *wrong = *p ? find_wrong(*p, mcp_raw_arguments(call)) : NULL;
    if (!*p)
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "there is no prompt '%.100s'", name ? name : "");
    else if (wrong)
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "prompt '%s': argument '%s' must be text",
                 (*p)->name, wrong);
    else
        (*p)->get(call);
}

/* --- resources -------------------------------------------------------------------------------- */

static json_t *make_resources(const struct mcp_resource *const *rows, const char *uri_name)
{
    json_t *list = json_array();
    for (; rows && *rows; rows++) {
        json_t *resource = json_pack("{s:s, s:s}", uri_name, (*rows)->uri, "name", (*rows)->name);
        set_text(resource, "title", (*rows)->title);
        set_text(resource, "description", (*rows)->description);
        set_text(resource, "mimeType", (*rows)->mime);
        json_array_append_new(list, resource);
    }
    return list;
}

void mcp_handle_resources_list(struct mcp_call *call)
{
    const struct mcp_service *service = call->peer->server->service;
    if (service->list_resources)
        service->list_resources(call);
    else if (check_cursor(call))
        mcp_answer(call,
                   json_pack("{s:o}", "resources", make_resources(service->resources, "uri")));
}

void mcp_handle_templates_list(struct mcp_call *call)
{
    const struct mcp_service *service = call->peer->server->service;
    if (check_cursor(call))
        mcp_answer(call, json_pack("{s:o}", "resourceTemplates",
                                   make_resources(service->templates, "uriTemplate")));
}

void mcp_handle_resources_read(struct mcp_call *call)
{
    const json_t *uri = json_object_get(mcp_params(call), "uri");
    if (!json_is_string(uri) || json_string_length(uri) > MCP_URI_MAX_BYTES)
        mcp_fail(call, RPC_INVALID_PARAMS, NULL, "uri: must be text of at most %d bytes",
                 MCP_URI_MAX_BYTES);
    else
        call->peer->server->service->read_resource(call, json_string_value(uri));
}
