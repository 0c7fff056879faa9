/* plane_session.c - sessions that live here: made, written down, found, and ended
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
#include "core/tail.h"

#define NS_PER_MS 1000000ll

#define LIVE_STATES                                                                                \
    (STORE_BIT(STORE_SESSION_CREATING) | STORE_BIT(STORE_SESSION_READY) |                          \
     STORE_BIT(STORE_SESSION_BUSY))

/* --- documents -------------------------------------------------------------------------------- */

/* What is told of a session, wherever it is known from. */
struct session_view {
    const char *id, *name;
    enum store_session_state state;
    json_t *facts;    /* borrowed */
    json_t *metadata; /* borrowed */
    int64_t created_ns, used_ns, expires_ns, ended_ns;
    const char *problem; /* NULL: none */
};

static json_t *view_json(const struct session_view *v)
{
    json_t *o = json_object(), *value;
    const char *key;
    json_object_set_new(o, "id", json_string(v->id));
    json_object_set_new(o, "name", json_text_or_null(v->name));
    json_object_set_new(o, "state", json_string(store_session_names[v->state]));
    json_object_foreach(v->facts, key, value)
    {
        json_object_set(o, key, value);
    }
    json_object_set(o, "metadata", v->metadata);
    json_object_set_new(o, "created_at", plane_time(v->created_ns));
    json_object_set_new(o, "last_used_at", plane_time(v->used_ns));
    json_object_set_new(o, "expires_at", plane_time(v->expires_ns));
    json_object_set_new(o, "ended_at", plane_time(v->ended_ns));
    json_object_set_new(o, "problem", json_text_or_null(v->problem));
    return o;
}

static json_t *parse(const char *text)
{
    struct error err;
    json_t *value;
    size_t len = text ? strlen(text) : 0;
    const struct json_limits limits = {.max_bytes = len};
    return len > 0 && json_parse(&value, text, len, &limits, &err) == 0 ? value : json_object();
}

static json_t *stored_json(const struct store_session *s)
{
    scoped_json json_t *facts = parse(s->doc), *metadata = parse(s->metadata);
    scoped_json json_t *problem = json_incref(json_object_get(facts, "problem"));
    json_object_del(facts, "problem");
    return view_json(&(struct session_view){
        .id = s->id,
        .name = s->name,
        .state = s->state,
        .facts = facts,
        .metadata = metadata,
        .created_ns = s->created_ns,
        .used_ns = s->last_used_ns,
        .expires_ns = s->expires_ns,
        .ended_ns = s->ended_ns,
        .problem = json_string_value(problem),
    });
}

static const enum store_session_state states[] = {
    [SESSION_CREATING] = STORE_SESSION_CREATING,
    [SESSION_READY] = STORE_SESSION_READY,
    [SESSION_BUSY] = STORE_SESSION_BUSY,
    [SESSION_FAILED] = STORE_SESSION_FAILED,
    [SESSION_TERMINATING] = STORE_SESSION_TERMINATING,
    [SESSION_TERMINATED] = STORE_SESSION_TERMINATED,
};

enum store_session_state live_state(const struct live *l)
{
    if (l->is_over)
        return STORE_SESSION_TERMINATED;
    if (l->is_ending)
        return STORE_SESSION_TERMINATING;
    enum store_session_state state = states[session_info(l->session)->state];
    bool waits = state == STORE_SESSION_READY && (l->running || l->first);
    /* One that somebody knows was created: it is being taken over, or reset. */
    bool returns = state == STORE_SESSION_CREATING && l->is_known;
    return waits || returns ? STORE_SESSION_BUSY : state;
}

static json_t *live_json(const struct live *l)
{
    scoped_json json_t *metadata = parse(l->metadata);
    return view_json(&(struct session_view){
        .id = l->id,
        .name = l->name,
        .state = live_state(l),
        .facts = l->facts,
        .metadata = metadata,
        .created_ns = l->created_ns,
        .used_ns = l->last_used_ns,
        .expires_ns = l->expires_ns,
        .ended_ns = l->ended_ns,
        .problem = l->problem,
    });
}

static void tell(const struct live *l, plane_fn fn, void *ctx)
{
    size_t len;
    scoped_free char *text = plane_dump(live_json(l), &len);
    fn(ctx, text, len, NULL);
}

static void tell_all(const struct live *l, struct plane_waiter *waiters)
{
    size_t len;
    scoped_free char *text = plane_dump(live_json(l), &len);
    plane_answer(waiters, text, len, NULL);
}

/* --- finding ---------------------------------------------------------------------------------- */

static char *name_key(const char *owner, const char *name)
{
    return xasprintf("%s\n%s", owner, name);
}

struct live *live_find(struct plane *p, const struct plane_caller *who, const char *word)
{
    scoped_free char *key = name_key(who->owner, word);
    struct map_node *node = map_find(&p->sessions, word);
    struct live *l = node ? MAP_OF(node, struct live, by_id) : NULL;
    if (!l && (node = map_find(&p->names, key)))
        l = MAP_OF(node, struct live, by_name);
    if (!l || !l->is_known || (!who->sees_all && strcmp(l->owner, who->owner) != 0))
        return NULL;
    return l;
}

static int not_found(struct error *err, const char *word)
{
    error_set(err, ERROR_NOT_FOUND, "no session '%.64s'", word);
    return error_word(err, "session_not_found");
}

/* A live one that is not about to end, for those who want something of it. */
static struct live *find_usable(struct plane *p, const struct plane_caller *who, const char *word,
                                struct error *err)
{
    struct live *l = live_find(p, who, word);
    if (!l) {
        not_found(err, word);
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
    struct live *l = find_usable(p, who, word, err);
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
        l->name_key = name_key(owner, name);
        map_add(&p->names, &l->by_name, l->name_key);
    }
    return l;
}

void live_forget(struct live *l)
{
    if (l->running)
        l->running->live = NULL;
    map_remove(&l->plane->sessions, &l->by_id);
    if (l->name_key)
        map_remove(&l->plane->names, &l->by_name);
    session_free(l->session);
    if (l->kind)
        catalog_let_go(l->kind);
    for (char **e = l->env; e && *e; e++)
        free(*e);
    free(l->env);
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
static void write_state(struct live *l, enum store_session_state to)
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
        write_state(l, l->is_failed ? STORE_SESSION_FAILED : STORE_SESSION_READY);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void on_end_written(void *ctx, const struct store_answer *answer)
{
    struct live *l = ctx;
    l->is_writing = false;
    if (answer->err && answer->err->code == ERROR_UNAVAILABLE) { /* the sweep tries again */
        plane_answer(take_ptr(&l->ending), NULL, 0, answer->err);
        return;
    }
    l->is_over = true;
    tell_all(l, take_ptr(&l->ending));
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
        tell(l, w.fn, w.ctx);
    if (!l->session)
        live_ended(l); /* it ended meanwhile */
}

static void write_new(struct live *l)
{
    struct session_record record;
    uint8_t label[SPAWN_LABEL_BYTES];
    size_t len;
    const struct spawn_limits *limits = catalog_limits(l->kind);
    plane_label(l->id, label);
    session_keep(l->session, label);
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

static void on_ready(struct live *l)
{
    if (!l->is_known) {
        if (!l->is_writing)
            on_created(l);
        return;
    }
    bool was_failed = l->is_failed;
    l->is_failed = false;
    if (was_failed || l->resetting)
        write_state(l, STORE_SESSION_READY);
    free(take_ptr(&l->problem));
    tell_all(l, take_ptr(&l->resetting));
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
    write_state(l, STORE_SESSION_FAILED);
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
                          uint64_t idle_ms)
{
    const struct spawn_limits *limits = catalog_limits(kind);
    const struct template_spec *spec = catalog_spec(kind);
    return json_pack("{s:s, s:s, s:{s:o, s:f, s:o, s:o, s:o}, s:{s:s}, s:o, s:o, s:n}", "template",
                     spec->name, "language", spec->language, "resources", "memory_bytes",
                     json_number(limits->memory_bytes), "cpus", (double)limits->cpu_milli / 1000,
                     "pids", json_number(limits->pids), "disk_bytes",
                     json_number(limits->disk_bytes), "forks",
                     json_number(catalog_template(kind)->forks), "network", "policy", "none", "env",
                     plane_map(&wish->env), "idle_timeout", seconds(idle_ms), "timings");
}

static uint64_t first_of(uint64_t a, uint64_t b, uint64_t c)
{
    return a ? a : b ? b : c;
}

/* How long it may live: no longer than the spawner lets it. */
static int64_t expiry(const struct live *l, uint64_t ttl_ms)
{
    uint64_t most = catalog_limits(l->kind)->lifetime_ms;
    uint64_t ms = ttl_ms && most ? MIN(ttl_ms, most) : MAX(ttl_ms, most);
    return ms ? clock_wall_ns() + (int64_t)ms * NS_PER_MS : 0;
}

static void fill(struct live *l, const struct session_wish *wish)
{
    const struct template_spec *spec = catalog_spec(l->kind);
    const struct plane_order *o = &l->plane->order;
    size_t len;
    l->idle_ms = first_of(wish->idle_ms, spec->idle_ms, o->idle_ms);
    l->expires_ns = expiry(l, first_of(wish->ttl_ms, spec->ttl_ms, o->ttl_ms));
    l->env = plane_env(&wish->env);
    l->metadata = plane_dump(plane_map(&wish->metadata), &len);
    l->facts = make_facts(l->kind, wish, l->idle_ms);
}

static int check_name(struct plane *p, const struct plane_caller *who, const char *name,
                      struct error *err)
{
    scoped_free char *key = name ? name_key(who->owner, name) : NULL;
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
    if (catalog_take(kind, &wish->resources, &l->session, &l->kind, &l->is_pooled, &live_events, l,
                     &err) < 0) {
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
    struct live *parent = find_usable(p, who, word, &err);
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
    l->facts = json_deep_copy(parent->facts);
    json_object_set_new(json_object_get(l->facts, "resources"), "forks", json_integer(0));
    l->metadata = xstrdup(parent->metadata);
    l->idle_ms = parent->idle_ms;
    l->expires_ns = parent->expires_ns;
    l->creating = (struct plane_waiter){.fn = fn, .ctx = ctx};
}

/* --- reading ---------------------------------------------------------------------------------- */

struct asking {
    struct plane *plane;
    plane_fn fn;
    void *ctx;
    char *word;
    int state; /* of a list: only these; -1: all */
};

static struct asking *asking_new(struct plane *p, const char *word, plane_fn fn, void *ctx)
{
    struct asking *a = xcalloc(1, sizeof(*a));
    *a = (struct asking){.plane = p, .fn = fn, .ctx = ctx, .word = xstrdup(word), .state = -1};
    return a;
}

static void asking_free(struct asking *a)
{
    free(a->word);
    free(a);
}

static void on_got(void *ctx, const struct store_answer *answer)
{
    struct asking *a = ctx;
    struct error err;
    if (!answer->err) {
        size_t len;
        scoped_free char *text = plane_dump(stored_json(&answer->sessions[0]), &len);
        a->fn(a->ctx, text, len, NULL);
    } else if (answer->err->code == ERROR_NOT_FOUND) {
        not_found(&err, a->word);
        plane_fail(a->fn, a->ctx, &err);
    } else {
        plane_fail(a->fn, a->ctx, answer->err);
    }
    asking_free(a);
}

static void get_stored(struct plane *p, const struct plane_caller *who, const char *word,
                       plane_fn fn, void *ctx)
{
    struct error err;
    if (!id_is_valid(ID_SESSION, word)) { /* names are those of live ones */
        not_found(&err, word);
        plane_fail(fn, ctx, &err);
        return;
    }
    const struct store_name name = {.id = word, .owner = who->sees_all ? NULL : who->owner};
    store_get_session(p->order.store, &name, on_got, asking_new(p, word, fn, ctx));
}

void plane_get(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
               void *ctx)
{
    const struct live *l = live_find(p, who, word);
    if (l)
        tell(l, fn, ctx);
    else
        get_stored(p, who, word, fn, ctx);
}

static json_t *list_item(struct plane *p, const struct store_session *s)
{
    struct map_node *node = map_find(&p->sessions, s->id);
    const struct live *l = node ? MAP_OF(node, struct live, by_id) : NULL;
    return l && l->is_known ? live_json(l) : stored_json(s);
}

static void on_listed(void *ctx, const struct store_answer *answer)
{
    struct asking *a = ctx;
    if (answer->err) {
        plane_fail(a->fn, a->ctx, answer->err);
        asking_free(a);
        return;
    }
    json_t *list = json_array();
    const char *wanted = a->state >= 0 ? store_session_names[a->state] : NULL;
    for (size_t i = 0; i < answer->count; i++) {
        json_t *item = list_item(a->plane, &answer->sessions[i]);
        const char *state = json_string_value(json_object_get(item, "state"));
        if (!wanted || strcmp(state, wanted) == 0)
            json_array_append(list, item);
        json_decref(item);
    }
    size_t len;
    scoped_free char *text = plane_dump(json_pack("{s:o, s:o}", "sessions", list, "next_cursor",
                                                  json_text_or_null(answer->next_cursor)),
                                        &len);
    a->fn(a->ctx, text, len, NULL);
    asking_free(a);
}

void plane_list(struct plane *p, const struct plane_caller *who, const struct plane_filter *wanted,
                plane_fn fn, void *ctx)
{
    struct error err;
    struct store_filter filter = {
        .owner = who->sees_all ? NULL : who->owner,
        .is_live = wanted->is_live,
        .cursor = wanted->cursor,
        .limit = (uint64_t)wanted->limit,
    };
    struct asking *a = asking_new(p, "", fn, ctx);
    if (wanted->has_state) { /* the states of those that live are known here only */
        unsigned bit = STORE_BIT(wanted->state);
        a->state = wanted->state;
        filter.states = bit & LIVE_STATES ? LIVE_STATES : bit;
        if (wanted->state == STORE_SESSION_TERMINATING)
            filter.states = LIVE_STATES | STORE_BIT(STORE_SESSION_FAILED) | bit;
    }
    const struct catalog_kind *kind =
        wanted->template ? catalog_find(p->order.catalog, wanted->template, &err) : NULL;
    if (wanted->template)
        filter.template_id = kind ? catalog_id(kind) : wanted->template;
    scoped_free char *key = wanted->metadata ? xstrdup(wanted->metadata) : NULL;
    char *equals = key ? strchr(key, '=') : NULL;
    if (key && !equals) {
        error_set(&err, ERROR_INVALID, "metadata: '%.64s' is not key=value", key);
        asking_free(a);
        plane_fail(fn, ctx, &err);
        return;
    }
    if (key) {
        *equals = '\0';
        filter.meta_key = key;
        filter.meta_value = equals + 1;
    }
    store_list_sessions(p->order.store, &filter, on_listed, a);
}

/* --- changing --------------------------------------------------------------------------------- */

void plane_end(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
               void *ctx)
{
    struct live *l = live_find(p, who, word);
    if (!l) {
        get_stored(p, who, word, fn, ctx);
        return;
    }
    plane_wait(&l->ending, fn, ctx);
    live_end(l, NULL);
}

void plane_reset(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
                 void *ctx)
{
    struct error err;
    struct live *l = find_usable(p, who, word, &err);
    if (!l || session_reset(l->session, &err) < 0) {
        plane_fail(fn, ctx, &err);
        return;
    }
    plane_wait(&l->resetting, fn, ctx);
}

void plane_interrupt(struct plane *p, const struct plane_caller *who, const char *word, plane_fn fn,
                     void *ctx)
{
    struct error err;
    struct live *l = find_usable(p, who, word, &err);
    if (!l) {
        plane_fail(fn, ctx, &err);
        return;
    }
    session_interrupt(l->session);
    tell(l, fn, ctx);
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
        not_found(&err, e->id);
        plane_fail(e->fn, e->ctx, &err);
    } else {
        tell(MAP_OF(node, struct live, by_id), e->fn, e->ctx);
    }
    free(e->id);
}

void plane_extend(struct plane *p, const struct plane_caller *who, const char *word,
                  uint64_t ttl_ms, plane_fn fn, void *ctx)
{
    struct error err;
    struct live *l = find_usable(p, who, word, &err);
    if (!l) {
        plane_fail(fn, ctx, &err);
        return;
    }
    l->expires_ns = expiry(l, ttl_ms);
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
    if (l->session && session_info(l->session)->terminal_count > 0) {
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
