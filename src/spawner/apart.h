/* apart.h - whether a fork has a memory of its own, seen from outside
 *
 * An heir is asked to fork and to end, but the memory that it runs in is the tenant's: it may do
 * otherwise, and go on as a process that two sandboxes share. So a helper of ours looks: it freezes
 * the sandboxes of the brood, so that nobody can dodge, and compares the memory of each thread of
 * the others with that of each in the fork. Then it goes through the maps of the fork, in which
 * nothing may lie that somebody else could write to, and through its descriptors for such that show
 * another memory. It has a deadline, and what it froze is let go whatever becomes of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spawner/roster.h"

struct apart {
    struct apart *next;
    uint64_t sandbox;
    uint64_t brood;
    uint32_t serial; /* of who asks */
    pid_t pid;
    int pid_fd; /* owned */
};

/* Starts the helper. */
MUST_CHECK int apart_start(struct apart **out, struct sandbox *sb, const struct roster *all,
                           struct spawn_failure *failure);

/* The helper has ended; frees `a`. 0: the memory is the sandbox's alone. */
MUST_CHECK int apart_finish(struct apart *a, const struct roster *all,
                            struct spawn_failure *failure);
