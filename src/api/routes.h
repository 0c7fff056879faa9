/* routes.h - the groups that the table of routes is made of, one per file rest_*.c */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

extern const struct api_group rest_checkpoint_group;
extern const struct api_group rest_docs_group;
extern const struct api_group rest_execute_group;
extern const struct api_group rest_execution_group;
extern const struct api_group rest_files_group;
extern const struct api_group rest_health_group;
extern const struct api_group rest_internal_group;
extern const struct api_group rest_key_group;
extern const struct api_group rest_link_group;
extern const struct api_group rest_mcp_group;
extern const struct api_group rest_node_group;
extern const struct api_group rest_session_group;
extern const struct api_group rest_template_group;
extern const struct api_group rest_terminal_group;
extern const struct api_group rest_variable_group;
extern const struct api_group rest_workspace_group;
extern const struct api_group rest_upload_group;
