/* test_sqlite_wal.c - a commit is one write, and nothing else has changed
 *
 * What a connection does that holds frames back is looked at by one that does not, and compared
 * with a model. Writes are counted, cut short and refused where the default VFS calls the system.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_wal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define KEYS       24
#define DEPTH_MAX  4
#define STEPS      700
#define KILLS      40
#define BLOB_BYTES 9000

/* --- the system call under SQLite ------------------------------------------------------------ */

typedef ssize_t write_fn(int fd, const void *data, size_t len, off_t at);

/* The table of calls is SQLite's, and one for the process. */
static struct {
    write_fn *real;
    unsigned count;
    unsigned fails_at; /* the call, counted from the arming on; 0: none */
    int cause;         /* errno of the one that fails and of those after it; 0: SIGKILL */
    size_t part;       /* of its bytes that are written all the same */
} calls;

static ssize_t write_or_fail(int fd, const void *data, size_t len, off_t at)
{
    calls.count++;
    if (calls.fails_at == 0 || calls.count < calls.fails_at)
        return calls.real(fd, data, len, at);
    bool is_first = calls.count == calls.fails_at;
    ssize_t n = is_first ? calls.real(fd, data, MIN(len, calls.part), at) : 0;
    if (calls.cause == 0)
        kill(getpid(), SIGKILL);
    if (n > 0)
        return n; /* SQLite asks for the rest, which fails */
    errno = calls.cause;
    return -1;
}

static void calls_arm(unsigned fails_at, int cause, size_t part)
{
    calls.count = 0;
    calls.fails_at = fails_at;
    calls.cause = cause;
    calls.part = part;
}

static void calls_disarm(void)
{
    calls_arm(0, 0, 0);
}

static void calls_begin(void)
{
    static const char *const names[] = {"pwrite64", "pwrite"}; /* by how SQLite was compiled */
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        calls.real = (write_fn *)vfs->xGetSystemCall(vfs, names[i]);
        if (!calls.real)
            continue;
        BUG_ON(vfs->xSetSystemCall(vfs, names[i], (sqlite3_syscall_ptr)write_or_fail) != SQLITE_OK);
        return;
    }
    BUG_ON(true);
}

/* --- a database ------------------------------------------------------------------------------ */

struct world {
    char *dir, *path;
    sqlite3 *db;    /* holds frames back */
    sqlite3 *plain; /* does not */
};

static sqlite3 *open_db(const char *path, const char *vfs)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    assert_int_equal(sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_EXRESCODE, vfs), SQLITE_OK);
    return db;
}

static int try_sql(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (try_sql(db, sql) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static int64_t ask_sql(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return number;
}

static void assert_intact(sqlite3 *db)
{
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
}

struct kind {
    int page_bytes;
    const char *sync, *uri; /* what comes behind the path */
};

static sqlite3 *open_kind(const struct world *w, const struct kind *kind, const char *vfs)
{
    char sql[256];
    scoped_free char *uri = xasprintf("file:%s%s", w->path, kind->uri);
    sqlite3 *db = open_db(uri, vfs);
    snprintf(sql, sizeof(sql),
             "PRAGMA page_size = %d; PRAGMA journal_mode = WAL; PRAGMA synchronous = %s;"
             "PRAGMA wal_autocheckpoint = 0",
             kind->page_bytes, kind->sync);
    run_sql(db, sql);
    return db;
}

static const char table_sql[] = "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n INTEGER,"
                                " v BLOB); CREATE INDEX IF NOT EXISTS i ON t (n, k)";

static void world_open(struct world *w, const struct kind *kind)
{
    calls_disarm(); /* as a test that failed has left it */
    *w = (struct world){.dir = check_temp_dir()};
    w->path = xasprintf("%s/t.db", w->dir);
    w->db = open_kind(w, kind, sqlite_wal_vfs());
    run_sql(w->db, table_sql);
    w->plain = open_kind(w, kind, NULL);
}

static void world_close(struct world *w)
{
    assert_int_equal(sqlite3_close(w->db), SQLITE_OK);
    assert_int_equal(sqlite3_close(w->plain), SQLITE_OK);
    free(w->path);
    check_remove_dir(w->dir);
}

/* --- how many writes ------------------------------------------------------------------------- */

struct count_case {
    const char *name;
    struct kind kind;
    bool is_default; /* VFS */
    const char *setup, *sql;
    unsigned writes;
};

static const char row_sql[] = "INSERT INTO t VALUES (1, 7, zeroblob(10))"; /* table and index */
static const char blob_sql[] = "INSERT INTO t VALUES (1, 7, zeroblob(150000))";
static const char alone_sql[] = "PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES (9, 9, 9)";

static const struct kind normal = {4096, "NORMAL", ""};

static const struct count_case counts[] = {
    {"the default VFS writes each frame by two calls", normal, true, "", row_sql, 4},
    {"a commit is one write", normal, false, "", row_sql, 1},
    {"a commit that is synced is one write", {4096, "FULL", ""}, false, "", row_sql, 1},
    {"a commit of small pages is one write", {1024, "NORMAL", ""}, false, "", row_sql, 1},
    {"padding behind a commit is cut at the sync",
     {4096, "FULL", "?psow=0"},
     false,
     "",
     row_sql,
     4},
    {"of the largest pages one is held", {65536, "NORMAL", ""}, false, "", row_sql, 2},
    {"more frames than are held are a write for each 16", normal, false, "", blob_sql, 3},
    {"without a lock to give back nothing is held", normal, false, alone_sql, row_sql, 4},
};

static void test_count(void **state)
{
    const struct count_case *c = *state;
    struct world w;
    world_open(&w, &c->kind);
    sqlite3_close(w.db);
    w.db = open_kind(&w, &c->kind, c->is_default ? NULL : sqlite_wal_vfs());
    sqlite3_close(take_ptr(&w.plain)); /* for the one that wants to be alone */
    run_sql(w.db, "INSERT INTO t VALUES (8, 8, 8)");
    run_sql(w.db, c->setup);
    calls_disarm();
    run_sql(w.db, c->sql);
    assert_int_equal(calls.count, c->writes);
    assert_int_equal(ask_sql(w.db, "SELECT n FROM t WHERE k = 1"), 7);
    sqlite3_close(take_ptr(&w.db));
    w.plain = open_db(w.path, NULL);
    assert_int_equal(ask_sql(w.plain, "SELECT n FROM t WHERE k = 1"), 7);
    world_close(&w);
}

/* --- what was rolled back -------------------------------------------------------------------- */

static int64_t count_wrong(sqlite3 *db)
{
    return ask_sql(db, "SELECT count(*) FROM t WHERE n <> 2 OR v <> zeroblob(30000)");
}

static void test_rolled_back(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, &normal);
    run_sql(w.db, "INSERT INTO t VALUES (1, 1, 1); BEGIN; UPDATE t SET v = randomblob(30000)");
    calls_disarm();
    assert_int_equal(sqlite3_db_cacheflush(w.db), SQLITE_OK);
    assert_int_equal(calls.count, 0); /* all of it is held */
    run_sql(w.db, "ROLLBACK");
    run_sql(w.plain, "UPDATE t SET n = 2, v = zeroblob(30000)");
    assert_int_equal(count_wrong(w.db), 0);
    run_sql(w.db, "INSERT INTO t SELECT k + 1, n, v FROM t");
    run_sql(w.plain, "PRAGMA shrink_memory");
    assert_int_equal(count_wrong(w.plain), 0);
    assert_intact(w.plain);
    world_close(&w);
}

/* --- what looks at the file ------------------------------------------------------------------ */

static int see_size(sqlite3_file *file)
{
    sqlite3_int64 size;
    return file->pMethods->xFileSize(file, &size);
}

static int see_bytes(sqlite3_file *file)
{
    char bytes[100];
    return file->pMethods->xRead(file, bytes, sizeof(bytes), 32 + 4120 * 6);
}

static int see_sync(sqlite3_file *file)
{
    return file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

static int see_truncate(sqlite3_file *file)
{
    return file->pMethods->xTruncate(file, 32);
}

struct see_case {
    const char *name;
    int (*see)(sqlite3_file *file);
};

static const struct see_case sees[] = {
    {"who asks for the size finds what is held in the file", see_size},
    {"who reads finds what is held in the file", see_bytes},
    {"who syncs finds what is held in the file", see_sync},
    {"who truncates finds what is held in the file", see_truncate},
};

static sqlite3_file *log_file(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &file);
    assert_non_null(file);
    return file;
}

static void test_see(void **state)
{
    const struct see_case *c = *state;
    struct world w;
    world_open(&w, &normal);
    run_sql(w.db, "BEGIN; INSERT INTO t VALUES (1, 7, randomblob(30000))");
    assert_int_equal(sqlite3_db_cacheflush(w.db), SQLITE_OK);
    calls_disarm();
    assert_int_equal(c->see(log_file(w.db)), SQLITE_OK);
    assert_int_equal(calls.count, 1);
    assert_int_equal(c->see(log_file(w.db)), SQLITE_OK);
    assert_int_equal(calls.count, 1); /* it is not held any more */
    run_sql(w.db, "ROLLBACK");
    world_close(&w);
}

/* --- writes that fail ------------------------------------------------------------------------ */

struct failing_case {
    const char *name;
    int cause;
    size_t part;
    int code;
};

static const struct failing_case failing[] = {
    {"a full disk is told as such", ENOSPC, 0, SQLITE_FULL},
    {"a disk that is full in a header is told as such", ENOSPC, 10, SQLITE_FULL},
    {"a disk that is full in a page is told as such", ENOSPC, 5000, SQLITE_FULL},
    {"a quota that is used up fails the commit", EDQUOT, 24, SQLITE_IOERR_WRITE},
    {"a broken disk fails the commit", EIO, 4120, SQLITE_IOERR_WRITE},
};

static int last_errno(sqlite3 *db)
{
    int cause = 0;
    sqlite3_file *file = log_file(db);
    assert_int_equal(file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &cause),
                     SQLITE_OK);
    return cause;
}

static void assert_goes_on(struct world *w)
{
    assert_int_equal(ask_sql(w->db, "SELECT count(*) FROM t"), 0);
    assert_int_equal(ask_sql(w->plain, "SELECT count(*) FROM t"), 0);
    run_sql(w->db, row_sql);
    assert_intact(w->plain);
    assert_int_equal(ask_sql(w->plain, "SELECT n FROM t"), 7);
}

static void test_failing(void **state)
{
    const struct failing_case *c = *state;
    for (unsigned call = 1; call <= 3; call++) {
        struct world w;
        world_open(&w, &normal);
        calls_arm(call, c->cause, c->part);
        assert_int_equal(try_sql(w.db, blob_sql), c->code);
        if (c->code == SQLITE_IOERR_WRITE)
            assert_int_equal(last_errno(w.db), c->cause);
        calls_disarm();
        assert_true(sqlite3_get_autocommit(w.db));
        assert_goes_on(&w);
        world_close(&w);
    }
}

/* The same by the system itself. */
static void test_limited(void **state)
{
    (void)state;
    struct world w;
    struct rlimit before, low;
    world_open(&w, &normal);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    low = (struct rlimit){100000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int code = try_sql(w.db, blob_sql);
    int cause = last_errno(w.db);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, SQLITE_IOERR_WRITE);
    assert_int_equal(cause, EFBIG);
    assert_goes_on(&w);
    world_close(&w);
}

/* Pages that left the cache are read again, and must be written for it. When that fails for want of
 * space, SQLite undoes a statement that can be undone, and the transaction goes on with them. */
static void test_read_fails(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, &normal);
    run_sql(w.db, "BEGIN; INSERT INTO t VALUES (1, 7, randomblob(30000))");
    assert_int_equal(sqlite3_db_cacheflush(w.db), SQLITE_OK);
    assert_int_equal(sqlite3_db_release_memory(w.db), SQLITE_OK);
    calls_arm(1, ENOSPC, 3000);
    assert_int_equal(try_sql(w.db, "INSERT INTO t SELECT k + 1, n, v FROM t"), SQLITE_FULL);
    calls_disarm();
    assert_false(sqlite3_get_autocommit(w.db));
    run_sql(w.db, "COMMIT");
    assert_intact(w.plain);
    assert_int_equal(ask_sql(w.plain, "SELECT count(*) FROM t"), 1);
    assert_int_equal(ask_sql(w.plain, "SELECT length(v) FROM t WHERE k = 1"), 30000);
    world_close(&w);
}

/* --- anything, compared with a model --------------------------------------------------------- */

struct value {
    int len;  /* -1: no such row */
    int fill; /* no padding: models are compared by their bytes */
};

struct model {
    struct value rows[KEYS];
};

struct game {
    struct world w;
    const struct kind *kind;
    bool has_faults;
    unsigned seed;
    bool is_open;   /* a transaction */
    bool is_hurt;   /* something failed in it */
    bool is_undone; /* in part */
    int depth;
    struct model now, committed, saved[DEPTH_MAX];
    unsigned commits, refused;
};

static int pick(struct game *g, int below)
{
    return rand_r(&g->seed) % below;
}

static void fill_blob(unsigned char *bytes, struct value value)
{
    for (int i = 0; i < value.len; i++)
        bytes[i] = (unsigned char)(value.fill + i + i / 256 * 31);
}

static int put_row(sqlite3 *db, int key, struct value value)
{
    static unsigned char bytes[BLOB_BYTES];
    sqlite3_stmt *st;
    int code = sqlite3_prepare_v2(db, "REPLACE INTO t VALUES (?, ?, ?)", -1, &st, NULL);
    if (code != SQLITE_OK)
        return code;
    fill_blob(bytes, value);
    sqlite3_bind_int(st, 1, key);
    sqlite3_bind_int(st, 2, value.fill);
    sqlite3_bind_blob(st, 3, bytes, value.len, SQLITE_STATIC);
    sqlite3_step(st);
    return sqlite3_finalize(st);
}

static void assert_value(sqlite3_stmt *st, struct value value)
{
    unsigned char bytes[BLOB_BYTES];
    assert_int_equal(sqlite3_column_bytes(st, 1), value.len);
    fill_blob(bytes, value);
    if (value.len > 0)
        assert_memory_equal(sqlite3_column_blob(st, 1), bytes, (size_t)value.len);
}

/* All rows that are there are as they should be, and all that should be are there; or the code of
 * the failure. */
static int compare(sqlite3 *db, const struct model *model)
{
    sqlite3_stmt *st;
    int code = sqlite3_prepare_v2(db, "SELECT k, v FROM t ORDER BY k", -1, &st, NULL);
    if (code != SQLITE_OK)
        return code;
    int missing = 0;
    for (int i = 0; i < KEYS; i++)
        missing += model->rows[i].len >= 0;
    while (sqlite3_step(st) == SQLITE_ROW) {
        assert_value(st, model->rows[sqlite3_column_int(st, 0)]);
        missing--;
    }
    code = sqlite3_finalize(st);
    if (code == SQLITE_OK)
        assert_int_equal(missing, 0);
    return code;
}

static void look_from_outside(struct game *g)
{
    assert_int_equal(compare(g->w.plain, &g->committed), SQLITE_OK);
    assert_intact(g->w.plain);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[8192];
    ssize_t n;
    scoped_fd int in = open(from, O_RDONLY | O_CLOEXEC);
    scoped_fd int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof(bytes))) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
}

/* Up to 3.50.1 SQLite itself writes wrong sums when a savepoint is rolled back behind pages that
 * were written twice (its forum, post b490f726db). A crash loses that transaction and all behind it
 * in the log. */
static bool has_wrong_sums(const struct game *g)
{
    return sqlite3_libversion_number() < 3050002 && (g->is_undone || g->is_hurt);
}

/* What would be found if all processes died now: the files without the shared memory, so that the
 * log is read from its beginning and all sums are checked. */
static void look_as_after_a_crash(struct game *g, const struct model *model)
{
    scoped_free char *dir = xasprintf("%s/copy", g->w.dir);
    scoped_free char *copy = xasprintf("%s/t.db", dir);
    scoped_free char *log = xasprintf("%s-wal", g->w.path);
    scoped_free char *log_copy = xasprintf("%s-wal", copy);
    assert_int_equal(mkdir(dir, 0700), 0);
    copy_file(g->w.path, copy);
    copy_file(log, log_copy);
    sqlite3 *db = open_db(copy, NULL);
    assert_int_equal(compare(db, model), SQLITE_OK);
    assert_intact(db);
    sqlite3_close(db);
    unlink(copy);
    assert_int_equal(rmdir(dir), 0);
}

static void give_up(struct game *g)
{
    g->now = g->committed;
    g->is_open = g->is_hurt = g->is_undone = false;
    g->depth = 0;
}

/* Each step answers SQLite's code; what failed has changed nothing. */

static int step_begin(struct game *g)
{
    if (g->is_open)
        return SQLITE_OK;
    int code = try_sql(g->w.db, "BEGIN IMMEDIATE");
    g->is_open = code == SQLITE_OK;
    return code;
}

static int step_put(struct game *g)
{
    int key = pick(g, KEYS);
    struct value value = {pick(g, 3) ? pick(g, 200) : pick(g, BLOB_BYTES), pick(g, 256)};
    int code = step_begin(g);
    if (code == SQLITE_OK)
        code = put_row(g->w.db, key, value);
    if (code == SQLITE_OK)
        g->now.rows[key] = value;
    return code;
}

static int step_remove(struct game *g)
{
    char sql[64];
    int key = pick(g, KEYS);
    int code = step_begin(g);
    snprintf(sql, sizeof(sql), "DELETE FROM t WHERE k = %d", key);
    if (code == SQLITE_OK)
        code = try_sql(g->w.db, sql);
    if (code == SQLITE_OK)
        g->now.rows[key].len = -1;
    return code;
}

static int step_look(struct game *g)
{
    return compare(g->w.db, &g->now);
}

static int step_spill(struct game *g)
{
    int code = sqlite3_db_cacheflush(g->w.db);
    return code == SQLITE_OK ? sqlite3_db_release_memory(g->w.db) : code;
}

/* Without knowing what a failure has left, the whole transaction goes. */
static int or_rollback(struct game *g, int code)
{
    calls_disarm();
    if (code != SQLITE_OK && !sqlite3_get_autocommit(g->w.db))
        try_sql(g->w.db, "ROLLBACK");
    return code;
}

static int step_save(struct game *g)
{
    if (!g->is_open || g->depth == DEPTH_MAX)
        return SQLITE_OK;
    int code = try_sql(g->w.db, "SAVEPOINT s");
    if (code == SQLITE_OK)
        g->saved[g->depth++] = g->now;
    return or_rollback(g, code);
}

static int step_undo(struct game *g)
{
    if (g->depth == 0)
        return SQLITE_OK;
    int code = try_sql(g->w.db, "ROLLBACK TO s");
    g->is_undone = true;
    if (code == SQLITE_OK)
        g->now = g->saved[g->depth - 1];
    return or_rollback(g, code);
}

static int step_release(struct game *g)
{
    if (g->depth == 0)
        return SQLITE_OK;
    int code = try_sql(g->w.db, "RELEASE s");
    g->depth -= code == SQLITE_OK;
    return or_rollback(g, code);
}

/* A commit that failed in its padding, behind the frame that commits, would be found after a crash
 * until it is written over: so by one that writes. */
static void look_at_commit(struct game *g)
{
    if (has_wrong_sums(g))
        run_sql(g->w.plain, "PRAGMA wal_checkpoint(TRUNCATE)");
    else if (memcmp(&g->now, &g->committed, sizeof(g->now)) != 0)
        look_as_after_a_crash(g, &g->now);
}

static int step_commit(struct game *g)
{
    if (!g->is_open)
        return SQLITE_OK;
    int code = or_rollback(g, try_sql(g->w.db, "COMMIT"));
    if (code == SQLITE_OK) {
        look_at_commit(g);
        g->committed = g->now;
        g->commits++;
        give_up(g);
    }
    look_from_outside(g);
    return code;
}

static int step_rollback(struct game *g)
{
    if (!g->is_open)
        return SQLITE_OK;
    int code = or_rollback(g, try_sql(g->w.db, "ROLLBACK"));
    give_up(g);
    look_from_outside(g);
    return code;
}

static int step_outside(struct game *g)
{
    calls_disarm();
    look_from_outside(g);
    return SQLITE_OK;
}

/* A transaction of the other connection, where there is none of ours. */
static int step_intrude(struct game *g)
{
    int key = pick(g, KEYS);
    struct value value = {pick(g, BLOB_BYTES), pick(g, 256)};
    calls_disarm();
    if (g->is_open)
        return SQLITE_OK;
    g->committed.rows[key] = value;
    g->now = g->committed;
    return put_row(g->w.plain, key, value);
}

/* By any of the two; what is in use by the other cannot be done, and that is no failure. */
static int step_checkpoint(struct game *g)
{
    int mode = SQLITE_CHECKPOINT_PASSIVE + pick(g, 4);
    bool is_plain = g->is_open || pick(g, 2);
    if (is_plain)
        calls_disarm();
    sqlite3_wal_checkpoint_v2(is_plain ? g->w.plain : g->w.db, NULL, mode, NULL, NULL);
    return SQLITE_OK;
}

static int step_reopen(struct game *g)
{
    calls_disarm();
    if (g->is_open || pick(g, 3))
        return SQLITE_OK;
    assert_int_equal(sqlite3_close(g->w.db), SQLITE_OK);
    g->w.db = open_kind(&g->w, g->kind, sqlite_wal_vfs());
    run_sql(g->w.db, "PRAGMA cache_size = 6");
    return SQLITE_OK;
}

struct step {
    int (*take)(struct game *g);
    int weight;
};

static const struct step steps[] = {
    {step_put, 30},     {step_remove, 4},  {step_look, 6},    {step_spill, 6},
    {step_save, 6},     {step_undo, 4},    {step_release, 3}, {step_commit, 10},
    {step_rollback, 3}, {step_outside, 3}, {step_intrude, 2}, {step_checkpoint, 4},
    {step_reopen, 2},
};

static const struct step *pick_step(struct game *g)
{
    int sum = 0;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        sum += steps[i].weight;
    int at = pick(g, sum);
    const struct step *step = steps;
    while (at >= step->weight)
        at -= step++->weight;
    return step;
}

static void play_step(struct game *g)
{
    static const int causes[] = {ENOSPC, EIO};
    const struct step *step = pick_step(g);
    bool may_fail = g->has_faults && pick(g, 5) == 0;
    calls_disarm();
    if (may_fail)
        calls_arm(1 + (unsigned)pick(g, 4), causes[pick(g, 2)], (size_t)pick(g, 6000));
    int code = step->take(g);
    calls_disarm();
    if (code != SQLITE_OK) {
        assert_true(may_fail || g->is_hurt);
        g->is_hurt = true;
        g->refused++;
    }
    if (g->is_open && sqlite3_get_autocommit(g->w.db)) {
        assert_int_not_equal(code, SQLITE_OK);
        give_up(g);
        look_from_outside(g);
    }
}

struct play_case {
    const char *name;
    struct kind kind;
    bool has_faults;
};

static const struct play_case plays[] = {
    {"as the model, NORMAL, pages of 4096", {4096, "NORMAL", ""}, false},
    {"as the model, NORMAL, pages of 1024", {1024, "NORMAL", ""}, false},
    {"as the model, FULL, pages of 4096", {4096, "FULL", ""}, false},
    {"as the model, FULL, pages of 1024", {1024, "FULL", ""}, false},
    {"as the model, FULL and padded, pages of 512", {512, "FULL", "?psow=0"}, false},
    {"as the model, NORMAL, pages of 65536", {65536, "NORMAL", ""}, false},
    {"as the model, with failures, pages of 4096", {4096, "NORMAL", ""}, true},
    {"as the model, with failures, pages of 1024", {1024, "NORMAL", ""}, true},
    {"as the model, with failures, FULL and padded", {1024, "FULL", "?psow=0"}, true},
};

static void test_play(void **state)
{
    const struct play_case *c = *state;
    struct game g = {.kind = &c->kind, .has_faults = c->has_faults, .seed = (unsigned)getpid()};
    const char *seed = getenv("SEED");
    if (seed)
        g.seed = (unsigned)strtoul(seed, NULL, 10);
    print_message("# seed %u\n", g.seed);
    for (int i = 0; i < KEYS; i++)
        g.committed.rows[i].len = -1;
    g.now = g.committed;
    world_open(&g.w, &c->kind);
    run_sql(g.w.db, "PRAGMA cache_size = 6");
    for (int i = 0; i < STEPS; i++)
        play_step(&g);
    step_rollback(&g);
    print_message("# %u commits, %u steps failed\n", g.commits, g.refused);
    assert_true(g.commits > STEPS / 40);
    assert_int_equal(g.refused > 0, c->has_faults);
    world_close(&g.w);
}

/* --- a process that is killed ---------------------------------------------------------------- */

/* Transaction n gives 3 rows the number n, of some pages each; each is told. */
static void write_until_killed(const char *path, int fd, unsigned seed)
{
    char sql[256];
    struct error err;
    sqlite3 *db = open_db(path, sqlite_wal_vfs());
    run_sql(db, "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 6");
    int64_t n = ask_sql(db, "SELECT max(n) FROM t");
    /* In half of the cases in the middle of a write, else whenever the other side says. */
    if (seed % 2)
        calls_arm(1 + seed / 2 % 60, 0, seed / 120 % 12000);
    for (;;) {
        snprintf(sql, sizeof(sql), "UPDATE t SET n = %lld, v = randomblob(%d)", (long long)++n,
                 rand_r(&seed) % 20000);
        if (try_sql(db, sql) != SQLITE_OK || fd_write_all(fd, &n, sizeof(n), &err) < 0)
            _exit(1);
    }
}

/* -> the last number that was told */
static int64_t listen_and_kill(pid_t pid, int fd, unsigned told)
{
    int64_t n, last = 0;
    unsigned count = 0;
    while (read(fd, &n, sizeof(n)) == sizeof(n)) {
        last = n;
        if (++count == told)
            kill(pid, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return last;
}

static void test_kill(void **state)
{
    (void)state;
    struct world w;
    unsigned seed = (unsigned)getpid();
    int64_t last = 1;
    print_message("# seed %u\n", seed);
    world_open(&w, &normal);
    run_sql(w.db, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1)");
    for (int round = 0; round < KILLS; round++) {
        int fds[2];
        unsigned child_seed = (unsigned)rand_r(&seed);
        sqlite3_close(take_ptr(&w.db));
        sqlite3_close(take_ptr(&w.plain));
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0)
            write_until_killed(w.path, fds[1], child_seed);
        close(fds[1]);
        int64_t told = listen_and_kill(pid, fds[0], 1 + (unsigned)rand_r(&seed) % 60);
        close(fds[0]);
        w.db = open_db(w.path, sqlite_wal_vfs());
        w.plain = open_db(w.path, NULL);
        assert_intact(w.plain);
        int64_t found = ask_sql(w.plain, "SELECT max(n) FROM t");
        assert_int_equal(ask_sql(w.plain, "SELECT min(n) FROM t"), found);
        assert_true(found >= MAX(told, last));
        last = found;
    }
    print_message("# %lld commits in %d rounds\n", (long long)last, KILLS);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    calls_begin();
    check_rows(&check, counts, test_count);
    check_one(&check, "what was rolled back does not come back", test_rolled_back);
    check_rows(&check, sees, test_see);
    check_rows(&check, failing, test_failing);
    check_one(&check, "a limit of the system fails the commit", test_limited);
    check_one(&check, "a failed read loses nothing", test_read_fails);
    check_rows(&check, plays, test_play);
    check_one(&check, "what was told survives kill -9", test_kill);
    return check_run(&check, "sqlite_wal");
}
