/* capacity.c - one count, one glance at the machine, and a table of what can be lacking
 *
 * The figures of the machine are up to 100 ms old, and a sandbox that is being made is not in them.
 * So what was taken since counts at its idle cost, on top of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capacity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include "core/machine.h"

#define SAMPLE_NS  (100 * 1000000ll)
#define IDLE_BYTES (2 * MIB) /* measured: docs/decisions/0017 */
#define IDLE_PIDS  2         /* cove-init and the interpreter */
#define IDLE_FILES 3         /* in this process, and as many in the spawner */
#define RETRY_MS   1000

/* For everybody else on the machine, and for what runs: this part of all, but no more than that. */
#define RESERVE_PART 16
#define RESERVE_MAX  GIB
#define OTHER_PART   4
#define OTHER_FILES  512
#define OTHER_PIDS   256

/* A limit beyond this part of the machine is a ceiling that nobody means to reach. */
#define PROMISE_PART 4

struct yielder {
    struct yielder *next;
    capacity_yield_fn fn;
    void *ctx;
};

struct capacity {
    struct capacity_order order;
    struct machine machine;
    int64_t sampled_ns;
    uint64_t max_sandboxes;
    uint64_t live;
    uint64_t settling; /* of the live ones: still being made */
    int64_t unseen;    /* sandboxes that the figures lack; below 0: that they contain no more */
    struct yielder *yielders;
};

/* --- the machine ----------------------------------------------------------------------------- */

static uint64_t reserve(const struct capacity *c)
{
    return MIN(c->machine.memory_bytes / RESERVE_PART, RESERVE_MAX);
}

static int look(struct capacity *c, struct error *err)
{
    int64_t now = clock_now_ns();
    if (c->sampled_ns && now - c->sampled_ns < SAMPLE_NS)
        return 0;
    if (machine_read(&c->machine, c->order.root ? c->order.root : "", err) < 0)
        return -1;
    c->sampled_ns = now;
    c->unseen = (int64_t)c->settling;
    c->max_sandboxes = c->order.max_sandboxes
                           ? c->order.max_sandboxes
                           : MAX((c->machine.memory_bytes - reserve(c)) / IDLE_BYTES, (uint64_t)1);
    return 0;
}

/* --- what can be lacking --------------------------------------------------------------------- */

/* How much the newcomer needs, is left, and is there in all. */
struct amount {
    uint64_t need, left, all;
};

static uint64_t minus(uint64_t from, uint64_t what)
{
    return from - MIN(from, what);
}

/* Without what the figures do not show yet. */
static uint64_t minus_unseen(const struct capacity *c, uint64_t left, uint64_t each)
{
    uint64_t bytes = (uint64_t)(c->unseen < 0 ? -c->unseen : c->unseen) * each;
    return c->unseen < 0 ? left + bytes : minus(left, bytes);
}

static struct amount count_sandboxes(const struct capacity *c, const struct spawn_limits *l)
{
    (void)l;
    return (struct amount){1, minus(c->max_sandboxes, c->live), c->max_sandboxes};
}

static struct amount count_files(const struct capacity *c, const struct spawn_limits *l)
{
    (void)l;
    uint64_t all = c->machine.files_max;
    uint64_t others = MIN(all / OTHER_PART, (uint64_t)OTHER_FILES);
    return (struct amount){IDLE_FILES, minus(minus(all, others), c->live * IDLE_FILES), all};
}

static struct amount count_memory(const struct capacity *c, const struct spawn_limits *l)
{
    const struct machine *m = &c->machine;
    uint64_t promised = MIN(l->memory_bytes, m->memory_bytes / PROMISE_PART);
    uint64_t left = minus_unseen(c, m->available_bytes, IDLE_BYTES);
    return (struct amount){IDLE_BYTES + promised, minus(left, reserve(c)), m->memory_bytes};
}

static struct amount count_pids(const struct capacity *c, const struct spawn_limits *l)
{
    const struct machine *m = &c->machine;
    uint64_t promised = MIN((uint64_t)l->pids, m->pids_max / PROMISE_PART);
    uint64_t left = minus_unseen(c, minus(m->pids_max, m->pids_now), IDLE_PIDS);
    uint64_t others = MIN(m->pids_max / OTHER_PART, (uint64_t)OTHER_PIDS);
    return (struct amount){IDLE_PIDS + promised, minus(left, others), m->pids_max};
}

static const struct resource {
    const char *name;
    struct amount (*count)(const struct capacity *c, const struct spawn_limits *l);
    uint64_t idle; /* what one sandbox that waits has of it */
    void (*format)(uint64_t value, char out[FORMAT_BYTES]);
    const char *hint;
} resources[] = {
    {"sandboxes", count_sandboxes, 1, format_u64,
     "close sessions that nobody needs, or raise --max-sandboxes"},
    {"open files", count_files, IDLE_FILES, format_u64,
     "close sessions that nobody needs, or raise the limit of open files (ulimit -n)"},
    {"memory", count_memory, IDLE_BYTES, format_size,
     "close sessions that nobody needs, or lower --memory; the rest is in use or in reserve"},
    {"processes", count_pids, IDLE_PIDS, format_u64,
     "close sessions that nobody needs, lower --pids, or raise kernel.pid_max"},
};

/* Sizes are told in whole megabytes: the odd bytes help nobody. */
static void format_amount(const struct resource *r, uint64_t value, char out[FORMAT_BYTES])
{
    r->format(r->format == format_size ? value / MIB * MIB : value, out);
}

static const struct resource *find_lacking(const struct capacity *c, const struct spawn_limits *l,
                                           struct amount *out)
{
    for (size_t i = 0; i < ARRAY_LEN(resources); i++) {
        *out = resources[i].count(c, l);
        if (out->left < out->need)
            return &resources[i];
    }
    return NULL;
}

static int refuse(const struct resource *r, const struct amount *a, struct error *err)
{
    char need[FORMAT_BYTES], left[FORMAT_BYTES], all[FORMAT_BYTES];
    format_amount(r, a->need, need);
    format_amount(r, a->left, left);
    format_amount(r, a->all, all);
    error_set(err, ERROR_LIMIT,
              "no room for another sandbox: %s: %s of %s left, and it may need %s", r->name, left,
              all, need);
    error_hint(err, "%s", r->hint);
    err->retry_ms = RETRY_MS;
    return -1;
}

/* --- seats ----------------------------------------------------------------------------------- */

/* Were all to go, the stock would be lost and the newcomer refused all the same. */
static bool can_help(const struct capacity *c, const struct resource *r, const struct amount *a)
{
    return a->need - a->left <= c->live * r->idle;
}

static bool let_one_go(struct capacity *c)
{
    for (struct yielder *y = c->yielders; y; y = y->next) {
        if (y->fn(y->ctx))
            return true;
    }
    return false;
}

int capacity_take(struct capacity *c, struct capacity_seat *seat, const struct spawn_limits *limits,
                  struct error *err)
{
    struct amount amount;
    const struct resource *lacking;
    if (!c)
        return 0;
    if (look(c, err) < 0)
        return -1;
    do
        lacking = find_lacking(c, limits, &amount);
    while (lacking && can_help(c, lacking, &amount) && let_one_go(c));
    if (lacking)
        return refuse(lacking, &amount, err);
    *seat = (struct capacity_seat){.capacity = c};
    c->live++;
    c->settling++;
    c->unseen++;
    return 0;
}

void capacity_claim(struct capacity *c, struct capacity_seat *seat)
{
    if (!c)
        return;
    *seat = (struct capacity_seat){.capacity = c, .is_settled = true};
    c->live++;
}

bool capacity_has_room(struct capacity *c, const struct spawn_limits *limits)
{
    struct amount amount;
    struct error ignored;
    return !c || (look(c, &ignored) == 0 && !find_lacking(c, limits, &amount));
}

void capacity_settle(struct capacity_seat *seat)
{
    if (!seat->capacity || seat->is_settled)
        return;
    seat->is_settled = true;
    seat->capacity->settling--;
}

void capacity_give(struct capacity_seat *seat)
{
    struct capacity *c = seat->capacity;
    if (!c)
        return;
    capacity_settle(seat);
    c->live--;
    c->unseen--;
    *seat = (struct capacity_seat){0};
}

void capacity_add_yielder(struct capacity *c, capacity_yield_fn fn, void *ctx)
{
    struct yielder *y = xcalloc(1, sizeof(*y));
    *y = (struct yielder){.next = c->yielders, .fn = fn, .ctx = ctx};
    c->yielders = y;
}

void capacity_remove_yielder(struct capacity *c, void *ctx)
{
    for (struct yielder **at = &c->yielders; *at;) {
        struct yielder *y = *at;
        if (y->ctx == ctx) {
            *at = y->next;
            free(y);
        } else {
            at = &y->next;
        }
    }
}

void capacity_get_info(const struct capacity *c, struct capacity_info *out)
{
    *out = (struct capacity_info){.live = c->live, .max_sandboxes = c->max_sandboxes};
}

int capacity_open(struct capacity **out, const struct capacity_order *order, struct error *err)
{
    struct capacity *c = xcalloc(1, sizeof(*c));
    c->order = *order;
    if (look(c, err) < 0) {
        free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void capacity_free(struct capacity *c)
{
    if (!c)
        return;
    BUG_ON(c->live > 0);
    while (c->yielders)
        capacity_remove_yielder(c, c->yielders->ctx);
    free(c);
}
