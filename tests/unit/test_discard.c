/* test_discard.c - closes that wait for nobody, in a process that ends */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/discard.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/scoped.h"
#include "linger.h"

#define PATIENCE_MS 60000
#define AT_ONCE_NS  10000000000ll

static void wait_for_helper(struct discard *d)
{
    struct pollfd p = {.fd = d->pid_fd, .events = POLLIN};
    assert_true(d->pid > 0);
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    discard_on_poll(d);
    assert_int_equal(d->pid, 0);
    assert_int_equal(d->pid_fd, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    assert_int_equal(errno, ECHILD);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void test_at_once(void **state)
{
    (void)state;
    struct discard d;
    int ends[2], none = -1, ours, theirs;
    struct error err;
    discard_init(&d);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING), was = file;
    discard_add(&d, &ends[0]);
    discard_add(&d, &ends[1]);
    discard_add(&d, &file);
    discard_add(&d, &none);
    assert_int_equal(file, -1);
    assert_false(is_open(was));
    assert_int_equal(fd_make_channel(&ours, &theirs, &err), 0);
    size_t queued = fd_may_hold_others(ours);
    discard_channel(&d, &ours);
    assert_int_equal(d.count, queued);
    discard_begin(&d);
    if (queued)
        wait_for_helper(&d);
    assert_int_equal(d.pid, 0); /* nothing to do for one */
    close(theirs);
    discard_release(&d);
}

static void test_lingering(void **state)
{
    (void)state;
    struct discard d;
    int peers[3], fds[3], pair[2];
    discard_init(&d);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = linger_open(&peers[i]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fd_send(pair[1], "x", 1, &fds[0], 1), 0);
    close(fds[0]); /* it lies in a queue */
    close(pair[1]);
    int64_t start_ns = clock_now_ns();
    const int was[] = {pair[0], fds[1], fds[2]};
    discard_add(&d, &pair[0]);
    discard_add(&d, &fds[1]);
    assert_int_equal(d.count, 2);
    discard_begin(&d);
    discard_add(&d, &fds[2]);
    discard_begin(&d); /* one helper at a time */
    assert_int_equal(d.count, 1);
    wait_for_helper(&d);
    discard_begin(&d);
    wait_for_helper(&d);
    for (size_t i = 0; i < ARRAY_LEN(was); i++)
        assert_false(is_open(was[i]));
    assert_true(clock_now_ns() - start_ns < AT_ONCE_NS);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        close(peers[i]);
    assert_int_equal(discard_wait_ms(&d), -1);
    discard_release(&d);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "what waits for nobody is closed at once", test_at_once);
    check_one(&check, "sockets that linger hold nobody up", test_lingering);
    return check_run(&check, "discard");
}
