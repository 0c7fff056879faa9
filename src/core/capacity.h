/* capacity.h - whether this machine can carry one more sandbox
 *
 * Every live sandbox of this process has a seat. A seat is refused when there are as many sandboxes
 * as there may be, or when too little is left of open files, memory or processes. Memory is
 * promised more often than it exists, as sessions are idle most of the time: what must be left,
 * beside a reserve, is what the newcomer costs idle and all that it is promised itself (at most a
 * quarter of the machine). What the others have not used of their promises is not kept for them;
 * should they all come for it, the kernel's killer finds the sandboxes before anything else.
 *
 * Parked sandboxes give way: they are let go before anybody is refused, if that can help. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"
#include "wire/spawn.h"

struct capacity;

struct capacity_order {
    uint64_t max_sandboxes; /* 0: as many idle ones as the memory holds */
    const char *root;       /* NULL; for tests: stands before /proc and /sys; borrowed */
};

MUST_CHECK int capacity_open(struct capacity **out, const struct capacity_order *order,
                             struct error *err);
void capacity_free(struct capacity *capacity); /* when no seat is taken any more */
SCOPED_DEFINE(capacity)

/* A place for one sandbox; zeroed: none. Stored by whoever keeps the sandbox. */
struct capacity_seat {
    struct capacity *capacity;
    bool is_settled;
};

/* ERROR_LIMIT says what is exhausted, and carries a hint and a time after which to try again. With
 * no capacity (NULL) there is always room, and no seat. Costs a microsecond; ten times a second it
 * looks at the machine. */
MUST_CHECK int capacity_take(struct capacity *capacity, struct capacity_seat *seat,
                             const struct spawn_limits *limits, struct error *err);

/* For a sandbox that lives already, made by another process: never refused. */
void capacity_claim(struct capacity *capacity, struct capacity_seat *seat);
void capacity_settle(struct capacity_seat *seat); /* it is made: the machine's figures contain it */
void capacity_give(struct capacity_seat *seat);   /* it is gone; without a seat nothing happens */

/* Would there be one, with nobody giving way? For those who only stock up. */
bool capacity_has_room(struct capacity *capacity, const struct spawn_limits *limits);

/* Lets one sandbox go that nobody uses, which gives its seat back at once. False: there is none. */
typedef bool (*capacity_yield_fn)(void *ctx);
void capacity_add_yielder(struct capacity *capacity, capacity_yield_fn fn, void *ctx);
void capacity_remove_yielder(struct capacity *capacity, void *ctx);

/* Plain data, for metrics. */
struct capacity_info {
    uint64_t live, max_sandboxes;
};

void capacity_get_info(const struct capacity *capacity, struct capacity_info *out);
