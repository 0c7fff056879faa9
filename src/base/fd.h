/* fd.h - whole reads and writes, and fds across a unix socket */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct msghdr;

#define FD_PASS_MAX 16  /* most fds that one message of ours carries */
#define FD_BAG_MAX  253 /* and one of anybody's: the kernel sends no more */

/* Writes all of it (EINTR and short writes handled; the fd must block). */
MUST_CHECK int fd_write_all(int fd, const void *data, size_t len, struct error *err);

/* Reads up to `len` bytes until end of file; answers how many, or -1. */
ssize_t fd_read_full(int fd, void *data, size_t len);

/* The whole file as owned NUL-terminated text without NUL bytes inside; more than `max_bytes` is
 * ERROR_TOO_LARGE. */
MUST_CHECK int fd_read_text(int fd, char **out, size_t max_bytes, struct error *err);

/* A memory file with these bytes, to be read from its beginning. *out is owned. */
MUST_CHECK int fd_make_file(int *out, const char *name, const void *data, size_t len,
                            struct error *err);

/* Opens a file of the user's to read it; what is none is ERROR_INVALID, and a FIFO is not waited
 * for. Answers the fd, or -1. */
MUST_CHECK int fd_open_regular(const char *path, struct error *err);

/* One datagram with fds. `count` <= FD_PASS_MAX; the fds stay the caller's. 0, or -1 with errno. */
int fd_send(int sock, const void *data, size_t len, const int *fds, size_t count);

/* One datagram; answers its length (0 = peer closed), or -1 with errno. *count says how many of
 * fds[FD_PASS_MAX] were filled (CLOEXEC, the caller owns them). A cut datagram or cut fd list is
 * EMSGSIZE, with every received fd closed; when it is cut because we can have no more fds, EMFILE,
 * and `data` is whole. */
ssize_t fd_recv(int sock, void *data, size_t size, int fds[FD_PASS_MAX], size_t *count);

/* All descriptors that came with one message. */
struct fd_bag {
    int fds[FD_BAG_MAX];
    size_t count;
};

/* fd_recv() for a peer that may be hostile: whatever comes along is in the bag, also when the
 * datagram is cut (-1, EMSGSIZE), and is to be closed where a close may wait. Only what we can have
 * no number for (-1, EMFILE) the kernel closes itself, before this returns. */
ssize_t fd_recv_bag(int sock, void *data, size_t size, struct fd_bag *bag);

/* Puts all descriptors of a message that was received into the bag, with those that are there. */
void fd_collect(struct msghdr *msg, struct fd_bag *bag);

/* A pair for datagrams of which only `theirs` takes descriptors, where the kernel has that (Linux
 * 6.16): who holds it cannot send any to `ours`. */
MUST_CHECK int fd_make_channel(int *ours, int *theirs, struct error *err);

/* Whether descriptors may lie in the queue of this socket, or may yet come: then a close of it
 * closes them, and may wait for one. Anything but a unix socket has no such queue. */
bool fd_may_hold_others(int fd);

int fd_set_nonblock(int fd); /* 0, or -1 with errno */

/* The same by path (absolute, or relative to the working directory). */
MUST_CHECK int fd_read_file(const char *path, char **out, size_t max_bytes, struct error *err);
