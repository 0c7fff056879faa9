/* sqlite_wal.h - a commit reaches SQLite's write-ahead log by one write, not by two for each page
 *
 * Only for the files sqlite*.c. A connection that is opened by this name differs in nothing else:
 * its files are those of the default VFS, and other connections need not know. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For sqlite3_open_v2(). NULL, which means the default VFS there, if it cannot be had. */
const char *sqlite_wal_vfs(void);
