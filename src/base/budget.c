/* budget.c - who holds how much is known by the holders; here is the sum */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "base/macros.h"

#define SHARE 4

static size_t counted(size_t held)
{
    return held > BUDGET_FREE_BYTES ? held - BUDGET_FREE_BYTES : 0;
}

bool budget_take(struct budget *budget, size_t held, size_t more)
{
    if (!budget)
        return true;
    size_t before = counted(held), after = counted(held + more);
    BUG_ON(budget->used < before);
    size_t others = budget->used - before;
    if (after > 0 && (others > budget->max || after > (budget->max - others) / SHARE))
        return false;
    budget->used = others + after;
    return true;
}

void budget_give(struct budget *budget, size_t held)
{
    if (!budget)
        return;
    BUG_ON(budget->used < counted(held));
    budget->used -= counted(held);
}
