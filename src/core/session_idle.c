/* session_idle.c - what becomes of a session that nobody uses: frozen, then closed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_inside.h"

static void ask_freezer(struct session *s, enum spawn_verb verb)
{
    struct spawn_message m = {.verb = (uint16_t)verb, .sandbox = s->sandbox};
    spawner_client_ask(s->spawner, &m, NULL, NULL);
}

/* Others than the interpreter's. */
static bool has_users(const struct session *s)
{
    return s->terminals || s->errands;
}

/* A host that cannot freeze leaves it running, which is no harm; the thaw is sent all the same, in
 * front of whatever wakes it. */
void session_freeze(struct session *s)
{
    if (s->info.state != SESSION_READY || s->info.is_frozen || !s->sandbox || has_users(s))
        return;
    s->info.is_frozen = true;
    ask_freezer(s, SPAWN_FREEZE);
}

void session_thaw(struct session *s)
{
    if (!s->info.is_frozen)
        return;
    s->info.is_frozen = false;
    if (s->sandbox)
        ask_freezer(s, SPAWN_THAW);
}

static void on_idle(void *ctx)
{
    session_close(ctx);
}

static void on_unused(void *ctx)
{
    session_freeze(ctx);
}

void session_count_idle(struct session *s)
{
    const struct session_template *t = s->template;
    bool is_ready = s->info.state == SESSION_READY && !has_users(s);
    bool is_unused = is_ready || (s->info.state == SESSION_FAILED && !has_users(s));
    session_set_timer(s, t->idle_ms, is_unused && t->idle_ms ? on_idle : NULL);
    loop_timer_free(take_ptr(&s->freeze_timer));
    if (is_ready && t->idle_freeze_ms && !s->events->is_parked)
        s->freeze_timer = loop_timer_new(s->loop, t->idle_freeze_ms, on_unused, s);
}
