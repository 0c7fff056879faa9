/* job_once.c - an execution in a sandbox of its own, which is gone afterwards */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "core/plane_inside.h"

static void begin_once(struct job *j)
{
    struct error err;
    if (j->is_cancelled) {
        session_close(j->session);
        job_end_unbegun(j, EXECUTION_CANCELLED, REASON_CANCELLED, "cancelled before it began");
    } else if (job_begin(j, j->session, &err) < 0) {
        session_close(j->session);
        j->is_dropped = j->is_told = true;
        job_tell_waiter(j, &err);
    } else {
        j->has_begun = true;
    }
}

static void on_once_changed(void *ctx, struct session *session)
{
    struct job *j = ctx;
    switch (session_info(session)->state) {
    case SESSION_READY:
        if (!j->has_begun && !j->document)
            begin_once(j);
        break;
    case SESSION_FAILED:
        if (!j->has_begun && !j->is_dropped) {
            const struct error err = session_info(session)->error;
            j->is_dropped = j->is_told = true;
            session_close(session);
            job_tell_waiter(j, &err);
        }
        break;
    case SESSION_TERMINATED:
        session_free(take_ptr(&j->session));
        job_finish(j);
        break;
    default:
        break;
    }
}

static const struct session_events once_events = {.changed = on_once_changed};

void plane_execute_once(struct plane *p, const struct plane_caller *who,
                        const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx)
{
    static const struct resource_spec nothing;
    struct error err;
    bool is_parked;
    struct catalog_kind *kind = plane_kind(p, wish->template, wish->language, &err);
    if (!kind || job_check_room(p, &err) < 0 ||
        plane_check_quota(p, who, catalog_limits(kind), &err) < 0 || job_make_id(id, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct job *j = job_new(p, who->owner, id);
    j->files = json_array();
    struct code_wish as_sync = *wish;
    as_sync.mode = WISH_SYNC;
    if (job_fill(j, &as_sync, kind, NULL, &err) < 0 ||
        catalog_take(kind, &nothing, &j->session, &j->kind, &is_parked, &once_events, j, &err) <
            0) {
        job_free(j);
        plane_fail(fn, ctx, &err);
        return;
    }
    j->fn = fn;
    j->ctx = ctx;
    if (session_info(j->session)->state == SESSION_READY)
        begin_once(j);
}
