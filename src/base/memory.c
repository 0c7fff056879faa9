/* memory.c - the x-family of allocators: a message and abort instead of NULL */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *ptr, size_t size)
{
    if (!ptr && size > 0) {
        fprintf(stderr, "cove: out of memory for %zu bytes\n", size);
        abort();
    }
    return ptr;
}

void *xmalloc(size_t size)
{
    return check(malloc(size), size);
}

void *xcalloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return check(calloc(count, size), bytes);
}

void *xrealloc(void *ptr, size_t size)
{
    return check(realloc(ptr, size), size);
}

char *xstrdup(const char *text)
{
    return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t len)
{
    char *copy = xmalloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return check(n < 0 ? NULL : text, 1);
}
