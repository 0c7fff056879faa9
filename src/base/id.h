/* id.h - unguessable ids, typed by prefix: exe_ and 26 letters for 128 random bits */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define ID_BYTES    32                                 /* prefix, underscore, 26 characters, NUL */
#define ID_ALPHABET "0123456789abcdefghjkmnpqrstvwxyz" /* 32 letters without look-alikes */

enum id_kind {
    ID_SESSION,
    ID_EXECUTION,
    ID_TEMPLATE,
    ID_REQUEST,
    ID_CHECKPOINT,
    ID_KEY,
    ID_UPLOAD,
    ID_KIND_COUNT
};

MUST_CHECK int id_make(enum id_kind kind, char out[ID_BYTES], struct error *err);
bool id_is_valid(enum id_kind kind, const char *text);

/* The same as a regular expression: "^exe_[0-9...]{26}$". */
#define ID_PATTERN_BYTES 64
void id_pattern(enum id_kind kind, char out[ID_PATTERN_BYTES]);

/* `count` random letters, five bits each, and a NUL. */
MUST_CHECK int id_random(char *out, size_t count, struct error *err);
