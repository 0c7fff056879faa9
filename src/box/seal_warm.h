/* seal_warm.h - makes a sealed sandbox around a fork of the calling process, a zygote
 *
 * One process, cloned with new namespaces but the zygote's memory, seals itself as in a cold start.
 * Sealed, it forks: that child is a copy of the zygote that was never outside of the seal. Then it
 * becomes cove-init. So there is one seal for both, and page tables are copied once. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>

#include "box/seal.h"
#include "wire/kernel.h"

enum seal_warm_side {
    SEAL_WARM_ZYGOTE, /* the sandbox is made, or its failure has been told */
    SEAL_WARM_INSIDE  /* returned in the sealed copy, whose only fds are 0, 1, 2 and the channel */
};

/* Returns twice, like fork(). The caller must have one thread. Signals stay as they are. */
enum seal_warm_side seal_warm(const struct seal_plan *plan, int report_fd);

/* --- sandboxes that share one memory -----------------------------------------------------------
 *
 * A fork of a live kernel must come from a process that has the kernel's memory, and must be sealed
 * otherwise than the kernel. No process can gain that later. So both are made together: a *brood*
 * is a copy of the zygote that makes several sandboxes, each sealed as ever and with a process in
 * it that shares the brood's memory. Then the brood ends. The process in the first sandbox goes on
 * as its kernel; those in the others, the *heirs*, sleep in a system call until they are asked to
 * fork what the memory has become by then. All of them are sealed, and none has any power, before
 * the first instruction of a tenant's runs: whatever code does to that memory, it can do no more
 * with an heir than it could inside of the heir's sandbox. */
struct seal_brood {
    void *resume[5];                /* __builtin_setjmp(): where the first kernel goes on */
    struct kernel_fork_point point; /* where the kernel stands when it is forked */
    int gate_fd;    /* the reading end of a pipe; the other is the brood's process's alone */
    unsigned count; /* of sandboxes that it has made */
    int *tid;       /* where the C library keeps the thread's number */
    void *robust;   /* and its list of robust locks, with the length */
    size_t robust_len;
};

/* In the brood's process, with the plan's gate_fd set. `tid` and `resume` must be. */
void seal_warm_shared(const struct seal_plan *plan, int report_fd, struct seal_brood *brood);
