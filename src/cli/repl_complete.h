/* repl_complete.h - completion of a name: the question, and what its answer does to a text; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "cli/line_edit.h"

/* The body of a COMPLETE at the cursor. */
void repl_complete_ask(struct strbuf *body, const struct line_edit *e);

/* Inserts what all matches have in common. When that is nothing more than there is, answers the
 * matches (new), to be listed; else NULL. A match that could steer the terminal is none. */
json_t *repl_complete_take(struct line_edit *e, const json_t *answer);
