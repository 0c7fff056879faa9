/* kernel.c - frames to and from a kernel, with a queue for what it does not read yet */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"

#define READS_PER_TURN 32
#define QUEUE_MAX      (32u * 1024 * 1024)

/* A datagram that waits; its fds are our own copies. */
struct pending {
    struct pending *next;
    size_t len;
    int fds[FD_PASS_MAX];
    size_t fd_count;
    char data[];
};

struct kernel {
    int fd;
    struct loop *loop;
    struct loop_watch *watch;
    struct loop_watch *write_watch; /* while something waits */
    int write_fd;                   /* a copy: the loop takes one watch per fd */
    kernel_message_fn fn;
    void *ctx;
    struct frame_inbox inbox;
    struct pending *first, **last;
    size_t queued;
    bool *is_freed; /* set while a callback is under way */
};

/* --- ends ------------------------------------------------------------------------------------ */

static void pending_free(struct pending *p)
{
    while (p->fd_count > 0)
        close(p->fds[--p->fd_count]);
    free(p);
}

static void drop_queue(struct kernel *k)
{
    while (k->first) {
        struct pending *p = k->first;
        k->first = p->next;
        pending_free(p);
    }
    k->last = &k->first;
    k->queued = 0;
}

static void stop_writing(struct kernel *k)
{
    loop_watch_free(take_ptr(&k->write_watch));
    scoped_close_fd(&k->write_fd);
    k->write_fd = -1;
}

static void end(struct kernel *k, const char *why)
{
    loop_watch_free(take_ptr(&k->watch));
    stop_writing(k);
    drop_queue(k);
    k->fn(k->ctx, NULL, why);
}

void kernel_free(struct kernel *k)
{
    if (!k)
        return;
    if (k->is_freed)
        *k->is_freed = true;
    loop_watch_free(k->watch);
    stop_writing(k);
    drop_queue(k);
    frame_inbox_release(&k->inbox);
    close(k->fd);
    free(k);
}

/* --- receiving ------------------------------------------------------------------------------- */

static void close_all(int *fds, size_t count)
{
    while (count > 0)
        close(fds[--count]);
}

/* False when the channel, or the kernel itself, is no more. */
static bool take_one(struct kernel *k)
{
    static char datagram[KERNEL_FRAME_MAX];
    int fds[FD_PASS_MAX];
    size_t count = 0;
    ssize_t n = fd_recv(k->fd, datagram, sizeof(datagram), fds, &count);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    close_all(fds, count); /* a kernel has none to give */
    if (n <= 0) {
        end(k, n < 0 && errno == EMSGSIZE ? "a datagram that is too long" : NULL);
        return false;
    }
    struct frame_message m;
    const char *why;
    bool is_freed = false;
    switch (frame_inbox_add(&k->inbox, datagram, (size_t)n, &m, &why)) {
    case FRAME_PART:
        return true;
    case FRAME_BAD:
        end(k, why);
        return false;
    case FRAME_WHOLE:
        break;
    }
    k->is_freed = &is_freed;
    k->fn(k->ctx, &m, NULL);
    if (is_freed)
        return false;
    k->is_freed = NULL;
    return true;
}

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct kernel *k = ctx;
    for (int i = 0; i < READS_PER_TURN && take_one(k); i++)
        ;
}

int kernel_open(struct kernel **out, struct loop *loop, int fd, kernel_message_fn fn, void *ctx,
                struct error *err)
{
    struct kernel *k = xcalloc(1, sizeof(*k));
    *k = (struct kernel){.fd = fd, .loop = loop, .fn = fn, .ctx = ctx, .write_fd = -1};
    k->last = &k->first;
    frame_inbox_init(&k->inbox);
    if (loop_watch_new(&k->watch, loop, fd, LOOP_READ, on_readable, k, err) < 0) {
        kernel_free(k);
        return -1;
    }
    *out = k;
    return 0;
}

/* --- sending --------------------------------------------------------------------------------- */

/* True when it is gone from our side: sent, or the channel is dead, which the reader tells. */
static bool try_send(struct kernel *k, const void *data, size_t len, const int *fds, size_t count)
{
    return fd_send(k->fd, data, len, fds, count) == 0 || (errno != EAGAIN && errno != ENOBUFS);
}

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct kernel *k = ctx;
    while (k->first) {
        struct pending *p = k->first;
        if (!try_send(k, p->data, p->len, p->fds, p->fd_count))
            return;
        k->queued -= p->len;
        k->first = p->next;
        if (!k->first)
            k->last = &k->first;
        pending_free(p);
    }
    stop_writing(k);
}

static int start_writing(struct kernel *k, struct error *err)
{
    if (k->write_watch)
        return 0;
    k->write_fd = fcntl(k->fd, F_DUPFD_CLOEXEC, 3);
    if (k->write_fd < 0)
        return error_sys(err, "watch the kernel's channel");
    return loop_watch_new(&k->write_watch, k->loop, k->write_fd, LOOP_WRITE, on_writable, k, err);
}

static int queue(struct kernel *k, const void *data, size_t len, const int *fds, size_t fd_count,
                 struct error *err)
{
    if (k->queued + len > QUEUE_MAX)
        return error_set(err, ERROR_TOO_LARGE, "more than %u MiB wait for the kernel",
                         QUEUE_MAX / (1024 * 1024));
    struct pending *p = xmalloc(sizeof(*p) + len);
    *p = (struct pending){.len = len};
    memcpy(p->data, data, len);
    for (; p->fd_count < fd_count; p->fd_count++) {
        p->fds[p->fd_count] = fcntl(fds[p->fd_count], F_DUPFD_CLOEXEC, 3);
        if (p->fds[p->fd_count] < 0) {
            error_sys(err, "keep a descriptor for the kernel");
            pending_free(p);
            return -1;
        }
    }
    *k->last = p;
    k->last = &p->next;
    k->queued += len;
    return start_writing(k, err);
}

int kernel_send(struct kernel *k, enum kernel_frame_type type, uint32_t generation,
                const void *body, size_t len, const int *fds, size_t fd_count, struct error *err)
{
    static char datagram[KERNEL_FRAME_MAX];
    const char *at = body;
    do {
        size_t piece = MIN(len, (size_t)KERNEL_BODY_MAX);
        const struct kernel_frame f = {
            .length = (uint32_t)piece,
            .type = (uint16_t)type,
            .flags = len > piece ? KERNEL_MORE : 0,
            .generation = generation,
        };
        memcpy(datagram, &f, sizeof(f));
        if (piece > 0)
            memcpy(datagram + sizeof(f), at, piece);
        if ((k->first || !try_send(k, datagram, sizeof(f) + piece, fds, fd_count)) &&
            queue(k, datagram, sizeof(f) + piece, fds, fd_count, err) < 0)
            return -1;
        fd_count = 0;
        at += piece;
        len -= piece;
    } while (len > 0);
    return 0;
}
