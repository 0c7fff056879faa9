/* rest_execute.c - code to run: in a session, or in a sandbox of its own that is gone afterwards */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/events.h"
#include "api/routes.h"
#include "base/macros.h"
#include "base/memory.h"

#define BODY_MAX (16 * MIB)

/* A call that waits for its code: a peer that leaves ends it, since nobody else knows its id. */
struct waiting {
    struct api_call *call;
    struct api *api;
    int mode;
    char id[ID_BYTES];
};

static void ignore(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)ctx, (void)text, (void)len, (void)err;
}

static void on_gone(void *ctx)
{
    const struct waiting *w = ctx;
    if (w->mode == WISH_SYNC)
        plane_cancel(w->api->plane, api_caller(w->call), w->id, ignore, NULL);
}

static struct waiting *wait_for(struct api_call *call, int mode)
{
    struct waiting *w = xcalloc(1, sizeof(*w));
    *w = (struct waiting){.call = call, .api = api_of(call), .mode = mode};
    if (api_resource(call))
        snprintf(w->id, sizeof(w->id), "%s", api_resource(call));
    api_on_gone(call, on_gone, w);
    return w;
}

static void on_known(void *ctx, const char *text, size_t len, const struct error *err)
{
    scoped_free struct waiting *w = ctx;
    if (err)
        api_fail(w->call, err);
    else if (w->mode == WISH_STREAM)
        events_stream(w->call, w->id);
    else
        api_answer_text(w->call, w->mode == WISH_SYNC ? 200 : 202, text, len);
}

static void on_execute(struct api_call *call)
{
    const struct code_wish *wish = api_body(call);
    struct error err;
    if (wish->mode == WISH_STREAM && api_resource(call)) {
        error_set(&err, ERROR_INVALID, "mode: a stream has no Idempotency-Key");
        error_hint(&err, "use \"mode\": \"async\" and read /executions/{id}/events");
        api_fail(call, &err);
        return;
    }
    struct waiting *w = wait_for(call, wish->mode);
    plane_execute(w->api->plane, api_caller(call), api_parameter(call, "id"), wish, w->id, on_known,
                  w);
}

/* What an earlier try has begun goes on by itself; where it stands is the answer. */
static void on_found_again(void *ctx, const char *text, size_t len, const struct error *err)
{
    struct api_call *call = ctx;
    if (err && err->code == ERROR_NOT_FOUND && !api_is_done(call))
        api_row(call)->handler(call);
    else
        api_answer_accepted(call, text, len, err);
}

static void on_execute_again(struct api_call *call)
{
    plane_get_execution(api_of(call)->plane, api_caller(call), api_resource(call), on_found_again,
                        call);
}

static void on_execute_once(struct api_call *call)
{
    struct waiting *w = wait_for(call, WISH_SYNC);
    plane_execute_once(w->api->plane, api_caller(call), api_body(call), w->id, on_known, w);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply replies[] = {
    {200, "Execution", NULL, "Its result (mode sync)."},
    {200, "Event", "text/event-stream", "Its events as they come (mode stream)."},
    {202, "Execution", NULL, "It is written down, and runs or waits (mode async)."},
    {0}};
static const struct api_reply once_replies[] = {{200, "Execution", NULL, "Its result."}, {0}};
static const int errors[] = {404, 409, 413, 507, 0}, once_errors[] = {404, 413, 507, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/execute", .scope = SCOPE_EXECUTE, .flags = API_CREATES | API_AT_ROOT,
     .body_max = BODY_MAX, .body = &stateless_wish_table, .handler = on_execute_once,
     .again = on_execute_again, .makes = ID_EXECUTION,
     .id = "execute", .tag = "executions", .summary = "Run code in a fresh sandbox",
     .help = "The sandbox is gone afterwards. A program that fails is a result, not an error of this call.",
     .replies = once_replies, .errors = once_errors},
    {.method = METHOD_POST, .pattern = "/sessions/{id}/execute", .scope = SCOPE_SESSIONS_WRITE, .flags = API_CREATES,
     .body_max = BODY_MAX, .body = &code_wish_table, .handler = on_execute,
     .again = on_execute_again, .makes = ID_EXECUTION,
     .id = "executeInSession", .tag = "executions", .summary = "Run code in a session",
     .help = "What it defines stays for the executions after it.",
     .replies = replies, .errors = errors},
};
/* clang-format on */
const struct api_group rest_execute_group = {rows, ARRAY_LEN(rows)};
