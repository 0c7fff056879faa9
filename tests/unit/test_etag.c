/* test_etag.c - lists of entity tags */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/etag.h"

#include "check.h"

struct row {
    const char *name, *list, *etag;
    bool is_listed;
};

static const struct row rows[] = {
    {"the tag alone", "\"a\"", "\"a\"", true},
    {"another", "\"b\"", "\"a\"", false},
    {"the second", "\"b\", \"a\"", "\"a\"", true},
    {"without a blank", "\"b\",\"a\"", "\"a\"", true},
    {"a weak one", "W/\"a\"", "\"a\"", true},
    {"against a weak one", "\"a\"", "W/\"a\"", true},
    {"a star", "*", "\"a\"", true},
    {"a star with blanks", " * ", "\"a\"", true},
    {"a star and more", "*, \"b\"", "\"a\"", false},
    {"empty elements", ", ,\"a\"", "\"a\"", true},
    {"nothing", "", "\"a\"", false},
    {"a tag without quotes", "a", "\"a\"", false},
    {"a quote that does not end", "\"a", "\"a\"", false},
    {"a comma inside a tag", "\"b,c\", \"a\"", "\"a\"", true},
    {"the beginning of a tag", "\"ab\"", "\"a\"", false},
    {"nothing is read behind what is wrong", "b, \"a\"", "\"a\"", false},
    {"the empty tag", "\"\"", "\"\"", true},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    assert_int_equal(etag_is_listed(row->list, row->etag), row->is_listed);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    return check_run(&check, "etag");
}
