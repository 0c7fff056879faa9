/* test_archive.c - rows before bytes, bytes away before rows forget; and back ends that fail
 *
 * A real store; a blob store that does what the test says and writes down what it is asked. Timers
 * come at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/archive.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "blob/blob_ops.h"
#include "store_world.h"

#define EXE      "exe_0123456789abcdefghjkmnpqr"
#define LONG_AGO 100

struct loop_timer *__real_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
static uint64_t longest_ms;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    longest_ms = MAX(longest_ms, delay_ms);
    return __real_loop_timer_new(loop, MIN(delay_ms, 2), fn, ctx);
}

/* --- a blob store ----------------------------------------------------------------------------- */

struct fake {
    struct blob blob;
    struct loop *loop;
    const char *path; /* of the database */
    int rows;         /* when the first put began */
    struct strbuf log;
    unsigned failures; /* of puts that are still to come */
    bool fails_to_remove;
    struct fake_put *put;
    struct loop_timer *timer;
    struct fake_removal *removal;
};

struct fake_put {
    struct blob_put base;
    struct fake *fake;
    struct blob_put_order order;
    char key[BLOB_KEY_MAX_BYTES];
    size_t got;
};

struct fake_removal {
    struct fake *fake;
    blob_fn fn;
    void *ctx;
    struct loop_timer *timer;
};

/* How many rows have a place, as another process would see it. */
static int count_rows(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(place) FROM artifacts", -1, &st, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int count = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return count;
}

static struct blob_put *put_open(struct blob *blob, const struct blob_put_order *order)
{
    struct fake *f = (struct fake *)blob;
    if (f->rows < 0)
        f->rows = count_rows(f->path);
    struct fake_put *put = xcalloc(1, sizeof(*put));
    assert_null(f->put);
    put->base.ops = blob->ops;
    put->fake = f;
    put->order = *order;
    snprintf(put->key, sizeof(put->key), "%s", order->key);
    return &(f->put = put)->base;
}

static bool put_write(struct blob_put *base, const void *data, size_t len)
{
    (void)data;
    ((struct fake_put *)base)->got += len;
    return true;
}

static void on_put_time(void *ctx)
{
    struct fake *f = ctx;
    struct fake_put *put = take_ptr(&f->put);
    struct error err;
    loop_timer_free(take_ptr(&f->timer));
    bool fails = f->failures > 0;
    if (fails)
        f->failures--;
    error_set(&err, ERROR_UNAVAILABLE, "the disk is full");
    strbuf_add_fmt(&f->log, "put%s %s %zu;", fails ? "!" : "", strrchr(put->key, '/') + 1 + 60,
                   put->got);
    put->order.on_done(put->order.ctx, fails ? &err : NULL);
    free(put);
}

static void put_end(struct blob_put *base)
{
    struct fake *f = ((struct fake_put *)base)->fake;
    f->timer = loop_timer_new(f->loop, 1, on_put_time, f);
}

static void put_abort(struct blob_put *base)
{
    struct fake *f = ((struct fake_put *)base)->fake;
    loop_timer_free(take_ptr(&f->timer));
    free(take_ptr(&f->put));
}

static void on_remove_time(void *ctx)
{
    struct fake_removal *r = ctx;
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the disk is dead");
    loop_timer_free(r->timer);
    r->fake->removal = NULL;
    r->fn(r->ctx, r->fake->fails_to_remove ? &err : NULL);
    free(r);
}

static void remove_blob(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    struct fake *f = (struct fake *)blob;
    struct fake_removal *r = xcalloc(1, sizeof(*r));
    *r = (struct fake_removal){.fake = f, .fn = fn, .ctx = ctx};
    strbuf_add_fmt(&f->log, "remove %s;", strrchr(key, '/') + 1 + 60);
    r->timer = loop_timer_new(f->loop, 1, on_remove_time, r);
    f->removal = r;
}

static const struct blob_ops fake_ops = {.put_open = put_open,
                                         .put_write = put_write,
                                         .put_end = put_end,
                                         .put_abort = put_abort,
                                         .remove = remove_blob};

/* --- the scene -------------------------------------------------------------------------------- */

struct scene {
    struct world w;
    struct fake fake;
    struct archive *archive;
    struct log log;
    unsigned found;
    char place[BLOB_KEY_MAX_BYTES];
    struct error err;
};

static void scene_open(struct scene *s, uint64_t disk_bytes, uint64_t retention_ms)
{
    *s = (struct scene){0};
    longest_ms = 0;
    world_open(&s->w);
    s->fake =
        (struct fake){.blob.ops = &fake_ops, .loop = s->w.loop, .path = s->w.path, .rows = -1};
    strbuf_init(&s->fake.log, 64 * KIB);
    s->log = (struct log){.fd = -1, .level = LOG_LEVEL_COUNT};
    const struct archive_order order = {.loop = s->w.loop,
                                        .store = s->w.store,
                                        .blob = &s->fake.blob,
                                        .log = &s->log,
                                        .retention_ms = retention_ms,
                                        .disk_bytes = disk_bytes,
                                        .execution_bytes = 1 * MIB};
    s->archive = archive_new(&order);
}

static void scene_close(struct scene *s)
{
    store_free(take_ptr(&s->w.store)); /* what is under way is answered, to whoever asked */
    archive_free(s->archive);
    if (s->fake.removal) {
        loop_timer_free(s->fake.removal->timer);
        free(s->fake.removal);
    }
    strbuf_release(&s->fake.log);
    world_close(&s->w);
}

/* Files of so many bytes each: "a", "b", ..., with hashes that end in their names. */
static void make_haul(struct scene *s, struct haul *haul, const size_t *sizes, size_t count)
{
    struct artifact_list list = {0};
    static const char block[4096];
    for (size_t i = 0; i < count; i++) {
        struct artifact *a = artifact_list_add(&list);
        *a = (struct artifact){.size = sizes[i], .has_content = true};
        a->path = xasprintf("%c", (char)('a' + i));
        memset(a->sha256, 'a' + (int)i, sizeof(a->sha256));
        haul_begin(haul, a);
        haul_add(haul, block, sizes[i]);
        haul_end(haul, a);
    }
    haul_complete(haul, &list, archive_room(s->archive));
    artifact_list_release(&list);
}

/* An execution that ends, with rows of the files that `left` left: usually its own. */
static void write_end(struct scene *s, const char *id, const char *left, int64_t ended_ns,
                      const struct haul *haul)
{
    struct archive_rows rows;
    struct store_execution e = an_execution(id, NULL);
    archive_rows_init(&rows, left, haul);
    e.state = STORE_EXECUTION_COMPLETED;
    e.ended_ns = ended_ns;
    e.artifacts = rows.list;
    ask(&s->w, store_add_execution, &e);
    archive_rows_release(&rows);
}

static void keep(struct scene *s, const char *id, int64_t ended_ns, const size_t *sizes,
                 size_t count)
{
    struct haul haul = {0};
    make_haul(s, &haul, sizes, count);
    write_end(s, id, id, ended_ns, &haul);
    assert_done(&s->w);
    archive_keep(s->archive, id, NULL, &haul);
}

static void on_found(void *ctx, const struct archive_file *file, const struct error *err)
{
    struct scene *s = ctx;
    s->found++;
    s->place[0] = '\0';
    if (file)
        snprintf(s->place, sizeof(s->place), "%s", file->place);
    else
        s->err = *err;
    loop_stop(s->w.loop);
}

static void find(struct scene *s, const char *id, const char *path)
{
    unsigned before = s->found;
    archive_find(s->archive, id, path, on_found, s);
    while (s->found == before)
        loop_run(s->w.loop);
}

static const char *log_of(const struct scene *s)
{
    return strbuf_str(&s->fake.log);
}

/* --- cases ------------------------------------------------------------------------------------ */

static const size_t two[] = {100, 200};

static void test_keep(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 3600000);
    keep(&s, EXE, clock_wall_ns(), two, 2);
    find(&s, EXE, "b"); /* waits until it is there */
    assert_string_equal(log_of(&s), "put 6161 100;put 6262 200;");
    assert_memory_equal(s.place, "artifacts/" EXE "/6262", strlen("artifacts/" EXE "/6262"));
    find(&s, EXE, "c");
    assert_string_equal(s.err.word, "artifact_not_found");
    find(&s, "exe_other", "a");
    assert_string_equal(s.err.word, "artifact_not_found");
    scene_close(&s);
}

/* The row is there, with its place, when the first byte is put. */
static void test_rows_first(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 3600000);
    keep(&s, EXE, clock_wall_ns(), two, 2);
    find(&s, EXE, "b");
    assert_int_equal(s.fake.rows, 2);
    scene_close(&s);
}

/* Rows that cannot be written take the end with them: it is there with all of them, or not. */
static void test_together(void **state)
{
    (void)state;
    struct scene s;
    struct haul haul = {0};
    scene_open(&s, MIB, 3600000);
    make_haul(&s, &haul, two, 2);
    write_end(&s, EXE, "exe_nobody", clock_wall_ns(), &haul); /* there is no such execution */
    assert_true(s.w.has_failed);
    ask_for(&s.w, execution, store_get_execution, &(struct store_name){.id = EXE});
    assert_refused(&s.w, ERROR_NOT_FOUND);
    find(&s, EXE, "a");
    assert_string_equal(log_of(&s), "");
    assert_string_equal(s.err.word, "artifact_not_found");
    assert_int_equal(archive_room(s.archive), MIB);
    write_end(&s, EXE, EXE, clock_wall_ns(), &haul);
    assert_done(&s.w);
    ask_for(&s.w, artifact, store_list_artifacts, &(struct store_name){.id = EXE});
    assert_int_equal(s.w.count, 2);
    haul_release(&haul);
    scene_close(&s);
}

static void test_retry(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 3600000);
    s.fake.failures = 3;
    keep(&s, EXE, clock_wall_ns(), two, 1);
    find(&s, EXE, "a");
    assert_string_equal(log_of(&s), "put! 6161 100;put! 6161 100;put! 6161 100;put 6161 100;");
    assert_true(s.place[0]);
    scene_close(&s);
}

static void test_give_up(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 3600000);
    s.fake.failures = 6;
    keep(&s, EXE, clock_wall_ns(), two, 2);
    find(&s, EXE, "a");
    assert_string_equal(s.err.word, "artifact_gone");
    find(&s, EXE, "b"); /* the next has its own luck */
    assert_true(s.place[0]);
    scene_close(&s);
}

static void wait_for_log(struct scene *s, const char *text)
{
    while (!strstr(log_of(s), text))
        ask_for(&s->w, artifact, store_list_artifacts, &(struct store_name){.id = EXE});
}

static void test_age(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 1000);
    keep(&s, EXE, LONG_AGO, two, 2);
    wait_for_log(&s, "remove 6161;remove 6262;");
    do
        find(&s, EXE, "b"); /* its row forgets a little later */
    while (s.place[0]);
    assert_string_equal(s.err.word, "artifact_gone");
    ask_for(&s.w, amounts, store_get_kept, &(struct store_name){0});
    assert_int_equal(row(&s.w, amounts, 0)->disk_bytes, 0);
    scene_close(&s);
}

/* What could not be removed still has its place, and is removed again. */
static void test_removal_fails(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, MIB, 1000);
    s.fake.fails_to_remove = true;
    keep(&s, EXE, LONG_AGO, two, 1);
    wait_for_log(&s, "remove 6161;remove 6161;");
    find(&s, EXE, "a");
    assert_true(s.place[0]);
    s.fake.fails_to_remove = false;
    do
        find(&s, EXE, "a");
    while (s.place[0]);
    scene_close(&s);
}

/* All of an execution go together, the oldest first. */
static void test_crowd(void **state)
{
    (void)state;
    static const size_t sizes[] = {4000, 3000};
    struct scene s;
    scene_open(&s, 10000, 3600000);
    keep(&s, "exe_1", clock_wall_ns(), sizes, 2);
    find(&s, "exe_1", "b");
    keep(&s, "exe_2", clock_wall_ns(), sizes, 2);
    do
        find(&s, "exe_1", "b");
    while (s.place[0]);
    assert_string_equal(s.err.word, "artifact_gone");
    find(&s, "exe_1", "a");
    assert_false(s.place[0]);
    find(&s, "exe_2", "a");
    assert_true(s.place[0]);
    find(&s, "exe_2", "b");
    assert_true(s.place[0]);
    scene_close(&s);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "bytes are kept and found", test_keep);
    check_one(&check, "rows are written before bytes", test_rows_first);
    check_one(&check, "an end is there with its rows, or not", test_together);
    check_one(&check, "a put that fails is tried again", test_retry);
    check_one(&check, "what cannot be kept is given up, alone", test_give_up);
    check_one(&check, "what is old goes", test_age);
    check_one(&check, "what cannot be removed is not forgotten", test_removal_fails);
    check_one(&check, "the oldest go when it is crowded", test_crowd);
    return check_run(&check, "archive");
}
