/* test_tier.c - which layers make which tier */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tier.h"

#include "check.h"

#define ALL_LAYERS ((1u << LAYER_COUNT) - 1)

struct tier_case {
    const char *name;
    uint32_t missing;
    enum tier as_root, as_user;
};

static const struct tier_case cases[] = {
    {"with every layer it is the best that there is", 0, TIER_T1, TIER_T2},
    {"without landlock it is degraded", LAYER_BIT(LANDLOCK), TIER_T3, TIER_T3},
    {"without a memory cgroup root is degraded", LAYER_BIT(CG_MEMORY), TIER_T3, TIER_T2},
    {"without a pids cgroup root is degraded", LAYER_BIT(CG_PIDS), TIER_T3, TIER_T2},
    {"without a cpu cgroup root is degraded", LAYER_BIT(CG_CPU), TIER_T3, TIER_T2},
    {"root may do without a user namespace", LAYER_BIT(USER_NS), TIER_T1, TIER_NONE},
    {"a user may do without an own uid", LAYER_BIT(UID), TIER_NONE, TIER_T2},
    {"without seccomp there is no sandbox", LAYER_BIT(SECCOMP), TIER_NONE, TIER_NONE},
    {"without a pid namespace there is none", LAYER_BIT(PID_NS), TIER_NONE, TIER_NONE},
    {"without an own root there is none", LAYER_BIT(ROOT), TIER_NONE, TIER_NONE},
    {"with capabilities there is none", LAYER_BIT(CAPS), TIER_NONE, TIER_NONE},
    {"a missing need does not hide a missing must", LAYER_BIT(LANDLOCK) | LAYER_BIT(SECCOMP),
     TIER_NONE, TIER_NONE},
    {"with no layer there is none", ALL_LAYERS, TIER_NONE, TIER_NONE},
};

static void test_case(void **state)
{
    const struct tier_case *row = *state;
    assert_int_equal(tier_of(ALL_LAYERS & ~row->missing, false), row->as_root);
    assert_int_equal(tier_of(ALL_LAYERS & ~row->missing, true), row->as_user);
}

static void test_limits(void **state)
{
    (void)state;
    assert_null(tier_missing_limit(0, 0));
    assert_null(tier_missing_limit(ALL_LAYERS, 0));
    assert_null(tier_missing_limit(ALL_LAYERS & ~(LAYER_BIT(CG_MEMORY) | LAYER_BIT(CG_PIDS)), 0));
    assert_string_equal(tier_missing_limit(ALL_LAYERS & ~LAYER_BIT(CG_CPU), 0), "cpus");
    assert_null(tier_missing_limit(ALL_LAYERS & ~LAYER_BIT(CG_CPU), 1));
}

/* Each layer alone: what its need says is what its lack does. */
static void test_each(void **state)
{
    (void)state;
    for (int is_rootless = 0; is_rootless < 2; is_rootless++) {
        const enum tier best = is_rootless ? TIER_T2 : TIER_T1;
        const enum tier lacking[] = {
            [LAYER_EXTRA] = best, [LAYER_NEEDED] = TIER_T3, [LAYER_ALWAYS] = TIER_NONE};
        for (int layer = 0; layer < LAYER_COUNT; layer++) {
            enum layer_need need = tier_need((enum layer)layer, is_rootless);
            assert_int_equal(tier_of(ALL_LAYERS & ~(1u << layer), is_rootless), lacking[need]);
        }
    }
}

/* One layer less is never a better tier. */
static void test_monotonic(void **state)
{
    (void)state;
    static const int strength[] = {[TIER_NONE] = 0, [TIER_T3] = 1, [TIER_T2] = 2, [TIER_T1] = 2};
    for (uint32_t layers = 0; layers <= ALL_LAYERS; layers += 37) {
        for (int layer = 0; layer < LAYER_COUNT; layer++) {
            uint32_t less = layers & ~(1u << layer);
            assert_true(strength[tier_of(less, false)] <= strength[tier_of(layers, false)]);
            assert_true(strength[tier_of(less, true)] <= strength[tier_of(layers, true)]);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_null(tier_name(TIER_NONE));
    assert_string_equal(tier_name(TIER_T1), "T1");
    assert_string_equal(tier_name(TIER_T2), "T2");
    assert_string_equal(tier_name(TIER_T3), "T3");
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        assert_non_null(layer_info((enum layer)layer)->name);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_case);
    check_one(&check, "limits that nothing holds have names", test_limits);
    check_one(&check, "each layer that is missing does what its need says", test_each);
    check_one(&check, "one layer less is never better", test_monotonic);
    check_one(&check, "tiers and layers have names", test_names);
    return check_run(&check, "tier");
}
