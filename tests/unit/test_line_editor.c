/* test_line_editor.c - history, search, and what the caller is asked for */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_editor.h"

#include <string.h>

#include "check.h"

struct editor_case {
    const char *name;
    const char *keys;
    const char *text;      /* after them */
    enum line_event event; /* of the last key */
    const char *prompt;    /* NULL: the usual one */
};

#define UP   "\033[A"
#define DOWN "\033[B"

/* The history is: "import os", "def f():\n    return 1", "x = 1". */
static const struct editor_case cases[] = {
    {"Up recalls the last input", UP, "x = 1", LINE_GOES_ON, NULL},
    {"an input of two lines is recalled as one", UP UP, "def f():\n    return 1", LINE_GOES_ON,
     NULL},
    {"in it, Up goes to its first line", UP UP UP, "def f():\n    return 1", LINE_GOES_ON, NULL},
    {"and then to older ones", UP UP UP UP, "import os", LINE_GOES_ON, NULL},
    {"Ctrl-P skips the lines", "\x10\x10\x10", "import os", LINE_GOES_ON, NULL},
    {"the oldest is the end", "\x10\x10\x10\x10\x10", "import os", LINE_GOES_ON, NULL},
    {"Down comes back to what was written", "x" UP DOWN, "x", LINE_GOES_ON, NULL},
    {"what is written chooses", "im" UP, "import os", LINE_GOES_ON, NULL},
    {"nothing chosen changes nothing", "zz" UP, "zz", LINE_GOES_ON, NULL},
    {"Down without Up is nothing", "zz" DOWN, "zz", LINE_GOES_ON, NULL},
    {"Ctrl-R finds a part", "\x12ret", "def f():\n    return 1", LINE_GOES_ON, "(search ret) "},
    {"Ctrl-R again finds an older one",
     "\x12"
     "1\x12",
     "def f():\n    return 1", LINE_GOES_ON, "(search 1) "},
    {"it says when there is none", "\x12zzz", "", LINE_GOES_ON, "(not found zzz) "},
    {"a shorter word searches anew",
     "\x12"
     "1z\x7f",
     "x = 1", LINE_GOES_ON, "(search 1) "},
    {"Ctrl-G gives up", "ab\x12ret\x07", "ab", LINE_GOES_ON, NULL},
    {"Ctrl-C in a search gives up as well", "ab\x12ret\x03", "ab", LINE_GOES_ON, NULL},
    {"Enter takes what was found", "\x12import\r", "import os", LINE_ENTER, NULL},
    {"a motion takes it, too", "\x12import\x01!", "!import os", LINE_GOES_ON, NULL},
    {"Tab behind a word asks", "os.\t", "os.", LINE_COMPLETE, NULL},
    {"Tab at the start indents", "\t", "    ", LINE_GOES_ON, NULL},
    {"Tab fills a step", "  \t", "    ", LINE_GOES_ON, NULL},
    {"Ctrl-D in a text deletes", "ab\x01\x04", "b", LINE_GOES_ON, NULL},
    {"Ctrl-D in an empty one ends", "\x04", "", LINE_END, NULL},
    {"Ctrl-C cancels", "ab\x03", "ab", LINE_CANCELLED, NULL},
    {"a paste of lines is one text", "\033[200~a\nb\033[201~", "a\nb", LINE_GOES_ON, NULL},
};

static enum line_event press(struct line_editor *ed, const char *keys)
{
    enum line_event event = LINE_GOES_ON;
    for (size_t step; *keys; keys += step) {
        struct line_key key;
        step = line_key_read(&key, keys, strlen(keys));
        assert_int_not_equal(step, 0);
        event = line_editor_key(ed, &key);
    }
    return event;
}

static struct line_history *some_history(void)
{
    static const char *const entries[] = {"import os", "def f():\n    return 1", "x = 1"};
    struct line_history *h = line_history_new(NULL);
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        line_history_add(h, entries[i], strlen(entries[i]));
    return h;
}

static void test_keys(void **state)
{
    const struct editor_case *row = *state;
    struct line_editor ed;
    struct line_frame frame;
    scoped(line_history) struct line_history *h = some_history();
    line_editor_init(&ed, h, 4);
    ed.prompt = ">>> ";
    assert_int_equal(press(&ed, row->keys), row->event);
    line_editor_frame(&ed, &frame, 40);
    assert_string_equal(frame.text, row->text);
    assert_string_equal(frame.prompt, row->prompt ? row->prompt : ">>> ");
    assert_true(frame.cursor <= frame.len);
    line_editor_release(&ed);
}

static void test_recalled(void **state)
{
    (void)state;
    struct line_editor ed;
    scoped(line_history) struct line_history *h = some_history();
    line_editor_init(&ed, h, 4);
    press(&ed, "x = 1");
    assert_false(line_editor_is_recalled(&ed));
    press(&ed, "\x15" UP UP);
    assert_true(line_editor_is_recalled(&ed));
    press(&ed, "0");
    assert_false(line_editor_is_recalled(&ed));
    line_editor_clear(&ed);
    assert_int_equal(ed.edit.text.len, 0);
    line_editor_release(&ed);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, cases, test_keys);
    check_one(&check, "an input as it was recalled is known as such", test_recalled);
    return check_run(&check, "line_editor");
}
