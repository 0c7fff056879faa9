/* plane_execution.c - executions, as others see them: read, listed, listened to, cancelled */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/plane_inside.h"

static struct job *find_job(struct plane *p, const struct plane_caller *who, const char *id)
{
    struct map_node *node = map_find(&p->jobs, id);
    struct job *j = node ? MAP_OF(node, struct job, by_id) : NULL;
    return j && (who->sees_all || strcmp(j->owner, who->owner) == 0) ? j : NULL;
}

struct asking {
    struct plane *plane;
    plane_fn fn;
    void *ctx;
    char id[ID_BYTES];
};

static int not_found(struct error *err, const char *id)
{
    error_set(err, ERROR_NOT_FOUND, "no execution '%.64s'", id);
    return error_word(err, "execution_not_found");
}

static void tell_stored(const struct asking *a, const struct store_execution *row)
{
    size_t len;
    if (row->doc) {
        plane_tell_document(a->plane, row->id, row->doc, a->fn, a->ctx);
        return;
    }
    scoped_free char *text =
        job_stub(row->id, row->session_id, row->language, (enum execution_state)row->state,
                 row->created_ns, row->started_ns, &len);
    a->fn(a->ctx, text, len, NULL);
}

static void on_got(void *ctx, const struct store_answer *answer)
{
    scoped_free struct asking *a = ctx;
    struct error err;
    if (!answer->err) {
        tell_stored(a, &answer->executions[0]);
    } else if (answer->err->code == ERROR_NOT_FOUND) {
        not_found(&err, a->id);
        plane_fail(a->fn, a->ctx, &err);
    } else {
        plane_fail(a->fn, a->ctx, answer->err);
    }
}

static void get_stored(struct plane *p, const struct plane_caller *who, const char *id, plane_fn fn,
                       void *ctx)
{
    struct error err;
    if (!id_is_valid(ID_EXECUTION, id)) {
        not_found(&err, id);
        plane_fail(fn, ctx, &err);
        return;
    }
    struct asking *a = xcalloc(1, sizeof(*a));
    *a = (struct asking){.plane = p, .fn = fn, .ctx = ctx};
    snprintf(a->id, sizeof(a->id), "%s", id);
    const struct store_name name = {.id = id, .owner = who->sees_all ? NULL : who->owner};
    store_get_execution(p->order.store, &name, on_got, a);
}

void plane_get_execution(struct plane *p, const struct plane_caller *who, const char *id,
                         plane_fn fn, void *ctx)
{
    const struct job *j = find_job(p, who, id);
    if (j && j->document && j->is_told)
        plane_tell_document(p, id, j->document, fn, ctx);
    else if (j)
        job_tell_running(j, fn, ctx);
    else
        get_stored(p, who, id, fn, ctx);
}

void plane_make_known(struct plane *p, const struct plane_caller *who, const char *id, plane_fn fn,
                      void *ctx)
{
    struct error err;
    struct job *j = find_job(p, who, id);
    if (!j || j->document) {
        not_found(&err, id);
        plane_fail(fn, ctx, &err);
        return;
    }
    if (j->is_known) {
        fn(ctx, NULL, 0, NULL);
        return;
    }
    job_note(j, fn, ctx);
}

/* False: it runs, or has ended. */
static bool cancel_unbegun(struct job *j)
{
    bool is_queued = j->live && j->state == EXECUTION_QUEUED;
    if (!job_leave_start(j) && !is_queued)
        return false;
    if (!is_queued || job_leave_queue(j))
        job_end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, "cancelled before it began");
    return true;
}

void plane_cancel(struct plane *p, const struct plane_caller *who, const char *id, plane_fn fn,
                  void *ctx)
{
    struct job *j = find_job(p, who, id);
    if (!j || j->document || cancel_unbegun(j)) {
        plane_get_execution(p, who, id, fn, ctx);
        return;
    }
    if (j->live || j->has_begun)
        session_cancel(j->live ? j->live->session : j->session);
    job_tell(j, fn, ctx);
}

struct journal *plane_listen(struct plane *p, const struct plane_caller *who, const char *id,
                             uint64_t *first)
{
    const struct job *j = find_job(p, who, id);
    *first = p->order.epoch << 40;
    return j ? j->journal : NULL;
}

const struct tail *plane_last_output(struct plane *p, const struct plane_caller *who,
                                     const char *id)
{
    const struct job *j = find_job(p, who, id);
    return j ? j->tail : NULL;
}

/* --- lists ------------------------------------------------------------------------------------ */

static json_t *row_json(const struct store_execution *row)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:o}", "id", row->id, "session_id",
                     json_text_or_null(row->session_id), "language", row->language, "state",
                     store_execution_names[row->state], "created_at", plane_time(row->created_ns),
                     "started_at", plane_time(row->started_ns), "ended_at",
                     plane_time(row->ended_ns));
}

static void on_listed(void *ctx, const struct store_answer *answer)
{
    scoped_free struct asking *a = ctx;
    size_t len;
    if (answer->err) {
        plane_fail(a->fn, a->ctx, answer->err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(list, row_json(&answer->executions[i]));
    scoped_free char *text = plane_dump(json_pack("{s:o, s:o}", "executions", list, "next_cursor",
                                                  json_text_or_null(answer->next_cursor)),
                                        &len);
    a->fn(a->ctx, text, len, NULL);
}

void plane_list_executions(struct plane *p, const struct plane_caller *who,
                           const struct plane_filter *wanted, plane_fn fn, void *ctx)
{
    const struct live *l = wanted->session ? live_find(p, who, wanted->session) : NULL;
    const struct store_filter filter = {
        .owner = who->sees_all ? NULL : who->owner,
        .session_id = l ? l->id : wanted->session,
        .states = wanted->has_state ? STORE_BIT(wanted->state) : 0,
        .is_live = wanted->is_live,
        .cursor = wanted->cursor,
        .limit = (uint64_t)wanted->limit,
    };
    struct asking *a = xcalloc(1, sizeof(*a));
    *a = (struct asking){.fn = fn, .ctx = ctx};
    store_list_executions(p->order.store, &filter, on_listed, a);
}
