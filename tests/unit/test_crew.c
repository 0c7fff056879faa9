/* test_crew.c - how many warm interpreters there are, and which one is next
 *
 * Interpreters are of our own: they are warm when the test says so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/crew.h"

#include <stdlib.h>

#include "base/memory.h"
#include "check.h"

struct warm {
    uint64_t zygote; /* 0: not yet */
    bool is_stopped;
};

static struct warm *all[8]; /* as they were opened; NULL: freed */
static size_t opened, live;
static bool fails;

int __wrap_warm_open(struct warm **out, struct loop *loop, struct spawner_client *spawner,
                     const struct warm_order *order, struct error *err);
void __wrap_warm_stop(struct warm *w);
void __wrap_warm_free(struct warm *w);
uint64_t __wrap_warm_zygote(const struct warm *w);
void __wrap_warm_on_event(struct warm *w, const struct spawn_message *m);

int __wrap_warm_open(struct warm **out, struct loop *loop, struct spawner_client *spawner,
                     const struct warm_order *order, struct error *err)
{
    (void)loop, (void)spawner, (void)order;
    if (fails)
        return error_set(err, ERROR_LIMIT, "no more files");
    *out = all[opened++] = xcalloc(1, sizeof(**out));
    live++;
    return 0;
}

void __wrap_warm_stop(struct warm *w)
{
    w->is_stopped = true;
}

void __wrap_warm_free(struct warm *w)
{
    for (size_t i = 0; i < opened; i++)
        all[i] = all[i] == w ? NULL : all[i];
    live--;
    free(w);
}

uint64_t __wrap_warm_zygote(const struct warm *w)
{
    return w->zygote;
}

void __wrap_warm_on_event(struct warm *w, const struct spawn_message *m)
{
    w->zygote = m->sandbox;
}

static struct crew *open_crew(size_t max)
{
    struct crew *crew;
    struct error err;
    opened = live = 0;
    fails = false;
    assert_int_equal(crew_open(&crew, NULL, NULL, &(struct warm_order){0}, max, &err), 0);
    assert_int_equal(live, 1);
    return crew;
}

static void close_crew(struct crew *crew)
{
    crew_stop(crew);
    for (size_t i = 0; i < opened; i++)
        assert_true(!all[i] || all[i]->is_stopped);
    crew_free(crew);
    assert_int_equal(live, 0);
}

/* So many a second, for so long. */
static void ask(struct crew *crew, unsigned per_second, unsigned seconds)
{
    for (unsigned i = 0; i < 10 * seconds; i++)
        crew_tick(crew, per_second / 10);
}

/* A full crew of `count`, whose zygotes are 1, 2, ... */
static struct crew *open_rush(size_t count)
{
    struct crew *crew = open_crew(count);
    for (size_t i = 0; i < count; i++) {
        all[i]->zygote = i + 1;
        ask(crew, 1000, 1);
    }
    assert_int_equal(live, count);
    return crew;
}

static void test_one(void **state)
{
    (void)state;
    struct crew *crew = open_crew(4);
    assert_int_equal(crew_find(crew), 0);
    assert_int_equal(crew_next(crew), 0);
    all[0]->zygote = 7;
    ask(crew, 90, 100);
    assert_int_equal(live, 1);
    assert_int_equal(crew_find(crew), 7);
    assert_int_equal(crew_next(crew), 7);
    close_crew(crew);
}

static void test_handful(void **state)
{
    (void)state;
    struct crew *crew = open_crew(4);
    all[0]->zygote = 7;
    for (int i = 0; i < 5; i++) {
        crew_tick(crew, 50);
        ask(crew, 0, 5);
    }
    assert_int_equal(live, 1);
    close_crew(crew);
}

static void test_grows(void **state)
{
    (void)state;
    struct crew *crew = open_crew(4);
    ask(crew, 1000, 10);
    assert_int_equal(live, 1); /* the first is not there yet */
    for (size_t i = 0; i < 4; i++) {
        ask(crew, 100 * (unsigned)(i + 1) - 10, 20);
        all[i]->zygote = i + 1;
        ask(crew, 100 * (unsigned)(i + 1) - 10, 20);
        assert_int_equal(live, i + 1);
        ask(crew, 100 * (unsigned)(i + 1) + 10, 20);
        ask(crew, 1000, 20);
        assert_int_equal(live, MIN(i + 2, (size_t)4));
    }
    close_crew(crew);
}

static void test_bound(void **state)
{
    (void)state;
    struct crew *crew = open_rush(2);
    ask(crew, 100000, 10);
    assert_int_equal(live, 2);
    close_crew(crew);
    crew = open_crew(1000);
    for (size_t i = 0; i < 8; i++) {
        if (i < opened)
            all[i]->zygote = i + 1;
        ask(crew, 100000, 1);
    }
    assert_int_equal(live, 4);
    close_crew(crew);
}

static void test_ends(void **state)
{
    (void)state;
    struct crew *crew = open_rush(3);
    ask(crew, 0, 25); /* a pause, perhaps */
    assert_int_equal(live, 3);
    ask(crew, 200, 5);
    ask(crew, 90, 28);
    assert_int_equal(live, 3);
    ask(crew, 90, 10);
    assert_int_equal(live, 1);
    assert_non_null(all[0]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(crew_next(crew), 1);
    close_crew(crew);
}

static void test_turns(void **state)
{
    (void)state;
    struct crew *crew = open_rush(3);
    unsigned made[4] = {0};
    for (int i = 0; i < 30; i++) {
        crew_find(crew); /* who only looks takes nobody's turn */
        made[crew_next(crew)]++;
    }
    for (int i = 1; i <= 3; i++)
        assert_int_equal(made[i], 10);
    all[0]->zygote = all[2]->zygote = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(crew_next(crew), 2);
    assert_int_equal(crew_find(crew), 2);
    crew_on_event(crew, &(struct spawn_message){.sandbox = 9});
    assert_int_equal(all[0]->zygote, 9);
    assert_int_equal(all[2]->zygote, 9);
    close_crew(crew);
}

static void test_fails(void **state)
{
    (void)state;
    struct error err;
    struct crew *crew = open_crew(2);
    all[0]->zygote = 1;
    fails = true;
    ask(crew, 1000, 1);
    assert_int_equal(crew_next(crew), 1);
    fails = false;
    ask(crew, 1000, 1);
    assert_int_equal(live, 2);
    close_crew(crew);
    fails = true;
    assert_int_equal(crew_open(&crew, NULL, NULL, &(struct warm_order){0}, 2, &err), -1);
    assert_int_equal(live, 0);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "one is enough without a rush", test_one);
    check_one(&check, "a handful at once is no rush", test_handful);
    check_one(&check, "a rush calls one after the other", test_grows);
    check_one(&check, "but no more than it may, or than are of use", test_bound);
    check_one(&check, "who was called goes when it is over", test_ends);
    check_one(&check, "they take turns, without those that are not warm", test_turns);
    check_one(&check, "what cannot be had is done without", test_fails);
    return check_run(&check, "crew");
}
