/* feed.c - one buffer: either it waits for the source to fill it, or for the sink to take it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/feed.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"

#define FEED_BYTES (64 * KIB)

struct feed {
    struct loop *loop;
    int source_fd;
    int sink_fd;
    bool is_file; /* a file or the like: it never makes us wait, and cannot be polled */
    struct loop_watch *watch;
    size_t len, at;
    char buffer[FEED_BYTES];
};

static void close_both(struct feed *f)
{
    loop_watch_free(f->watch);
    f->watch = NULL;
    scoped_close_fd(&f->source_fd);
    scoped_close_fd(&f->sink_fd);
    f->source_fd = f->sink_fd = -1;
}

static void on_writable(void *ctx, unsigned events);
static void on_readable(void *ctx, unsigned events);

/* What to wait for next; a watch that cannot be had ends the feed, and the reader sees the end. */
static void wait_for(struct feed *f, int fd, unsigned events, loop_watch_fn fn)
{
    struct error err;
    loop_watch_free(f->watch);
    f->watch = NULL;
    if (loop_watch_new(&f->watch, f->loop, fd, events, fn, f, &err) < 0)
        close_both(f);
}

/* False at the end of the source. */
static bool fill(struct feed *f)
{
    ssize_t n;
    do
        n = read(f->source_fd, f->buffer, sizeof(f->buffer));
    while (n < 0 && errno == EINTR);
    f->at = 0;
    f->len = n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct feed *f = ctx;
    if (!fill(f))
        close_both(f);
    else if (f->len > 0)
        wait_for(f, f->sink_fd, LOOP_WRITE, on_writable);
}

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct feed *f = ctx;
    if (f->at == f->len && !fill(f)) {
        close_both(f);
        return;
    }
    ssize_t n = write(f->sink_fd, f->buffer + f->at, f->len - f->at);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        close_both(f);
        return;
    }
    f->at += n > 0 ? (size_t)n : 0;
    if (f->at == f->len && !f->is_file)
        wait_for(f, f->source_fd, LOOP_READ, on_readable);
}

int feed_new(struct feed **out, struct loop *loop, int source_fd, int sink_fd, struct error *err)
{
    struct feed *f = xcalloc(1, sizeof(*f));
    *f = (struct feed){.loop = loop, .source_fd = source_fd, .sink_fd = sink_fd};
    int status = loop_watch_new(&f->watch, loop, source_fd, LOOP_READ, on_readable, f, err);
    if (status < 0 && err->sys_errno == EPERM) { /* epoll says: this one is always ready */
        f->is_file = true;
        status = loop_watch_new(&f->watch, loop, sink_fd, LOOP_WRITE, on_writable, f, err);
    }
    if (status == 0 && fd_set_nonblock(sink_fd) < 0)
        status = error_sys(err, "feed input");
    if (status < 0) {
        feed_free(f);
        return -1;
    }
    *out = f;
    return 0;
}

void feed_free(struct feed *f)
{
    if (!f)
        return;
    close_both(f);
    free(f);
}
