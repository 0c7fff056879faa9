/* base64.h - RFC 4648 section 4: the standard alphabet with padding, strict on the way in */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

/* Sizes that hold the result; an encoded length has no NUL counted. */
#define BASE64_ENCODED_LEN(len)     (((len) + 2) / 3 * 4)
#define BASE64_DECODED_MAX_LEN(len) ((len) / 4 * 3)

void base64_add(struct strbuf *out, const void *data, size_t len);

/* Decodes into `out`, which holds BASE64_DECODED_MAX_LEN(len) bytes, and sets *out_len. Answers
 * false, with `out` undefined and *out_len untouched, unless the whole text is canonical: padded,
 * no blanks, no other alphabet, unused bits zero. So each value has one text. */
bool base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len);
