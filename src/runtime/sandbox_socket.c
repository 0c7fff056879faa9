/* sandbox_socket.c - what comes from inside is taken whole, and closed by others */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox_socket.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scoped.h"

int sandbox_socket_open(int *ours, int *theirs, struct error *err)
{
    return fd_make_channel(ours, theirs, err);
}

ssize_t sandbox_socket_recv(struct loop *loop, int fd, void *data, size_t size)
{
    struct fd_bag bag;
    ssize_t n = fd_recv_bag(fd, data, size, &bag);
    if (n < 0 && errno == ECONNRESET)
        n = fd_recv_bag(fd, data, size, &bag);
    if (bag.count == 0)
        return n;
    while (bag.count > 0)
        loop_close_fd(loop, bag.fds[--bag.count]);
    errno = EPROTO;
    return -1;
}

bool sandbox_socket_is_violated(ssize_t n)
{
    return n < 0 && (errno == EPROTO || errno == EMFILE);
}

void sandbox_socket_close(struct loop *loop, int *fd)
{
    int taken = take_fd(fd);
    if (taken < 0)
        return;
    if (fd_may_hold_others(taken))
        loop_close_fd(loop, taken);
    else
        close(taken);
}
