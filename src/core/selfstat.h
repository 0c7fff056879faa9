/* selfstat.h - what this very process uses: memory, open files, time
 *
 * The file of /proc that tells is opened once: a process that has confined itself since can still
 * read it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/scoped.h"

struct selfstat;

struct selfstat *selfstat_new(void); /* what cannot be opened is told as 0 */
void selfstat_free(struct selfstat *self);
SCOPED_DEFINE(selfstat)

/* Plain data. */
struct selfstat_info {
    double cpu_seconds;
    uint64_t resident_bytes, virtual_bytes;
    uint64_t heap_bytes; /* in use: what the allocator keeps for later does not count */
    uint64_t open_fds, max_fds;
    uint64_t threads;
};

void selfstat_get_info(const struct selfstat *self, struct selfstat_info *out);
