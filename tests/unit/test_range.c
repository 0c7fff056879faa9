/* test_range.c - what is asked for is always within the file */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/range.h"

#include "check.h"

struct row {
    const char *name, *header;
    uint64_t size;
    enum range_kind kind;
    const char *text; /* of Content-Range; NULL: not asked */
};

#define HUGE_NUMBER "99999999999999999999999999999999999999"

static const struct row rows[] = {
    {"no header", NULL, 10, RANGE_WHOLE, NULL},
    {"from the start", "bytes=0-3", 10, RANGE_PART, "bytes 0-3/10"},
    {"one byte", "bytes=0-0", 10, RANGE_PART, "bytes 0-0/10"},
    {"the last byte", "bytes=9-9", 10, RANGE_PART, "bytes 9-9/10"},
    {"up to the end", "bytes=4-", 10, RANGE_PART, "bytes 4-9/10"},
    {"the last ones", "bytes=-4", 10, RANGE_PART, "bytes 6-9/10"},
    {"more last ones than there are", "bytes=-40", 10, RANGE_PART, "bytes 0-9/10"},
    {"beyond the end is cut", "bytes=4-400", 10, RANGE_PART, "bytes 4-9/10"},
    {"the unit in capitals", "Bytes=4-5", 10, RANGE_PART, "bytes 4-5/10"},
    {"blanks around", "bytes= 4-5 ", 10, RANGE_PART, "bytes 4-5/10"},
    {"behind the end", "bytes=10-", 10, RANGE_UNSATISFIABLE, "bytes */10"},
    {"behind the end, to a byte", "bytes=10-20", 10, RANGE_UNSATISFIABLE, "bytes */10"},
    {"no last ones", "bytes=-0", 10, RANGE_UNSATISFIABLE, "bytes */10"},
    {"of nothing", "bytes=0-", 0, RANGE_UNSATISFIABLE, "bytes */0"},
    {"the last of nothing", "bytes=-5", 0, RANGE_WHOLE, NULL},
    {"a huge first byte", "bytes=" HUGE_NUMBER "-", 10, RANGE_UNSATISFIABLE, "bytes */10"},
    {"a huge last byte", "bytes=1-" HUGE_NUMBER, 10, RANGE_PART, "bytes 1-9/10"},
    {"a huge number of last ones", "bytes=-" HUGE_NUMBER, 10, RANGE_PART, "bytes 0-9/10"},
    {"2^64 is not 0", "bytes=18446744073709551616-", 10, RANGE_UNSATISFIABLE, "bytes */10"},
    {"2^64-1 of the largest file", "bytes=18446744073709551614-18446744073709551615", UINT64_MAX,
     RANGE_PART, "bytes 18446744073709551614-18446744073709551614/18446744073709551615"},
    {"the last before the first", "bytes=5-4", 10, RANGE_WHOLE, NULL},
    {"several", "bytes=0-1,4-5", 10, RANGE_WHOLE, NULL},
    {"another unit", "lines=0-1", 10, RANGE_WHOLE, NULL},
    {"no unit", "0-1", 10, RANGE_WHOLE, NULL},
    {"no number", "bytes=-", 10, RANGE_WHOLE, NULL},
    {"no dash", "bytes=5", 10, RANGE_WHOLE, NULL},
    {"nothing", "bytes=", 10, RANGE_WHOLE, NULL},
    {"a sign", "bytes=+1-2", 10, RANGE_WHOLE, NULL},
    {"two dashes", "bytes=1--2", 10, RANGE_WHOLE, NULL},
    {"hexadecimal", "bytes=0x1-2", 10, RANGE_WHOLE, NULL},
    {"something behind it", "bytes=1-2x", 10, RANGE_WHOLE, NULL},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    struct range got = range_of(row->header, row->size);
    assert_int_equal(got.kind, row->kind);
    if (!row->text)
        return;
    char text[RANGE_TEXT_BYTES];
    range_format(got, row->size, text);
    assert_string_equal(text, row->text);
    assert_true(got.kind != RANGE_PART ||
                (got.length > 0 && got.first < row->size && got.length <= row->size - got.first));
}

struct condition {
    const char *name, *if_range, *etag, *modified;
    bool counts;
};

static const char date[] = "Sun, 06 Nov 1994 08:49:37 GMT";

static const struct condition conditions[] = {
    {"no condition", NULL, "\"a\"", date, true},
    {"the same tag", "\"a\"", "\"a\"", date, true},
    {"another tag", "\"b\"", "\"a\"", date, false},
    {"a weak tag is never the same", "W/\"a\"", "\"a\"", date, false},
    {"nor is one against a weak one", "\"a\"", "W/\"a\"", date, false},
    {"nor are two weak ones", "W/\"a\"", "W/\"a\"", date, false},
    {"the same date", date, "\"a\"", date, true},
    {"an earlier date", "Sun, 06 Nov 1994 08:49:36 GMT", "\"a\"", date, false},
    {"a later date", "Sun, 06 Nov 1994 08:49:38 GMT", "\"a\"", date, false},
    {"a date that is no strong validator", date, "\"a\"", NULL, false},
    {"no tag to compare with", "\"a\"", NULL, date, false},
    {"a list of tags is none", "\"a\", \"b\"", "\"a\"", date, false},
    {"nothing", "", "\"a\"", date, false},
};

static void test_condition(void **state)
{
    const struct condition *row = *state;
    assert_int_equal(range_counts(row->if_range, row->etag, row->modified), row->counts);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, conditions, test_condition);
    return check_run(&check, "range");
}
