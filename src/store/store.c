/* store.c - queues calls to two threads, and answers on the loop
 *
 * The loop's thread copies an argument into a call and appends it to a lane, whose thread takes it
 * from there. Answered calls go to `done`, and an eventfd wakes the loop. The mutex guards the
 * lists and the figures, and nothing else.
 *
 * To hand a call over and back costs two wake-ups, which is more than a small commit takes. So at
 * the end of a turn the loop's thread commits what is little itself, while the writing lane is
 * idle: it borrows the lane's connection, never waits for a lock, and leaves it alone for a while
 * after a commit that was slow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/store_inside.h"

#define FULL_RETRY_MS 1000

/* What the loop's thread may commit itself, and after which time it leaves that to the lane. */
#define HERE_MAX       8
#define HERE_MAX_BYTES (64 * KIB)
#define HERE_SLOW_NS   (3 * 1000000ll)
#define HERE_REST_NS   (1000000000ll) /* a slow disk holds the loop once in that time */

const struct store_verb_info store_verbs[STORE_VERB_COUNT] = {
#define X(verb, lane, argument, records)                                                           \
    [STORE_VERB_##verb] = {STORE_LANE_##lane, &store_type_##argument, &store_type_##records},
    STORE_VERBS(X)
#undef X
};

/* --- on the loop's thread -------------------------------------------------------------------- */

static void call_answer(struct call *call)
{
    if (call->early.count > 0 && !call->has_failed)
        early_merge(call);
    struct store_answer answer = {
        .err = call->has_failed ? &call->err : NULL,
        .count = call->rows.count,
        .records = call->rows.items,
        .next_cursor = call->rows.next_cursor,
    };
    call->fn(call->ctx, &answer);
    call_free(call);
}

/* Answers all that is done, also what callbacks add meanwhile without the lanes' help. */
static void answer_done(struct store *s)
{
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct call_list done = s->done;
        s->done = (struct call_list){0};
        for (const struct call *call = done.first; call; call = call->next)
            s->info.queued--;
        pthread_mutex_unlock(&s->lock);
        if (!done.first)
            return;
        struct call *call;
        while ((call = call_list_take(&done)))
            call_answer(call);
    }
}

static void on_wake(void *ctx, unsigned events)
{
    struct store *s = ctx;
    uint64_t count;
    (void)events;
    if (read(s->event_fd, &count, sizeof(count)) < 0)
        return; /* EAGAIN: answered already */
    answer_done(s);
}

/* Called with the lock held. What reads is here only to come behind the ledger, and may read much.
 */
static bool is_little(const struct call_list *queue)
{
    size_t count = 0, bytes = 0;
    for (const struct call *call = queue->first; call; call = call->next) {
        bytes += call->bytes;
        if (++count > HERE_MAX || bytes > HERE_MAX_BYTES ||
            store_verbs[call->verb].lane != STORE_LANE_WRITE)
            return false;
    }
    return count > 0;
}

/* Takes all that waits for the writing lane, with its connection, if it may be committed here. */
static bool take_here(struct store *s, struct call_list *group, bool *is_due)
{
    struct lane *lane = &s->lanes[STORE_LANE_WRITE];
    bool may = !s->is_synced && clock_now_ns() >= s->lane_until_ns;
    pthread_mutex_lock(&s->lock);
    may = may && !lane->is_busy && is_little(&lane->queue) &&
          (!lane->is_due || s->lag.count <= HERE_MAX);
    if (may) {
        lane->is_busy = true;
        *is_due = lane->is_due;
        lane->is_due = false;
        *group = lane->queue;
        lane->queue = (struct call_list){0};
    }
    pthread_mutex_unlock(&s->lock);
    return may;
}

/* As it was, for the lane, which has the patience. */
static void put_back(struct store *s, const struct call_list *group, bool is_due)
{
    struct lane *lane = &s->lanes[STORE_LANE_WRITE];
    pthread_mutex_lock(&s->lock);
    lane->queue = *group; /* only this thread adds to it */
    lane->is_due = is_due;
    lane->is_busy = false;
    pthread_mutex_unlock(&s->lock);
}

static int commit_lag_here(struct lane *lane, struct error *err)
{
    struct store *s = lane->store;
    if (lag_is_empty(s))
        return 0;
    return s->ops->begin(lane->db, false, err) < 0 ? -1 : lag_commit(lane, err);
}

/* False: the lane has to do it. */
static bool write_here(struct store *s)
{
    struct lane *lane = &s->lanes[STORE_LANE_WRITE];
    struct call_list group;
    struct outcome outcome = {0};
    struct error err;
    bool is_due;
    int64_t start_ns = clock_now_ns();
    if (!take_here(s, &group, &is_due))
        return false;
    if ((is_due && commit_lag_here(lane, &err) < 0) || s->ops->begin(lane->db, false, &err) < 0) {
        put_back(s, &group, is_due);
        return false;
    }
    lane_run_begun(lane, group.first, &outcome);
    int64_t end_ns = clock_now_ns();
    if (end_ns - start_ns > HERE_SLOW_NS)
        s->lane_until_ns = end_ns + HERE_REST_NS;
    pthread_mutex_lock(&s->lock);
    lane_publish_written(s, &group, &outcome);
    lane->is_tired = s->ops->needs_rest(lane->db);
    lane->is_busy = false;
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* Called with the lock held. */
static void wake_lane(struct lane *lane)
{
    if (lane->queue.first || lane->is_tired || lane->is_due)
        pthread_cond_signal(&lane->wake);
}

static void on_turn(void *ctx)
{
    struct store *s = ctx;
    do
        answer_done(s);
    while (lag_write(s) || write_here(s));
    lag_set_timer(s);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < STORE_LANES; i++)
        wake_lane(&s->lanes[i]);
    pthread_mutex_unlock(&s->lock);
}

/* Called with the lock held. */
static bool is_refused(const struct store *s, const struct call *call, struct error *err)
{
    if (s->is_closing)
        error_set(err, ERROR_UNAVAILABLE, "the store is closing");
    else if (s->info.queued >= STORE_QUEUE_MAX ||
             s->queued_bytes + call->bytes > STORE_QUEUE_MAX_BYTES)
        error_set(err, ERROR_UNAVAILABLE, "too many requests wait for the database");
    else
        return false;
    err->retry_ms = FULL_RETRY_MS;
    return true;
}

static void enqueue(struct store *s, struct call *call)
{
    struct lane *lane = &s->lanes[store_verbs[call->verb].lane];
    struct error err = {0};
    pthread_mutex_lock(&s->lock);
    if (!call->has_failed && is_refused(s, call, &err))
        call_fail(call, &err);
    s->info.queued++;
    if (call->has_failed) {
        s->info.failed += error_passes(&call->err);
        call_list_add(&s->done, call);
    } else {
        s->queued_bytes += call->bytes;
        if (call->verb == STORE_VERB_LIST_SESSIONS)
            early_find(s, call);
        if (!lag_takes(s, call)) {
            bool is_behind = lag_is_awaited(s, call);
            if (is_behind)
                lane = &s->lanes[STORE_LANE_WRITE];
            lane->is_due |= is_behind;
            call_list_add(&lane->queue, call);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void submit(struct store *s, enum store_verb verb, const void *argument, store_fn fn,
                   void *ctx)
{
    struct call *call = xcalloc(1, sizeof(*call));
    struct error err = {0};
    call->verb = verb;
    call->fn = fn;
    call->ctx = ctx;
    call->rows.type = store_verbs[verb].records;
    if (store_record_copy(&call->argument, &call->bytes, store_verbs[verb].argument, argument,
                          &err) < 0)
        call_fail(call, &err);
    enqueue(s, call);
}

/* --- its life -------------------------------------------------------------------------------- */

static int open_lanes(struct store *s, const struct store_order *order, struct error *err)
{
    for (size_t i = 0; i < STORE_LANES; i++) {
        if (s->ops->open(&s->lanes[i].db, order, (enum store_lane)i, err) < 0)
            return -1;
    }
    if (lag_open(s, order, err) < 0)
        return -1;
    for (size_t i = 0; i < STORE_LANES; i++) {
        if (lane_begin(&s->lanes[i], err) < 0)
            return -1;
    }
    return 0;
}

int store_open(struct store **out, struct loop *loop, const struct store_ops *ops,
               const struct store_order *order, struct error *err)
{
    scoped(store) struct store *s = xcalloc(1, sizeof(*s));
    s->ops = ops;
    s->loop = loop;
    s->event_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    for (size_t i = 0; i < STORE_LANES; i++) {
        s->lanes[i].store = s;
        pthread_cond_init(&s->lanes[i].wake, NULL);
    }
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->event_fd < 0)
        return error_sys(err, "eventfd for the store");
    if (loop_watch_new(&s->watch, loop, s->event_fd, LOOP_READ, on_wake, s, err) < 0 ||
        open_lanes(s, order, err) < 0)
        return -1;
    s->is_synced = order->sync == STORE_SYNC_FULL;
    s->turn = loop_turn_new(loop, on_turn, s);
    *out = take_ptr(&s);
    return 0;
}

static void end_lanes(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->lanes[STORE_LANE_WRITE].is_due = s->lag.count > 0;
    for (size_t i = 0; i < STORE_LANES; i++)
        pthread_cond_signal(&s->lanes[i].wake);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = STORE_LANES; i-- > 0;) {
        if (s->lanes[i].has_thread)
            pthread_join(s->lanes[i].thread, NULL);
    }
}

void store_free(struct store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_mutex_unlock(&s->lock);
    lag_write(s);
    end_lanes(s);
    answer_done(s);
    for (size_t i = STORE_LANES; i-- > 0;) {
        if (s->lanes[i].db)
            s->ops->close(s->lanes[i].db);
        pthread_cond_destroy(&s->lanes[i].wake);
    }
    lag_release(s);
    pthread_mutex_destroy(&s->lock);
    loop_watch_free(s->watch);
    loop_turn_free(s->turn);
    if (s->event_fd >= 0)
        close(s->event_fd);
    free(s);
}

void store_get_info(struct store *s, struct store_info *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->info;
    pthread_mutex_unlock(&s->lock);
    out->memory_bytes = s->ops->memory();
}

/* --- the calls: what the compiler can check about each verb ---------------------------------- */

#define CALL(function, verb, parameter, name)                                                      \
    void function(struct store *store, parameter, store_fn fn, void *ctx)                          \
    {                                                                                              \
        submit(store, STORE_VERB_##verb, name, fn, ctx);                                           \
    }

CALL(store_add_session, ADD_SESSION, const struct store_session *session, session)
CALL(store_keep_session, KEEP_SESSION, const struct store_session *session, session)
CALL(store_change_session, CHANGE_SESSION, const struct store_session_change *change, change)
CALL(store_get_session, GET_SESSION, const struct store_name *name, name)
CALL(store_list_sessions, LIST_SESSIONS, const struct store_filter *filter, filter)
CALL(store_get_usage, GET_USAGE, const struct store_name *name, name)
CALL(store_add_execution, ADD_EXECUTION, const struct store_execution *execution, execution)
CALL(store_keep_execution, KEEP_EXECUTION, const struct store_execution *execution, execution)
CALL(store_change_execution, CHANGE_EXECUTION, const struct store_execution_change *change, change)
CALL(store_get_execution, GET_EXECUTION, const struct store_name *name, name)
CALL(store_list_executions, LIST_EXECUTIONS, const struct store_filter *filter, filter)
CALL(store_put_artifact, PUT_ARTIFACT, const struct store_artifact *artifact, artifact)
CALL(store_list_artifacts, LIST_ARTIFACTS, const struct store_name *execution, execution)
CALL(store_list_stale_artifacts, LIST_STALE, const struct store_stale *stale, stale)
CALL(store_get_kept, GET_KEPT, const struct store_name *name, name)
CALL(store_put_checkpoint, PUT_CHECKPOINT, const struct store_checkpoint *checkpoint, checkpoint)
CALL(store_remove_checkpoint, REMOVE_CHECKPOINT, const struct store_name *name, name)
CALL(store_list_checkpoints, LIST_CHECKPOINTS, const struct store_filter *filter, filter)
CALL(store_put_workspace, PUT_WORKSPACE, const struct store_workspace *workspace, workspace)
CALL(store_remove_workspace, REMOVE_WORKSPACE, const struct store_name *name, name)
CALL(store_get_workspace, GET_WORKSPACE, const struct store_name *name, name)
CALL(store_list_workspaces, LIST_WORKSPACES, const struct store_filter *filter, filter)
CALL(store_list_stale_workspaces, LIST_STALE_SAVES, const struct store_stale *stale, stale)
CALL(store_add_template, ADD_TEMPLATE, const struct store_template *template, template)
CALL(store_seed_template, SEED_TEMPLATE, const struct store_template *template, template)
CALL(store_change_template, CHANGE_TEMPLATE, const struct store_template *template, template)
CALL(store_remove_template, REMOVE_TEMPLATE, const struct store_name *name, name)
CALL(store_get_template, GET_TEMPLATE, const struct store_name *name, name)
CALL(store_list_templates, LIST_TEMPLATES, const struct store_filter *filter, filter)
CALL(store_add_key, ADD_KEY, const struct store_key *key, key)
CALL(store_change_key, CHANGE_KEY, const struct store_key_change *change, change)
CALL(store_get_key, GET_KEY, const struct store_name *name, name)
CALL(store_list_keys, LIST_KEYS, const struct store_filter *filter, filter)
CALL(store_begin_attempt, BEGIN_ATTEMPT, const struct store_attempt *attempt, attempt)
CALL(store_end_attempt, END_ATTEMPT, const struct store_attempt *attempt, attempt)
CALL(store_drop_attempt, DROP_ATTEMPT, const struct store_attempt *attempt, attempt)
CALL(store_begin_node, BEGIN_NODE, const struct store_node *node, node)
CALL(store_beat_node, BEAT_NODE, const struct store_node *node, node)
CALL(store_list_nodes, LIST_NODES, const struct store_filter *filter, filter)
CALL(store_retain, RETAIN, const struct store_retention *retention, retention)

#undef CALL
