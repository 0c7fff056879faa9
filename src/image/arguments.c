/* arguments.c - strings in order, each owned */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

void arguments_add(struct arguments *arguments, const char *fmt, ...)
{
    char *item = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&item, fmt, args);
    va_end(args);
    BUG_ON(len < 0);
    arguments->items =
        xrealloc(arguments->items, (arguments->count + 2) * sizeof(*arguments->items));
    arguments->items[arguments->count++] = item;
    arguments->items[arguments->count] = NULL;
}

void arguments_add_all(struct arguments *arguments, const char *const *items)
{
    for (; *items; items++)
        arguments_add(arguments, "%s", *items);
}

void arguments_release(struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->count; i++)
        free(arguments->items[i]);
    free(arguments->items);
    *arguments = (struct arguments){0};
}

const char *const *arguments_list(const struct arguments *arguments)
{
    static const char *const none[] = {NULL};
    return arguments->items ? (const char *const *)arguments->items : none;
}
