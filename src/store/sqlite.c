/* sqlite.c - opening a database with care, transactions, and the table of verbs
 *
 * The database is one coved's: a lock on a file beside it says so, as SQLite itself would let
 * several programs in. (Never a lock on the database: closing any fd of it would drop SQLite's
 * own.) The lock file is not empty once a database was made, so that one which has vanished since
 * is not replaced by an empty one without a word. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "store/sqlite_schema.h"
#include "store/sqlite_verbs.h"
#include "store/sqlite_wal.h"

#define BUSY_DEFAULT_MS         5000
#define CHECK_DEFAULT_MAX_BYTES (32 * MIB)
#define CHECKPOINT_PAGES        1000 /* of the log, then they are copied into the database */

static const char lock_mark[] = "a database was made\n";

/* --- the files ------------------------------------------------------------------------------- */

/* What the system says about a file of ours, in the words that SQLite's errors have. */
static int file_error(struct sqlite_db *db, const char *what, struct error *err)
{
    int cause = errno;
    bool is_full = cause == ENOSPC || cause == EDQUOT;
    bool is_closed = cause == EROFS || cause == EACCES || cause == EPERM;
    sqlite_fault(db, is_full ? SQLITE_FULL : is_closed ? SQLITE_READONLY : SQLITE_CANTOPEN, err);
    err->sys_errno = cause;
    return error_wrap(err, "%s", what);
}

static int take_lock(struct sqlite_db *db, const char *path, struct error *err)
{
    scoped_free char *lock_path = xasprintf("%s.lock", path);
    scoped_fd int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return file_error(db, "lock file", err);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        error_set(err, ERROR_UNAVAILABLE, "it is in use by another coved");
        return error_hint(err, "end the other one, or give this one a data directory of its own");
    }
    db->lock_fd = take_fd(&fd);
    return 0;
}

static int mark_made(struct sqlite_db *db, struct error *err)
{
    if (pwrite(db->lock_fd, lock_mark, strlen(lock_mark), 0) != (ssize_t)strlen(lock_mark))
        return file_error(db, "lock file", err);
    return 0;
}

/* Makes the file, for nobody's eyes but ours; one that should be there and is not is an error. */
static int make_file(struct sqlite_db *db, const char *path, struct error *err)
{
    struct stat lock, file;
    bool was_made = fstat(db->lock_fd, &lock) == 0 && lock.st_size > 0;
    bool is_there = stat(path, &file) == 0 && file.st_size > 0;
    if (is_there)
        return 0;
    if (was_made) {
        error_set(err, ERROR_UNAVAILABLE, "it is missing or empty, though it was made before");
        return error_hint(err, "restore a backup; or remove '%s.lock' to begin with an empty one",
                          path);
    }
    scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? file_error(db, "make it", err) : 0;
}

/* --- opening --------------------------------------------------------------------------------- */

static int on_commit(void *ctx, sqlite3 *handle, const char *name, int pages)
{
    struct sqlite_db *db = ctx;
    (void)handle;
    (void)name;
    db->wal_pages = pages;
    return SQLITE_OK;
}

/* Runs `sql` and compares the first column of its first row. */
static int expect(struct sqlite_db *db, const char *sql, const char *word, enum error_code code,
                  const char *what, struct error *err)
{
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    if (!st || sqlite_next(st, err) < 0)
        return -1;
    bool is_equal = strcmp(sqlite_text(st, 0), word) == 0;
    sqlite_end(st);
    return is_equal ? 0 : error_set(err, code, "%s", what);
}

static int connect_file(struct sqlite_db *db, const struct store_order *order, const char *vfs,
                        struct error *err)
{
    int code =
        sqlite3_open_v2(order->place, &db->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
    if (code != SQLITE_OK)
        return sqlite_fault(db, code, err);
    db->busy_ms = (int)(order->busy_ms ? order->busy_ms : BUSY_DEFAULT_MS);
    sqlite3_busy_timeout(db->handle, db->busy_ms);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return sqlite_fault(db, SQLITE_READONLY, err);
    return sqlite_do(db,
                     "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                     "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY",
                     err);
}

static int set_durability(struct sqlite_db *db, const struct store_order *order, struct error *err)
{
    static const char *const pragmas[] = {[STORE_SYNC_NORMAL] = "PRAGMA synchronous = NORMAL",
                                          [STORE_SYNC_FULL] = "PRAGMA synchronous = FULL",
                                          [STORE_SYNC_NONE] = "PRAGMA synchronous = OFF"};
    if (sqlite_do(db, pragmas[order->sync], err) < 0)
        return -1;
    if (expect(db, "PRAGMA journal_mode = WAL", "wal", ERROR_UNAVAILABLE,
               "its file system cannot hold a write-ahead log", err) < 0)
        return -1;
    sqlite3_wal_hook(db->handle, on_commit, db); /* in place of the automatic checkpoints */
    /* A transaction lies in memory until its commit, however large: a group has a limit. SQLite up
     * to 3.50.1 writes wrong sums when some of it was in the log and is undone by a savepoint, and
     * a crash would lose it and all behind it. */
    if (sqlite_do(db, "PRAGMA cache_spill = OFF", err) < 0)
        return -1;
    /* A log that had to grow, as on a full disk, gives its space back. */
    if (sqlite_do(db, "PRAGMA journal_size_limit = 67108864", err) < 0)
        return -1;
    return 0;
}

/* Every page of a small database; of a large one SQLite sees what it comes across. */
static int check_pages(struct sqlite_db *db, const struct store_order *order, struct error *err)
{
    struct stat file;
    uint64_t max = order->check_max_bytes ? order->check_max_bytes : CHECK_DEFAULT_MAX_BYTES;
    if (stat(order->place, &file) < 0)
        return file_error(db, "stat", err);
    if ((uint64_t)file.st_size > max)
        return 0;
    struct error damaged;
    sqlite_fault(db, SQLITE_CORRUPT, &damaged);
    if (expect(db, "PRAGMA quick_check(1)", "ok", damaged.code, damaged.msg, err) == 0)
        return 0;
    return err->hint[0] ? -1 : error_hint(err, "%s", damaged.hint);
}

/* A commit that goes through is the only proof that others will. */
static int try_write(struct sqlite_db *db, struct error *err)
{
    return sqlite_do(
        db, "REPLACE INTO meta (key, value) VALUES ('opened_at', strftime('%s', 'now'))", err);
}

static int open_writer(struct sqlite_db *db, const struct store_order *order, struct error *err)
{
    bool is_open = take_lock(db, order->place, err) == 0 && make_file(db, order->place, err) == 0 &&
                   connect_file(db, order, sqlite_wal_vfs(), err) == 0 &&
                   set_durability(db, order, err) == 0 && check_pages(db, order, err) == 0 &&
                   sqlite_migrate(db, sqlite_steps, sqlite_step_count, err) == 0 &&
                   try_write(db, err) == 0 && mark_made(db, err) == 0;
    return is_open ? 0 : -1;
}

static int open_reader(struct sqlite_db *db, const struct store_order *order, struct error *err)
{
    if (connect_file(db, order, NULL, err) < 0)
        return -1;
    return sqlite_do(db, "PRAGMA query_only = ON", err);
}

static void sqlite_close(void *ctx)
{
    struct sqlite_db *db = ctx;
    sqlite_drop_statements(db);
    sqlite3_close(db->handle);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    free(db);
}

static int sqlite_open(void **out, const struct store_order *order, enum store_lane lane,
                       struct error *err)
{
    struct sqlite_db *db = xcalloc(1, sizeof(*db));
    db->lock_fd = -1;
    int result =
        lane == STORE_LANE_WRITE ? open_writer(db, order, err) : open_reader(db, order, err);
    if (result < 0) {
        sqlite_close(db);
        return error_wrap(err, "database '%s'", order->place);
    }
    *out = db;
    return 0;
}

/* --- transactions ---------------------------------------------------------------------------- */

/* What is written to a file that has no name any more is lost at the next start. */
static int check_place(struct sqlite_db *db, struct error *err)
{
    int has_moved = 0;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    if (!has_moved)
        return 0;
    error_set(err, ERROR_UNAVAILABLE, "the file of the database has been moved or removed");
    return error_hint(err, "put it back, or restart the server");
}

static bool has_transaction(struct sqlite_db *db)
{
    return sqlite3_get_autocommit(db->handle) == 0;
}

static int step_fixed(struct sqlite_db *db, const char *sql, struct error *err)
{
    struct sqlite_statement *st = sqlite_get(db, sql, err);
    return st && sqlite_run(st, err) >= 0 ? 0 : -1;
}

static const char begin_sql[] = "BEGIN IMMEDIATE", commit_sql[] = "COMMIT",
                  rollback_sql[] = "ROLLBACK", save_sql[] = "SAVEPOINT call",
                  keep_sql[] = "RELEASE call", undo_sql[] = "ROLLBACK TO call";

static void rollback(struct sqlite_db *db)
{
    struct error ignored;
    if (has_transaction(db) && step_fixed(db, rollback_sql, &ignored) < 0)
        sqlite3_exec(db->handle, rollback_sql, NULL, NULL, NULL);
}

static int lost_transaction(struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, "the database has given the transaction up");
    err->retry_ms = 1000;
    return -1;
}

static int sqlite_begin(void *ctx, bool is_patient, struct error *err)
{
    struct sqlite_db *db = ctx;
    if (check_place(db, err) < 0)
        return -1;
    sqlite3_busy_timeout(db->handle, is_patient ? db->busy_ms : 0);
    int result = step_fixed(db, begin_sql, err);
    sqlite3_busy_timeout(db->handle, db->busy_ms);
    return result;
}

static int sqlite_commit(void *ctx, struct error *err)
{
    struct sqlite_db *db = ctx;
    if (!has_transaction(db))
        return lost_transaction(err);
    if (step_fixed(db, commit_sql, err) == 0)
        return 0;
    rollback(db);
    return -1;
}

static void sqlite_abandon(void *ctx)
{
    rollback(ctx);
}

static int sqlite_mark(void *ctx, uint64_t entry, struct error *err)
{
    struct sqlite_statement *st = sqlite_get(
        ctx, "REPLACE INTO meta (key, value) VALUES ('ledger', CAST(:entry AS TEXT))", err);
    if (!st)
        return -1;
    sqlite_bind_i64(st, ":entry", (int64_t)entry);
    return sqlite_run(st, err) < 0 ? -1 : 0;
}

static int sqlite_get_mark(void *ctx, uint64_t *entry, struct error *err)
{
    struct sqlite_statement *st =
        sqlite_get(ctx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'ledger'", err);
    int found = st ? sqlite_next(st, err) : -1;
    *entry = found > 0 ? (uint64_t)sqlite_i64(st, 0) : 0;
    if (found > 0)
        sqlite_end(st);
    return found;
}

static bool sqlite_needs_rest(void *ctx)
{
    const struct sqlite_db *db = ctx;
    return db->wal_pages >= CHECKPOINT_PAGES;
}

/* After the answers, since it syncs the disk. When it fails, the log stays as it is and grows. */
static void sqlite_rest(void *ctx)
{
    struct sqlite_db *db = ctx;
    if (sqlite_needs_rest(db))
        sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    db->wal_pages = 0; /* the next commit tells again */
}

/* --- verbs ----------------------------------------------------------------------------------- */

static sqlite_verb_fn *const verbs[STORE_VERB_COUNT] = {
    [STORE_VERB_ADD_SESSION] = sqlite_add_session,
    [STORE_VERB_KEEP_SESSION] = sqlite_add_session,
    [STORE_VERB_CHANGE_SESSION] = sqlite_change_session,
    [STORE_VERB_GET_SESSION] = sqlite_get_record,
    [STORE_VERB_LIST_SESSIONS] = sqlite_list_records,
    [STORE_VERB_GET_USAGE] = sqlite_get_usage,
    [STORE_VERB_ADD_EXECUTION] = sqlite_add_execution,
    [STORE_VERB_KEEP_EXECUTION] = sqlite_add_execution,
    [STORE_VERB_CHANGE_EXECUTION] = sqlite_change_execution,
    [STORE_VERB_GET_EXECUTION] = sqlite_get_record,
    [STORE_VERB_LIST_EXECUTIONS] = sqlite_list_records,
    [STORE_VERB_PUT_ARTIFACT] = sqlite_put_artifact,
    [STORE_VERB_LIST_ARTIFACTS] = sqlite_list_artifacts,
    [STORE_VERB_LIST_STALE] = sqlite_list_stale,
    [STORE_VERB_GET_KEPT] = sqlite_get_kept,
    [STORE_VERB_PUT_CHECKPOINT] = sqlite_put_checkpoint,
    [STORE_VERB_REMOVE_CHECKPOINT] = sqlite_remove_checkpoint,
    [STORE_VERB_LIST_CHECKPOINTS] = sqlite_list_records,
    [STORE_VERB_PUT_WORKSPACE] = sqlite_put_workspace,
    [STORE_VERB_REMOVE_WORKSPACE] = sqlite_remove_workspace,
    [STORE_VERB_GET_WORKSPACE] = sqlite_get_record,
    [STORE_VERB_LIST_WORKSPACES] = sqlite_list_records,
    [STORE_VERB_LIST_STALE_SAVES] = sqlite_list_stale_workspaces,
    [STORE_VERB_ADD_TEMPLATE] = sqlite_add_template,
    [STORE_VERB_SEED_TEMPLATE] = sqlite_seed_template,
    [STORE_VERB_CHANGE_TEMPLATE] = sqlite_change_template,
    [STORE_VERB_REMOVE_TEMPLATE] = sqlite_remove_template,
    [STORE_VERB_GET_TEMPLATE] = sqlite_get_record,
    [STORE_VERB_LIST_TEMPLATES] = sqlite_list_records,
    [STORE_VERB_ADD_KEY] = sqlite_add_key,
    [STORE_VERB_CHANGE_KEY] = sqlite_change_key,
    [STORE_VERB_GET_KEY] = sqlite_get_record,
    [STORE_VERB_LIST_KEYS] = sqlite_list_records,
    [STORE_VERB_BEGIN_ATTEMPT] = sqlite_begin_attempt,
    [STORE_VERB_END_ATTEMPT] = sqlite_end_attempt,
    [STORE_VERB_DROP_ATTEMPT] = sqlite_drop_attempt,
    [STORE_VERB_BEGIN_NODE] = sqlite_begin_node,
    [STORE_VERB_BEAT_NODE] = sqlite_beat_node,
    [STORE_VERB_LIST_NODES] = sqlite_list_records,
    [STORE_VERB_RETAIN] = sqlite_retain,
};

/* Undoes what the call has done; when not even that works the whole transaction goes. */
static void undo(struct sqlite_db *db)
{
    struct error ignored;
    if (has_transaction(db) &&
        (step_fixed(db, undo_sql, &ignored) < 0 || step_fixed(db, keep_sql, &ignored) < 0))
        rollback(db);
}

static int run_write(struct sqlite_db *db, enum store_verb verb, const void *argument,
                     struct store_rows *rows, struct error *err)
{
    /* Without a transaction each statement would be committed by itself. */
    if (!has_transaction(db))
        return lost_transaction(err);
    if (step_fixed(db, save_sql, err) < 0)
        return -1;
    if (verbs[verb](db, argument, rows, err) == 0 && step_fixed(db, keep_sql, err) == 0)
        return 0;
    undo(db);
    return -1;
}

static int sqlite_run_verb(void *ctx, enum store_verb verb, const void *argument,
                           struct store_rows *rows, struct error *err)
{
    struct sqlite_db *db = ctx;
    if (db->lock_fd >= 0)
        return run_write(db, verb, argument, rows, err);
    return verbs[verb](db, argument, rows, err);
}

static uint64_t sqlite_memory(void)
{
    return (uint64_t)sqlite3_memory_used();
}

const struct store_ops sqlite_ops = {
    .open = sqlite_open,
    .close = sqlite_close,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .run = sqlite_run_verb,
    .abandon = sqlite_abandon,
    .mark = sqlite_mark,
    .get_mark = sqlite_get_mark,
    .needs_rest = sqlite_needs_rest,
    .rest = sqlite_rest,
    .memory = sqlite_memory,
};
