/* plane_quota.c - what an owner's sandboxes take here, against what he may have
 *
 * Sessions are counted by the store, in the transaction that writes them down. Code that runs
 * without a session is written down at its end at the earliest, so it is counted here: beside the
 * live sessions of its owner, while somebody waits for it. There is one thread, and an execution is
 * in the table from the moment it was let pass, so this cannot be raced either. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "core/plane_inside.h"

enum { SESSIONS, CPUS, MEMORY, DISK, AMOUNTS };

static const char *const names[AMOUNTS] = {"sandboxes", "milli-cores", "bytes of memory",
                                           "bytes of disk"};

static void add(uint64_t sum[AMOUNTS], const struct spawn_limits *limits)
{
    sum[SESSIONS]++;
    sum[CPUS] += limits->cpu_milli;
    sum[MEMORY] += limits->memory_bytes;
    sum[DISK] += limits->disk_bytes;
}

static void add_all(const struct plane *p, const char *owner, uint64_t sum[AMOUNTS])
{
    MAP_EACH(&p->sessions, node)
    {
        const struct live *l = MAP_OF(node, struct live, by_id);
        if (l->kind && !l->ended_ns && strcmp(l->owner, owner) == 0)
            add(sum, catalog_limits(l->kind));
    }
    MAP_EACH(&p->jobs, node)
    {
        const struct job *j = MAP_OF(node, struct job, by_id);
        if (j->kind && !j->session_id && !j->is_told && strcmp(j->owner, owner) == 0)
            add(sum, catalog_limits(j->kind));
    }
}

int plane_check_quota(const struct plane *p, const struct plane_caller *who,
                      const struct spawn_limits *limits, struct error *err)
{
    if (!who->quota)
        return 0;
    const uint64_t quota[AMOUNTS] = {who->quota->sessions, who->quota->cpu_milli,
                                     who->quota->memory_bytes, who->quota->disk_bytes};
    uint64_t takes[AMOUNTS] = {0}, used[AMOUNTS] = {0};
    add(takes, limits);
    add_all(p, who->owner, used);
    for (size_t i = 0; i < AMOUNTS; i++) {
        if (quota[i] == 0 || used[i] + takes[i] <= quota[i])
            continue;
        error_set(err, ERROR_LIMIT,
                  "quota of the key: %" PRIu64 " %s are in use, %" PRIu64
                  " more are above %" PRIu64,
                  used[i], names[i], takes[i], quota[i]);
        error_word(err, "quota_exceeded");
        return error_hint(err,
                          "wait for what runs, terminate a session, or ask for a larger quota");
    }
    return 0;
}
