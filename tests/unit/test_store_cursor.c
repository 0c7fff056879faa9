/* test_store_cursor.c - one text for each position, and nothing else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_cursor.h"

#include <string.h>

#include "check.h"

#define LONGEST "ses_4567890123456789012345678901234567890123456789012345678901X" /* 63 */

struct cursor_case {
    const char *name, *text;
    bool is_valid;
};

static const struct cursor_case cases[] = {
    {"a whole one", "c00000000000003e8-ses_1", true},
    {"the latest time", "c7fffffffffffffff-ses_1", true},
    {"the longest id", "c0000000000000001-" LONGEST, true},
    {"an id that is too long", "c0000000000000001-" LONGEST "X", false},
    {"a time before the epoch", "cffffffffffffffff-ses_1", false},
    {"no id", "c00000000000003e8-", false},
    {"no dash", "c00000000000003e8ses_1", false},
    {"a digit less", "c0000000000003e8-ses_1", false},
    {"a digit more", "c000000000000003e8-ses_1", false},
    {"upper case", "c00000000000003E8-ses_1", false},
    {"another mark", "d00000000000003e8-ses_1", false},
    {"a quote in the id", "c00000000000003e8-ses'1", false},
    {"a sign", "c-0000000000003e8-ses_1", false},
    {"nothing", "", false},
    {"the mark alone", "c", false},
};

static void test_parse(void **state)
{
    const struct cursor_case *c = *state;
    struct store_cursor cursor = {.created_ns = -5};
    assert_int_equal(store_cursor_parse(c->text, &cursor), c->is_valid);
    if (!c->is_valid) {
        assert_int_equal(cursor.created_ns, -5);
        return;
    }
    char text[STORE_CURSOR_TEXT_BYTES];
    assert_true(store_cursor_format(&cursor, text));
    assert_string_equal(text, c->text);
}

static void test_format(void **state)
{
    (void)state;
    char text[STORE_CURSOR_TEXT_BYTES];
    struct store_cursor cursor = {.created_ns = 1000, .id = "ses_1"};
    assert_true(store_cursor_format(&cursor, text));
    assert_string_equal(text, "c00000000000003e8-ses_1");
    cursor.created_ns = -1;
    assert_false(store_cursor_format(&cursor, text));
    cursor = (struct store_cursor){.created_ns = 1, .id = "a b"};
    assert_false(store_cursor_format(&cursor, text));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_parse);
    check_one(&check, "a position has one text, or none", test_format);
    return check_run(&check, "store_cursor");
}
