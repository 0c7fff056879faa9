/* fd.c - file descriptors: loops around short calls, SCM_RIGHTS in one place */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"

int fd_write_all(int fd, const void *data, size_t len, struct error *err)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_sys(err, "write");
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_full(int fd, void *data, size_t len)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = read(fd, (char *)data + have, len - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int fd_open_regular(const char *path, struct error *err)
{
    struct stat st;
    scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, "open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_INVALID, "'%s' is not a regular file", path);
    return take_fd(&fd);
}

int fd_read_text(int fd, char **out, size_t max_bytes, struct error *err)
{
    size_t cap = MIN(max_bytes, 4 * KIB) + 1, len = 0;
    char *text = xmalloc(cap + 1);
    for (;;) {
        ssize_t n = fd_read_full(fd, text + len, cap - len);
        if (n < 0) {
            free(text);
            return error_sys(err, "read");
        }
        len += (size_t)n;
        if (len < cap || len > max_bytes)
            break;
        cap = MIN(2 * cap, max_bytes + 1);
        text = xrealloc(text, cap + 1);
    }
    text[len] = '\0';
    if (len > max_bytes || strlen(text) != len) {
        bool has_nul = len <= max_bytes;
        free(text);
        return has_nul ? error_set(err, ERROR_INVALID, "has a NUL byte, so it is not text")
                       : error_set(err, ERROR_TOO_LARGE, "longer than %zu bytes", max_bytes);
    }
    *out = text;
    return 0;
}

int fd_make_file(int *out, const char *name, const void *data, size_t len, struct error *err)
{
    scoped_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_sys(err, "make memory file");
    if (fd_write_all(fd, data, len, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_sys(err, "rewind memory file");
    *out = take_fd(&fd);
    return 0;
}

union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
};

int fd_send(int sock, const void *data, size_t len, const int *fds, size_t count)
{
    union control control = {0};
    struct iovec iov = {(void *)data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    BUG_ON(count > FD_PASS_MAX);
    if (count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

void fd_collect(struct msghdr *msg, struct fd_bag *bag)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && bag->count < FD_BAG_MAX; i++)
            memcpy(&bag->fds[bag->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

ssize_t fd_recv_bag(int sock, void *data, size_t size, struct fd_bag *bag)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * FD_BAG_MAX)];
    } control;
    struct iovec iov = {data, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    bag->count = 0;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;

    fd_collect(&msg, bag);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        errno = msg.msg_flags & MSG_TRUNC ? EMSGSIZE : EMFILE; /* there is room for all of them */
        return -1;
    }
    return n;
}

ssize_t fd_recv(int sock, void *data, size_t size, int fds[FD_PASS_MAX], size_t *count)
{
    struct fd_bag bag;
    ssize_t n = fd_recv_bag(sock, data, size, &bag);
    if (n >= 0 && bag.count > FD_PASS_MAX) {
        errno = EMSGSIZE;
        n = -1;
    }
    int saved = errno;
    while (n < 0 && bag.count > 0)
        close(bag.fds[--bag.count]);
    errno = saved;
    *count = bag.count;
    memcpy(fds, bag.fds, bag.count * sizeof(bag.fds[0]));
    return n;
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* headers of Debian 12 do not have it */
#endif

int fd_make_channel(int *ours, int *theirs, struct error *err)
{
    int pair[2], off = 0, on = 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, "make a channel");
    if (setsockopt(pair[0], SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
        setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)); /* for has_ended_empty() */
    *ours = pair[0];
    *theirs = pair[1];
    return 0;
}

/* -1: it has no such option. */
static int socket_option(int fd, int name)
{
    int value;
    socklen_t size = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

/* Nobody can send any more, and nothing is left. A datagram may have no bytes, like the end; it is
 * told by its sender's ids, which come with each one. */
static bool has_ended_empty(int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    char byte;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct pollfd end = {.fd = fd};
    return socket_option(fd, SO_PASSCRED) == 1 && poll(&end, 1, 0) == 1 && end.revents & POLLHUP &&
           recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) == 0 && msg.msg_controllen == 0;
}

bool fd_may_hold_others(int fd)
{
    return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_PASSRIGHTS) != 0 &&
           !has_ended_empty(fd);
}

int fd_set_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int fd_read_file(const char *path, char **out, size_t max_bytes, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", path);
    int status = fd_read_text(fd, out, max_bytes, err);
    close(fd);
    return status < 0 ? error_wrap(err, "read '%s'", path) : 0;
}
