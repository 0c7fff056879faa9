/* attach.c - going on with the session of a host that is no more
 *
 * TAKE brings the control socket, the channel and the output of the execution that runs. What the
 * host before has read of the first two is gone, so each of them is asked to say where things
 * stand, and whatever comes before that answer is dropped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "core/session_inside.h"
#include "runtime/keeper.h"

/* Until the spawner has answered. */
struct attaching {
    struct session *session;
    bool has_execution;
    struct cell_record execution;
    struct session_resumption resumption;
};

void attach_free(struct session *s)
{
    if (s->attaching)
        spawner_client_redirect(s->spawner, s->attaching, NULL, NULL);
    free(take_ptr(&s->attaching));
}

/* The execution that nothing is left of. */
static void tell_lost(const struct attaching *a, const struct error *why)
{
    if (!a->has_execution)
        return;
    struct execution e = {.created_ns = a->execution.created_ns,
                          .started_ns = a->execution.started_ns,
                          .error = *why};
    memcpy(e.id, a->execution.id, sizeof(e.id));
    execution_judge(&e);
    a->resumption.events->ended(a->resumption.ctx, &e);
}

static void lose(struct session *s, const struct attaching *a, const struct error *why)
{
    s->sandbox = 0;
    s->has_destroyed = true;
    s->info.error = *why;
    tell_lost(a, why);
    session_end(s, &s->before);
}

/* --- the pieces ------------------------------------------------------------------------------ */

static int open_channel(struct session *s, int *fd, struct error *err)
{
    if (*fd < 0)
        return 0; /* init tells what became of the program */
    s->is_syncing = true;
    if (session_open_kernel(s, take_fd(fd), err) < 0)
        return -1;
    return kernel_sync(s->kernel, s->generation, err);
}

static int resume(struct session *s, const struct attaching *a, const struct spawn_entry *entry,
                  int *fds, struct error *err)
{
    int output[STDIO_KEPT_FDS];
    bool has_output = entry->counts[KEEPER_OUTPUT] == ARRAY_LEN(output);
    int *first = &fds[1 + entry->counts[KEEPER_CHANNEL]];
    for (size_t i = 0; has_output && i < ARRAY_LEN(output); i++)
        output[i] = take_fd(&first[i]);
    return session_resume_cell(s, a->resumption.request, &a->execution, has_output ? output : NULL,
                               a->resumption.events, a->resumption.ctx, err);
}

/* All of it before anything is heard. */
static int put_together(struct session *s, const struct attaching *a,
                        const struct spawn_entry *entry, int *fds, struct error *err)
{
    int none = -1;
    session_set_sealed(s, &entry->sealed);
    if (guest_open(&s->guest, s->loop, take_fd(&fds[0]), session_on_guest, s, err) < 0 ||
        open_channel(s, entry->counts[KEEPER_CHANNEL] == 1 ? &fds[1] : &none, err) < 0)
        return -1;
    guest_forget_files(s->guest);
    return a->has_execution ? resume(s, a, entry, fds, err) : 0;
}

static void begin_to_ask(struct session *s)
{
    s->info.is_frozen = true; /* perhaps; a frozen kernel would not answer */
    session_thaw(s);
    s->is_asking = s->kernel_runs = true; /* until init says that it does not */
    guest_ask(s->guest);
    if (!s->cell)
        session_set_timer(s, SESSION_START_MS, session_on_start_late);
}

static void on_taken(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    scoped_free struct attaching *a = ctx;
    struct session *s = a->session;
    struct error local;
    s->attaching = NULL;
    s->is_creating = false;
    if (!m) {
        lose(s, a, err);
        return;
    }
    if (session_is_ending(s)) { /* closed meanwhile */
        error_set(&local, ERROR_UNAVAILABLE, "the session was closed");
        tell_lost(a, &local);
        session_destroy(s);
        return;
    }
    if (put_together(s, a, &m->entry, fds, &local) < 0) {
        tell_lost(a, &local);
        session_fail(s, &local);
    } else if (m->entry.state == SPAWN_IS_OVER) {
        const struct spawn_message over = {
            .verb = SPAWN_EXITED, .sandbox = s->sandbox, .stats = m->entry.stats};
        session_on_event(s, &over);
    } else {
        begin_to_ask(s);
        if (s->wants_reset && session_reset(s, &local) < 0)
            session_fail(s, &local);
    }
}

/* --- what is heard --------------------------------------------------------------------------- */

/* The last request that arrived is known now, and with it what became of the execution: one that
 * came after it was sent when it had ended, and only its end had not been written down. So it is
 * when its interpreter was replaced, by one that has heard of nothing. */
static void on_synced(struct session *s, uint32_t generation)
{
    uint32_t own = s->cell ? cell_generation(s->cell) : 0;
    s->is_syncing = false;
    s->generation = MAX(s->generation, generation);
    if (s->cell && generation < own) {
        cell_lose_unbegun(s->cell);
    } else if (s->cell && (generation > own || own == 0)) {
        cell_lose_ended(s->cell);
    } else if (!s->cell && s->info.state == SESSION_CREATING) {
        session_enter(s, SESSION_READY);
        session_tell(s);
        session_begin_next(s);
    }
}

bool attach_on_frame(struct session *s, const struct frame_message *m)
{
    if (m->type != KERNEL_SYNCED)
        return s->is_syncing;
    if (s->is_syncing)
        on_synced(s, m->generation);
    else if (s->cell && m->generation == s->generation)
        cell_on_synced(s->cell);
    return true;
}

bool attach_on_guest(struct session *s, struct guest_message *m)
{
    if (m->verb != GUEST_TOLD)
        return s->is_asking;
    if (!s->is_asking)
        return true;
    s->is_asking = false;
    s->kernel_runs = m->value;
    if (m->value && s->kernel)
        return true;
    if (m->value) /* nobody can speak to it any more; its end follows */
        guest_kill(s->guest);
    else
        m->verb = GUEST_EXITED;
    return m->value;
}

/* --- the interface --------------------------------------------------------------------------- */

static void use_record(struct session *s, const struct session_record *record)
{
    s->info.created_ns = record->created_ns;
    s->info.last_used_ns = record->last_used_ns;
    s->info.create_ms = record->create_ms;
    s->sandbox = record->sandbox;
    s->generation = record->generation;
    s->before = record->before;
    s->newest_ns = record->newest_ns;
    s->last_number = record->last_number;
    s->is_sealed = s->is_creating = s->is_kept = s->was_ready = true;
    memcpy(s->info.id, record->id, sizeof(s->info.id));
    memcpy(s->label, record->label, sizeof(s->label));
}

int session_attach(struct session **out, struct loop *loop, struct spawner_client *spawner,
                   const struct session_template *template, const struct session_record *record,
                   const struct session_resumption *resumption, const struct session_events *events,
                   void *ctx, struct error *err)
{
    if (record->sandbox == 0)
        return error_set(err, ERROR_NOT_FOUND, "the session has no sandbox");
    struct session *s = session_new(loop, spawner, template, events, ctx);
    use_record(s, record);
    capacity_claim(template->capacity, &s->seat);
    struct attaching *a = xcalloc(1, sizeof(*a));
    *a = (struct attaching){.session = s, .has_execution = record->has_execution};
    if (record->has_execution) {
        a->execution = record->execution;
        a->resumption = *resumption;
    }
    s->attaching = a;
    struct spawn_message m = {.verb = SPAWN_TAKE, .sandbox = record->sandbox};
    spawner_client_ask(spawner, &m, on_taken, a);
    *out = s;
    return 0;
}
