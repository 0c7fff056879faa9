/* table.c - cells are kept as text, and laid out when all are known */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "cli/term_text.h"

#define COLUMNS_MAX    16
#define CELL_COLUMNS   64
#define CELL_MAX_BYTES (64 * KIB)
#define GAP            2

struct cell {
    char *text; /* harmless already */
    unsigned width;
    enum term_style style;
};

struct table {
    const char *const *heads;
    size_t columns;
    struct cell *cells;
    size_t count;
    unsigned widths[COLUMNS_MAX];
};

struct table *table_new(const char *const *heads)
{
    struct table *t = xcalloc(1, sizeof(*t));
    t->heads = heads;
    for (; heads[t->columns]; t->columns++) {
        BUG_ON(t->columns == COLUMNS_MAX);
        const char *head = heads[t->columns];
        t->widths[t->columns] = (unsigned)strlen(head + (head[0] == ' '));
    }
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i].text);
    free(t->cells);
    free(t);
}

size_t table_rows(const struct table *t)
{
    return t->count / t->columns;
}

void table_add(struct table *t, const char *text, enum term_style style)
{
    scoped_strbuf struct strbuf safe;
    strbuf_init(&safe, CELL_MAX_BYTES);
    unsigned width = term_text_add_cut(&safe, text, strlen(text), CELL_COLUMNS);
    unsigned *widest = &t->widths[t->count % t->columns];
    if ((t->count & (t->count + 1)) == 0 || t->count == 0)
        t->cells = xrealloc(t->cells, 2 * (t->count + 1) * sizeof(*t->cells));
    t->cells[t->count++] = (struct cell){xstrdup(strbuf_str(&safe)), width, style};
    *widest = MAX(*widest, width);
}

static void add_blanks(struct strbuf *out, unsigned count)
{
    while (count-- > 0)
        strbuf_add_char(out, ' ');
}

/* One cell from column `at` on; answers the column behind it. */
static unsigned write_cell(const struct table *t, const struct table_view *v, size_t column,
                           const struct cell *cell, unsigned at, struct strbuf *out)
{
    bool is_right = t->heads[column][0] == ' ', is_last = column + 1 == t->columns;
    unsigned begin = at + (is_right ? t->widths[column] - cell->width : 0);
    if (v->width > 0 && begin >= v->width)
        return begin;
    unsigned room = v->width > 0 ? v->width - begin : cell->width;
    add_blanks(out, begin - at);
    strbuf_add_str(out, cell->style ? term_style(v->has_colour, cell->style) : "");
    unsigned used = cell->width;
    if (cell->width <= room)
        strbuf_add_str(out, cell->text);
    else
        used = term_text_add_cut(out, cell->text, strlen(cell->text), room);
    strbuf_add_str(out, cell->style ? term_style(v->has_colour, TERM_PLAIN) : "");
    if (is_last)
        return begin + used;
    unsigned end = at + t->widths[column] + GAP;
    add_blanks(out, v->width > 0 && end > v->width ? 0 : end - begin - used);
    return end;
}

static void write_heads(const struct table *t, const struct table_view *v, struct strbuf *out)
{
    unsigned at = 0;
    for (size_t i = 0; i < t->columns; i++) {
        const char *head = t->heads[i] + (t->heads[i][0] == ' ');
        const struct cell cell = {(char *)head, (unsigned)strlen(head), TERM_PLAIN};
        at = write_cell(t, v, i, &cell, at, out);
    }
    strbuf_add_str(out, v->line_end);
}

void table_write(const struct table *t, const struct table_view *v, struct strbuf *out)
{
    size_t rows = table_rows(t), last = MIN(v->first + v->count, rows);
    write_heads(t, v, out);
    for (size_t row = v->first; row < last; row++) {
        unsigned at = 0;
        for (size_t i = 0; i < t->columns; i++)
            at = write_cell(t, v, i, &t->cells[row * t->columns + i], at, out);
        strbuf_add_str(out, v->line_end);
    }
}
