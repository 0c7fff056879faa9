/* cmd_session.c - the rows of `cove session`; client/client_session.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/secret.h"

static const struct option_row list_rows[] = {
    {.name = "all",
     .short_name = 'a',
     .type = OPTION_BOOL,
     .offset = offsetof(struct session_list_options, all),
     .help = "Also those that have ended"},
    {.name = "state",
     .type = OPTION_STRING,
     .offset = offsetof(struct session_list_options, state),
     .arg = "STATE",
     .help = "Only those in this state"},
    {.name = "template",
     .type = OPTION_STRING,
     .offset = offsetof(struct session_list_options, template),
     .arg = "NAME",
     .help = "Only those of this template"},
    {.name = "metadata",
     .type = OPTION_STRING,
     .offset = offsetof(struct session_list_options, metadata),
     .arg = "KEY=VALUE",
     .help = "Only those with this note"},
};

static const struct command session_list = {
    .name = "list",
    .summary = "List sessions",
    .usage = "[OPTIONS]",
    .options = list_rows,
    .option_count = ARRAY_LEN(list_rows),
    .options_size = sizeof(struct session_list_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_SESSION_LIST,
};

/* The last stands for no choice. */
static const char *const policies[] = {"none", "packages", "allow", "template", NULL};

static const struct option_row create_rows[] = {
    {.name = "template",
     .short_name = 't',
     .type = OPTION_STRING,
     .offset = offsetof(struct session_create_options, template),
     .arg = "NAME",
     .help = "The recipe of its sandbox (that of the language)"},
    {.name = "language",
     .short_name = 'l',
     .type = OPTION_STRING,
     .offset = offsetof(struct session_create_options, language),
     .arg = "LANG",
     .help = "Its language (python, or the template's)"},
    {.name = "name",
     .short_name = 'n',
     .type = OPTION_STRING,
     .offset = offsetof(struct session_create_options, name),
     .arg = "NAME",
     .help = "A name by which it can be found instead of its id"},
    {.name = "ttl",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct session_create_options, ttl_ms),
     .min = 1000,
     .help = "Time after which it ends, used or not"},
    {.name = "idle-timeout",
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct session_create_options, idle_ms),
     .min = 1000,
     .help = "Time after which it ends when nobody uses it"},
    REMOTE_RESOURCE_ROWS(offsetof(struct session_create_options, resources)),
    {.name = "env",
     .short_name = 'e',
     .type = OPTION_LIST,
     .offset = offsetof(struct session_create_options, env),
     .arg = "NAME=VALUE",
     .help = "Set a variable of every execution in it"},
    {.name = "network",
     .type = OPTION_ENUM,
     .offset = offsetof(struct session_create_options, network),
     .preset = "template",
     .choices = policies,
     .arg = "POLICY",
     .help =
         "What it may reach: nothing, package indexes, the hosts of --allow, or the template's"},
    {.name = "allow",
     .type = OPTION_LIST,
     .offset = offsetof(struct session_create_options, allow),
     .arg = "HOST[:PORT]",
     .help = "Host that --network allow lets it reach; as *.NAME all below one"},
    SECRET_OPTION_ROW(offsetof(struct session_create_options, secrets)),
    {.name = "metadata",
     .type = OPTION_LIST,
     .offset = offsetof(struct session_create_options, metadata),
     .arg = "KEY=VALUE",
     .help = "A note of your own, by which sessions can be listed"},
};

static const struct command session_create = {
    .name = "create",
    .summary = "Create a session, and print its id",
    .usage = "[OPTIONS]",
    .description =
        "A session is a sandbox that lives on: variables, imports and files survive from one "
        "`cove exec` to the next.\n"
        "\n"
        "  id=$(cove session create)\n"
        "  cove exec $id -c 'x = 6 * 7'\n"
        "  cove exec $id -c x",
    .options = create_rows,
    .option_count = ARRAY_LEN(create_rows),
    .options_size = sizeof(struct session_create_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_SESSION_CREATE,
};

static const struct command session_show = {
    .name = "show",
    .summary = "Show a session",
    .usage = "SESSION...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_SESSION_SHOW,
};

static const struct command session_rm = {
    .name = "rm",
    .summary = "Terminate sessions, with everything in them",
    .usage = "SESSION...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_SESSION_RM,
};

static const struct command session_extend = {
    .name = "extend",
    .summary = "Let a session live so long from now on",
    .usage = "SESSION DURATION",
    .description = "DURATION is in seconds, or has a unit: 90m, 2h.",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_SESSION_EXTEND,
};

static const struct command session_reset = {
    .name = "reset",
    .summary = "Start a new interpreter in a session; its files stay",
    .usage = "SESSION...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_SESSION_RESET,
};

static const struct command session_interrupt = {
    .name = "interrupt",
    .summary = "Interrupt what runs in a session, as Ctrl-C does",
    .usage = "SESSION...",
    .description = "The session keeps its state. A second interrupt kills what runs.",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_SESSION_INTERRUPT,
};

static const struct command *const verbs[] = {
    &session_list,   &session_create, &session_show,      &session_rm,
    &session_extend, &session_reset,  &session_interrupt, NULL};

const struct command cmd_session = {
    .name = "session",
    .summary = "Create, list, use and end sessions of a server",
    .usage = "COMMAND",
    .description = "SESSION is an id (ses_...) or the name that was given to it.",
    .config_group = CONFIG_GROUP_CLIENT,
    .verbs = verbs,
};
