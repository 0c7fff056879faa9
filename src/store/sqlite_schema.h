/* sqlite_schema.h - the tables, as the steps that lead to them */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/sqlite_db.h"

/* Brings the database to version `count`, each step in a transaction of its own; a step that was
 * ever released is never changed. A database of a higher version, or of another program, is
 * refused and left alone. */
MUST_CHECK int sqlite_migrate(struct sqlite_db *db, const char *const *steps, size_t count,
                              struct error *err);

extern const char *const sqlite_steps[];
extern const size_t sqlite_step_count;
