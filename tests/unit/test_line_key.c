/* test_line_key.c - bytes of a terminal become keys, and nothing else becomes text */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_key.h"

#include <string.h>

#include "check.h"

struct key_case {
    const char *name;
    const char *bytes;
    enum line_key_kind kind;
    size_t step; /* 0: not whole yet */
    const char *text;
};

static const struct key_case cases[] = {
    {"a letter is text", "ab", LINE_KEY_TEXT, 1, "a"},
    {"a character of three bytes is one text", "\xe2\x82\xac!", LINE_KEY_TEXT, 3, "\xe2\x82\xac"},
    {"half a character waits for the rest", "\xe2\x82", LINE_KEY_IGNORED, 0, NULL},
    {"a broken byte is dropped", "\x80x", LINE_KEY_IGNORED, 1, NULL},
    {"a broken character does not swallow a key", "\xe2x", LINE_KEY_IGNORED, 1, NULL},
    {"Enter", "\r", LINE_KEY_ENTER, 1, NULL},
    {"Ctrl-J opens a line", "\n", LINE_KEY_NEWLINE, 1, NULL},
    {"Alt-Enter opens a line", "\033\r", LINE_KEY_NEWLINE, 2, NULL},
    {"a lone Escape waits", "\033", LINE_KEY_IGNORED, 0, NULL},
    {"Up", "\033[A", LINE_KEY_UP, 3, NULL},
    {"Up of the other keypad mode", "\033OA", LINE_KEY_UP, 3, NULL},
    {"half a sequence waits", "\033[1;", LINE_KEY_IGNORED, 0, NULL},
    {"Ctrl-Right goes by words", "\033[1;5C", LINE_KEY_WORD_RIGHT, 6, NULL},
    {"Shift-Right does not", "\033[1;2C", LINE_KEY_RIGHT, 6, NULL},
    {"Delete", "\033[3~", LINE_KEY_DELETE, 4, NULL},
    {"Home in its forms", "\033[1~", LINE_KEY_LINE_START, 4, NULL},
    {"Alt-b", "\033b", LINE_KEY_WORD_LEFT, 2, NULL},
    {"an unknown key is swallowed whole", "\033[15;2~x", LINE_KEY_IGNORED, 7, NULL},
    {"a cursor report is swallowed", "\033[12;40Rx", LINE_KEY_IGNORED, 8, NULL},
    {"an answer about colours is swallowed", "\033]11;rgb:0/0/0\033\\x", LINE_KEY_IGNORED, 16,
     NULL},
    {"so is one that ends with a bell", "\033]11;rgb:0/0/0\ax", LINE_KEY_IGNORED, 15, NULL},
    {"a device answer is swallowed", "\033P1+r0\033\\x", LINE_KEY_IGNORED, 8, NULL},
    {"such an answer ends at Enter, too", "\033Phello\r", LINE_KEY_IGNORED, 7, NULL},
    {"pasted text is one key", "\033[200~a\nb\033[201~x", LINE_KEY_PASTE, 15, "a\nb"},
    {"half a paste waits", "\033[200~a\nb\033[201", LINE_KEY_IGNORED, 0, NULL},
    {"escapes in a paste do not end it", "\033[200~a\033[Ab\033[201~", LINE_KEY_PASTE, 17,
     "a\033[Ab"},
};

static void test_key(void **state)
{
    const struct key_case *row = *state;
    struct line_key key;
    assert_int_equal(line_key_read(&key, row->bytes, strlen(row->bytes)), row->step);
    if (row->step == 0)
        return;
    assert_int_equal(key.kind, row->kind);
    assert_int_equal(key.len, row->text ? strlen(row->text) : 0);
    if (row->text)
        assert_memory_equal(key.text, row->text, key.len);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_key);
    return check_run(&check, "line_key");
}
