/* store_page.c - see store_page.h */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/store.h"
#include "store/store_cursor.h"

const struct store_place store_session_place = {offsetof(struct store_session, id),
                                                offsetof(struct store_session, created_ns)};

size_t store_page_limit(const struct store_filter *f)
{
    return f->limit ? MIN(f->limit, STORE_PAGE_MAX) : STORE_PAGE_DEFAULT;
}

int store_page_cut(struct store_rows *rows, const struct store_place *place, size_t limit,
                   struct error *err)
{
    char text[STORE_CURSOR_TEXT_BYTES];
    if (rows->count <= limit)
        return 0;
    while (rows->count > limit)
        store_rows_drop_last(rows);
    const char *last = (const char *)rows->items + (limit - 1) * rows->type->size;
    const char *id = *(const char *const *)(last + place->id);
    struct store_cursor cursor = {.created_ns = *(const int64_t *)(last + place->created_ns)};
    memcpy(cursor.id, id, strnlen(id, sizeof(cursor.id) - 1));
    if (!store_cursor_format(&cursor, text))
        return error_set(err, ERROR_INTERNAL, "no cursor for %s '%.64s'", rows->type->name, id);
    free(rows->next_cursor);
    rows->next_cursor = xstrdup(text);
    return 0;
}
