/* cmd_template.c - the rows of `cove template`; client/client_template.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "file",
     .short_name = 'f',
     .type = OPTION_STRING,
     .offset = offsetof(struct template_options, file),
     .arg = "FILE",
     .help = "Begin with this JSON document; - is standard input"},
    {.name = "description",
     .type = OPTION_STRING,
     .offset = offsetof(struct template_options, description),
     .arg = "TEXT",
     .help = "For people"},
    {.name = "language",
     .short_name = 'l',
     .type = OPTION_STRING,
     .offset = offsetof(struct template_options, language),
     .arg = "LANG",
     .help = "The language of its sessions"},
    {.name = "image",
     .short_name = 'i',
     .type = OPTION_STRING,
     .offset = offsetof(struct template_options, image),
     .arg = "NAME",
     .help = "Its root image (the first that has the language)"},
    REMOTE_RESOURCE_ROWS(offsetof(struct template_options, resources)),
    {.name = "env",
     .short_name = 'e',
     .type = OPTION_LIST,
     .offset = offsetof(struct template_options, env),
     .arg = "NAME=VALUE",
     .help = "Set a variable of every program in it"},
    {.name = "preload",
     .short_name = 'p',
     .type = OPTION_LIST,
     .offset = offsetof(struct template_options, preload),
     .arg = "MODULE",
     .help = "A module that its interpreters have imported"},
    {.name = "pool",
     .type = OPTION_STRING,
     .offset = offsetof(struct template_options, pool),
     .arg = "MIN:MAX",
     .help = "How many sessions are made in advance"},
    {.name = "timeout",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct template_options, timeout_ms),
     .min = 1,
     .help = "Time limit of an execution that has no other"},
    {.name = "ttl",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct template_options, ttl_ms),
     .min = 1000,
     .help = "Time after which a session ends, used or not"},
    {.name = "idle-timeout",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct template_options, idle_ms),
     .min = 1000,
     .help = "Time after which an unused session ends"},
};

static const struct command template_list = {
    .name = "list",
    .summary = "List templates",
    .usage = "[OPTIONS]",
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_TEMPLATE_LIST,
};

static const struct command template_show = {
    .name = "show",
    .summary = "Show a template as JSON",
    .usage = "TEMPLATE...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_TEMPLATE_SHOW,
};

static const struct command template_create = {
    .name = "create",
    .summary = "Create a template",
    .usage = "[OPTIONS] [NAME]",
    .description = "From options, from a document, or from a document that the options change.\n"
                   "\n"
                   "  cove template create data -l python -p numpy -p pandas --memory 1G",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct template_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_TEMPLATE_CREATE,
};

static const struct command template_update = {
    .name = "update",
    .summary = "Change a template",
    .usage = "[OPTIONS] TEMPLATE",
    .description =
        "The options change what they name and leave the rest; with --file, the document is "
        "what it becomes. Sessions that live keep what they were made with.",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct template_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_TEMPLATE_UPDATE,
};

static const struct command template_rm = {
    .name = "rm",
    .summary = "Remove templates that no live session has",
    .usage = "TEMPLATE...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_TEMPLATE_RM,
};

static const struct command *const verbs[] = {&template_list,   &template_show, &template_create,
                                              &template_update, &template_rm,   NULL};

const struct command cmd_template = {
    .name = "template",
    .summary = "Manage the recipes for sandboxes of a server",
    .usage = "COMMAND",
    .description = "TEMPLATE is an id (tpl_...) or a name.",
    .config_group = CONFIG_GROUP_CLIENT,
    .verbs = verbs,
};
