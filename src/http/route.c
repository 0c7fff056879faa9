/* route.c - patterns are compared segment by segment with the path, and with each other
 *
 * Most rows begin with the same two or three segments, so to compare their patterns one by one took
 * six microseconds for each request. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum kind { KIND_TEXT, KIND_NAME, KIND_REST }; /* the smaller wins */

struct segment {
    const char *text; /* of a name: without braces and star */
    size_t len;
    enum kind kind;
};

/* The segment at `at`, which stands behind a slash; answers what follows it: '/' or NUL. */
static const char *read_segment(struct segment *out, const char *at)
{
    const char *end = strchrnul(at, '/');
    *out = (struct segment){at, (size_t)(end - at), KIND_TEXT};
    if (*at == '{') {
        bool is_rest = out->len > 2 && end[-2] == '*';
        *out = (struct segment){at + 1, out->len - 2 - is_rest, is_rest ? KIND_REST : KIND_NAME};
    }
    return end;
}

static void add_parameter(struct route_match *match, const struct segment *name, const char *value,
                          size_t len)
{
    match->parameters[match->parameter_count++] =
        (struct route_parameter){name->text, name->len, value, len};
}

/* Whether `path` fits; its parameters are added to *match. */
static bool fits(const char *pattern, const char *path, struct route_match *match)
{
    match->parameter_count = 0;
    while (*pattern == '/' && *path == '/') {
        struct segment want;
        const char *begin = path + 1;
        pattern = read_segment(&want, pattern + 1);
        path = strchrnul(begin, '/');
        size_t len = (size_t)(path - begin);
        if (want.kind == KIND_TEXT) {
            if (len != want.len || memcmp(begin, want.text, len) != 0)
                return false;
            continue;
        }
        if (len == 0)
            return false;
        if (want.kind == KIND_REST) {
            add_parameter(match, &want, begin, strlen(begin));
            return true;
        }
        add_parameter(match, &want, begin, len);
    }
    return !*pattern && !*path;
}

/* Whether pattern `a` is more exact than `b`; both fit the same path. */
static bool is_more_exact(const char *a, const char *b)
{
    while (*a == '/' && *b == '/') {
        struct segment one, other;
        a = read_segment(&one, a + 1);
        b = read_segment(&other, b + 1);
        if (one.kind != other.kind)
            return one.kind < other.kind;
    }
    return false;
}

static unsigned methods_of(const struct route *route)
{
    return 1U << route->method | (route->method == METHOD_GET ? 1U << METHOD_HEAD : 0);
}

static void write_allow(char out[ROUTE_ALLOW_MAX_BYTES], unsigned methods)
{
    size_t len = 0;
    for (int i = 0; i < METHOD_COUNT; i++) {
        if (methods & 1U << i)
            len += (size_t)snprintf(out + len, ROUTE_ALLOW_MAX_BYTES - len, "%s%s", len ? ", " : "",
                                    method_name((enum method)i));
    }
}

static struct route_key key_of(const char *path)
{
    struct route_key key = {.has_last = true, .last = 2166136261}; /* FNV-1a */
    for (const char *at = path; *at; at++) {
        bool is_slash = *at == '/';
        key.slashes += is_slash;
        key.last = is_slash ? 2166136261 : (key.last ^ (unsigned char)*at) * 16777619;
    }
    return key;
}

/* False: the row cannot fit. */
static bool may_fit(const struct route_key *row, const struct route_key *path)
{
    if (row->is_rest)
        return path->slashes >= row->slashes;
    return path->slashes == row->slashes && (!row->has_last || row->last == path->last);
}

void route_table_init(struct route_table *table, const struct route *routes, size_t count)
{
    *table = (struct route_table){routes, xcalloc(count + 1, sizeof(*table->keys)), count};
    for (size_t i = 0; i < count; i++) {
        struct segment last = {.kind = KIND_TEXT};
        for (const char *at = routes[i].pattern; *at == '/';)
            at = read_segment(&last, at + 1);
        table->keys[i] = key_of(routes[i].pattern);
        table->keys[i].has_last = last.kind == KIND_TEXT;
        table->keys[i].is_rest = last.kind == KIND_REST;
    }
}

void route_table_release(struct route_table *table)
{
    free(table->keys);
}

enum route_answer route_find(const struct route_table *table, enum method method, const char *path,
                             struct route_match *out)
{
    unsigned methods = 0;
    out->route = NULL;
    struct route_match tried;
    const struct route_key key = key_of(path);
    for (size_t i = 0; i < table->count; i++) {
        const struct route *row = &table->routes[i];
        if (!may_fit(&table->keys[i], &key))
            continue;
        if (out->route && !is_more_exact(row->pattern, out->route->pattern))
            continue;
        if (!fits(row->pattern, path, &tried))
            continue;
        methods |= methods_of(row);
        if (methods_of(row) & 1U << method) {
            out->route = row;
            out->parameter_count = tried.parameter_count;
            memcpy(out->parameters, tried.parameters,
                   tried.parameter_count * sizeof(tried.parameters[0]));
        }
    }
    if (out->route)
        return ROUTE_FOUND;
    write_allow(out->allow, methods);
    return methods ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}

const struct route_parameter *route_parameter(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->parameter_count; i++) {
        const struct route_parameter *p = &match->parameters[i];
        if (strlen(name) == p->name_len && memcmp(p->name, name, p->name_len) == 0)
            return p;
    }
    return NULL;
}

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyz_", text[i]))
            return false;
    }
    return len > 0 && len < ROUTE_PARAMETER_MAX_BYTES;
}

static bool is_pattern(const char *pattern)
{
    size_t names = 0;
    if (*pattern != '/')
        return false;
    while (*pattern == '/') {
        struct segment segment;
        const char *begin = pattern + 1;
        pattern = read_segment(&segment, begin);
        bool has_braces = memchr(begin, '{', (size_t)(pattern - begin)) != NULL;
        if (segment.kind == KIND_TEXT && has_braces)
            return false;
        if (segment.kind != KIND_TEXT &&
            (pattern[-1] != '}' || !is_name(segment.text, segment.len) ||
             ++names > ROUTE_PARAMETER_MAX))
            return false;
        if (segment.kind == KIND_REST && *pattern)
            return false;
    }
    return true;
}

/* Whether two patterns have text and names at the same places, and the same text. */
static bool is_same_shape(const char *a, const char *b)
{
    while (*a == '/' && *b == '/') {
        struct segment one, other;
        a = read_segment(&one, a + 1);
        b = read_segment(&other, b + 1);
        if (one.kind != other.kind)
            return false;
        if (one.kind == KIND_TEXT &&
            (one.len != other.len || memcmp(one.text, other.text, one.len) != 0))
            return false;
    }
    return !*a && !*b;
}

const char *route_check(const struct route *routes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_pattern(routes[i].pattern))
            return routes[i].pattern;
        for (size_t k = 0; k < i; k++) {
            if (methods_of(&routes[i]) & methods_of(&routes[k]) &&
                is_same_shape(routes[i].pattern, routes[k].pattern))
                return routes[i].pattern;
        }
    }
    return NULL;
}
