/* cgroup_renew.c - when a group that was used is as good as a new one
 *
 * Nothing is believed to be so: each number that anybody could read of the next tenant is looked
 * at, or set back. See docs/decisions/0022-recycling.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "box/cgroup_inside.h"

#define NUMBER_BYTES 64

/* The kernel charges memory in batches of so much for each processor, in any group: what is less
 * cannot be told from that. On machines with many processors that would be too much to overlook. */
#define CHARGE_BATCH_BYTES (64 * 4 * KIB)
#define CHARGE_BATCHES_MAX 4

/* Version 2 has no peak that could be set back for all who read it. */
bool cgroup_tree_can_renew(const struct cgroup_tree *tree)
{
    static const enum cgroup_controller needed[] = {CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (!cgroup_tree_has(tree, needed[i]) || cgroup_is_v2(tree, needed[i]))
            return false;
    }
    return cgroup_tree_has(tree, CGROUP_UNIFIED);
}

bool cgroup_is_unmarked(const struct spawn_stats *last)
{
    return last->oom_kills == 0 && last->pids_refused == 0 && last->pids_now == 0;
}

static uint64_t charged_in_advance(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return CHARGE_BATCH_BYTES * (uint64_t)MIN(MAX(processors, 1), CHARGE_BATCHES_MAX);
}

/* Their buffers are counted to the page, and for as long as anybody holds the socket: one that is
 * on its way in another, or that the kernel still takes down, would be the next tenant's to pay
 * for. */
static bool has_no_sockets(struct cgroup *cg, const struct cgroup_tree *tree)
{
    uint64_t held;
    return cgroup_read_number(cg, tree, CGROUP_FILE_SOCKETS, &held) && held == 0;
}

static bool is_at_rest(struct cgroup *cg, const struct cgroup_tree *tree)
{
    char events[NUMBER_BYTES];
    uint64_t charged;
    return cgroup_read_open(cg, tree, CGROUP_FILE_EVENTS, events, sizeof(events)) &&
           strcmp(events, "populated 0\nfrozen 0\n") == 0 &&
           cgroup_read_number(cg, tree, CGROUP_FILE_CHARGED, &charged) &&
           charged < charged_in_advance() && has_no_sockets(cg, tree);
}

/* The quota is written although it is the same: that makes what is left of the period whole again,
 * and lets go who was throttled. */
static bool set_back(struct cgroup *cg, const struct cgroup_tree *tree,
                     const struct spawn_limits *limits)
{
    char quota[NUMBER_BYTES];
    snprintf(quota, sizeof(quota), "%" PRIu64,
             cgroup_cpu_quota_us(MAX(limits->cpu_milli, tree->burst_milli)));
    return cgroup_write_open(cg, tree, CGROUP_FILE_PEAK, "0") &&
           cgroup_write_open(cg, tree, CGROUP_FILE_QUOTA, quota);
}

bool cgroup_renew(struct cgroup *cg, const struct cgroup_tree *tree,
                  const struct spawn_limits *limits)
{
    bool is_renewed =
        cgroup_tree_can_renew(tree) && is_at_rest(cg, tree) && set_back(cg, tree, limits);
    cgroup_settle(cg);
    return is_renewed;
}
