/* keepsake.h - small texts that are made once and kept in the server's folder: secrets, its name */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"

#define KEEPSAKE_LETTERS 52 /* of a secret: 260 random bits */

/* The text in the file `name` of the folder, which is there from now on: whole or not at all, for
 * its owner alone. `preset` is what it holds when it is made; NULL: random letters. *out is owned
 * by the caller. */
MUST_CHECK int keepsake_get(char **out, const char *dir, const char *name, const char *preset,
                            struct error *err);
