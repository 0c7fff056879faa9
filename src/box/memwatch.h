/* memwatch.h - memory of a sandbox where no cgroup counts it (rootless, with nothing delegated) */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Anonymous and shared memory of pid 1 `init` and all its descendants, what its sockets may hold,
 * and what lies in the storage. Below `limit` it may be too high, since pages that processes share
 * count for each; a sum above it is exact. */
uint64_t memwatch_sum(pid_t init, int storage_fd, uint64_t limit);
