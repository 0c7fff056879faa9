/* cull.h - the end of every process of a sandbox but for those that shall stay
 *
 * What cove-init does for its host in ordinary times, for times in which a bomb inside leaves it no
 * turn: from outside, with the sandbox frozen, so that nobody forks meanwhile. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spawner/sandbox.h"

/* Kills all but pid 1 and the pids (inside) of `order`. On failure *failure says why, and nobody
 * was killed: not sealed, a malformed order, a host that cannot freeze or has no uid for each
 * sandbox.
 */
MUST_CHECK int cull_sandbox(struct sandbox *sb, const struct spawn_cull *order,
                            struct spawn_failure *failure);
