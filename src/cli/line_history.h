/* line_history.h - what was entered before, in memory and in a file that several may share
 *
 * A file that cannot be read or written is no reason to stop: then only memory remembers. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/scoped.h"

#define LINE_HISTORY_MAX 1000 /* entries */
#define LINE_HISTORY_MAX_LINE                                                                      \
    (64u * 1024u) /* bytes of one; longer ones are not kept in the file                            \
                   */

struct line_history;

/* `path` is borrowed; NULL: in memory only. Its folder is made when it is missing. */
struct line_history *line_history_new(const char *path);
void line_history_free(struct line_history *h);
SCOPED_DEFINE(line_history)

/* Where the history of a language is: $COVE_HISTORY, else below the user's state folder. Owned;
 * NULL when there is to be none. */
char *line_history_path(const char *language);

/* At once in the file, too. An entry like the last one is left out. */
void line_history_add(struct line_history *h, const char *text, size_t len);

size_t line_history_count(const struct line_history *h);
const char *line_history_get(const struct line_history *h, size_t i); /* 0 is the oldest */

/* The nearest entry before (after) *i that begins with (contains) the text and is not `but`. */
bool line_history_find_prefix(const struct line_history *h, size_t *i, bool is_newer,
                              const char *prefix, const char *but);
bool line_history_find_part(const struct line_history *h, size_t *i, bool is_newer,
                            const char *part, const char *but);
