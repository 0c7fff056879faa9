/* test_line_edit.c - keys on a text; a bar is the cursor */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_edit.h"

#include <string.h>

#include "base/scoped.h"
#include "check.h"

struct edit_case {
    const char *name;
    const char *before;
    const char *keys;
    const char *after;
};

static const struct edit_case cases[] = {
    {"text goes in at the cursor", "a|c", "b", "ab|c"},
    {"Left and Right go by characters", "héé漢|", "\033[D\033[D\033[D\033[C", "hé|é漢"},
    {"an accent of its own belongs to its letter", "e\xcc\x81x|", "\b\b", "|"},
    {"joined signs are one", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb|", "\b", "|"},
    {"Left crosses lines", "a\n|b", "\033[D", "a|\nb"},
    {"Ctrl-A and Ctrl-E stay in their line", "one\ntw|o\nthree", "\x01", "one\n|two\nthree"},
    {"Ctrl-E goes to the end of its line", "one\n|two\nthree", "\x05", "one\ntwo|\nthree"},
    {"Alt-< and Alt-> go to the ends", "a\n|b\nc", "\033>", "a\nb\nc|"},
    {"Alt-b goes back over a word", "foo bar.baz|", "\033b\033b", "foo |bar.baz"},
    {"Alt-f goes on over a word", "|foo bar", "\033f", "foo| bar"},
    {"Ctrl-W takes all up to a blank", "x = foo.bar|", "\x17", "x = |"},
    {"Alt-Backspace takes a word", "x = foo.bar|", "\033\x7f", "x = foo.|"},
    {"Ctrl-K takes the rest of the line", "a|bc\nd", "\x0b", "a|\nd"},
    {"Ctrl-K at the end takes the newline", "a|\nd", "\x0b", "a|d"},
    {"Ctrl-U takes what is before", "one\ntw|o", "\x15", "one\n|o"},
    {"Ctrl-Y brings it back", "|abc", "\x0bx\x19", "xabc|"},
    {"kills in a row come back together", "a b c|", "\x17\x17\x19", "a b c|"},
    {"Ctrl-T swaps", "ab|", "\x14", "ba|"},
    {"Delete takes the next", "a|bc", "\033[3~", "a|c"},
    {"Backspace takes a step of an indent", "    \n        |x", "\x7f", "    \n    |x"},
    {"and less when it is no whole step", "      |x", "\x7f", "    |x"},
    {"and one blank behind text", "x    |", "\x7f", "x   |"},
    {"a tab is one character", "\t|", "\x7f", "|"},
    {"Ctrl-_ takes back what was typed", "x|", "abc\x1f", "x|"},
    {"and a kill", "one two|", "\x17\x1f", "one two|"},
    {"pasted line ends become ours", "|", "\033[200~a\r\nb\rc\033[201~", "a\nb\nc|"},
    {"control characters are not pasted", "|",
     "\033[200~a\033[2J\x07"
     "b\x7f\033[201~",
     "a[2Jb|"},
    {"Ctrl-J opens a line", "a|b", "\n", "a\n|b"},
};

/* Splits at the bar. */
static void set(struct line_edit *e, const char *text)
{
    const char *bar = strchr(text, '|');
    line_edit_set(e, text, (size_t)(bar - text));
    size_t cursor = e->cursor;
    line_edit_insert(e, bar + 1, strlen(bar + 1));
    e->cursor = cursor;
    e->last = LINE_KEY_IGNORED;
}

static void check_text(const struct line_edit *e, const char *expected)
{
    scoped_strbuf struct strbuf got;
    strbuf_init(&got, 1000);
    strbuf_add(&got, strbuf_str(&e->text), e->cursor);
    strbuf_add_char(&got, '|');
    strbuf_add_str(&got, strbuf_str(&e->text) + e->cursor);
    assert_string_equal(strbuf_str(&got), expected);
}

static void press(struct line_edit *e, const char *keys)
{
    struct line_key key;
    for (size_t step; *keys; keys += step) {
        step = line_key_read(&key, keys, strlen(keys));
        assert_int_not_equal(step, 0);
        if (key.kind == LINE_KEY_UP)
            line_edit_up(e);
        else if (key.kind == LINE_KEY_DOWN)
            line_edit_down(e);
        else
            line_edit_key(e, &key);
    }
}

static void test_edit(void **state)
{
    const struct edit_case *row = *state;
    struct line_edit e;
    line_edit_init(&e, 4);
    set(&e, row->before);
    press(&e, row->keys);
    check_text(&e, row->after);
    line_edit_release(&e);
}

static void test_lines(void **state)
{
    (void)state;
    struct line_edit e;
    line_edit_init(&e, 4);
    set(&e, "漢字x\nab|c\n\nlong line");
    assert_true(line_edit_up(&e));
    check_text(&e, "漢|字x\nabc\n\nlong line");
    assert_false(line_edit_up(&e));
    press(&e, "\033[B\033[B");
    check_text(&e, "漢字x\nabc\n|\nlong line");
    assert_false(line_edit_is_in_last_line(&e));
    press(&e, "\033[B");
    assert_true(line_edit_is_in_last_line(&e));
    assert_false(line_edit_down(&e));
    line_edit_release(&e);
}

static void test_limits(void **state)
{
    (void)state;
    struct line_edit e;
    static char much[LINE_EDIT_MAX_BYTES];
    memset(much, 'x', sizeof(much));
    line_edit_init(&e, 4);
    line_edit_insert(&e, much, sizeof(much));
    press(&e, "y");
    assert_int_equal(e.text.len, sizeof(much));
    line_edit_clear(&e);
    for (int i = 0; i < 3 * LINE_EDIT_UNDO_MAX; i++)
        press(&e, "a\033[D");
    for (int i = 0; i < 3 * LINE_EDIT_UNDO_MAX; i++)
        press(&e, "\x1f");
    assert_int_equal(e.text.len, 2 * LINE_EDIT_UNDO_MAX);
    line_edit_release(&e);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_edit);
    check_one(&check, "Up and Down keep the column on the screen", test_lines);
    check_one(&check, "text and undo have their limits", test_limits);
    return check_run(&check, "line_edit");
}
