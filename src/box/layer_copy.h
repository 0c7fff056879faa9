/* layer_copy.h - what a build sandbox has left, copied file by file into a package layer
 *
 * The source is the workspace of a sandbox whose processes are gone: nothing moves in it. It may
 * still hold anything, so only plain files, directories and links that stay inside are taken, with
 * modes and owner of our own, and everything else refuses the whole. No content is looked at, no
 * link is followed, no path is put together. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

#define LAYER_DEPTH_MAX 64 /* directories inside each other */

struct layer_copy {
    uint64_t bytes_max, entries_max;
    uint64_t bytes, entries; /* so far */
    const char *step;        /* of a failure: a constant text */
};

/* 0, or -1 with errno: then `to` holds a part. EFBIG: more than bytes_max or entries_max; EINVAL:
 * something that a layer must not have. */
MUST_CHECK int layer_copy_tree(struct layer_copy *copy, int from_fd, int to_fd);

/* Removes all that is below, and nothing that a link leads to. 0, or -1 with errno. */
MUST_CHECK int layer_empty(int dir_fd);
