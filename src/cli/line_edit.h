/* line_edit.h - a text of several lines with a cursor in it; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "cli/line_key.h"

#define LINE_EDIT_MAX_BYTES (1 * MIB)
#define LINE_EDIT_UNDO_MAX  64

struct line_edit {
    struct strbuf text; /* UTF-8, or meant to be */
    size_t cursor;      /* a byte in it, at a character's edge */
    unsigned indent;    /* columns of one step */
    struct strbuf killed;
    struct line_edit_state {
        char *text;
        size_t len, cursor;
    } undo[LINE_EDIT_UNDO_MAX]; /* oldest first */
    size_t undo_count;
    enum line_key_kind last; /* what the last change was, so that runs of typing are one step */
};

void line_edit_init(struct line_edit *e, unsigned indent);
void line_edit_release(struct line_edit *e);

void line_edit_set(struct line_edit *e, const char *text, size_t len); /* the cursor at its end */
void line_edit_clear(struct line_edit *e); /* another text begins: nothing to undo */

/* Replaces what is between two bytes; the cursor goes behind the new text. Nothing happens when it
 * would become too long. */
void line_edit_replace(struct line_edit *e, size_t from, size_t to, const char *text, size_t len);
void line_edit_insert(struct line_edit *e, const char *text, size_t len);

/* Text from outside: line ends become ours, control characters are left out. */
void line_edit_paste(struct line_edit *e, const char *text, size_t len);

/* Moves, changes, undoes; false when the key is not about the text. */
bool line_edit_key(struct line_edit *e, const struct line_key *key);

/* To the line above or below, in the same column; false when there is none. */
bool line_edit_up(struct line_edit *e);
bool line_edit_down(struct line_edit *e);

bool line_edit_is_in_last_line(const struct line_edit *e);
bool line_edit_is_in_indent(const struct line_edit *e); /* only blanks before it on its line */
size_t line_edit_line_start(const struct line_edit *e);
