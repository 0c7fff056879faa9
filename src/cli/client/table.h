/* table.h - rows for people, each column as wide as its widest cell; text is made harmless */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/term.h"

struct strbuf;
struct table;

/* `heads` up to NULL, borrowed. A head that begins with a blank has its column to the right. */
struct table *table_new(const char *const *heads);
void table_free(struct table *table);

/* The next cell, row by row; the text is copied. */
void table_add(struct table *table, const char *text, enum term_style style);

/* Rows [first, first + count) below the heads. Lines are cut to `width` columns; 0: not at all. */
struct table_view {
    size_t first, count;
    unsigned width;
    bool has_colour;
    const char *line_end;
};
void table_write(const struct table *table, const struct table_view *view, struct strbuf *out);
size_t table_rows(const struct table *table);

static inline void table_drop(struct table **table)
{
    table_free(*table);
}

#define scoped_table __attribute__((cleanup(table_drop)))
