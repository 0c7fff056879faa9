/* template.h - a named recipe for sandboxes, as people write it and the store keeps it
 *
 * The table below reads it from a request or from the store, and makes the schema that
 * /openapi.json shows. What it asks for is checked against what the operator allows when it is
 * written, and once more when a session is made from it: ceilings may have been lowered since. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/params.h"
#include "core/network.h"
#include "core/requirement.h"
#include "wire/spawn.h"

/* What one sandbox may use; 0: the usual amount. */
struct resource_spec {
    uint64_t memory_bytes, disk_bytes;
    double cpus;
    int64_t inodes, pids, open_files;
    int64_t forks; /* how often a session can be forked */
};

struct pool_spec {
    int64_t min, max;
};

struct template_spec {
    char *name;
    char *description; /* NULL: none */
    char *language;
    char *image; /* its tag; NULL: the first that has the language */
    struct resource_spec resources;
    struct param_map env;
    struct param_strings preload;      /* modules that its interpreters have imported */
    struct param_strings requirements; /* packages that its sandboxes have */
    struct network_spec network;
    struct pool_spec pool;
    uint64_t timeout_ms;      /* of an execution that asks for no other; 0: the usual */
    uint64_t output_bytes;    /* the same, of what is kept of each of its streams */
    uint64_t ttl_ms, idle_ms; /* of a session; 0: the usual */
};

/* What it is to become: a document as it was read may be sent back with other values. */
struct template_change {
    struct template_spec spec; /* the first, so that one list of rows serves both */
    int64_t version;           /* of what is changed; 0: any */
    char *id;                  /* must be its own; the others are not looked at */
    char *created_at, *updated_at, *problem;
};

/* The row of a list of packages, which every table has that can ask for some. */
#define REQUIREMENTS_ROW(at, text)                                                                 \
    {                                                                                              \
        .name = "requirements", .other_name = "packages", .type = PARAM_STRINGS, .offset = (at),   \
        .max_len = REQUIREMENTS_MAX, .example = "[\"humanize\"]", .help = (text)                   \
    }

/* The row of how much output is kept, of every table that can ask for another amount. */
#define TEMPLATE_OUTPUT_MIN_BYTES 1024
#define OUTPUT_ROW(at, text)                                                                       \
    {                                                                                              \
        .name = "output_bytes", .type = PARAM_SIZE, .offset = (at),                                \
        .min = TEMPLATE_OUTPUT_MIN_BYTES, .max = 1e15, .example = "65536", .help = (text)          \
    }

extern const struct param_table template_table, template_change_table, resource_table;

/* What the operator grants: to whom asks for nothing, and at most. */
struct template_bounds {
    struct spawn_limits usual, most; /* lifetime_ms: of a session */
    uint64_t timeout_ms, timeout_max_ms;
    uint64_t output_bytes; /* both: a server holds what its executions print in memory */
    uint64_t idle_ms;
    struct network_bounds network;
};

/* The limits of a sandbox: the request's where it says something, else the template's, else the
 * usual. `over` may be NULL. A disk that nobody chose shrinks with the memory, in which files live.
 * ERROR_INVALID names the field, the value and the ceiling. */
MUST_CHECK int template_limits(struct spawn_limits *out, const struct template_bounds *bounds,
                               const struct resource_spec *spec, const struct resource_spec *over,
                               struct error *err);

/* What is kept of each stream of an execution: as asked (0: nothing was), else the usual, which is
 * the most, too. ERROR_INVALID as above. */
MUST_CHECK int template_output(uint64_t *out, uint64_t asked, uint64_t most, struct error *err);

/* Names that people give: letters, digits, ".", "_" and "-", up to 64. */
bool template_name_is_valid(const char *text);
bool template_variable_is_valid(const char *text); /* a name in an environment */
