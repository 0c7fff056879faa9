/* sandbox_socket.h - sockets whose other end is inside of a sandbox
 *
 * Who holds that end may send descriptors whose close waits for as long as he likes, so none of
 * them, and no socket in whose queue one may lie, is closed by the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "event/loop.h"

/* `ours` takes no descriptors, where the kernel has that. */
MUST_CHECK int sandbox_socket_open(int *ours, int *theirs, struct error *err);

/* One datagram without waiting; answers its length (0: the other end is closed), or -1 with errno.
 * Nobody inside has descriptors to give: those that come along are closed elsewhere, and it is
 * EPROTO, a violation for which the sandbox ends. What was said before the end of the other side is
 * read behind its ECONNRESET, which is not told. */
ssize_t sandbox_socket_recv(struct loop *loop, int fd, void *data, size_t size);

/* Whether a sandbox_socket_recv() just now was a violation. */
bool sandbox_socket_is_violated(ssize_t n);

void sandbox_socket_close(struct loop *loop,
                          int *fd); /* -1 afterwards; also when it is that before */
