/* store_cursor.h - where a page of a list ended: a position in time and an id, as one word
 *
 * It comes back from outside, and is checked like anything else from there; what it says is only
 * where to begin, never what may be seen. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STORE_CURSOR_ID_BYTES   64
#define STORE_CURSOR_TEXT_BYTES (2 + 16 + STORE_CURSOR_ID_BYTES)

struct store_cursor {
    int64_t created_ns;             /* never negative */
    char id[STORE_CURSOR_ID_BYTES]; /* [A-Za-z0-9_-]+ */
};

/* False when the id is none that a cursor can carry. */
bool store_cursor_format(const struct store_cursor *cursor, char out[STORE_CURSOR_TEXT_BYTES]);

/* False, with *out untouched, unless the text is what store_cursor_format() makes of a cursor. */
bool store_cursor_parse(const char *text, struct store_cursor *out);
