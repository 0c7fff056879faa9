/* sqlite_db.h - one connection: cached statements, records in and out, errors by their cause
 *
 * Only for the files sqlite*.c. A statement is prepared once, from constant text: values are bound,
 * never written into it. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sqlite3.h>

#include "store/store_ops.h"

struct strbuf;
struct sqlite_statement; /* belongs to its connection */

#define SQLITE_STATEMENTS_MAX 96

struct sqlite_db {
    sqlite3 *handle;
    int lock_fd;   /* of the writing connection; -1: none */
    int busy_ms;   /* how long to wait for another program's lock */
    int wal_pages; /* in the log, when the last commit was made */
    uint64_t turn;
    struct sqlite_statement *statements[SQLITE_STATEMENTS_MAX];
    size_t statement_count;
};

/* Answers -1, with what a result code of SQLite means for a caller. */
int sqlite_fault(struct sqlite_db *db, int code, struct error *err);

/* Runs text of ours that has no parameters. */
MUST_CHECK int sqlite_do(struct sqlite_db *db, const char *sql, struct error *err);

/* --- statements --------------------------------------------------------------------------------
 *
 * Found by `key` and `mask`, made from `sql` when it is not there. The text that fixed statements
 * are made from is their key. NULL: *err says why. */
struct sqlite_statement *sqlite_get(struct sqlite_db *db, const char *sql, struct error *err);
struct sqlite_statement *sqlite_find(struct sqlite_db *db, const void *key, unsigned mask);
struct sqlite_statement *sqlite_make(struct sqlite_db *db, const void *key, unsigned mask,
                                     const char *sql, struct error *err);

void sqlite_drop_statements(
    struct sqlite_db *db); /* all of them, before the connection is closed */

/* Binds each field that the statement has a parameter for. The record must live until the end. */
void sqlite_bind(struct sqlite_statement *st, const struct store_type *type, const void *record);
void sqlite_bind_text(struct sqlite_statement *st, const char *parameter, const char *text);
void sqlite_bind_i64(struct sqlite_statement *st, const char *parameter, int64_t value);

/* 1: there is a row. 0: that was all; -1: *err; after both the statement has ended. */
MUST_CHECK int sqlite_next(struct sqlite_statement *st, struct error *err);
void sqlite_end(struct sqlite_statement *st); /* ready to be used again; nothing is bound */

/* To its end; answers how many rows it changed, or -1. */
MUST_CHECK int sqlite_run(struct sqlite_statement *st, struct error *err);

/* All of it for a fixed statement: found, bound, run. */
MUST_CHECK int sqlite_change(struct sqlite_db *db, const char *sql, const struct store_type *type,
                             const void *argument, struct error *err);

/* The columns of the row. `record` is zeroed; it owns what is read, also on failure, which ends the
 * statement. */
MUST_CHECK int sqlite_read(struct sqlite_statement *st, const struct store_type *type, void *record,
                           struct error *err);
int64_t sqlite_i64(struct sqlite_statement *st, int column);
const char *sqlite_text(struct sqlite_statement *st, int column); /* until the next; never NULL */

/* --- what every record can do ---------------------------------------------------------------- */

MUST_CHECK int sqlite_insert(struct sqlite_db *db, const struct store_type *type,
                             const void *record, struct error *err);
/* The same, in place of the one that has its key. */
MUST_CHECK int sqlite_replace(struct sqlite_db *db, const struct store_type *type,
                              const void *record, struct error *err);

/* Adds every row that the statement gives, and ends it. */
MUST_CHECK int sqlite_read_all(struct sqlite_statement *st, struct store_rows *rows,
                               struct error *err);

void sqlite_add_columns(struct strbuf *sql, const struct store_type *type, bool has_heavy);
