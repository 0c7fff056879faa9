/* test_disk.c - blobs on a disk: whole or not at all, in any order, with slow readers and writers
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/disk.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"

#define BIG_BYTES (3 * MIB + 17)

struct world {
    char *dir, *place;
    struct loop *loop;
    struct blob *blob;

    /* the last answer */
    unsigned answers, drains, begins, pieces;
    bool has_failed;
    struct error err;
    struct blob_info info;
    struct strbuf got;
    struct strbuf keys; /* "a b " */
    bool has_more;
    struct blob_get *get;
    unsigned pause_at, abort_at; /* piece */
};

static void open_blob(struct world *w)
{
    struct error err;
    const struct disk_order order = {.dir = w->place, .is_full_sync = true};
    if (disk_open(&w->blob, w->loop, &order, &err) < 0)
        fail_msg("%s", err.msg);
}

static void world_open(struct world *w)
{
    struct error err;
    *w = (struct world){.dir = check_temp_dir()};
    w->place = xasprintf("%s/blobs", w->dir);
    assert_int_equal(loop_open(&w->loop, &err), 0);
    strbuf_init(&w->got, 64 * MIB);
    strbuf_init(&w->keys, MIB);
    open_blob(w);
}

static void world_close(struct world *w)
{
    blob_free(w->blob);
    loop_free(w->loop);
    strbuf_release(&w->got);
    strbuf_release(&w->keys);
    free(w->place);
    check_remove_dir(w->dir);
}

static void note(struct world *w, const struct error *err)
{
    w->answers++;
    w->has_failed = err != NULL;
    if (err)
        w->err = *err;
    loop_stop(w->loop);
}

static void wait_for_answer(struct world *w)
{
    unsigned before = w->answers;
    while (w->answers == before)
        loop_run(w->loop);
}

#define assert_done(w) assert_string_equal((w)->has_failed ? (w)->err.msg : "", "")
#define assert_refused(w, why)                                                                     \
    do {                                                                                           \
        assert_true((w)->has_failed);                                                              \
        assert_string_equal((w)->err.word ? (w)->err.word : "", why);                              \
    } while (0)

/* --- asking ----------------------------------------------------------------------------------- */

static void on_drain(void *ctx)
{
    struct world *w = ctx;
    w->drains++;
    loop_stop(w->loop);
}

static void on_done(void *ctx, const struct error *err)
{
    note(ctx, err);
}

static struct blob_put *begin_put(struct world *w, const char *key, uint64_t size)
{
    return blob_put_open(
        w->blob, &(struct blob_put_order){
                     .key = key, .size = size, .on_drain = on_drain, .on_done = on_done, .ctx = w});
}

static void put(struct world *w, const char *key, const char *text)
{
    struct blob_put *p = begin_put(w, key, BLOB_SIZE_UNKNOWN);
    blob_put_write(p, text, strlen(text));
    blob_put_end(p);
    wait_for_answer(w);
}

static void on_begin(void *ctx, const struct blob_info *info)
{
    struct world *w = ctx;
    w->begins++;
    w->info = *info;
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct world *w = ctx;
    w->pieces++;
    strbuf_add(&w->got, data, len);
    if (w->pieces == w->pause_at) {
        blob_get_pause(w->get);
        loop_stop(w->loop);
    }
    if (w->pieces == w->abort_at) {
        blob_get_abort(w->get);
        loop_stop(w->loop);
    }
}

static void begin_get(struct world *w, const char *key, uint64_t offset, uint64_t length)
{
    strbuf_clear(&w->got);
    w->begins = w->pieces = 0;
    w->get = blob_get_open(w->blob, &(struct blob_get_order){.key = key,
                                                             .offset = offset,
                                                             .length = length,
                                                             .on_begin = on_begin,
                                                             .on_data = on_data,
                                                             .on_done = on_done,
                                                             .ctx = w});
}

static void get(struct world *w, const char *key, uint64_t offset, uint64_t length)
{
    begin_get(w, key, offset, length);
    wait_for_answer(w);
}

static void on_stat(void *ctx, const struct error *err, const struct blob_info *info)
{
    struct world *w = ctx;
    if (info)
        w->info = *info;
    note(w, err);
}

static void stat_blob(struct world *w, const char *key)
{
    blob_stat(w->blob, key, on_stat, w);
    wait_for_answer(w);
}

static void remove_blob(struct world *w, const char *key)
{
    blob_remove(w->blob, key, on_done, w);
    wait_for_answer(w);
}

static void on_list(void *ctx, const struct error *err, const struct blob_page *page)
{
    struct world *w = ctx;
    strbuf_clear(&w->keys);
    for (size_t i = 0; page && i < page->count; i++)
        strbuf_add_fmt(&w->keys, "%s ", page->entries[i].key);
    w->has_more = page && page->has_more;
    note(w, err);
}

static const char *list(struct world *w, const char *prefix, const char *after, size_t limit)
{
    const struct blob_list_order order = {.prefix = prefix, .after = after, .limit = limit};
    blob_list(w->blob, &order, on_list, w);
    wait_for_answer(w);
    assert_done(w);
    return strbuf_str(&w->keys);
}

static unsigned unfinished(struct world *w)
{
    unsigned count = 0;
    scoped_free char *path = xasprintf("%s/tmp", w->place);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Works that nobody waits for come to their end, too. */
static void settle(struct world *w)
{
    stat_blob(w, "settle");
    for (int i = 0; i < 1000 && unfinished(w) > 0; i++)
        stat_blob(w, "settle");
}

/* --- keys ------------------------------------------------------------------------------------- */

static const struct key_case {
    const char *name, *key;
    bool is_key, is_prefix;
} key_cases[] = {
    {"takes a segment", "a", true, true},
    {"takes segments", "artifacts/exe_0/9f.86-d", true, true},
    {"takes nothing as a prefix only", "", false, true},
    {"takes a folder as a prefix only", "a/", false, true},
    {"refuses an absolute path", "/a", false, false},
    {"refuses an empty segment", "a//b", false, false},
    {"refuses the folder itself", "a/./b", false, false},
    {"refuses its parent", "../a", false, false},
    {"refuses its parent at the end", "a/..", false, false},
    {"refuses a hidden name", "a/.b", false, false},
    {"refuses the mark of blobs", "a@", false, false},
    {"refuses a space", "a b", false, false},
    {"refuses what is not ASCII", "\xc3\xa4", false, false},
    {"refuses too many segments", "1/2/3/4/5/6/7/8/9/10/11/12/13", false, false},
};

static void test_key(void **state)
{
    const struct key_case *row = *state;
    assert_int_equal(blob_key_is_valid(row->key), row->is_key);
    assert_int_equal(blob_prefix_is_valid(row->key), row->is_prefix);
}

static void test_long_key(void **state)
{
    (void)state;
    char key[BLOB_SEGMENT_MAX_BYTES + 2];
    memset(key, 'a', sizeof(key));
    key[BLOB_SEGMENT_MAX_BYTES] = '\0';
    assert_true(blob_key_is_valid(key));
    key[BLOB_SEGMENT_MAX_BYTES] = 'a';
    key[BLOB_SEGMENT_MAX_BYTES + 1] = '\0';
    assert_false(blob_key_is_valid(key));
}

/* --- put and get ------------------------------------------------------------------------------ */

static void test_round(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a/b/c", "hello");
    assert_done(&w);
    put(&w, "a/b", "a blob beside a folder of its name");
    assert_done(&w);
    blob_free(w.blob);
    open_blob(&w);
    get(&w, "a/b/c", 0, 0);
    assert_done(&w);
    assert_string_equal(strbuf_str(&w.got), "hello");
    assert_int_equal(w.begins, 1);
    assert_int_equal(w.info.size, 5);
    assert_true(w.info.modified_ns > 0);
    get(&w, "a/b", 7, 6);
    assert_string_equal(strbuf_str(&w.got), "beside");
    assert_int_equal(w.info.size, 34);
    assert_int_equal(unfinished(&w), 0);
    world_close(&w);
}

static void test_empty(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct blob_put *p = begin_put(&w, "nothing", 0);
    blob_put_end(p);
    wait_for_answer(&w);
    assert_done(&w);
    get(&w, "nothing", 0, 0);
    assert_done(&w);
    assert_int_equal(w.begins, 1);
    assert_int_equal(w.got.len, 0);
    world_close(&w);
}

static void fill(char *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char)((i * 31 + i / 251 + seed) & 0xff);
}

/* Waits for on_drain() whenever it is told to. */
static void put_big(struct world *w, const char *key, const char *data)
{
    struct blob_put *p = begin_put(w, key, BIG_BYTES);
    for (size_t at = 0, step = 100000; at < BIG_BYTES; at += step) {
        unsigned before = w->drains;
        if (!blob_put_write(p, data + at, MIN(step, BIG_BYTES - at))) {
            while (w->drains == before)
                loop_run(w->loop);
        }
    }
    blob_put_end(p);
    wait_for_answer(w);
}

static void test_big(void **state)
{
    (void)state;
    struct world w;
    scoped_free char *data = xmalloc(BIG_BYTES);
    world_open(&w);
    fill(data, BIG_BYTES, 1);
    put_big(&w, "big", data);
    assert_done(&w);
    assert_true(w.drains >= 3);
    get(&w, "big", 0, 0);
    assert_int_equal(w.got.len, BIG_BYTES);
    assert_memory_equal(w.got.data, data, BIG_BYTES);
    assert_true(w.pieces > 3);
    get(&w, "big", BIG_BYTES - 10, 100);
    assert_int_equal(w.got.len, 10);
    get(&w, "big", BIG_BYTES, 0);
    assert_done(&w);
    assert_int_equal(w.got.len, 0);
    get(&w, "big", BIG_BYTES + 1, 0);
    assert_refused(&w, "range_not_satisfiable");
    world_close(&w);
}

static void test_pause(void **state)
{
    (void)state;
    struct world w;
    scoped_free char *data = xmalloc(BIG_BYTES);
    world_open(&w);
    fill(data, BIG_BYTES, 2);
    put_big(&w, "big", data);
    w.pause_at = 2;
    begin_get(&w, "big", 0, 0);
    while (w.pieces < 2)
        loop_run(w.loop);
    unsigned answers = w.answers;
    for (int i = 0; i < 5; i++)
        stat_blob(&w, "big"); /* time in which more could come */
    assert_int_equal(w.pieces, 2);
    assert_int_equal(w.answers, answers + 5);
    blob_get_resume(w.get);
    assert_int_equal(w.pieces, 2); /* not from inside the call */
    wait_for_answer(&w);
    assert_int_equal(w.got.len, BIG_BYTES);
    assert_memory_equal(w.got.data, data, BIG_BYTES);
    world_close(&w);
}

/* The end, too, is not told while it is paused. */
static void test_pause_at_the_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "small", "x");
    w.pause_at = 1;
    begin_get(&w, "small", 0, 0);
    while (w.pieces < 1)
        loop_run(w.loop);
    unsigned answers = w.answers;
    stat_blob(&w, "small");
    assert_int_equal(w.answers, answers + 1);
    blob_get_resume(w.get);
    wait_for_answer(&w);
    assert_done(&w);
    assert_int_equal(w.pieces, 1);
    world_close(&w);
}

static void test_abort_get(void **state)
{
    (void)state;
    struct world w;
    scoped_free char *data = xmalloc(BIG_BYTES);
    world_open(&w);
    fill(data, BIG_BYTES, 3);
    put_big(&w, "big", data);
    unsigned fds = check_count_fds(), answers = w.answers;
    w.abort_at = 1;
    begin_get(&w, "big", 0, 0);
    while (w.pieces < 1)
        loop_run(w.loop);
    begin_get(&w, "big", 0, 0);
    blob_get_abort(w.get); /* while a thread opens it */
    stat_blob(&w, "big");
    stat_blob(&w, "big");
    assert_int_equal(w.answers, answers + 2);
    assert_int_equal(w.pieces, 0);
    while (check_count_fds() != fds) /* until the thread that opened it is done, too */
        stat_blob(&w, "big");
    world_close(&w);
}

static void test_abort_put(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "old");
    struct blob_put *p = begin_put(&w, "a", BLOB_SIZE_UNKNOWN);
    blob_put_write(p, "new", 3);
    blob_put_abort(p);
    p = begin_put(&w, "a", BLOB_SIZE_UNKNOWN);
    stat_blob(&w, "a"); /* by now its file is there */
    blob_put_write(p, "new", 3);
    blob_put_abort(p);
    settle(&w);
    assert_int_equal(unfinished(&w), 0);
    get(&w, "a", 0, 0);
    assert_string_equal(strbuf_str(&w.got), "old");
    world_close(&w);
}

static void test_free_cuts_off(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "old");
    unsigned answers = w.answers;
    struct blob_put *p = begin_put(&w, "a", BLOB_SIZE_UNKNOWN);
    blob_put_write(p, "new", 3);
    begin_get(&w, "a", 0, 0);
    blob_stat(w.blob, "a", on_stat, &w);
    blob_remove(w.blob, "b", on_done, &w);
    blob_list(w.blob, &(struct blob_list_order){.prefix = ""}, on_list, &w);
    blob_free(w.blob);
    open_blob(&w);
    get(&w, "a", 0, 0);
    assert_int_equal(w.answers, answers + 1);
    assert_string_equal(strbuf_str(&w.got), "old");
    world_close(&w); /* and waits for all of them */
}

static void test_wrong_size(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "old");
    struct blob_put *p = begin_put(&w, "a", 5);
    blob_put_write(p, "four", 4);
    blob_put_end(p);
    wait_for_answer(&w);
    assert_refused(&w, "size_mismatch");
    get(&w, "a", 0, 0);
    assert_string_equal(strbuf_str(&w.got), "old");
    assert_int_equal(unfinished(&w), 0);
    world_close(&w);
}

/* Who has it open reads on what was there. */
static void test_replace(void **state)
{
    (void)state;
    struct world w;
    scoped_free char *old = xmalloc(BIG_BYTES), *new = xmalloc(BIG_BYTES);
    world_open(&w);
    fill(old, BIG_BYTES, 4);
    fill(new, BIG_BYTES, 5);
    put_big(&w, "big", old);
    stat_blob(&w, "big");
    struct blob_info before = w.info;
    w.pause_at = 1;
    begin_get(&w, "big", 0, 0);
    while (w.pieces < 1)
        loop_run(w.loop);
    put_big(&w, "big", new);
    stat_blob(&w, "big");
    assert_string_not_equal(w.info.etag, before.etag);
    blob_get_resume(w.get);
    wait_for_answer(&w);
    assert_memory_equal(w.got.data, old, BIG_BYTES);
    w.pause_at = 0;
    get(&w, "big", 0, 0);
    assert_memory_equal(w.got.data, new, BIG_BYTES);
    world_close(&w);
}

/* --- stat, remove, list ----------------------------------------------------------------------- */

static void test_missing(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "x");
    stat_blob(&w, "b/c");
    assert_refused(&w, "blob_not_found");
    assert_int_equal(w.err.code, ERROR_NOT_FOUND);
    assert_non_null(strstr(w.err.msg, "'b/c'"));
    assert_null(strstr(w.err.msg, w.dir));
    get(&w, "a/b", 0, 0);
    assert_refused(&w, "blob_not_found");
    assert_int_equal(w.begins, 0);
    remove_blob(&w, "b/c");
    assert_done(&w);
    struct blob_health health;
    blob_get_health(w.blob, &health);
    assert_false(health.is_failing); /* a key that is not there is nobody's fault */
    assert_string_equal(health.kind, "disk");
    world_close(&w);
}

static void test_remove(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a/b/c", "x");
    put(&w, "a/d", "y");
    remove_blob(&w, "a/b/c");
    assert_done(&w);
    assert_string_equal(list(&w, "", NULL, 0), "a/d ");
    scoped_free char *empty = xasprintf("%s/objects/a/b", w.place);
    assert_int_equal(access(empty, F_OK), -1);
    put(&w, "a/b/c", "again");
    assert_done(&w);
    world_close(&w);
}

static void test_list(void **state)
{
    (void)state;
    static const char *const keys[] = {"a/b",   "a/b/c", "a-b", "a.b", "a/c", "a0",
                                       "b/x/y", "b/x",   "ab",  "a",   "b/xz"};
    static const char whole[] = "a a-b a.b a/b a/b/c a/c a0 ab b/x b/x/y b/xz ";
    struct world w;
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        put(&w, keys[i], keys[i]);
    assert_string_equal(list(&w, "", NULL, 0), whole);
    assert_false(w.has_more);
    assert_string_equal(list(&w, "a/", NULL, 0), "a/b a/b/c a/c ");
    assert_string_equal(list(&w, "b/x", NULL, 0), "b/x b/x/y b/xz ");
    assert_string_equal(list(&w, "c", NULL, 0), "");
    assert_string_equal(list(&w, "a/b/c/d", NULL, 0), "");
    assert_string_equal(list(&w, "", "a/b", 2), "a/b/c a/c ");
    assert_true(w.has_more);
    assert_string_equal(list(&w, "b", "b/x", 2), "b/x/y b/xz ");
    assert_false(w.has_more);
    world_close(&w);
}

/* Page by page, of any size, every key comes once. */
static void test_pages(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (int i = 0; i < 30; i++) {
        scoped_free char *key = xasprintf("p/%d/%d", i % 4, i);
        put(&w, key, "x");
    }
    scoped_free char *all = xstrdup(list(&w, "p/", NULL, 0));
    for (size_t limit = 1; limit < 8; limit++) {
        scoped_strbuf struct strbuf joined;
        char last[64] = "";
        strbuf_init(&joined, MIB);
        do {
            strbuf_add_str(&joined, list(&w, "p/", last[0] ? last : NULL, limit));
            joined.data[--joined.len] = '\0';
            snprintf(last, sizeof(last), "%s",
                     strrchr(joined.data, ' ') ? strrchr(joined.data, ' ') + 1 : joined.data);
            strbuf_add_char(&joined, ' ');
        } while (w.has_more);
        assert_string_equal(strbuf_str(&joined), all);
    }
    world_close(&w);
}

/* --- trouble ---------------------------------------------------------------------------------- */

static void test_leftovers(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "kept");
    blob_free(w.blob);
    scoped_free char *tmp = xasprintf("%s/tmp", w.place);
    free(check_temp_file(tmp, "of one that was killed"));
    assert_int_equal(unfinished(&w), 1);
    open_blob(&w);
    assert_int_equal(unfinished(&w), 0);
    get(&w, "a", 0, 0);
    assert_string_equal(strbuf_str(&w.got), "kept");
    world_close(&w);
}

static void test_links(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a/b", "x");
    scoped_free char *canary = check_temp_file(w.dir, "canary");
    scoped_free char *link = xasprintf("%s/objects/a/link@", w.place);
    scoped_free char *folder = xasprintf("%s/objects/folder", w.place);
    assert_int_equal(symlink(canary, link), 0);
    assert_int_equal(symlink(w.dir, folder), 0);
    get(&w, "a/link", 0, 0);
    assert_true(w.has_failed);
    assert_int_equal(w.got.len, 0);
    assert_string_equal(list(&w, "", NULL, 0), "a/b ");
    unlink(folder);
    world_close(&w);
}

/* Mounts of this process are its own from here on. */
static void be_apart(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        check_skip("no small disk can be mounted here");
}

static void test_full(void **state)
{
    (void)state;
    be_apart(); /* first: what is skipped frees nothing */
    struct world w;
    scoped_free char *data = xmalloc(BIG_BYTES);
    fill(data, BIG_BYTES, 6);
    world_open(&w);
    blob_free(take_ptr(&w.blob));
    assert_int_equal(mount("tmpfs", w.place, "tmpfs", 0, "size=1m,nr_inodes=64"), 0);
    open_blob(&w);
    put(&w, "a", "old");
    assert_done(&w);

    struct blob_put *p = begin_put(&w, "a", BIG_BYTES); /* there is no room, and it is known */
    wait_for_answer(&w);
    assert_refused(&w, "storage_full");
    assert_int_equal(w.err.code, ERROR_UNAVAILABLE);
    assert_non_null(strstr(w.err.msg, "the disk is full"));
    assert_true(w.err.hint[0] && w.err.retry_ms > 0);

    p = begin_put(&w, "a", BLOB_SIZE_UNKNOWN); /* it turns out */
    blob_put_write(p, data, BIG_BYTES);
    wait_for_answer(&w);
    assert_refused(&w, "storage_full");
    struct blob_health health;
    blob_get_health(w.blob, &health);
    assert_true(health.is_failing);
    assert_int_equal(unfinished(&w), 0);

    get(&w, "a", 0, 0);
    assert_string_equal(strbuf_str(&w.got), "old");
    put(&w, "a", "new"); /* and goes on by itself */
    assert_done(&w);
    blob_get_health(w.blob, &health);
    assert_false(health.is_failing);
    blob_free(take_ptr(&w.blob));
    umount2(w.place, MNT_DETACH);
    world_close(&w);
}

/* Threads that take a folder away while another makes it again. */
static void test_crowd(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    unsigned wanted = w.answers;
    for (int i = 0; i < 300; i++) {
        struct blob_put *p = begin_put(&w, i % 2 ? "x/y/z/1" : "x/y/z/2", BLOB_SIZE_UNKNOWN);
        blob_put_write(p, "x", 1);
        blob_put_end(p);
        blob_remove(w.blob, i % 2 ? "x/y/z/2" : "x/y/z/1", on_done, &w);
        wanted += 2;
    }
    while (w.answers < wanted) {
        loop_run(w.loop);
        assert_done(&w);
    }
    assert_int_equal(unfinished(&w), 0);
    world_close(&w);
}

int main(void)
{
    static struct check check;
    check_rows(&check, key_cases, test_key);
    check_one(&check, "refuses a segment that is too long", test_long_key);
    check_one(&check, "keeps what was put", test_round);
    check_one(&check, "keeps nothing at all", test_empty);
    check_one(&check, "writes and reads in pieces, each waiting for the other", test_big);
    check_one(&check, "tells nothing while it is paused", test_pause);
    check_one(&check, "tells no end while it is paused", test_pause_at_the_end);
    check_one(&check, "calls nobody after the end of a get", test_abort_get);
    check_one(&check, "leaves nothing of a put that was ended", test_abort_put);
    check_one(&check, "cuts off all that is under way", test_free_cuts_off);
    check_one(&check, "refuses less than was promised", test_wrong_size);
    check_one(&check, "replaces at once, and not for who reads", test_replace);
    check_one(&check, "says what is missing, by its key", test_missing);
    check_one(&check, "removes, with folders that are empty then", test_remove);
    check_one(&check, "lists in the order of bytes", test_list);
    check_one(&check, "lists page by page", test_pages);
    check_one(&check, "removes what a killed process has left", test_leftovers);
    check_one(&check, "follows no link", test_links);
    check_one(&check, "says that the disk is full, and goes on when there is room", test_full);
    check_one(&check, "makes folders again that somebody removes", test_crowd);
    return check_run(&check, "disk");
}
