/* pool.h - parked sessions of a template: sealed, started, and never used before
 *
 * Taking one costs nothing but the taking. The pool refills itself off the request path and sizes
 * itself by how many are taken. A parked session is given out once. Where a capacity is set, the
 * pool stocks up only while there is room, and what is parked gives way to what is asked for. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/session.h"
#include "core/warm.h"

struct pool;

struct pool_order {
    struct session_template *template; /* borrowed; its zygote is filled in here */
    const struct warm_order *warm;     /* NULL: none of its own; its events are ours */
    uint64_t (*lent)(void *borrower); /* without one: the warm interpreter of another; NULL: none */
    void *borrower;
    const struct log *log; /* borrowed; NULL: none */
    const char *name;      /* of the template, for the log; borrowed */
    size_t min_parked;     /* kept ready even when nobody asks */
    size_t max_parked;
};

MUST_CHECK int pool_open(struct pool **out, struct loop *loop, struct spawner_client *spawner,
                         const struct pool_order *order, struct error *err);

/* Closes what is parked and ends the warm interpreters; `closed` tells when all is gone. Sessions
 * that were taken are not its affair. */
void pool_close(struct pool *pool, void (*closed)(void *ctx), void *ctx);
void pool_free(struct pool *pool); /* after that, or with the spawner gone */
SCOPED_DEFINE(pool)

/* A session that is ready (then *is_parked is true), or one that is being created. From here on it
 * is the caller's, with its events. */
MUST_CHECK int pool_take(struct pool *pool, struct session **out, bool *is_parked,
                         const struct session_events *events, void *ctx, struct error *err);

/* Plain data, for metrics. */
struct pool_info {
    size_t parked, creating, target;
    uint64_t taken, missed;   /* of the taken ones, how many were not parked */
    bool wants_warm, is_warm; /* an interpreter of its own: asked for, there */
    struct error error;       /* of the last that failed; msg "" = none */
    struct error cold; /* why there is no warm interpreter; msg "" = it starts, or is there */
};

void pool_get_info(const struct pool *pool, struct pool_info *out);

/* A warm interpreter, for a session that differs in its limits; 0: there is none now. */
uint64_t pool_zygote(const struct pool *pool);

/* To be told of every event: its sandboxes are unknown to others. */
void pool_on_event(struct pool *pool, const struct spawn_message *m);
