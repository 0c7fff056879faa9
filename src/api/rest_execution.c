/* rest_execution.c - /executions: what became of code, and what it says while it runs */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/events.h"
#include "api/page.h"
#include "api/routes.h"
#include "base/macros.h"

static const char *const states[] = {"queued",  "running",   "completed", "failed",
                                     "timeout", "cancelled", "lost",      NULL};

/* clang-format off */
#define AT(field) offsetof(struct plane_filter, field)
static const struct param list_rows[] = {
    {.name = "session", .type = PARAM_STRING, .offset = AT(session), .max_len = 64, .check = template_name_is_valid,
     .help = "Only those of this session, by name or id."},
    {.name = "state", .type = PARAM_CHOICE, .offset = AT(state), .has_offset = AT(has_state), .choices = states,
     .help = "Only those in this state."},
    PAGE_LIMIT_ROW(struct plane_filter),
    PAGE_CURSOR_ROW(struct plane_filter),
};
#undef AT
static const struct param_table list_table = PARAM_TABLE(struct plane_filter, "ListExecutions", list_rows);
/* clang-format on */

static void get(struct api_call *call, plane_fn fn)
{
    plane_get_execution(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), fn, call);
}

static void on_list(struct api_call *call)
{
    plane_list_executions(api_of(call)->plane, api_caller(call), api_query(call), api_answer_as,
                          call);
}

static void on_get(struct api_call *call)
{
    get(call, api_answer_as);
}

static void on_cancel(struct api_call *call)
{
    plane_cancel(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), api_answer_as,
                 call);
}

static void on_events(struct api_call *call)
{
    events_stream(call, api_parameter(call, "id"));
}

/* --- parts of the document -------------------------------------------------------------------- */

static const char *const status_fields[] = {"id",         "session_id", "language",   "state",
                                            "exit_code",  "signal",     "reason",     "created_at",
                                            "started_at", "ended_at",   "duration_ms"};

static void on_status_known(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct api_call *call = ctx;
    scoped_json json_t *document = err ? NULL : json_parse_own(text, len);
    if (!document) {
        api_answer_as(call, text, len, err);
        return;
    }
    json_t *status = json_object();
    for (size_t i = 0; i < ARRAY_LEN(status_fields); i++) {
        json_t *value = json_object_get(document, status_fields[i]);
        json_object_set_new(status, status_fields[i], value ? json_incref(value) : json_null());
    }
    api_answer(call, 200, status);
}

static void on_status(struct api_call *call)
{
    get(call, on_status_known);
}

/* Only of one that has ended: who polls can tell the two apart by the status. */
static void on_result_known(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct api_call *call = ctx;
    struct error local;
    scoped_json json_t *document = err ? NULL : json_parse_own(text, len);
    if (!document || !json_is_null(json_object_get(document, "ended_at"))) {
        api_answer_as(call, text, len, err);
        return;
    }
    error_set(&local, ERROR_CONFLICT, "the execution is %s",
              json_string_value(json_object_get(document, "state")));
    error_word(&local, "execution_not_ended");
    error_hint(&local, "read /executions/{id}/events, or ask again");
    api_fail(call, &local);
}

static void on_result(struct api_call *call)
{
    get(call, on_result_known);
}

static void on_artifacts_known(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct api_call *call = ctx;
    scoped_json json_t *document = err ? NULL : json_parse_own(text, len);
    if (!document) {
        api_answer_as(call, text, len, err);
        return;
    }
    json_t *list = json_object_get(document, "artifacts");
    json_t *cut = json_object_get(json_object_get(document, "truncated"), "artifacts");
    api_answer(call, 200,
               json_pack("{s:O, s:b}", "artifacts", list, "truncated", json_is_true(cut)));
}

static void on_artifacts(struct api_call *call)
{
    get(call, on_artifacts_known);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply reply[] = {{200, "Execution", NULL, "The execution."}, {0}};
static const struct api_reply status_reply[] = {
    {200, "ExecutionStatus", NULL, "The execution without what it printed."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "ExecutionList", NULL, "A page of them, newest first."}, {0}};
static const struct api_reply artifacts_reply[] = {{200, "ArtifactList", NULL, "All of them."},
                                                   {0}};
static const struct api_reply events_reply[] = {
    {200, "Event", "text/event-stream", "Its events."},
    {204, NULL, NULL, "It has ended, and Last-Event-ID names its last event."},
    {0}};
static const int not_found[] = {404, 0}, not_yet[] = {404, 409, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/executions", .scope = SCOPE_SESSIONS_READ, .query = &list_table,
     .handler = on_list, .id = "listExecutions", .tag = "executions", .summary = "List executions",
     .replies = list_reply, .errors = not_found},
    {.method = METHOD_GET, .pattern = "/executions/{id}", .scope = SCOPE_SESSIONS_READ, .handler = on_get,
     .id = "getExecution", .tag = "executions", .summary = "Read an execution", .replies = reply, .errors = not_found},
    {.method = METHOD_GET, .pattern = "/executions/{id}/status", .scope = SCOPE_SESSIONS_READ, .handler = on_status,
     .id = "getExecutionStatus", .tag = "executions", .summary = "Where it stands", .replies = status_reply,
     .errors = not_found},
    {.method = METHOD_GET, .pattern = "/executions/{id}/result", .scope = SCOPE_SESSIONS_READ, .handler = on_result,
     .id = "getExecutionResult", .tag = "executions", .summary = "What came of it",
     .help = "409 execution_not_ended as long as it runs or waits.", .replies = reply, .errors = not_yet},
    {.method = METHOD_GET, .pattern = "/executions/{id}/artifacts", .scope = SCOPE_SESSIONS_READ, .handler = on_artifacts,
     .id = "listArtifacts", .tag = "executions", .summary = "What it made",
     .help = "Files that it created or changed, as it left them. They are kept for a while after the session has "
             "ended, and download_url, which is new each time, fetches one without a token.",
     .replies = artifacts_reply, .errors = not_found},
    {.method = METHOD_GET, .pattern = "/executions/{id}/events", .scope = SCOPE_SESSIONS_READ, .handler = on_events,
     .id = "streamExecution", .tag = "executions", .summary = "What it says, as it comes",
     .help = "started, stdout, stderr, result, artifact, and one ended with the whole execution. Last-Event-ID goes "
             "on behind an event; a stream that begins with started begins anew. missed counts events that were "
             "dropped before they could be sent.",
     .replies = events_reply, .errors = not_found},
    {.method = METHOD_POST, .pattern = "/executions/{id}/cancel", .scope = SCOPE_SESSIONS_WRITE, .handler = on_cancel,
     .id = "cancelExecution", .tag = "executions", .summary = "End it",
     .help = "Interrupts, then kills. The session lives on, with its state where an interrupt was enough.",
     .replies = reply, .errors = not_found},
};
/* clang-format on */
const struct api_group rest_execution_group = {rows, ARRAY_LEN(rows)};
