/* kernel_answer.h - what an interpreter says about its namespace, for those who asked
 *
 * The program inside writes these bytes, and can write any others: all of it is content. What does
 * not have the form of PROTOCOL-kernel.md is ERROR_UNAVAILABLE with the word
 * KERNEL_ANSWER_INVALID; what is too much to pass on is ERROR_TOO_LARGE. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

#define KERNEL_ANSWER_INVALID   "kernel_answer_invalid"
#define KERNEL_ANSWER_LIST_MAX  MIB       /* bytes of a REPLY to VARIABLES */
#define KERNEL_ANSWER_ROWS_MAX  1000      /* variables in it */
#define KERNEL_ANSWER_VALUE_MAX (4 * MIB) /* of one value: more would hold up everybody else */

/* New: {"variables": [{"name", "type", "size", "shape", "preview"}], "truncated"}. */
MUST_CHECK int kernel_answer_variables(json_t **out, const char *body, size_t len,
                                       struct error *err);

/* New: {"mime_type", "encoding": "json" | "text" | "base64", "value"}; `body` is that of a DATA. */
MUST_CHECK int kernel_answer_value(json_t **out, const char *body, size_t len, struct error *err);
