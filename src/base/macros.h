/* macros.h - the few words that every module uses */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define NORETURN          __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* A broken promise of our own code: say where, and stop. Input is never a bug. */
#define BUG_ON(cond)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!!(cond), 0))                                                         \
            bug_abort(__FILE__, __LINE__, #cond);                                                  \
    } while (0)

NORETURN void bug_abort(const char *file, int line, const char *condition);
