/* plane_session.c - sessions that live here: found, written down, changed, and ended
 *
 * While a session lives, its state is what it is; the store has it as ready (or failed) all the
 * time, together with what another process needs to go on with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/plane_inside.h"
#include "core/requirement.h"
#include "core/tail.h"

#define NS_PER_MS 1000000ll

/* --- finding ---------------------------------------------------------------------------------- */

char *live_name_key(const char *owner, const char *name)
{
    return xasprintf("%s\n%s", owner, name);
}

struct live *live_find(struct plane *p, const struct plane_caller *who, const char *word)
{
    scoped_free char *key = live_name_key(who->owner, word);
    struct map_node *node = map_find(&p->sessions, word);
    struct live *l = node ? MAP_OF(node, struct live, by_id) : NULL;
    if (!l && (node = map_find(&p->names, key)))
        l = MAP_OF(node, struct live, by_name);
    if (!l || !l->is_known || (!who->sees_all && strcmp(l->owner, who->owner) != 0))
        return NULL;
    return l;
}

int live_not_found(struct error *err, const char *word)
{
    error_set(err, ERROR_NOT_FOUND, "no session '%.64s'", word);
    return error_word(err, "session_not_found");
}

/* A live one that is not about to end, for those who want something of it. */
struct live *live_find_usable(struct plane *p, const struct plane_caller *who, const char *word,
                              struct error *err)
{
    struct live *l = live_find(p, who, word);
    if (!l) {
        live_not_found(err, word);
        error_hint(err, "it has ended, or never was; create one with POST /sessions");
        return NULL;
    }
    if (l->is_ending || !l->session) {
        error_set(err, ERROR_CONFLICT, "session '%.64s' is ending", word);
        error_word(err, "session_terminating");
        return NULL;
    }
    l->used_ns = clock_now_ns();
    l->last_used_ns = clock_wall_ns();
    l->is_dirty = true;
    return l;
}

struct session *plane_use(struct plane *p, const struct plane_caller *who, const char *word,
                          struct error *err)
{
    struct live *l = live_find_usable(p, who, word, err);
    return l ? l->session : NULL;
}

void plane_write(struct plane *p, const char *id)
{
    struct map_node *node = map_find(&p->sessions, id);
    if (node)
        live_write(MAP_OF(node, struct live, by_id));
}

void plane_go_on(struct plane *p, const char *id)
{
    struct map_node *node = map_find(&p->sessions, id);
    if (node)
        job_next(MAP_OF(node, struct live, by_id));
}

const char *plane_session_id(struct plane *p, const struct plane_caller *who, const char *word)
{
    const struct live *l = live_find(p, who, word);
    return l ? l->id : NULL;
}

static bool has_package(const json_t *list, const char *form)
{
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one)
    {
        if (strcmp(json_string_value(one), form) == 0)
            return true;
    }
    return false;
}

int plane_check_packages(struct plane *p, const struct plane_caller *who, const char *word,
                         const struct param_strings *wanted, struct error *err)
{
    scoped_requirements struct requirement_set set = {0};
    enum runner_index index;
    const struct live *l = live_find(p, who, word);
    if (!l || !l->kind || wanted->count == 0) /* without a kind it is about to end */
        return 0;
    if (catalog_find_index(l->kind, &index, err) < 0 ||
        requirement_set_make(&set, index, wanted->items, wanted->count, err) < 0)
        return -1;
    for (size_t i = 0; i < set.count; i++) {
        if (has_package(json_object_get(l->facts, "requirements"), set.items[i]))
            continue;
        error_set(err, ERROR_CONFLICT,
                  "requirements: the session began without '%s', and its packages were chosen then",
                  set.items[i]);
        error_word(err, "packages_fixed");
        return error_hint(err, "choose another session_id, which begins with them, or leave "
                               "requirements out and use what the session has");
    }
    return 0;
}

/* --- one of them ------------------------------------------------------------------------------ */

struct live *live_new(struct plane *p, const char *id, const char *owner, const char *name)
{
    struct live *l = xcalloc(1, sizeof(*l));
    l->plane = p;
    snprintf(l->id, sizeof(l->id), "%s", id);
    l->owner = xstrdup(owner);
    l->created_ns = l->last_used_ns = clock_wall_ns();
    l->used_ns = l->began_ns = clock_now_ns();
    map_add(&p->sessions, &l->by_id, l->id);
    if (name) {
        l->name = xstrdup(name);
        l->name_key = live_name_key(owner, name);
        map_add(&p->names, &l->by_name, l->name_key);
    }
    return l;
}

/* How long it may live: no longer than the spawner lets it. */
int64_t live_expiry(const struct live *l, uint64_t ttl_ms)
{
    uint64_t most = catalog_limits(l->kind)->lifetime_ms;
    uint64_t ms = ttl_ms && most ? MIN(ttl_ms, most) : MAX(ttl_ms, most);
    return ms ? clock_wall_ns() + (int64_t)ms * NS_PER_MS : 0;
}

void live_forget(struct live *l)
{
    if (l->running)
        l->running->live = NULL;
    map_remove(&l->plane->sessions, &l->by_id);
    if (l->name_key)
        map_remove(&l->plane->names, &l->by_name);
    l->trusting = NULL; /* nobody is told any more */
    session_free(take_ptr(&l->session));
    if (l->kind)
        catalog_let_go(l->kind);
    for (char **e = l->env; e && *e; e++)
        free(*e);
    free(l->env);
    network_release(&l->network);
    vault_free(l->vault);
    json_decref(l->facts);
    free(l->metadata);
    free(l->name_key);
    free(l->name);
    free(l->owner);
    free(l->problem);
    tail_free(l->tail);
    free(l);
}

char **plane_env(const struct param_map *map)
{
    char **list = xcalloc(map->count + 1, sizeof(*list));
    for (size_t i = 0; i < map->count; i++)
        list[i] = xasprintf("%s=%s", map->names[i], map->values[i]);
    return list;
}

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer;
}

/* What another process needs, of a session that lives. */
void live_write_state(struct live *l, enum store_session_state to)
{
    struct session_record record;
    session_get_record(l->session, &record);
    l->is_dirty = false;
    const struct store_session_change change = {
        .id = l->id,
        .node = l->plane->order.node,
        .epoch = l->plane->order.epoch,
        .to = to,
        .last_used_ns = l->last_used_ns,
        .expires_ns = l->expires_ns,
        .resume = {&record, sizeof(record)},
    };
    store_change_session(l->plane->order.store, &change, ignore, NULL);
}

void live_write(struct live *l)
{
    if (l->session && l->is_known && !l->is_ending)
        live_write_state(l, l->is_failed ? STORE_SESSION_FAILED : STORE_SESSION_READY);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void on_end_written(void *ctx, const struct store_answer *answer)
{
    struct live *l = ctx;
    l->is_writing = false;
    if (answer->err && error_passes(answer->err)) { /* the sweep tries again */
        plane_answer(take_ptr(&l->ending), NULL, 0, answer->err);
        return;
    }
    l->is_over = true;
    live_tell_all(l, take_ptr(&l->ending));
    live_forget(l);
}

static void write_end(struct live *l)
{
    size_t len;
    l->is_writing = true;
    if (l->problem)
        json_object_set_new(l->facts, "problem", json_string(l->problem));
    scoped_free char *doc = plane_dump(json_incref(l->facts), &len);
    json_object_del(l->facts, "problem");
    const struct store_session_change change = {
        .id = l->id,
        .node = l->plane->order.node,
        .epoch = l->plane->order.epoch,
        .to = STORE_SESSION_TERMINATED,
        .last_used_ns = l->last_used_ns,
        .ended_ns = l->ended_ns,
        .doc = doc,
    };
    store_change_session(l->plane->order.store, &change, on_end_written, l);
}

/* Its sandbox is gone, and so is everything in it. */
void live_ended(struct live *l)
{
    struct error err;
    session_free(take_ptr(&l->session));
    l->ended_ns = clock_wall_ns();
    l->is_ending = true;
    job_end_all(l, "the session has ended");
    error_set(&err, ERROR_CONFLICT, "the session has ended");
    error_word(&err, "session_terminated");
    plane_answer(take_ptr(&l->resetting), NULL, 0, &err);
    if (l->is_known)
        write_end(l);
    else if (!l->is_writing) /* nobody knows it */
        live_forget(l);
}

void live_end(struct live *l, const char *why)
{
    if (why && !l->problem && !l->is_ending)
        l->problem = xstrdup(why);
    l->is_ending = true;
    if (l->session)
        session_close(l->session);
}

/* --- changing --------------------------------------------------------------------------------- */

void plane_end(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
               void *ctx)
{
    struct live *l = live_find(p, who, word);
    if (!l) {
        plane_get(p, who, word, fn, ctx);
        return;
    }
    plane_wait(&l->ending, fn, ctx);
    live_end(l, NULL);
}

void plane_reset(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
                 void *ctx)
{
    struct error err;
    struct live *l = live_find_usable(p, who, word, &err);
    if (!l) {
        plane_fail(fn, ctx, &err);
        return;
    }
    plane_wait(&l->resetting, fn, ctx); /* before: that it fails may be told within the call */
    if (session_reset(l->session, &err) == 0)
        return;
    struct plane_waiter *refused = l->resetting;
    l->resetting = take_ptr(&refused->next); /* those who came earlier go on waiting */
    plane_answer(refused, NULL, 0, &err);
}

void plane_interrupt(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
                     void *ctx)
{
    struct error err;
    struct live *l = live_find_usable(p, who, word, &err);
    if (!l) {
        plane_fail(fn, ctx, &err);
        return;
    }
    session_interrupt(l->session);
    live_tell(l, fn, ctx);
}

struct extending {
    char *id;
    struct plane *plane;
    plane_fn fn;
    void *ctx;
};

static void on_extended(void *ctx, const struct store_answer *answer)
{
    scoped_free struct extending *e = ctx;
    struct error err;
    struct map_node *node = map_find(&e->plane->sessions, e->id);
    if (answer->err) {
        plane_fail(e->fn, e->ctx, answer->err);
    } else if (!node) {
        live_not_found(&err, e->id);
        plane_fail(e->fn, e->ctx, &err);
    } else {
        live_tell(MAP_OF(node, struct live, by_id), e->fn, e->ctx);
    }
    free(e->id);
}

void plane_extend(struct plane *p, const struct plane_caller *who, const char *word,
                  uint64_t ttl_ms, plane_fn fn, void *ctx)
{
    struct error err;
    struct live *l = live_find_usable(p, who, word, &err);
    if (!l) {
        plane_fail(fn, ctx, &err);
        return;
    }
    l->expires_ns = live_expiry(l, ttl_ms);
    struct extending *e = xcalloc(1, sizeof(*e));
    *e = (struct extending){.id = xstrdup(l->id), .plane = p, .fn = fn, .ctx = ctx};
    const struct store_session_change change = {
        .id = l->id,
        .node = p->order.node,
        .epoch = p->order.epoch,
        .to = l->is_failed ? STORE_SESSION_FAILED : STORE_SESSION_READY,
        .expires_ns = l->expires_ns,
    };
    store_change_session(p->order.store, &change, on_extended, e);
}

/* --- time ------------------------------------------------------------------------------------- */

static bool is_idle(const struct live *l, int64_t now)
{
    return l->idle_ms > 0 && !l->running && !l->first &&
           session_info(l->session)->state != SESSION_BUSY &&
           now - l->used_ns > (int64_t)l->idle_ms * NS_PER_MS;
}

void live_sweep(struct live *l, int64_t now, int64_t wall)
{
    if (!l->is_known || l->is_writing)
        return;
    const struct session_info *info = l->session ? session_info(l->session) : NULL;
    if (info && info->terminal_count + info->errand_count > 0) {
        l->used_ns = now;
        l->last_used_ns = wall;
    }
    job_next(l); /* a session is free again after a fork of it without anybody being told */
    if (!l->session)
        write_end(l);
    else if (l->is_ending)
        return;
    else if (l->expires_ns && wall >= l->expires_ns)
        live_end(l, "its time to live was over");
    else if (is_idle(l, now))
        live_end(l, "nobody used it");
    else if (l->is_dirty)
        live_write(l);
}
