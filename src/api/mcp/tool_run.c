/* tool_run.c - run_code: in a sandbox of its own, or in a session */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/room.h"
#include "api/mcp/run_task.h"
#include "api/mcp/run_text.h"
#include "api/mcp/show.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/tail.h"

#define BEAT_MS      1000
#define LINE_MAX     200
#define NS_PER_S     1e9
#define DOCUMENT_MAX (256 * MIB)

struct run {
    struct mcp_call *call;
    struct api *api;
    const struct plane_caller *who;
    char id[ID_BYTES];
    struct run_task *task; /* NULL: it cannot become one */
    struct loop_timer *timer;
    int64_t started_ns;
};

static void free_run(struct run *run)
{
    loop_timer_free(run->timer);
    free(run);
}

static const struct run_wish *wish_of(const struct run *run)
{
    return mcp_arguments(run->call);
}

/* --- while it runs ---------------------------------------------------------------------------- */

/* The last line that it printed; "": none. */
static void last_line(const struct run *run, char out[LINE_MAX])
{
    struct tail_piece piece;
    size_t at = 0;
    const struct tail *tail = plane_last_output(run->api->plane, run->who, run->id);
    out[0] = '\0';
    if (!tail)
        return;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 2 * TAIL_MAX_BYTES);
    while (tail_read(tail, &at, &piece, &text))
        continue;
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.data[--text.len] = '\0';
    const char *end = strrchr(strbuf_str(&text), '\n');
    const char *line = end ? end + 1 : strbuf_str(&text);
    scoped_strbuf struct strbuf shown;
    strbuf_init(&shown, 6 * TAIL_MAX_BYTES);
    show_output(&shown, line, strlen(line));
    snprintf(out, LINE_MAX, "%s", strbuf_str(&shown));
    out[run_text_cut(strbuf_str(&shown), shown.len, LINE_MAX - 1)] = '\0';
}

/* Clients give up on a call that they hear nothing of. */
static void on_beat(void *ctx)
{
    struct run *run = ctx;
    char line[LINE_MAX], message[LINE_MAX + 32];
    double seconds = (double)(clock_now_ns() - run->started_ns) / NS_PER_S;
    loop_timer_free(run->timer);
    run->timer = loop_timer_new(run->api->loop, BEAT_MS, on_beat, run);
    last_line(run, line);
    snprintf(message, sizeof(message), "running for %.0f s%s%s", seconds, *line ? ": " : "", line);
    mcp_progress(run->call, seconds, 0, message);
}

/* Who asks for a task is told how far it is. */
static void on_task(void *ctx)
{
    struct run *run = ctx;
    if (!run->timer)
        run->timer = loop_timer_new(run->api->loop, BEAT_MS, on_beat, run);
}

static void on_dropped(void *ctx)
{
    struct run *run = ctx;
    run_task_free(run->task);
    free_run(run);
}

static void ignore(void *ctx, const char *text, size_t len, const struct error *err)
{
    (void)ctx, (void)text, (void)len, (void)err;
}

/* The call is answered nevertheless, when it has ended. */
static void on_cancel(void *ctx)
{
    const struct run *run = ctx;
    if (run->id[0])
        plane_cancel(run->api->plane, run->who, run->id, ignore, NULL);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void on_done(void *ctx, const char *text, size_t len, const struct error *cause)
{
    struct run *run = ctx;
    struct mcp_call *call = run->call;
    struct error err;
    scoped_json json_t *document = NULL;
    const struct json_limits limits = {.max_bytes = DOCUMENT_MAX, .has_nul = true};
    run_task_free(run->task);
    if (cause)
        toolbox_fail(call, cause);
    else if (json_parse(&document, text, len, &limits, &err) < 0)
        toolbox_fail(call, &err);
    else
        run_task_answer(call, document);
    free_run(run);
}

static void on_room(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    if (err || mcp_is_cancelled(run->call)) {
        on_done(run, "{}", 2, err);
        return;
    }
    struct code_wish wish = wish_of(run)->code;
    wish.mode = WISH_SYNC;
    wish.is_watched = true;
    wish.may_queue = true; /* a model that calls twice at once means both */
    plane_execute(run->api->plane, run->who, wish_of(run)->session, &wish, run->id, on_done, run);
}

void tool_run_code(struct mcp_call *call)
{
    const struct run_wish *wish = mcp_arguments(call);
    if (!toolbox_check_scope(call, wish->session ? SCOPE_SESSIONS_WRITE : SCOPE_EXECUTE))
        return;
    struct run *run = xcalloc(1, sizeof(*run));
    *run = (struct run){.call = call,
                        .api = toolbox_api(call),
                        .who = toolbox_caller(call),
                        .started_ns = clock_now_ns()};
    mcp_on_cancel(call, on_cancel, run);
    run->task = run_task_new(&(struct run_task_order){
        .call = call, .id = run->id, .begun = on_task, .dropped = on_dropped, .ctx = run});
    if (mcp_wants_progress(call))
        run->timer = loop_timer_new(run->api->loop, BEAT_MS, on_beat, run);
    if (!wish->session) {
        struct code_wish once = wish->code;
        once.is_watched = true;
        plane_execute_once(run->api->plane, run->who, &once, run->id, on_done, run);
        return;
    }
    const struct room_wish room = {.session = wish->session,
                                   .language = wish->code.language,
                                   .requirements = &wish->code.requirements};
    room_enter(call, &room, on_room, run);
}
