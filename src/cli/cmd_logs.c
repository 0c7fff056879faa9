/* cmd_logs.c - the row of `cove logs`; client/client_logs.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "follow",
     .short_name = 'f',
     .type = OPTION_BOOL,
     .offset = offsetof(struct logs_options, follow),
     .help = "Go on until it has ended; of a session, until that has ended"},
    {.name = "limit",
     .short_name = 'n',
     .type = OPTION_U64,
     .offset = offsetof(struct logs_options, limit),
     .preset = "20",
     .min = 1,
     .max = 500,
     .arg = "N",
     .help = "Of a session: its newest N executions"},
};

const struct command cmd_logs = {
    .name = "logs",
    .summary = "Show what executions have printed",
    .usage = "[OPTIONS] SESSION | EXECUTION",
    .description =
        "Of an execution (exe_...) its output, and how it ended; of a session that of each of "
        "its executions, the oldest first. What went to standard error goes there.\n"
        "\n"
        "With --json the documents of the server; with --follow as well, one line for each event.",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct logs_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_LOGS,
};
