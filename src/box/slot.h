/* slot.h - slot numbers: one per live sandbox on this machine; the slot gives host uid and cgroup
 *
 * A slot is held by a lock on one byte of a file that all spawners share, so it is free again when
 * its spawner dies, however that happens. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define SLOT_COUNT_MAX 65536

struct slot_table {
    int fd;
    unsigned count;
    off_t parent;  /* the byte of those who have their groups below the same one; 0: none */
    unsigned next; /* where the search begins, so that a freed slot rests for a while */
    uint8_t held[SLOT_COUNT_MAX / 8]; /* ours: the kernel grants a lock again to who holds it */
};

/* Slots 0 to count - 1; `dir` is made when it is missing and must be the caller's own. */
MUST_CHECK int slot_table_open(struct slot_table *table, const char *dir, unsigned count,
                               struct error *err);
void slot_table_close(struct slot_table *table);

MUST_CHECK int slot_acquire(struct slot_table *table, unsigned *slot, struct error *err);
bool slot_try(struct slot_table *table, unsigned slot); /* this very slot, if it is free */
void slot_release(struct slot_table *table, unsigned slot);
bool slot_is_held(const struct slot_table *table, unsigned slot); /* by this table */

/* A slot that somebody else holds may have been that of a spawner that died, with a group that is
 * nobody's any more: the other one has his groups elsewhere. So those whose groups stand below the
 * same parent (any number that tells it from others) hold a byte together... */
MUST_CHECK int slot_table_join(struct slot_table *table, uint64_t parent, struct error *err);

/* ...and who can have it alone knows that every group there that he does not hold is left over.
 * True: nobody can join until slot_table_share(). */
bool slot_table_claim(struct slot_table *table);
void slot_table_share(struct slot_table *table);
