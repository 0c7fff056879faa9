/* seal_warm.h - makes a sealed sandbox around a fork of the calling process, a zygote
 *
 * One process, cloned with new namespaces but the zygote's memory, seals itself as in a cold start.
 * Sealed, it forks: that child is a copy of the zygote that was never outside of the seal. Then it
 * becomes cove-init. So there is one seal for both, and page tables are copied once. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/seal.h"

enum seal_warm_side {
    SEAL_WARM_ZYGOTE, /* the sandbox is made, or its failure has been told */
    SEAL_WARM_INSIDE  /* returned in the sealed copy, whose only fds are 0, 1, 2 and the channel */
};

/* Returns twice, like fork(). The caller must have one thread. Signals stay as they are. */
enum seal_warm_side seal_warm(const struct seal_plan *plan, int report_fd);
