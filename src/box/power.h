/* power.h - what the spawner may do here: as root, or in a user namespace of its own */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct power {
    bool is_rootless;
    uid_t uid_first;    /* ids for sandboxes, in the spawner's user namespace */
    unsigned uid_count; /* 0: there are none to give, sandboxes run under the caller's own */
};

/* Finds out, and where the caller is not root enters a user namespace (with the caller's
 * subordinate ids where the host grants some). Either way the process gets a mount namespace of its
 * own, so that nothing it mounts is seen outside. Call first in main(), single-threaded. */
MUST_CHECK int power_gain(struct power *out, struct error *err);
