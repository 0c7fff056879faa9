/* netns.c - looks at a network namespace from inside, as its tenant could */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/seal_steps.h"

/* Cheap ones that tell most come first. Not in it: lists of TCP sockets, which take milliseconds to
 * read and have nothing that sockstat or dev does not tell; and what is the whole machine's. */
static const struct {
    const char *name;
    bool only_first_line;
} files[] = {
    {"sockstat", true}, /* how many sockets there are, of every kind; below, the machine's */
    {"dev", false},     /* not one packet went over the loopback */
    {"snmp", false},          {"snmp6", false}, {"netstat", false},
    {"ip6_flowlabel", false}, /* outlive their socket */
    {"ipv6_route", false},    {"igmp", false},  {"igmp6", false},
};

/* A file that this kernel does not have is as good as an empty one: it is so in each of them. */
static ssize_t read_one(int dir_fd, size_t i, char *out, size_t room)
{
    scoped_fd int fd = openat(dir_fd, files[i].name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    size_t len = 0;
    for (ssize_t n; (n = read(fd, out + len, room - len)) != 0; len += (size_t)n) {
        if (n < 0)
            return -1;
    }
    if (len == room)
        return -1; /* there may be more */
    const char *end = files[i].only_first_line ? memchr(out, '\n', len) : NULL;
    return end ? end - out : (ssize_t)len;
}

static bool is_like(const struct netns_judge *j, size_t from, const char *text, size_t len)
{
    return from + len <= j->fresh_len && memcmp(text, j->fresh + from, len) == 0;
}

/* Of the namespace that we are in. Stops at the first difference from a fresh one, if `j` knows
 * one. */
static ssize_t look(const struct netns_judge *j, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        ssize_t n = read_one(j->dir_fd, i, out + len, NETNS_LOOK_BYTES - len);
        if (n < 0 || (j->fresh_len > 0 && !is_like(j, len, out + len, (size_t)n)))
            return -1;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

bool netns_judge_open(struct netns_judge *j)
{
    /* Whatever is opened in the directory is that of the namespace in which we are then. */
    *j = (struct netns_judge){
        .own_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC),
        .dir_fd = open("/proc/thread-self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    /* Rootless, the way back is closed: that is found out before the first step. */
    if (j->own_fd >= 0 && j->dir_fd >= 0 && setns(j->own_fd, CLONE_NEWNET) == 0 &&
        unshare(CLONE_NEWNET) == 0) {
        j->fresh = xcalloc(1, NETNS_LOOK_BYTES);
        ssize_t len = seal_raise_loopback() < 0 ? -1 : look(j, j->fresh);
        if (setns(j->own_fd, CLONE_NEWNET) == 0 && len > 0) {
            j->fresh_len = (size_t)len;
            return true;
        }
    }
    netns_judge_close(j);
    return false;
}

void netns_judge_close(struct netns_judge *j)
{
    scoped_close_fd(&j->own_fd);
    scoped_close_fd(&j->dir_fd);
    free(j->fresh);
    *j = (struct netns_judge){.own_fd = -1, .dir_fd = -1};
}

int netns_open(pid_t pid)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool netns_is_fresh(const struct netns_judge *j, int fd)
{
    char text[NETNS_LOOK_BYTES];
    if (!j->fresh || setns(fd, CLONE_NEWNET) < 0)
        return false;
    ssize_t len = look(j, text);
    bool is_back = setns(j->own_fd, CLONE_NEWNET) == 0;
    return is_back && len == (ssize_t)j->fresh_len;
}

/* --- a socket in another one ------------------------------------------------------------------ */

#define STACK_BYTES 16384
#define BACKLOG     128

struct listening {
    int net_fd;
    uint16_t port;
    int fd;
    int error;
};

static int open_socket(const struct listening *l)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(l->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int yes = 1; /* connections through the one before may linger */
    scoped_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
        return -1;
    return take_fd(&fd);
}

static int listen_there(void *ctx)
{
    struct listening *l = ctx;
    l->fd = setns(l->net_fd, CLONE_NEWNET) < 0 ? -1 : open_socket(l);
    l->error = errno;
    return 0;
}

/* In a process of its own, which shares memory and files with us and ends before we go on: an
 * ordinary user's spawner could not come back from there. */
int netns_listen(int net_fd, uint16_t port)
{
    struct listening l = {.net_fd = net_fd, .port = port, .fd = -1};
    char *stack = xmalloc(STACK_BYTES);
    pid_t pid = clone(listen_there, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES, &l);
    if (pid < 0)
        l.error = errno;
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    free(stack);
    errno = l.error;
    return l.fd;
}
