/* toolbox.h - Cove as models see it: the tools, prompts and resources of MCP
 *
 * Each tool is a few steps on the plane, with the scopes and the ownership of REST. What a model
 * gets is text that fits it; what went wrong says what to do next. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"
#include "base/map.h"
#include "mcp/mcp.h"

struct toolbox;

struct toolbox *toolbox_new(struct api *api, unsigned flags); /* enum mcp_door_flags */
void toolbox_free(struct toolbox *box);                       /* after every call was answered */
SCOPED_DEFINE(toolbox)
const struct mcp_service *toolbox_service(const struct toolbox *box);

/* --- for the tools ---------------------------------------------------------------------------- */

struct api *toolbox_api(const struct mcp_call *call);
const struct plane_caller *toolbox_caller(const struct mcp_call *call);
struct map *
toolbox_rooms(const struct mcp_call *call); /* sessions that are being made, of room.c */

bool toolbox_has_scope(const struct mcp_call *call, unsigned scope);
/* False, and it is answered: the caller has no such scope. */
bool toolbox_check_scope(struct mcp_call *call, unsigned scope);

/* Answers with content (an array) and the same as data, in the shape of the tool's row; both are
 * taken. Who makes data only when it is wanted asks first, and gives NULL else. */
void toolbox_answer(struct mcp_call *call, json_t *content, json_t *data);
void toolbox_answer_text(struct mcp_call *call, const char *text, json_t *data);
bool toolbox_is_structured(const struct mcp_call *call);

/* Answers with an error of the plane, in words that help somebody who has tools and no REST. */
void toolbox_fail(struct mcp_call *call, const struct error *err);

/* The tables of tool_*.c and prompts.c. */
extern const struct mcp_tool tool_upload_file, tool_list_artifacts, tool_read_artifact,
    tool_close_session, tool_list_runners;
extern const struct mcp_prompt *const toolbox_prompts[];
extern const struct mcp_resource *const toolbox_templates[];
void tool_run_code(struct mcp_call *call);
void toolbox_read_resource(struct mcp_call *call, const char *uri);
void toolbox_list_resources(struct mcp_call *call);
void toolbox_complete(struct mcp_call *call);

#define SESSION_ROW(of, needed)                                                                    \
    {                                                                                              \
        .name = "session_id", .type = PARAM_STRING, .is_required = (needed),                       \
        .offset = offsetof(of, session), .max_len = 64, .check = template_name_is_valid,           \
        .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", .example = "\"analysis\"",                 \
        .help =                                                                                    \
            "A name of your own choice, or an id. What runs under the same name shares variables " \
            "and files; a new name begins a new session. It ends by close_session, or after a "    \
            "time without use."                                                                    \
    }

/* What run_code takes. */
struct run_wish {
    struct code_wish code; /* first: rows of REST's tables fit */
    char *session;
};
