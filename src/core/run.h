/* run.h - one run of one program in a fresh sandbox, from the request to the last trace
 *
 * create -> put files -> start -> run -> drain -> list and get artifacts -> destroy -> end; a build
 * of packages seals what it made instead of getting artifacts. Every ending, good or bad, goes
 * through the same destroy and the one `ended` call. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/capacity.h"
#include "core/execution.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

struct gateway;
struct network_rules;
struct vault;

/* What a program that ends with status 0 leaves in its workspace becomes a package layer. */
struct run_layer {
    uint8_t digest[SPAWN_DIGEST_BYTES];
    int note_fd; /* a memory file, kept beside the layer; borrowed */
};

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
    struct gateway *gateway;   /* which its way out leads through; NULL: it has none */
    const struct network_rules *rules;
    const struct vault *vault; /* its secrets; NULL: none */
    bool wants_usage;          /* else a run that went well ends without waiting for its counters */
    uint8_t packages[SPAWN_DIGEST_BYTES]; /* the layer that it has; all zero: none */
    const struct run_layer *layer;        /* NULL: none is made */
};

struct run;

/* Begins; `ended` comes later, always exactly once. The request's fds are taken even on failure.
 * ERROR_LIMIT: there is no room for it. */
MUST_CHECK int run_begin(struct run **out, struct loop *loop, struct spawner_client *spawner,
                         const struct run_request *request, const struct execution_events *events,
                         void *ctx, struct error *err);
void run_free(struct run *run); /* after `ended`, or when the loop has ended */
SCOPED_DEFINE(run)

void run_interrupt(struct run *run); /* SIGINT: the program may still end well */
void run_kill(struct run *run);

/* The spawner says something about a sandbox: sealed, or over (NULL: the spawner itself is). */
void run_on_event(struct run *run, const struct spawn_message *m);
