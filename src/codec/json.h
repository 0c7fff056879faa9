/* json.h - jansson, strict and bounded: text from outside in, text for outside out
 *
 * Values are jansson's json_t with its own reference rules: "new" means the caller owns one
 * reference. main() makes jansson allocate with xmalloc, so building values cannot fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct strbuf;

#define JSON_DEPTH_MAX 64 /* what json_parse() allows when the caller asks for no less */

struct json_limits {
    size_t max_bytes; /* of the text; required */
    size_t max_depth; /* of nested arrays and objects; 0 is JSON_DEPTH_MAX */
    bool has_nul;     /* texts may have NUL in them: they are what a program printed */
};

/* Parses one document (object or array at the top) into a new value. Refused: longer or deeper than
 * the limits (ERROR_TOO_LARGE), duplicate keys, invalid UTF-8, escaped NUL unless has_nul, anything
 * after the document (ERROR_INVALID, with line and column). */
MUST_CHECK int json_parse(json_t **out, const char *text, size_t len,
                          const struct json_limits *limits, struct error *err);

/* New value of text that we wrote ourselves, maybe with NUL in what a program printed. NULL: it is
 * none; a record may have been tampered with. */
json_t *json_parse_own(const char *text, size_t len);

enum json_style { JSON_STYLE_COMPACT, JSON_STYLE_PRETTY };

/* Adds the value as text, with keys in the order they were set and no newline at the end. */
void json_add(struct strbuf *out, const json_t *value, enum json_style style);

/* Adds a string as json_add() writes json_text(), without a value in between. */
void json_add_text(struct strbuf *out, const char *bytes, size_t len);

/* Writes the value and a newline to `fd`. */
MUST_CHECK int json_write(int fd, const json_t *value, enum json_style style, struct error *err);

/* New string of bytes that may be anything: what is not UTF-8 becomes U+FFFD. */
json_t *json_text(const char *bytes, size_t len);
json_t *json_text_or_null(const char *text); /* NULL gives null */
json_t *json_number(uint64_t value);         /* beyond jansson's integers it becomes a real */

static inline void json_drop(json_t **value)
{
    json_decref(*value);
}

#define scoped_json __attribute__((cleanup(json_drop)))
