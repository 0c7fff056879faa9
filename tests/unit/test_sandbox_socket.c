/* test_sandbox_socket.c - what a sandbox may send to its host, and what of it stays */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "linger.h"

#define PATIENCE_MS 60000
#define AT_ONCE_NS  10000000000ll

/* As on a kernel that lets anybody send descriptors; `sender` is the one inside. */
struct world {
    struct loop *loop;
    int ours, sender;
};

static void world_open(struct world *w)
{
    struct error err;
    int pair[2];
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    w->ours = pair[0];
    w->sender = pair[1];
}

static void world_close(struct world *w)
{
    sandbox_socket_close(w->loop, &w->ours);
    close(w->sender);
    loop_free(w->loop);
}

static void expect_closed(int reader)
{
    char byte;
    struct pollfd p = {.fd = reader, .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(read(reader, &byte, 1), 0);
    close(reader);
}

static void test_words(void **state)
{
    (void)state;
    struct world w;
    char data[8];
    world_open(&w);
    assert_int_equal(sandbox_socket_recv(w.loop, w.ours, data, sizeof(data)), -1);
    assert_int_equal(errno, EAGAIN);
    assert_false(sandbox_socket_is_violated(-1));
    assert_int_equal(send(w.sender, "word", 4, 0), 4);
    assert_int_equal(sandbox_socket_recv(w.loop, w.ours, data, sizeof(data)), 4);
    assert_false(sandbox_socket_is_violated(4));
    assert_int_equal(send(w.sender, "too many words", 14, 0), 14);
    assert_int_equal(sandbox_socket_recv(w.loop, w.ours, data, sizeof(data)), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_false(sandbox_socket_is_violated(-1));
    world_close(&w);
}

/* Said before an end with something unread. */
static void test_last_word(void **state)
{
    (void)state;
    struct world w;
    char data[8];
    world_open(&w);
    assert_int_equal(send(w.ours, "unread", 6, 0), 6);
    assert_int_equal(send(w.sender, "bye", 3, 0), 3);
    close(take_fd(&w.sender));
    assert_int_equal(sandbox_socket_recv(w.loop, w.ours, data, sizeof(data)), 3);
    assert_int_equal(sandbox_socket_recv(w.loop, w.ours, data, sizeof(data)), 0);
    world_close(&w);
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void give(struct world *w, const int *fds, size_t count)
{
    assert_int_equal(fd_send(w->sender, "x", 1, fds, count), 0);
}

static void expect_violation(struct world *w)
{
    char data[8];
    assert_int_equal(sandbox_socket_recv(w->loop, w->ours, data, sizeof(data)), -1);
    assert_true(sandbox_socket_is_violated(-1));
}

/* One comes with these words, and is closed by somebody else. */
static void expect_to_close(const char *words)
{
    struct world w;
    int ends[2];
    world_open(&w);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_send(w.sender, words, strlen(words), &ends[1], 1), 0);
    close(ends[1]);
    expect_violation(&w);
    expect_closed(ends[0]);
    world_close(&w);
}

static void test_a_descriptor(void **state)
{
    (void)state;
    expect_to_close("x");
}

/* Too long a datagram is cut; what came with it is there all the same. */
static void test_with_a_cut_datagram(void **state)
{
    (void)state;
    expect_to_close("too many words");
}

static void test_as_many_as_there_can_be(void **state)
{
    (void)state;
    struct world w;
    int ends[2], fds[FD_BAG_MAX];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(fds))}};
    struct iovec iov = {(void *)"x", 1};
    const struct msghdr msg = {.msg_iov = &iov,
                               .msg_iovlen = 1,
                               .msg_control = &control,
                               .msg_controllen = sizeof(control.bytes)};
    world_open(&w);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = ends[1];
    memcpy(CMSG_DATA(&control.header), fds, sizeof(fds));
    assert_int_equal(sendmsg(w.sender, &msg, 0), 1);
    close(ends[1]);
    expect_violation(&w);
    expect_closed(ends[0]); /* all 253 of them */
    world_close(&w);
}

/* More than we can have a number for are the kernel's to close. */
static void test_without_room(void **state)
{
    (void)state;
    struct world w;
    struct rlimit usual, low;
    world_open(&w);
    int next = dup(0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    low = usual;
    low.rlim_cur = (rlim_t)next;
    const int fd = w.sender;
    give(&w, &fd, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    expect_violation(&w);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    world_close(&w);
}

/* --- what waits ------------------------------------------------------------------------------- */

static void wrap(int *fd)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fd_send(pair[1], "x", 1, fd, 1), 0);
    close(*fd);
    close(pair[1]);
    *fd = pair[0];
}

static void expect_at_once(int64_t start_ns)
{
    assert_true(clock_now_ns() - start_ns < AT_ONCE_NS);
}

static const struct depth {
    const char *name;
    unsigned sockets; /* in whose queues it lies, one in the other */
} depths[] = {
    {"a socket that lingers", 0},
    {"one in the queue of a socket", 1},
    {"one in the queue of one in a queue", 2},
};

static void test_received(void **state)
{
    const struct depth *depth = *state;
    struct world w;
    int peer;
    world_open(&w);
    int fd = linger_open(&peer);
    for (unsigned i = 0; i < depth->sockets; i++)
        wrap(&fd);
    int64_t start_ns = clock_now_ns();
    give(&w, &fd, 1);
    close(fd); /* not the last: that is in the queue */
    expect_violation(&w);
    expect_at_once(start_ns);
    world_close(&w);
    expect_at_once(start_ns);
    close(peer);
}

/* Nobody has received it: it lies in the queue of a channel that is closed. */
static void test_unread(void **state)
{
    const struct depth *depth = *state;
    struct world w;
    int peer;
    world_open(&w);
    int fd = linger_open(&peer);
    for (unsigned i = 0; i < depth->sockets; i++)
        wrap(&fd);
    give(&w, &fd, 1);
    close(fd);
    int64_t start_ns = clock_now_ns();
    close(take_fd(&w.sender));
    sandbox_socket_close(w.loop, &w.ours);
    assert_int_equal(w.ours, -1);
    expect_at_once(start_ns);
    sandbox_socket_close(w.loop, &w.ours); /* there is none any more */
    loop_free(w.loop);
    close(peer);
}

/* --- channels of our own ---------------------------------------------------------------------- */

static void test_open(void **state)
{
    (void)state;
    struct error err;
    int ours, theirs, event = eventfd(0, EFD_CLOEXEC);
    char data[8];
    struct fd_bag bag;
    assert_int_equal(sandbox_socket_open(&ours, &theirs, &err), 0);
    assert_int_equal(fd_send(ours, "down", 4, &event, 1), 0);
    assert_int_equal(fd_recv_bag(theirs, data, sizeof(data), &bag), 4);
    assert_int_equal(bag.count, 1);
    close(bag.fds[0]);
    int status = fd_send(theirs, "up", 2, &event, 1), error = errno;
    if (fd_may_hold_others(ours)) { /* before Linux 6.16 */
        assert_int_equal(status, 0);
    } else {
        assert_int_equal(status, -1);
        assert_int_equal(error, EPERM);
        assert_int_equal(recv(ours, data, sizeof(data), MSG_DONTWAIT), -1);
    }
    assert_true(fd_may_hold_others(theirs));
    assert_false(fd_may_hold_others(event));
    close(event);
    close(ours);
    close(theirs);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "words come as they are", test_words);
    check_one(&check, "a last word comes behind an end", test_last_word);
    check_one(&check, "a descriptor is a violation, and is closed", test_a_descriptor);
    check_one(&check, "as many as one message has", test_as_many_as_there_can_be);
    check_one(&check, "with a datagram that is too long", test_with_a_cut_datagram);
    check_one(&check, "without room for any", test_without_room);
    check_rows(&check, depths, test_received);
    check_rows(&check, depths, test_unread);
    check_one(&check, "a channel of ours takes none, where the kernel has that", test_open);
    return check_run(&check, "sandbox_socket");
}
