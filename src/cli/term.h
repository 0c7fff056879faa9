/* term.h - what the terminal can do, and a progress bar for long work
 *
 * Nothing here is asked before it is needed: the start of the program makes no terminal calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool term_is_terminal(int fd);
unsigned term_width(int fd);  /* columns; 80 when nobody knows */
bool term_has_colour(int fd); /* a terminal, not a dumb one, and NO_COLOR is not set */

enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_RED, TERM_GREEN, TERM_YELLOW };

/* The escape sequence of a style, "" without colour: printf("%s%s%s", on, text, off). */
const char *term_style(bool has_colour, enum term_style style);

/* A bar on a terminal; elsewhere one line per label, so that logs stay readable. */
struct term_bar {
    int fd;
    bool is_live; /* on a terminal: redraws itself */
    bool has_colour;
    int64_t drawn_ns; /* when it was last drawn; redraws are spaced out */
    char label[80];
};

void term_bar_init(struct term_bar *bar, int fd);

/* `done` of `total`; total 0 means unknown and shows `done` alone. `label` is copied. */
void term_bar_update(struct term_bar *bar, const char *label, uint64_t done, uint64_t total);

/* Clears the bar; call it before anything else is printed on that terminal. */
void term_bar_finish(struct term_bar *bar);
