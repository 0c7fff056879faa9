/* rate_limit.c - a bucket is one instant: when it would be full (the "generic cell rate algorithm")
 *
 * The tokens that are missing, times the interval of one, are how far that instant lies ahead. So
 * nothing has to be filled up by a timer, and nothing is rounded away between two requests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rate_limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"

#define NS_PER_SECOND 1000000000
#define NS_PER_MINUTE (60ll * NS_PER_SECOND)
#define WAYS          8 /* buckets among which a name finds its place */

/* Of a rule that is a limit. */
static int64_t interval_of(const struct rate_rule *rule)
{
    int64_t rate = (int64_t)MIN(rule->per_minute, RATE_LIMIT_PER_MINUTE_MAX);
    return (NS_PER_MINUTE + rate - 1) / rate; /* never too often */
}

static uint64_t burst_of(const struct rate_rule *rule)
{
    return rule->burst ? MIN(rule->burst, RATE_LIMIT_BURST_MAX)
                       : MIN(rule->per_minute, RATE_LIMIT_PER_MINUTE_MAX) / 6 + 1;
}

bool rate_bucket_take(struct rate_bucket *bucket, const struct rate_rule *rule, int64_t now_ns,
                      int64_t *wait_ns)
{
    if (rule->per_minute == 0)
        return true;
    uint64_t burst = burst_of(rule);
    int64_t interval = interval_of(rule);
    int64_t full = MAX(bucket->full_ns, now_ns) + interval;
    int64_t over = full - now_ns - interval * (int64_t)burst;
    if (over > 0) {
        *wait_ns = over;
        return false;
    }
    bucket->full_ns = full;
    return true;
}

struct rate_state rate_bucket_look(const struct rate_bucket *bucket, const struct rate_rule *rule,
                                   int64_t now_ns)
{
    if (rule->per_minute == 0)
        return (struct rate_state){0};
    struct rate_state state = {.limit = burst_of(rule),
                               .full_in_ns = MAX(bucket->full_ns - now_ns, 0)};
    int64_t interval = interval_of(rule);
    uint64_t missing = (uint64_t)((state.full_in_ns + interval - 1) / interval);
    state.left = state.limit - MIN(missing, state.limit);
    return state;
}

unsigned rate_limit_retry_after(int64_t wait_ns)
{
    int64_t seconds = (wait_ns + NS_PER_SECOND - 1) / NS_PER_SECOND;
    return seconds < 1 ? 1 : (unsigned)seconds;
}

struct slot {
    char name[RATE_LIMIT_NAME_BYTES]; /* "": free */
    struct rate_bucket bucket;
};

struct rate_limit {
    uint64_t seed; /* so that nobody can choose names that meet in one set */
    size_t sets;   /* a power of two */
    struct slot slots[];
};

int rate_limit_new(struct rate_limit **out, size_t names, struct error *err)
{
    size_t sets = 1;
    while (sets * WAYS < names)
        sets *= 2;
    scoped(rate_limit) struct rate_limit *limit =
        xcalloc(1, sizeof(*limit) + sets * WAYS * sizeof(struct slot));
    limit->sets = sets;
    if (getrandom(&limit->seed, sizeof(limit->seed), 0) != sizeof(limit->seed))
        return error_sys(err, "getrandom");
    *out = take_ptr(&limit);
    return 0;
}

void rate_limit_free(struct rate_limit *limit)
{
    free(limit);
}

static uint64_t mix(uint64_t seed, const char *name)
{
    uint64_t hash = seed;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

/* The slot of the name; when it has none, the one whose bucket is fullest becomes its own. */
static struct slot *find_slot(struct rate_limit *limit, const char *name)
{
    struct slot *set = &limit->slots[(mix(limit->seed, name) & (limit->sets - 1)) * WAYS];
    struct slot *fullest = &set[0];
    for (size_t i = 0; i < WAYS; i++) {
        if (strcmp(set[i].name, name) == 0)
            return &set[i];
        if (set[i].bucket.full_ns < fullest->bucket.full_ns)
            fullest = &set[i];
    }
    *fullest = (struct slot){0};
    memcpy(fullest->name, name, strlen(name));
    return fullest;
}

static struct rate_bucket *find_bucket(struct rate_limit *limit, const char *name)
{
    char cut[RATE_LIMIT_NAME_BYTES];
    snprintf(cut, sizeof(cut), "%s", name);
    return &find_slot(limit, cut)->bucket;
}

bool rate_limit_take(struct rate_limit *limit, const char *name, const struct rate_rule *rule,
                     int64_t now_ns, int64_t *wait_ns)
{
    return rate_bucket_take(find_bucket(limit, name), rule, now_ns, wait_ns);
}

bool rate_limit_may(struct rate_limit *limit, const char *name, const struct rate_rule *rule,
                    int64_t now_ns, int64_t *wait_ns)
{
    struct rate_bucket copy = *find_bucket(limit, name);
    return rate_bucket_take(&copy, rule, now_ns, wait_ns);
}
