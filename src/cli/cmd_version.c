/* cmd_version.c - `cove version` */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "codec/json.h"

static const char line[] = "cove " COVE_VERSION "\n";

static int run(struct cli *cli, void *options, int argc, char **argv)
{
    (void)options;
    (void)argc;
    (void)argv;
    struct error err;
    int status;
    if (cli->config.json) {
        scoped_json json_t *answer = json_pack("{s:s}", "version", COVE_VERSION);
        status = json_write(STDOUT_FILENO, answer, JSON_STYLE_COMPACT, &err);
    } else {
        status = fd_write_all(STDOUT_FILENO, line, sizeof(line) - 1, &err);
    }
    return status < 0 ? cli_fail(cli, &err) : 0;
}

const struct command cmd_version = {
    .name = "version",
    .summary = "Show the version",
    .usage = "[--json]",
    .ignores_config = true,
    .has_no_arguments = true,
    .run = run,
};
