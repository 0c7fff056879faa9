/* store_lane.c - what the threads of the store do: one writes in groups, one reads
 *
 * A lane's thread takes all that waits. On the writing lane that becomes one transaction, so that
 * the price of a commit is shared by those who arrived while the last one was paid. When a group
 * fails as a whole, each of its calls is tried alone, so that nobody fails for a neighbour. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "store/store_inside.h"

#define GROUP_MAX       512        /* calls in one transaction */
#define GROUP_MAX_BYTES (16 * MIB) /* of their arguments */

void call_list_add(struct call_list *list, struct call *call)
{
    call->next = NULL;
    if (list->last)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
}

struct call *call_list_take(struct call_list *list)
{
    struct call *call = list->first;
    if (call) {
        list->first = call->next;
        if (!list->first)
            list->last = NULL;
    }
    return call;
}

void call_free(struct call *call)
{
    store_record_free(store_verbs[call->verb].argument, call->argument);
    store_rows_clear(&call->rows);
    store_rows_clear(&call->early);
    free(call);
}

static void wake_loop(struct store *s)
{
    uint64_t one = 1;
    /* It cannot fail: the counter is emptied long before 2^64. */
    BUG_ON(write(s->event_fd, &one, sizeof(one)) != sizeof(one));
}

void call_fail(struct call *call, const struct error *err)
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
    if (lane->store->ops->begin(lane->db, true, &err) == 0)
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

void lane_run_begun(struct lane *lane, struct call *first, struct outcome *outcome)
{
    struct error err = {0};
    if (!first->next) {
        run_one(lane, first, outcome);
        return;
    }
    if (run_group(lane, first, NULL, outcome, &err) == 0)
        return;
    for (struct call *call = first; call && begin_or_fail(lane, call, outcome); call = call->next)
        run_one(lane, call, outcome);
}

static void run_writes(struct lane *lane, struct call *first, struct outcome *outcome)
{
    if (begin_or_fail(lane, first, outcome))
        lane_run_begun(lane, first, outcome);
}

/* Called with the lock held. */
static void publish(struct store *s, struct call_list *group, const struct outcome *outcome)
{
    struct call *call;
    while ((call = call_list_take(group))) {
        s->info.failed += call->has_failed && error_passes(&call->err);
        s->queued_bytes -= call->bytes;
        call_list_add(&s->done, call);
    }
    s->info.commits += outcome->commits;
    s->info.written += outcome->written;
}

void lane_publish_written(struct store *s, struct call_list *group, const struct outcome *outcome)
{
    publish(s, group, outcome);
    s->info.is_failing = outcome->is_failing;
    memcpy(s->info.why, outcome->err.msg, sizeof(s->info.why));
}

static void write_group(struct lane *lane, struct call_list *group)
{
    struct store *s = lane->store;
    struct outcome outcome = {0};
    run_writes(lane, group->first, &outcome);
    pthread_mutex_lock(&s->lock);
    lane_publish_written(s, group, &outcome);
    pthread_mutex_unlock(&s->lock);
    wake_loop(s);
}

static void read_group(struct lane *lane, struct call_list *group)
{
    struct store *s = lane->store;
    const struct outcome nothing = {0};
    call_run(lane, group->first);
    pthread_mutex_lock(&s->lock);
    publish(s, group, &nothing);
    pthread_mutex_unlock(&s->lock);
    wake_loop(s);
}

/* Takes the connection, and what becomes one group: an empty one for a rest. False: the lane is to
 * end. */
static bool take_group(struct lane *lane, struct call_list *group, size_t max, bool *is_due)
{
    struct store *s = lane->store;
    size_t bytes = 0;
    pthread_mutex_lock(&s->lock);
    while (lane->is_busy ||
           (!lane->queue.first && !lane->is_tired && !lane->is_due && !s->is_closing))
        pthread_cond_wait(&lane->wake, &s->lock);
    bool goes_on = lane->queue.first || lane->is_tired || lane->is_due;
    lane->is_busy = goes_on;
    lane->is_tired = false;
    *is_due = lane->is_due;
    lane->is_due = false;
    for (size_t i = 0; i < max && lane->queue.first && bytes < GROUP_MAX_BYTES; i++) {
        bytes += lane->queue.first->bytes;
        call_list_add(group, call_list_take(&lane->queue));
    }
    pthread_mutex_unlock(&s->lock);
    return goes_on;
}

static void give_back(struct lane *lane)
{
    pthread_mutex_lock(&lane->store->lock);
    lane->is_busy = false;
    pthread_mutex_unlock(&lane->store->lock);
}

/* What comes behind the ledger and cannot be told without it fails with it; all of it, where not
 * even a transaction can be begun: nobody waits for that twice. */
static void commit_lag(struct lane *lane, struct call_list *group)
{
    struct store *s = lane->store;
    struct call_list refused = {0};
    const struct outcome nothing = {0};
    struct outcome outcome = {0};
    struct error err = {0};
    if (lag_is_empty(s))
        return;
    bool has_begun = begin_or_fail(lane, group->first, &outcome);
    if (has_begun && lag_commit(lane, &err) == 0)
        return;
    pthread_mutex_lock(&s->lock);
    if (has_begun) {
        lag_refuse(s, group, &refused, &err);
        publish(s, &refused, &nothing);
    } else {
        lane_publish_written(s, group, &outcome);
    }
    lane->is_due = lane->queue.first; /* those, too */
    pthread_mutex_unlock(&s->lock);
    wake_loop(s);
}

static void *writer_main(void *arg)
{
    struct lane *lane = arg;
    struct call_list group = {0};
    bool is_due;
    while (take_group(lane, &group, GROUP_MAX, &is_due)) {
        if (is_due)
            commit_lag(lane, &group);
        if (group.first)
            write_group(lane, &group);
        lane->store->ops->rest(lane->db);
        give_back(lane);
    }
    return NULL;
}

static void *reader_main(void *arg)
{
    struct lane *lane = arg;
    struct call_list group = {0};
    bool is_due;
    while (take_group(lane, &group, 1, &is_due)) {
        if (group.first)
            read_group(lane, &group);
        give_back(lane);
    }
    return NULL;
}

static void *(*const lane_mains[STORE_LANES])(void *lane) = {
    [STORE_LANE_WRITE] = writer_main,
    [STORE_LANE_READ] = reader_main,
};

/* Signals are the loop's business: a lane takes none. */
int lane_begin(struct lane *lane, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&lane->thread, NULL, lane_mains[lane - lane->store->lanes], lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        errno = code;
        return error_sys(err, "start a thread for the store");
    }
    lane->has_thread = true;
    return 0;
}
