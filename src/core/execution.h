/* execution.h - what came of code that ran, in a sandbox of its own (run.h) or in a session
 * (cell.h)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "core/artifact.h"
#include "core/output.h"
#include "core/result.h"
#include "core/stdio.h"
#include "core/verdict.h"

/* A file for the workspace. Its bytes are read from `fd` (a regular file), which is taken. */
struct execution_input {
    char *path; /* relative to the workspace; owned */
    int fd;
    uint64_t size;
    uint32_t mode;
    int64_t mtime_ns; /* kept inside, and by which a change is noticed */
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
    bool is_unbegun;    /* the host that was to begin it has ended before: nothing of it ran */
    struct error error; /* infrastructure: code and message; msg is "" when there was none */
};

/* What is known when it is asked for; everything else is zero. */
void execution_init(struct execution *e, const struct spawn_limits *limits, uint64_t timeout_ms,
                    size_t output_bytes);
void execution_release(struct execution *e);

/* It is over: reaches the verdict, by its error if there is one, else by its facts. */
void execution_judge(struct execution *e);

struct execution_events {
    void (*output)(void *ctx, enum execution_stream stream, const void *data, size_t len);
    void (*result)(void *ctx, const struct result *result); /* of a session; borrowed, and whole */
    /* An artifact's bytes, between begin and end; any of them may be NULL. */
    void (*artifact_begin)(void *ctx, const struct artifact *artifact);
    void (*artifact_data)(void *ctx, const void *data, size_t len);
    void (*artifact_end)(void *ctx, const struct artifact *artifact);
    void (*ended)(void *ctx, const struct execution *e);
};
