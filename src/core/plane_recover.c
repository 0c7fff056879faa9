/* plane_recover.c - going on with what an earlier process on this node has left
 *
 * The spawner says which sandboxes there are, the store which sessions and executions there should
 * be. What both know goes on; what only the store knows is lost, and written down as that; what
 * only the spawner knows belongs to nobody and is removed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "core/plane_inside.h"
#include "runtime/keeper.h"

#define SWEEP_MS 500

struct sandbox {
    uint64_t id;
    uint8_t label[SPAWN_LABEL_BYTES];
    bool is_claimed;
};

struct recovery {
    struct plane *plane;
    void (*done)(void *ctx, const struct error *err);
    void *ctx;
    struct sandbox *sandboxes;
    size_t count;
    size_t attached, lost;
};

void recovery_free(struct recovery *r)
{
    if (!r)
        return;
    free(r->sandboxes);
    free(r);
}

static void on_sweep(void *ctx)
{
    struct plane *p = ctx;
    int64_t now = clock_now_ns(), wall = clock_wall_ns();
    MAP_EACH(&p->sessions, node)
    {
        live_sweep(MAP_OF(node, struct live, by_id), now, wall);
    }
    loop_timer_free(p->sweep);
    p->sweep = loop_timer_new(p->order.loop, SWEEP_MS, on_sweep, p);
}

static void finish(struct recovery *r, const struct error *err)
{
    struct plane *p = r->plane;
    void (*done)(void *ctx, const struct error *err) = r->done;
    void *ctx = r->ctx;
    if (!err)
        log_info(p->order.log, "took over what was left", LOG_U64("sessions", r->attached),
                 LOG_U64("lost", r->lost));
    p->recovery = NULL;
    recovery_free(r);
    p->is_recovering = err != NULL;
    if (!err)
        on_sweep(p);
    done(ctx, err);
}

/* --- sandboxes of nobody ---------------------------------------------------------------------- */

static void remove_rest(struct recovery *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct spawn_message m = {.verb = SPAWN_DESTROY, .sandbox = r->sandboxes[i].id};
        if (!r->sandboxes[i].is_claimed)
            spawner_client_ask(r->plane->order.spawner, &m, NULL, NULL);
    }
}

static struct sandbox *claim(struct recovery *r, uint64_t id, const char *session)
{
    uint8_t label[SPAWN_LABEL_BYTES];
    plane_label(session, label);
    for (size_t i = 0; i < r->count; i++) {
        struct sandbox *s = &r->sandboxes[i];
        if (s->id == id && memcmp(s->label, label, sizeof(label)) == 0)
            return s;
    }
    return NULL;
}

/* --- executions ------------------------------------------------------------------------------- */

/* Those of a session that is gone, or that nothing is known of any more. */
static void settle_rest(struct recovery *r)
{
    MAP_EACH(&r->plane->jobs, node)
    {
        struct job *j = MAP_OF(node, struct job, by_id);
        if (j->live || j->document)
            continue;
        r->lost++;
        job_lose(j, "the server ended while it ran, and its sandbox with it");
    }
}

static struct job *find_running(const struct plane *p, const char *session)
{
    MAP_EACH(&p->jobs, node)
    {
        struct job *j = MAP_OF(node, struct job, by_id);
        if (j->state == EXECUTION_RUNNING && j->session_id && strcmp(j->session_id, session) == 0)
            return j;
    }
    return NULL;
}

static int by_age(const void *a, const void *b)
{
    const struct job *const *x = a, *const *y = b;
    return ((*x)->created_ns > (*y)->created_ns) - ((*x)->created_ns < (*y)->created_ns);
}

/* What waited waits again, in its order. */
static void queue_again(const struct plane *p, struct live *l)
{
    struct job **list = xcalloc(p->jobs.count + 1, sizeof(*list));
    size_t count = 0;
    MAP_EACH(&p->jobs, node)
    {
        struct job *j = MAP_OF(node, struct job, by_id);
        if (j->state == EXECUTION_QUEUED && !j->live && j->session_id &&
            strcmp(j->session_id, l->id) == 0)
            list[count++] = j;
    }
    qsort(list, count, sizeof(*list), by_age);
    for (size_t i = 0; i < count; i++)
        job_queue(list[i], l);
    free(list);
}

/* --- sessions --------------------------------------------------------------------------------- */

static json_t *parse(const char *text)
{
    struct error err;
    json_t *value;
    size_t len = text ? strlen(text) : 0;
    const struct json_limits limits = {.max_bytes = len};
    return len > 0 && json_parse(&value, text, len, &limits, &err) == 0 ? value : json_object();
}

static char **env_of(const json_t *facts)
{
    json_t *object = json_object_get(facts, "env"), *value;
    const char *key;
    char **list = xcalloc(json_object_size(object) + 1, sizeof(*list));
    size_t count = 0;
    json_object_foreach(object, key, value)
    {
        list[count++] = xasprintf("%s=%s", key, json_string_value(value));
    }
    return list;
}

/* What it was allowed, as its document says. */
static struct resource_spec resources_of(const json_t *facts)
{
    const json_t *o = json_object_get(facts, "resources");
    return (struct resource_spec){
        .memory_bytes = (uint64_t)json_integer_value(json_object_get(o, "memory_bytes")),
        .disk_bytes = (uint64_t)json_integer_value(json_object_get(o, "disk_bytes")),
        .cpus = json_number_value(json_object_get(o, "cpus")),
        .pids = json_integer_value(json_object_get(o, "pids")),
    };
}

static void ignore(void *ctx, const struct store_answer *answer)
{
    (void)ctx, (void)answer;
}

/* What is written from now on is written by this process. */
static void take_lease(struct plane *p, const struct store_session *row)
{
    const struct store_session_change change = {
        .id = row->id, .to = row->state, .new_node = p->order.node, .new_epoch = p->order.epoch};
    store_change_session(p->order.store, &change, ignore, NULL);
}

static struct live *revive(struct plane *p, const struct store_session *row)
{
    struct live *l = live_new(p, row->id, row->owner, row->name);
    take_lease(p, row);
    l->facts = parse(row->doc);
    l->env = env_of(l->facts);
    l->metadata = xstrdup(row->metadata ? row->metadata : "{}");
    l->created_ns = row->created_ns;
    l->last_used_ns = row->last_used_ns;
    l->expires_ns = row->expires_ns;
    l->idle_ms = (uint64_t)(json_number_value(json_object_get(l->facts, "idle_timeout")) * 1000);
    l->is_known = true;
    return l;
}

static int attach(struct recovery *r, struct live *l, const struct store_session *row,
                  struct error *err)
{
    struct plane *p = r->plane;
    struct session_record record;
    struct session_resumption resumption = {.events = &job_events};
    if (row->resume.len != sizeof(record))
        return error_set(err, ERROR_UNAVAILABLE, "its record is of another version");
    memcpy(&record, row->resume.data, sizeof(record));
    struct sandbox *s = claim(r, record.sandbox, row->id);
    if (!s)
        return error_set(err, ERROR_UNAVAILABLE, "its sandbox is gone");
    const struct resource_spec resources = resources_of(l->facts);
    if (catalog_revive(p->order.catalog, row->template_id, row->language ? row->language : "",
                       &resources, &l->kind, err) < 0)
        return -1;
    struct job *j = find_running(p, row->id);
    record.has_execution = record.has_execution && j && strcmp(j->id, record.execution.id) == 0;
    if (record.has_execution) {
        /* A journal begins anew, whatever its readers were told before. */
        memset(record.execution.told, 0, sizeof(record.execution.told));
        record.execution.told_results = 0;
        resumption.request = job_attach(j, l);
        resumption.ctx = j;
    }
    if (session_attach(&l->session, p->order.loop, p->order.spawner, catalog_template(l->kind),
                       &record, &resumption, &live_events, l, err) < 0)
        return -1;
    s->is_claimed = true;
    l->is_failed = row->state == STORE_SESSION_FAILED;
    queue_again(p, l);
    return 0;
}

static void take_over(struct recovery *r, const struct store_session *row)
{
    struct error err;
    struct live *l = revive(r->plane, row);
    if (attach(r, l, row, &err) == 0) {
        r->attached++;
        l->is_dirty = true;
        return;
    }
    r->lost++;
    if (l->running) { /* attached to nothing */
        struct job *j = l->running;
        l->running = NULL;
        r->plane->running--;
        j->live = NULL;
    }
    l->problem = xasprintf("lost when the server ended: %.200s", err.msg);
    live_ended(l);
}

/* --- reading the store ------------------------------------------------------------------------ */

static void list_sessions(struct recovery *r, const char *cursor);
static void list_executions(struct recovery *r, const char *cursor);

static void on_sessions(void *ctx, const struct store_answer *answer)
{
    struct recovery *r = ctx;
    if (answer->err) {
        finish(r, answer->err);
        return;
    }
    for (size_t i = 0; i < answer->count; i++)
        take_over(r, &answer->sessions[i]);
    if (answer->next_cursor) {
        list_sessions(r, answer->next_cursor);
        return;
    }
    settle_rest(r);
    remove_rest(r);
    finish(r, NULL);
}

static void list_sessions(struct recovery *r, const char *cursor)
{
    const struct store_filter filter = {
        .node = r->plane->order.node, .is_live = true, .cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_sessions(r->plane->order.store, &filter, on_sessions, r);
}

/* A list leaves out what was asked, which those that wait need: each of them is read. */
struct reading {
    struct recovery *recovery;
    size_t left;
    char *cursor;
};

static void read_on(struct reading *reading)
{
    struct recovery *r = reading->recovery;
    if (--reading->left > 0)
        return;
    if (reading->cursor)
        list_executions(r, reading->cursor);
    else
        list_sessions(r, NULL);
    free(reading->cursor);
    free(reading);
}

static void on_execution(void *ctx, const struct store_answer *answer)
{
    struct reading *reading = ctx;
    if (!answer->err)
        job_of_record(reading->recovery->plane, &answer->executions[0]);
    read_on(reading);
}

static void on_executions(void *ctx, const struct store_answer *answer)
{
    struct recovery *r = ctx;
    if (answer->err) {
        finish(r, answer->err);
        return;
    }
    struct reading *reading = xcalloc(1, sizeof(*reading));
    *reading = (struct reading){.recovery = r, .left = 1};
    if (answer->next_cursor)
        reading->cursor = xstrdup(answer->next_cursor);
    for (size_t i = 0; i < answer->count; i++) {
        if (answer->executions[i].state == STORE_EXECUTION_QUEUED) {
            reading->left++;
            store_get_execution(r->plane->order.store,
                                &(struct store_name){.id = answer->executions[i].id}, on_execution,
                                reading);
        } else {
            job_of_record(r->plane, &answer->executions[i]);
        }
    }
    read_on(reading);
}

static void list_executions(struct recovery *r, const char *cursor)
{
    const struct store_filter filter = {
        .node = r->plane->order.node, .is_live = true, .cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_executions(r->plane->order.store, &filter, on_executions, r);
}

static void on_entry(void *ctx, uint64_t id, const struct spawn_entry *entry,
                     const struct error *err)
{
    struct recovery *r = ctx;
    if (entry) {
        r->sandboxes = xrealloc(r->sandboxes, (r->count + 1) * sizeof(*r->sandboxes));
        r->sandboxes[r->count] = (struct sandbox){.id = id};
        memcpy(r->sandboxes[r->count++].label, entry->label, SPAWN_LABEL_BYTES);
        return;
    }
    if (err)
        finish(r, err);
    else
        list_executions(r, NULL);
}

void plane_recover(struct plane *p, void (*done)(void *ctx, const struct error *err), void *ctx)
{
    struct recovery *r = xcalloc(1, sizeof(*r));
    *r = (struct recovery){.plane = p, .done = done, .ctx = ctx};
    p->recovery = r;
    keeper_list(p->order.spawner, on_entry, r);
}
