/* test_map.c - thousands of names in, each found, removed in any order */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"

#define MANY 5000

struct thing {
    int number;
    char name[16];
    struct map_node node;
};

static struct thing *make(struct map *map, size_t count)
{
    struct thing *things = xcalloc(count, sizeof(*things));
    for (size_t i = 0; i < count; i++) {
        things[i].number = (int)i;
        snprintf(things[i].name, sizeof(things[i].name), "%zu", i * 7919);
        map_add(map, &things[i].node, things[i].name);
    }
    return things;
}

static void test_many(void **state)
{
    (void)state;
    struct map map = {0};
    struct thing *things = make(&map, MANY);
    assert_int_equal(map.count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        struct map_node *node = map_find(&map, things[i].name);
        assert_ptr_equal(MAP_OF(node, struct thing, node), &things[i]);
    }
    assert_null(map_find(&map, "1"));
    for (size_t i = 0; i < MANY; i += 2)
        map_remove(&map, &things[i].node);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(map_find(&map, things[i].name) != NULL, i % 2);
    assert_int_equal(map.count, MANY / 2);
    map_release(&map);
    free(things);
}

static void test_each(void **state)
{
    (void)state;
    struct map map = {0};
    MAP_EACH(&map, none)
    fail();
    struct thing *things = make(&map, 100);
    size_t seen = 0;
    MAP_EACH(&map, node)
    {
        seen++;
        map_remove(&map, node);
    }
    assert_int_equal(seen, 100);
    assert_int_equal(map.count, 0);
    assert_null(map_find(&map, things[0].name));
    map_add(&map, &things[0].node, things[0].name); /* an emptied one is as good as a new one */
    assert_non_null(map_find(&map, things[0].name));
    map_release(&map);
    free(things);
}

/* Names of every length, and those that differ in one byte. */
static void test_names(void **state)
{
    (void)state;
    struct map map = {0};
    static struct map_node nodes[64];
    static char names[64][65];
    for (size_t i = 0; i < 64; i++) {
        memset(names[i], 'x', i);
        map_add(&map, &nodes[i], names[i]);
    }
    for (size_t i = 0; i < 64; i++)
        assert_ptr_equal(map_find(&map, names[i]), &nodes[i]);
    char other[65] = "xxxxxxxxxxxxxxxxxxxxxxy";
    assert_null(map_find(&map, other));
    map_release(&map);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "many", test_many);
    check_one(&check, "each, while they are removed", test_each);
    check_one(&check, "names of every length", test_names);
    return check_run(&check, "map");
}
