/* session.c - the life of a session: its states, and its sandbox from the first to the last */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/gateway.h"

static const char *const state_names[] = {
    [SESSION_CREATING] = "creating",
    [SESSION_READY] = "ready",
    [SESSION_BUSY] = "busy",
    [SESSION_FAILED] = "failed",
    [SESSION_TERMINATING] = "terminating",
    [SESSION_TERMINATED] = "terminated",
};

const char *session_state_name(enum session_state state)
{
    return state_names[state];
}

uint64_t session_sandbox(const struct session *s)
{
    return s->sandbox;
}

bool session_await_seal(struct session *s)
{
    s->is_seal_awaited = !s->is_sealed;
    return s->is_sealed;
}

const struct session_info *session_info(const struct session *s)
{
    return &s->info;
}

/* --- states ---------------------------------------------------------------------------------- */

bool session_is_ending(const struct session *s)
{
    return s->info.state >= SESSION_TERMINATING;
}

void session_set_timer(struct session *s, uint64_t ms, loop_timer_fn fn)
{
    loop_timer_free(s->timer);
    s->timer = fn ? loop_timer_new(s->loop, ms, fn, s) : NULL;
}

/* Whatever is still heard of one that ends, there is no way back. */
void session_enter(struct session *s, enum session_state state)
{
    if (session_is_ending(s) && state < SESSION_TERMINATING)
        return;
    s->info.state = state;
    if (state == SESSION_READY || state == SESSION_FAILED)
        capacity_settle(&s->seat);
    session_count_idle(s);
    if (state < SESSION_TERMINATING) /* else it is killed as it is */
        session_thaw(s);
}

void session_tell(struct session *s)
{
    s->events->changed(s->ctx, s);
}

int session_refuse(const struct session *s, struct error *err)
{
    static const char *const words[] = {
        [SESSION_CREATING] = "session_busy",
        [SESSION_READY] = "session_busy",
        [SESSION_BUSY] = "session_busy",
        [SESSION_FAILED] = "session_failed",
        [SESSION_TERMINATING] = "session_terminating",
        [SESSION_TERMINATED] = "session_terminated",
    };
    error_set(err, ERROR_CONFLICT, "the session is %s", session_state_name(s->info.state));
    error_word(err, words[s->info.state]);
    if (s->info.state == SESSION_FAILED)
        return error_hint(err, "reset it, which starts a new interpreter");
    return error_hint(err, "wait for what it does, or interrupt that");
}

/* The interpreter is gone; the workspace is not, as long as there is a sandbox. */
void session_fail(struct session *s, const struct error *err)
{
    if (session_is_ending(s))
        return;
    s->info.error = *err;
    session_drop_kernel(s);
    fork_release(s);
    session_enter(s, SESSION_FAILED);
    checkpoint_abort(s, err);
    session_tell(s);
    session_refuse_failed(s);
}

/* --- the sandbox ----------------------------------------------------------------------------- */

/* Its end is told as any other. */
void session_expel(struct session *s)
{
    struct spawn_message m = {.verb = SPAWN_KILL, .sandbox = s->sandbox};
    if (s->sandbox)
        spawner_client_ask(s->spawner, &m, NULL, NULL);
}

/* Everything of it is gone, or out of reach. */
void session_end(struct session *s, const struct spawn_stats *stats)
{
    struct spawn_stats over = *stats;
    over.is_over = 1;
    s->sandbox = 0;
    if (s->cell)
        cell_on_over(s->cell, &over);
    session_refuse_all(s, "the session ended");
    if (s->question.fn) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the session ended");
        session_end_question(s, &err);
    }
    session_end_terminals(s, "the session ended");
    session_end_errands(s, "the session ended");
    checkpoint_free_all(s);
    session_drop_kernel(s);
    fork_release(s);
    guest_free(take_ptr(&s->guest));
    session_free_late(s);
    passage_free(take_ptr(&s->passage));
    capacity_give(&s->seat);
    session_enter(s, SESSION_TERMINATED);
    session_tell(s);
}

static void on_destroyed(void *ctx, const struct spawn_message *m, int *fds,
                         const struct error *err)
{
    (void)fds;
    struct session *s = ctx;
    (void)err;
    session_end(s, m ? &m->stats : &s->before);
}

static void on_nothing_left(void *ctx)
{
    struct session *s = ctx;
    session_end(s, &s->before);
}

void session_destroy(struct session *s)
{
    family_end(s, "the session is over");
    fork_release(s);
    if (s->has_destroyed || s->is_creating || family_is_owed(s) || s->fork.is_looking)
        return;
    s->has_destroyed = true;
    if (!s->sandbox) { /* not now: whoever closes it may be told something by us just then */
        session_set_timer(s, 0, on_nothing_left);
        return;
    }
    struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = s->sandbox};
    s->sealed.layers = 0; /* its counters may be those of another soon: nobody reads them here */
    spawner_client_ask(s->spawner, &m, on_destroyed, s);
    if (s->is_sealed)
        spawner_client_forget_stats(s->spawner, &s->sealed);
}

void session_destroy_if_due(struct session *s)
{
    if (session_is_ending(s))
        session_destroy(s);
}

/* The build goes on for others, who may want the same. */
static void forget_packages(struct session *s)
{
    if (s->packages)
        builder_forget(take_ptr(&s->packages));
}

void session_close(struct session *s)
{
    if (session_is_ending(s))
        return;
    forget_packages(s);
    session_enter(s, SESSION_TERMINATING);
    session_end_terminals(s, "the session ended");
    session_end_errands(s, "the session ended");
    if (s->cell)
        cell_cancel(s->cell);
    session_destroy(s);
}

void session_give_way(struct session *s)
{
    capacity_give(&s->seat);
    session_close(s);
}

void session_on_guest(void *ctx, const struct guest_message *m)
{
    struct session *s = ctx;
    struct error err;
    struct guest_message now;
    if (m) {
        now = *m;
        m = &now;
        if (attach_on_guest(s, &now))
            return;
    }
    if (m && m->verb == GUEST_STARTED) {
        s->kernel_runs = m->value == 0;
        if (m->value) {
            errno = m->value;
            error_sys(&err, "start the interpreter '%s'", s->template->argv[0]);
            session_fail(s, &err);
        }
        return;
    }
    if (m && m->verb == GUEST_EXITED)
        s->kernel_runs = false;
    if (m && !session_is_ending(s) && (fork_on_guest(s, m) || checkpoint_on_guest(s, m)))
        return;
    if (s->cell)
        cell_on_guest(s->cell, m);
    else if (m && m->verb == GUEST_EXITED)
        session_on_kernel_exit(s, m);
    else if (!m && s->is_sealed && !session_is_ending(s)) {
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox is gone");
        session_fail(s, &err);
    }
}

static void on_created(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct session *s = ctx;
    struct error local;
    s->is_creating = false;
    if (!m) {
        if (session_is_ending(s))
            session_destroy(s);
        else if (s->is_warm && err->code == ERROR_NOT_FOUND && s->template->forks == 0)
            /* another zygote took its place while it waited */
            session_ask_create(s, 0);
        else
            session_fail(s, err);
        return;
    }
    s->sandbox = m->sandbox;
    if (session_is_ending(s)) { /* closed meanwhile */
        session_destroy(s);
        return;
    }
    if (guest_open(&s->guest, s->loop, take_fd(&fds[0]), session_on_guest, s, &local) < 0)
        session_fail(s, &local);
    else if (s->is_warm)
        session_join_kernel(s, take_fd(&fds[1]));
    else
        session_start_kernel(s);
}

void session_fill_create(const struct session_template *template, struct spawn_message *m)
{
    memcpy(m->create.image, template->image, sizeof(m->create.image));
    if (template->packages)
        memcpy(m->create.packages, template->packages->digest, sizeof(m->create.packages));
    m->create.limits = template->limits;
    m->create.flags = template->allow_degraded ? SPAWN_ALLOW_DEGRADED : 0;
}

void session_set_sealed(struct session *s, const struct spawn_sealed *sealed)
{
    s->is_sealed = true;
    s->sealed = *sealed;
    s->info.layers = sealed->layers;
}

static void on_sealed(struct session *s, const struct spawn_message *m)
{
    struct error err;
    if (m->flags & SPAWN_FAILED) {
        spawner_client_explain(s->spawner, m, &err);
        s->sandbox = 0; /* the spawner removes it by itself */
        guest_free(take_ptr(&s->guest));
        session_fail(s, &err);
        return;
    }
    session_set_sealed(s, &m->sealed);
    if (s->is_seal_awaited && !session_is_ending(s))
        session_tell(s);
    s->is_seal_awaited = false;
    if (s->cell)
        cell_on_sealed(s->cell);
}

/* Its pid 1 has ended: by its lifetime, by a limit, or by us. Whoever waits for one that was never
 * ready is told FAILED, as of any other that could not be made. */
static void on_over(struct session *s, const struct spawn_message *m)
{
    struct error err;
    if (s->attaching)
        return; /* what the spawner gives back says so, too, and has the output with it */
    error_set(&err, m->stats.lifetime_over ? ERROR_TIMEOUT : ERROR_UNAVAILABLE, "%s",
              m->stats.lifetime_over ? "the session reached the end of its time"
                                     : "the sandbox is gone");
    if (s->cell)
        cell_on_over(s->cell, &m->stats);
    if (s->question.fn)
        session_end_question(s, &err);
    if (s->info.state == SESSION_CREATING && !s->was_ready)
        session_fail(s, &err);
    if (!session_is_ending(s)) {
        s->info.error = err;
        session_close(s);
    }
}

void session_on_event(struct session *s, const struct spawn_message *m)
{
    if (!m) {
        if (s->info.state != SESSION_TERMINATED) { /* nor will a destroy be answered any more */
            s->has_destroyed = true;
            s->is_creating = false;
            family_end(s, "the spawner is gone");
            error_set(&s->info.error, ERROR_UNAVAILABLE, "the spawner is gone");
            session_end(s, &s->before);
        }
        return;
    }
    if (s->sandbox != 0 && m->sandbox == s->sandbox && m->verb == SPAWN_SEALED)
        on_sealed(s, m);
    else if (s->sandbox != 0 && m->sandbox == s->sandbox && m->verb == SPAWN_EXITED)
        on_over(s, m);
    family_on_event(s, m);
}

/* --- life ------------------------------------------------------------------------------------ */

void session_give(struct session *s, const struct session_events *events, void *ctx)
{
    s->events = events;
    s->ctx = ctx;
    s->info.created_ns = s->info.last_used_ns = clock_wall_ns();
    session_enter(s, s->info.state); /* its idle time begins anew */
}

struct session *session_new(struct loop *loop, struct spawner_client *spawner,
                            const struct session_template *template,
                            const struct session_events *events, void *ctx)
{
    struct session *s = xcalloc(1, sizeof(*s));
    s->loop = loop;
    s->spawner = spawner;
    s->template = template;
    s->events = events;
    s->ctx = ctx;
    s->start_ns = clock_now_ns();
    s->info.created_ns = s->info.last_used_ns = clock_wall_ns();
    fork_init(s);
    return s;
}

void session_ask_create(struct session *s, uint64_t zygote)
{
    struct spawn_message m = {.verb = SPAWN_CREATE};
    session_fill_create(s->template, &m);
    m.create.zygote = zygote;
    s->is_warm = zygote != 0;
    s->is_creating = true;
    spawner_client_ask(s->spawner, &m, on_created, s);
}

static int begin(struct session *s, struct error *err)
{
    const struct session_template *t = s->template;
    if (t->forks > 0 && t->zygote)
        return family_begin(s, err);
    session_ask_create(s, t->zygote);
    return 0;
}

static void on_packages(void *ctx, const struct error *failure)
{
    struct session *s = ctx;
    struct error err;
    s->packages = NULL;
    if (failure)
        session_fail(s, failure);
    else if (begin(s, &err) < 0)
        session_fail(s, &err);
}

int session_open(struct session **out, struct loop *loop, struct spawner_client *spawner,
                 const struct session_template *template, const struct session_events *events,
                 void *ctx, struct error *err)
{
    struct session *s = session_new(loop, spawner, template, events, ctx);
    if (id_make(ID_SESSION, s->info.id, err) < 0 ||
        capacity_take(template->capacity, &s->seat, &template->limits, err) < 0 ||
        (!template->packages && begin(s, err) < 0)) {
        session_free(s);
        return -1;
    }
    if (template->packages)
        s->packages = builder_need(template->builder, template->packages, on_packages, s);
    *out = s;
    return 0;
}

void session_give_passage(struct session *s, struct passage *passage)
{
    passage_free(s->passage);
    s->passage = passage;
}

struct passage *session_passage(const struct session *s)
{
    return s->passage;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    forget_packages(s);
    session_end_terminals(s, "the session has another host");
    session_end_errands(s, "the session has another host");
    session_set_timer(s, 0, NULL);
    fork_forget(s);
    loop_timer_free(s->freeze_timer);
    attach_free(s);
    session_forget_cells(s);
    s->work.fn = NULL; /* nobody is told any more */
    checkpoint_free_all(s);
    session_drop_kernel(s);
    guest_free(s->guest);
    passage_free(s->passage);
    capacity_give(&s->seat);
    strbuf_release(&s->question.body);
    output_release(&s->startup_out);
    output_release(&s->startup_err);
    free(s);
}
