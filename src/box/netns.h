/* netns.h - network namespaces that can be used a second time
 *
 * To make one costs half a millisecond, and the kernel needs as long again to take it down, one
 * after the other. A tenant has no power over his: what can stay behind is a socket somebody still
 * holds, and what passed through the loopback. Both are counted by the kernel. So one that shows
 * what a new one shows, to the byte, has nothing in it, and is as good as new. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NETNS_LOOK_BYTES (32 * 1024)
#define NETNS_FILES      5

/* One that was used. The files by which it is judged are opened by the first look at it, and stay
 * open: each shows the namespace in which it was opened, wherever we are when we read it. As `fd`
 * does, each of them keeps it alive. */
struct netns {
    int fd; /* owned; -1: there is none */
    bool has_files;
    int files[NETNS_FILES]; /* owned, when has_files; -1: this kernel has no such file */
};

struct netns_judge {
    int own_fd;  /* our own namespace: the way back */
    int dir_fd;  /* /proc/thread-self/net */
    char *fresh; /* what a new one shows */
    size_t fresh_len;
};

/* Makes a new one to look at. False where we could not come back from it. */
bool netns_judge_open(struct netns_judge *j);
void netns_judge_close(struct netns_judge *j);

/* The namespace of a process that is not reaped yet; its fd is -1 when it has left it. */
struct netns netns_open(pid_t pid);
struct netns netns_none(void);
void netns_close(struct netns *net); /* twice is fine */
void netns_close_files(struct netns *net);
struct netns netns_take(struct netns *net);

/* Whether nothing is in it, nor ever passed through. */
bool netns_is_fresh(const struct netns_judge *j, struct netns *net);

/* A TCP socket that listens in it on 127.0.0.1; or -1 with errno. */
int netns_listen(int fd, uint16_t port);
