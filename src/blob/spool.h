/* spool.h - blobs that are safe on the disk at once, and go on to a back end that may be dead
 *
 * A put is done when the near store has it. From there blobs are moved to the far one, one after
 * the other and as often as it takes, also by the next process. A reader gets a blob from where it
 * is; one that moves is at both places for a moment, and never at none. Keys have to name their
 * bytes: the same key twice is the same blob.
 *
 * Who lists, lists one of the two stores. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/log.h"
#include "blob/blob.h"
#include "event/loop.h"

struct spool_order {
    struct loop *loop;
    const struct log *log;
    struct blob *near, *far; /* borrowed as long as the spool lives */
    const char *prefix;      /* what is moved, "artifacts/"; for the call */
    uint64_t pause_ms;       /* after a first failure; it doubles; 0: 1 s */
};

/* Begins with what a process before has left. The calls of blob.h, but for blob_list(). */
struct blob *spool_new(const struct spool_order *order);
