/* plane_view.c - what is told of sessions, those that live here and those of the store */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/plane_inside.h"

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
    json_object_set_new(o, "requirements", json_array()); /* of what earlier versions wrote */
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

static json_t *stored_json(const struct store_session *s)
{
    scoped_json json_t *facts = plane_kept(s->doc), *metadata = plane_kept(s->metadata);
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
    scoped_json json_t *metadata = plane_kept(l->metadata);
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

void live_tell(const struct live *l, plane_fn fn, void *ctx)
{
    size_t len;
    scoped_free char *text = plane_dump(live_json(l), &len);
    fn(ctx, text, len, NULL);
}

void live_tell_all(const struct live *l, struct plane_waiter *waiters)
{
    size_t len;
    if (!waiters) /* as at the end of each execution */
        return;
    scoped_free char *text = plane_dump(live_json(l), &len);
    plane_answer(waiters, text, len, NULL);
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
        live_not_found(&err, a->word);
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
        live_not_found(&err, word);
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
        live_tell(l, fn, ctx);
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
