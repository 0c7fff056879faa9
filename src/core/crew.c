/* crew.c - one that stays, and others that come and go with the demand */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/crew.h"

#include <sched.h>
#include <stdlib.h>

#include "base/memory.h"

/* Beyond this many, the one thread of the spawner is what they would wait for. */
#define CREW_MAX 4
/* Sessions a second for each beyond the first. One alone makes several times as many, but only if
 * it never waits for a processor; a second one is there before that is missed. */
#define RUSH        100
#define TICKS_PER_S 10
#define MEAN_TICKS  8   /* over which a rate is a rate, and not a handful at once */
#define CALM_TICKS  300 /* without a rush, until who was called goes: starting one is dear */

struct crew {
    struct loop *loop;
    struct spawner_client *spawner;
    struct warm_order order;
    struct warm *members[CREW_MAX]; /* the first one stays */
    size_t count, max;
    size_t turn;
    double rate;         /* sessions a second, lately */
    unsigned calm_ticks; /* since there was a rush */
};

static size_t count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (size_t)CPU_COUNT(&set);
}

static int add(struct crew *c, struct error *err)
{
    if (warm_open(&c->members[c->count], c->loop, c->spawner, &c->order, err) < 0)
        return -1;
    c->count++;
    return 0;
}

static void remove_last(struct crew *c)
{
    struct warm *last = c->members[--c->count];
    warm_stop(last);
    warm_free(last);
}

/* One after the other: what it costs to start one is taken from those who are in a hurry. One that
 * fails to start tries again by itself, and no further one is called meanwhile. */
static void grow(struct crew *c)
{
    struct error err;
    c->calm_ticks = 0;
    if (c->count < c->max && c->rate >= (double)(c->count * RUSH) &&
        warm_zygote(c->members[c->count - 1]))
        (void)!add(c, &err); /* it is tried again, and those that are there go on */
}

void crew_tick(struct crew *c, unsigned asked)
{
    c->rate += ((double)asked * TICKS_PER_S - c->rate) / MEAN_TICKS;
    if (c->rate >= RUSH)
        grow(c);
    else if (++c->calm_ticks >= CALM_TICKS && c->count > 1)
        remove_last(c);
}

uint64_t crew_find(const struct crew *c)
{
    uint64_t zygote = 0;
    for (size_t i = 0; i < c->count && !zygote; i++)
        zygote = warm_zygote(c->members[i]);
    return zygote;
}

const struct error *crew_error(const struct crew *c)
{
    return warm_error(c->members[0]);
}

uint64_t crew_next(struct crew *c)
{
    uint64_t zygote = 0;
    for (size_t i = 0; i < c->count && !zygote; i++)
        zygote = warm_zygote(c->members[c->turn++ % c->count]);
    return zygote;
}

void crew_on_event(struct crew *c, const struct spawn_message *m)
{
    for (size_t i = 0; i < c->count; i++)
        warm_on_event(c->members[i], m);
}

int crew_open(struct crew **out, struct loop *loop, struct spawner_client *spawner,
              const struct warm_order *order, size_t max, struct error *err)
{
    struct crew *c = xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->spawner = spawner;
    c->order = *order;
    c->max = MIN(max ? max : count_processors(), (size_t)CREW_MAX);
    if (add(c, err) < 0) {
        crew_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void crew_stop(struct crew *c)
{
    for (size_t i = 0; i < c->count; i++)
        warm_stop(c->members[i]);
}

void crew_free(struct crew *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        warm_free(c->members[i]);
    free(c);
}
