/* url.h - the target of a request: its path and its query, decoded in place and strictly
 *
 * A path that passes has one reading: it begins with a slash, has no empty, "." or ".." segment
 * (a last empty one, "/a/", is fine), no slash that was written as %2F, no NUL or other control
 * character, and is UTF-8. So whoever splits it at slashes later sees the segments that were sent.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define URL_QUERY_MAX 64 /* pairs */

struct strbuf;

struct url_pair {
    const char *key;   /* never empty */
    const char *value; /* "" when there was no "=" */
};

struct url {
    const char *path;  /* decoded; borrowed from the target, as all that follows */
    const char *query; /* raw, without the "?": "" when there was none */
    struct url_pair pairs[URL_QUERY_MAX];
    size_t pair_count;
};

/* Takes apart `target` ("/path?query", NUL-terminated), which is overwritten and must live as long
 * as *out; `raw` holds strlen(target) + 1 bytes for the query as it came, and may be NULL, then
 * out->query is NULL. Answers NULL, or what is wrong: a sentence for people, lower case. */
const char *url_parse(struct url *out, char *target, char *raw);

const char *url_find(const struct url *url, const char *key); /* of the first pair; or NULL */

/* Decodes %XX in place. False when an escape is not two hex digits, or gives a control character or
 * bytes that are not UTF-8; `plus_is_space` is the rule of forms. */
bool url_decode(char *text, bool plus_is_space);

/* Whether a path has one reading, as that of a target: what url_parse() would say of it. */
bool url_can_carry(const char *path);

/* Adds `text` with every byte as %XX that has a meaning in an address, but for slashes. */
void url_add_path(struct strbuf *out, const char *text);
