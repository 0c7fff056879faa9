/* test_room.c - memory that strangers fill */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include "check.h"

#define MAX_BYTES (16 * MIB)

static void test_share(void **state)
{
    (void)state;
    struct room room = {.max = MAX_BYTES};
    assert_true(room_take(&room, 0, 4 * MIB)); /* what is not counted comes on top */
    assert_false(room_take(&room, 4 * MIB, ROOM_ALWAYS_BYTES + 1));
    assert_true(room_take(&room, 4 * MIB, ROOM_ALWAYS_BYTES));
    assert_int_equal(room.used, 4 * MIB);
    assert_false(room_take(&room, 0, 4 * MIB)); /* another has a quarter of the rest */
    assert_true(room_take(&room, 0, 3 * MIB));
    room_give(&room, 4 * MIB + ROOM_ALWAYS_BYTES);
    room_give(&room, 3 * MIB);
    assert_int_equal(room.used, 0);
}

static void test_many(void **state)
{
    (void)state;
    struct room room = {.max = MAX_BYTES};
    size_t held[200] = {0};
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        while (room_take(&room, held[i], 4 * KIB))
            held[i] += 4 * KIB;
        assert_true(held[i] >= ROOM_ALWAYS_BYTES);
        assert_in_range(room.used, 0, MAX_BYTES);
    }
    assert_true(room.used > MAX_BYTES - MIB);
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        room_give(&room, held[i]);
    assert_int_equal(room.used, 0);
}

static void test_no_end(void **state)
{
    (void)state;
    assert_true(room_take(NULL, SIZE_MAX / 2, MAX_BYTES));
    room_give(NULL, SIZE_MAX);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "each has a quarter of what is free", test_share);
    check_one(&check, "all together never have more than there is", test_many);
    check_one(&check, "without a room there is no end", test_no_end);
    return check_run(&check, "room");
}
