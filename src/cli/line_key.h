/* line_key.h - from the bytes of a terminal to keys; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

enum line_key_kind {
    LINE_KEY_IGNORED, /* a key without a meaning here, or an answer of the terminal */
    LINE_KEY_TEXT,
    LINE_KEY_PASTE,
    LINE_KEY_ENTER,
    LINE_KEY_NEWLINE,
    LINE_KEY_TAB,
    LINE_KEY_LEFT,
    LINE_KEY_RIGHT,
    LINE_KEY_UP,
    LINE_KEY_DOWN,
    LINE_KEY_WORD_LEFT,
    LINE_KEY_WORD_RIGHT,
    LINE_KEY_LINE_START,
    LINE_KEY_LINE_END,
    LINE_KEY_TEXT_START,
    LINE_KEY_TEXT_END,
    LINE_KEY_BACKSPACE,
    LINE_KEY_DELETE,
    LINE_KEY_DELETE_OR_END, /* Ctrl-D */
    LINE_KEY_KILL_TO_END,
    LINE_KEY_KILL_TO_START,
    LINE_KEY_KILL_WORD_LEFT,
    LINE_KEY_KILL_WORD_RIGHT,
    LINE_KEY_KILL_BLANK_LEFT, /* Ctrl-W: back to a blank */
    LINE_KEY_YANK,
    LINE_KEY_TRANSPOSE,
    LINE_KEY_UNDO,
    LINE_KEY_OLDER,
    LINE_KEY_NEWER,
    LINE_KEY_SEARCH_OLDER,
    LINE_KEY_SEARCH_NEWER,
    LINE_KEY_CANCEL, /* Ctrl-C */
    LINE_KEY_ABORT,  /* Ctrl-G */
    LINE_KEY_REDRAW,
    LINE_KEY_SUSPEND,
};

struct line_key {
    enum line_key_kind kind;
    const char *text; /* of TEXT (one character) and PASTE; borrowed from the bytes */
    size_t len;
};

/* Takes the first key of the bytes; answers how many of them it was, 0 when it is not whole yet. */
size_t line_key_read(struct line_key *out, const char *bytes, size_t len);
