/* seal.h - turns a child process into a sealed cove-init, step by step, or kills it
 *
 * The steps stand in one table (seal.c) and run in the child between clone and exec. The first that
 * fails ends the child: nothing of a tenant's ever runs in a half-sealed process. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/fd.h"
#include "box/cgroup.h"
#include "box/rootfs.h"

/* All that the child needs, prepared before the clone; everything is borrowed. Only the mounts come
 * later, by seal_give_root(): the child makes its namespaces while the spawner makes them. */
struct seal_plan {
    const struct sock_filter *filter;
    size_t filter_len;
    struct spawn_limits limits;
    struct cgroup_entry entry;
    bool has_memory_cgroup; /* which counts all of it; else a per-process limit and a watch stand in
                             */
    bool has_pids_cgroup;   /* else RLIMIT_NPROC does */
    int init_fd;            /* cove-init, as a sealed memfd */
    int control_fd;         /* init's end of its control socket */
    int channel_fd;         /* the kernel's end of its channel, where a zygote seals; else -1 */
    int gate_fd;            /* of a brood, kept by what shares its memory; else -1 */
    int sysctl_fd;          /* the host's /proc/sys, where no group counts memory; else -1 */
    int net_fd;             /* a network namespace to enter, as good as new; -1: make one */
    bool is_rootless;
    bool allow_degraded;
    bool has_own_uid;
    uid_t uid; /* the host uid, as the spawner's user namespace calls it */
};

/* What the child tells, as one datagram each; after SEAL_DONE, end of file means: running. */
enum seal_event {
    SEAL_BORN,   /* first word of a process that a zygote or a helper made: its pid comes along */
    SEAL_MAP_ME, /* has made its user namespace and waits for one byte: mapped */
    SEAL_DONE,   /* every step is done but the exec */
    SEAL_READY,  /* of a zygote: warm, takes requests */
    SEAL_FAILED
};

struct seal_report {
    int32_t event;
    int32_t sys_errno;
    uint32_t layers;             /* what is in force so far */
    int32_t layer;               /* FAILED: the layer that could not be had, or -1 */
    char step[SPAWN_STEP_BYTES]; /* FAILED */
};

#define SEAL_ROOT_FDS 3 /* mounts that are handed over: image, storage, packages */

struct seal_child {
    pid_t pid;     /* 0: not known yet */
    int pid_fd;    /* owned; -1 as long as the pid is not known */
    int report_fd; /* owned; non-blocking */
};

/* A pair of sockets for reports. The spawner's end learns who is speaking. */
MUST_CHECK int seal_open_report(int *ours, int *theirs, struct error *err);

/* One report: its size, 0 at the end of file, or -1 with errno. The first one of a child that
 * somebody else cloned makes it known; it must be a child of ours, else EPROTO. So is a report with
 * descriptors, which are the caller's to close, where a close may wait. */
ssize_t seal_receive(struct seal_child *child, struct seal_report *out, struct fd_bag *strays);

/* Clones and lets the child seal itself. */
MUST_CHECK int seal_start(struct seal_child *out, const struct seal_plan *plan, struct error *err);

/* Hands the mounts over; the fds stay the caller's. Those that are -1 there are not. */
MUST_CHECK int seal_give_root(const struct seal_child *child, const struct rootfs *root,
                              struct error *err);

/* Lets a zygote's sandbox go on behind its seal: the kernel is forked. */
MUST_CHECK int seal_let_go(const struct seal_child *child, struct error *err);

/* Answers a SEAL_MAP_ME: writes the child's uid and gid maps and lets it go on. */
MUST_CHECK int seal_map_ids(const struct seal_child *child, const struct seal_plan *plan,
                            struct error *err);

/* The same with any map, for both kinds of ids. */
MUST_CHECK int seal_write_maps(const struct seal_child *child, const char *map, bool is_rootless,
                               struct error *err);
