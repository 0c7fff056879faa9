/* test_result.c - what a kernel shows, with whatever it may claim about it */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"

#define BODY(text) (text), sizeof(text) - 1

static void test_forms(void **state)
{
    (void)state;
    struct result_list list = {0};
    assert_true(result_list_add(&list, true, false, BODY("text/plain\0one")));
    assert_true(result_list_add(&list, false, true, BODY("image/png\0\x89PNG\0\n")));
    assert_true(result_list_add(&list, true, true, BODY("text/plain\0two")));
    assert_int_equal(list.count, 2);
    assert_false(list.is_cut);
    const struct result *first = &list.items[0], *second = &list.items[1];
    assert_int_equal(first->count, 2);
    assert_false(first->is_main); /* by its first form */
    assert_true(second->is_main);
    assert_string_equal(result_get(first, "text/plain")->data, "one");
    const struct result_form *png = result_get(first, "image/png");
    assert_int_equal(png->len, 6);
    assert_memory_equal(png->data, "\x89PNG\0\n", 7); /* with the NUL behind it */
    assert_null(result_get(second, "image/png"));
    assert_null(result_get(second, "text/plai"));
    result_list_release(&list);
    assert_int_equal(list.count, 0);
    result_list_release(&list);
}

static void test_no_first(void **state)
{
    (void)state;
    struct result_list list = {0};
    assert_true(result_list_add(&list, false, true, BODY("a/b\0")));
    assert_int_equal(list.count, 1);
    assert_true(list.items[0].is_main);
    assert_int_equal(list.items[0].forms[0].len, 0);
    assert_string_equal(list.items[0].forms[0].data, "");
    result_list_release(&list);
}

struct mime_case {
    const char *name;
    const char *body;
    size_t len;
    bool is_good;
};

static const struct mime_case mime_cases[] = {
    {"a MIME type and bytes", BODY("text/plain\0x"), true},
    {"no bytes", BODY("text/plain\0"), true},
    {"a parameter", BODY("text/plain;charset=utf-8\0x"), true},
    {"bytes with a NUL", BODY("a/b\0\0\0"), true},
    {"nothing", "", 0, false},
    {"no NUL", BODY("text/plain"), false},
    {"an empty MIME type", BODY("\0x"), false},
    {"no slash", BODY("text\0x"), false},
    {"nothing before the slash", BODY("/plain\0x"), false},
    {"a slash behind the NUL only", BODY("text\0/x"), false},
    {"a space", BODY("text/pl ain\0x"), false},
    {"a newline", BODY("text/plain\n\0x"), false},
    {"a quote", BODY("text/\"plain\0x"), false},
    {"DEL", BODY("text/\x7f\0x"), false},
    {"a byte above ASCII", BODY("text/\xc3\xa4\0x"), false},
};

static void test_mime(void **state)
{
    const struct mime_case *row = *state;
    struct result_list list = {0};
    char *exact = xmalloc(row->len + (row->len == 0)); /* so that a sanitizer sees its end */
    memcpy(exact, row->body, row->len);
    assert_int_equal(result_list_add(&list, true, false, exact, row->len), row->is_good);
    assert_int_equal(list.count, row->is_good);
    assert_int_equal(list.is_cut, !row->is_good);
    free(exact);
    result_list_release(&list);
}

static void test_long_mime(void **state)
{
    (void)state;
    char body[140];
    for (size_t len = 126; len <= 129; len++) {
        struct result_list list = {0};
        memset(body, 'a', sizeof(body));
        body[1] = '/';
        body[len] = '\0';
        assert_int_equal(result_list_add(&list, true, false, body, len + 1), len <= 127);
        result_list_release(&list);
    }
}

static void test_many_results(void **state)
{
    (void)state;
    struct result_list list = {0};
    for (int i = 0; i < RESULTS_MAX; i++)
        assert_true(result_list_add(&list, true, false, BODY("a/b\0x")));
    assert_false(list.is_cut);
    assert_false(result_list_add(&list, true, false, BODY("a/b\0too much")));
    assert_true(list.is_cut);
    assert_false(result_list_add(&list, false, false, BODY("c/d\0of the one that was cut")));
    assert_int_equal(list.count, RESULTS_MAX);
    assert_int_equal(list.items[RESULTS_MAX - 1].count, 1); /* it did not go to the last one */
    result_list_release(&list);
}

static void test_many_forms(void **state)
{
    (void)state;
    struct result_list list = {0};
    for (int i = 0; i < RESULT_FORMS_MAX; i++)
        assert_true(result_list_add(&list, i == 0, false, BODY("a/b\0x")));
    assert_false(list.is_cut);
    assert_false(result_list_add(&list, false, false, BODY("a/b\0x")));
    assert_true(list.is_cut);
    assert_int_equal(list.items[0].count, RESULT_FORMS_MAX);
    assert_true(result_list_add(&list, true, true, BODY("a/b\0next")));
    assert_int_equal(list.count, 2); /* one that was cut does not take the others with it */
    assert_string_equal(result_get(&list.items[1], "a/b")->data, "next");
    result_list_release(&list);
}

static void test_exception(void **state)
{
    (void)state;
    struct exception e = {xstrdup("E"), xstrdup("value"), xstrdup("trace")};
    exception_release(&e);
    assert_null(e.name);
    exception_release(&e);
}

static void test_no_room(void **state)
{
    (void)state;
    static const char body[MIB] = "a/b";
    struct budget budget = {.max = 8 * MIB};
    struct result_list list = {.budget = &budget}, other = {.budget = &budget};
    assert_true(result_list_add(&list, true, false, body, sizeof(body)));
    assert_true(result_list_add(&list, true, false, body, sizeof(body)));
    assert_false(result_list_add(&list, true, false, body, sizeof(body)));
    assert_false(result_list_add(&list, false, false, BODY("a/b\0of the one that found none")));
    assert_true(list.is_cut);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[1].count, 1);
    assert_false(result_list_add(&list, true, false, body, sizeof(body)));
    assert_true(result_list_add(&list, true, false, BODY("a/b\0small")));
    assert_int_equal(list.count, 3);

    assert_true(result_list_add(&other, true, false, body, sizeof(body)));
    result_list_release(&list);
    assert_ptr_equal(list.budget, &budget);
    result_list_release(&other);
    assert_int_equal(budget.used, 0);
}

static void test_skip(void **state)
{
    (void)state;
    struct result_list list = {0};
    result_list_skip(&list, true);
    assert_false(result_list_add(&list, false, false, BODY("a/b\0of the one that was lost")));
    assert_true(result_list_add(&list, true, false, BODY("a/b\0next")));
    result_list_skip(&list, false); /* a form of it */
    assert_true(result_list_add(&list, false, false, BODY("a/c\0another")));
    assert_int_equal(list.count, 1);
    assert_true(list.is_cut);
    result_list_release(&list);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "forms gather in results", test_forms);
    check_one(&check, "a form without a first one begins a result", test_no_first);
    check_rows(&check, mime_cases, test_mime);
    check_one(&check, "a MIME type has a largest length", test_long_mime);
    check_one(&check, "more results than allowed are cut", test_many_results);
    check_one(&check, "more forms than allowed are cut, of that result only", test_many_forms);
    check_one(&check, "what finds no room is left out, with what belongs to it", test_no_room);
    check_one(&check, "so is one that was lost before", test_skip);
    check_one(&check, "an exception is released once", test_exception);
    return check_run(&check, "result");
}
