/* outbox.c - a list of datagrams and a watch for room */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"

struct outbox_item {
    struct outbox_item *next;
    size_t len;
    int fds[FD_PASS_MAX]; /* our own copies */
    size_t fd_count;
    char data[];
};

static void item_free(struct outbox_item *item)
{
    while (item->fd_count > 0)
        close(item->fds[--item->fd_count]);
    free(item);
}

static void drop_first(struct outbox *box)
{
    struct outbox_item *item = box->first;
    box->first = item->next;
    box->bytes -= item->len;
    if (!box->first)
        box->last = &box->first;
    item_free(item);
}

static void stop_watching(struct outbox *box)
{
    loop_watch_free(take_ptr(&box->watch));
    scoped_close_fd(&box->watch_fd);
    box->watch_fd = -1;
}

void outbox_init(struct outbox *box, struct loop *loop, int fd, size_t max_bytes)
{
    *box = (struct outbox){.fd = fd, .loop = loop, .watch_fd = -1, .max_bytes = max_bytes};
    box->last = &box->first;
}

void outbox_release(struct outbox *box)
{
    stop_watching(box);
    while (box->first)
        drop_first(box);
}

/* True when it is gone from our side: sent, or there is nobody to send it to. */
static bool try_send(const struct outbox *box, const void *data, size_t len, const int *fds,
                     size_t count)
{
    return fd_send(box->fd, data, len, fds, count) == 0 || (errno != EAGAIN && errno != ENOBUFS);
}

static void on_writable(void *ctx, unsigned events)
{
    (void)events;
    struct outbox *box = ctx;
    while (box->first) {
        const struct outbox_item *item = box->first;
        if (!try_send(box, item->data, item->len, item->fds, item->fd_count))
            return;
        drop_first(box);
    }
    stop_watching(box);
}

static int start_watching(struct outbox *box, struct error *err)
{
    if (box->watch)
        return 0;
    box->watch_fd = fcntl(box->fd, F_DUPFD_CLOEXEC, 3);
    if (box->watch_fd < 0)
        return error_sys(err, "watch a socket for room");
    return loop_watch_new(&box->watch, box->loop, box->watch_fd, LOOP_WRITE, on_writable, box, err);
}

static int keep(struct outbox *box, const void *data, size_t len, const int *fds, size_t fd_count,
                struct error *err)
{
    if (len > box->max_bytes - box->bytes)
        return error_set(err, ERROR_TOO_LARGE, "more than %zu bytes wait to be sent",
                         box->max_bytes);
    struct outbox_item *item = xmalloc(sizeof(*item) + len);
    *item = (struct outbox_item){.len = len};
    memcpy(item->data, data, len);
    for (; item->fd_count < fd_count; item->fd_count++) {
        item->fds[item->fd_count] = fcntl(fds[item->fd_count], F_DUPFD_CLOEXEC, 3);
        if (item->fds[item->fd_count] < 0) {
            error_sys(err, "keep a descriptor to be sent");
            item_free(item);
            return -1;
        }
    }
    *box->last = item;
    box->last = &item->next;
    box->bytes += len;
    return start_watching(box, err);
}

int outbox_send(struct outbox *box, const void *data, size_t len, const int *fds, size_t fd_count,
                struct error *err)
{
    if (!box->first && try_send(box, data, len, fds, fd_count))
        return 0;
    return keep(box, data, len, fds, fd_count, err);
}
