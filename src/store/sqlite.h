/* sqlite.h - the store's back end on SQLite: one file, write-ahead log, no server
 *
 * `place` is the path of the database. Beside it lie the log (-wal, -shm) and a lock file (.lock),
 * which keeps a second coved out and remembers that there was a database. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store_ops.h"

extern const struct store_ops sqlite_ops;
