/* spare_group.h - cgroups of sandboxes that are gone, for those that a zygote makes next
 *
 * A group and the slot that names it stay together, and with them the files of the group that are
 * open. They wait for a moment only: what recycling saves, it saves where one sandbox follows
 * another. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box/cgroup.h"
#include "box/slot.h"

#define SPARE_GROUPS_MAX 8

struct spare_groups {
    struct {
        struct cgroup group;
        struct spawn_limits limits; /* that are set in it */
        int64_t until_ns;
    } items[SPARE_GROUPS_MAX]; /* the one that waits longest comes first */
    size_t count;
    int64_t wait_ns; /* how long one may */
};

/* Nothing may be left in the group, and nothing may have killed it as a whole. Takes its open
 * files. False: there are enough, and the caller keeps it. */
bool spare_groups_give(struct spare_groups *g, struct cgroup *group,
                       const struct spawn_limits *limits, int64_t now);

/* One that is as good as new, with these limits. Those that turn out not to be are removed. */
bool spare_groups_take(struct spare_groups *g, const struct cgroup_tree *tree,
                       struct slot_table *slots, const struct spawn_limits *limits,
                       struct cgroup *out);

/* When one has waited long enough; INT64_MAX: there is none. */
int64_t spare_groups_due_ns(const struct spare_groups *g);

/* Removes those whose time has come. */
void spare_groups_expire(struct spare_groups *g, const struct cgroup_tree *tree,
                         struct slot_table *slots, int64_t now);

/* Removes all of them; false while one is left (then call again a little later). */
bool spare_groups_clear(struct spare_groups *g, const struct cgroup_tree *tree,
                        struct slot_table *slots);
