/* store.c - queues calls to two threads, groups writes into commits, answers on the loop
 *
 * The loop's thread copies an argument into a call and appends it to a lane. The lane's thread
 * takes all that wait: on the writing lane they become one transaction, so that the price of a
 * commit is shared by those who arrived while the last one was paid. When a group fails as a whole,
 * each of its calls is tried alone, so that nobody fails for a neighbour. Answered calls go to
 * `done`, and an eventfd wakes the loop. The mutex guards the lists and the figures, and nothing
 * else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/memory.h"
#include "store/store_ops.h"

#define GROUP_MAX       512        /* calls in one transaction */
#define GROUP_MAX_BYTES (16 * MIB) /* of their arguments */
#define FULL_RETRY_MS   1000

struct verb {
    enum store_lane lane;
    const struct store_type *argument, *records;
};

static const struct verb verbs[STORE_VERB_COUNT] = {
#define X(verb, lane, argument, records)                                                           \
    [STORE_VERB_##verb] = {STORE_LANE_##lane, &store_type_##argument, &store_type_##records},
    STORE_VERBS(X)
#undef X
};

struct call {
    struct call *next;
    enum store_verb verb;
    store_fn fn;
    void *ctx;
    void *argument; /* owned */
    size_t bytes;
    struct store_rows rows;
    bool has_failed;
    struct error err;
};

struct call_list {
    struct call *first, *last;
};

struct lane {
    struct store *store;
    void *db;
    bool has_thread;
    pthread_t thread;
    pthread_cond_t wake;
    struct call_list queue;
};

struct store {
    const struct store_ops *ops;
    struct loop_watch *watch;
    int event_fd;
    pthread_mutex_t lock; /* of all below */
    bool is_closing;
    size_t queued_bytes;
    struct lane lanes[STORE_LANES];
    struct call_list done;
    struct store_info info;
};

static void list_add(struct call_list *list, struct call *call)
{
    call->next = NULL;
    if (list->last)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
}

static struct call *list_take(struct call_list *list)
{
    struct call *call = list->first;
    if (call) {
        list->first = call->next;
        if (!list->first)
            list->last = NULL;
    }
    return call;
}

static void call_free(struct call *call)
{
    store_record_free(verbs[call->verb].argument, call->argument);
    store_rows_clear(&call->rows);
    free(call);
}

static void wake_loop(struct store *s)
{
    uint64_t one = 1;
    /* It cannot fail: the counter is emptied long before 2^64. */
    BUG_ON(write(s->event_fd, &one, sizeof(one)) != sizeof(one));
}

/* --- on the lanes' threads ------------------------------------------------------------------- */

static void call_fail(struct call *call, const struct error *err)
{
    store_rows_clear(&call->rows);
    call->has_failed = true;
    call->err = *err;
}

static void call_run(struct lane *lane, struct call *call)
{
    struct error err = {0};
    call->has_failed = false;
    store_rows_clear(&call->rows);
    if (lane->store->ops->run(lane->db, call->verb, call->argument, &call->rows, &err) < 0)
        call_fail(call, &err);
}

struct outcome {
    uint64_t commits, written, failed;
    bool is_failing;
    struct error err;
};

static void note_failure(struct outcome *outcome, const struct error *err)
{
    outcome->is_failing = true;
    outcome->err = *err;
}

/* Runs the calls from `first` up to `end` in one transaction; -1: none of it happened. */
static int run_group(struct lane *lane, struct call *first, struct call *end,
                     struct outcome *outcome, struct error *err)
{
    const struct store_ops *ops = lane->store->ops;
    uint64_t written = 0;
    for (struct call *call = first; call != end; call = call->next) {
        call_run(lane, call);
        written += !call->has_failed;
    }
    if (ops->commit(lane->db, err) < 0) {
        note_failure(outcome, err);
        return -1;
    }
    outcome->commits++;
    outcome->written += written;
    outcome->is_failing = false;
    return 0;
}

/* A lane that cannot even begin has nothing to hope for: all the rest fail with the one reason. */
static bool begin_or_fail(struct lane *lane, struct call *first, struct outcome *outcome)
{
    struct error err = {0};
    if (lane->store->ops->begin(lane->db, &err) == 0)
        return true;
    note_failure(outcome, &err);
    for (struct call *call = first; call; call = call->next)
        call_fail(call, &err);
    return false;
}

/* Its own error says more than that the commit failed. */
static void run_one(struct lane *lane, struct call *call, struct outcome *outcome)
{
    struct error err = {0};
    if (run_group(lane, call, call->next, outcome, &err) < 0 && !call->has_failed)
        call_fail(call, &err);
}

static void run_writes(struct lane *lane, struct call *first, struct outcome *outcome)
{
    struct error err = {0};
    if (!begin_or_fail(lane, first, outcome))
        return;
    if (!first->next) {
        run_one(lane, first, outcome);
        return;
    }
    if (run_group(lane, first, NULL, outcome, &err) == 0)
        return;
    for (struct call *call = first; call && begin_or_fail(lane, call, outcome); call = call->next)
        run_one(lane, call, outcome);
}

/* Called with the lock held. */
static void publish(struct store *s, struct call_list *group, const struct outcome *outcome)
{
    struct call *call;
    while ((call = list_take(group))) {
        s->info.failed += call->has_failed && call->err.code == ERROR_UNAVAILABLE;
        s->queued_bytes -= call->bytes;
        list_add(&s->done, call);
    }
    s->info.commits += outcome->commits;
    s->info.written += outcome->written;
}

static void run_lane(struct lane *lane, struct call_list *group, bool is_writer)
{
    struct store *s = lane->store;
    struct outcome outcome = {0};
    if (is_writer)
        run_writes(lane, group->first, &outcome);
    else
        call_run(lane, group->first);

    pthread_mutex_lock(&s->lock);
    publish(s, group, &outcome);
    if (is_writer) {
        s->info.is_failing = outcome.is_failing;
        memcpy(s->info.why, outcome.err.msg, sizeof(s->info.why));
    }
    pthread_mutex_unlock(&s->lock);
    wake_loop(s);
}

/* Takes what becomes one group; empty only when the lane is to end. */
static void take_group(struct lane *lane, struct call_list *group, size_t max)
{
    struct store *s = lane->store;
    size_t bytes = 0;
    pthread_mutex_lock(&s->lock);
    while (!lane->queue.first && !s->is_closing)
        pthread_cond_wait(&lane->wake, &s->lock);
    for (size_t i = 0; i < max && lane->queue.first && bytes < GROUP_MAX_BYTES; i++) {
        bytes += lane->queue.first->bytes;
        list_add(group, list_take(&lane->queue));
    }
    pthread_mutex_unlock(&s->lock);
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    bool is_writer = lane == &lane->store->lanes[STORE_LANE_WRITE];
    for (;;) {
        struct call_list group = {0};
        take_group(lane, &group, is_writer ? GROUP_MAX : 1);
        if (!group.first)
            return NULL;
        run_lane(lane, &group, is_writer);
        if (is_writer)
            lane->store->ops->rest(lane->db);
    }
}

/* --- on the loop's thread -------------------------------------------------------------------- */

static void call_answer(struct call *call)
{
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
        while ((call = list_take(&done)))
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
    struct lane *lane = &s->lanes[verbs[call->verb].lane];
    struct error err = {0};
    pthread_mutex_lock(&s->lock);
    if (!call->has_failed && is_refused(s, call, &err))
        call_fail(call, &err);
    s->info.queued++;
    bool is_done = call->has_failed; /* else the call is the lane's from here on */
    if (is_done) {
        s->info.failed += call->err.code == ERROR_UNAVAILABLE;
        list_add(&s->done, call);
    } else {
        s->queued_bytes += call->bytes;
        list_add(&lane->queue, call);
        pthread_cond_signal(&lane->wake);
    }
    pthread_mutex_unlock(&s->lock);
    if (is_done)
        wake_loop(s);
}

static void submit(struct store *s, enum store_verb verb, const void *argument, store_fn fn,
                   void *ctx)
{
    struct call *call = xcalloc(1, sizeof(*call));
    struct error err = {0};
    call->verb = verb;
    call->fn = fn;
    call->ctx = ctx;
    call->rows.type = verbs[verb].records;
    if (store_record_copy(&call->argument, &call->bytes, verbs[verb].argument, argument, &err) < 0)
        call_fail(call, &err);
    enqueue(s, call);
}

/* --- its life -------------------------------------------------------------------------------- */

/* Signals are the loop's business: a lane takes none. */
static int lane_begin(struct lane *lane, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&lane->thread, NULL, lane_main, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        errno = code;
        return error_sys(err, "start a thread for the store");
    }
    lane->has_thread = true;
    return 0;
}

static int open_lanes(struct store *s, const struct store_order *order, struct error *err)
{
    for (size_t i = 0; i < STORE_LANES; i++) {
        if (s->ops->open(&s->lanes[i].db, order, (enum store_lane)i, err) < 0)
            return -1;
    }
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
    *out = take_ptr(&s);
    return 0;
}

static void end_lanes(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
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
    end_lanes(s);
    answer_done(s);
    for (size_t i = STORE_LANES; i-- > 0;) {
        if (s->lanes[i].db)
            s->ops->close(s->lanes[i].db);
        pthread_cond_destroy(&s->lanes[i].wake);
    }
    pthread_mutex_destroy(&s->lock);
    loop_watch_free(s->watch);
    if (s->event_fd >= 0)
        close(s->event_fd);
    free(s);
}

void store_get_info(struct store *s, struct store_info *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->info;
    pthread_mutex_unlock(&s->lock);
}

/* --- the calls: what the compiler can check about each verb ---------------------------------- */

#define CALL(function, verb, parameter, name)                                                      \
    void function(struct store *store, parameter, store_fn fn, void *ctx)                          \
    {                                                                                              \
        submit(store, STORE_VERB_##verb, name, fn, ctx);                                           \
    }

CALL(store_add_session, ADD_SESSION, const struct store_session *session, session)
CALL(store_change_session, CHANGE_SESSION, const struct store_session_change *change, change)
CALL(store_get_session, GET_SESSION, const struct store_name *name, name)
CALL(store_list_sessions, LIST_SESSIONS, const struct store_filter *filter, filter)
CALL(store_get_usage, GET_USAGE, const struct store_name *name, name)
CALL(store_add_execution, ADD_EXECUTION, const struct store_execution *execution, execution)
CALL(store_change_execution, CHANGE_EXECUTION, const struct store_execution_change *change, change)
CALL(store_get_execution, GET_EXECUTION, const struct store_name *name, name)
CALL(store_list_executions, LIST_EXECUTIONS, const struct store_filter *filter, filter)
CALL(store_put_artifact, PUT_ARTIFACT, const struct store_artifact *artifact, artifact)
CALL(store_list_artifacts, LIST_ARTIFACTS, const struct store_name *execution, execution)
CALL(store_put_checkpoint, PUT_CHECKPOINT, const struct store_checkpoint *checkpoint, checkpoint)
CALL(store_remove_checkpoint, REMOVE_CHECKPOINT, const struct store_name *name, name)
CALL(store_list_checkpoints, LIST_CHECKPOINTS, const struct store_filter *filter, filter)
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
