/* tty.h - the terminal's modes, and that it gets back the one it had
 *
 * One per process: it is put back at exit and on crashes, too, where there is no object to ask. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum tty_mode {
    TTY_FOUND,   /* as it was */
    TTY_EDITING, /* every key is ours, pasted text is marked */
    TTY_RUNNING, /* Ctrl-C and Ctrl-Z are signals; other keys wait unseen */
};

struct tty;

/* On standard input, and standard output or else standard error; ERROR_UNAVAILABLE when these are
 * no terminal. */
MUST_CHECK int tty_open(struct tty **out, struct error *err);
void tty_free(struct tty *tty); /* back to TTY_FOUND; NULL is fine */

int tty_in(const struct tty *tty);  /* borrowed; an open file of its own, may be non-blocking */
int tty_out(const struct tty *tty); /* where to draw */
void tty_enter(struct tty *tty, enum tty_mode mode);
void tty_size(const struct tty *tty, unsigned *columns, unsigned *rows);
bool tty_is_foreground(const struct tty *tty);
bool tty_is_as_left(const struct tty *tty); /* nobody else has changed its mode */
