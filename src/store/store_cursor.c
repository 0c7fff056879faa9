/* store_cursor.c - "c", 16 hex digits, "-", the id: fit for an address without escapes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 16

static const char hex_digits[] = "0123456789abcdef";
static const char id_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

static bool is_id(const char *text)
{
    size_t len = strspn(text, id_letters);
    return len > 0 && len < STORE_CURSOR_ID_BYTES && text[len] == '\0';
}

bool store_cursor_format(const struct store_cursor *cursor, char out[STORE_CURSOR_TEXT_BYTES])
{
    if (cursor->created_ns < 0 || !is_id(cursor->id))
        return false;
    snprintf(out, STORE_CURSOR_TEXT_BYTES, "c%016" PRIx64 "-%s", (uint64_t)cursor->created_ns,
             cursor->id);
    return true;
}

bool store_cursor_parse(const char *text, struct store_cursor *out)
{
    if (text[0] != 'c' || strspn(text + 1, hex_digits) != DIGITS || text[1 + DIGITS] != '-' ||
        !is_id(text + DIGITS + 2))
        return false;
    uint64_t ns = 0;
    for (size_t i = 0; i < DIGITS; i++)
        ns = ns << 4 | (uint64_t)(strchr(hex_digits, text[1 + i]) - hex_digits);
    if (ns > INT64_MAX)
        return false;
    struct store_cursor cursor = {.created_ns = (int64_t)ns};
    memcpy(cursor.id, text + DIGITS + 2, strlen(text + DIGITS + 2) + 1);
    *out = cursor;
    return true;
}
