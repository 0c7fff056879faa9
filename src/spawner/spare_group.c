/* spare_group.c - a short queue; the group that has waited longest has had most time to come to
 * rest
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/spare_group.h"

#include <string.h>

#include "base/clock.h"

bool spare_groups_give(struct spare_groups *g, struct cgroup *group,
                       const struct spawn_limits *limits, int64_t now)
{
    if (g->count == SPARE_GROUPS_MAX)
        return false;
    cgroup_keep_files(group); /* who takes it needs those that are opened to look at it */
    g->items[g->count].group = *group;
    *group = (struct cgroup){.slot = group->slot};
    g->items[g->count].limits = *limits;
    g->items[g->count].until_ns = now + g->wait_ns;
    g->count++;
    return true;
}

static struct cgroup take_first(struct spare_groups *g)
{
    const struct cgroup cg = g->items[0].group;
    g->count--;
    memmove(&g->items[0], &g->items[1], g->count * sizeof(g->items[0]));
    return cg;
}

/* Removes the first one; one that the kernel still holds is tried again later. */
static void discard_first(struct spare_groups *g, const struct cgroup_tree *tree,
                          struct slot_table *slots, int64_t now)
{
    const struct spawn_limits limits = g->items[0].limits;
    struct cgroup cg = take_first(g);
    cgroup_drop_files(&cg);
    if (cgroup_remove(&cg, tree))
        slot_release(slots, cg.slot);
    else
        (void)!spare_groups_give(g, &cg, &limits, now); /* there was room for it before */
}

bool spare_groups_take(struct spare_groups *g, const struct cgroup_tree *tree,
                       struct slot_table *slots, const struct spawn_limits *limits,
                       struct cgroup *out)
{
    for (size_t left = g->count; left > 0; left--) {
        if (memcmp(&g->items[0].limits, limits, sizeof(*limits)) == 0 &&
            cgroup_renew(&g->items[0].group, tree, limits)) {
            *out = take_first(g);
            return true;
        }
        discard_first(g, tree, slots, clock_now_ns());
    }
    return false;
}

int64_t spare_groups_due_ns(const struct spare_groups *g)
{
    return g->count > 0 ? g->items[0].until_ns : INT64_MAX;
}

void spare_groups_expire(struct spare_groups *g, const struct cgroup_tree *tree,
                         struct slot_table *slots, int64_t now)
{
    for (size_t left = g->count; left > 0 && g->items[0].until_ns <= now; left--)
        discard_first(g, tree, slots, now);
}

bool spare_groups_clear(struct spare_groups *g, const struct cgroup_tree *tree,
                        struct slot_table *slots)
{
    for (size_t left = g->count; left > 0; left--)
        discard_first(g, tree, slots, clock_now_ns());
    return g->count == 0;
}
