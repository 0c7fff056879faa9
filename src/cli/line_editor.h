/* line_editor.h - an input of one or more lines being written: the text, its history, its search
 *
 * Keys go in; what the caller has to do about them comes out. It draws nothing and asks nobody. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/line_edit.h"
#include "cli/line_history.h"
#include "cli/line_view.h"

enum line_event {
    LINE_GOES_ON,   /* draw it */
    LINE_ENTER,     /* run it, or open another line */
    LINE_COMPLETE,  /* Tab behind something */
    LINE_CANCELLED, /* Ctrl-C: the text is to be left on the screen, then cleared */
    LINE_END,       /* Ctrl-D in an empty text */
    LINE_SUSPEND,
    LINE_REDRAW, /* on a clear screen */
};

struct line_editor {
    struct line_edit edit;
    struct line_history *history; /* borrowed */
    const char *prompt, *more;    /* borrowed */
    size_t at;                    /* the entry that is shown; the count of entries: none */
    char *draft;                  /* what was written before the first entry was shown; owned */
    bool is_searching;
    struct strbuf wanted;
    bool has_found;
    struct strbuf banner; /* the prompt while searching */
};

void line_editor_init(struct line_editor *ed, struct line_history *history, unsigned indent);
void line_editor_release(struct line_editor *ed);

enum line_event line_editor_key(struct line_editor *ed, const struct line_key *key);

void line_editor_clear(struct line_editor *ed); /* for the next input */
/* The text is an entry as it was: it needs no question whether it is whole. */
bool line_editor_is_recalled(const struct line_editor *ed);
void line_editor_frame(struct line_editor *ed, struct line_frame *out, unsigned width);
