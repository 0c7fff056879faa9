/* channel.c - a transport, a queue and a watch */
/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/channel.h"

#include <sys/socket.h>

#include "base/macros.h"

#define PIECES 8

int channel_open(struct channel *c, struct loop *loop, int fd, loop_watch_fn fn, void *ctx,
                 struct error *err)
{
    *c = (struct channel){0};
    transport_open(&c->t, fd, NULL);
    if (loop_watch_new(&c->watch, loop, fd, 0, fn, ctx, err) == 0)
        return 0;
    transport_close(&c->t);
    return -1;
}

void channel_close(struct channel *c)
{
    loop_watch_free(c->watch);
    c->watch = NULL;
    if (c->t.fd >= 0)
        transport_close(&c->t);
    outqueue_release(&c->out);
}

ssize_t channel_read(struct channel *c, void *data, size_t len)
{
    if (c->has_ended)
        return 0;
    ssize_t n = transport_read(&c->t, data, len);
    if (n == 0)
        c->has_ended = true;
    return n == TRANSPORT_AGAIN ? 0 : n < 0 ? -1 : n;
}

bool channel_flush(struct channel *c)
{
    while (c->out.len > 0) {
        struct iovec pieces[PIECES];
        ssize_t n = transport_write(&c->t, pieces, outqueue_peek(&c->out, pieces, PIECES));
        if (n == TRANSPORT_AGAIN)
            return true;
        if (n < 0)
            return false;
        outqueue_drop(&c->out, (size_t)n);
    }
    if (c->is_finishing && !c->is_shut) {
        if (c->is_cut)
            shutdown(c->t.fd, SHUT_WR);
        else
            transport_end(&c->t);
        c->is_shut = true;
    }
    return true;
}

bool channel_is_full(const struct channel *c)
{
    return c->out.len >= CHANNEL_FULL_BYTES;
}

void channel_watch(struct channel *c, bool wants_read)
{
    bool reads = wants_read && !c->has_ended, writes = c->out.len > 0;
    unsigned events = (reads || c->t.write_wants_read ? (unsigned)LOOP_READ : 0) |
                      (writes || c->t.read_wants_write ? (unsigned)LOOP_WRITE : 0);
    if (!c->watch || events == c->events)
        return;
    c->events = events;
    loop_watch_set(c->watch, events);
}
