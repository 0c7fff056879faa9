/* test_upload.c - files into a pipe, read back as the files worker would */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/upload.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "core/execution.h"
#include "pattern.h"
#include "runtime/file_stream.h"

#define INPUTS_MAX 64

struct reader {
    struct loop_watch *watch;
    int fd;
    size_t chunk;
    size_t stop_after; /* bytes; SIZE_MAX: never */
    size_t total;
    bool has_end;
    struct file_stream_reader stream;
    /* what was seen */
    const struct execution_input *inputs;
    const uint64_t *true_sizes; /* content beyond is zeros */
    size_t entries, done;
    uint64_t at;
};

static int on_entry(void *ctx, const struct guest_file *file, const char *path, struct error *err)
{
    (void)err;
    struct reader *r = ctx;
    const struct execution_input *in = &r->inputs[r->entries++];
    assert_string_equal(path, in->path);
    assert_int_equal(file->size, in->size);
    assert_int_equal(file->mode, in->mode);
    assert_int_equal(file->mtime_ns, in->mtime_ns);
    r->at = 0;
    return 0;
}

static int on_content(void *ctx, const void *data, size_t len, struct error *err)
{
    (void)err;
    struct reader *r = ctx;
    uint64_t true_size = r->true_sizes[r->entries - 1];
    for (size_t i = 0; i < len; i++, r->at++)
        assert_int_equal(((const char *)data)[i],
                         r->at < true_size ? pattern_at((size_t)r->at) : 0);
    return 0;
}

static int on_done(void *ctx, struct error *err)
{
    (void)err;
    ((struct reader *)ctx)->done++;
    return 0;
}

static const struct file_stream_events events = {on_entry, on_content, on_done};

static void on_readable(void *ctx, unsigned flags)
{
    (void)flags;
    struct reader *r = ctx;
    char data[4096];
    struct error err;
    ssize_t n = read(r->fd, data, MIN(r->chunk, sizeof(data)));
    if (n < 0 && errno == EAGAIN)
        return;
    assert_true(n >= 0);
    assert_int_equal(file_stream_reader_feed(&r->stream, data, (size_t)n, &err), 0);
    r->total += (size_t)n;
    r->has_end = n == 0;
    if (r->has_end || r->total >= r->stop_after) {
        loop_watch_free(r->watch);
        close(r->fd);
    }
}

struct world {
    struct loop *loop;
    struct reader reader;
    struct upload *upload;
    int sink_fd;
    struct execution_input inputs[INPUTS_MAX];
    uint64_t true_sizes[INPUTS_MAX];
    size_t count;
};

static void add_input(struct world *w, const char *path, uint64_t size, uint64_t true_size)
{
    size_t i = w->count++;
    char *data = xmalloc((size_t)true_size + 1);
    struct error err;
    int fd = memfd_create("input", MFD_CLOEXEC);
    pattern_fill(data, 0, (size_t)true_size);
    assert_int_equal(fd_write_all(fd, data, (size_t)true_size, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    free(data);
    w->true_sizes[i] = true_size;
    w->inputs[i] = (struct execution_input){.path = xstrdup(path),
                                            .fd = fd,
                                            .size = size,
                                            .mode = 0100640 + (uint32_t)i,
                                            .mtime_ns = 1234567890123456789 + (int64_t)i};
}

static void world_start(struct world *w, size_t chunk, size_t stop_after)
{
    struct error err;
    int fds[2];
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    w->sink_fd = fds[1];
    w->reader = (struct reader){.fd = fds[0],
                                .chunk = chunk,
                                .stop_after = stop_after,
                                .inputs = w->inputs,
                                .true_sizes = w->true_sizes};
    file_stream_reader_init(&w->reader.stream, &events, &w->reader, true);
    assert_int_equal(loop_watch_new(&w->reader.watch, w->loop, w->reader.fd, LOOP_READ, on_readable,
                                    &w->reader, &err),
                     0);
    assert_int_equal(upload_new(&w->upload, w->loop, w->inputs, w->count, w->sink_fd, &err), 0);
}

static void world_end(struct world *w)
{
    upload_free(w->upload);
    assert_int_equal(fcntl(w->sink_fd, F_GETFD), -1);
    loop_free(w->loop);
    for (size_t i = 0; i < w->count; i++) {
        assert_int_equal(close(w->inputs[i].fd), 0); /* only borrowed */
        free(w->inputs[i].path);
    }
}

static void assert_all_came(const struct world *w)
{
    assert_true(w->reader.has_end && w->reader.stream.is_over);
    assert_int_equal(w->reader.entries, w->count);
    assert_int_equal(w->reader.done, w->count);
}

struct size_case {
    const char *name;
    uint64_t size;
    uint64_t true_size;
    size_t chunk;
};

static const struct size_case sizes[] = {
    {"an empty file", 0, 0, 4096},
    {"a small file", 5, 5, 4096},
    {"a file of one buffer", 64 * KIB, 64 * KIB, 4096},
    {"a file of one buffer and a byte", 64 * KIB + 1, 64 * KIB + 1, 4096},
    {"a large file", 2 * MIB + 3, 2 * MIB + 3, 4096},
    {"a file for a reader that takes little", 150 * KIB, 150 * KIB, 11},
    {"a file that became shorter is filled up", 200 * KIB, 70 * KIB, 4096},
    {"a file that became empty is filled up", 10, 0, 4096},
    {"a file that became longer is cut", 10, 500, 4096},
};

static void test_size(void **state)
{
    const struct size_case *row = *state;
    struct world w = {.count = 0};
    add_input(&w, "before", 3, 3);
    add_input(&w, "folder/file", row->size, row->true_size);
    add_input(&w, "behind", 4, 4);
    world_start(&w, row->chunk, SIZE_MAX);
    loop_run(w.loop);
    assert_all_came(&w);
    world_end(&w);
}

static void test_many(void **state)
{
    (void)state;
    struct world w = {.count = 0};
    for (int i = 0; i < INPUTS_MAX; i++) {
        char name[32];
        snprintf(name, sizeof(name), "dir-%d/file-%d", i % 5, i);
        add_input(&w, name, (uint64_t)i * 1000, (uint64_t)i * 1000);
    }
    world_start(&w, 4096, SIZE_MAX);
    loop_run(w.loop);
    assert_all_came(&w);
    world_end(&w);
}

static void test_none(void **state)
{
    (void)state;
    struct world w = {.count = 0};
    world_start(&w, 4096, SIZE_MAX);
    loop_run(w.loop);
    assert_all_came(&w);
    assert_int_equal(w.reader.total, sizeof(struct guest_file));
    world_end(&w);
}

static void test_long_path(void **state)
{
    (void)state;
    struct world w = {.count = 0};
    char path[GUEST_PATH_MAX];
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 200 == 199 ? '/' : 'p';
    path[sizeof(path) - 1] = '\0';
    add_input(&w, path, 70 * KIB, 70 * KIB);
    world_start(&w, 4096, SIZE_MAX);
    loop_run(w.loop);
    assert_all_came(&w);
    world_end(&w);
}

static void test_reader_gone(void **state)
{
    (void)state;
    static const size_t after[] = {1, 50, 4096, 300 * KIB};
    for (size_t i = 0; i < ARRAY_LEN(after); i++) {
        struct world w = {.count = 0};
        add_input(&w, "large", 4 * MIB, 4 * MIB);
        world_start(&w, 4096, after[i]);
        loop_run(w.loop); /* ends: the upload gives up */
        assert_false(w.reader.has_end);
        world_end(&w);
    }
}

static void test_free_early(void **state)
{
    (void)state;
    struct world w = {.count = 0};
    add_input(&w, "large", 4 * MIB, 4 * MIB);
    world_start(&w, 4096, SIZE_MAX);
    upload_free(w.upload);
    w.upload = NULL;
    loop_run(w.loop);
    assert_true(w.reader.has_end && !w.reader.stream.is_over);
    world_end(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    check_rows(&check, sizes, test_size);
    check_one(&check, "many files come in order", test_many);
    check_one(&check, "no files are an end mark", test_none);
    check_one(&check, "the longest path fits", test_long_path);
    check_one(&check, "a reader that goes away ends it", test_reader_gone);
    check_one(&check, "it can be freed at any time", test_free_early);
    return check_run(&check, "upload");
}
