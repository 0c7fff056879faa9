/* execution.h - one run of one program in a fresh sandbox, from the request to the last trace
 *
 * create -> put files -> start -> run -> drain -> list and get artifacts -> destroy -> end. Every
 * ending, good or bad, goes through the same destroy and the one `ended` call. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "core/artifact.h"
#include "core/capacity.h"
#include "core/output.h"
#include "core/result.h"
#include "core/stdio.h"
#include "core/verdict.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

/* A file for the workspace. Its bytes are read from `fd` (a regular file), which is taken. */
struct execution_input {
    char *path; /* relative to the workspace; owned */
    int fd;
    uint64_t size;
    uint32_t mode;
    int64_t mtime_ns; /* kept inside, and by which a change is noticed */
};

struct execution_request {
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

/* Plain data, complete when `ended` is called. */
struct execution {
    char id[ID_BYTES];
    struct facts facts;
    struct verdict verdict;
    uint32_t layers;            /* bit set of enum layer that sealed it */
    struct output out, err;     /* what is kept */
    struct result_list results; /* of a session only, as the exception */
    struct exception exception;
    struct artifact_list artifacts;
    int64_t created_ns; /* wall clock */
    int64_t started_ns; /* 0: never */
    int64_t ended_ns;
    double duration_ms;
    struct error error; /* infrastructure: code and message; msg is "" when there was none */
};

struct execution_events {
    void (*output)(void *ctx, enum execution_stream stream, const void *data, size_t len);
    void (*result)(void *ctx, const struct result *result); /* of a session; borrowed, and whole */
    /* An artifact's bytes, between begin and end; any of them may be NULL. */
    void (*artifact_begin)(void *ctx, const struct artifact *artifact);
    void (*artifact_data)(void *ctx, const void *data, size_t len);
    void (*artifact_end)(void *ctx, const struct artifact *artifact);
    void (*ended)(void *ctx, const struct execution *e);
};

struct execution_run;

/* Begins; `ended` comes later, always exactly once. The request's fds are taken even on failure.
 * ERROR_LIMIT: there is no room for it. */
MUST_CHECK int execution_begin(struct execution_run **out, struct loop *loop,
                               struct spawner_client *spawner,
                               const struct execution_request *request,
                               const struct execution_events *events, void *ctx, struct error *err);
void execution_run_free(struct execution_run *run); /* after `ended` */
SCOPED_DEFINE(execution_run)

void execution_interrupt(struct execution_run *run); /* SIGINT: the program may still end well */
void execution_kill(struct execution_run *run);

/* The spawner says something about a sandbox: sealed, or over (NULL: the spawner itself is). */
void execution_on_event(struct execution_run *run, const struct spawn_message *m);
