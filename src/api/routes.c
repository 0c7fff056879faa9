/* routes.c - every route of the control plane */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/routes.h"

/* clang-format off */
const struct api_group *const api_groups[] = {
    &rest_checkpoint_group,
    &rest_docs_group,
    &rest_execute_group,
    &rest_execution_group,
    &rest_files_group,
    &rest_health_group,
    &rest_internal_group,
    &rest_key_group,
    &rest_link_group,
    &rest_mcp_group,
    &rest_node_group,
    &rest_session_group,
    &rest_template_group,
    &rest_terminal_group,
    &rest_variable_group,
    &rest_workspace_group,
    &rest_upload_group,
    NULL,
};
/* clang-format on */
