/* failmalloc.c - one allocation of a program fails, and no other
 *
 * Linked into cove-spawner by --wrap; a library for others by other names of these functions.
 * COVE_TEST_ALLOCATION is the number of the one that fails, from 1; 0: none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool is_refused(void)
{
    static atomic_ulong count;
    const char *wanted = getenv("COVE_TEST_ALLOCATION");
    if (!wanted || atomic_fetch_add(&count, 1) + 1 != strtoul(wanted, NULL, 10))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __real_realloc(old, size);
}
