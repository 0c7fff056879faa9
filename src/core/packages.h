/* packages.h - the packages that a sandbox is to have: what was asked for, and which layer that is
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/requirement.h"

/* Where packages come from, as the operator says; an address that is NULL is the installer's own
 * choice. Borrowed. */
struct packages_source {
    const char *recipes_dir;
    const char *installers_dir; /* what is handed into build sandboxes */
    const char *addresses[2];   /* by enum runner_index */
};

struct packages {
    struct requirement_set set;
    struct runner_installer installer;
    char *language;
    uint8_t image[SHA256_BYTES];
    uint8_t digest[SHA256_BYTES];
};

/* ERROR_INVALID: the language has none, or one of them cannot be taken. No `wanted` is no error:
 * then count is 0, and the digest all zero. */
MUST_CHECK int packages_make(struct packages *out, const struct packages_source *source,
                             const struct runner *runner, char *const *wanted, size_t count,
                             struct error *err);
void packages_release(struct packages *packages); /* a zeroed one is fine */
