/* repl_terminal.c - `cove repl` for people */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl.h"

static int terminal_open(struct repl *repl, struct error *err)
{
    (void)repl;
    return error_set(err, ERROR_UNAVAILABLE, "not there yet");
}

const struct repl_front repl_terminal = {.open = terminal_open};
