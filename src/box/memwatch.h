/* memwatch.h - memory of a sandbox where no cgroup counts it (rootless, with nothing delegated) */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Anonymous memory of pid 1 `init` and all its descendants, plus what lies in the storage. An upper
 * bound: pages that forks share count once for each. */
uint64_t memwatch_sum(pid_t init, int storage_fd);
