/* cmd_mcp.c - the row of `cove mcp`; mcp_private.c and client/client_mcp.c carry it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct option_row rows[] = {
    {.name = "connect",
     .type = OPTION_STRING,
     .offset = offsetof(struct mcp_options, connect),
     .min = 1,
     .arg = "URL",
     .help = "Use a server that runs: http[s]://HOST[:PORT], or unix:PATH. Show it a key by "
             "--token, COVE_TOKEN or COVE_TOKEN_FILE"},
};

const struct command cmd_mcp = {
    .name = "mcp",
    .summary = "Offer sandboxes to an assistant: MCP on standard input and output",
    .usage = "[OPTIONS]",
    .description =
        "For programs that start their tools themselves. Needs no server and no configuration: it "
        "starts a private one, which ends with it and leaves nothing. All options of `cove serve` "
        "are for that one.\n\n"
        "  claude mcp add cove -- cove mcp\n"
        "  {\"mcpServers\": {\"cove\": {\"command\": \"cove\", \"args\": [\"mcp\"]}}}\n\n"
        "Standard output has messages of MCP and nothing else. The log is in --log-file, else in "
        "cove/mcp.log below $XDG_STATE_HOME (~/.local/state; /var/log as root); at 4 MiB it is set "
        "aside as mcp.log.1.\n\n"
        "At the end of standard input requests that run have one second to be answered; what runs "
        "then is killed.",
    .options = rows,
    .option_count = ARRAY_LEN(rows),
    .options_size = sizeof(struct mcp_options),
    .config_group = CONFIG_GROUP_ALL,
    .has_no_arguments = true,
    .run = mcp_run,
};
