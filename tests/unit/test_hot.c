/* test_hot.c - who may keep files open */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/hot.h"

#include "check.h"

struct sandbox {
    int any;
};

static void test_oldest_makes_room(void **state)
{
    (void)state;
    static struct sandbox all[3 * HOT_MAX];
    struct hot hot = {0};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_ptr_equal(hot_add(&hot, &all[i]), i < HOT_MAX ? NULL : &all[i - HOT_MAX]);
    assert_int_equal(hot.count, HOT_MAX);
}

static void test_who_leaves_makes_room(void **state)
{
    (void)state;
    static struct sandbox all[HOT_MAX + 2];
    struct hot hot = {0};
    for (size_t i = 0; i < HOT_MAX; i++)
        assert_null(hot_add(&hot, &all[i]));
    hot_remove(&hot, &all[0]);
    hot_remove(&hot, &all[HOT_MAX / 2]);
    hot_remove(&hot, &all[0]); /* twice is fine */
    assert_int_equal(hot.count, HOT_MAX - 2);
    assert_null(hot_add(&hot, &all[0]));
    assert_null(hot_add(&hot, &all[HOT_MAX]));
    assert_ptr_equal(hot_add(&hot, &all[HOT_MAX + 1]), &all[1]);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        hot_remove(&hot, &all[i]);
    assert_int_equal(hot.count, 0);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "the one that was made first makes room", test_oldest_makes_room);
    check_one(&check, "who leaves makes room", test_who_leaves_makes_room);
    return check_run(&check, "hot");
}
