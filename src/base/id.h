/* id.h - unguessable ids, typed by prefix: exe_ and 26 letters for 128 random bits */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define ID_BYTES 32 /* prefix, underscore, 26 characters, NUL */

enum id_kind { ID_SESSION, ID_EXECUTION, ID_TEMPLATE, ID_REQUEST, ID_CHECKPOINT, ID_KIND_COUNT };

MUST_CHECK int id_make(enum id_kind kind, char out[ID_BYTES], struct error *err);
bool id_is_valid(enum id_kind kind, const char *text);
