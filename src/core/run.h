/* run.h - one run of one program in a fresh sandbox, from the request to the last trace
 *
 * create -> put files -> start -> run -> drain -> list and get artifacts -> destroy -> end. Every
 * ending, good or bad, goes through the same destroy and the one `ended` call. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/capacity.h"
#include "core/execution.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

struct run_request {
    uint8_t image[SPAWN_DIGEST_BYTES];
    const char *const *argv; /* NULL-terminated; borrowed until the end, as all of this */
    const char *const *env;
    struct execution_input *inputs; /* their fds are taken */
    size_t input_count;
    int stdin_fd;               /* taken; -1: an empty one */
    struct spawn_limits limits; /* lifetime_ms is filled in */
    uint64_t timeout_ms;
    size_t output_bytes;
    bool allow_degraded;
    bool wants_artifacts;
    struct capacity *capacity; /* which it needs a seat of; NULL: none */
    bool wants_usage;          /* else a run that went well ends without waiting for its counters */
};

struct run;

/* Begins; `ended` comes later, always exactly once. The request's fds are taken even on failure.
 * ERROR_LIMIT: there is no room for it. */
MUST_CHECK int run_begin(struct run **out, struct loop *loop, struct spawner_client *spawner,
                         const struct run_request *request, const struct execution_events *events,
                         void *ctx, struct error *err);
void run_free(struct run *run); /* after `ended` */
SCOPED_DEFINE(run)

void run_interrupt(struct run *run); /* SIGINT: the program may still end well */
void run_kill(struct run *run);

/* The spawner says something about a sandbox: sealed, or over (NULL: the spawner itself is). */
void run_on_event(struct run *run, const struct spawn_message *m);
