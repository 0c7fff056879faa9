/* tail.h - the last of what a session's executions printed, for operators
 *
 * A ring in memory: the oldest bytes make room for the newest. It takes no more memory than was
 * printed, and never more than its maximum. What is printed shortly after one another on one stream
 * is one piece. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/scoped.h"
#include "core/stdio.h"

#define TAIL_MAX_BYTES (64 * 1024) /* the usual maximum */

struct strbuf;
struct tail;

struct tail *tail_new(size_t max_bytes);
void tail_free(struct tail *tail);
SCOPED_DEFINE(tail)

/* `data` may be anything, and longer than all there is room for: its end stays. */
void tail_add(struct tail *tail, enum execution_stream stream, const void *data, size_t len,
              int64_t wall_ns);

uint64_t tail_dropped(const struct tail *tail); /* bytes of output that are gone */

struct tail_piece {
    int64_t wall_ns; /* when it began */
    enum execution_stream stream;
};

/* The pieces, oldest first: *at is 0 for the first, and moved. The bytes are added to `text`, which
 * needs room for the maximum. False: that was the last. */
bool tail_read(const struct tail *tail, size_t *at, struct tail_piece *out, struct strbuf *text);
