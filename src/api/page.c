/* page.c - which page of a list is asked for, and how one is answered */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"

#include "base/macros.h"

static const struct param rows[] = {
    PAGE_LIMIT_ROW(struct page),
    PAGE_CURSOR_ROW(struct page),
};
const struct param_table page_table = PARAM_TABLE(struct page, "Page", rows);

json_t *page_json(const char *name, json_t *list, const char *next_cursor)
{
    return json_pack("{s:o, s:o}", name, list, "next_cursor", json_text_or_null(next_cursor));
}
