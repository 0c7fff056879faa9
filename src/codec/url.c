/* url.c - one pass decodes, one pass judges; nothing is repaired, what is odd is refused
 *
 * Decoding never makes text longer, so it happens in place. Splitting comes before decoding in the
 * query (an escaped "&" is data) and after it in the path (an escaped "/" is refused, so it cannot
 * matter). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/url.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The byte that %XX stands for, or -1. A NUL ends the text, so it is no hex digit. */
static int escaped_byte(const char *at)
{
    int high = hex_value(at[1]);
    int low = high < 0 ? -1 : hex_value(at[2]);
    return low < 0 ? -1 : high << 4 | low;
}

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

bool url_decode(char *text, bool plus_is_space)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        int c = (unsigned char)*at;
        if (c == '%') {
            c = escaped_byte(at);
            at += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c < 0 || is_control((unsigned char)c))
            return false;
        *to++ = (char)c;
    }
    *to = '\0';
    return utf8_is_valid(text, (size_t)(to - text));
}

static bool has_escaped_slash(const char *path)
{
    for (const char *at = strchr(path, '%'); at; at = strchr(at + 1, '%')) {
        if (at[1] == '2' && (at[2] == 'f' || at[2] == 'F'))
            return true;
    }
    return false;
}

/* Whether a decoded path, behind its first slash, has a segment that a file system would take for a
 * way up, or for none. */
static bool has_odd_segment(const char *begin)
{
    while (*begin) {
        size_t len = strcspn(begin, "/");
        bool is_last = begin[len] == '\0';
        if (len == 0 || (len == 1 && begin[0] == '.') || (len == 2 && !memcmp(begin, "..", 2)))
            return true;
        if (is_last)
            return false;
        begin += len + 1;
    }
    return false;
}

static const char *parse_path(char *path)
{
    if (path[0] != '/')
        return "the target does not begin with a slash";
    if (has_escaped_slash(path))
        return "the path has an escaped slash";
    if (!url_decode(path, false))
        return "the path has a broken escape, a control character or bytes that are not UTF-8";
    if (has_odd_segment(path + 1))
        return "the path has an empty, '.' or '..' segment";
    return NULL;
}

static const char *parse_pair(struct url *out, char *text)
{
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    if (!url_decode(text, true) || (value && !url_decode(value, true)))
        return "the query has a broken escape, a control character or bytes that are not UTF-8";
    if (!*text)
        return "the query has a value without a name";
    if (out->pair_count == URL_QUERY_MAX)
        return "the query has too many parts";
    out->pairs[out->pair_count++] = (struct url_pair){text, value ? value : ""};
    return NULL;
}

static const char *parse_query(struct url *out, char *query)
{
    const char *wrong = NULL;
    for (char *next; query && !wrong; query = next) {
        next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        if (*query) /* "a=1&&b=2" and a last "&" are common, and harmless */
            wrong = parse_pair(out, query);
    }
    return wrong;
}

const char *url_parse(struct url *out, char *target, char *raw)
{
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    if (raw)
        memcpy(raw, query ? query : "", query ? strlen(query) + 1 : 1);
    out->path = target;
    out->query = raw;
    out->pair_count = 0;
    const char *wrong = parse_path(target);
    return wrong ? wrong : parse_query(out, query);
}

const char *url_find(const struct url *url, const char *key)
{
    for (size_t i = 0; i < url->pair_count; i++) {
        if (strcmp(url->pairs[i].key, key) == 0)
            return url->pairs[i].value;
    }
    return NULL;
}

bool url_can_carry(const char *path)
{
    for (const char *c = path; *c; c++) {
        if (is_control((unsigned char)*c))
            return false;
    }
    size_t len = strlen(path);
    return len > 0 && path[0] != '/' && path[len - 1] != '/' && utf8_is_valid(path, len) &&
           !has_odd_segment(path);
}

/* unreserved of RFC 3986 */
static bool is_unreserved(char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return true;
    return c && strchr("-._~", c);
}

void url_add_path(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (is_unreserved(*text) || *text == '/')
            strbuf_add_char(out, *text);
        else
            strbuf_add_fmt(out, "%%%02X", (unsigned char)*text);
    }
}
