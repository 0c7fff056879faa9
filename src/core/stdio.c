/* stdio.c - pipes on the loop */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "core/feed.h"
#include "core/output_file.h"
#include "core/pipes.h"

#define READ_BYTES        (64 * KIB)
#define READS_PER_TURN    16 /* so that a flood leaves room for timers */
#define READS_NOW         64 /* a full pipe and what comes while it is emptied */
#define PIPE_WANTED_BYTES (1024 * 1024)

struct stdio {
    struct loop *loop;
    struct stdio_order order;
    struct feed *feed;
    struct stream {
        struct stdio *stdio;
        struct loop_watch *watch;
        int fd; /* -1: at its end */
        struct output_file file;
    } streams[2];
};

static enum execution_stream which_stream(const struct stream *s)
{
    return s == &s->stdio->streams[0] ? EXECUTION_STDOUT : EXECUTION_STDERR;
}

static void close_stream(struct stream *s)
{
    loop_watch_free(take_ptr(&s->watch));
    scoped_close_fd(&s->fd);
    s->fd = -1;
}

static void end_stream(struct stream *s)
{
    struct pipes *pipes = s->stdio->order.pipes;
    if (pipes && !s->watch)
        pipes_leave(pipes, take_fd(&s->fd));
    close_stream(s);
}

/* False when there is nothing more to read now. */
static bool read_some(struct stream *s)
{
    static char buffer[READ_BYTES];
    const struct stdio_order *o = &s->stdio->order;
    enum execution_stream which = which_stream(s);
    ssize_t n = s->file.fd >= 0 ? output_file_fill(&s->file, s->fd, buffer, sizeof(buffer))
                                : read(s->fd, buffer, sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        end_stream(s);
        return false;
    }
    if (o->outputs[which])
        output_add(o->outputs[which], buffer, (size_t)n);
    if (o->output)
        o->output(o->ctx, which, buffer, (size_t)n);
    return true;
}

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct stream *s = ctx;
    struct stdio *stdio = s->stdio;
    for (int i = 0; i < READS_PER_TURN && read_some(s); i++)
        ;
    if (stdio_has_ended(stdio))
        stdio->order.ended(stdio->order.ctx);
}

static int watch(struct stream *s, struct error *err)
{
    return loop_watch_new(&s->watch, s->stdio->loop, s->fd, LOOP_READ, on_readable, s, err);
}

static int open_output(struct stdio *stdio, struct stream *s, int *theirs, struct error *err)
{
    int fds[2];
    if (pipes_open_output(fds, err) < 0)
        return -1;
    s->fd = fds[0];
    *theirs = fds[1];
    if (stdio->order.wants_throughput)
        fcntl(fds[0], F_SETPIPE_SZ, PIPE_WANTED_BYTES); /* a smaller one is only slower */
    return stdio->order.is_lazy ? 0 : watch(s, err);
}

static int open_input(struct stdio *stdio, struct loop *loop, int *theirs, struct error *err)
{
    int fds[2];
    if (pipes_open(fds, err) < 0)
        return -1;
    *theirs = fds[0];
    if (stdio->order.stdin_fd >= 0)
        return feed_new(&stdio->feed, loop, take_fd(&stdio->order.stdin_fd), fds[1], err);
    close(fds[1]);
    return 0;
}

static struct stdio *make(struct loop *loop, const struct stdio_order *order)
{
    struct stdio *stdio = xcalloc(1, sizeof(*stdio));
    stdio->order = *order;
    stdio->loop = loop;
    for (int i = 0; i < 2; i++)
        stdio->streams[i] = (struct stream){.stdio = stdio, .fd = -1, .file.fd = -1};
    return stdio;
}

/* Whether the pipes were in stock. */
static bool take_pipes(struct stdio *stdio, int theirs[3])
{
    struct pipes_set set;
    const struct stdio_order *o = &stdio->order;
    if (!o->pipes || !o->is_lazy || o->stdin_fd >= 0 || !pipes_take(o->pipes, &set))
        return false;
    theirs[0] = set.input;
    for (int i = 0; i < 2; i++) {
        stdio->streams[i].fd = set.outputs[i][0];
        theirs[1 + i] = set.outputs[i][1];
    }
    return true;
}

int stdio_new(struct stdio **out, struct loop *loop, const struct stdio_order *order, int theirs[3],
              struct error *err)
{
    struct stdio *stdio = make(loop, order);
    scoped_fd int in = -1;
    scoped_fd int output = -1;
    scoped_fd int errors = -1;
    if (take_pipes(stdio, theirs)) {
        *out = stdio;
        return 0;
    }
    if (open_input(stdio, loop, &in, err) < 0 ||
        open_output(stdio, &stdio->streams[0], &output, err) < 0 ||
        open_output(stdio, &stdio->streams[1], &errors, err) < 0) {
        stdio_free(stdio);
        return -1;
    }
    theirs[0] = take_fd(&in);
    theirs[1] = take_fd(&output);
    theirs[2] = take_fd(&errors);
    *out = stdio;
    return 0;
}

void stdio_free(struct stdio *stdio)
{
    if (!stdio)
        return;
    feed_free(stdio->feed);
    scoped_close_fd(&stdio->order.stdin_fd);
    for (int i = 0; i < 2; i++) {
        close_stream(&stdio->streams[i]);
        output_file_close(&stdio->streams[i].file);
    }
    free(stdio);
}

int stdio_keep(struct stdio *stdio, size_t max_bytes, int fds[STDIO_KEPT_FDS], struct error *err)
{
    for (int i = 0; i < 2; i++) {
        struct stream *s = &stdio->streams[i];
        if (output_file_open(&s->file, max_bytes, err) < 0)
            return -1;
        fds[2 * i] = s->fd;
        fds[2 * i + 1] = s->file.fd;
    }
    return 0;
}

static void tell_again(void *ctx, const void *data, size_t len)
{
    struct stream *s = ctx;
    s->stdio->order.output(s->stdio->order.ctx, which_stream(s), data, len);
}

int stdio_adopt(struct stdio **out, struct loop *loop, const struct stdio_order *order,
                size_t max_bytes, const int fds[STDIO_KEPT_FDS], const uint64_t offsets[2],
                struct error *err)
{
    struct stdio *stdio = make(loop, order);
    for (int i = 0; i < 2; i++) {
        stdio->streams[i].fd = fds[2 * i];
        output_file_adopt(&stdio->streams[i].file, fds[2 * i + 1], max_bytes);
    }
    for (int i = 0; i < 2; i++) {
        struct stream *s = &stdio->streams[i];
        output_file_replay(&s->file, order->outputs[i], offsets[i],
                           order->output ? tell_again : NULL, s);
        if (watch(s, err) < 0) {
            stdio_free(stdio);
            return -1;
        }
    }
    *out = stdio;
    return 0;
}

bool stdio_has_ended(const struct stdio *stdio)
{
    return stdio->streams[0].fd < 0 && stdio->streams[1].fd < 0;
}

int stdio_watch(struct stdio *stdio, struct error *err)
{
    for (int i = 0; i < 2; i++) {
        struct stream *s = &stdio->streams[i];
        if (s->fd >= 0 && !s->watch && watch(s, err) < 0)
            return -1;
    }
    return 0;
}

void stdio_read_now(struct stdio *stdio)
{
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < READS_NOW && stdio->streams[s].fd >= 0; i++) {
            if (!read_some(&stdio->streams[s]))
                break;
        }
    }
}

void stdio_discard(struct stdio *stdio, void *ctx, void (*ended)(void *ctx))
{
    feed_free(take_ptr(&stdio->feed));
    stdio->order.outputs[0] = stdio->order.outputs[1] = NULL;
    for (int i = 0; i < 2; i++)
        output_file_close(&stdio->streams[i].file);
    stdio->order.output = NULL;
    stdio->order.ended = ended;
    stdio->order.ctx = ctx;
}
