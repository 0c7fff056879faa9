/* test_term_text.c - widths, and text of strangers that cannot steer a terminal */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term_text.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"

struct text_case {
    const char *name;
    const char *in;
    const char *out;
    bool may_have_lines;
};

static const struct text_case texts[] = {
    {"plain text stays", "hello, wörld 漢字", "hello, wörld 漢字", false},
    {"lines and tabs are kept where they may be", "a\n\tb", "a\n\tb", true},
    {"lines are spelled out where they may not be", "a\nb", "a\\nb", false},
    {"an escape sequence is spelled out", "\033]0;title\a", "\\x1b]0;title\\x07", true},
    {"a carriage return is spelled out", "real\rfake", "real\\x0dfake", true},
    {"backspace and delete are spelled out", "\b\x7f", "\\x08\\x7f", true},
    {"the 8-bit form of an escape is spelled out", "\xc2\x9b[2J", "\\x9b[2J", true},
    {"a broken byte is replaced", "a\x9bz", "a\xef\xbf\xbdz", true},
    {"text is not turned around", "\xe2\x80\xae", "\\u202e", true},
};

static void test_text(void **state)
{
    const struct text_case *row = *state;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1000);
    term_text_add(&got, row->in, strlen(row->in), row->may_have_lines);
    assert_string_equal(strbuf_str(&got), row->out);
}

struct cut_case {
    const char *name;
    const char *in;
    unsigned columns;
    const char *out;
    unsigned used;
};

static const struct cut_case cuts[] = {
    {"what fits stays", "abc", 3, "abc", 3},
    {"what does not fit ends in an ellipsis", "abcd", 3, "ab…", 3},
    {"a wide character is not halved", "漢字漢", 4, "漢…", 3},
    {"an escape counts as what is shown", "\033abc", 5, "\\x1b…", 5},
    {"no room is no text", "abc", 0, "", 0},
    {"one column is the ellipsis", "abc", 1, "…", 1},
};

static void test_cut(void **state)
{
    const struct cut_case *row = *state;
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1000);
    assert_int_equal(term_text_add_cut(&got, row->in, strlen(row->in), row->columns), row->used);
    assert_string_equal(strbuf_str(&got), row->out);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, texts, test_text);
    check_rows(&check, cuts, test_cut);
    return check_run(&check, "term_text");
}
