/* rest_variable.c - /sessions/{id}/variables: what its interpreter has, as it says itself */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "api/routes.h"
#include "base/macros.h"
#include "base/memory.h"
#include "core/kernel_answer.h"

enum format { FORMAT_JSON, FORMAT_TEXT };

struct value_wish {
    int format;
};

static const char *const formats[] = {[FORMAT_JSON] = "json", [FORMAT_TEXT] = "text", NULL};

/* clang-format off */
static const struct param value_rows[] = {
    {.name = "format", .type = PARAM_CHOICE, .offset = offsetof(struct value_wish, format), .choices = formats,
     .preset = "\"json\"", .help = "json: the value itself, where it has such a form. text: as the language prints it."},
};
static const struct param_table value_table = PARAM_TABLE(struct value_wish, "GetVariable", value_rows);
/* clang-format on */

static void explain(struct error *err, enum format format)
{
    if (err->code == ERROR_NOT_FOUND) {
        error_word(err, "variable_not_found");
    } else if (err->code == ERROR_INVALID) { /* what the interpreter has raised */
        err->code = ERROR_CONFLICT;
        error_word(err, "variable_unreadable");
        if (format == FORMAT_JSON)
            error_hint(err, "ask with format=text");
    } else if (err->code == ERROR_TOO_LARGE) {
        error_word(err, "variable_too_large");
        error_hint(err, "write it to a file, and read that");
    }
}

static void on_list_known(void *ctx, const char *body, size_t len, const struct error *err)
{
    scoped_free struct inside *in = ctx;
    struct error local;
    json_t *document;
    if (err)
        inside_fail(in, err);
    else if (kernel_answer_variables(&document, body, len, &local) < 0)
        inside_fail(in, &local);
    else
        inside_answer(in, 200, document);
}

static void on_value_known(void *ctx, const char *body, size_t len, const struct error *why)
{
    scoped_free struct inside *in = ctx;
    struct error err;
    json_t *value;
    const struct value_wish *wish = api_query(in->call);
    if (why)
        err = *why;
    else if (kernel_answer_value(&value, body, len, &err) == 0) {
        json_t *document = json_pack("{s:s}", "name", api_parameter(in->call, "name"));
        json_object_update(document, value);
        json_decref(value);
        inside_answer(in, 200, document);
        return;
    }
    explain(&err, (enum format)wish->format);
    inside_fail(in, &err);
}

static void ask(struct api_call *call, enum kernel_frame_type question, const char *body,
                size_t len, session_answer_fn fn)
{
    struct error err;
    struct inside in;
    struct session *session = inside_begin(&in, call);
    if (!session)
        return;
    struct inside *kept = xcalloc(1, sizeof(*kept));
    *kept = in;
    if (session_ask(session, question, body, len, fn, kept, &err) < 0) {
        free(kept);
        inside_fail(&in, &err);
    }
}

static void on_list(struct api_call *call)
{
    ask(call, KERNEL_VARIABLES, NULL, 0, on_list_known);
}

static void on_get(struct api_call *call)
{
    const struct value_wish *wish = api_query(call);
    const char *name = api_parameter(call, "name"), *format = formats[wish->format];
    scoped_free char *body = xasprintf("%s%c%s", name, '\0', format);
    ask(call, KERNEL_VARIABLE, body, strlen(name) + 1 + strlen(format), on_value_known);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply list_reply[] = {
    {200, "VariableList", NULL, "Its variables, without what begins with an underscore."}, {0}};
static const struct api_reply value_reply[] = {{200, "Variable", NULL, "The value."}, {0}};
static const int list_errors[] = {404, 409, 502, 504, 0},
                 value_errors[] = {404, 409, 413, 502, 504, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/sessions/{id}/variables", .scope = SCOPE_SESSIONS_READ, .handler = on_list,
     .id = "listVariables", .tag = "sessions", .summary = "List its variables",
     .help = "With types, sizes and previews, as the interpreter tells them: 409 session_busy while code runs.",
     .replies = list_reply, .errors = list_errors},
    {.method = METHOD_GET, .pattern = "/sessions/{id}/variables/{name}", .scope = SCOPE_SESSIONS_READ,
     .query = &value_table, .handler = on_get, .id = "getVariable", .tag = "sessions", .summary = "Read a variable",
     .help = "409 variable_unreadable when it has no such form, 413 when it is too large.",
     .replies = value_reply, .errors = value_errors},
};
/* clang-format on */
const struct api_group rest_variable_group = {rows, ARRAY_LEN(rows)};
