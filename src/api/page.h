/* page.h - which page of a list is asked for, and how one is answered */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/params.h"
#include "store/store.h"

struct page {
    int64_t limit;
    char *cursor; /* NULL: the first */
};

/* The row of every list's `limit`, for the tables that ask for more than a page. */
#define PAGE_LIMIT_ROW(into)                                                                       \
    {                                                                                              \
        .name = "limit", .type = PARAM_INTEGER, .offset = offsetof(into, limit), .min = 1,         \
        .max = STORE_PAGE_MAX, .preset = "50", .help = "How many at most."                         \
    }

/* The same of the `cursor` that the store gave. */
#define PAGE_CURSOR_ROW(into)                                                                      \
    {                                                                                              \
        .name = "cursor", .type = PARAM_STRING, .offset = offsetof(into, cursor), .max_len = 256,  \
        .help = PAGE_CURSOR_HELP                                                                   \
    }
#define PAGE_CURSOR_HELP "next_cursor of the page before."

extern const struct param_table page_table; /* a struct page, by the store's cursors */

/* New: {NAME: list, "next_cursor": ...}. `list` is taken; a NULL cursor: it was the last page. */
json_t *page_json(const char *name, json_t *list, const char *next_cursor);
