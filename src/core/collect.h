/* collect.h - brings the artifacts out of a sandbox whose program is over
 *
 * The files worker lists the workspace; what is not an unchanged input is an artifact, and the
 * worker is asked for its bytes, which are hashed on the way. Whatever goes wrong inside cuts the
 * list short, and is no error. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "core/artifact.h"
#include "core/execution.h"
#include "event/loop.h"
#include "runtime/guest.h"

struct collect;

struct collect_order {
    struct guest *guest;                  /* borrowed, as everything here, until the free */
    const struct execution_input *inputs; /* what was there before */
    size_t input_count;
    int64_t since_ns;   /* only what changed since then; 0: everything */
    int64_t *newest_ns; /* raised to the time of the last change that was listed; NULL: not told */
    uint64_t max_file_bytes;
    uint64_t now_bytes; /* read so many at most, half of it of one file; 0: everything */
    struct artifact_list *artifacts; /* filled */
    const struct execution_events *events;
    void *events_ctx;
    void (*done)(void *ctx); /* exactly once, unless freed before */
    void *ctx;
};

MUST_CHECK int collect_new(struct collect **out, struct loop *loop,
                           const struct collect_order *order, struct error *err);
void collect_free(struct collect *collect);

/* cove-init says that its worker has ended (GUEST_FILES_DONE), and with which error. */
void collect_on_worker_done(struct collect *collect, int error);
