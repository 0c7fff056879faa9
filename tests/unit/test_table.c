/* test_table.c - columns that line up, lines that fit */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/table.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

static const char *const heads[] = {"NAME", " SIZE", "NOTE", NULL};

struct row {
    const char *name;
    const char *cells[6];
    struct table_view view;
    const char *want;
};

static const struct row rows[] = {
    {"the widest cell makes the column",
     {"a", "1", "x", "longer", "12345", "y"},
     {.count = 2},
     "NAME     SIZE  NOTE\na           1  x\nlonger  12345  y\n"},
    {"a narrow column is as wide as its head",
     {"a", "1", "x", "b", "2", "y"},
     {.count = 2},
     "NAME  SIZE  NOTE\na        1  x\nb        2  y\n"},
    {"wide letters take two columns",
     {"\xe6\xbc\xa2\xe5\xad\x97", "1", "x", "abcd", "2", "y"},
     {.count = 2},
     "NAME  SIZE  NOTE\n\xe6\xbc\xa2\xe5\xad\x97     1  x\nabcd     2  y\n"},
    {"what steers a terminal is spelled out",
     {"\x1b[1m", "1", "a\nb", "b", "2", "y"},
     {.count = 2},
     "NAME     SIZE  NOTE\n\\x1b[1m     1  a\\nb\nb           2  y\n"},
    {"lines are cut to the width",
     {"name", "1", "a long note", "b", "2", "y"},
     {.count = 2, .width = 16},
     "NAME  SIZE  NOTE\nname     1  a l\xe2\x80\xa6\nb        2  y\n"},
    {"columns that do not fit are left out",
     {"name", "1", "x", "b", "2", "y"},
     {.count = 2, .width = 8},
     "NAME  S\xe2\x80\xa6\nname  \nb     \n"},
    {"some of the rows",
     {"a", "1", "x", "b", "2", "y"},
     {.first = 1, .count = 5},
     "NAME  SIZE  NOTE\nb        2  y\n"},
    {"none of them",
     {"a", "1", "x", "b", "2", "y"},
     {.first = 2, .count = 5},
     "NAME  SIZE  NOTE\n"},
};

static void test_row(void **state)
{
    const struct row *row = *state;
    struct table_view view = row->view;
    scoped_table struct table *table = table_new(heads);
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    view.line_end = "\n";
    for (size_t i = 0; i < ARRAY_LEN(row->cells); i++)
        table_add(table, row->cells[i], TERM_PLAIN);
    assert_int_equal(table_rows(table), 2);
    table_write(table, &view, &got);
    assert_string_equal(strbuf_str(&got), row->want);
}

static void test_styles(void **state)
{
    (void)state;
    static const char *const one[] = {"A", NULL};
    const struct table_view plain = {.count = 1, .line_end = "\n"};
    const struct table_view coloured = {.count = 1, .has_colour = true, .line_end = "\n"};
    scoped_table struct table *table = table_new(one);
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 4096);
    table_add(table, "x", TERM_BOLD);
    table_write(table, &plain, &got);
    assert_string_equal(strbuf_str(&got), "A\nx\n");
    strbuf_clear(&got);
    table_write(table, &coloured, &got);
    assert_string_equal(strbuf_str(&got), "A\n\033[1mx\033[0m\n");
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, rows, test_row);
    check_one(&check, "styles only where there is colour", test_styles);
    return check_run(&check, "table");
}
