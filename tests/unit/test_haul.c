/* test_haul.c - what an execution left: contents that came, and the list that they belong to */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/haul.h"

#include <string.h>

#include "base/memory.h"
#include "check.h"

static void add(struct artifact_list *list, const char *path, uint64_t size, bool has_content,
                bool is_left)
{
    struct artifact *a = artifact_list_add(list);
    *a = (struct artifact){
        .path = xstrdup(path), .size = size, .has_content = has_content, .is_left = is_left};
    memset(a->sha256, path[0], sizeof(a->sha256));
}

static void bring(struct haul *haul, struct artifact *a, const char *content)
{
    haul_begin(haul, a);
    haul_add(haul, content, strlen(content));
    haul_end(haul, a);
}

static void test_complete(void **state)
{
    (void)state;
    struct haul haul = {0};
    struct artifact_list list = {0};
    add(&list, "a", 5, true, false);
    add(&list, "b", 9000, false, true);
    add(&list, "c", 3, true, false);
    add(&list, "d", 3, false, false); /* could not be read */
    bring(&haul, &list.items[0], "hello");
    bring(&haul, &list.items[2], "you");
    haul_complete(&haul, &list, 100000);
    assert_int_equal(haul.count, 4);
    assert_int_equal(haul.bytes, 8);
    static const bool wanted[] = {true, true, true, false}, whole[] = {true, false, true, false};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(haul.items[i].path, list.items[i].path);
        assert_int_equal(haul.items[i].is_wanted, wanted[i]);
        assert_int_equal(haul.items[i].is_whole, whole[i]);
        assert_int_equal(haul.items[i].has_hash, list.items[i].has_content);
    }
    assert_string_equal(strbuf_str(&haul.items[2].content), "you");
    assert_true(haul_has_left(&haul));
    haul_release(&haul);
    artifact_list_release(&list);
}

static void test_limit(void **state)
{
    (void)state;
    struct haul haul = {0};
    struct artifact_list list = {0};
    add(&list, "a", 5, true, false);
    add(&list, "b", 9000, false, true);
    add(&list, "c", 3, true, false);
    bring(&haul, &list.items[0], "hello");
    bring(&haul, &list.items[2], "you");
    haul_complete(&haul, &list, 8);
    assert_true(haul.items[0].is_wanted && !haul.items[1].is_wanted && haul.items[2].is_wanted);
    assert_false(haul_has_left(&haul));
    haul_release(&haul);
    artifact_list_release(&list);
}

/* A stream that broke off leaves one that began. */
static void test_broken(void **state)
{
    (void)state;
    struct haul haul = {0};
    struct artifact_list list = {0};
    add(&list, "a", 5, true, false);
    add(&list, "b", 5, false, false);
    bring(&haul, &list.items[0], "hello");
    haul_begin(&haul, &list.items[1]);
    haul_add(&haul, "he", 2);
    haul_complete(&haul, &list, 100);
    assert_int_equal(haul.count, 2);
    assert_true(haul.items[0].is_whole && !haul.items[1].is_whole && !haul.items[1].is_wanted);
    haul_release(&haul);
    artifact_list_release(&list);
}

static void bring_bytes(struct haul *haul, struct artifact *a, size_t len)
{
    static char block[64 * KIB];
    haul_begin(haul, a);
    for (size_t done = 0; done < len; done += MIN(sizeof(block), len - done))
        haul_add(haul, block, MIN(sizeof(block), len - done));
    haul_end(haul, a);
}

/* What is held in memory is bounded, whatever comes. */
static void test_bounds(void **state)
{
    (void)state;
    struct haul haul = {0};
    struct artifact_list list = {0};
    static const size_t sizes[] = {
        HAUL_FILE_MAX_BYTES, HAUL_FILE_MAX_BYTES + 1, 3 * MIB, 2 * MIB, 1 * MIB, 1};
    static const bool whole[] = {true, false, true, false, true, false};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char name[2] = {(char)('a' + i), '\0'};
        add(&list, name, sizes[i], true, false);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        bring_bytes(&haul, &list.items[i], sizes[i]);
    haul_complete(&haul, &list, UINT64_MAX);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(haul.items[i].is_whole, whole[i]);
    assert_int_equal(haul.bytes, HAUL_MAX_BYTES);
    haul_release(&haul);
    artifact_list_release(&list);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "contents and the list come together", test_complete);
    check_one(&check, "what is too much is not wanted", test_limit);
    check_one(&check, "one that broke off is not whole", test_broken);
    check_one(&check, "memory is bounded", test_bounds);
    return check_run(&check, "haul");
}
