/* rest_session.c - /sessions: to create, list, read, end, reset, interrupt and extend them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"
#include "api/routes.h"
#include "base/macros.h"

#define BODY_MAX (256 * KIB)

/* --- what it takes ---------------------------------------------------------------------------- */

struct extend_wish {
    uint64_t ttl_ms;
};

static const char *const states[] = {"creating",    "ready",      "busy", "failed",
                                     "terminating", "terminated", NULL};

/* clang-format off */
static const struct param extend_rows[] = {
    {.name = "ttl", .other_name = "ttl_seconds", .type = PARAM_SECONDS, .is_required = true,
     .offset = offsetof(struct extend_wish, ttl_ms), .min = 1, .max = 366.0 * 24 * 3600, .example = "3600",
     .help = "Seconds that it has to live from now on."},
};
static const struct param_table extend_table = PARAM_TABLE(struct extend_wish, "ExtendSession", extend_rows);

#define AT(field) offsetof(struct plane_filter, field)
static const struct param list_rows[] = {
    {.name = "state", .type = PARAM_CHOICE, .offset = AT(state), .has_offset = AT(has_state), .choices = states,
     .help = "Only those in this state."},
    {.name = "template", .type = PARAM_STRING, .offset = AT(template), .max_len = 64, .check = template_name_is_valid,
     .help = "Only those of this template, by name or id."},
    {.name = "metadata", .type = PARAM_STRING, .offset = AT(metadata), .max_len = 1024, .example = "\"user=ada\"",
     .help = "Only those with this note, as key=value."},
    {.name = "live", .type = PARAM_BOOLEAN, .offset = AT(is_live), .help = "Only those that have not ended."},
    PAGE_LIMIT_ROW(struct plane_filter),
    PAGE_CURSOR_ROW(struct plane_filter),
};
#undef AT
static const struct param_table list_table = PARAM_TABLE(struct plane_filter, "ListSessions", list_rows);
/* clang-format on */

/* --- handlers --------------------------------------------------------------------------------- */

static void on_create(struct api_call *call)
{
    plane_create(api_of(call)->plane, api_caller(call), api_resource(call), api_body(call),
                 api_answer_created, call);
}

/* The session that an earlier try may have made. */
static void on_found_again(void *ctx, const char *text, size_t len, const struct error *err)
{
    if (err && err->code == ERROR_NOT_FOUND)
        on_create(ctx);
    else
        api_answer_created(ctx, text, len, err);
}

static void on_create_again(struct api_call *call)
{
    plane_get(api_of(call)->plane, api_caller(call), api_resource(call), on_found_again, call);
}

static void on_list(struct api_call *call)
{
    plane_list(api_of(call)->plane, api_caller(call), api_query(call), api_answer_as, call);
}

static void on_get(struct api_call *call)
{
    plane_get(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), api_answer_as,
              call);
}

static void on_end(struct api_call *call)
{
    plane_end(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), api_answer_as,
              call);
}

static void on_reset(struct api_call *call)
{
    plane_reset(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), api_answer_as,
                call);
}

static void on_interrupt(struct api_call *call)
{
    plane_interrupt(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), api_answer_as,
                    call);
}

static void on_extend(struct api_call *call)
{
    const struct extend_wish *wish = api_body(call);
    plane_extend(api_of(call)->plane, api_caller(call), api_parameter(call, "id"), wish->ttl_ms,
                 api_answer_as, call);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply session_reply[] = {{200, "Session", NULL, "The session."}, {0}};
static const struct api_reply created_reply[] = {{201, "Session", NULL, "It is ready."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "SessionList", NULL, "A page of them, newest first."}, {0}};
static const int not_found[] = {404, 0}, not_now[] = {404, 409, 0},
                 on_create_errors[] = {404, 409, 413, 507, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/sessions", .scope = SCOPE_SESSIONS_WRITE, .flags = API_CREATES,
     .body_max = BODY_MAX, .body = &session_wish_table, .handler = on_create, .again = on_create_again,
     .makes = ID_SESSION, .id = "createSession", .tag = "sessions", .summary = "Create a session",
     .help = "Answers when it is ready to run code, with the time that took.",
     .replies = created_reply, .errors = on_create_errors},
    {.method = METHOD_GET, .pattern = "/sessions", .scope = SCOPE_SESSIONS_READ, .query = &list_table,
     .handler = on_list, .id = "listSessions", .tag = "sessions", .summary = "List sessions", .replies = list_reply},
    {.method = METHOD_GET, .pattern = "/sessions/{id}", .scope = SCOPE_SESSIONS_READ, .handler = on_get,
     .id = "getSession", .tag = "sessions", .summary = "Read a session", .replies = session_reply, .errors = not_found},
    {.method = METHOD_DELETE, .pattern = "/sessions/{id}", .scope = SCOPE_SESSIONS_WRITE, .handler = on_end,
     .id = "terminateSession", .tag = "sessions", .summary = "Terminate a session",
     .help = "With everything in it. One that has ended already is answered the same way.",
     .replies = session_reply, .errors = not_found},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/interrupt", .scope = SCOPE_SESSIONS_WRITE,
     .handler = on_interrupt, .id = "interruptSession", .tag = "sessions", .summary = "Interrupt what runs in it",
     .help = "As Ctrl-C does: the session keeps its state. A second one kills.",
     .replies = session_reply, .errors = not_now},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/reset", .scope = SCOPE_SESSIONS_WRITE, .handler = on_reset,
     .id = "resetSession", .tag = "sessions", .summary = "Start a new interpreter in it",
     .help = "Its files stay; what runs is killed.", .replies = session_reply, .errors = not_now},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/extend", .scope = SCOPE_SESSIONS_WRITE, .body_max = BODY_MAX,
     .body = &extend_table, .handler = on_extend, .id = "extendSession", .tag = "sessions",
     .summary = "Let it live longer", .replies = session_reply, .errors = not_now},
};
/* clang-format on */
const struct api_group rest_session_group = {rows, ARRAY_LEN(rows)};
