/* fd.c - file descriptors: loops around short calls, SCM_RIGHTS in one place */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
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

static size_t collect_fds(struct msghdr *msg, int fds[FD_PASS_MAX])
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && count < FD_PASS_MAX; i++)
            memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return count;
}

ssize_t fd_recv(int sock, void *data, size_t size, int fds[FD_PASS_MAX], size_t *count)
{
    union control control;
    struct iovec iov = {data, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    *count = 0;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;

    *count = collect_fds(&msg, fds);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        bool is_full = !(msg.msg_flags & MSG_TRUNC) && *count < FD_PASS_MAX;
        while (*count > 0)
            close(fds[--*count]);
        errno = is_full ? EMFILE : EMSGSIZE;
        return -1;
    }
    return n;
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
