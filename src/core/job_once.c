/* job_once.c - an execution in a sandbox of its own, which is gone afterwards */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "core/plane_inside.h"

/* Several that are asked for at once wait for their sandboxes together: each has its place among
 * those that run from the asking on. */
static void set_starting(struct job *j, bool is_starting)
{
    if (j->is_starting == is_starting)
        return;
    j->is_starting = is_starting;
    if (is_starting)
        j->plane->starting++;
    else
        j->plane->starting--;
}

/* It will not begin, and nobody has heard of it but who waits. */
static void drop(struct job *j, const struct error *err)
{
    set_starting(j, false);
    j->is_dropped = j->is_told = true;
    job_tell_waiter(j, err);
}

/* At once: a sandbox that is made on for nobody takes the processor from others. */
bool job_leave_start(struct job *j)
{
    if (!j->is_starting)
        return false;
    set_starting(j, false);
    session_close(j->session);
    return true;
}

static void begin_once(struct job *j)
{
    struct error err;
    set_starting(j, false);
    if (job_begin(j, j->session, &err) < 0) {
        session_close(j->session);
        drop(j, &err);
    } else {
        j->has_begun = true;
    }
}

static void on_way_out(void *ctx, const struct error *err)
{
    struct job *j = ctx;
    struct error local;
    j->is_going_out = false;
    if (j->document) /* cancelled meanwhile */
        return;
    if (!err && job_add_trust(j, &local) == 0) {
        begin_once(j);
        return;
    }
    session_close(j->session);
    drop(j, err ? err : &local);
}

static void on_ready(struct job *j)
{
    if (j->has_begun || j->document || j->is_dropped || j->is_going_out ||
        !plane_can_go_out(j->plane, j->session, &j->network))
        return;
    j->is_going_out = true;
    const struct plane_way way = {.who = j->id, .network = &j->network, .vault = j->vault};
    if (plane_go_out(j->plane, j->session, &way, on_way_out, j))
        on_way_out(j, NULL);
}

/* Its sandbox went before it was ready, or before it had its way out. */
static void on_gone(struct job *j)
{
    struct error err;
    if (!j->is_starting)
        return;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended before the code began");
    drop(j, &err);
}

static void on_once_changed(void *ctx, struct session *session)
{
    struct job *j = ctx;
    switch (session_info(session)->state) {
    case SESSION_READY:
        on_ready(j);
        break;
    case SESSION_FAILED:
        if (!j->has_begun && !j->is_dropped) {
            const struct error err = session_info(session)->error;
            session_close(session);
            drop(j, &err);
        }
        break;
    case SESSION_TERMINATED:
        session_free(take_ptr(&j->session));
        on_gone(j);
        job_finish(j);
        break;
    default:
        break;
    }
}

static const struct session_events once_events = {.changed = on_once_changed};

static void free_env(char **env)
{
    for (char **e = env; e && *e; e++)
        free(*e);
    free(env);
}

/* Whether there is room for it, with the limits that it asks for. */
static int admit(const struct plane *p, const struct plane_caller *who,
                 const struct catalog_kind *kind, const struct code_wish *wish, struct error *err)
{
    struct spawn_limits limits;
    if (wish->resources.forks > 0)
        return error_set(err, ERROR_INVALID, "resources.forks: only a session can be forked");
    if (job_check_room(p, err) < 0 || catalog_reckon(kind, &wish->resources, &limits, err) < 0)
        return -1;
    return plane_check_quota(p, who, &limits, err);
}

void plane_execute_once(struct plane *p, const struct plane_caller *who,
                        const struct code_wish *wish, char id[ID_BYTES], plane_fn fn, void *ctx)
{
    struct error err;
    bool is_parked;
    struct catalog_kind *kind = plane_kind(p, wish->template, wish->language, &err);
    if (!kind || admit(p, who, kind, wish, &err) < 0 || job_make_id(id, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct job *j = job_new(p, who->owner, id);
    j->is_once = true;
    struct code_wish as_sync = *wish;
    as_sync.mode = WISH_SYNC;
    const struct catalog_extra extra = {.over = &wish->resources,
                                        .requirements = &wish->requirements};
    char **env = NULL;
    if (plane_choose_network(p, wish->has_network ? &wish->network : NULL, kind, &j->network,
                             &err) == 0 &&
        plane_make_vault(p, &wish->secrets, &j->network, &wish->env, &j->vault, &err) == 0)
        env = vault_env(j->vault, plane_network_env(p, &j->network, xcalloc(1, sizeof(*env))));
    if (!env || job_fill(j, &as_sync, kind, env, &err) < 0 ||
        catalog_take(kind, &extra, &j->session, &j->kind, &is_parked, &once_events, j, &err) < 0) {
        free_env(env);
        job_free(j);
        plane_fail(fn, ctx, &err);
        return;
    }
    free_env(env);
    j->fn = fn;
    j->ctx = ctx;
    set_starting(j, true);
    if (session_info(j->session)->state == SESSION_READY)
        on_ready(j);
}
