/* test_budget.c - memory that strangers fill */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "check.h"

#define MAX_BYTES (16 * MIB)

static void test_share(void **state)
{
    (void)state;
    struct budget budget = {.max = MAX_BYTES};
    assert_true(budget_take(&budget, 0, 4 * MIB)); /* what is not counted comes on top */
    assert_false(budget_take(&budget, 4 * MIB, BUDGET_FREE_BYTES + 1));
    assert_true(budget_take(&budget, 4 * MIB, BUDGET_FREE_BYTES));
    assert_int_equal(budget.used, 4 * MIB);
    assert_false(budget_take(&budget, 0, 4 * MIB)); /* another has a quarter of the rest */
    assert_true(budget_take(&budget, 0, 3 * MIB));
    budget_give(&budget, 4 * MIB + BUDGET_FREE_BYTES);
    budget_give(&budget, 3 * MIB);
    assert_int_equal(budget.used, 0);
}

static void test_many(void **state)
{
    (void)state;
    struct budget budget = {.max = MAX_BYTES};
    size_t held[200] = {0};
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        while (budget_take(&budget, held[i], 4 * KIB))
            held[i] += 4 * KIB;
        assert_true(held[i] >= BUDGET_FREE_BYTES);
        assert_in_range(budget.used, 0, MAX_BYTES);
    }
    assert_true(budget.used > MAX_BYTES - MIB);
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        budget_give(&budget, held[i]);
    assert_int_equal(budget.used, 0);
}

static void test_no_end(void **state)
{
    (void)state;
    assert_true(budget_take(NULL, SIZE_MAX / 2, MAX_BYTES));
    budget_give(NULL, SIZE_MAX);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "each has a quarter of what is free", test_share);
    check_one(&check, "all together never have more than there is", test_many);
    check_one(&check, "without a budget there is no end", test_no_end);
    return check_run(&check, "budget");
}
