/* disposition.h - a file's name for Content-Disposition (RFC 6266, RFC 8187)
 *
 * Whatever bytes a name has, the value is one line of printable ASCII with one reading: a sandbox
 * chooses names, and a header must not be its to write. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct strbuf;

enum disposition { DISPOSITION_ATTACHMENT, DISPOSITION_INLINE };

#define DISPOSITION_MAX_BYTES 1280 /* of a value; a longer name is cut */

/* Adds: attachment; filename="a_.txt"; filename*=UTF-8''a%C3%A4.txt
 * Only what follows the last slash counts. A control character, one that turns the direction of
 * text, a backslash: an underscore. What is not UTF-8: U+FFFD. Nothing left: "download". */
void disposition_add(struct strbuf *out, enum disposition kind, const void *name, size_t len);
