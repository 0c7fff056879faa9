/* job_write.c - what is written of an execution, when, and who is told then
 *
 * One whose id is told before its end is written down when it begins or is queued; every other one
 * only at its end, unless it runs for a while: then the next process has to know what its session
 * is busy with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/execution_json.h"
#include "core/plane_inside.h"

#define AGAIN_MS   1000        /* after which a write that failed is tried again */
#define LINGER_MS  (60 * 1000) /* that events can be read after the end... */
#define LINGER_MAX 1024        /* ...of so many executions */

/* --- documents -------------------------------------------------------------------------------- */

/* Of one that has not ended: the same fields, as far as they are known. */
char *job_stub(const char *id, const char *session_id, const char *language,
               enum execution_state state, int64_t created_ns, int64_t started_ns, size_t *len)
{
    struct execution e = {
        .verdict.state = state, .created_ns = created_ns, .started_ns = started_ns};
    snprintf(e.id, sizeof(e.id), "%s", id);
    json_t *o = execution_json(&e, language);
    if (session_id)
        json_object_set_new(o, "session_id", json_string(session_id));
    return plane_dump(o, len);
}

/* An end is told when it is written and its session is free: the store may have it a moment before
 * that, and is not asked. */
void job_tell_running(const struct job *j, plane_fn fn, void *ctx)
{
    size_t len;
    enum execution_state before = j->started_ns ? EXECUTION_RUNNING : EXECUTION_QUEUED;
    enum execution_state state = j->document ? before : j->state;
    scoped_free char *text =
        job_stub(j->id, j->session_id, j->language, state, j->created_ns, j->started_ns, &len);
    fn(ctx, text, len, NULL);
}

void job_tell(const struct job *j, plane_fn fn, void *ctx)
{
    if (j->document)
        fn(ctx, j->document, j->document_len, NULL);
    else
        job_tell_running(j, fn, ctx);
}

void job_tell_waiter(struct job *j, const struct error *err)
{
    plane_fn fn = j->fn;
    j->fn = NULL;
    if (fn && err)
        plane_fail(fn, j->ctx, err);
    else if (fn && j->answer) /* what is not kept is for who waited alone */
        fn(j->ctx, j->answer, j->answer_len, NULL);
    else if (fn)
        job_tell(j, fn, j->ctx);
}

/* --- writing ---------------------------------------------------------------------------------- */

static struct store_execution row_of(const struct job *j)
{
    return (struct store_execution){
        .id = j->id,
        .session_id = j->session_id,
        .owner = j->owner,
        .state = (enum store_execution_state)j->state,
        .language = j->language,
        .node = j->plane->order.node,
        .epoch = j->plane->order.epoch,
        .is_idempotent = j->is_idempotent,
        .created_ns = j->created_ns,
        .started_ns = j->started_ns,
        .ended_ns = j->ended_ns,
        .request = j->request_text,
        .doc = j->document,
    };
}

static void on_forget(void *ctx)
{
    struct job *j = ctx;
    j->plane->lingering--;
    job_free(j);
}

/* Its end is written, so the next process needs nothing of it any more, and another may begin. */
void job_leave_session(struct job *j)
{
    struct live *l = take_ptr(&j->live);
    if (!l || l->running != j)
        return;
    l->running = NULL;
    if (l->session)
        session_settle(l->session);
    job_next(l);
}

/* Its end is written and told, and its sandbox, if it had one of its own, is gone. */
void job_finish(struct job *j)
{
    if (!j->is_told || j->session)
        return;
    loop_timer_free(take_ptr(&j->timer));
    if (!j->journal || j->plane->lingering >= LINGER_MAX) {
        job_free(j);
        return;
    }
    j->plane->lingering++;
    j->timer = loop_timer_new(j->plane->order.loop, LINGER_MS, on_forget, j);
}

/* All is told. A sandbox of its own goes only now: to end it earlier would delay the answer. It
 * stays a little longer when what is in it is still to be read. */
void job_let_go(struct job *j)
{
    struct plane *p = j->plane;
    j->is_told = true;
    if (!j->session)
        job_finish(j);
    else if (!j->is_carried)
        session_close(j->session); /* whose end finishes the job */
    pipes_restock(&p->pipes);      /* for the next one */
}

/* For metrics and logs, of which nobody waits for any: after the answer. Once, also when the end
 * has to be written again. */
void job_observe(struct job *j)
{
    const struct plane *p = j->plane;
    if (!p->events || j->is_observed)
        return;
    j->is_observed = true;
    const struct plane_ending ending = {
        .id = j->id,
        .owner = j->owner,
        .session_id = j->session_id,
        .state = j->state,
        .kind = j->figures.kind,
        .duration_ms = j->figures.duration_ms,
        .cpu_us = j->figures.cpu_us,
    };
    p->events->ended(p->events_ctx, &ending);
}

static void on_end_written(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    const struct error *err = j->is_dropped ? NULL : answer->err;
    if (err && error_passes(err) && (j->is_known || !j->fn)) {
        job_tell_waiter(j, err);
        job_observe(j);
        j->is_carried = false;
        if (j->session)
            session_close(j->session);
        loop_timer_free(j->timer);
        j->timer = loop_timer_new(j->plane->order.loop, AGAIN_MS, job_write_end, j);
        return;
    }
    if (err)
        log_error(j->plane->order.log, "the end of an execution could not be written",
                  LOG_STR("execution", j->id), LOG_STR("error", err->msg));
    if (answer->err)
        j->is_carried = false;
    else
        job_keep(j);
    job_leave_session(j);
    if (j->journal && !journal_has_ended(j->journal))
        journal_add(j->journal, JOURNAL_ENDED, j->answer ? j->answer : j->document,
                    j->answer ? j->answer_len : j->document_len);
    job_tell_waiter(j, err);
    job_observe(j);
    job_let_go(j);
}

static void on_change_written(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    if (answer->err && answer->err->code == ERROR_NOT_FOUND && !j->is_known)
        job_write_end(j); /* its beginning could not be written, so it is not there to be changed */
    else
        on_end_written(j, answer);
}

void job_write_end(void *ctx)
{
    struct job *j = ctx;
    struct archive_rows left = {0};
    if (j->plane->order.archive)
        archive_rows_init(&left, j->id, &j->haul);
    struct store_execution row = row_of(j);
    row.artifacts = left.list;
    const struct store_execution_change change = {
        .id = j->id,
        .node = j->plane->order.node,
        .epoch = j->plane->order.epoch,
        .to = row.state,
        .started_ns = j->started_ns,
        .ended_ns = j->ended_ns,
        .doc = j->document,
        .artifacts = left.list,
    };
    loop_timer_free(take_ptr(&j->timer));
    if (j->is_known)
        store_change_execution(j->plane->order.store, &change, on_change_written, j);
    else
        store_keep_execution(j->plane->order.store, &row, on_end_written, j);
    archive_rows_release(&left);
}

/* False: it does not wait. */
bool job_leave_queue(struct job *j)
{
    struct job **at = j->live ? &j->live->first : NULL;
    while (at && *at && *at != j)
        at = &(*at)->next;
    if (!at || !*at)
        return false;
    *at = j->next;
    j->plane->queued--;
    return true;
}

/* Who asked was told that it could not be written down, so it must not happen. */
static void drop(struct job *j)
{
    j->is_dropped = true;
    if (job_leave_queue(j))
        job_free(j);
    else if (j->live && j->live->running == j)
        session_cancel(j->live->session);
}

/* Answers who waits, unless he waits for the end. */
void job_on_known(void *ctx, const struct store_answer *answer)
{
    struct job *j = ctx;
    if (answer->err) {
        job_tell_waiter(j, answer->err);
        drop(j);
    } else if (j->mode != WISH_SYNC) {
        job_tell_waiter(j, NULL);
    }
}

void job_make_known(struct job *j, store_fn fn, void *ctx)
{
    const struct store_execution row = row_of(j);
    j->is_known = true;
    store_add_execution(j->plane->order.store, &row, fn, ctx);
}

/* Its end may come before this is written, so it is looked for. */
struct noting {
    struct plane *plane;
    char id[ID_BYTES];
    plane_fn fn;
    void *ctx;
};

static void on_noted(void *ctx, const struct store_answer *answer)
{
    scoped_free struct noting *n = ctx;
    struct map_node *node = map_find(&n->plane->jobs, n->id);
    if (node)
        MAP_OF(node, struct job, by_id)->is_known = !answer->err;
    if (n->fn)
        n->fn(n->ctx, NULL, 0, answer->err);
}

void job_note(struct job *j, plane_fn fn, void *ctx)
{
    struct noting *n = xcalloc(1, sizeof(*n));
    *n = (struct noting){.plane = j->plane, .fn = fn, .ctx = ctx};
    memcpy(n->id, j->id, sizeof(n->id));
    loop_timer_free(take_ptr(&j->timer)); /* which would do the same */
    if (j->live)
        live_write(j->live);
    job_make_known(j, on_noted, n);
}

void job_on_old(void *ctx)
{
    job_note(ctx, NULL, NULL);
}
