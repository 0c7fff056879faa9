/* pump.c - one poll(), two buffers
 *
 * The standard streams may be anything, and their modes are shared with whoever started us, so they
 * are never made non-blocking: they are read and written only when poll() says that this will not
 * block, and a pipe is written by pieces for which that holds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pump.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

#define BUFFER_BYTES (64 * KIB)
#define NS_PER_MS    1000000

struct buffer {
    size_t from, to;
    char data[BUFFER_BYTES];
};

enum { POLL_IN, POLL_OUT, POLL_END, POLL_ASIDES, POLLS = POLL_ASIDES + PUMP_ASIDE };

struct pump {
    struct pump_order *order;
    struct buffer up, down; /* to the connection, and from it */
    struct pollfd polls[POLLS];
    bool has_input_ended, is_finished;
    int64_t deadline_ns; /* 0: none */
};

static bool is_empty(const struct buffer *b)
{
    return b->from == b->to;
}

/* --- the connection --------------------------------------------------------------------------- */

ssize_t pump_socket_read(void *fd, void *data, size_t len)
{
    ssize_t n = recv(*(int *)fd, data, len, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? PUMP_AGAIN : PUMP_BROKEN;
    return n;
}

ssize_t pump_socket_write(void *fd, const void *data, size_t len)
{
    ssize_t n = send(*(int *)fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? PUMP_AGAIN : PUMP_BROKEN;
    return n;
}

bool pump_socket_finish(void *fd)
{
    return shutdown(*(int *)fd, SHUT_WR) == 0;
}

/* False: it has ended. It is asked although poll() said nothing, since a part of what came may
 * already be inside of TLS. */
static bool read_end(struct pump *p)
{
    const struct pump_end *end = &p->order->end;
    if (!is_empty(&p->down))
        return true;
    ssize_t n = end->read(end->ctx, p->down.data, BUFFER_BYTES);
    if (n == PUMP_AGAIN)
        return true;
    p->down.from = 0;
    p->down.to = n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* What cannot be written any more is dropped: its end is found where it is read, behind the last
 * answers. */
static void write_end(struct pump *p)
{
    const struct pump_end *end = &p->order->end;
    while (!is_empty(&p->up)) {
        ssize_t n = end->write(end->ctx, p->up.data + p->up.from, p->up.to - p->up.from);
        if (n == PUMP_AGAIN)
            return;
        p->up.from = n < 0 ? p->up.to : p->up.from + (size_t)n;
    }
    if (!p->has_input_ended || p->is_finished)
        return;
    p->is_finished = true;
    if (!end->finish(end->ctx))
        p->deadline_ns = clock_now_ns() + (int64_t)PUMP_ENDS_MS * NS_PER_MS;
}

/* --- the standard streams --------------------------------------------------------------------- */

static void read_input(struct pump *p)
{
    ssize_t n = read(p->order->in_fd, p->up.data, BUFFER_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    p->up.from = 0;
    p->up.to = n > 0 ? (size_t)n : 0;
    p->has_input_ended = n <= 0;
}

/* False: nobody reads it. */
static bool write_output(struct pump *p)
{
    size_t len = p->down.to - p->down.from;
    const char *data = p->down.data + p->down.from;
    ssize_t n = send(p->order->out_fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK)
        n = write(p->order->out_fd, data, MIN(len, (size_t)PIPE_BUF));
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    p->down.from += (size_t)n;
    return true;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void fill_polls(struct pump *p)
{
    const struct pump_order *o = p->order;
    bool reads_input = is_empty(&p->up) && !p->has_input_ended;
    short end_events =
        (short)((is_empty(&p->down) ? POLLIN : 0) | (is_empty(&p->up) ? 0 : POLLOUT));
    p->polls[POLL_IN] = (struct pollfd){.fd = reads_input ? o->in_fd : -1, .events = POLLIN};
    p->polls[POLL_OUT] =
        (struct pollfd){.fd = o->out_fd, .events = is_empty(&p->down) ? 0 : POLLOUT};
    /* A connection that has ended would wake us again and again while its last bytes wait. */
    p->polls[POLL_END] = (struct pollfd){.fd = end_events ? o->end.fd : -1, .events = end_events};
    for (size_t i = 0; i < PUMP_ASIDE; i++)
        p->polls[POLL_ASIDES + i] = (struct pollfd){.fd = o->asides[i].fd, .events = POLLIN};
}

static int timeout_ms(const struct pump *p)
{
    if (!p->deadline_ns)
        return -1;
    int64_t left_ns = p->deadline_ns - clock_now_ns();
    return left_ns > 0 ? (int)(left_ns / NS_PER_MS) + 1 : 0;
}

static bool is_asked(struct pump *p)
{
    bool is_stop = false;
    for (size_t i = 0; i < PUMP_ASIDE; i++) {
        struct pump_aside *aside = &p->order->asides[i];
        if (p->polls[POLL_ASIDES + i].revents && aside->ready(aside))
            is_stop = true;
    }
    return is_stop;
}

/* True: *outcome says how it ended. */
static bool turn(struct pump *p, enum pump_outcome *outcome)
{
    *outcome = p->has_input_ended ? PUMP_OVER : PUMP_LOST;
    if (!read_end(p))
        return true;
    fill_polls(p);
    if (poll(p->polls, POLLS, timeout_ms(p)) < 0 && errno != EINTR)
        return true;
    if (p->deadline_ns && clock_now_ns() >= p->deadline_ns)
        return true;
    *outcome = PUMP_ASKED;
    if (is_asked(p))
        return true;
    if (p->polls[POLL_IN].revents)
        read_input(p);
    write_end(p);
    *outcome = PUMP_UNREAD;
    if (p->polls[POLL_OUT].revents & POLLOUT)
        return !write_output(p);
    return p->polls[POLL_OUT].revents & (POLLERR | POLLNVAL);
}

enum pump_outcome pump_run(struct pump_order *order)
{
    struct pump p = {.order = order};
    enum pump_outcome outcome;
    while (!turn(&p, &outcome))
        ;
    return outcome;
}
