/* pattern.h - bytes that tell where they belong, for tests that move large data */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

static inline char pattern_at(size_t at)
{
    return (char)(at * 31 + at / 251);
}

static inline void pattern_fill(char *data, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = pattern_at(from + i);
}
