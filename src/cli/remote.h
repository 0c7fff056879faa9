/* remote.h - commands that a server carries out: their rows are here, what they do is in client/
 *
 * `cove` is linked statically and starts in a millisecond; name resolution, proxies and TLS would
 * end both. So it knows these commands only by their rows, for help and completion, and has
 * cove-client carry them out (docs/decisions/0023). Both programs read the same rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"

struct cli;

enum remote_verb {
    REMOTE_NONE,
    REMOTE_SESSION_LIST,
    REMOTE_SESSION_CREATE,
    REMOTE_SESSION_SHOW,
    REMOTE_SESSION_RM,
    REMOTE_SESSION_EXTEND,
    REMOTE_SESSION_RESET,
    REMOTE_SESSION_INTERRUPT,
    REMOTE_EXEC,
    REMOTE_LOGS,
    REMOTE_CP,
    REMOTE_TEMPLATE_LIST,
    REMOTE_TEMPLATE_SHOW,
    REMOTE_TEMPLATE_CREATE,
    REMOTE_TEMPLATE_UPDATE,
    REMOTE_TEMPLATE_RM,
    REMOTE_KEY_LIST,
    REMOTE_KEY_CREATE,
    REMOTE_KEY_RM,
    REMOTE_WORKSPACE_LIST,
    REMOTE_WORKSPACE_SHOW,
    REMOTE_WORKSPACE_SAVE,
    REMOTE_WORKSPACE_RESTORE,
    REMOTE_WORKSPACE_RM,
    REMOTE_TOP,
    REMOTE_MCP,
    REMOTE_COUNT
};

/* Carries it out and answers the exit status: in `cove` by becoming cove-client. */
int remote_run(struct cli *cli, enum remote_verb verb, void *options, int argc, char **argv);

/* `cove mcp`: in `cove` with a server of its own unless it is told of one, in cove-client with the
 * one that it is told of. */
int mcp_run(struct cli *cli, void *options, int argc, char **argv);

/* --- what the options of the rows fill; 0 and NULL: not given ----------------------------------
 */

struct resource_options {
    uint64_t memory_bytes, disk_bytes, cpus_milli, pids;
};

struct session_list_options {
    bool all;
    char *state, *template, *metadata;
};

struct session_create_options {
    char *template, *language, *name;
    uint64_t ttl_ms, idle_ms;
    struct resource_options resources;
    struct option_list env, metadata;
    unsigned network; /* enum network_policy, and behind them: the template's */
    struct option_list allow, secrets;
};

struct exec_options {
    char *code, *language, *stdin_file;
    uint64_t timeout_ms;
    struct option_list files, env;
    bool may_queue, is_detached;
};

struct logs_options {
    bool follow;
    uint64_t limit;
};

struct template_options {
    char *description, *language, *image, *file;
    struct resource_options resources;
    struct option_list env, preload;
    uint64_t timeout_ms, ttl_ms, idle_ms;
    char *pool; /* MIN:MAX */
};

struct key_create_options {
    char *name;
    struct option_list scopes;
    uint64_t expires_ms, rate_per_minute;
    uint64_t sessions;
    struct resource_options quota;
};

/* Rows that several commands have; `at` is where their struct has its struct resource_options. */
#define REMOTE_RESOURCE(at, field) ((at) + offsetof(struct resource_options, field))
/* clang-format off */
#define REMOTE_RESOURCE_ROWS(at)                                                                   \
    {.name = "memory",                                                                             \
     .type = OPTION_SIZE,                                                                          \
     .offset = REMOTE_RESOURCE(at, memory_bytes),                                                  \
     .min = 1,                                                                                     \
     .help = "Memory, files included"},                                                            \
    {.name = "cpus",                                                                               \
     .type = OPTION_MILLI,                                                                         \
     .offset = REMOTE_RESOURCE(at, cpus_milli),                                                    \
     .min = 1,                                                                                     \
     .help = "Processor time per second of wall time, in cores"},                                  \
    {.name = "pids",                                                                               \
     .type = OPTION_U64,                                                                           \
     .offset = REMOTE_RESOURCE(at, pids),                                                          \
     .min = 1,                                                                                     \
     .help = "Processes and threads at one time"},                                                 \
    {.name = "disk",                                                                               \
     .type = OPTION_SIZE,                                                                          \
     .offset = REMOTE_RESOURCE(at, disk_bytes),                                                    \
     .min = 1,                                                                                     \
     .help = "Bytes that files may hold"}
/* clang-format on */

struct top_options {
    uint64_t interval_ms;
};

struct mcp_options {
    char *connect; /* NULL: a server of its own */
};
