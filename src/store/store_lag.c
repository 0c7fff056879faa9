/* store_lag.c - what nobody can object to is told when it is in the ledger, and committed in groups
 * later
 *
 * Ends of executions are most of what is written: their id is new, and their session is alive. New
 * sessions without a name, of one who has no quota, are what somebody waits for. So the loop
 * appends them to the ledger at the end of its turn, answers, and leaves them to the writing lane,
 * which takes what has gathered: after a while, when it is much, or when a call comes that would
 * miss them. Such a call goes to the writing lane, too, behind them. While the database does not
 * take them, whatever comes next is committed before it is told, as everything else is, so that who
 * asks hears of the trouble. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/ledger.h"
#include "store/store_inside.h"

#define LAG_MS        200  /* until they are committed */
#define LAG_AGAIN_MS  1000 /* the same when that has failed */
#define LAG_MANY      128  /* are committed at once */
#define LAG_MAX       1024
#define LAG_MAX_BYTES (64 * KIB) /* of one */

#define SESSION_MARK ":session" /* no column is called so */

enum kind { SESSIONS = 1 << 0, EXECUTIONS = 1 << 1 };

/* What is in it. */
static const enum kind kinds[STORE_VERB_COUNT] = {
    [STORE_VERB_KEEP_SESSION] = SESSIONS,
    [STORE_VERB_KEEP_EXECUTION] = EXECUTIONS,
};

/* What of it a call must find: those of some kinds, or one of them, which its argument names. */
struct await {
    unsigned kinds;
    bool is_one;
    size_t id; /* the offset of its name */
};
#define ONE(type, field) true, offsetof(struct store_##type, field)

static const struct await awaits[STORE_VERB_COUNT] = {
    [STORE_VERB_CHANGE_SESSION] = {SESSIONS, ONE(session_change, id)},
    [STORE_VERB_GET_SESSION] = {SESSIONS, ONE(name, id)},
    [STORE_VERB_GET_USAGE] = {SESSIONS},
    [STORE_VERB_ADD_EXECUTION] = {SESSIONS, ONE(execution, session_id)},
    [STORE_VERB_KEEP_EXECUTION] = {SESSIONS, ONE(execution, session_id)}, /* a large one */
    [STORE_VERB_CHANGE_EXECUTION] = {EXECUTIONS},
    [STORE_VERB_GET_EXECUTION] = {EXECUTIONS, ONE(name, id)},
    [STORE_VERB_LIST_EXECUTIONS] = {EXECUTIONS},
    [STORE_VERB_PUT_ARTIFACT] = {EXECUTIONS},
    [STORE_VERB_LIST_ARTIFACTS] = {EXECUTIONS},
    [STORE_VERB_LIST_STALE] = {EXECUTIONS},
    [STORE_VERB_GET_KEPT] = {EXECUTIONS},
    [STORE_VERB_PUT_CHECKPOINT] = {SESSIONS, ONE(checkpoint, session_id)},
    [STORE_VERB_REMOVE_TEMPLATE] = {SESSIONS},
    [STORE_VERB_RETAIN] = {EXECUTIONS},
};
#undef ONE

static struct lane *writer(struct store *s)
{
    return &s->lanes[STORE_LANE_WRITE];
}

static const char *id_of(const struct call *call)
{
    const struct store_session *session = call->argument;
    const struct store_execution *execution = call->argument;
    return call->verb == STORE_VERB_KEEP_SESSION ? session->id : execution->id;
}

/* Whether the list has what the call must find. Who asks for one need not wait for all others. */
static bool holds(const struct call_list *list, const struct call *call)
{
    const struct await *a = &awaits[call->verb];
    const char *id = a->is_one ? *(char *const *)((const char *)call->argument + a->id) : NULL;
    if (a->kinds == 0 || (a->is_one && !id))
        return false; /* what has a name, or no session, is not in it */
    for (const struct call *one = list->first; one; one = one->next) {
        if ((a->kinds & kinds[one->verb]) && (!id || strcmp(id_of(one), id) == 0))
            return true;
    }
    return false;
}

bool lag_is_awaited(const struct store *s, const struct call *call)
{
    return !call->has_failed && (holds(&s->lag.waiting, call) || holds(&s->lag.told, call) ||
                                 holds(&s->lag.taken, call));
}

/* Nothing is under way that could take away what a new session is built on: its template. */
static bool is_alone(const struct store *s)
{
    const struct lane *lane = &s->lanes[STORE_LANE_WRITE];
    return !lane->is_busy && !lane->queue.first && !s->lag.behind.first && !s->done.first;
}

static bool may_lag(const struct store *s, const struct call *call)
{
    return kinds[call->verb] && s->lag.ledger && !s->info.is_failing && !s->is_closing &&
           call->bytes <= LAG_MAX_BYTES && s->lag.count < LAG_MAX &&
           (kinds[call->verb] != SESSIONS || is_alone(s));
}

/* What is written after one that waits behind it comes after that, too. */
bool lag_takes(struct store *s, struct call *call)
{
    bool may = may_lag(s, call);
    bool is_next = s->lag.behind.first && store_verbs[call->verb].lane == STORE_LANE_WRITE;
    bool is_behind = s->lag.waiting.first && (is_next || lag_is_awaited(s, call));
    if (may || is_behind)
        call_list_add(may ? &s->lag.waiting : &s->lag.behind, call);
    return may || is_behind;
}

/* --- on the loop's thread -------------------------------------------------------------------- */

/* Answers what is in the ledger. From the moment in which it is in the list a lane may free it. */
static void tell(struct store *s, struct call *call)
{
    const struct store_answer answer = {0};
    store_fn fn = call->fn;
    void *ctx = call->ctx;
    pthread_mutex_lock(&s->lock);
    s->info.queued--;
    s->info.written++;
    s->lag.count++;
    call_list_add(&s->lag.told, call);
    writer(s)->is_due |= s->lag.count >= LAG_MANY;
    pthread_mutex_unlock(&s->lock);
    fn(ctx, &answer);
}

/* What is not in the ledger: before all that waits for the lane, which may build on them. */
static void commit_first(struct store *s, const struct call_list *list)
{
    struct call_list *queue = &writer(s)->queue;
    if (!list->first)
        return;
    pthread_mutex_lock(&s->lock);
    list->last->next = queue->first;
    *queue = (struct call_list){list->first, queue->last ? queue->last : list->last};
    writer(s)->is_due |= s->lag.count > 0;
    pthread_mutex_unlock(&s->lock);
}

/* What waited behind the lag: it comes after all that was asked before. */
static void commit_last(struct store *s, struct call_list *list)
{
    struct call *call;
    if (!list->first)
        return;
    pthread_mutex_lock(&s->lock);
    while ((call = call_list_take(list)))
        call_list_add(&writer(s)->queue, call);
    writer(s)->is_due |= s->lag.count > 0;
    pthread_mutex_unlock(&s->lock);
}

/* Into the ledger's buffer; in `*over` what it has no room for. */
static struct call_list enter(struct store *s, struct call_list *over)
{
    struct call_list entered = {0};
    struct call *call;
    scoped_strbuf struct strbuf body;
    strbuf_init(&body, LEDGER_MAX_BYTES);
    while ((call = call_list_take(&s->lag.waiting))) {
        strbuf_clear(&body);
        if (kinds[call->verb] == SESSIONS)
            store_record_mark(&body, SESSION_MARK);
        store_record_pack(&body, store_verbs[call->verb].argument, call->argument);
        bool has_room = !body.overflow && ledger_add(s->lag.ledger, body.data, body.len);
        call->entry = ledger_last(s->lag.ledger);
        call_list_add(has_room ? &entered : over, call);
    }
    return entered;
}

bool lag_write(struct store *s)
{
    struct call_list over = {0}, behind = s->lag.behind;
    struct call *call;
    if (!s->lag.waiting.first)
        return false;
    s->lag.behind = (struct call_list){0};
    pthread_mutex_lock(&s->lock);
    bool is_empty = s->lag.count == 0;
    pthread_mutex_unlock(&s->lock);
    if (is_empty)
        ledger_rewind(s->lag.ledger);
    struct call_list entered = enter(s, &over);
    bool is_written = entered.first && ledger_write(s->lag.ledger) == 0;
    while (is_written && (call = call_list_take(&entered)))
        tell(s, call);
    commit_first(s, &over);
    commit_first(s, &entered);
    commit_last(s, &behind);
    return true;
}

static void on_due(void *ctx)
{
    struct store *s = ctx;
    loop_timer_free(take_ptr(&s->lag.timer));
    pthread_mutex_lock(&s->lock);
    writer(s)->is_due = s->lag.count > 0;
    pthread_cond_signal(&writer(s)->wake);
    pthread_mutex_unlock(&s->lock);
}

void lag_set_timer(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    bool must_come = s->lag.count > 0;
    bool is_failing = s->info.is_failing;
    pthread_mutex_unlock(&s->lock);
    if (must_come && !s->lag.timer)
        s->lag.timer = loop_timer_new(s->loop, is_failing ? LAG_AGAIN_MS : LAG_MS, on_due, s);
}

/* --- with the writing lane's connection ------------------------------------------------------- */

/* One that the database refuses for good was told, and is lost: that would be a defect of ours. */
static int commit_one(struct lane *lane, enum store_verb verb, const void *argument,
                      uint64_t *dropped, struct error *err)
{
    struct store_rows none = {.type = store_verbs[verb].records};
    if (lane->store->ops->run(lane->db, verb, argument, &none, err) == 0)
        return 0;
    *dropped += 1;
    return error_passes(err) ? -1 : 0;
}

static int commit_begun(struct lane *lane, const struct call_list *told, uint64_t *dropped,
                        struct error *err)
{
    const struct store_ops *ops = lane->store->ops;
    for (const struct call *call = told->first; call; call = call->next) {
        if (commit_one(lane, call->verb, call->argument, dropped, err) < 0)
            return -1;
    }
    return ops->mark(lane->db, told->last->entry, err);
}

static int commit(struct lane *lane, const struct call_list *told, uint64_t *dropped,
                  struct error *err)
{
    const struct store_ops *ops = lane->store->ops;
    if (commit_begun(lane, told, dropped, err) == 0)
        return ops->commit(lane->db, err);
    ops->abandon(lane->db);
    return -1;
}

static void free_all(struct call_list *list)
{
    struct call *call;
    while ((call = call_list_take(list)))
        call_free(call);
}

bool lag_is_empty(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    bool is_empty = !s->lag.told.first;
    pthread_mutex_unlock(&s->lock);
    return is_empty;
}

int lag_commit(struct lane *lane, struct error *err)
{
    struct store *s = lane->store;
    uint64_t dropped = 0, count = 0;
    size_t bytes = 0;
    pthread_mutex_lock(&s->lock);
    struct call_list told = s->lag.taken = s->lag.told;
    s->lag.told = (struct call_list){0};
    pthread_mutex_unlock(&s->lock);
    BUG_ON(!told.first);
    for (const struct call *call = told.first; call; call = call->next) {
        count++;
        bytes += call->bytes;
    }
    int result = commit(lane, &told, &dropped, err);
    pthread_mutex_lock(&s->lock);
    s->lag.taken = (struct call_list){0};
    s->info.is_failing = result < 0;
    if (result < 0) {
        snprintf(s->info.why, sizeof(s->info.why), "%s", err->msg);
        told.last->next = s->lag.told.first;
        s->lag.told =
            (struct call_list){told.first, s->lag.told.last ? s->lag.told.last : told.last};
    } else {
        s->lag.count -= count;
        s->queued_bytes -= bytes;
        s->info.commits++;
        s->info.dropped += dropped;
    }
    pthread_mutex_unlock(&s->lock);
    if (result == 0)
        free_all(&told);
    return result;
}

void lag_refuse(struct store *s, struct call_list *group, struct call_list *refused,
                const struct error *err)
{
    struct call_list rest = {0};
    struct call *call;
    while ((call = call_list_take(group))) {
        bool is_refused = holds(&s->lag.told, call);
        if (is_refused)
            call_fail(call, err);
        call_list_add(is_refused ? refused : &rest, call);
    }
    *group = rest;
}

/* --- its life -------------------------------------------------------------------------------- */

struct replay {
    struct store *store;
    uint64_t dropped;
};

/* What a dead process has told. */
static int on_entry(void *ctx, const void *body, size_t len, struct error *err)
{
    struct replay *r = ctx;
    bool is_session = store_record_is_marked(SESSION_MARK, body, len);
    enum store_verb verb = is_session ? STORE_VERB_KEEP_SESSION : STORE_VERB_KEEP_EXECUTION;
    const struct store_type *type = store_verbs[verb].argument;
    void *record = store_record_unpack(type, body, len);
    const struct store_session *s = record;
    const struct store_execution *e = record;
    bool is_one = record && (is_session ? store_session_fits(s->state, s->ended_ns)
                                        : store_execution_fits(e->state, e->ended_ns));
    if (!is_one)
        r->dropped++;
    int result = is_one ? commit_one(writer(r->store), verb, record, &r->dropped, err) : 0;
    store_record_free(type, record);
    return result;
}

/* A database that knows nothing of a ledger is new, and what lies beside it was another one's. */
static int replay(struct store *s, struct ledger *ledger, struct error *err)
{
    struct replay r = {.store = s};
    const struct store_ops *ops = s->ops;
    void *db = writer(s)->db;
    uint64_t mark;
    int known = ops->get_mark(db, &mark, err);
    if (known < 0 || ops->begin(db, true, err) < 0 ||
        (known && ledger_read(ledger, mark, on_entry, &r, err) < 0) ||
        ops->mark(db, ledger_last(ledger), err) < 0 || ops->commit(db, err) < 0)
        return -1;
    s->info.dropped = r.dropped;
    return ledger_empty(ledger, err);
}

int lag_open(struct store *s, const struct store_order *order, struct error *err)
{
    if (!s->ops->mark)
        return 0;
    scoped_free char *path = xasprintf("%s-ledger", order->place);
    scoped(ledger) struct ledger *ledger = NULL;
    if (ledger_open(&ledger, path, err) < 0 || replay(s, ledger, err) < 0)
        return error_wrap(err, "ledger of the database");
    if (order->sync != STORE_SYNC_FULL) /* which waits for the disk, and so commits at once */
        s->lag.ledger = take_ptr(&ledger);
    return 0;
}

void lag_release(struct store *s)
{
    loop_timer_free(s->lag.timer);
    free_all(&s->lag.told); /* the next one finds them in the ledger */
    ledger_free(s->lag.ledger);
}
