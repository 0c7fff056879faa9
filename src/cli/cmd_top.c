/* cmd_top.c - the row of `cove top`; client/client_top.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "interval",
     .short_name = 'i',
     .type = OPTION_DURATION_MS,
     .offset = offsetof(struct top_options, interval_ms),
     .preset = "1s",
     .min = 100,
     .max = 3600000,
     .help = "Time between two looks"},
};

const struct command cmd_top = {
    .name = "top",
    .summary = "Watch the sessions and the load of a server",
    .usage = "[OPTIONS]",
    .description =
        "A live view; q or Ctrl-C leaves it, the arrow keys move through the sessions. Where "
        "standard output is no terminal it prints one snapshot.",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct top_options),
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_TOP,
};
