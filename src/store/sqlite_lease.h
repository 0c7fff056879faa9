/* sqlite_lease.h - may this node change that record, and is it as expected? */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/sqlite_db.h"

struct sqlite_lease {
    const char *id;
    const char *node; /* which must hold it; NULL: whoever does */
    uint64_t epoch;
    uint64_t from; /* the states it may be in; 0: any */
};

/* Of a session or an execution. *state is what it is in; ERROR_NOT_FOUND, ERROR_CONFLICT. */
MUST_CHECK int sqlite_lease_check(struct sqlite_db *db, const struct store_type *type,
                                  const struct sqlite_lease *wanted, unsigned *state,
                                  struct error *err);
