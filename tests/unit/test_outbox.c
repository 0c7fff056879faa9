/* test_outbox.c - datagrams for a socket that is full, slow, or gone */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define ITEM_BYTES 4096
#define MAX_BYTES  (1000 * ITEM_BYTES)

struct world {
    struct loop *loop;
    struct outbox box;
    int ours, theirs;
    unsigned fds_before;
    struct loop_watch *reader;
    unsigned fds_heard;
    uint32_t heard, wanted; /* items that came, in order; the loop stops at `wanted` */
};

static void world_open(struct world *w)
{
    struct error err;
    int pair[2];
    *w = (struct world){0};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    loop_free(w->loop); /* the first one of a process keeps descriptors of its own */
    w->fds_before = check_count_fds();
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    w->ours = pair[0];
    w->theirs = pair[1];
    outbox_init(&w->box, w->loop, w->ours, MAX_BYTES);
}

static void world_close(struct world *w)
{
    loop_watch_free(w->reader);
    outbox_release(&w->box);
    outbox_release(&w->box); /* twice does no harm: a channel that ended is freed later */
    close(w->ours);
    if (w->theirs >= 0)
        close(w->theirs);
    loop_free(w->loop);
    assert_int_equal(check_count_fds(), w->fds_before);
}

static int send_item(struct world *w, uint32_t number, const int *fds, size_t fd_count,
                     struct error *err)
{
    char item[ITEM_BYTES] = {0};
    memcpy(item, &number, sizeof(number));
    return outbox_send(&w->box, item, sizeof(item), fds, fd_count, err);
}

/* Sends items numbered from `first` until `wait` of them wait; answers the next number. */
static uint32_t fill(struct world *w, uint32_t first, size_t wait)
{
    struct error err;
    for (size_t waiting = w->box.bytes; waiting < wait * ITEM_BYTES; waiting = w->box.bytes)
        assert_int_equal(send_item(w, first++, NULL, 0, &err), 0);
    return first;
}

/* Takes one item, which must be the next; its fd or -1. */
static int hear(struct world *w)
{
    char item[ITEM_BYTES];
    int fds[FD_PASS_MAX];
    size_t count;
    uint32_t number;
    if (fd_recv(w->theirs, item, sizeof(item), fds, &count) != (ssize_t)sizeof(item))
        return -2;
    memcpy(&number, item, sizeof(number));
    assert_int_equal(number, w->heard++);
    assert_true(count <= 1);
    return count ? fds[0] : -1;
}

static void on_readable(void *ctx, unsigned events)
{
    (void)events;
    struct world *w = ctx;
    int fd = hear(w);
    if (fd >= 0) {
        close(fd);
        w->fds_heard++;
    }
    if (w->heard == w->wanted)
        loop_stop(w->loop);
}

static void hear_all(struct world *w, uint32_t until)
{
    struct error err;
    w->wanted = until;
    assert_int_equal(
        loop_watch_new(&w->reader, w->loop, w->theirs, LOOP_READ, on_readable, w, &err), 0);
    loop_run(w->loop);
    assert_int_equal(w->heard, until);
}

static void test_direct(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    assert_int_equal(send_item(&w, 0, NULL, 0, &err), 0);
    assert_int_equal(w.box.bytes, 0);
    assert_int_equal(hear(&w), -1);
    world_close(&w);
}

static void test_order(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t end = fill(&w, 0, 100);
    assert_int_equal(hear(&w), -1);
    assert_int_equal(hear(&w), -1); /* there is room now, but others wait in front */
    end = fill(&w, end, 101);
    hear_all(&w, end);
    assert_int_equal(w.box.bytes, 0);
    assert_null(w.box.first);
    assert_null(w.box.watch); /* else the loop would turn without end */
    world_close(&w);
}

static void test_again(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t end = fill(&w, 0, 10);
    hear_all(&w, end);
    loop_watch_free(take_ptr(&w.reader));
    end = fill(&w, end, 10); /* full a second time */
    hear_all(&w, end);
    world_close(&w);
}

static void test_fds(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    int pipe_fds[2];
    char byte;
    world_open(&w);
    uint32_t end = fill(&w, 0, 1);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    assert_int_equal(send_item(&w, end, &pipe_fds[1], 1, &err), 0);
    close(pipe_fds[1]);    /* a copy is kept */
    hear_all(&w, end + 1); /* on_readable closes what came */
    assert_int_equal(w.fds_heard, 1);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* no copy is left */
    close(pipe_fds[0]);
    world_close(&w);
}

static void test_fds_dropped(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    int pipe_fds[2];
    char byte;
    world_open(&w);
    uint32_t end = fill(&w, 0, 1);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    assert_int_equal(send_item(&w, end, &pipe_fds[1], 1, &err), 0);
    close(pipe_fds[1]);
    outbox_release(&w.box);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
    world_close(&w);
}

static void test_bad_fd(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    const int bad[2] = {0, 250};
    world_open(&w);
    uint32_t end = fill(&w, 0, 1);
    size_t before = w.box.bytes;
    unsigned fds = check_count_fds();
    assert_int_equal(send_item(&w, end, bad, 2, &err), -1);
    assert_int_equal(err.sys_errno, EBADF);
    assert_int_equal(w.box.bytes, before);
    assert_int_equal(check_count_fds(), fds); /* the first copy is not left */
    hear_all(&w, end);
    world_close(&w);
}

static void test_cap(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t end = fill(&w, 0, MAX_BYTES / ITEM_BYTES);
    assert_int_equal(w.box.bytes, MAX_BYTES);
    assert_int_equal(send_item(&w, end, NULL, 0, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    assert_int_equal(outbox_send(&w.box, "x", 1, NULL, 0, &err), -1);
    hear_all(&w, end); /* what was accepted comes, whole and in order */
    assert_int_equal(send_item(&w, end, NULL, 0, &err), 0);
    assert_int_equal(hear(&w), -1);
    world_close(&w);
}

static void test_gone(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    close(take_fd(&w.theirs));
    assert_int_equal(send_item(&w, 0, NULL, 0, &err), 0); /* no error: who reads notices */
    assert_int_equal(w.box.bytes, 0);
    world_close(&w);
}

static void test_gone_while_waiting(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    fill(&w, 0, 50);
    close(take_fd(&w.theirs));
    loop_run(w.loop); /* ends, since nothing is left to wait for */
    assert_int_equal(w.box.bytes, 0);
    assert_null(w.box.watch);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "what the socket takes is sent at once", test_direct);
    check_one(&check, "what waits keeps its order, and newer ones stay behind", test_order);
    check_one(&check, "it can be full more than once", test_again);
    check_one(&check, "descriptors are kept as copies and sent", test_fds);
    check_one(&check, "descriptors of what is dropped are closed", test_fds_dropped);
    check_one(&check, "a descriptor that is none is an error", test_bad_fd);
    check_one(&check, "too much is refused, what was accepted is not", test_cap);
    check_one(&check, "a peer that is gone is no error", test_gone);
    check_one(&check, "a peer that goes empties the box", test_gone_while_waiting);
    return check_run(&check, "outbox");
}
