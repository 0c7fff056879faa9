/* program.h - what a GUEST_START asks for, taken apart
 *
 * The strings behind the message: directory, then arguments, then variables, each ended by a NUL.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "wire/guest.h"

struct program {
    const char *directory;
    char *argv[GUEST_ARGS_MAX + 1]; /* NULL-terminated, at least one */
    char *envp[GUEST_ARGS_MAX + 1]; /* NULL-terminated */
};

/* False when the m->strings_len bytes at `strings` are not exactly what m->argc and m->envc
 * announce. On success every pointer of *p borrows from `strings`. Allocates nothing. */
bool program_parse(struct program *p, const struct guest_message *m, char *strings);
