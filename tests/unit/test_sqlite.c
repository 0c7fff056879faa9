/* test_sqlite.c - databases that are broken, locked, full, gone
 *
 * What was told must be there afterwards; what cannot be done must be said, and be possible again
 * when the cause is gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "store/sqlite_schema.h"
#include "store_world.h"

#define FAULT_ROUNDS 40
#define FAULT_CALLS  48 /* in each round; a commit is one write, and the last go well */

static void add_numbered(struct world *w, int number)
{
    char id[32];
    snprintf(id, sizeof(id), "ses_%d", number);
    struct store_session s = a_session(id);
    ask(w, store_add_session, &s);
}

static bool has_numbered(struct world *w, int number)
{
    char id[32];
    snprintf(id, sizeof(id), "ses_%d", number);
    ask_for(w, session, store_get_session, &(struct store_name){.id = id});
    return !w->has_failed;
}

/* Another program: a plain connection to the same file. */
static sqlite3 *intruder_open(const struct world *w)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
    return db;
}

static void intruder_do(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

static void intruder_once(const struct world *w, const char *sql)
{
    sqlite3 *db = intruder_open(w);
    intruder_do(db, sql);
    sqlite3_close(db);
}

/* --- opening --------------------------------------------------------------------------------- */

static void cut_in_half(const struct world *w)
{
    struct stat st;
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(truncate(w->path, st.st_size / 2), 0);
}

static void cut_in_a_page(const struct world *w)
{
    assert_int_equal(truncate(w->path, 5000), 0);
}

static void empty(const struct world *w)
{
    assert_int_equal(truncate(w->path, 0), 0);
}

static void take_away(const struct world *w)
{
    assert_int_equal(unlink(w->path), 0);
}

static void overwrite(const struct world *w, off_t from, size_t len)
{
    scoped_fd int fd = open(w->path, O_WRONLY | O_CLOEXEC);
    char junk[4096];
    memset(junk, 0xa5, sizeof(junk));
    assert_int_equal(pwrite(fd, junk, len, from), (ssize_t)len);
}

static void break_head(const struct world *w)
{
    overwrite(w, 0, 100);
}

static void break_page(const struct world *w)
{
    overwrite(w, 8192, 4096);
}

static void make_newer(const struct world *w)
{
    intruder_once(w, "PRAGMA user_version = 99");
}

static void make_foreign(const struct world *w)
{
    intruder_once(w, "PRAGMA application_id = 7");
}

static void make_folder(const struct world *w)
{
    take_away(w);
    assert_int_equal(mkdir(w->path, 0700), 0);
}

struct broken_case {
    const char *name;
    void (*harm)(const struct world *w);
    const char *message, *hint; /* parts of them */
};

static const struct broken_case broken[] = {
    {"refuses a database that was cut in half", cut_in_half, "damaged", "backup"},
    {"refuses a database that was cut in a page", cut_in_a_page, "damaged", "backup"},
    {"refuses a database that was emptied", empty, "though it was made", ".lock"},
    {"refuses to replace a database that is gone", take_away, "though it was made", ".lock"},
    {"refuses a database without its head", break_head, "not a database", "backup"},
    {"refuses a database with a broken page", break_page, "damaged", "backup"},
    {"refuses a database of a newer program", make_newer, "version 99", "newer Cove"},
    {"refuses a database of another program", make_foreign, "another program", "path"},
    {"refuses a folder", make_folder, "cannot be opened", "rights"},
};

static void test_broken(void **state)
{
    const struct broken_case *c = *state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 50; i++)
        add_numbered(&w, i);
    store_free(take_ptr(&w.store));
    c->harm(&w);
    assert_int_equal(world_try_open(&w, NULL), -1);
    assert_non_null(strstr(w.err.msg, c->message));
    assert_non_null(strstr(w.err.msg, w.path));
    assert_non_null(strstr(w.err.hint, c->hint));
    world_close(&w);
}

static void test_begin_anew(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    store_free(take_ptr(&w.store));
    scoped_free char *lock = xasprintf("%s.lock", w.path);
    assert_int_equal(unlink(w.path), 0);
    assert_int_equal(unlink(lock), 0); /* as the hint says */
    assert_int_equal(world_try_open(&w, NULL), 0);
    world_close(&w);
}

static void test_private(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    world_open(&w);
    const char *const suffixes[] = {"", "-wal", "-shm", "-ledger", ".lock"};
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        scoped_free char *path = xasprintf("%s%s", w.path, suffixes[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    world_close(&w);
}

static void test_second(void **state)
{
    (void)state;
    struct world w, second;
    world_open(&w);
    second = w;
    second.store = NULL;
    assert_int_equal(world_try_open(&second, NULL), -1);
    assert_int_equal(second.err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(second.err.msg, "another coved"));
    add_numbered(&w, 1); /* the first goes on */
    assert_done(&w);
    world_close(&w);
}

static void test_full_sync(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    store_free(take_ptr(&w.store));
    assert_int_equal(world_try_open(&w, &(struct store_order){.sync = STORE_SYNC_FULL}), 0);
    add_numbered(&w, 1);
    assert_done(&w);
    world_close(&w);
}

static void test_unknown_state(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_numbered(&w, 1);
    intruder_once(&w, "UPDATE sessions SET state = 'dreaming'");
    ask(&w, store_get_session, &(struct store_name){.id = "ses_1"});
    assert_refused(&w, ERROR_INTERNAL);
    ask(&w, store_change_session,
        &(struct store_session_change){.id = "ses_1", .to = STORE_SESSION_BUSY});
    assert_refused(&w, ERROR_INTERNAL);
    add_numbered(&w, 2);
    assert_done(&w);
    world_close(&w);
}

/* --- migrations ------------------------------------------------------------------------------ */

static int64_t number_of(struct sqlite_db *db, const char *sql)
{
    struct error err;
    struct sqlite_statement *st = sqlite_get(db, sql, &err);
    assert_non_null(st);
    assert_int_equal(sqlite_next(st, &err), 1);
    int64_t number = sqlite_i64(st, 0);
    sqlite_end(st);
    return number;
}

static void test_migrations(void **state)
{
    (void)state;
    struct sqlite_db db = {.lock_fd = -1};
    struct error err;
    const char *const steps[] = {
        "CREATE TABLE a (x)",
        "CREATE TABLE b (x); INSERT INTO b VALUES (1); INSERT INTO nowhere VALUES (2)",
        "INSERT INTO a VALUES (3)",
    };
    const char *const better[] = {steps[0], "CREATE TABLE b (x); INSERT INTO b VALUES (1)",
                                  steps[2]};
    assert_int_equal(sqlite3_open(":memory:", &db.handle), SQLITE_OK);
    assert_int_equal(sqlite_migrate(&db, steps, 3, &err), -1);
    assert_non_null(strstr(err.msg, "version 2"));
    assert_int_equal(number_of(&db, "PRAGMA user_version"), 1); /* as far as it went */
    assert_int_equal(number_of(&db, "SELECT count(*) FROM sqlite_schema"), 1);

    assert_int_equal(sqlite_migrate(&db, better, 3, &err), 0);
    assert_int_equal(number_of(&db, "PRAGMA user_version"), 3);
    assert_int_equal(number_of(&db, "SELECT x FROM a"), 3);
    assert_int_equal(sqlite_migrate(&db, better, 3, &err), 0); /* nothing is left to do */
    assert_int_equal(number_of(&db, "SELECT count(*) FROM a"), 1);
    assert_int_equal(sqlite_migrate(&db, better, 2, &err), -1); /* an older program */
    assert_int_equal(number_of(&db, "PRAGMA user_version"), 3);
    sqlite_drop_statements(&db);
    sqlite3_close(db.handle);
}

/* What is undone by a savepoint must not have been in the log: see set_durability(). */
static void test_no_spill(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct stat before, after;
    void *opened;
    world_open(&w);
    store_free(take_ptr(&w.store));
    scoped_free char *log = xasprintf("%s-wal", w.path);
    const struct store_order order = {.place = w.path};
    assert_int_equal(sqlite_ops.open(&opened, &order, STORE_LANE_WRITE, &err), 0);
    sqlite3 *handle = ((struct sqlite_db *)opened)->handle;
    assert_int_equal(stat(log, &before), 0);
    assert_int_equal(sqlite3_exec(handle,
                                  "BEGIN; CREATE TABLE large (x); SAVEPOINT one;"
                                  "INSERT INTO large VALUES (zeroblob(8000000)), (zeroblob(99))",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(stat(log, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(sqlite3_exec(handle, "ROLLBACK TO one; COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite_ops.close(opened);
    world_close(&w);
}

/* --- locked, moved --------------------------------------------------------------------------- */

static void test_locked(void **state)
{
    (void)state;
    struct world w;
    const struct store_order hasty = {.busy_ms = 20};
    struct store_info info;
    world_open(&w);
    add_numbered(&w, 1);
    store_free(take_ptr(&w.store));
    assert_int_equal(world_try_open(&w, &hasty), 0);

    sqlite3 *other = intruder_open(&w);
    intruder_do(other, "BEGIN IMMEDIATE");
    add_numbered(&w, 2);
    assert_refused(&w, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.msg, "another program"));
    assert_true(w.err.retry_ms > 0);
    store_get_info(w.store, &info);
    assert_true(info.is_failing);
    assert_int_equal(info.failed, 1);
    assert_true(has_numbered(&w, 1)); /* reading goes on */
    intruder_do(other, "COMMIT");
    add_numbered(&w, 2);
    assert_done(&w);
    store_get_info(w.store, &info);
    assert_false(info.is_failing);

    store_free(take_ptr(&w.store));
    intruder_do(other, "BEGIN IMMEDIATE");
    assert_int_equal(world_try_open(&w, &hasty), -1);
    assert_non_null(strstr(w.err.msg, "another program"));
    intruder_do(other, "COMMIT");
    sqlite3_close(other);
    assert_int_equal(world_try_open(&w, &hasty), 0);
    assert_true(has_numbered(&w, 2));
    world_close(&w);
}

static void keep_execution(struct world *w, const char *id)
{
    struct store_execution e = an_execution(id, NULL);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = 7;
    ask(w, store_keep_execution, &e);
}

static bool has_execution(struct world *w, const char *id)
{
    ask_for(w, execution, store_get_execution, &(struct store_name){.id = id});
    return !w->has_failed;
}

/* What was told before the trouble was known is not lost by it, and not denied. */
static void test_locked_ledger(void **state)
{
    (void)state;
    struct world w;
    struct store_info info;
    world_open(&w);
    store_free(take_ptr(&w.store));
    assert_int_equal(world_try_open(&w, &(struct store_order){.busy_ms = 20}), 0);
    sqlite3 *other = intruder_open(&w);
    intruder_do(other, "BEGIN IMMEDIATE");
    keep_execution(&w, "exe_1");
    assert_done(&w);
    assert_false(has_execution(&w, "exe_1"));
    assert_refused(&w, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.msg, "another program"));
    store_get_info(w.store, &info);
    assert_true(info.is_failing);
    keep_execution(&w, "exe_2"); /* now it is known */
    assert_refused(&w, ERROR_UNAVAILABLE);
    intruder_do(other, "COMMIT");
    assert_true(has_execution(&w, "exe_1"));
    store_get_info(w.store, &info);
    assert_false(info.is_failing);
    assert_int_equal(info.dropped, 0);
    keep_execution(&w, "exe_3");
    assert_done(&w);

    intruder_do(other, "BEGIN IMMEDIATE");
    store_free(take_ptr(&w.store)); /* which cannot commit the third one */
    intruder_do(other, "COMMIT");
    assert_int_equal(world_try_open(&w, &(struct store_order){.busy_ms = 20}), 0);
    assert_true(has_execution(&w, "exe_3"));
    assert_false(has_execution(&w, "exe_2"));
    assert_refused(&w, ERROR_NOT_FOUND);

    intruder_do(other, "BEGIN IMMEDIATE");
    keep_execution(&w, "exe_4");
    store_free(take_ptr(&w.store));
    sqlite3_close(other);
    scoped_free char *lock = xasprintf("%s.lock", w.path);
    assert_int_equal(unlink(w.path), 0);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(world_try_open(&w, NULL), 0); /* a new database, to which nobody told it */
    assert_false(has_execution(&w, "exe_4"));
    assert_refused(&w, ERROR_NOT_FOUND);
    world_close(&w);
}

static void free_the_lock(void *ctx)
{
    intruder_do(ctx, "COMMIT"); /* which this thread could not, if it waited for it itself */
}

static void test_loop_goes_on(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    sqlite3 *other = intruder_open(&w);
    intruder_do(other, "BEGIN IMMEDIATE");
    struct loop_timer *timer = loop_timer_new(w.loop, 1, free_the_lock, other);
    add_numbered(&w, 1);
    assert_done(&w);
    loop_timer_free(timer);
    sqlite3_close(other);
    world_close(&w);
}

static void test_moved(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    scoped_free char *away = xasprintf("%s.away", w.path);
    assert_int_equal(rename(w.path, away), 0);
    add_numbered(&w, 1);
    assert_refused(&w, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.msg, "moved or removed"));
    assert_int_equal(rename(away, w.path), 0);
    add_numbered(&w, 1);
    assert_done(&w);
    world_close(&w);
}

static void test_cut_in_use(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 200; i++)
        add_numbered(&w, i);
    world_reopen(&w); /* all of it is in the file now, and nothing in memory */
    cut_in_half(&w);
    ask(&w, store_list_sessions, &(struct store_filter){.limit = STORE_PAGE_MAX});
    assert_refused(&w, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.hint, "backup"));
    assert_null(strstr(w.err.msg, w.dir));
    world_close(&w);
}

/* --- a disk of its own ----------------------------------------------------------------------- */

/* Mounts of this process are its own from here on. */
static void be_apart(void)
{
    static bool is_apart;
    if (!is_apart &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
        check_skip("needs the power to mount");
    is_apart = true;
}

/* A store on a small disk. */
static void world_open_small(struct world *w, const char *options)
{
    struct error err;
    be_apart();
    *w = (struct world){.dir = check_temp_dir()};
    assert_int_equal(mount("none", w->dir, "tmpfs", 0, options), 0);
    w->path = xasprintf("%s/cove.db", w->dir);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(world_try_open(w, NULL), 0);
}

static void world_close_small(struct world *w)
{
    char *dir = w->dir;
    store_free(take_ptr(&w->store));
    assert_int_equal(umount(dir), 0);
    world_close(w);
}

static void set_ballast(struct world *w, bool is_there)
{
    scoped_free char *path = xasprintf("%s/ballast", w->dir);
    if (!is_there) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    char block[4096] = {0};
    scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof(block)) == sizeof(block))
        ;
    assert_int_equal(errno, ENOSPC);
}

static void test_disk_full(void **state)
{
    (void)state;
    struct world w;
    world_open_small(&w, "size=2m");
    add_numbered(&w, 0);
    assert_done(&w);
    set_ballast(&w, true);

    int told = 1;
    for (add_numbered(&w, told); !w.has_failed; add_numbered(&w, told))
        told++; /* the log has some room of its own left */
    assert_refused(&w, ERROR_NO_SPACE);
    assert_non_null(strstr(w.err.msg, "full"));
    assert_non_null(strstr(w.err.hint, "free space"));
    assert_null(strstr(w.err.msg, w.dir)); /* clients see this */
    assert_true(has_numbered(&w, 0));
    assert_false(has_numbered(&w, told));

    set_ballast(&w, false); /* space returns: the store goes on by itself */
    add_numbered(&w, told);
    assert_done(&w);
    for (int i = 0; i <= told; i++)
        assert_true(has_numbered(&w, i));
    world_reopen(&w);
    for (int i = 0; i <= told; i++)
        assert_true(has_numbered(&w, i));
    world_close_small(&w);
}

struct fate {
    struct world *world;
    bool is_done;
};

static void on_fate(void *ctx, const struct store_answer *answer)
{
    struct fate *fate = ctx;
    fate->is_done = !answer->err;
    if (answer->err)
        assert_true(error_passes(answer->err));
    world_on_answer(fate->world, &(struct store_answer){0});
}

static void on_found(void *ctx, const struct store_answer *answer)
{
    struct fate *fate = ctx;
    assert_int_equal(answer->err == NULL, fate->is_done);
    world_on_answer(fate->world, &(struct store_answer){0});
}

/* Adds `count` sessions at once, and compares what is told with what is there. -> how many failed
 */
static size_t add_at_once(struct world *w, int first, int count, size_t doc_bytes)
{
    static struct fate fates[400];
    size_t failures = 0;
    scoped_free char *doc = xmalloc(doc_bytes + 1);
    memset(doc, 'x', doc_bytes);
    doc[doc_bytes] = '\0';
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof(id), "ses_%d", first + i);
        struct store_session s = a_session(id);
        s.doc = doc;
        fates[i] = (struct fate){.world = w};
        w->waiting++;
        store_add_session(w->store, &s, on_fate, &fates[i]);
    }
    world_wait(w);
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof(id), "ses_%d", first + i);
        failures += !fates[i].is_done;
        w->waiting++;
        store_get_session(w->store, &(struct store_name){.id = id}, on_found, &fates[i]);
    }
    world_wait(w);
    return failures;
}

/* Groups of many, of which some fit: what is told as done is done, and no more. */
static void test_disk_full_groups(void **state)
{
    (void)state;
    struct world w;
    world_open_small(&w, "size=2m");
    size_t failures = add_at_once(&w, 0, 400, 8000);
    assert_true(failures > 0 && failures < 400);
    world_close_small(&w);
}

static void test_open_full(void **state)
{
    (void)state;
    struct world w;
    world_open_small(&w, "size=2m");
    add_numbered(&w, 1);
    store_free(take_ptr(&w.store));
    set_ballast(&w, true);
    assert_int_equal(world_try_open(&w, NULL), -1);
    assert_int_equal(w.err.code, ERROR_NO_SPACE);
    assert_non_null(strstr(w.err.msg, "full"));
    set_ballast(&w, false);
    assert_int_equal(world_try_open(&w, NULL), 0);
    assert_true(has_numbered(&w, 1));
    world_close_small(&w);
}

static void test_read_only(void **state)
{
    (void)state;
    struct world w;
    world_open_small(&w, "size=2m");
    add_numbered(&w, 1);
    store_free(take_ptr(&w.store));
    assert_int_equal(mount(NULL, w.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(world_try_open(&w, NULL), -1);
    assert_int_equal(w.err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.msg, "cannot be written"));
    assert_non_null(strstr(w.err.hint, "mount"));
    assert_int_equal(mount(NULL, w.dir, NULL, MS_REMOUNT, NULL), 0);
    assert_int_equal(world_try_open(&w, NULL), 0);
    assert_true(has_numbered(&w, 1));
    world_close_small(&w);
}

/* --- a disk that fails ----------------------------------------------------------------------- */

static int writes_left;      /* of SQLite, until one fails; negative: none does */
static bool takes_no_writes; /* it has become read-only */

static bool fails_now(void)
{
    int left = __atomic_sub_fetch(&writes_left, 1, __ATOMIC_RELAXED);
    bool is_closed = __atomic_load_n(&takes_no_writes, __ATOMIC_RELAXED);
    errno = is_closed ? EROFS : EIO;
    return left == 0 || is_closed;
}

static ssize_t bad_write(int fd, const void *data, size_t len)
{
    return fails_now() ? -1 : write(fd, data, len);
}

static ssize_t bad_pwrite(int fd, const void *data, size_t len, off_t at)
{
    return fails_now() ? -1 : pwrite(fd, data, len, at);
}

static void set_writes(bool is_bad)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const char *const names[] = {"write", "pwrite", "pwrite64"};
    const sqlite3_syscall_ptr bad[] = {(sqlite3_syscall_ptr)bad_write,
                                       (sqlite3_syscall_ptr)bad_pwrite,
                                       (sqlite3_syscall_ptr)bad_pwrite};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) /* one that is not built in is not found */
        vfs->xSetSystemCall(vfs, names[i], is_bad ? bad[i] : NULL);
}

/* The n-th write fails, for each n, once: one call is told so. */
static void test_io_error(void **state)
{
    (void)state;
    struct world w;
    size_t failures = 0;
    world_open(&w);
    set_writes(true);
    for (int n = 1; n <= FAULT_ROUNDS; n++) {
        bool told[FAULT_CALLS];
        __atomic_store_n(&writes_left, n, __ATOMIC_RELAXED);
        for (int i = 0; i < FAULT_CALLS; i++) {
            add_numbered(&w, 100 * n + i);
            told[i] = !w.has_failed;
            failures += w.has_failed;
            if (w.has_failed)
                assert_refused(&w, ERROR_UNAVAILABLE);
        }
        assert_true(told[FAULT_CALLS - 1]); /* one failure, and it goes on */
        if (n % 10 == 0)
            world_reopen(&w);
        for (int i = 0; i < FAULT_CALLS; i++)
            assert_int_equal(has_numbered(&w, 100 * n + i), told[i]);
    }
    __atomic_store_n(&writes_left, -1, __ATOMIC_RELAXED);
    set_writes(false);
    assert_true(failures >= FAULT_ROUNDS / 2); /* others hit a checkpoint */
    world_close(&w);
}

/* As a kernel does it by itself with a disk that is failing. */
static void test_read_only_in_use(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_numbered(&w, 1);
    set_writes(true);
    __atomic_store_n(&writes_left, -1, __ATOMIC_RELAXED);
    __atomic_store_n(&takes_no_writes, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) {
        add_numbered(&w, 2);
        assert_refused(&w, ERROR_UNAVAILABLE);
        assert_non_null(strstr(w.err.msg, "cannot be written"));
        assert_non_null(strstr(w.err.hint, "mount"));
        assert_true(w.err.retry_ms > 0);
    }
    assert_true(has_numbered(&w, 1)); /* what is there can be read all the same */
    __atomic_store_n(&takes_no_writes, false, __ATOMIC_RELAXED);
    add_numbered(&w, 2);
    assert_done(&w);
    assert_true(has_numbered(&w, 2));
    set_writes(false);
    world_close(&w);
}

/* The same with many at a time: those that share a transaction with the failure are tried alone,
 * and done; only the one that came first may have been alone already. */
static void test_io_error_groups(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    set_writes(true);
    for (int n = 1; n <= FAULT_ROUNDS; n++) {
        __atomic_store_n(&writes_left, n, __ATOMIC_RELAXED);
        assert_true(add_at_once(&w, 1000 * n, 8, 10) <= 1);
    }
    /* So much that pages are written before the commit, and the transaction is lost in its middle:
     * what follows in it must not be written by itself, and then once more. */
    for (int n = 50; n <= 800; n *= 2) {
        __atomic_store_n(&writes_left, n, __ATOMIC_RELAXED);
        assert_true(add_at_once(&w, 1000000 + 1000 * n, 400, 8000) <= 1);
    }
    __atomic_store_n(&writes_left, -1, __ATOMIC_RELAXED);
    set_writes(false);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, broken, test_broken);
    check_one(&check, "a transaction is in memory until its commit", test_no_spill);
    check_one(&check, "begins anew when told so", test_begin_anew);
    check_one(&check, "its files are nobody else's to read", test_private);
    check_one(&check, "refuses a database that another coved uses", test_second);
    check_one(&check, "syncs each commit when asked to", test_full_sync);
    check_one(&check, "an unknown state is an error, not an end", test_unknown_state);
    check_one(&check, "a migration happens whole or not at all", test_migrations);
    check_one(&check, "waits for a lock, says so, and recovers", test_locked);
    check_one(&check, "what was told before a lock was known is kept", test_locked_ledger);
    check_one(&check, "the loop goes on while another holds the database", test_loop_goes_on);
    check_one(&check, "writes to no file without a name", test_moved);
    check_one(&check, "a database that is cut in use is said to be", test_cut_in_use);
    check_one(&check, "a full disk is said, loses nothing, and is got over", test_disk_full);
    check_one(&check, "on a full disk each call is told its own fate", test_disk_full_groups);
    check_one(&check, "does not open on a full disk", test_open_full);
    check_one(&check, "does not open on a read-only disk", test_read_only);
    check_one(&check, "any write of the disk may fail", test_io_error);
    check_one(&check, "a disk that becomes read-only is said to be, and got over",
              test_read_only_in_use);
    check_one(&check, "nobody fails for a neighbour's write", test_io_error_groups);
    return check_run(&check, "sqlite");
}
