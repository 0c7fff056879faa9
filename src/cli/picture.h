/* picture.h - which results are pictures, and how large they are; pure
 *
 * The bytes are a stranger's: only their first few are looked at. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "core/result.h"

struct picture {
    const struct result_form *form; /* borrowed from the result */
    const char *extension;          /* "png" */
    unsigned width, height;         /* 0: not known */
};

/* The best picture among the forms of a result; false when it has none that looks like one. */
bool picture_find(struct picture *out, const struct result *result);
