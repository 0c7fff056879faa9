/* nearest.h - "did you mean ...?": the known word that is closest to a mistyped one */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define NEAREST_WORD_MAX_BYTES 64 /* longer words have no nearest one */

struct nearest {
    const char *word;
    const char *best; /* NULL while nothing offered is close enough; borrowed from the offer */
    unsigned distance;
};

/* Begin with (struct nearest){.word = typed} and offer every known name. */
void nearest_offer(struct nearest *nearest, const char *name);
