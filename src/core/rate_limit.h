/* rate_limit.h - how often somebody may ask: a bucket of tokens for each name, in fixed memory
 *
 * Pure: the caller passes the (monotonic) time. A bucket holds up to `burst` tokens, gains
 * `per_minute` of them, and each request takes one; what is refused takes none. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"

#define RATE_LIMIT_PER_MINUTE_MAX 60000000ull /* a million a second */
#define RATE_LIMIT_BURST_MAX      1000000ull

struct rate_rule {
    uint64_t per_minute; /* 0: no limit; more than the maximum is the maximum */
    uint64_t burst;      /* 0: what ten seconds bring, and one */
};

struct rate_bucket {
    int64_t full_ns; /* when it would be full again; zeroed: it is */
};

/* Takes a token; false: there is none, and will be in *wait_ns. */
bool rate_bucket_take(struct rate_bucket *bucket, const struct rate_rule *rule, int64_t now_ns,
                      int64_t *wait_ns);

/* What is in it; `limit` 0: it has none, and nothing else is said. */
struct rate_state {
    uint64_t limit, left; /* tokens of a full one; of this one */
    int64_t full_in_ns;
};
struct rate_state rate_bucket_look(const struct rate_bucket *bucket, const struct rate_rule *rule,
                                   int64_t now_ns);

/* For Retry-After: whole seconds, at least one. */
unsigned rate_limit_retry_after(int64_t wait_ns);

/* --- many of them -----------------------------------------------------------------------------
 *
 * For names that strangers can choose, such as addresses, too: when there are more names than room,
 * the bucket that is fullest makes way, which has the least to forget. */

#define RATE_LIMIT_NAME_BYTES 56 /* longer names share a bucket with what they begin with */

struct rate_limit;

/* Room for at least `names`, in fixed memory. */
MUST_CHECK int rate_limit_new(struct rate_limit **out, size_t names, struct error *err);
void rate_limit_free(struct rate_limit *limit);
SCOPED_DEFINE(rate_limit)

/* As rate_bucket_take(), for the bucket of that name. */
bool rate_limit_take(struct rate_limit *limit, const char *name, const struct rate_rule *rule,
                     int64_t now_ns, int64_t *wait_ns);
/* The same without taking anything. */
bool rate_limit_may(struct rate_limit *limit, const char *name, const struct rate_rule *rule,
                    int64_t now_ns, int64_t *wait_ns);
