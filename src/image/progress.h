/* progress.h - how long work tells how far it is */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* `phase` is a short text for people ("download packages"), borrowed for the call; `percent` is of
 * the whole work and never goes back. */
typedef void (*progress_fn)(void *ctx, const char *phase, unsigned percent);

struct progress {
    progress_fn tell; /* NULL: nobody wants to know */
    void *ctx;
};

static inline void progress_tell(const struct progress *progress, const char *phase,
                                 unsigned percent)
{
    if (progress && progress->tell)
        progress->tell(progress->ctx, phase, percent);
}
