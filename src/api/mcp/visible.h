/* visible.h - whether bytes are a picture that models take
 *
 * Content is a stranger's, and so is its name. A client that hands a model something that is no
 * picture, or half of one, has the whole conversation refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VISIBLE_SIDE_MAX 8000 /* pixels; larger ones are refused by some models */

/* Whether the type is one of those. */
bool visible_is_type(const char *mime);

/* The type by what is in it; NULL: none of them, cut off, or too wide or high. Only what can be
 * told from its first and last bytes is looked at. */
const char *visible_type(const void *bytes, size_t len);
