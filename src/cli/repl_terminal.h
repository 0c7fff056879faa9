/* repl_terminal.h - the state of `cove repl` at a terminal, shared by its two halves
 *
 * repl_terminal.c has the screen, the keys and the life of it; repl_input.c has what becomes of an
 * input: questions to the session, running it, commands. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/line_editor.h"
#include "cli/repl.h"
#include "cli/repl_show.h"
#include "cli/tty.h"

#define REPL_TERMINAL_DRAWN_MAX (64 * MIB) /* bytes of one drawing */

enum repl_terminal_mode {
    MODE_WRITING,
    MODE_WAITING, /* Enter was pressed, but there is no interpreter yet */
    MODE_ASKING,
    MODE_RUNNING,
    MODE_LEAVING,
};

/* What is special about a language. */
struct repl_language {
    const char *name, *title, *prompt, *more;
    const char *leave[4]; /* words that mean: end the session */
};

struct repl_terminal {
    struct repl *repl;
    const struct repl_language *language;
    struct tty *tty;
    struct loop_watch *watch; /* while keys are read */
    struct loop_signal *resized, *continued;
    struct loop_timer *patience;
    struct strbuf input; /* keys that were not looked at yet */
    struct line_history *history;
    struct line_editor editor;
    struct line_view view;
    struct repl_show *show;
    enum repl_terminal_mode mode;
    bool is_cancelled; /* the question under way, by Ctrl-C */
    bool has_kernel;   /* since the last reset */
    bool was_killed;   /* by a second Ctrl-C */
    bool is_told;      /* why it ended, if it did */
    unsigned interrupts;
    char *code; /* what runs; owned */
    struct cell_request cell;
};

enum repl_terminal_drawing { DRAW, FINISH, ERASE, CLEAR };

void repl_terminal_draw(struct repl_terminal *t, enum repl_terminal_drawing what);
void repl_terminal_print(const struct repl_terminal *t, const struct strbuf *bytes);
void repl_terminal_begin_input(struct repl_terminal *t); /* the next one can be written */
void repl_terminal_drop_input(struct repl_terminal *t);  /* leaves it on the screen */
void repl_terminal_work(struct repl_terminal *t);        /* takes the keys that wait */
void repl_terminal_run(struct repl_terminal *t);         /* from now on Ctrl-C is a signal */
void repl_terminal_leave(struct repl_terminal *t, int status);

void repl_input_enter(struct repl_terminal *t);
void repl_input_complete(struct repl_terminal *t);
void repl_input_interrupt(struct repl_terminal *t); /* what runs */
extern const struct repl_show_told repl_input_told;
