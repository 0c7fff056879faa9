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

/* Cheap ones that tell most come first. Not in it is what a tenant can only change together with
 * one of these: lists of sockets and memberships, which are no more where no socket is, routes and
 * the counters of `netstat`, which move with a packet. Nor what is the whole machine's. */
enum { FIRST_LINE = 1 << 0, LIST = 1 << 1 };

static const struct {
    const char *name;
    unsigned flags;
} files[NETNS_FILES] = {
    {"sockstat", FIRST_LINE}, /* how many sockets there are, of every kind; below, the machine's */
    {"dev", LIST},            /* not one packet went over the loopback */
    {"snmp", 0},              /* nor was one made, nor delivered otherwise */
    {"snmp6", 0},             /* likewise */
    {"ip6_flowlabel", LIST},  /* outlive their socket */
};

/* In the namespace that we are in. A file that this kernel does not have is as good as an empty
 * one: it is so in each of them. */
static bool open_files(const struct netns_judge *j, struct netns *net)
{
    bool is_whole = true;
    for (size_t i = 0; i < NETNS_FILES; i++) {
        net->files[i] = openat(j->dir_fd, files[i].name, O_RDONLY | O_CLOEXEC);
        is_whole &= net->files[i] >= 0 || errno == ENOENT;
    }
    net->has_files = true;
    return is_whole;
}

/* A list may go on behind any read, until one finds its end. What is no list is a single record,
 * which the kernel hands out whole as far as there is room. */
static ssize_t read_one(int fd, unsigned flags, char *out, size_t room)
{
    size_t len = 0;
    ssize_t n = 0;
    if (fd < 0)
        return 0;
    do {
        n = pread(fd, out + len, room - len, (off_t)len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && flags & LIST);
    if (n < 0 || len == room)
        return -1; /* there may be more */
    const char *end = flags & FIRST_LINE ? memchr(out, '\n', len) : NULL;
    return end ? end - out : (ssize_t)len;
}

static bool is_like(const struct netns_judge *j, size_t from, const char *text, size_t len)
{
    return from + len <= j->fresh_len && memcmp(text, j->fresh + from, len) == 0;
}

/* Stops at the first difference from a fresh one, if `j` knows one. */
static ssize_t look(const struct netns_judge *j, const struct netns *net, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < NETNS_FILES; i++) {
        ssize_t n = read_one(net->files[i], files[i].flags, out + len, NETNS_LOOK_BYTES - len);
        if (n < 0 || (j->fresh_len > 0 && !is_like(j, len, out + len, (size_t)n)))
            return -1;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* Of the namespace that we are in, which is new. */
static ssize_t look_at_new(const struct netns_judge *j)
{
    struct netns net = netns_none();
    ssize_t len = seal_raise_loopback() == 0 && open_files(j, &net) ? look(j, &net, j->fresh) : -1;
    netns_close(&net);
    return len;
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
        ssize_t len = look_at_new(j);
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

struct netns netns_none(void)
{
    return (struct netns){.fd = -1};
}

struct netns netns_open(pid_t pid)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
    return (struct netns){.fd = open(path, O_RDONLY | O_CLOEXEC)};
}

void netns_close_files(struct netns *net)
{
    for (size_t i = 0; net->has_files && i < NETNS_FILES; i++)
        scoped_close_fd(&net->files[i]);
    net->has_files = false;
}

void netns_close(struct netns *net)
{
    netns_close_files(net);
    scoped_close_fd(&net->fd);
    *net = netns_none();
}

struct netns netns_take(struct netns *net)
{
    const struct netns taken = *net;
    *net = netns_none();
    return taken;
}

/* Opened there, they are that namespace's for good. */
static bool open_files_inside(const struct netns_judge *j, struct netns *net)
{
    if (setns(net->fd, CLONE_NEWNET) < 0)
        return false;
    bool is_whole = open_files(j, net);
    bool is_back = setns(j->own_fd, CLONE_NEWNET) == 0;
    if (!is_whole || !is_back)
        netns_close_files(net);
    return net->has_files;
}

bool netns_is_fresh(const struct netns_judge *j, struct netns *net)
{
    char text[NETNS_LOOK_BYTES];
    if (!j->fresh || !(net->has_files || open_files_inside(j, net)))
        return false;
    return look(j, net, text) == (ssize_t)j->fresh_len;
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
