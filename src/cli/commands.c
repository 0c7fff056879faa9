/* commands.c - in the order in which `cove help` lists them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stddef.h>

const struct command *const commands_all[] = {
    &cmd_run,   &cmd_repl,     &cmd_serve,   &cmd_mcp,       &cmd_session, &cmd_exec,   &cmd_cp,
    &cmd_logs,  &cmd_template, &cmd_key,     &cmd_workspace, &cmd_top,     &cmd_doctor, &cmd_image,
    &cmd_cache, &cmd_config,   &cmd_version, &cmd_help,      NULL,
};
