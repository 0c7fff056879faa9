/* sqlite_schema.c - the tables of the store
 *
 * Columns have the names of the fields in store_field.c. A record that has not ended has ended_ns
 * 0, which is what the partial indexes go by. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_schema.h"

#include <stdio.h>

#define APPLICATION_ID 0x436f7665 /* "Cove", in the header of the file */

/* clang-format off */
static const char first_step[] =
    "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"

    "CREATE TABLE keys ("
    " id TEXT NOT NULL PRIMARY KEY, name TEXT, hash BLOB NOT NULL CHECK (length(hash) = 32),"
    " scopes TEXT NOT NULL, sessions INTEGER NOT NULL, cpu_milli INTEGER NOT NULL,"
    " memory_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,"
    " rate_per_minute INTEGER NOT NULL, created_ns INTEGER NOT NULL CHECK (created_ns >= 0),"
    " last_used_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL, revoked_ns INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX keys_by_time ON keys (created_ns, id);"

    "CREATE TABLE templates ("
    " id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, doc TEXT,"
    " version INTEGER NOT NULL, created_ns INTEGER NOT NULL CHECK (created_ns >= 0),"
    " updated_ns INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX templates_by_time ON templates (created_ns, id);"

    "CREATE TABLE sessions ("
    " id TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, name TEXT, state TEXT NOT NULL,"
    " template_id TEXT, language TEXT, node TEXT, epoch INTEGER NOT NULL,"
    " cpu_milli INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL CHECK (created_ns >= 0), last_used_ns INTEGER NOT NULL,"
    " expires_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL CHECK (ended_ns >= 0),"
    " metadata TEXT, doc TEXT, resume BLOB"
    ") STRICT;"
    "CREATE INDEX sessions_by_time ON sessions (created_ns, id);"
    "CREATE INDEX sessions_by_owner ON sessions (owner, created_ns, id);"
    "CREATE UNIQUE INDEX sessions_by_name ON sessions (owner, name)"
    " WHERE name IS NOT NULL AND ended_ns = 0;"
    "CREATE INDEX sessions_live ON sessions (node, created_ns, id) WHERE ended_ns = 0;"
    "CREATE INDEX sessions_of_template ON sessions (template_id) WHERE ended_ns = 0;"
    "CREATE INDEX sessions_ended ON sessions (ended_ns) WHERE ended_ns > 0;"

    "CREATE TABLE session_metadata ("
    " session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"
    " key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session_id, key)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX metadata_by_value ON session_metadata (key, value, session_id);"

    "CREATE TABLE usage ("
    " owner TEXT NOT NULL PRIMARY KEY, sessions INTEGER NOT NULL, cpu_milli INTEGER NOT NULL,"
    " memory_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TRIGGER session_begins AFTER INSERT ON sessions WHEN new.ended_ns = 0 BEGIN"
    " INSERT INTO usage VALUES (new.owner, 1, new.cpu_milli, new.memory_bytes, new.disk_bytes)"
    " ON CONFLICT (owner) DO UPDATE SET sessions = sessions + 1,"
    "  cpu_milli = cpu_milli + new.cpu_milli, memory_bytes = memory_bytes + new.memory_bytes,"
    "  disk_bytes = disk_bytes + new.disk_bytes;"
    " END;"
    "CREATE TRIGGER session_ends AFTER UPDATE OF ended_ns ON sessions"
    " WHEN old.ended_ns = 0 AND new.ended_ns > 0 BEGIN"
    " UPDATE usage SET sessions = sessions - 1, cpu_milli = cpu_milli - old.cpu_milli,"
    "  memory_bytes = memory_bytes - old.memory_bytes, disk_bytes = disk_bytes - old.disk_bytes"
    "  WHERE owner = old.owner;"
    " END;"
    "CREATE TRIGGER session_vanishes AFTER DELETE ON sessions WHEN old.ended_ns = 0 BEGIN"
    " UPDATE usage SET sessions = sessions - 1, cpu_milli = cpu_milli - old.cpu_milli,"
    "  memory_bytes = memory_bytes - old.memory_bytes, disk_bytes = disk_bytes - old.disk_bytes"
    "  WHERE owner = old.owner;"
    " END;"

    "CREATE TABLE executions ("
    " id TEXT NOT NULL PRIMARY KEY, session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,"
    " owner TEXT NOT NULL, state TEXT NOT NULL, language TEXT, node TEXT, epoch INTEGER NOT NULL,"
    " is_idempotent INTEGER NOT NULL, attempts INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL CHECK (created_ns >= 0), started_ns INTEGER NOT NULL,"
    " ended_ns INTEGER NOT NULL CHECK (ended_ns >= 0), heartbeat_ns INTEGER NOT NULL,"
    " request TEXT, doc TEXT"
    ") STRICT;"
    "CREATE INDEX executions_by_time ON executions (created_ns, id);"
    "CREATE INDEX executions_by_owner ON executions (owner, created_ns, id);"
    "CREATE INDEX executions_of_session ON executions (session_id, created_ns, id)"
    " WHERE session_id IS NOT NULL;"
    "CREATE INDEX executions_live ON executions (node, created_ns, id) WHERE ended_ns = 0;"
    "CREATE INDEX executions_ended ON executions (ended_ns) WHERE ended_ns > 0;"

    "CREATE TABLE artifacts ("
    " execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,"
    " path TEXT NOT NULL, mime TEXT, place TEXT, size INTEGER NOT NULL, mode INTEGER NOT NULL,"
    " modified_ns INTEGER NOT NULL, sha256 BLOB CHECK (sha256 IS NULL OR length(sha256) = 32),"
    " PRIMARY KEY (execution_id, path)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE checkpoints ("
    " id TEXT NOT NULL PRIMARY KEY,"
    " session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,"
    " name TEXT, doc TEXT, is_lost INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL CHECK (created_ns >= 0)"
    ") STRICT;"
    "CREATE INDEX checkpoints_of_session ON checkpoints (session_id, created_ns, id);"

    "CREATE TABLE attempts ("
    " owner TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL,"
    " hash BLOB NOT NULL CHECK (length(hash) = 32), state TEXT NOT NULL, resource TEXT,"
    " node TEXT NOT NULL, epoch INTEGER NOT NULL, status INTEGER NOT NULL, response TEXT,"
    " created_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL,"
    " PRIMARY KEY (owner, route, key)"
    ") STRICT;"
    "CREATE INDEX attempts_by_end ON attempts (expires_ns);"

    "CREATE TABLE nodes ("
    " id TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL, heartbeat_ns INTEGER NOT NULL, doc TEXT"
    ") STRICT;";
/* clang-format on */

/* Looks for artifacts that have bytes, among many that have none any more. */
static const char second_step[] =
    "CREATE INDEX artifacts_kept ON artifacts (execution_id, size) WHERE place IS NOT NULL;";

/* A save that was cut off leaves a row, so that what it has written can be found and removed. */
static const char third_step[] =
    "CREATE TABLE workspaces ("
    " id TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " chunks INTEGER NOT NULL, created_ns INTEGER NOT NULL CHECK (created_ns >= 0),"
    " saved_ns INTEGER NOT NULL CHECK (saved_ns >= 0)"
    ") STRICT;"
    "CREATE INDEX workspaces_by_time ON workspaces (created_ns, id);"
    "CREATE INDEX workspaces_by_owner ON workspaces (owner, created_ns, id);"
    "CREATE VIEW saved_workspaces AS SELECT * FROM workspaces WHERE saved_ns > 0;";

const char *const sqlite_steps[] = {first_step, second_step, third_step};
const size_t sqlite_step_count = ARRAY_LEN(sqlite_steps);

static int read_number(struct sqlite_db *db, const char *sql, int64_t *out, struct error *err)
{
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st || sqlite_next(st, err) < 0)
        return -1;
    *out = sqlite_i64(st, 0);
    sqlite_end(st);
    return 0;
}

/* The numbers in the header take no parameters; both are ours. */
static int set_header(struct sqlite_db *db, size_t version, struct error *err)
{
    char sql[96];
    snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %zu",
             APPLICATION_ID, version);
    return sqlite_do(db, sql, err);
}

static int take_step(struct sqlite_db *db, const char *step, size_t version, struct error *err)
{
    struct error ignored;
    if (sqlite_do(db, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    if (sqlite_do(db, step, err) == 0 && set_header(db, version, err) == 0 &&
        sqlite_do(db, "COMMIT", err) == 0)
        return 0;
    if (!sqlite3_get_autocommit(db->handle) && sqlite_do(db, "ROLLBACK", &ignored) < 0)
        return -1; /* the connection is closed next */
    return -1;
}

static int check_header(int64_t application, int64_t tables, int64_t version, size_t known,
                        struct error *err)
{
    if (application != APPLICATION_ID && (tables > 0 || application != 0)) {
        error_set(err, ERROR_INVALID, "it is the database of another program");
        return error_hint(err, "give Cove a path of its own");
    }
    if (version < 0 || (uint64_t)version > known) {
        error_set(err, ERROR_INVALID, "it has version %lld, and this program knows 1 to %zu",
                  (long long)version, known);
        return error_hint(err, "start a newer Cove, or restore the backup from before the upgrade");
    }
    return 0;
}

int sqlite_migrate(struct sqlite_db *db, const char *const *steps, size_t count, struct error *err)
{
    int64_t application, tables, version;
    if (read_number(db, "PRAGMA application_id", &application, err) < 0 ||
        read_number(db, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0 ||
        read_number(db, "PRAGMA user_version", &version, err) < 0 ||
        check_header(application, tables, version, count, err) < 0)
        return -1;
    for (size_t i = (size_t)version; i < count; i++) {
        if (take_step(db, steps[i], i + 1, err) < 0)
            return error_wrap(err, "bring the database to version %zu", i + 1);
    }
    return 0;
}
