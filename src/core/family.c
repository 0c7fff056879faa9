/* family.c - the sandboxes that a session to be forked is made with
 *
 * A brood makes them, all with one memory: first the session's own, then those of its heirs. It is
 * ended as soon as they are sealed, and before the interpreter runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

#include "base/memory.h"
#include "runtime/sandbox_socket.h"

static void destroy_one(struct session *s, uint64_t *sandbox)
{
    struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = *sandbox};
    if (*sandbox)
        spawner_client_ask(s->spawner, &m, NULL, NULL);
    *sandbox = 0;
}

static void drop_heir(struct heir *h)
{
    destroy_one(h->session, &h->sandbox);
    sandbox_socket_close(h->session->loop, &h->control_fd);
    sandbox_socket_close(h->session->loop, &h->channel_fd);
    h->is_sealed = false;
    if (!h->is_asked)
        capacity_give(&h->seat);
}

void family_end(struct session *s, const char *why)
{
    struct family *f = &s->family;
    for (size_t i = 0; i < f->count; i++)
        drop_heir(&f->heirs[i]);
    if (f->count > 0 && !f->why_none)
        f->why_none = why;
    destroy_one(s, &f->brood);
    sandbox_socket_close(s->loop, &f->gate_fd); /* whoever stood there is gone */
}

bool family_is_owed(const struct session *s)
{
    bool is_owed = s->family.is_asking;
    for (size_t i = 0; i < s->family.count; i++)
        is_owed |= s->family.heirs[i].is_asked;
    return is_owed;
}

/* The interpreter begins to run when the brood has ended: nothing that is in the making shares its
 * memory then. */
static void end_brood_if_done(struct session *s)
{
    struct family *f = &s->family;
    if (!f->brood || !s->is_sealed)
        return;
    for (size_t i = 0; i < f->count; i++) {
        if (f->heirs[i].is_asked || (f->heirs[i].sandbox && !f->heirs[i].is_sealed))
            return;
    }
    destroy_one(s, &f->brood);
}

static void on_heir(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)err;
    struct heir *h = ctx;
    struct session *s = h->session;
    h->is_asked = false;
    if (m) {
        h->sandbox = m->sandbox;
        h->control_fd = take_fd(&fds[0]);
        h->channel_fd = take_fd(&fds[1]);
    }
    if (!m || session_is_ending(s) || s->family.why_none)
        drop_heir(h);
    end_brood_if_done(s);
    session_destroy_if_due(s);
}

static void ask_all(struct session *s)
{
    struct family *f = &s->family;
    struct spawn_message m = {.verb = SPAWN_CREATE};
    session_fill_create(s->template, &m);
    m.create.zygote = f->brood;
    session_ask_create(s, f->brood);
    for (size_t i = 0; i < f->count; i++) {
        f->heirs[i].is_asked = true;
        struct spawn_message each = m;
        spawner_client_ask(s->spawner, &each, on_heir, &f->heirs[i]);
    }
}

static void on_brood(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    (void)fds;
    struct session *s = ctx;
    s->family.is_asking = s->is_creating = false;
    if (m)
        s->family.brood = m->sandbox;
    if (session_is_ending(s)) {
        destroy_one(s, &s->family.brood);
        session_destroy_if_due(s);
    } else if (!m) {
        session_fail(s, err);
    }
}

static int take_seats(struct session *s, struct error *err)
{
    const struct session_template *t = s->template;
    struct family *f = &s->family;
    size_t wanted = MIN(t->forks, (size_t)SESSION_FORKS_MAX);
    for (; f->count < wanted; f->count++) {
        struct heir *h = &f->heirs[f->count];
        *h = (struct heir){.session = s, .control_fd = -1, .channel_fd = -1};
        if (capacity_take(t->capacity, &h->seat, &t->limits, err) < 0)
            return -1; /* the others are given back with the session */
    }
    return 0;
}

int family_begin(struct session *s, struct error *err)
{
    if (take_seats(s, err) < 0)
        return -1;
    struct spawn_message m = {.verb = SPAWN_BROOD, .brood = {.zygote = s->template->zygote}};
    s->is_creating = s->family.is_asking = true;
    spawner_client_ask(s->spawner, &m, on_brood, s);
    return 0;
}

static void on_brood_event(struct session *s, const struct spawn_message *m)
{
    struct error err;
    bool is_sealed = m->verb == SPAWN_SEALED && !(m->flags & SPAWN_FAILED);
    if (is_sealed) {
        ask_all(s);
        return;
    }
    s->family.brood = 0;
    if (s->sandbox || s->is_creating)
        return; /* it has done its part, or the sandboxes tell what became of them */
    if (m->flags & SPAWN_FAILED)
        spawner_client_explain(s->spawner, m, &err);
    else
        error_set(&err, ERROR_UNAVAILABLE, "the warm interpreter has ended");
    session_fail(s, &err);
}

static void on_heir_event(struct heir *h, const struct spawn_message *m)
{
    if (m->verb == SPAWN_SEALED && !(m->flags & SPAWN_FAILED)) {
        h->is_sealed = true;
        capacity_settle(&h->seat);
        h->sealed = m->sealed;
        return;
    }
    if (m->verb == SPAWN_SEALED)
        h->sandbox = 0; /* the spawner removes it by itself */
    drop_heir(h);
}

void family_on_event(struct session *s, const struct spawn_message *m)
{
    struct family *f = &s->family;
    if (f->brood && m->sandbox == f->brood)
        on_brood_event(s, m);
    for (size_t i = 0; i < f->count; i++) {
        if (f->heirs[i].sandbox && m->sandbox == f->heirs[i].sandbox)
            on_heir_event(&f->heirs[i], m);
    }
    end_brood_if_done(s);
}

struct heir *family_find_heir(struct session *s, struct error *err)
{
    struct family *f = &s->family;
    if (s->template->forks == 0) {
        error_set(err, ERROR_CONFLICT, "the session was not opened as one that can be forked");
        error_word(err, "fork_unsupported");
        error_hint(err, "say how many forks it can have when it is opened, with --forks; only "
                        "python sessions can have any");
        return NULL;
    }
    if (f->count == 0) {
        error_set(err, ERROR_CONFLICT, "the session is a fork, and cannot be forked again");
        error_word(err, "fork_unsupported");
        error_hint(err, "fork the session that it comes from once more");
        return NULL;
    }
    for (size_t i = 0; i < f->count; i++) {
        if (f->heirs[i].is_sealed)
            return &f->heirs[i];
    }
    error_set(err, f->why_none ? ERROR_CONFLICT : ERROR_LIMIT, "the session cannot be forked: %s",
              f->why_none ? f->why_none : "all its forks have been made");
    error_hint(err,
               f->why_none ? "open a new session, and fork it before a reset or a rollback"
                           : "open the next session with more of them: --forks, up to %d",
               SESSION_FORKS_MAX);
    return NULL;
}

void family_forget(struct session *s)
{
    s->family.brood = 0;
    for (size_t i = 0; i < s->family.count; i++) {
        s->family.heirs[i].sandbox = 0;
        s->family.heirs[i].is_asked = false;
    }
    family_end(s, "the session is over");
}
