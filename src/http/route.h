/* route.h - which handler answers a method and a path: one table, matched without any state
 *
 * A pattern is a path whose segments are text or names in braces: "/sessions/{id}/files/{path*}".
 * {id} stands for one segment that is not empty, {path*} for all that is left, at least one; it
 * comes last. When several rows fit a path, the one that is text where the other has a name wins,
 * from left to right, wherever it stands in the table. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/method.h"

#define ROUTE_PARAMETER_MAX       8
#define ROUTE_ALLOW_MAX_BYTES     64
#define ROUTE_PARAMETER_MAX_BYTES 32 /* length of a name in a pattern */

struct http_request;

enum route_flags {
    ROUTE_BODY_STREAMED = 1 << 0, /* the handler is called at the head and reads the body itself */
};

struct route {
    enum method method; /* GET answers HEAD as well */
    const char *pattern;
    unsigned scope;  /* what the caller must be allowed; for whoever authorizes */
    size_t body_max; /* bytes; 0: the request must have no body */
    unsigned flags;
    void (*handler)(struct http_request *request, void *ctx);
};

struct route_parameter {
    const char *name; /* borrowed from the pattern, not NUL-terminated */
    size_t name_len;
    const char *value; /* borrowed from the path, not NUL-terminated */
    size_t value_len;
};

struct route_match {
    const struct route *route;
    struct route_parameter parameters[ROUTE_PARAMETER_MAX];
    size_t parameter_count;
    char allow[ROUTE_ALLOW_MAX_BYTES]; /* for ROUTE_NO_METHOD: "GET, HEAD, DELETE" */
};

enum route_answer { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };

/* What can be said of a row without its pattern: by this nearly all of a table are told from a
 * path in one look at a few cache lines. */
struct route_key {
    uint32_t slashes;
    bool is_rest;  /* ends in {path*} */
    bool has_last; /* its last segment is text... */
    uint32_t last; /* ...of which this is a sum */
};

struct route_table {
    const struct route *routes;
    struct route_key *keys;
    size_t count;
};

/* `routes` are borrowed until the release. */
void route_table_init(struct route_table *table, const struct route *routes, size_t count);
void route_table_release(struct route_table *table);

/* `path` is decoded, as url_parse() leaves it. *out is filled as far as the answer says. */
enum route_answer route_find(const struct route_table *table, enum method method, const char *path,
                             struct route_match *out);

const struct route_parameter *route_parameter(const struct route_match *match, const char *name);

/* NULL, or what is wrong with a table (for a test of it): a pattern that cannot be, or two rows
 * with the same method that fit the same paths. */
const char *route_check(const struct route *routes, size_t count);
