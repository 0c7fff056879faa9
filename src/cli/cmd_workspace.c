/* cmd_workspace.c - the rows of `cove workspace`; client/client_workspace.c carries it out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include "cli/cli.h"
#include "cli/remote.h"

static const struct command workspace_list = {
    .name = "list",
    .summary = "List saved workspaces",
    .usage = "[OPTIONS]",
    .config_group = CONFIG_GROUP_CLIENT,
    .has_no_arguments = true,
    .remote = REMOTE_WORKSPACE_LIST,
};

static const struct command workspace_show = {
    .name = "show",
    .summary = "Show saved workspaces",
    .usage = "ID...",
    .description = "ID is that of the session that it was saved from (ses_...).",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_WORKSPACE_SHOW,
};

static const struct command workspace_save = {
    .name = "save",
    .summary = "Save the files of sessions, to outlive them",
    .usage = "SESSION...",
    .description = "What did not change since the last save is not written again.\n"
                   "\n"
                   "  cove workspace save analysis\n"
                   "  cove session rm analysis\n"
                   "  cove workspace restore $(cove session create) ses_...",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_WORKSPACE_SAVE,
};

static const struct command workspace_restore = {
    .name = "restore",
    .summary = "Put saved files into a session",
    .usage = "SESSION ID",
    .description = "ID is that of the session that they were saved from. Files of the same names "
                   "are replaced, others stay.",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_WORKSPACE_RESTORE,
};

static const struct command workspace_rm = {
    .name = "rm",
    .summary = "Remove saved workspaces",
    .usage = "ID...",
    .description = "A session that lives keeps its files.",
    .config_group = CONFIG_GROUP_CLIENT,
    .remote = REMOTE_WORKSPACE_RM,
};

static const struct command *const verbs[] = {
    &workspace_list, &workspace_show, &workspace_save, &workspace_restore, &workspace_rm, NULL,
};

const struct command cmd_workspace = {
    .name = "workspace",
    .summary = "Save the files of sessions on a server, restore and remove them",
    .usage = "COMMAND",
    .config_group = CONFIG_GROUP_CLIENT,
    .verbs = verbs,
};
