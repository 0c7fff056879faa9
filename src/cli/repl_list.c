/* repl_list.c - columns as wide as what is in them; everything comes from the sandbox */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl_list.h"

#include <stdbool.h>

#include "base/macros.h"
#include "base/strbuf.h"
#include "cli/term_text.h"

#define GAP            2
#define NAME_COLUMNS   24
#define TYPE_COLUMNS   24
#define CELL_MAX_BYTES (64 * KIB)

static unsigned add_string(struct strbuf *out, const json_t *text, unsigned columns)
{
    if (!json_is_string(text))
        return 0;
    return term_text_add_cut(out, json_string_value(text), json_string_length(text), columns);
}

static void pad(struct strbuf *out, unsigned used, unsigned columns)
{
    for (; used < columns; used++)
        strbuf_add_char(out, ' ');
}

static unsigned widest(const json_t *names, unsigned most)
{
    unsigned width = 1;
    size_t i;
    const json_t *name;
    json_array_foreach(names, i, name)
    {
        scoped_strbuf struct strbuf shown;
        strbuf_init(&shown, CELL_MAX_BYTES);
        width = MAX(width, add_string(&shown, name, most));
    }
    return width;
}

void repl_list_names(struct strbuf *out, const json_t *names, unsigned width, unsigned rows)
{
    size_t count = json_array_size(names);
    unsigned room = width - 1; /* the last column stays free: no wrapping */
    unsigned column = widest(names, room) + GAP;
    size_t columns = MAX((room + GAP) / column, 1u);
    size_t lines = MIN((count + columns - 1) / columns, (size_t)rows);
    size_t listed = MIN(count, lines * columns);
    lines = (listed + columns - 1) / columns;
    for (size_t line = 0; line < lines; line++) {
        unsigned used = 0;
        for (size_t i = line, at = 0; i < listed; i += lines, at += column) {
            pad(out, used, (unsigned)at);
            used = (unsigned)at + add_string(out, json_array_get(names, i), room);
        }
        strbuf_add_char(out, '\n');
    }
    if (listed < count)
        strbuf_add_fmt(out, "and %zu more\n", count - listed);
}

/* "ndarray 3x4" */
static unsigned add_type(struct strbuf *out, const json_t *row)
{
    scoped_strbuf struct strbuf text;
    const json_t *shape = json_object_get(row, "shape"), *side;
    const char *type = json_string_value(json_object_get(row, "type"));
    size_t i;
    strbuf_init(&text, CELL_MAX_BYTES);
    strbuf_add_str(&text, type ? type : "?");
    json_array_foreach(shape, i, side)
    {
        if (i < 8 && json_is_integer(side))
            strbuf_add_fmt(&text, "%c%lld", i ? 'x' : ' ', (long long)json_integer_value(side));
    }
    return term_text_add_cut(out, strbuf_str(&text), text.len, TYPE_COLUMNS);
}

static unsigned add_name(struct strbuf *out, const json_t *row)
{
    return add_string(out, json_object_get(row, "name"), NAME_COLUMNS);
}

typedef unsigned (*add_fn)(struct strbuf *out, const json_t *row);

static unsigned find_widest(const json_t *rows, add_fn add)
{
    unsigned width = 1;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        scoped_strbuf struct strbuf shown;
        strbuf_init(&shown, CELL_MAX_BYTES);
        width = MAX(width, add(&shown, row));
    }
    return width;
}

void repl_list_variables(struct strbuf *out, const json_t *answer, unsigned width)
{
    const json_t *rows = json_object_get(answer, "variables"), *row;
    unsigned name_end = find_widest(rows, add_name) + GAP,
             type_end = name_end + find_widest(rows, add_type) + GAP;
    size_t i;
    if (json_array_size(rows) == 0)
        strbuf_add_str(out, "no variables yet\n");
    json_array_foreach(rows, i, row)
    {
        unsigned used = add_name(out, row);
        pad(out, used, name_end);
        used = name_end + add_type(out, row);
        if (width > type_end + 1) {
            pad(out, used, type_end);
            add_string(out, json_object_get(row, "preview"), width - 1 - type_end);
        }
        strbuf_add_char(out, '\n');
    }
    if (json_is_true(json_object_get(answer, "truncated")))
        strbuf_add_str(out, "and more\n");
}
