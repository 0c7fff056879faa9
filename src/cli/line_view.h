/* line_view.h - draws a text with prompts and a cursor on a terminal; pure: escape sequences come
 * out
 *
 * It draws over what it drew last and trusts that the cursor has not been moved since. Rows that
 * are too long wrap by the terminal's own doing, so that its selection and its reflow see one line.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct strbuf;

/* What is to be seen; borrowed for the call. */
struct line_frame {
    const char *prompt; /* before the first line; safe text, narrower than the terminal */
    const char *more;   /* before the others */
    const char *text;
    size_t len;
    size_t cursor; /* a byte of the text */
};

/* Plain data; the caller sets the sizes (both at least 2) and the styles. */
struct line_view {
    unsigned width, height;
    const char *style_on, *style_off; /* of prompts */
    size_t row;                       /* of the cursor, from the first one drawn */
    size_t top;                       /* first row drawn of a text higher than the terminal */
};

void line_view_draw(struct line_view *view, struct strbuf *out, const struct line_frame *frame);

/* Leaves the text where it is; the cursor goes to a new line below. */
void line_view_finish(struct line_view *view, struct strbuf *out, const struct line_frame *frame);

void line_view_erase(struct line_view *view, struct strbuf *out);

/* The terminal has another size now, and has wrapped its lines anew; draw follows. */
void line_view_resize(struct line_view *view, const struct line_frame *frame, unsigned width,
                      unsigned height);
