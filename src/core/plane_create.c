/* plane_create.c - a session is asked for, made, written down, and only then told */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/plane_inside.h"

/* --- its beginning ---------------------------------------------------------------------------- */

static void refuse(struct live *l, const struct error *err)
{
    const struct plane_waiter w = l->creating;
    l->creating.fn = NULL;
    live_end(l, NULL);
    if (w.fn)
        w.fn(w.ctx, NULL, 0, err);
}

static void on_stored(void *ctx, const struct store_answer *answer)
{
    struct live *l = ctx;
    l->is_writing = false;
    if (answer->err) {
        struct error err = *answer->err;
        if (err.code == ERROR_CONFLICT)
            error_word(&err, "session_exists");
        else if (err.code == ERROR_LIMIT)
            error_word(&err, "quota_exceeded");
        bool is_over = !l->session;
        refuse(l, &err);
        if (is_over)
            live_forget(l);
        return;
    }
    const struct plane_waiter w = l->creating;
    l->creating.fn = NULL;
    l->is_known = true;
    if (w.fn)
        live_tell(l, w.fn, w.ctx);
    if (!l->session)
        live_ended(l); /* it ended meanwhile */
}

static void write_new(struct live *l)
{
    struct session_record record;
    size_t len;
    const struct spawn_limits *limits = catalog_limits(l->kind);
    session_keep(l->session);
    live_keep_vault(l);
    session_get_record(l->session, &record);
    scoped_free char *doc = plane_dump(json_incref(l->facts), &len);
    const struct store_session row = {
        .id = l->id,
        .owner = l->owner,
        .name = l->name,
        .state = STORE_SESSION_READY,
        .template_id = catalog_id(l->kind),
        .language = catalog_spec(l->kind)->language,
        .node = l->plane->order.node,
        .epoch = l->plane->order.epoch,
        .takes = {.cpu_milli = limits->cpu_milli,
                  .memory_bytes = limits->memory_bytes,
                  .disk_bytes = limits->disk_bytes},
        .created_ns = l->created_ns,
        .last_used_ns = l->last_used_ns,
        .expires_ns = l->expires_ns,
        .metadata = l->metadata,
        .doc = doc,
        .resume = {&record, sizeof(record)},
    };
    l->is_writing = true;
    /* The operator has no quota, and what has no name has nobody's. */
    if (l->owner[0] == '\0' && !l->name && strcmp(l->metadata, "{}") == 0)
        store_keep_session(l->plane->order.store, &row, on_stored, l);
    else
        store_add_session(l->plane->order.store, &row, on_stored, l);
}

static void on_created(struct live *l)
{
    double ms = (double)(clock_now_ns() - l->began_ns) / 1e6;
    json_object_set_new(l->facts, "timings",
                        json_pack("{s:f, s:b}", "create_ms", (double)(int64_t)(ms * 1000) / 1000,
                                  "pooled", l->is_pooled));
    if (l->plane->events)
        l->plane->events->created(l->plane->events_ctx, ms, l->is_pooled);
    write_new(l);
}

static void on_settled(struct live *l, const struct error *err)
{
    l->is_going_out = false;
    if (err)
        refuse(l, err);
    else
        on_created(l);
}

static void on_way_out(void *ctx, const struct error *err)
{
    struct live *l = ctx;
    if (err || !l->vault)
        on_settled(l, err);
    else
        live_put_trust(l, on_settled);
}

/* It is not there for anybody before it can reach what it may. */
static void go_out(struct live *l)
{
    if (!plane_can_go_out(l->plane, l->session, &l->network))
        return;
    l->is_going_out = true;
    const struct plane_way way = {.who = l->id, .network = &l->network, .vault = l->vault};
    if (plane_go_out(l->plane, l->session, &way, on_way_out, l))
        on_way_out(l, NULL);
}

static void on_ready(struct live *l)
{
    if (!l->is_known) {
        if (!l->is_writing && !l->is_going_out && !l->is_ending)
            go_out(l);
        return;
    }
    bool was_failed = l->is_failed;
    l->is_failed = false;
    if (was_failed || l->resetting)
        live_write_state(l, STORE_SESSION_READY);
    free(take_ptr(&l->problem));
    live_tell_all(l, take_ptr(&l->resetting));
    job_next(l);
}

static void on_failed(struct live *l)
{
    struct error err = session_info(l->session)->error;
    if (!l->is_known) {
        if (!l->is_writing)
            refuse(l, &err);
        return;
    }
    l->is_failed = true;
    free(l->problem);
    l->problem = xstrdup(err.msg);
    live_write_state(l, STORE_SESSION_FAILED);
    plane_answer(take_ptr(&l->resetting), NULL, 0, &err);
    job_end_all(l, "the interpreter of the session is gone");
}

static void on_changed(void *ctx, struct session *session)
{
    struct live *l = ctx;
    switch (session_info(session)->state) {
    case SESSION_READY:
        on_ready(l);
        break;
    case SESSION_FAILED:
        on_failed(l);
        break;
    case SESSION_TERMINATED:
        live_ended(l);
        break;
    default:
        break;
    }
}

const struct session_events live_events = {.changed = on_changed};

/* --- creating --------------------------------------------------------------------------------- */

static struct catalog_kind *find_kind(struct plane *p, const char *template, const char *language,
                                      struct error *err)
{
    const char *word = template ? template : language ? language : "python";
    struct catalog_kind *kind = catalog_find(p->order.catalog, word, err);
    if (!kind) {
        error_word(err, "template_not_found");
        return NULL;
    }
    if (language && template && strcmp(catalog_spec(kind)->language, language) != 0) {
        error_set(err, ERROR_INVALID, "language: template '%.64s' has %s, not '%.64s'", template,
                  catalog_spec(kind)->language, language);
        return NULL;
    }
    return kind;
}

struct catalog_kind *plane_kind(struct plane *p, const char *template, const char *language,
                                struct error *err)
{
    return find_kind(p, template, language, err);
}

static json_t *seconds(uint64_t ms)
{
    return ms ? json_real((double)ms / 1000) : json_null();
}

static json_t *make_facts(const struct catalog_kind *kind, const struct session_wish *wish,
                          const struct network_spec *network, uint64_t idle_ms)
{
    const struct spawn_limits *limits = catalog_limits(kind);
    const struct template_spec *spec = catalog_spec(kind);
    return json_pack(
        "{s:s, s:s, s:{s:o, s:f, s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:n}", "template", spec->name,
        "language", spec->language, "resources", "memory_bytes", json_number(limits->memory_bytes),
        "cpus", (double)limits->cpu_milli / 1000, "pids", json_number(limits->pids), "disk_bytes",
        json_number(limits->disk_bytes), "forks", json_number(catalog_template(kind)->forks),
        "requirements", catalog_requirements(kind), "network", network_json(network), "env",
        plane_map(&wish->env), "idle_timeout", seconds(idle_ms), "timings");
}

static uint64_t first_of(uint64_t a, uint64_t b, uint64_t c)
{
    return a ? a : b ? b : c;
}

static void fill(struct live *l, const struct session_wish *wish)
{
    const struct template_spec *spec = catalog_spec(l->kind);
    const struct plane_order *o = &l->plane->order;
    size_t len;
    l->idle_ms = first_of(wish->idle_ms, spec->idle_ms, o->idle_ms);
    l->expires_ns = live_expiry(l, first_of(wish->ttl_ms, spec->ttl_ms, o->ttl_ms));
    l->env = vault_env(l->vault, plane_network_env(l->plane, &l->network, plane_env(&wish->env)));
    l->metadata = plane_dump(plane_map(&wish->metadata), &len);
    l->facts = make_facts(l->kind, wish, &l->network, l->idle_ms);
    if (l->vault)
        json_object_set_new(l->facts, "secrets", vault_wishes_json(&wish->secrets));
}

static int check_name(struct plane *p, const struct plane_caller *who, const char *name,
                      struct error *err)
{
    scoped_free char *key = name ? live_name_key(who->owner, name) : NULL;
    if (!key || !map_find(&p->names, key))
        return 0;
    error_set(err, ERROR_CONFLICT, "a session named '%.64s' lives already", name);
    error_word(err, "session_exists");
    return error_hint(err, "use it, or choose another name");
}

static int make_id(char out[ID_BYTES], const char *wanted, struct error *err)
{
    if (!wanted)
        return id_make(ID_SESSION, out, err);
    snprintf(out, ID_BYTES, "%s", wanted);
    return 0;
}

void plane_create(struct plane *p, const struct plane_caller *who, const char *wanted,
                  const struct session_wish *wish, plane_fn fn, void *ctx)
{
    /* The store decides, by what it really takes; but whoever has no place left is not to use up
     * parked sandboxes by asking. */
    static const struct spawn_limits least;
    struct error err;
    char id[ID_BYTES];
    struct catalog_kind *kind = find_kind(p, wish->template, wish->language, &err);
    if (!kind || check_name(p, who, wish->name, &err) < 0 ||
        plane_check_quota(p, who, &least, &err) < 0 || make_id(id, wanted, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct live *l = live_new(p, id, who->owner, wish->name);
    const struct catalog_extra extra = {.over = &wish->resources,
                                        .requirements = &wish->requirements};
    if (plane_choose_network(p, wish->has_network ? &wish->network : NULL, kind, &l->network,
                             &err) < 0 ||
        plane_make_vault(p, &wish->secrets, &l->network, &wish->env, &l->vault, &err) < 0 ||
        catalog_take(kind, &extra, &l->session, &l->kind, &l->is_pooled, &live_events, l, &err) <
            0) {
        live_forget(l);
        plane_fail(fn, ctx, &err);
        return;
    }
    l->creating = (struct plane_waiter){.fn = fn, .ctx = ctx};
    fill(l, wish);
    if (session_info(l->session)->state == SESSION_READY)
        on_ready(l);
}

void plane_fork(struct plane *p, const struct plane_caller *who, const char *wanted,
                const char *word, const char *name, plane_fn fn, void *ctx)
{
    struct error err;
    char id[ID_BYTES];
    struct live *parent = live_find_usable(p, who, word, &err);
    const struct plane_caller owner = {.owner = parent ? parent->owner : ""};
    if (!parent || check_name(p, &owner, name, &err) < 0 || make_id(id, wanted, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    struct live *l = live_new(p, id, parent->owner, name);
    if (catalog_hold(parent->kind, NULL, &l->kind, &err) < 0 ||
        session_fork(parent->session, &l->session, &live_events, l, &err) < 0) {
        live_forget(l);
        plane_fail(fn, ctx, &err);
        return;
    }
    size_t count = 0;
    while (parent->env && parent->env[count])
        count++;
    l->env = xcalloc(count + 1, sizeof(*l->env));
    for (size_t i = 0; i < count; i++)
        l->env[i] = xstrdup(parent->env[i]);
    network_copy(&l->network, &parent->network);
    l->vault = vault_copy(parent->vault); /* its memory has the same placeholders */
    l->facts = json_deep_copy(parent->facts);
    json_object_set_new(json_object_get(l->facts, "resources"), "forks", json_integer(0));
    l->metadata = xstrdup(parent->metadata);
    l->idle_ms = parent->idle_ms;
    l->expires_ns = parent->expires_ns;
    l->creating = (struct plane_waiter){.fn = fn, .ctx = ctx};
}
