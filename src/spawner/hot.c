/* hot.c - a short queue without a word about what a sandbox holds */
/* SPDX-License-Identifier: Apache-2.0 */
#include "spawner/hot.h"

#include <string.h>

static void remove_at(struct hot *hot, size_t i)
{
    hot->count--;
    memmove(&hot->items[i], &hot->items[i + 1], (hot->count - i) * sizeof(hot->items[0]));
}

struct sandbox *hot_add(struct hot *hot, struct sandbox *sb)
{
    struct sandbox *oldest = NULL;
    if (hot->count == HOT_MAX) {
        oldest = hot->items[0];
        remove_at(hot, 0);
    }
    hot->items[hot->count++] = sb;
    return oldest;
}

void hot_remove(struct hot *hot, const struct sandbox *sb)
{
    for (size_t i = 0; i < hot->count; i++) {
        if (hot->items[i] == sb) {
            remove_at(hot, i);
            return;
        }
    }
}
