/* cmd_key.c - the rows of `cove key`; client/client_key.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "scope",
     .short_name = 's',
     .type = OPTION_LIST,
     .offset = offsetof(struct key_create_options, scopes),
     .arg = "SCOPE",
     .help = "What it may do: execute, sessions:read, sessions:write, files, templates:write, "
             "keys:admin, admin (the first four)"},
    {.name = "expires",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct key_create_options, expires_ms),
     .min = 1000,
     .help = "Time after which it is worth nothing (never)"},
    {.name = "rate",
     .type = OPTION_U64,
     .offset = offsetof(struct key_create_options, rate_per_minute),
     .min = 1,
     .arg = "N",
     .help = "Requests per minute (any number)"},
    {.name = "sessions",
     .type = OPTION_U64,
     .offset = offsetof(struct key_create_options, sessions),
     .min = 1,
     .arg = "N",
     .help = "Live sessions at a time (any number)"},
    {.name = "memory",
     .type = OPTION_SIZE,
     .offset = offsetof(struct key_create_options, quota.memory_bytes),
     .min = 1,
     .help = "Memory of all its live sessions together (any amount)"},
    {.name = "cpus",
     .type = OPTION_MILLI,
     .offset = offsetof(struct key_create_options, quota.cpus_milli),
     .min = 1,
     .help = "Cores of all of them together (any number)"},
    {.name = "disk",
     .type = OPTION_SIZE,
     .offset = offsetof(struct key_create_options, quota.disk_bytes),
     .min = 1,
     .help = "Files of all of them together (any amount)"},
};

static const struct command key_create = {
    .name = "create",
    .summary = "Create a key, and print it: it cannot be shown again",
    .usage = "[OPTIONS] NAME",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct key_create_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_KEY_CREATE,
};

static const struct command key_list = {
    .name = "list",
    .summary = "List keys",
    .usage = "[OPTIONS]",
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_KEY_LIST,
};

static const struct command key_rm = {
    .name = "rm",
    .summary = "Revoke keys",
    .usage = "KEY...",
    .description = "KEY is an id (key_...).",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_KEY_RM,
};

static const struct command *const verbs[] = {&key_create, &key_list, &key_rm, NULL};

const struct command cmd_key = {
    .name = "key",
    .summary = "Create, list and revoke keys of a server",
    .usage = "COMMAND",
    .config_group = CONFIG_GROUP_CLIENT,
    .verbs = verbs,
};
