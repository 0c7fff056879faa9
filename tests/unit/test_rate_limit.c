/* test_rate_limit.c - bursts, rates and waits, on a clock that the test turns */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rate_limit.h"

#include <stdio.h>

#include "check.h"

#define SECOND 1000000000ll

static void test_burst(void **state)
{
    (void)state;
    struct rate_bucket bucket = {0};
    const struct rate_rule rule = {.per_minute = 60, .burst = 5};
    int64_t now = 1000 * SECOND, wait = -1;
    for (int i = 0; i < 5; i++)
        assert_true(rate_bucket_take(&bucket, &rule, now, &wait));
    assert_int_equal(wait, -1);
    assert_false(rate_bucket_take(&bucket, &rule, now, &wait));
    assert_int_equal(wait, SECOND);
    assert_false(rate_bucket_take(&bucket, &rule, now + SECOND - 1, &wait));
    assert_int_equal(wait, 1); /* and being refused has cost nothing */
    assert_true(rate_bucket_take(&bucket, &rule, now + SECOND, &wait));
    assert_false(rate_bucket_take(&bucket, &rule, now + SECOND, &wait));
    now += 3600 * SECOND; /* however long it rests, it holds no more than the burst */
    for (int i = 0; i < 5; i++)
        assert_true(rate_bucket_take(&bucket, &rule, now, &wait));
    assert_false(rate_bucket_take(&bucket, &rule, now, &wait));
}

struct rate_case {
    const char *name;
    struct rate_rule rule;
    uint64_t asked_per_second;
    uint64_t min, max; /* granted in ten minutes */
};

static const struct rate_case rates[] = {
    {"one a minute", {1, 1}, 100, 10, 11},
    {"one a second", {60, 1}, 100, 599, 601},
    {"an odd rate", {7, 3}, 100, 72, 73},
    {"a burst is extra", {60, 100}, 1000, 699, 701},
    {"asking seldom is never refused", {120, 1}, 1, 600, 600},
    {"no rule is no limit", {0, 1}, 100, 60000, 60000},
    {"a burst by default", {600, 0}, 100, 6100, 6102},
};

static void test_rate(void **state)
{
    const struct rate_case *c = *state;
    struct rate_bucket bucket = {0};
    uint64_t granted = 0;
    int64_t wait = 0, step = SECOND / (int64_t)c->asked_per_second;
    for (int64_t t = 0; t < 600 * SECOND; t += step)
        granted += rate_bucket_take(&bucket, &c->rule, 5 + t, &wait);
    assert_in_range(granted, c->min, c->max);
}

/* Who waits as long as he was told is let in, and not a nanosecond earlier. */
static void test_wait_is_exact(void **state)
{
    (void)state;
    static const uint64_t per_minute[] = {1, 7, 60, 599, 123457, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(per_minute); i++) {
        struct rate_bucket bucket = {0};
        const struct rate_rule rule = {.per_minute = per_minute[i], .burst = 3};
        int64_t now = 77, wait = 0, none;
        for (int n = 0; n < 100; n++) {
            while (rate_bucket_take(&bucket, &rule, now, &wait))
                ;
            assert_true(wait > 0);
            assert_false(rate_bucket_take(&bucket, &rule, now + wait - 1, &none));
            now += wait;
            assert_true(rate_bucket_take(&bucket, &rule, now, &none));
        }
    }
}

static void test_retry_after(void **state)
{
    (void)state;
    static const struct {
        int64_t wait;
        unsigned seconds;
    } rows[] = {{1, 1}, {SECOND, 1}, {SECOND + 1, 2}, {0, 1}, {60 * SECOND, 60}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(rate_limit_retry_after(rows[i].wait), rows[i].seconds);
}

static void test_look(void **state)
{
    (void)state;
    struct rate_bucket bucket = {0};
    const struct rate_rule rule = {.per_minute = 60, .burst = 5}, none = {0}, usual = {60, 0};
    int64_t now = 1000 * SECOND, wait;
    struct rate_state s = rate_bucket_look(&bucket, &rule, now);
    assert_true(s.limit == 5 && s.left == 5 && s.full_in_ns == 0);
    for (uint64_t left = 5; left-- > 0;) {
        assert_true(rate_bucket_take(&bucket, &rule, now, &wait));
        s = rate_bucket_look(&bucket, &rule, now);
        assert_int_equal(s.left, left);
        assert_int_equal(s.full_in_ns, (int64_t)(5 - left) * SECOND);
    }
    assert_int_equal(rate_bucket_look(&bucket, &rule, now + SECOND - 1).left, 0);
    assert_int_equal(rate_bucket_look(&bucket, &rule, now + SECOND).left, 1);
    assert_int_equal(rate_bucket_look(&bucket, &none, now).limit, 0);
    assert_int_equal(rate_bucket_look(&bucket, &usual, now).limit, 11);
}

static void test_may(void **state)
{
    (void)state;
    struct error err;
    struct rate_limit *limit;
    const struct rate_rule one = {.per_minute = 1, .burst = 1};
    int64_t wait = 0;
    assert_int_equal(rate_limit_new(&limit, 100, &err), 0);
    assert_true(rate_limit_may(limit, "a", &one, 9, &wait));
    assert_true(rate_limit_take(limit, "a", &one, 9, &wait));
    assert_false(rate_limit_may(limit, "a", &one, 9, &wait));
    assert_int_equal(wait, 60 * SECOND);
    assert_true(rate_limit_may(limit, "b", &one, 9, &wait));
    rate_limit_free(limit);
}

static void test_names(void **state)
{
    (void)state;
    struct error err;
    struct rate_limit *limit;
    const struct rate_rule one = {.per_minute = 1, .burst = 1};
    int64_t wait;
    assert_int_equal(rate_limit_new(&limit, 100, &err), 0);
    assert_true(rate_limit_take(limit, "key_a", &one, 9, &wait));
    assert_false(rate_limit_take(limit, "key_a", &one, 9, &wait));
    assert_true(rate_limit_take(limit, "key_b", &one, 9, &wait)); /* has its own */
    assert_false(rate_limit_take(limit, "key_b", &one, 9, &wait));
    assert_true(rate_limit_take(limit, "", &one, 9, &wait));
    char name[200];
    snprintf(name, sizeof(name), "%0150d", 1);
    assert_true(rate_limit_take(limit, name, &one, 9, &wait));
    assert_false(rate_limit_take(limit, name, &one, 9, &wait));
    rate_limit_free(limit);
}

/* A stranger with a thousand names does not wash out the one who is held back longest. */
static void test_flood(void **state)
{
    (void)state;
    struct error err;
    struct rate_limit *limit;
    const struct rate_rule strict = {.per_minute = 1, .burst = 10}, lax = {.per_minute = 6000};
    int64_t wait;
    assert_int_equal(rate_limit_new(&limit, 8, &err), 0); /* one set: the worst */
    while (rate_limit_take(limit, "greedy", &strict, 9, &wait))
        ;
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "10.0.%d.%d", i / 250, i % 250);
        assert_true(rate_limit_take(limit, name, &lax, 10, &wait));
    }
    assert_false(rate_limit_take(limit, "greedy", &strict, 11, &wait));
    rate_limit_free(limit);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a burst passes, and then one at a time", test_burst);
    check_rows(&check, rates, test_rate);
    check_one(&check, "the wait that is told is exact", test_wait_is_exact);
    check_one(&check, "Retry-After is whole seconds, and not too few", test_retry_after);
    check_one(&check, "each name has its own bucket", test_names);
    check_one(&check, "many names do not free the one that is limited", test_flood);
    check_one(&check, "what is left, and when it is full, can be seen", test_look);
    check_one(&check, "asking whether takes nothing", test_may);
    return check_run(&check, "rate_limit");
}
