/* budget.h - memory that strangers fill, of which all of them together may have so much
 *
 * Each may have a quarter of what is free, counted with its own: so nobody finds nothing left
 * because others came first, and all together never have more than there is. The first few bytes of
 * each are not counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define BUDGET_FREE_BYTES 65536

struct budget {
    size_t used, max;
};

/* Whether one who holds `held` bytes may have `more`; if so, they are taken. A budget of NULL has
 * no end. */
bool budget_take(struct budget *budget, size_t held, size_t more);

/* One who holds `held` bytes lets go of all of them. */
void budget_give(struct budget *budget, size_t held);
