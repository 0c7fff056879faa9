/* test_utf8.c - what is text and what becomes of the rest */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

#define R "\xef\xbf\xbd" /* U+FFFD */

struct clean_case {
    const char *name;
    const char *in;
    const char *out; /* the same when valid */
};

static const struct clean_case cases[] = {
    {"ASCII stays", "hello\n", "hello\n"},
    {"nothing stays nothing", "", ""},
    {"two, three and four bytes stay", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
     "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"the last code point stays", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    {"a lone continuation byte is replaced", "a\x80z", "a" R "z"},
    {"a byte that is never used is replaced", "\xff\xfe", R R},
    {"an overlong slash is replaced", "\xc0\xaf", R R},
    {"an overlong three-byte form is replaced", "\xe0\x80\xaf", R R R},
    {"a surrogate is replaced", "\xed\xa0\x80", R R R},
    {"a value above the last is replaced", "\xf4\x90\x80\x80", R R R R},
    {"a cut sequence is one replacement", "\xe2\x82", R},
    {"a cut sequence does not swallow what follows", "\xf0\x9f\x98x", R "x"},
    {"a sequence after a cut one stays", "\xe2\x82\xc3\xa9", R "\xc3\xa9"},
};

static void test_clean(void **state)
{
    const struct clean_case *row = *state;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1000);
    utf8_add_clean(&got, row->in, strlen(row->in));
    assert_string_equal(strbuf_str(&got), row->out);
    assert_int_equal(utf8_is_valid(row->in, strlen(row->in)), strcmp(row->in, row->out) == 0);
    assert_true(utf8_is_valid(strbuf_str(&got), got.len));
}

static void test_nul(void **state)
{
    (void)state;
    assert_true(utf8_is_valid("a\0b", 3));
    assert_int_equal(utf8_step("", 0), 0);
    assert_int_equal(utf8_step("\0", 1), 1);
    assert_int_equal(utf8_step("\xe2\x82\xac", 2), 0);
    assert_int_equal(utf8_step("\xe2\x82\xac", 3), 3);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_clean);
    check_one(&check, "NUL is a character, and steps never look past the end", test_nul);
    return check_run(&check, "utf8");
}
