/* client_commands.c - the commands that cove-client carries out */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "cli/commands.h"

const struct command *const commands_all[] = {
    &cmd_session,   &cmd_exec, &cmd_cp,  &cmd_logs,    &cmd_template, &cmd_key,
    &cmd_workspace, &cmd_top,  &cmd_mcp, &cmd_version, NULL,
};
