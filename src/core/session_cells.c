/* session_cells.c - the executions of a session: the one that runs, those that wait, and what is
 * left of earlier ones */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/gateway.h"
#include "runtime/keeper.h"

#define ACK_BYTES (64 * KIB)

static void on_late_ended(void *ctx)
{
    struct late *late = ctx;
    stdio_free(take_ptr(&late->stdio));
}

/* Children of the execution still hold its pipes: what they print from now on is dropped, and the
 * oldest of too many lose theirs. */
static void keep_late(struct session *s, struct stdio *stdio)
{
    struct error err;
    if (!stdio)
        return;
    struct late *late = &s->late[s->next_late++ % SESSION_LATE_MAX];
    stdio_free(late->stdio);
    *late = (struct late){.session = s, .stdio = stdio};
    stdio_discard(stdio, late, on_late_ended);
    if (stdio_watch(stdio, &err) < 0)
        on_late_ended(late);
}

void session_free_late(struct session *s)
{
    for (size_t i = 0; i < SESSION_LATE_MAX; i++)
        stdio_free(take_ptr(&s->late[i].stdio));
}

static void on_cell_ended(void *ctx, struct cell *c)
{
    struct session *s = ctx;
    struct error ignored;
    const struct execution_events *told = s->told;
    void *told_ctx = s->told_ctx;
    bool is_lost = cell_lost_kernel(c), is_held = cell_is_held(c) && cell_is_kept(c);
    uint32_t generation = s->generation;
    s->cell = NULL;
    s->is_unsettled = is_held;
    s->has_unwritten = cell_is_held(c);
    cell_get_record(c, &s->unwritten);
    s->owes_ack = !is_lost && result_list_bytes(&cell_execution(c)->results) > ACK_BYTES;
    s->before = *cell_stats(c);
    s->info.last_used_ns = cell_execution(c)->ended_ns;
    keep_late(s, cell_take_stdio(c));
    if (is_lost) {
        session_drop_kernel(s);
        guest_kill(s->guest); /* what the interpreter left running */
        error_set(&s->info.error, ERROR_UNAVAILABLE, "%s", cell_execution(c)->verdict.message);
    }
    session_enter(s, is_lost ? SESSION_FAILED : SESSION_READY);
    told->ended(told_ctx, cell_execution(c));
    /* Only now: whoever was told has it, and it need not be told again. The next request says it
     * too; until then only large answers are worth the kernel's time. */
    if (!is_held && !is_lost && s->kernel &&
        result_list_bytes(&cell_execution(c)->results) > ACK_BYTES)
        (void)!kernel_send(s->kernel, KERNEL_ACK, generation, NULL, 0, NULL, 0, &ignored);
    if (!is_held && cell_is_kept(c) && s->sandbox && !s->cell)
        keeper_put(s->spawner, s->sandbox, s->label, KEEPER_OUTPUT, NULL, 0);
    cell_free(c);
    if (session_is_ending(s))
        return;
    if (s->wants_reset) {
        session_restart(s);
        return;
    }
    session_tell(s);
    session_refuse_failed(s);
    session_begin_next(s);
}

void session_settle(struct session *s)
{
    struct error ignored;
    s->has_unwritten = false;
    if (!s->is_unsettled || s->cell || !s->sandbox)
        return;
    s->is_unsettled = false;
    if (s->kernel && s->owes_ack)
        (void)!kernel_send(s->kernel, KERNEL_ACK, s->generation, NULL, 0, NULL, 0, &ignored);
    keeper_put(s->spawner, s->sandbox, s->label, KEEPER_OUTPUT, NULL, 0);
}

bool session_has_sent(const struct session *s)
{
    return s->cell && cell_is_sent(s->cell);
}

static struct cell_place make_place(struct session *s)
{
    return (struct cell_place){
        .loop = s->loop,
        .spawner = s->spawner,
        .guest = s->guest,
        .kernel = s->kernel,
        .sandbox = s->sandbox,
        .limits = &s->template->limits,
        .before = &s->before,
        .is_sealed = &s->is_sealed,
        .sealed = &s->sealed,
        .generation = s->generation,
        .newest_ns = &s->newest_ns,
        .is_plain = s->template->is_plain,
        .passage = &s->passage,
        .terminal_count = &s->info.terminal_count,
        .errand_count = &s->info.errand_count,
        .label = s->is_kept ? s->label : NULL,
    };
}

static struct cell_events take_place(struct session *s, const struct execution_events *events,
                                     void *ctx)
{
    s->told = events;
    s->told_ctx = ctx;
    session_enter(s, SESSION_BUSY);
    return (struct cell_events){.told = events, .told_ctx = ctx, .ended = on_cell_ended, .ctx = s};
}

int session_resume_cell(struct session *s, const struct cell_request *request,
                        const struct cell_record *record, const int *output,
                        const struct execution_events *events, void *ctx, struct error *err)
{
    const struct cell_place place = make_place(s);
    const struct cell_events cell_events = take_place(s, events, ctx);
    return cell_resume(&s->cell, &place, request, record, output, &cell_events, err);
}

static int begin_cell(struct session *s, const struct cell_request *request,
                      const struct execution_events *events, void *ctx, struct error *err)
{
    s->generation++;
    if (s->passage)
        passage_clear(s->passage);
    const struct cell_place place = make_place(s);
    const struct cell_events cell_events = take_place(s, events, ctx);
    if (cell_begin(&s->cell, &place, request, &cell_events, err) < 0) {
        session_enter(s, SESSION_READY);
        return -1;
    }
    return 0;
}

static void drop_request(const struct cell_request *request)
{
    int fd = request->stdin_fd;
    scoped_close_fd(&fd);
}

/* One that was accepted and cannot run any more. */
static void refuse(const struct waiting *w, const struct error *err)
{
    struct error ignored;
    struct execution e = {
        .created_ns = clock_wall_ns(), .ended_ns = clock_wall_ns(), .error = *err};
    (void)!id_make(ID_EXECUTION, e.id, &ignored);
    e.verdict = (struct verdict){.state = EXECUTION_CANCELLED, .kind = REASON_CANCELLED};
    snprintf(e.verdict.message, sizeof(e.verdict.message), "%.255s", err->msg);
    w->events->ended(w->ctx, &e);
}

void session_begin_next(struct session *s)
{
    struct error err;
    while (s->first && s->info.state == SESSION_READY && !s->cell) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
        if (begin_cell(s, w->request, w->events, w->ctx, &err) < 0)
            refuse(w, &err);
    }
}

void session_refuse_all(struct session *s, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "%s", why);
    while (s->first) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
        drop_request(w->request);
        refuse(w, &err);
    }
}

/* What waits was meant for the variables that are lost. A reset that was asked for keeps it. */
void session_refuse_failed(struct session *s)
{
    if (s->info.state == SESSION_FAILED && !s->wants_reset)
        session_refuse_all(s, s->info.error.msg);
}

static int wait_in_line(struct session *s, const struct cell_request *request,
                        const struct execution_events *events, void *ctx, struct error *err)
{
    struct waiting **end = &s->first;
    size_t count = 0;
    for (; *end; end = &(*end)->next)
        count++;
    if (count == SESSION_QUEUE_MAX)
        return error_set(err, ERROR_LIMIT, "%d executions wait already", SESSION_QUEUE_MAX);
    *end = xcalloc(1, sizeof(**end));
    **end = (struct waiting){.request = request, .events = events, .ctx = ctx};
    return 0;
}

static int refuse_now(const struct session *s, bool may_queue, struct error *err)
{
    switch (s->info.state) {
    case SESSION_READY:
        return 0;
    case SESSION_CREATING:
    case SESSION_BUSY:
        if (may_queue)
            return 0;
        error_set(err, ERROR_CONFLICT, "the session is %s", session_state_name(s->info.state));
        return error_hint(err,
                          "wait for its execution to end, interrupt it, or let this one queue");
    case SESSION_FAILED:
        error_set(err, ERROR_CONFLICT, "the session has no interpreter: %s", s->info.error.msg);
        return error_hint(err, "reset the session: its files are kept, its variables are lost");
    case SESSION_TERMINATING:
    case SESSION_TERMINATED:
        break;
    }
    return error_set(err, ERROR_CONFLICT, "the session is over");
}

int session_execute(struct session *s, const struct cell_request *request, bool may_queue,
                    const struct execution_events *events, void *ctx, struct error *err)
{
    if (s->info.state == SESSION_READY)
        return begin_cell(s, request, events, ctx, err);
    if (refuse_now(s, may_queue, err) < 0 || wait_in_line(s, request, events, ctx, err) < 0) {
        drop_request(request);
        return -1;
    }
    return 0;
}

void session_interrupt(struct session *s)
{
    if (s->cell)
        cell_interrupt(s->cell);
}

void session_cancel(struct session *s)
{
    if (s->cell)
        cell_cancel(s->cell);
}

void session_forget_cells(struct session *s)
{
    cell_free(take_ptr(&s->cell));
    while (s->first) {
        scoped_free struct waiting *w = s->first;
        s->first = w->next;
        drop_request(w->request);
    }
    session_free_late(s);
}
