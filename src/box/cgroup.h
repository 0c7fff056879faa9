/* cgroup.h - resource limits and atomic kill, on cgroup version 1, version 2 and hybrids of both
 *
 * A `cgroup_tree` is what this host offers; a `cgroup` is one group in it, named by a slot number,
 * which stands in every hierarchy that is used. On a hybrid host (version 1 controllers beside an
 * empty version 2 tree) the group also stands in the version 2 tree, for cgroup.kill. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/meter.h"

#define CGROUP_HIERARCHIES_MAX 5
#define CGROUP_NAME_BYTES      64
#define CGROUP_PATH_BYTES      512    /* a longer one is not ours to use */
#define CGROUP_PARENT          "cove" /* of all sandboxes' groups, where no other name is wished */

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_UNIFIED, /* the version 2 tree itself: kill, freeze, CPU time */
    CGROUP_CPUACCT, /* these two of version 1 only where there is no version 2 tree */
    CGROUP_FREEZER,
    CGROUP_CONTROLLER_COUNT
};

struct cgroup_tree {
    int version; /* 0 none, 1, 2, 3 = hybrid */
    enum spawn_place place;
    char path[CGROUP_PATH_BYTES]; /* of the parent that limits memory, or else of any */
    size_t count;
    int parent_fd[CGROUP_HIERARCHIES_MAX]; /* the directory in which groups are made; owned */
    int where[CGROUP_CONTROLLER_COUNT];    /* index into parent_fd, or -1 */
    uint64_t burst_milli; /* of a core, that each may use while nobody else wants it; 0: none */
};

/* How a new process gets into the group: cloned into `into_fd` (version 2, -1: none), and by
 * writing "0" into each of `tasks_fds` (version 1). All of them are owned. Moving a process by
 * cgroup.procs would do for both, but waits for a grace period of the kernel's, up to 20 ms. */
struct cgroup_entry {
    int into_fd;
    int tasks_fds[CGROUP_HIERARCHIES_MAX];
    size_t task_count;
};

/* Files of a group that are read or written for each sandbox. The counters of the meter come first,
 * by its own numbers. */
enum cgroup_file {
    CGROUP_FILE_PROCESSES = METER_COUNTERS,
    CGROUP_FILE_EVENTS,
    CGROUP_FILE_CHARGED,
    CGROUP_FILE_SOCKETS, /* what their buffers hold */
    CGROUP_FILE_PEAK,    /* to be set back */
    CGROUP_FILE_QUOTA,
    CGROUP_FILE_COUNT
};

/* Thousands of them stand idle, so a group holds no descriptor: it is found by its name. Nobody
 * else makes or removes that name, as long as the slot is ours. Only one that is used again and
 * again, if its owner so wishes, keeps open what it has opened. An open file is that of this very
 * group: when the group is removed it cannot be read any more, whoever has the name then. */
struct cgroup {
    unsigned slot;
    bool keeps_files; /* see cgroup_keep_files() */
    unsigned opened;  /* a bit for each of `fds` that is open */
    int fds[CGROUP_FILE_COUNT];
    bool has_entry;
    struct cgroup_entry entry; /* when has_entry: the way in of those who came before */
};

struct cgroup_wish {
    const char *parent; /* at the top of the tree; NULL: CGROUP_PARENT in our own group */
    bool is_rootless;   /* only a delegated subtree will do */
    pid_t client;       /* may be moved out of the way, as we may; 0: nobody */
};

/* Finds the hierarchies and makes the parent group in each, see cgroup_place.c. Never fails for
 * lack of cgroups: what is not there has where[] = -1. */
void cgroup_tree_open(struct cgroup_tree *tree, const struct cgroup_wish *wish);
void cgroup_tree_close(struct cgroup_tree *tree);
bool cgroup_tree_has(const struct cgroup_tree *tree, enum cgroup_controller controller);
/* Whether nothing that a sandbox makes escapes its memory group. Version 1 counts buffers of
 * sockets in files of their own, which may be missing. */
bool cgroup_tree_counts_memory(const struct cgroup_tree *tree);
/* *out: what tells its parent from others; 0: it has none. */
MUST_CHECK int cgroup_tree_number(const struct cgroup_tree *tree, uint64_t *out, struct error *err);

/* *out is `tree` (whose fds it borrows) without the hierarchies that set no limit. */
void cgroup_tree_trim(struct cgroup_tree *out, const struct cgroup_tree *tree);

/* Whether nothing stands in `tree` but one group in each hierarchy of `used`, which is the same
 * tree or one trimmed from it. Costs less than looking at names. */
bool cgroup_tree_holds_one(const struct cgroup_tree *tree, const struct cgroup_tree *used);

/* Calls `found` for each slot whose group exists. */
void cgroup_tree_each(const struct cgroup_tree *tree, void (*found)(void *ctx, unsigned slot),
                      void *ctx);

/* Makes the group of `slot` afresh (what a crash left under that name is killed and removed first)
 * and sets its limits. A controller that is missing is left out: the caller decides by
 * cgroup_tree_has() whether that may be. */
MUST_CHECK int cgroup_create(struct cgroup *cg, const struct cgroup_tree *tree, unsigned slot,
                             const struct spawn_limits *limits, struct error *err);

/* The groups of what a zygote makes lie, in the version 2 tree, below a group of the zygote's slot
 * that its uid `owner` may write to: that is what the kernel wants before it lets the zygote clone
 * into them. *out is a tree like `tree` (whose fds it borrows) in which that is so, and in which
 * the zygote itself gets its group, too. */
MUST_CHECK int cgroup_tree_nest(struct cgroup_tree *out, const struct cgroup_tree *tree,
                                unsigned slot, uid_t owner, struct error *err);
/* Removes it, when all its groups are gone. */
void cgroup_tree_unnest(struct cgroup_tree *nested, const struct cgroup_tree *tree, unsigned slot);

/* Lets `owner`, a zygote, clone into the group. */
MUST_CHECK int cgroup_give(const struct cgroup *cg, const struct cgroup_tree *nested, uid_t owner,
                           struct error *err);

/* From now on files stay open once they are. */
void cgroup_keep_files(struct cgroup *cg);
/* Closes those that are, and from now on each after its use. Twice is fine. */
void cgroup_drop_files(struct cgroup *cg);

/* *out is owned. */
MUST_CHECK int cgroup_open_entry(struct cgroup_entry *out, struct cgroup *cg,
                                 const struct cgroup_tree *tree, struct error *err);
void cgroup_entry_release(struct cgroup_entry *entry); /* twice is fine */
/* Takes the entry, for the next who comes into the group; where files do not stay open, releases
 * it. */
void cgroup_give_entry(struct cgroup *cg, struct cgroup_entry *entry);

/* In the child, which must have one thread: the version 1 part. 0, or -1 with errno. */
MUST_CHECK int cgroup_enter(const struct cgroup_entry *entry);

/* Where counters of its groups are read; the fds are the tree's. */
struct meter cgroup_tree_meter(const struct cgroup_tree *tree);

uint64_t cgroup_read_cpu_us(struct cgroup *cg, const struct cgroup_tree *tree);
/* False: not all of them could be read. */
bool cgroup_read_stats(struct cgroup *cg, const struct cgroup_tree *tree,
                       struct spawn_stats *stats);

/* Stops every process of the group where it stands, or lets them go on. ERROR_UNAVAILABLE where
 * this host cannot. A frozen group can be killed. */
MUST_CHECK int cgroup_freeze(const struct cgroup *cg, const struct cgroup_tree *tree,
                             bool is_frozen, struct error *err);

/* Calls `found` for each process of the group, as its list is at this moment; one may come twice.
 * False when the list could not be read to its end. A group that is gone has an empty one. */
bool cgroup_each_process(const struct cgroup *cg, const struct cgroup_tree *tree,
                         void (*found)(void *ctx, pid_t pid), void *ctx);

bool cgroup_is_frozen(const struct cgroup *cg, const struct cgroup_tree *tree); /* by now */

/* The threads of a group, as we call them, but such that have ended: how many there are, and the
 * first `max`. SIZE_MAX: nobody can tell. */
size_t cgroup_list_threads(const struct cgroup *cg, const struct cgroup_tree *tree, pid_t *out,
                           size_t max);

void cgroup_kill(const struct cgroup *cg, const struct cgroup_tree *tree);

/* Removes the group; false while something is still in it (then call again a little later). */
bool cgroup_remove(const struct cgroup *cg, const struct cgroup_tree *tree);

/* Removes what is there under this number, if nothing runs in it. */
void cgroup_remove_empty(const struct cgroup_tree *tree, unsigned slot);

/* Whether groups of this tree can be used once more. Not where version 2 counts the memory. */
bool cgroup_tree_can_renew(const struct cgroup_tree *tree);

/* How many processes and threads are in the group. False: nothing counts them, or the group is
 * gone.
 */
bool cgroup_count(struct cgroup *cg, const struct cgroup_tree *tree, uint64_t *out);

/* Whether the counters that cannot be set back are those of a new group, by the last look at them:
 * when nobody was in it any more. */
bool cgroup_is_unmarked(const struct spawn_stats *last);

/* Makes such a group, which has these limits already, as good as a new one. False: it is not, and
 * is to be removed. One that cgroup_kill() was called for never is: Linux 6.18 kills
 * whoever is cloned into it. */
bool cgroup_renew(struct cgroup *cg, const struct cgroup_tree *tree,
                  const struct spawn_limits *limits);
