/* test_feed.c - copying into a pipe whose reader is slow, or goes away */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/feed.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"
#include "pattern.h"

/* The sandbox's side: reads little at a time, so that the pipe is mostly full. */
struct reader {
    struct loop_watch *watch;
    int fd;
    size_t chunk;
    size_t stop_after; /* goes away when it has this much; SIZE_MAX: never */
    size_t total;
    bool has_end;
};

static void reader_stop(struct reader *r)
{
    loop_watch_free(r->watch);
    r->watch = NULL;
    close(r->fd);
    r->fd = -1;
}

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct reader *r = ctx;
    char data[4096];
    ssize_t n = read(r->fd, data, MIN(r->chunk, sizeof(data)));
    if (n < 0 && errno == EAGAIN)
        return;
    assert_true(n >= 0);
    for (ssize_t i = 0; i < n; i++)
        assert_int_equal(data[i], pattern_at(r->total + (size_t)i));
    r->total += (size_t)n;
    r->has_end = n == 0;
    if (r->has_end || r->total >= r->stop_after)
        reader_stop(r);
}

/* Keeps a pipe full from its other end; the feed's source. */
struct writer {
    struct loop_watch *watch;
    int fd;
    size_t at, len;
    bool was_refused; /* the feed closed its source */
};

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct writer *w = ctx;
    char data[5000];
    size_t n = MIN(sizeof(data), w->len - w->at);
    pattern_fill(data, w->at, n);
    ssize_t done = n ? write(w->fd, data, n) : 0;
    if (done < 0 && errno == EAGAIN)
        return;
    w->was_refused = done < 0 && errno == EPIPE;
    w->at += done > 0 ? (size_t)done : 0;
    if (w->at == w->len || done < 0) {
        loop_watch_free(w->watch);
        close(w->fd);
        w->fd = -1;
    }
}

struct world {
    struct loop *loop;
    struct reader reader;
    int sink_fd;
};

static void world_open(struct world *w, size_t chunk, size_t stop_after)
{
    struct error err;
    int fds[2];
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    w->sink_fd = fds[1];
    w->reader = (struct reader){.fd = fds[0], .chunk = chunk, .stop_after = stop_after};
    assert_int_equal(loop_watch_new(&w->reader.watch, w->loop, w->reader.fd, LOOP_READ, on_readable,
                                    &w->reader, &err),
                     0);
}

/* Runs until both the feed and its reader have ended by themselves. */
static void world_run(struct world *w, int source_fd)
{
    struct error err;
    scoped(feed) struct feed *feed = NULL;
    int sink = w->sink_fd;
    assert_int_equal(feed_new(&feed, w->loop, source_fd, sink, &err), 0);
    loop_run(w->loop);
    assert_int_equal(fcntl(source_fd, F_GETFD), -1); /* both were closed */
    assert_int_equal(fcntl(sink, F_GETFD), -1);
}

static int file_with(size_t len)
{
    int fd = memfd_create("source", MFD_CLOEXEC);
    char *data = xmalloc(len + 1);
    struct error err;
    pattern_fill(data, 0, len);
    assert_int_equal(fd_write_all(fd, data, len, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    free(data);
    return fd;
}

struct size_case {
    const char *name;
    size_t len;
    size_t chunk; /* that the reader takes at once */
};

static const struct size_case sizes[] = {
    {"nothing", 0, 4096},
    {"one byte", 1, 4096},
    {"one buffer", 64 * KIB, 4096},
    {"one buffer and a byte", 64 * KIB + 1, 4096},
    {"much, to a reader that takes little", 300 * KIB, 7},
    {"more than any pipe holds", 3 * MIB + 17, 4096},
};

static void test_file(void **state)
{
    const struct size_case *row = *state;
    struct world w;
    world_open(&w, row->chunk, SIZE_MAX);
    world_run(&w, file_with(row->len));
    assert_int_equal(w.reader.total, row->len);
    assert_true(w.reader.has_end);
    loop_free(w.loop);
}

static void test_pipe(void **state)
{
    const struct size_case *row = *state;
    struct world w;
    struct error err;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct writer writer = {.fd = fds[1], .len = row->len};
    world_open(&w, row->chunk, SIZE_MAX);
    assert_int_equal(
        loop_watch_new(&writer.watch, w.loop, writer.fd, LOOP_WRITE, on_writable, &writer, &err),
        0);
    world_run(&w, fds[0]);
    assert_int_equal(w.reader.total, row->len);
    assert_true(w.reader.has_end);
    loop_free(w.loop);
}

static void test_device(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 4096, SIZE_MAX);
    world_run(&w, open("/dev/null", O_RDONLY | O_CLOEXEC));
    assert_true(w.reader.has_end && w.reader.total == 0);
    loop_free(w.loop);
}

/* What cannot be read at all is an end, not a hang. */
static void test_unreadable(void **state)
{
    (void)state;
    static const int flags[] = {O_RDONLY | O_DIRECTORY, O_PATH};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct world w;
        struct error err;
        struct feed *feed = NULL;
        world_open(&w, 4096, SIZE_MAX);
        int source = open("/", flags[i] | O_CLOEXEC);
        int result = feed_new(&feed, w.loop, source, w.sink_fd, &err);
        loop_run(w.loop);
        assert_int_equal(result < 0, feed == NULL);
        assert_true(w.reader.has_end && w.reader.total == 0);
        feed_free(feed);
        assert_int_equal(fcntl(source, F_GETFD), -1); /* taken even when it fails */
        loop_free(w.loop);
    }
}

static void test_reader_gone(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 4096, 100 * KIB);
    world_run(&w, file_with(3 * MIB));
    assert_false(w.reader.has_end);
    loop_free(w.loop);
}

/* The feed lets go of its source too, so that who writes into it hears of it. */
static void test_reader_gone_pipe(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct writer writer = {.fd = fds[1], .len = 8 * MIB};
    world_open(&w, 4096, 100 * KIB);
    assert_int_equal(
        loop_watch_new(&writer.watch, w.loop, writer.fd, LOOP_WRITE, on_writable, &writer, &err),
        0);
    world_run(&w, fds[0]);
    assert_true(writer.was_refused);
    loop_free(w.loop);
}

static void test_no_reader(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 4096, SIZE_MAX);
    reader_stop(&w.reader);
    world_run(&w, file_with(10));
    loop_free(w.loop);
}

/* As when the sandbox ends while its input is still open. */
static void test_free_early(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct feed *feed;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    world_open(&w, 4096, SIZE_MAX);
    assert_int_equal(feed_new(&feed, w.loop, fds[0], w.sink_fd, &err), 0);
    feed_free(feed);
    loop_run(w.loop);
    assert_true(w.reader.has_end);
    assert_int_equal(write(fds[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(fds[1]);
    loop_free(w.loop);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    check_rows(&check, sizes, test_file);
    check_rows(&check, sizes, test_pipe);
    check_one(&check, "/dev/null is an empty input", test_device);
    check_one(&check, "what cannot be read is an empty input", test_unreadable);
    check_one(&check, "a reader that goes away ends a file", test_reader_gone);
    check_one(&check, "a reader that goes away ends a pipe", test_reader_gone_pipe);
    check_one(&check, "a reader that never was ends it", test_no_reader);
    check_one(&check, "it can be freed at any time", test_free_early);
    return check_run(&check, "feed");
}
