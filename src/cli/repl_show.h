/* repl_show.h - what came of an input, shown to a person: output, values, pictures, tracebacks,
 * files
 *
 * Values go to standard output, everything that is about them to standard error. What the code
 * printed passes as it is, as in `cove run`; all other text of it has control characters spelled
 * out. Names of picture files are ours and never those of a file that exists. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "core/execution.h"

struct repl_show;

struct repl_show_told {
    void (*ended)(void *ctx, const struct execution *e); /* and all of it has been shown */
    void (*stdout_gone)(void *ctx);                      /* nobody reads on */
};

/* `out`: the folder for pictures and changed files, made when it is missing; NULL: pictures go to
 * the current one and other files stay inside. `is_brief` leaves out the list of files and times.
 */
MUST_CHECK int repl_show_new(struct repl_show **out_show, const char *out, bool is_brief,
                             const struct repl_show_told *told, void *ctx, struct error *err);
void repl_show_free(struct repl_show *show);

/* For an execution that is to be shown; their ctx is the show. */
extern const struct execution_events repl_show_events;

/* A line of our own, in the style of remarks. */
void repl_show_note(struct repl_show *show, const char *fmt, ...) PRINTF_LIKE(2, 3);

void repl_show_mute(struct repl_show *show); /* from now on nothing is shown */
/* Ends a line that was left open, so that a prompt can follow. */
void repl_show_end_line(struct repl_show *show);
