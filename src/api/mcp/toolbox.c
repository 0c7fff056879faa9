/* toolbox.c - the service: which tools there are, for whom, and what models are told first */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/toolbox.h"

#include <stdlib.h>
#include <string.h>

#include "api/mcp/mcp_door.h"
#include "api/mcp/outputs.h"
#include "api/mcp/run_task.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"

#define LIST_TTL_MS      (5 * 60 * 1000)
#define TOOLS_MAX        16
#define INSTRUCTIONS_MAX (8 * KIB)

#define RUN_ROWS_MAX 8
#define ALIASES      3 /* at the end of the list */

/* run_code under one of its names. */
struct runner_tool {
    struct param rows[RUN_ROWS_MAX];
    struct param_table table;
    struct mcp_tool tool;
};

enum { RUN_CODE, RUN_PYTHON, SANDBOX_RUN_CODE, RUN_NAMES };

struct toolbox {
    struct api *api;
    struct map rooms;
    struct mcp_service service;
    struct runner_tool runs[RUN_NAMES];
    bool is_structured;
    struct mcp_tool rows[TOOLS_MAX];
    const struct mcp_tool *tools[TOOLS_MAX + 1];
};

/* --- for the tools ---------------------------------------------------------------------------- */

struct api *toolbox_api(const struct mcp_call *call)
{
    const struct toolbox *box = mcp_ctx(call);
    return box->api;
}

struct map *toolbox_rooms(const struct mcp_call *call)
{
    struct toolbox *box = mcp_ctx(call);
    return &box->rooms;
}

bool toolbox_is_structured(const struct mcp_call *call)
{
    const struct toolbox *box = mcp_ctx(call);
    return box->is_structured;
}

void toolbox_answer(struct mcp_call *call, json_t *content, json_t *data)
{
    json_t *result = mcp_tool_result(content);
    if (toolbox_is_structured(call))
        json_object_set_new(result, "structuredContent", data);
    else
        json_decref(data);
    mcp_answer(call, result);
}

void toolbox_answer_text(struct mcp_call *call, const char *text, json_t *data)
{
    toolbox_answer(call, json_pack("[o]", mcp_text_content(text, strlen(text))), data);
}

static const struct api_user *user_of(const struct mcp_call *call)
{
    return mcp_user(call)->data;
}

const struct plane_caller *toolbox_caller(const struct mcp_call *call)
{
    return &user_of(call)->caller;
}

bool toolbox_has_scope(const struct mcp_call *call, unsigned scope)
{
    return scope_allows(user_of(call)->scopes, scope);
}

static bool may(const struct mcp_call *call, unsigned scope, struct error *err)
{
    char words[SCOPE_TEXT_BYTES];
    if (toolbox_has_scope(call, scope))
        return true;
    scope_format(scope, words);
    error_set(err, ERROR_DENIED, "this needs the scope '%s', which the key does not have", words);
    error_hint(err, "only a person can change that: tell the user");
    return false;
}

bool toolbox_check_scope(struct mcp_call *call, unsigned scope)
{
    struct error err;
    if (may(call, scope, &err))
        return true;
    mcp_answer_failure(call, &err);
    return false;
}

static bool may_use(const struct mcp_call *call, const struct mcp_tool *tool, struct error *err)
{
    return may(call, tool->scope, err);
}

/* A template of that name is what the plane looked for: REST's word, not the model's. */
static void complain_of_language(struct mcp_call *call)
{
    struct error err;
    const char *word = json_string_value(json_object_get(mcp_raw_arguments(call), "language"));
    const struct runner_list *list = catalog_runners(toolbox_api(call)->catalog);
    struct nearest nearest = {.word = word ? word : "python"};
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, KIB);
    for (size_t i = 0; i < list->count; i++) {
        nearest_offer(&nearest, list->items[i].language);
        strbuf_add_fmt(&names, "%s%s", i ? ", " : "", list->items[i].language);
    }
    error_set(&err, ERROR_INVALID, "language: '%.60s' is none of those here: %s", nearest.word,
              strbuf_str(&names));
    if (nearest.best)
        error_hint(&err, "did you mean '%s'?", nearest.best);
    else
        error_hint(&err, "list_runners tells more of them");
    mcp_answer_complaint(call, &err);
}

/* What REST says about some errors names its own routes. */
void toolbox_fail(struct mcp_call *call, const struct error *err)
{
    static const struct {
        const char *word, *hint;
    } rows[] = {
        {"session_failed", "its variables are lost: call close_session, then run_code again"},
        {"session_busy", "wait for what runs in it, or use another session_id"},
        {"session_not_found", "run_code or upload_file with a session_id of your choice makes one"},
        {"session_terminating", "use another session_id"},
        {"execution_not_found", "use an execution_id that run_code has told"},
    };
    const char *word = err->word ? err->word : "";
    if (strcmp(word, "language_not_found") == 0 || strcmp(word, "template_not_found") == 0) {
        complain_of_language(call);
        return;
    }
    struct error told = *err;
    bool is_complaint = err->code == ERROR_INVALID || err->code == ERROR_TOO_LARGE;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].word, word) == 0)
            error_hint(&told, "%s", rows[i].hint);
    }
    if (err->code == ERROR_INTERNAL)
        log_error(toolbox_api(call)->log, "a tool failed",
                  LOG_STR("tool", mcp_call_tool(call) ? mcp_call_tool(call)->name : NULL),
                  LOG_STR("error", err->msg));
    if (is_complaint)
        mcp_answer_complaint(call, &told);
    else
        mcp_answer_failure(call, &told);
}

/* --- run_code --------------------------------------------------------------------------------- */

/* The rows are those of REST, so that both doors take the same; their struct comes first. */
static const char *const rest_rows[] = {"code",  "language", "timeout",
                                        "files", "stdin",    "requirements"};
static const struct param session_row = SESSION_ROW(struct run_wish, false);
_Static_assert(ARRAY_LEN(rest_rows) + 1 <= RUN_ROWS_MAX, "there is room for all of them");

static const struct {
    const char *name, *session; /* of the argument */
    bool has_language;
} run_names[RUN_NAMES] = {
    [RUN_CODE] = {"run_code", "session_id", true},
    [RUN_PYTHON] = {"run_python", "session_id", false},
    [SANDBOX_RUN_CODE] = {"sandbox.run_code", "conversationId", true},
};

/* clang-format off */
static const struct mcp_tool run_code = {
    .name = "run_code", .title = "Run code in a sandbox",
    .description =
        "Runs a program in a sealed Linux sandbox and answers with what it printed, the value of its last "
        "expression, pictures, and the files it made.\n"
        "Without session_id each call has a fresh sandbox that is gone afterwards. With a session_id of your choice "
        "(for example \"analysis\") variables, imports and files stay for the next call with the same one.\n"
        "The working directory is the workspace: files that are written there are listed with the result and can be "
        "read with read_artifact. There is no network unless the operator allows it. "
        "list_runners tells languages and versions.\n"
        "Example: {\"language\": \"python\", \"code\": \"import statistics\\nprint(statistics.mean([1, 2, 3]))\"}\n"
        "Example with a file and a session: {\"session_id\": \"analysis\", \"code\": \"print(open('a.csv').read())\", "
        "\"files\": [{\"path\": \"a.csv\", \"content\": \"x,y\\n1,2\\n\"}]}",
    .example = "{\"language\": \"python\", \"code\": \"print(6 * 7)\"}",
    .run = tool_run_code,
};
/* clang-format on */

static const struct param *find_row(const char *name)
{
    const struct param_table *table = &stateless_wish_table;
    size_t i = 0;
    while (i < table->count && strcmp(table->rows[i].name, name) != 0)
        i++;
    BUG_ON(i == table->count);
    return &table->rows[i];
}

static void make_run(struct runner_tool *t, size_t which)
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(rest_rows); i++) {
        if (run_names[which].has_language || strcmp(rest_rows[i], "language") != 0)
            t->rows[count++] = *find_row(rest_rows[i]);
        if (strcmp(t->rows[count - 1].name, "language") == 0)
            t->rows[count - 1].help =
                "As list_runners tells them; without one, python, or the session's.";
    }
    t->rows[count] = session_row;
    t->rows[count++].name = run_names[which].session;
    t->table = (struct param_table){
        .name = "RunCode", .size = sizeof(struct run_wish), .rows = t->rows, .count = count};
    t->tool = run_code;
    t->tool.name = run_names[which].name;
    t->tool.params = &t->table;
    if (!run_names[which].has_language)
        t->tool.example = "{\"code\": \"print(6 * 7)\"}";
}

/* --- the service ------------------------------------------------------------------------------ */

static char *make_instructions(void *ctx)
{
    const struct toolbox *box = ctx;
    const struct runner_list *list = catalog_runners(box->api->catalog);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, INSTRUCTIONS_MAX);
    strbuf_add_str(&text, "Cove runs code in sealed sandboxes. Use run_code for anything that is "
                          "better computed than guessed.\nLanguages:");
    for (size_t i = 0; i < list->count; i++)
        strbuf_add_fmt(&text, "%s %s%s%s", i ? "," : "", list->items[i].language,
                       list->items[i].version ? " " : "",
                       list->items[i].version ? list->items[i].version : "");
    strbuf_add_str(&text,
                   ".\nOne call without session_id: a fresh sandbox. The same session_id again: "
                   "the same variables and files; close_session when you are done.\nSave pictures "
                   "and data as files in the working directory; read_artifact shows them.\nA "
                   "program that fails is a result: read its error and try again.\n");
    return strbuf_take(&text);
}

/* In the order in which they are told; aliases come last. */
static void list_tools(struct toolbox *box, bool has_aliases)
{
    static const char *const other_list = "sandbox.list_runners";
    const struct {
        const struct mcp_tool *tool;
        const char *output, *name; /* name NULL: its own */
    } tools[] = {
        {&box->runs[RUN_CODE].tool, "Execution", NULL},
        {&tool_upload_file, OUTPUTS_UPLOAD, NULL},
        {&tool_list_artifacts, OUTPUTS_FILE_LIST, NULL},
        {&tool_read_artifact, OUTPUTS_READING, NULL},
        {&tool_close_session, "Session", NULL},
        {&tool_list_runners, "RunnerList", NULL},
        {&box->runs[RUN_PYTHON].tool, "Execution", NULL},
        {&box->runs[SANDBOX_RUN_CODE].tool, "Execution", NULL},
        {&tool_list_runners, "RunnerList", other_list},
    };
    _Static_assert(ARRAY_LEN(tools) <= TOOLS_MAX, "there is room for all of them");
    for (size_t i = 0; i < RUN_NAMES; i++)
        make_run(&box->runs[i], i);
    for (size_t i = 0; i < ARRAY_LEN(tools) - (has_aliases ? 0 : ALIASES); i++) {
        box->rows[i] = *tools[i].tool;
        if (tools[i].name)
            box->rows[i].name = tools[i].name;
        if (box->is_structured)
            box->rows[i].output = outputs_schema(tools[i].output);
        box->tools[i] = &box->rows[i];
    }
}

struct toolbox *toolbox_new(struct api *api, unsigned flags)
{
    struct toolbox *box = xcalloc(1, sizeof(*box));
    box->api = api;
    box->is_structured = flags & MCP_DOOR_STRUCTURED;
    list_tools(box, flags & MCP_DOOR_ALIASES);
    box->service = (struct mcp_service){
        .name = "cove",
        .title = "Cove",
        .version = COVE_VERSION,
        .description = "Runs code in sealed sandboxes",
        .features = MCP_TASKS,
        .tools = box->tools,
        .prompts = toolbox_prompts,
        .templates = toolbox_templates,
        .list_resources = toolbox_list_resources,
        .read_resource = toolbox_read_resource,
        .complete = toolbox_complete,
        .find_task = run_task_find,
        .may = may_use,
        .instructions = make_instructions,
        .list_ttl_ms = LIST_TTL_MS,
        .ctx = box,
    };
    return box;
}

void toolbox_free(struct toolbox *box)
{
    if (!box)
        return;
    map_release(&box->rooms);
    for (size_t i = 0; box->is_structured && i < TOOLS_MAX; i++)
        free((char *)box->rows[i].output);
    free(box);
}

const struct mcp_service *toolbox_service(const struct toolbox *box)
{
    return &box->service;
}
