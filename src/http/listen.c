/* listen.c - a socket that listens at an address or at a path */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/scoped.h"
#include "http/http_server.h"

#define BACKLOG 1024

static int parse_address(const struct http_listen *where, struct sockaddr_storage *out,
                         socklen_t *len, struct error *err)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    *out = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    if (inet_pton(AF_INET, where->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(where->port);
        *len = sizeof(*v4);
        return 0;
    }
    if (inet_pton(AF_INET6, where->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(where->port);
        *len = sizeof(*v6);
        return 0;
    }
    return error_set(err, ERROR_INVALID, "'%s' is no numeric address", where->address);
}

static int parse_path(const struct http_listen *where, struct sockaddr_storage *out, socklen_t *len,
                      struct error *err)
{
    struct sockaddr_un *un = (struct sockaddr_un *)out;
    *out = (struct sockaddr_storage){.ss_family = AF_UNIX};
    if (strlen(where->path) >= sizeof(un->sun_path))
        return error_set(err, ERROR_INVALID, "the path '%s' is too long for a socket", where->path);
    memcpy(un->sun_path, where->path, strlen(where->path) + 1);
    *len = sizeof(*un);
    return 0;
}

/* Removes a socket that a server before us has left, and nothing else. */
static void remove_stale(const char *path, const struct sockaddr_storage *address, socklen_t len)
{
    struct stat st;
    scoped_fd int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode) || probe < 0)
        return;
    if (connect(probe, (const struct sockaddr *)address, len) < 0 && errno == ECONNREFUSED)
        unlink(path);
}

static int bind_fd(int fd, const struct http_listen *where, const struct sockaddr_storage *address,
                   socklen_t len, struct error *err)
{
    int on = 1;
    if (where->path)
        remove_stale(where->path, address, len);
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)address, len) < 0)
        return error_sys(err, "bind to '%s' port %u", where->path ? where->path : where->address,
                         where->port);
    /* Nobody can connect before listen(), so there is no moment with other rights. */
    if (where->path && chmod(where->path, where->mode ? where->mode : 0600) < 0)
        return error_sys(err, "chmod '%s'", where->path);
    if (listen(fd, BACKLOG) < 0)
        return error_sys(err, "listen");
    return 0;
}

int listen_open(int *out, const struct http_listen *where, struct error *err)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = 0;
    int parsed = where->path ? parse_path(where, &address, &len, err)
                             : parse_address(where, &address, &len, err);
    if (parsed < 0)
        return -1;
    scoped_fd int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_sys(err, "socket");
    if (bind_fd(fd, where, &address, len, err) < 0)
        return -1;
    *out = take_fd(&fd);
    return 0;
}

uint16_t listen_port(int fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    getsockname(fd, (struct sockaddr *)&address, &len);
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port) : 0;
}
