/* repl_list.h - names in columns, and the table of variables; pure */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct strbuf;

/* The strings of an array (safe or not) in columns, at most so many rows; then how many were left
 * out. */
void repl_list_names(struct strbuf *out, const json_t *names, unsigned width, unsigned rows);

/* The answer to VARIABLES, one variable per line, cut to the width. */
void repl_list_variables(struct strbuf *out, const json_t *answer, unsigned width);
