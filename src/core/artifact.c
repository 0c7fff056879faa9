/* artifact.c - a growing list */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/artifact.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void artifact_list_release(struct artifact_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    free(list->items);
    *list = (struct artifact_list){0};
}

struct artifact *artifact_list_add(struct artifact_list *list)
{
    if ((list->count & (list->count + 1)) == 0) /* grows at 0, 1, 3, 7, ... */
        list->items = xrealloc(list->items, (2 * list->count + 2) * sizeof(*list->items));
    struct artifact *a = &list->items[list->count++];
    *a = (struct artifact){0};
    return a;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct artifact *)a)->path, ((const struct artifact *)b)->path);
}

void artifact_list_sort(struct artifact_list *list)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), compare_paths);
}
