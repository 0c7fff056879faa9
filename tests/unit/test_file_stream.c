/* test_file_stream.c - paths and streams of files, good, broken and cut at every byte */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/file_stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define STREAM_MAX (64 * KIB)

/* --- paths ----------------------------------------------------------------------------------- */

struct path_case {
    const char *name;
    const char *path;
    size_t len;
    bool is_good;
};

#define PATH(text) text, sizeof(text) - 1
#define NAME_255                                                                                   \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"        \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"        \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct path_case paths[] = {
    {"a plain name", PATH("plot.png"), true},
    {"a name of one byte", PATH("x"), true},
    {"a path with folders", PATH("a/b/c"), true},
    {"a hidden file", PATH(".hidden"), true},
    {"three dots are a name", PATH("..."), true},
    {"two dots and more are a name", PATH("..a/b../c"), true},
    {"control characters are a name", PATH("a\n\x1b[2J/\xff"), true},
    {"a backslash is no separator", PATH("a\\..\\b"), true},
    {"a part of 255 bytes", PATH(NAME_255), true},
    {"a part of 255 bytes in a folder", PATH("a/" NAME_255 "/b"), true},
    {"an empty path", PATH(""), false},
    {"an absolute path", PATH("/etc/passwd"), false},
    {"the root", PATH("/"), false},
    {"a dot", PATH("."), false},
    {"two dots", PATH(".."), false},
    {"two dots first", PATH("../x"), false},
    {"two dots last", PATH("x/.."), false},
    {"two dots inside", PATH("a/../b"), false},
    {"a dot first", PATH("./x"), false},
    {"a dot inside", PATH("a/./b"), false},
    {"a dot last", PATH("a/."), false},
    {"a slash at the end", PATH("a/"), false},
    {"two slashes", PATH("a//b"), false},
    {"a NUL inside", PATH("a\0b"), false},
    {"a NUL at the end", PATH("a\0"), false},
    {"a part of 256 bytes", PATH(NAME_255 "b"), false},
    {"a last part of 256 bytes", PATH("a/" NAME_255 "b"), false},
};

static void test_path(void **state)
{
    const struct path_case *row = *state;
    /* Exactly as long as said, so that a sanitizer sees a read past the end. */
    scoped_free char *copy = xmalloc(row->len + (row->len == 0));
    memcpy(copy, row->path, row->len);
    assert_int_equal(file_stream_is_good_path(copy, row->len), row->is_good);
}

static void test_long_path(void **state)
{
    (void)state;
    char path[GUEST_PATH_MAX + 1];
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 100 == 99 ? '/' : 'a';
    assert_true(file_stream_is_good_path(path, GUEST_PATH_MAX - 1));
    assert_false(file_stream_is_good_path(path, GUEST_PATH_MAX));
    assert_false(file_stream_is_good_path(path, SIZE_MAX));
}

/* --- streams --------------------------------------------------------------------------------- */

/* What the events said, as text that does not depend on how the bytes were cut. */
struct record {
    struct strbuf text;
    bool has_entry;      /* one is open */
    uint64_t left;       /* bytes that it still must get */
    const char *stop_at; /* a path at which the receiver fails, or NULL */
};

static int on_entry(void *ctx, const struct guest_file *file, const char *path, struct error *err)
{
    struct record *r = ctx;
    assert_false(r->has_entry);
    assert_true(file_stream_is_good_path(path, strlen(path)));
    assert_int_equal(strlen(path), file->path_len);
    r->has_entry = true;
    r->left = file->flags & GUEST_FILE_MISSING ? 0 : file->size;
    strbuf_add_fmt(&r->text, "[%s %o %" PRIu64 "%s:", path, file->mode, file->size,
                   file->flags & GUEST_FILE_MISSING ? " missing" : "");
    if (r->stop_at && strcmp(r->stop_at, path) == 0)
        return error_set(err, ERROR_LIMIT, "enough");
    return 0;
}

static int on_content(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    struct record *r = ctx;
    assert_true(r->has_entry && len > 0 && len <= r->left);
    r->left -= len;
    strbuf_add(&r->text, data, len);
    return 0;
}

static int on_done(void *ctx, struct error *err)
{
    (void)err;
    struct record *r = ctx;
    assert_true(r->has_entry);
    r->has_entry = false;
    strbuf_add_char(&r->text, ']');
    return 0;
}

static const struct file_stream_events events = {on_entry, on_content, on_done};

static void add(struct strbuf *b, uint32_t flags, uint64_t size, const char *path,
                const char *content)
{
    const struct guest_file f = {.flags = flags, .mode = 0100644, .size = size};
    file_stream_add_entry(b, &f, path);
    strbuf_add_str(b, content);
}

static void good_stream(struct strbuf *b)
{
    add(b, 0, 5, "a", "hello");
    add(b, 0, 0, "dir/empty", "");
    add(b, GUEST_FILE_MISSING, 99, "gone", "");
    add(b, 0, 10, "dir/b", "0123456789");
    file_stream_add_end(b);
}

static const char good_record[] =
    "[a 100644 5:hello][dir/empty 100644 0:][gone 100644 99 missing:][dir/b 100644 10:0123456789]";

static void test_every_split(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, STREAM_MAX);
    good_stream(&b);
    for (size_t split = 0; split <= b.len; split++) {
        struct file_stream_reader reader;
        struct record r = {.stop_at = NULL};
        struct error err;
        strbuf_init(&r.text, STREAM_MAX);
        file_stream_reader_init(&reader, &events, &r, true);
        assert_int_equal(file_stream_reader_feed(&reader, b.data, split, &err), 0);
        assert_int_equal(reader.is_over, split == b.len);
        assert_int_equal(file_stream_reader_feed(&reader, b.data + split, b.len - split, &err), 0);
        assert_true(reader.is_over && !reader.is_cut);
        assert_string_equal(strbuf_str(&r.text), good_record);
        strbuf_release(&r.text);
    }
}

static void test_chunks(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, STREAM_MAX);
    good_stream(&b);
    for (size_t chunk = 1; chunk <= b.len; chunk++) {
        struct file_stream_reader reader;
        struct record r = {.stop_at = NULL};
        struct error err;
        strbuf_init(&r.text, STREAM_MAX);
        file_stream_reader_init(&reader, &events, &r, true);
        for (size_t at = 0; at < b.len; at += chunk)
            assert_int_equal(
                file_stream_reader_feed(&reader, b.data + at, MIN(chunk, b.len - at), &err), 0);
        assert_string_equal(strbuf_str(&r.text), good_record);
        strbuf_release(&r.text);
    }
}

/* A list has sizes, but no bytes behind them. */
static void test_list(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b;
    struct file_stream_reader reader;
    struct record r = {.stop_at = NULL};
    struct error err;
    strbuf_init(&b, STREAM_MAX);
    strbuf_init(&r.text, STREAM_MAX);
    add(&b, 0, 1ull << 40, "large", "");
    add(&b, 0, 7, "small", "");
    const struct guest_file end = {.flags = GUEST_FILE_END | GUEST_FILE_TRUNCATED};
    strbuf_add(&b, &end, sizeof(end));
    file_stream_reader_init(&reader, &events, &r, false);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), 0);
    assert_true(reader.is_over && reader.is_cut);
    assert_string_equal(strbuf_str(&r.text), "[large 100644 1099511627776:][small 100644 7:]");
    strbuf_release(&r.text);
}

static void test_no_done(void **state)
{
    (void)state;
    static const struct file_stream_events two = {on_entry, on_content, NULL};
    scoped_strbuf struct strbuf b;
    struct file_stream_reader reader;
    struct record r = {.stop_at = NULL};
    struct error err;
    strbuf_init(&b, STREAM_MAX);
    strbuf_init(&r.text, STREAM_MAX);
    add(&b, 0, 2, "x", "yz");
    file_stream_add_end(&b);
    file_stream_reader_init(&reader, &two, &r, true);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), 0);
    assert_string_equal(strbuf_str(&r.text), "[x 100644 2:yz");
    strbuf_release(&r.text);
}

/* --- broken streams -------------------------------------------------------------------------- */

struct broken_case {
    const char *name;
    struct guest_file header;
    const char *path; /* path_len bytes of it, or more */
};

static const struct broken_case broken[] = {
    {"an empty path", {.path_len = 0}, ""},
    {"a path as long as the buffer", {.path_len = GUEST_PATH_MAX}, ""},
    {"a path longer than any", {.path_len = UINT32_MAX}, ""},
    {"a size that no file has", {.path_len = 1, .size = 1ull << 63}, "x"},
    {"the largest number as a size", {.path_len = 1, .size = UINT64_MAX}, "x"},
    {"a flag that is not known", {.path_len = 1, .flags = 1 << 3}, "x"},
    {"truncation without an end", {.path_len = 1, .flags = GUEST_FILE_TRUNCATED}, "x"},
    {"every flag but the end", {.path_len = 1, .flags = ~(uint32_t)GUEST_FILE_END}, "x"},
    {"an absolute path", {.path_len = 2}, "/x"},
    {"a way up", {.path_len = 4}, "../x"},
    {"a NUL in the path", {.path_len = 3}, "a\0b"},
};

/* Fails at the same byte however it is cut, and never recovers. */
static void test_broken(void **state)
{
    const struct broken_case *row = *state;
    scoped_strbuf struct strbuf b;
    strbuf_init(&b, STREAM_MAX);
    add(&b, 0, 1, "first", "1");
    size_t good = b.len;
    strbuf_add(&b, &row->header, sizeof(row->header));
    strbuf_add(&b, row->path, row->header.path_len < 16 ? row->header.path_len : 0);
    for (size_t i = 0; i < 3 * GUEST_PATH_MAX; i++)
        strbuf_add_char(&b, 'z');
    for (size_t chunk = 1; chunk <= 2 * b.len; chunk = chunk < 200 ? chunk + 1 : chunk * 2) {
        struct file_stream_reader reader;
        struct record r = {.stop_at = NULL};
        struct error err;
        size_t failures = 0;
        strbuf_init(&r.text, STREAM_MAX);
        file_stream_reader_init(&reader, &events, &r, true);
        for (size_t at = 0; at < b.len; at += chunk) {
            int result =
                file_stream_reader_feed(&reader, b.data + at, MIN(chunk, b.len - at), &err);
            assert_true(result < 0 || failures == 0);
            assert_true(result == 0 || at + chunk > good);
            failures += result < 0;
        }
        assert_true(failures > 0);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_string_equal(strbuf_str(&r.text), "[first 100644 1:1]");
        strbuf_release(&r.text);
    }
}

static void test_trailing(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b;
    struct file_stream_reader reader;
    struct record r = {.stop_at = NULL};
    struct error err;
    strbuf_init(&b, STREAM_MAX);
    strbuf_init(&r.text, STREAM_MAX);
    good_stream(&b);
    file_stream_reader_init(&reader, &events, &r, true);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), 0);
    assert_int_equal(file_stream_reader_feed(&reader, "", 0, &err), 0);
    assert_int_equal(file_stream_reader_feed(&reader, "x", 1, &err), -1);
    strbuf_add_char(&b, 'x');
    file_stream_reader_init(&reader, &events, &r, true);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), -1);
    strbuf_release(&r.text);
}

/* What the receiver refuses ends the stream too. */
static void test_receiver_fails(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf b;
    struct file_stream_reader reader;
    struct record r = {.stop_at = "dir/empty"};
    struct error err;
    strbuf_init(&b, STREAM_MAX);
    strbuf_init(&r.text, STREAM_MAX);
    good_stream(&b);
    file_stream_reader_init(&reader, &events, &r, true);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(file_stream_reader_feed(&reader, b.data, b.len, &err), -1);
    assert_string_equal(strbuf_str(&r.text), "[a 100644 5:hello][dir/empty 100644 0:");
    strbuf_release(&r.text);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, paths, test_path);
    check_one(&check, "a path may be one byte shorter than the limit", test_long_path);
    check_one(&check, "a good stream is read the same at every split", test_every_split);
    check_one(&check, "and in chunks of every size", test_chunks);
    check_one(&check, "a list has sizes and no content", test_list);
    check_one(&check, "nobody has to hear of the end of a file", test_no_done);
    check_rows(&check, broken, test_broken);
    check_one(&check, "nothing may follow the end", test_trailing);
    check_one(&check, "a receiver that fails ends the stream", test_receiver_fails);
    return check_run(&check, "file_stream");
}
