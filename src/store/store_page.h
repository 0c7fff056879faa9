/* store_page.h - how lists end: after so many records, with a cursor that says where the rest
 * begins
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store_field.h"

struct store_filter;

/* Where records of a kind have what their place in a list is made of. */
struct store_place {
    size_t id, created_ns;
};
extern const struct store_place store_session_place;

size_t store_page_limit(const struct store_filter *filter); /* records of a page */

/* Where more records were found than a page has, the rest is dropped, and the next page begins
 * behind the last that stays. */
MUST_CHECK int store_page_cut(struct store_rows *rows, const struct store_place *place,
                              size_t limit, struct error *err);
