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
#define AGAIN_MS 500 /* until a lease is tried again that could not be written */

struct sandbox {
    uint64_t id;
    uint8_t label[SPAWN_LABEL_BYTES];
    struct cell_record note; /* of what was about to begin in it last */
    bool has_vault;
    struct vault *vault; /* NULL: it has no secrets, or they cannot be read */
    bool is_claimed;
};

/* That a session or an execution belongs to this process, on its way to the store. */
struct lease {
    struct recovery *recovery;
    struct lease *next;
    struct loop_timer *timer; /* until it is written again */
    bool is_execution;
    char id[ID_BYTES];
    int state;
};

struct recovery {
    struct plane *plane;
    void (*done)(void *ctx, const struct error *err);
    void *ctx;
    struct sandbox *sandboxes;
    size_t count;
    size_t attached, lost;
    struct lease *leases; /* that are not written yet */
    bool is_listed;       /* there will be no more of them */
    bool is_leased;       /* all are written */
};

void recovery_free(struct recovery *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        vault_free(r->sandboxes[i].vault);
    while (r->leases) {
        struct lease *lease = r->leases;
        r->leases = lease->next;
        loop_timer_free(lease->timer);
        free(lease);
    }
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

/* --- leases ------------------------------------------------------------------------------------
 */

static void write_lease(void *ctx);
static void list_sessions(struct recovery *r, const char *cursor);

static void go_on_if_leased(struct recovery *r)
{
    if (r->leases || !r->is_listed)
        return;
    r->is_leased = true;
    list_sessions(r, NULL);
}

static void drop_lease(struct lease *lease)
{
    struct lease **at = &lease->recovery->leases;
    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    free(lease);
}

/* Without it nothing could be written of what it is for: the end of code that runs would be told,
 * and forgotten. So nothing begins before it is there, however long the store is locked or full. */
static void on_lease(void *ctx, const struct store_answer *answer)
{
    struct lease *lease = ctx;
    struct recovery *r = lease->recovery;
    if (answer->err && error_passes(answer->err)) {
        lease->timer = loop_timer_new(r->plane->order.loop, AGAIN_MS, write_lease, lease);
        return;
    }
    if (answer->err)
        log_warn(r->plane->order.log, "what was left cannot be taken over",
                 LOG_STR("id", lease->id), LOG_STR("error", answer->err->msg));
    drop_lease(lease);
    go_on_if_leased(r);
}

static void write_lease(void *ctx)
{
    struct lease *lease = ctx;
    const struct plane_order *o = &lease->recovery->plane->order;
    loop_timer_free(take_ptr(&lease->timer));
    if (lease->is_execution) {
        const struct store_execution_change change = {
            .id = lease->id, .to = lease->state, .new_node = o->node, .new_epoch = o->epoch};
        store_change_execution(o->store, &change, on_lease, lease);
    } else {
        const struct store_session_change change = {
            .id = lease->id, .to = lease->state, .new_node = o->node, .new_epoch = o->epoch};
        store_change_session(o->store, &change, on_lease, lease);
    }
}

/* What is written from now on is written by this process. */
static void take_lease(struct recovery *r, bool is_execution, const char *id, int state)
{
    struct lease *lease = xcalloc(1, sizeof(*lease));
    *lease = (struct lease){
        .recovery = r, .next = r->leases, .is_execution = is_execution, .state = state};
    snprintf(lease->id, sizeof(lease->id), "%s", id);
    r->leases = lease;
    write_lease(lease);
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

static struct sandbox *claim(struct recovery *r, const struct session_record *record)
{
    for (size_t i = 0; i < r->count; i++) {
        struct sandbox *s = &r->sandboxes[i];
        if (s->id == record->sandbox && memcmp(s->label, record->label, sizeof(s->label)) == 0)
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

static struct job *find_job(const struct plane *p, const char id[ID_BYTES], const char *session)
{
    scoped_free char *name = xstrndup(id, ID_BYTES);
    struct map_node *node = map_find(&p->jobs, name);
    struct job *j = node ? MAP_OF(node, struct job, by_id) : NULL;
    return j && j->session_id && strcmp(j->session_id, session) == 0 ? j : NULL;
}

/* What has begun, or was about to: the kernel says which. The spawner was told before the code was
 * sent, the session's record is written after it. */
static struct job *find_begun(const struct plane *p, const struct sandbox *s, const char *session,
                              struct session_record *record)
{
    struct job *j = find_job(p, s->note.id, session);
    if (j) {
        record->execution = s->note;
        record->generation = MAX(record->generation, s->note.generation);
    } else if (record->has_execution) {
        j = find_job(p, record->execution.id, session);
    }
    record->has_execution = j != NULL;
    return j;
}

static int by_age(const void *a, const void *b)
{
    const struct job *const *x = a, *const *y = b;
    return ((*x)->created_ns > (*y)->created_ns) - ((*x)->created_ns < (*y)->created_ns);
}

/* What waited waits again, in its order. */
static void queue_again(const struct plane *p, struct live *l)
{
    struct job **list = xcalloc(p->jobs.count + 1, sizeof(struct job *));
    size_t count = 0;
    MAP_EACH(&p->jobs, node)
    {
        struct job *j = MAP_OF(node, struct job, by_id);
        if (j->state == EXECUTION_QUEUED && !j->live && j->session_id &&
            strcmp(j->session_id, l->id) == 0)
            list[count++] = j;
    }
    qsort(list, count, sizeof(struct job *), by_age);
    for (size_t i = 0; i < count; i++)
        job_queue(list[i], l);
    free(list);
}

/* --- sessions --------------------------------------------------------------------------------- */

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

static struct live *revive(struct plane *p, const struct store_session *row)
{
    struct live *l = live_new(p, row->id, row->owner, row->name);
    l->facts = plane_kept(row->doc);
    network_read(&l->network, json_object_get(l->facts, "network"));
    l->env = plane_network_env(p, &l->network, env_of(l->facts));
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
    struct sandbox *s = claim(r, &record);
    if (!s)
        return error_set(err, ERROR_UNAVAILABLE, "its sandbox is gone");
    l->vault = take_ptr(&s->vault);
    l->env = vault_env(l->vault, l->env);
    const struct resource_spec resources = resources_of(l->facts);
    if (catalog_revive(p->order.catalog, row->template_id, row->language ? row->language : "",
                       &resources, &l->kind, err) < 0)
        return -1;
    struct job *j = find_begun(p, s, row->id, &record);
    if (j) {
        /* A journal begins anew, whatever its readers were told before. */
        memset(record.execution.told, 0, sizeof(record.execution.told));
        record.execution.told_results = 0;
        if (record.execution.timeout_ms)
            j->timeout_ms = record.execution.timeout_ms;
        if (record.execution.output_bytes) /* its files are read by this size, whatever is usual */
            j->output_bytes = record.execution.output_bytes;
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

/* What runs in it meanwhile finds the port closed. */
static void on_way_out(void *ctx, const struct error *err)
{
    const struct live *l = ctx;
    if (err)
        log_warn(l->plane->order.log, "a session has no way out any more",
                 LOG_STR("session", l->id), LOG_STR("error", err->msg));
}

static void take_over(struct recovery *r, const struct store_session *row)
{
    struct error err;
    struct live *l = revive(r->plane, row);
    if (attach(r, l, row, &err) == 0) {
        r->attached++;
        l->is_dirty = true;
        const struct plane_way way = {.who = l->id, .network = &l->network, .vault = l->vault};
        (void)plane_go_out(r->plane, l->session, &way, on_way_out, l); /* nobody waits for it */
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

/* The spawner answers in the order of questions: the sockets to all sandboxes are here by now, and
 * who asks for a file of one need not be sent away. */
static void on_all_taken(void *ctx, const struct spawn_message *m, int *fds,
                         const struct error *err)
{
    (void)m, (void)fds, (void)err; /* who has lost the spawner hears of it elsewhere */
    finish(ctx, NULL);
}

/* --- reading the store ------------------------------------------------------------------------ */

static void list_executions(struct recovery *r, const char *cursor);

static void on_sessions(void *ctx, const struct store_answer *answer)
{
    struct recovery *r = ctx;
    if (answer->err) {
        finish(r, answer->err);
        return;
    }
    for (size_t i = 0; i < answer->count; i++) {
        const struct store_session *row = &answer->sessions[i];
        if (r->is_leased)
            take_over(r, row);
        else
            take_lease(r, false, row->id, row->state);
    }
    if (answer->next_cursor) {
        list_sessions(r, answer->next_cursor);
        return;
    }
    if (!r->is_leased) {
        r->is_listed = true;
        go_on_if_leased(r);
        return;
    }
    settle_rest(r);
    remove_rest(r);
    struct spawn_message m = {.verb = SPAWN_PING};
    spawner_client_ask(r->plane->order.spawner, &m, on_all_taken, r);
}

/* Twice: for their leases, and then to go on with them. */
static void list_sessions(struct recovery *r, const char *cursor)
{
    const struct store_filter filter = {
        .node = r->plane->order.node, .is_live = true, .cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_sessions(r->plane->order.store, &filter, on_sessions, r);
}

/* A list leaves out what was asked, which those that have not begun need: each of them is read. */
struct reading {
    struct recovery *recovery;
    size_t left;
    char *cursor;
    bool has_failed;
    struct error err; /* of the first that failed */
};

static void read_on(struct reading *reading)
{
    struct recovery *r = reading->recovery;
    if (--reading->left > 0)
        return;
    if (reading->has_failed)
        finish(r, &reading->err);
    else if (reading->cursor)
        list_executions(r, reading->cursor);
    else
        list_sessions(r, NULL);
    free(reading->cursor);
    free(reading);
}

static void on_execution(void *ctx, const struct store_answer *answer)
{
    struct reading *reading = ctx;
    if (!answer->err) {
        const struct store_execution *row = &answer->executions[0];
        job_of_record(reading->recovery->plane, row);
        take_lease(reading->recovery, true, row->id, row->state);
    } else if (answer->err->code != ERROR_NOT_FOUND && !reading->has_failed) {
        reading->has_failed = true;
        reading->err = *answer->err;
    }
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
        reading->left++;
        store_get_execution(r->plane->order.store,
                            &(struct store_name){.id = answer->executions[i].id}, on_execution,
                            reading);
    }
    read_on(reading);
}

static void list_executions(struct recovery *r, const char *cursor)
{
    const struct store_filter filter = {
        .node = r->plane->order.node, .is_live = true, .cursor = cursor, .limit = STORE_PAGE_MAX};
    store_list_executions(r->plane->order.store, &filter, on_executions, r);
}

/* --- secrets, before anybody needs them ------------------------------------------------------- */

static void get_vaults(struct recovery *r);

static void on_vault(void *ctx, int *fd)
{
    struct recovery *r = ctx;
    struct error err;
    size_t i = 0;
    while (!r->sandboxes[i].has_vault)
        i++;
    r->sandboxes[i].has_vault = false;
    error_set(&err, ERROR_UNAVAILABLE, "nobody has them");
    if (*fd < 0 || vault_load(&r->sandboxes[i].vault, *fd, &err) < 0)
        log_warn(r->plane->order.log, "the secrets of a session are lost: it has placeholders only",
                 LOG_U64("sandbox", r->sandboxes[i].id), LOG_STR("error", err.msg));
    get_vaults(r);
}

/* One after the other, then what is to be read of the store. */
static void get_vaults(struct recovery *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->sandboxes[i].has_vault) {
            keeper_get(r->plane->order.spawner, r->sandboxes[i].id, KEEPER_SECRETS, on_vault, r);
            return;
        }
    }
    list_executions(r, NULL);
}

static void on_entry(void *ctx, uint64_t id, const struct spawn_entry *entry,
                     const struct error *err)
{
    struct recovery *r = ctx;
    if (entry) {
        r->sandboxes = xrealloc(r->sandboxes, (r->count + 1) * sizeof(*r->sandboxes));
        r->sandboxes[r->count] =
            (struct sandbox){.id = id, .has_vault = entry->counts[KEEPER_SECRETS] > 0};
        memcpy(&r->sandboxes[r->count].note, entry->note, sizeof(struct cell_record));
        memcpy(r->sandboxes[r->count++].label, entry->label, SPAWN_LABEL_BYTES);
        return;
    }
    if (err)
        finish(r, err);
    else
        get_vaults(r);
}

void plane_recover(struct plane *p, void (*done)(void *ctx, const struct error *err), void *ctx)
{
    struct recovery *r = xcalloc(1, sizeof(*r));
    *r = (struct recovery){.plane = p, .done = done, .ctx = ctx};
    p->recovery = r;
    keeper_list(p->order.spawner, on_entry, r);
}
