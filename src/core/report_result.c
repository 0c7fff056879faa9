/* report_result.c - how an execution ended, in the words of an executor elsewhere
 *
 * What it says becomes the document that clients read, so each field has the shape that it has
 * there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macros.h"
#include "core/report.h"
#include "core/verdict.h"

#define TEXT_MAX    (8 * 1024 * 1024)
#define RESULTS_MAX 1000
#define FORMS_MAX   32
#define COUNT_MAX   1e15

static const enum store_execution_state ends[] = {STORE_EXECUTION_COMPLETED, STORE_EXECUTION_FAILED,
                                                  STORE_EXECUTION_TIMEOUT,
                                                  STORE_EXECUTION_CANCELLED};
static const char *const end_names[] = {"completed", "failed", "timeout", "cancelled", NULL};

static bool is_signal(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+";
    size_t len = strlen(text);
    return strncmp(text, "SIG", 3) == 0 && len > 3 && len <= 16 &&
           strspn(text + 3, letters) == len - 3;
}

/* clang-format off */
#define AT(field) offsetof(struct reason_report, field)
static const struct param reason_rows[] = {
    {.name = "kind", .type = PARAM_CHOICE, .is_required = true, .offset = AT(kind), .choices = reason_kind_names, .help = "What it met."},
    {.name = "limit", .type = PARAM_NUMBER, .offset = AT(limit), .has_offset = AT(has_limit), .max = COUNT_MAX, .help = "What it was allowed."},
    {.name = "used", .type = PARAM_NUMBER, .offset = AT(used), .has_offset = AT(has_used), .max = COUNT_MAX, .help = "What it wanted."},
    {.name = "message", .type = PARAM_STRING, .offset = AT(message), .help = "The same in words."},
    {.name = "hint", .type = PARAM_STRING, .offset = AT(hint), .help = "What to do about it."},
};
#undef AT
static const struct param_table reason_table = PARAM_TABLE(struct reason_report, "ReasonReport", reason_rows);

#define AT(field) offsetof(struct exception_report, field)
static const struct param exception_rows[] = {
    {.name = "name", .type = PARAM_STRING, .is_required = true, .offset = AT(name), .help = "Its class."},
    {.name = "value", .type = PARAM_STRING, .is_required = true, .offset = AT(value), .max_len = TEXT_MAX, .help = "What it says."},
    {.name = "traceback", .type = PARAM_STRING, .is_required = true, .offset = AT(traceback), .max_len = TEXT_MAX, .help = "Where it came from."},
};
#undef AT
static const struct param_table exception_table = PARAM_TABLE(struct exception_report, "ExceptionReport", exception_rows);

#define AT(field) offsetof(struct usage_report, field)
static const struct param usage_rows[] = {
    {.name = "cpu_ms", .type = PARAM_NUMBER, .is_required = true, .offset = AT(cpu_ms), .max = COUNT_MAX, .help = "Of processors, in all."},
    {.name = "peak_memory_bytes", .type = PARAM_SIZE, .is_required = true, .offset = AT(peak_memory_bytes), .max = COUNT_MAX, .help = "At its highest."},
};
#undef AT
static const struct param_table usage_table = PARAM_TABLE(struct usage_report, "UsageReport", usage_rows);

#define AT(field) offsetof(struct shown_report, field)
static const struct param shown_rows[] = {
    {.name = "main", .type = PARAM_BOOLEAN, .offset = AT(is_main), .help = "It is the value of the last expression."},
    {.name = "data", .type = PARAM_MAP, .is_required = true, .offset = AT(data), .max_len = FORMS_MAX, .help = "Its forms by media type."},
};
#undef AT
static const struct param_table shown_table = PARAM_TABLE(struct shown_report, "ShownReport", shown_rows);

#define AT(field) offsetof(struct cut_stream_report, field)
static const struct param cut_stream_rows[] = {
    {.name = "kept_bytes", .type = PARAM_SIZE, .is_required = true, .offset = AT(kept_bytes), .max = COUNT_MAX, .help = "That are there."},
    {.name = "total_bytes", .type = PARAM_SIZE, .is_required = true, .offset = AT(total_bytes), .max = COUNT_MAX, .help = "That there were."},
};
#undef AT
static const struct param_table cut_stream_table = PARAM_TABLE(struct cut_stream_report, "CutStreamReport", cut_stream_rows);

#define AT(field) offsetof(struct cut_report, field)
static const struct param cut_rows[] = {
    {.name = "stdout", .type = PARAM_OBJECT, .offset = AT(stdout_cut), .has_offset = AT(has_stdout), .table = &cut_stream_table, .help = "Of its output."},
    {.name = "stderr", .type = PARAM_OBJECT, .offset = AT(stderr_cut), .has_offset = AT(has_stderr), .table = &cut_stream_table, .help = "Of its errors."},
    {.name = "results", .type = PARAM_BOOLEAN, .offset = AT(results), .help = "There were more."},
    {.name = "artifacts", .type = PARAM_BOOLEAN, .offset = AT(artifacts), .help = "There were more."},
};
#undef AT
static const struct param_table cut_table = PARAM_TABLE(struct cut_report, "CutReport", cut_rows);

#define AT(field) offsetof(struct result_report, field)
static const struct param result_rows[] = {
    {.name = "state", .type = PARAM_CHOICE, .is_required = true, .offset = AT(state), .choices = end_names, .example = "\"completed\"",
     .help = "How it ended."},
    {.name = "exit_code", .type = PARAM_INTEGER, .offset = AT(exit_code), .has_offset = AT(has_exit_code), .max = 255,
     .help = "Of its process, when it ended by itself."},
    {.name = "signal", .type = PARAM_STRING, .offset = AT(signal), .max_len = 16, .check = is_signal,
     .pattern = "^SIG[A-Z0-9+]{1,13}$", .help = "That ended it; not together with an exit code."},
    {.name = "stdout", .type = PARAM_STRING, .offset = AT(stdout_text), .max_len = TEXT_MAX, .help = "What it printed."},
    {.name = "stderr", .type = PARAM_STRING, .offset = AT(stderr_text), .max_len = TEXT_MAX, .help = "What it printed there."},
    {.name = "reason", .type = PARAM_OBJECT, .offset = AT(reason), .has_offset = AT(has_reason), .table = &reason_table,
     .help = "Why it did not complete; not of one that did."},
    {.name = "results", .type = PARAM_LIST, .offset = AT(results), .max_len = RESULTS_MAX, .table = &shown_table, .help = "What it has shown."},
    {.name = "error", .type = PARAM_OBJECT, .offset = AT(error), .has_offset = AT(has_error), .table = &exception_table, .help = "What it raised."},
    {.name = "usage", .type = PARAM_OBJECT, .offset = AT(usage), .table = &usage_table, .help = "What it used."},
    {.name = "truncated", .type = PARAM_OBJECT, .offset = AT(truncated), .table = &cut_table, .help = "What is not whole."},
    {.name = "duration_ms", .type = PARAM_NUMBER, .offset = AT(duration_ms), .max = 1e12, .help = "How long it ran."},
};
#undef AT
const struct param_table result_report_table = PARAM_TABLE(struct result_report, "ResultReport", result_rows);
/* clang-format on */

static int check(const struct result_report *r, struct error *err)
{
    if (r->has_exit_code && r->signal)
        return error_set(err, ERROR_INVALID, "signal: there is an exit_code already");
    if (r->has_reason && ends[r->state] == STORE_EXECUTION_COMPLETED)
        return error_set(err, ERROR_INVALID, "reason: it has completed");
    return 0;
}

static json_t *json_reason(const struct result_report *r)
{
    if (!r->has_reason)
        return json_null();
    json_t *o = params_json(&r->reason, &reason_table);
    if (!r->reason.has_limit)
        json_object_set_new(o, "limit", json_null());
    if (!r->reason.has_used)
        json_object_set_new(o, "used", json_null());
    return o;
}

static json_t *json_shown(const struct param_list *list)
{
    const struct shown_report *items = list->items;
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, params_json(&items[i], &shown_table));
    return array;
}

/* Only what is cut is named. */
static json_t *json_cut(const struct cut_report *c)
{
    json_t *o = json_object();
    if (c->has_stdout)
        json_object_set_new(o, "stdout", params_json(&c->stdout_cut, &cut_stream_table));
    if (c->has_stderr)
        json_object_set_new(o, "stderr", params_json(&c->stderr_cut, &cut_stream_table));
    if (c->results)
        json_object_set_new(o, "results", json_true());
    if (c->artifacts)
        json_object_set_new(o, "artifacts", json_true());
    return o;
}

int report_fields(json_t **out, enum store_execution_state *state, const struct result_report *r,
                  struct error *err)
{
    if (check(r, err) < 0)
        return -1;
    *state = ends[r->state];
    *out = json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:f}", "state",
                     end_names[r->state], "exit_code",
                     r->has_exit_code ? json_integer(r->exit_code) : json_null(), "signal",
                     json_text_or_null(r->signal), "reason", json_reason(r), "stdout",
                     r->stdout_text ? r->stdout_text : "", "stderr",
                     r->stderr_text ? r->stderr_text : "", "results", json_shown(&r->results),
                     "error", r->has_error ? params_json(&r->error, &exception_table) : json_null(),
                     "truncated", json_cut(&r->truncated), "usage",
                     params_json(&r->usage, &usage_table), "duration_ms", r->duration_ms);
    return 0;
}
