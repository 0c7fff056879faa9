/* header_value.h - "form-data; name=a": a word with parameters, as headers have it
 *
 * RFC 9110 section 5.6.6, read strictly: what two readers could take apart differently (a name
 * twice, a quote that does not end, a control character, bytes that are not UTF-8) is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HEADER_PARAMS_MAX 16

struct header_param {
    const char *name;  /* lower case */
    const char *value; /* without quotes and their escapes; may be "" when it was quoted */
};

struct header_value {
    const char
        *word; /* "form-data", "text/html": lower case; borrowed from the text, as all here */
    struct header_param params[HEADER_PARAMS_MAX];
    size_t count;
};

/* Takes apart `text`, which is overwritten and must live as long as *out. Answers NULL, or what is
 * wrong: words for people, lower case. A backslash escapes a quote and a backslash; before anything
 * else it stands for itself, since clients send file names so. */
const char *header_value_parse(struct header_value *out, char *text);

const char *header_value_find(const struct header_value *value, const char *name); /* or NULL */

bool header_is_token(const char *text, size_t len); /* RFC 9110 section 5.6.2; not empty */
