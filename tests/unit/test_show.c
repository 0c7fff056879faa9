/* test_show.c - content of sandboxes among our own words */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/mcp/show.h"

#include <string.h>

#include "base/macros.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "check.h"

struct row {
    const char *name;
    bool is_name;
    const char *text, *want;
};

/* clang-format off */
static const struct row rows[] = {
    {"a name as it is", true, "out/plot 1.png", "out/plot 1.png"},
    {"a name with letters of all kinds", true, "gr\xc3\xb6\xc3\x9f""e \xe6\x97\xa5.csv", "gr\xc3\xb6\xc3\x9f""e \xe6\x97\xa5.csv"},
    {"a name with a line end", true, "a\nb", "\"a\\nb\""},
    {"a name with a quote and a backslash", true, "a\"b\\c", "\"a\\\"b\\\\c\""},
    {"a name with an escape", true, "a\x1b[2J", "\"a\\u001b[2J\""},
    {"a name that turns around", true, "a\xe2\x80\xaegnp.exe", "\"a\\u202egnp.exe\""},
    {"a name with a tag character", true, "a\xf3\xa0\x81\x81", "\"a\\udb40\\udc41\""},
    {"a name with a C1 control", true, "a\xc2\x9b", "\"a\\u009b\""},
    {"a name that is no UTF-8", true, "a\xff", "\"a\\ufffd\""},
    {"a name that begins with a blank", true, " a", "\" a\""},
    {"no name", true, "", "\"\""},
    {"output as it is", false, "a\tb\r\nc\n", "a\tb\r\nc\n"},
    {"colours", false, "\x1b[31mred\x1b[0m\n", "\xe2\x90\x9b[31mred\xe2\x90\x9b[0m\n"},
    {"a progress bar", false, "10%\r20%\n", "10%\xe2\x90\x8d" "20%\n"},
    {"DEL and C1", false, "\x7f\xc2\x9b", "\xe2\x90\xa1\xef\xbf\xbd"},
    {"a line like ours", false, "[stderr]\nx\n[stdout, of which", "\\[stderr]\nx\n\\[stdout, of which"},
    {"a line like ours that is not at its beginning", false, "x [stderr]\n [value]\n", "x [stderr]\n [value]\n"},
    {"other brackets", false, "[1, 2]\n[std]\n", "[1, 2]\n[std]\n"},
};
/* clang-format on */

static void test_row(void **state)
{
    const struct row *row = *state;
    scoped_strbuf struct strbuf out;
    strbuf_init(&out, 4096);
    if (row->is_name)
        show_name(&out, row->text);
    else
        show_output(&out, row->text, strlen(row->text));
    assert_string_equal(strbuf_str(&out), row->want);
    if (!row->is_name)
        assert_int_equal(show_has_lookalike(row->text, strlen(row->text)),
                         strchr(row->want, '\\') != NULL);
}

static void test_long_name(void **state)
{
    (void)state;
    scoped_strbuf struct strbuf name, out;
    strbuf_init(&name, 8 * KIB);
    strbuf_init(&out, 8 * KIB);
    for (size_t i = 0; i < 2001; i++)
        strbuf_add_str(&name, i ? "\xc3\xa4" : "x"); /* the cut falls into a letter */
    show_name(&out, strbuf_str(&name));
    assert_true(out.len < SHOW_NAME_BYTES + 64 && utf8_is_valid(out.data, out.len));
    assert_non_null(strstr(strbuf_str(&out), "... (a name of 4001 bytes)"));
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "a long name is cut between letters, and that is said", test_long_name);
    return check_run(&check, "show");
}
