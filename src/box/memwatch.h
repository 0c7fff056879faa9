/* memwatch.h - memory of a sandbox where no cgroup counts it (rootless, with nothing delegated) */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Anonymous and shared memory of pid 1 `init` and all its descendants, what its sockets may hold,
 * and what lies in the storage. Pages that processes share count once for each; those that none has
 * mapped, as of a memfd that was only written, are not seen. */
uint64_t memwatch_sum(pid_t init, int storage_fd);
