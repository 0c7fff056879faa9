/* utf8.h - which bytes are text, and making text of those that are not */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* Length of the valid UTF-8 sequence at the start of `bytes` (1 to 4), or 0 when there is none:
 * overlong forms, surrogates, values above U+10FFFF and cut sequences are not valid. */
size_t utf8_step(const void *bytes, size_t len);

bool utf8_is_valid(const void *bytes, size_t len);

/* Adds the bytes with U+FFFD in place of what is not UTF-8, one per maximal broken part as Unicode
 * recommends (so a browser shows the same). NUL passes. */
void utf8_add_clean(struct strbuf *out, const void *bytes, size_t len);
