/* disk.h - blobs as files of a folder that is nobody else's
 *
 *   objects/a/b/c@    the blob "a/b/c"; the "@" keeps "a/b" apart from the folder of "a/b/c"
 *   tmp/...           what is being written; emptied by the next who opens the folder
 *
 * A blob is written in tmp, made durable, and moved into its place. Reading, writing and walking is
 * done by the threads of loop_work(). */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "blob/blob.h"
#include "event/loop.h"

struct disk_order {
    const char *dir;   /* made when it is not there; its parent must be. One process at a time */
    bool is_full_sync; /* what is done survives a power cut, too; without it such a blob may be
                          missing then, yet never cut short */
};

/* The calls of blob.h for the blob that this makes. */
MUST_CHECK int disk_open(struct blob **out, struct loop *loop, const struct disk_order *order,
                         struct error *err);
