/* show.h - what comes out of a sandbox, in the middle of our own words
 *
 * It stays content: no line of it can pass for one of ours, no character of it moves a cursor or
 * turns the order of what is read. Pure; the exact bytes are what read_artifact is for. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

#define SHOW_NAME_BYTES 1024 /* of a name; longer ones are cut, which is said */

/* Adds the name of a file on one line: as it is, or as JSON has it when anything in it is odd, so
 * that it can be used as an argument as it stands. */
void show_name(struct strbuf *out, const char *name);

/* Adds text that begins on a line of its own. Control characters become pictures of themselves; a
 * line that looks like one of ours gets a backslash in front. */
void show_output(struct strbuf *out, const char *text, size_t len);

/* Whether that happens to any of its lines. */
bool show_has_lookalike(const char *text, size_t len);
