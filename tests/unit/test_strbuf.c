/* test_strbuf.c - growing strings with a ceiling */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static void test_grow(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 100000);
    assert_string_equal(strbuf_str(&b), "");
    for (int i = 0; i < 5000; i++)
        strbuf_add_fmt(&b, "%04d,", i);
    assert_int_equal(b.len, 25000);
    assert_false(b.overflow);
    assert_memory_equal(b.data + 24990, "4998,4999,", 11);
    strbuf_release(&b);
    assert_null(b.data);
}

static void test_ceiling(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 5);
    strbuf_add_str(&b, "abc");
    strbuf_add_str(&b, "defg");
    assert_string_equal(strbuf_str(&b), "abcde");
    assert_true(b.overflow);
    strbuf_add_char(&b, 'x');
    assert_string_equal(strbuf_str(&b), "abcde");
    strbuf_clear(&b);
    assert_false(b.overflow);
    assert_string_equal(strbuf_str(&b), "");
    strbuf_add(&b, "12345", 5);
    assert_false(b.overflow);
    strbuf_release(&b);
}

static void test_take(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 10);
    char *empty = strbuf_take(&b);
    assert_string_equal(empty, "");
    free(empty);
    strbuf_add_str(&b, "hello");
    char *text = strbuf_take(&b);
    assert_string_equal(text, "hello");
    free(text);
    strbuf_add_str(&b, "again");
    assert_string_equal(strbuf_str(&b), "again");
    strbuf_release(&b);
}

static void test_long_format(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 10000);
    strbuf_add_fmt(&b, "%*s|", 3000, "x");
    assert_int_equal(b.len, 3001);
    assert_int_equal(b.data[2999], 'x');
    strbuf_release(&b);
}

static void test_bytes(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 10);
    strbuf_add(&b, "a\0b", 3);
    strbuf_add(&b, NULL, 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    strbuf_release(&b);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "grows as needed", test_grow);
    check_one(&check, "never holds more than its maximum, and remembers that it was cut",
              test_ceiling);
    check_one(&check, "gives its text away and starts anew", test_take);
    check_one(&check, "formats text longer than its own buffer", test_long_format);
    check_one(&check, "holds any bytes and ends with a NUL", test_bytes);
    return check_run(&check, "strbuf");
}
