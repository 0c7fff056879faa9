/* arguments.h - a growing list of strings: argv or environment of a program to start */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

struct arguments {
    char **items; /* NULL-terminated once anything was added; owned */
    size_t count;
};

void arguments_add(struct arguments *arguments, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arguments_add_all(struct arguments *arguments, const char *const *items); /* copies */
void arguments_release(struct arguments *arguments); /* a zeroed one is fine */

/* As `struct process` wants it; borrowed. */
const char *const *arguments_list(const struct arguments *arguments);

#define scoped_arguments __attribute__((cleanup(arguments_release)))
