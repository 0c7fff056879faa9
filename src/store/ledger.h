/* ledger.h - a file for records that are told before they are in the database
 *
 * To append to it is one write, where a commit is a dozen. Entries are numbered; the database keeps
 * the number of the last that it has taken over, in the same transaction as what that entry says.
 * Once it has them all the next one goes to the beginning of the file, over the old ones, so that
 * the file stays as small as the most that ever waited. What a dying process has left half written
 * is found out by a sum, and was told to nobody. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"

#define LEDGER_MAX_BYTES (4 * MIB) /* of the file */

struct ledger;

/* Makes the file when it is not there. */
MUST_CHECK int ledger_open(struct ledger **out, const char *path, struct error *err);
void ledger_free(struct ledger *ledger);
SCOPED_DEFINE(ledger)

/* -1, with `err` filled: stop. */
typedef int (*ledger_fn)(void *ctx, const void *body, size_t len, struct error *err);

/* Calls `fn` for every entry with a number above `after`, in their order. Later ones have higher
 * numbers than these and `after`. */
MUST_CHECK int ledger_read(struct ledger *ledger, uint64_t after, ledger_fn fn, void *ctx,
                           struct error *err);

uint64_t ledger_last(const struct ledger *ledger); /* the number of the last entry; 0: none yet */

/* The next entry, written by ledger_write() with all others since the last. False: no room. */
bool ledger_add(struct ledger *ledger, const void *body, size_t len);

/* -1: none of them is there. errno is set. */
MUST_CHECK int ledger_write(struct ledger *ledger);

void ledger_rewind(struct ledger *ledger); /* the database has all of it */

/* The same, before the first entry: nothing of what is there shall be read again. */
MUST_CHECK int ledger_empty(struct ledger *ledger, struct error *err);
