/* test_sqlite.c - databases that are broken, locked, full, gone, and processes that are killed
 *
 * What was told must be there afterwards; what cannot be done must be said, and be possible again
 * when the cause is gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "store/sqlite_schema.h"
#include "store_world.h"

#define FAULT_ROUNDS 40
#define CRASH_ROUNDS 20

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

/* --- opening
 * ------------------------------------------------------------------------------------------ */

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
    const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
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

/* --- migrations
 * --------------------------------------------------------------------------------------- */

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

/* --- locked, moved
 * ------------------------------------------------------------------------------------ */

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

/* --- a disk of its own
 * ---------------------------------------------------------------------------------- */

/* A folder that is a small disk, seen by this process only. */
static void small_disk(const char *dir, const char *options)
{
    static bool is_apart;
    if (!is_apart &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
        check_skip("needs the power to mount");
    is_apart = true;
    assert_int_equal(mount("none", dir, "tmpfs", 0, options), 0);
}

static void world_open_small(struct world *w, const char *options)
{
    struct error err;
    *w = (struct world){.dir = check_temp_dir()};
    small_disk(w->dir, options);
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
    assert_refused(&w, ERROR_UNAVAILABLE);
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
        assert_int_equal(answer->err->code, ERROR_UNAVAILABLE);
    world_on_answer(fate->world, &(struct store_answer){0});
}

/* Groups of many, of which some fit: what is told as done is done, and no more. */
static void test_disk_full_groups(void **state)
{
    (void)state;
    struct world w;
    static struct fate fates[400];
    world_open_small(&w, "size=2m");
    scoped_free char *doc = xmalloc(8000);
    memset(doc, 'x', 7999);
    doc[7999] = '\0';
    for (int i = 0; i < 400; i++) {
        char id[32];
        snprintf(id, sizeof(id), "ses_%d", i);
        struct store_session s = a_session(id);
        s.doc = doc;
        fates[i] = (struct fate){.world = &w};
        w.waiting++;
        store_add_session(w.store, &s, on_fate, &fates[i]);
    }
    world_wait(&w);
    size_t done = 0;
    for (int i = 0; i < 400; i++) {
        done += fates[i].is_done;
        assert_int_equal(has_numbered(&w, i), fates[i].is_done);
    }
    assert_true(done > 0 && done < 400);
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
    assert_int_equal(w.err.code, ERROR_UNAVAILABLE);
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

/* --- a disk that fails
 * ------------------------------------------------------------------------------------ */

static int writes_left; /* of SQLite, until one fails; negative: none does */

static bool fails_now(void)
{
    int left = __atomic_sub_fetch(&writes_left, 1, __ATOMIC_RELAXED);
    errno = EIO;
    return left == 0;
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

/* The n-th write fails, for each n: once, anywhere, in groups of four calls. */
static void test_io_error(void **state)
{
    (void)state;
    struct world w;
    size_t failures = 0;
    world_open(&w);
    set_writes(true);
    for (int n = 1; n <= FAULT_ROUNDS; n++) {
        bool told[8];
        __atomic_store_n(&writes_left, n, __ATOMIC_RELAXED);
        for (int i = 0; i < 8; i++) {
            add_numbered(&w, 100 * n + i);
            told[i] = !w.has_failed;
            failures += w.has_failed;
            if (w.has_failed)
                assert_refused(&w, ERROR_UNAVAILABLE);
        }
        assert_true(told[7] || n > 7); /* one failure, and it goes on */
        if (n % 10 == 0)
            world_reopen(&w);
        for (int i = 0; i < 8; i++)
            assert_int_equal(has_numbered(&w, 100 * n + i), told[i]);
    }
    __atomic_store_n(&writes_left, -1, __ATOMIC_RELAXED);
    set_writes(false);
    assert_true(failures >= FAULT_ROUNDS / 4);
    world_close(&w);
}

/* --- kill -9
 * -------------------------------------------------------------------------------------------- */

/* The other process: each session is added, made busy, ended; each step is told when it is done.
 * Many sessions are under way at once. */
struct writer {
    struct store *store;
    int number, step;
    char id[32];
};

#define WRITERS 12

static void writer_next(struct writer *wr);

static void on_written(void *ctx, const struct store_answer *answer)
{
    struct writer *wr = ctx;
    char line[32];
    struct error err;
    BUG_ON(answer->err != NULL);
    int len = snprintf(line, sizeof(line), "%d %d\n", wr->number, wr->step);
    if (fd_write_all(STDOUT_FILENO, line, (size_t)len, &err) < 0)
        _exit(0); /* nobody listens any more */
    if (++wr->step == 3) {
        wr->step = 0;
        wr->number += WRITERS;
    }
    writer_next(wr);
}

static void writer_next(struct writer *wr)
{
    snprintf(wr->id, sizeof(wr->id), "ses_%d", wr->number);
    struct store_session s = a_session(wr->id);
    struct store_session_change c = {.id = wr->id, .to = STORE_SESSION_BUSY};
    if (wr->step == 2)
        c = (struct store_session_change){
            .id = wr->id, .to = STORE_SESSION_TERMINATED, .ended_ns = 7};
    if (wr->step == 0)
        store_add_session(wr->store, &s, on_written, wr);
    else
        store_change_session(wr->store, &c, on_written, wr);
}

static int writer_main(const char *path, int first)
{
    static struct writer writers[WRITERS];
    struct loop *loop;
    struct store *store;
    struct error err;
    if (loop_open(&loop, &err) < 0 ||
        store_open(&store, loop, &sqlite_ops, &(struct store_order){.place = path}, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.store = store, .number = first + i};
        writer_next(&writers[i]);
    }
    loop_run(loop);
    return 1;
}

static pid_t writer_start(const char *path, int first, int *out)
{
    int fds[2];
    char number[16];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    snprintf(number, sizeof(number), "%d", first);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_sqlite", "--writer", path, number, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    *out = fds[0];
    return pid;
}

/* Kills the writer after so many bytes were told; reads the rest of what was. -> its text */
static char *writer_listen(pid_t pid, int fd, size_t kill_after)
{
    size_t len = 0, cap = 1 * MIB;
    char *text = xmalloc(cap);
    ssize_t n;
    while ((n = read(fd, text + len, MIN(cap - 1 - len, 64))) > 0) {
        len += (size_t)n;
        if (len >= kill_after && pid > 0) {
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
            pid = -1;
        }
    }
    assert_int_equal(pid, -1); /* it did not end by itself */
    text[len] = '\0';
    close(fd);
    return text;
}

static void check_told(struct world *w, const char *text, size_t *count)
{
    static const enum store_session_state states[] = {STORE_SESSION_READY, STORE_SESSION_BUSY,
                                                      STORE_SESSION_TERMINATED};
    int number, step, used;
    for (; sscanf(text, "%d %d\n%n", &number, &step, &used) == 2; text += used) {
        assert_true(has_numbered(w, number));
        enum store_session_state now = row(w, session, 0)->state;
        size_t reached = now == states[2] ? 2 : now == states[1] ? 1 : 0;
        assert_true(reached >= (size_t)step);
        ++*count;
    }
}

static void test_kill(void **state)
{
    (void)state;
    struct world w;
    unsigned seed = (unsigned)getpid();
    size_t told = 0;
    print_message("# seed %u\n", seed);
    world_open(&w);
    for (int round = 0; round < CRASH_ROUNDS; round++) {
        int fd;
        store_free(take_ptr(&w.store));
        pid_t pid = writer_start(w.path, 100000 * round, &fd);
        scoped_free char *text = writer_listen(pid, fd, 1 + (size_t)rand_r(&seed) % 20000);
        assert_int_equal(world_try_open(&w, NULL), 0);
        check_told(&w, text, &told);
        ask_for(&w, amounts, store_get_usage, &(struct store_name){.owner = "key_a"});
        uint64_t usage = row(&w, amounts, 0)->sessions;
        ask_for(&w, session, store_list_sessions,
                &(struct store_filter){.is_live = true, .limit = STORE_PAGE_MAX});
        assert_int_equal(usage, w.count); /* the sums are those of what is there */
    }
    print_message("# %zu changes were told in %d rounds\n", told, CRASH_ROUNDS);
    assert_true(told > CRASH_ROUNDS);
    world_close(&w);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--writer") == 0)
        return writer_main(argv[2], (int)strtol(argv[3], NULL, 10));
    struct check check = {.count = 0};
    check_rows(&check, broken, test_broken);
    check_one(&check, "begins anew when told so", test_begin_anew);
    check_one(&check, "its files are nobody else's to read", test_private);
    check_one(&check, "refuses a database that another coved uses", test_second);
    check_one(&check, "syncs each commit when asked to", test_full_sync);
    check_one(&check, "an unknown state is an error, not an end", test_unknown_state);
    check_one(&check, "a migration happens whole or not at all", test_migrations);
    check_one(&check, "waits for a lock, says so, and recovers", test_locked);
    check_one(&check, "writes to no file without a name", test_moved);
    check_one(&check, "a full disk is said, loses nothing, and is got over", test_disk_full);
    check_one(&check, "on a full disk each call is told its own fate", test_disk_full_groups);
    check_one(&check, "does not open on a full disk", test_open_full);
    check_one(&check, "does not open on a read-only disk", test_read_only);
    check_one(&check, "any write of the disk may fail", test_io_error);
    check_one(&check, "what was told survives kill -9", test_kill);
    return check_run(&check, "sqlite");
}
