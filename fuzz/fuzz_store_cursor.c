/* fuzz_store_cursor.c - what is taken for a cursor is the one text of its position */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_cursor.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scoped_free char *text = xstrndup((const char *)data, size);
    char back[STORE_CURSOR_TEXT_BYTES];
    struct store_cursor cursor;
    if (!store_cursor_parse(text, &cursor))
        return 0;
    BUG_ON(cursor.created_ns < 0);
    BUG_ON(!store_cursor_format(&cursor, back) || strcmp(back, text) != 0);
    return 0;
}
