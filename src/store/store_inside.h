/* store_inside.h - the store as its own parts see it: store*.c, nobody else */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "store/store_ops.h"

struct store_verb_info {
    enum store_lane lane;
    const struct store_type *argument, *records;
};

extern const struct store_verb_info store_verbs[STORE_VERB_COUNT];

struct call {
    struct call *next;
    enum store_verb verb;
    store_fn fn;
    void *ctx;
    void *argument; /* owned */
    size_t bytes;
    struct store_rows rows, early; /* early: see store_early.c */
    uint64_t entry;                /* its number in the ledger */
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
    bool is_busy;  /* a thread, this lane's or the loop's, has the connection */
    bool is_tired; /* the lane is to rest, though nothing waits */
    bool is_due;   /* what is in the ledger is to be committed, before all that waits */
};

/* What is in the ledger. */
struct lag {
    struct ledger *ledger;    /* NULL: there is none. The loop's, as the next three */
    struct call_list waiting; /* for the end of the turn */
    struct call_list behind;  /* those, also for the end of the turn */
    struct loop_timer *timer; /* at which it is due */
    struct call_list told;    /* and not committed. Behind the lock, as the rest */
    struct call_list taken;   /* of those, what the lane is committing */
    size_t count;             /* of both */
};

struct store {
    const struct store_ops *ops;
    struct loop *loop;
    struct loop_watch *watch;
    struct loop_turn *turn;
    int event_fd;
    bool is_synced;        /* a commit waits for the disk */
    int64_t lane_until_ns; /* till then nothing is committed on the loop's thread */
    pthread_mutex_t lock;  /* of all below */
    bool is_closing;
    size_t queued_bytes;
    struct lag lag;
    struct lane lanes[STORE_LANES];
    struct call_list done;
    struct store_info info;
};

void call_list_add(struct call_list *list, struct call *call);
struct call *call_list_take(struct call_list *list); /* NULL: it is empty */
void call_fail(struct call *call, const struct error *err);
void call_free(struct call *call);

/* --- store_lane.c: groups of calls on a connection, and the threads for them ---------------- */

struct outcome {
    uint64_t commits, written, failed;
    bool is_failing;
    struct error err;
};

MUST_CHECK int lane_begin(struct lane *lane, struct error *err); /* its thread */

/* Runs the calls in the transaction that was begun; none of them may be left without an answer. */
void lane_run_begun(struct lane *lane, struct call *first, struct outcome *outcome);

/* Called with the lock held. */
void lane_publish_written(struct store *s, struct call_list *group, const struct outcome *outcome);

/* --- store_early.c: what was told, in lists ------------------------------------------------- */

void early_find(const struct store *s, struct call *call); /* called with the lock held */
void early_merge(struct call *call);

/* --- store_lag.c: what is told before it is committed --------------------------------------- */

/* After the writing connection: commits what a process before this one has told. */
MUST_CHECK int lag_open(struct store *s, const struct store_order *order, struct error *err);
void lag_release(struct store *s);

/* Called with the lock held. */
bool lag_takes(struct store *s, struct call *call); /* it is in the lag now, or behind it */
bool lag_is_awaited(const struct store *s, const struct call *call); /* it belongs behind it */

/* At the end of a turn. Whatever waited has been answered, or sent to the writing lane. False:
 * nothing did. */
bool lag_write(struct store *s);
void lag_set_timer(struct store *s);

/* With the writing lane's connection: whether there is nothing to commit, and else the commit, in
 * the transaction that was begun. -1: it has to be tried again. */
bool lag_is_empty(struct store *s);
MUST_CHECK int lag_commit(struct lane *lane, struct error *err);
/* Takes those from a group that would not find what could not be committed. */
void lag_refuse(struct store *s, struct call_list *group, struct call_list *refused,
                const struct error *err); /* called with the lock held */
