/* cmd_cp.c - the row of `cove cp`; client/client_cp.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/remote.h"

const struct command cmd_cp = {
    .name = "cp",
    .summary = "Copy files into a session, or out of it",
    .usage = "LOCAL SESSION:PATH | SESSION:PATH LOCAL",
    .description =
        "Copies a file, or a directory with all that is in it. PATH is relative to the workspace; "
        "what begins with /workspace/ means the same, and an empty one is the workspace itself. "
        "Into a directory that is there it goes under its own name, as with cp. LOCAL may be -: "
        "standard input, or output. A local name with a colon is written ./NAME.\n"
        "\n"
        "A file is replaced when all of it is there, on both sides. On a terminal a bar shows how "
        "far it is. With --json the server's object of a file that went in; of what came out, its "
        "local path and its size.",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_CP,
};
