/* term_text.h - text of strangers on a terminal: made harmless, and cut to a width; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

#define TERM_TEXT_BROKEN 0xfffdu /* stands for a byte that is no UTF-8 */

/* The code point at the start of `text` and its bytes; a broken byte is one. `len` is not 0. */
size_t term_text_step(const char *text, size_t len, uint32_t *code);

bool term_text_is_safe(uint32_t code); /* no control character, nothing that turns text around */

/* Adds the text with what could steer a terminal spelled out (\x1b). Lines and tabs are kept when
 * `may_have_lines`. */
void term_text_add(struct strbuf *out, const char *text, size_t len, bool may_have_lines);

/* The same on one line and cut to so many columns, the last of them an ellipsis; answers how many
 * it takes. */
unsigned term_text_add_cut(struct strbuf *out, const char *text, size_t len, unsigned columns);
