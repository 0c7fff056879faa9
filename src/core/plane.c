/* plane.c - the registry of what lives here, and what all of its files need */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/plane_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"

#define DOCUMENT_MAX (256 * MIB)

/* --- answers ---------------------------------------------------------------------------------- */

void plane_fail(plane_fn fn, void *ctx, const struct error *err)
{
    fn(ctx, NULL, 0, err);
}

void plane_wait(struct plane_waiter **list, plane_fn fn, void *ctx)
{
    struct plane_waiter *w = xcalloc(1, sizeof(*w));
    *w = (struct plane_waiter){.next = *list, .fn = fn, .ctx = ctx};
    *list = w;
}

void plane_answer(struct plane_waiter *waiters, const char *text, size_t len,
                  const struct error *err)
{
    while (waiters) {
        scoped_free struct plane_waiter *w = waiters;
        waiters = w->next;
        w->fn(w->ctx, text, len, err);
    }
}

char *plane_dump(json_t *document, size_t *len)
{
    struct strbuf text;
    strbuf_init(&text, DOCUMENT_MAX);
    json_add(&text, document, JSON_STYLE_COMPACT);
    json_decref(document);
    *len = text.len;
    return strbuf_take(&text);
}

json_t *plane_kept(const char *text)
{
    json_t *value = text ? json_parse_own(text, strlen(text)) : NULL;
    return value ? value : json_object();
}

json_t *plane_time(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    if (wall_ns == 0)
        return json_null();
    clock_format(wall_ns, text);
    return json_string(text);
}

json_t *plane_map(const struct param_map *map)
{
    json_t *object = json_object();
    for (size_t i = 0; i < map->count; i++)
        json_object_set_new(object, map->names[i], json_string(map->values[i]));
    return object;
}

/* --- its life --------------------------------------------------------------------------------- */

int plane_open(struct plane **out, const struct plane_order *order, struct error *err)
{
    (void)err;
    struct plane *p = xcalloc(1, sizeof(*p));
    p->order = *order;
    p->is_recovering = true;
    if (order->archive)
        archive_set_source(order->archive, &plane_source, p);
    *out = p;
    return 0;
}

void plane_flush(struct plane *p)
{
    MAP_EACH(&p->sessions, node)
    {
        struct live *l = MAP_OF(node, struct live, by_id);
        if (l->is_dirty)
            live_write(l);
    }
}

void plane_free(struct plane *p)
{
    if (!p)
        return;
    loop_timer_free(p->sweep);
    MAP_EACH(&p->jobs, node)
    {
        job_free(MAP_OF(node, struct job, by_id));
    }
    MAP_EACH(&p->sessions, node)
    {
        live_forget(MAP_OF(node, struct live, by_id));
    }
    map_release(&p->jobs);
    map_release(&p->sessions);
    map_release(&p->names);
    recovery_free(p->recovery);
    pipes_release(&p->pipes);
    free(p);
}

void plane_on_event(struct plane *p, const struct spawn_message *m)
{
    MAP_EACH(&p->sessions, node)
    {
        struct live *l = MAP_OF(node, struct live, by_id);
        if (l->session) /* which has sandboxes for its forks, too */
            session_on_event(l->session, m);
    }
    MAP_EACH(&p->jobs, job_node)
    {
        struct job *j = MAP_OF(job_node, struct job, by_id);
        if (j->session && (!m || session_sandbox(j->session) == m->sandbox))
            session_on_event(j->session, m);
    }
    catalog_on_event(p->order.catalog, m);
}

void plane_watch(struct plane *p, const struct plane_events *events, void *ctx)
{
    p->events = events;
    p->events_ctx = ctx;
}

void plane_get_info(const struct plane *p, struct plane_info *out)
{
    *out = (struct plane_info){
        .running = p->running, .queued = p->queued, .is_recovering = p->is_recovering};
    MAP_EACH(&p->sessions, node)
    {
        out->sessions[live_state(MAP_OF(node, struct live, by_id))]++;
    }
}

static void view_of(const struct live *l, struct plane_session_view *out)
{
    *out = (struct plane_session_view){
        .id = l->id,
        .owner = l->owner,
        .template_name = catalog_spec(l->kind)->name,
        .language = catalog_spec(l->kind)->language,
        .state = live_state(l),
        .info = session_info(l->session),
        .sandbox = session_sandbox(l->session),
        .limits = catalog_limits(l->kind),
        .tail = l->tail,
    };
}

bool plane_view(const struct plane *p, const char *after, struct plane_session_view *out)
{
    const struct map_node *node = after ? map_find(&p->sessions, after) : NULL;
    if (after && !node)
        return false;
    while ((node = map_next(&p->sessions, node))) {
        const struct live *l = MAP_OF(node, struct live, by_id);
        if (!l->session)
            continue;
        view_of(l, out);
        return true;
    }
    return false;
}

bool plane_find_view(const struct plane *p, const char *id, struct plane_session_view *out)
{
    const struct map_node *node = map_find(&p->sessions, id);
    const struct live *l = node ? MAP_OF(node, struct live, by_id) : NULL;
    if (!l || !l->session)
        return false;
    view_of(l, out);
    return true;
}
