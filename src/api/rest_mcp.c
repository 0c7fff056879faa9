/* rest_mcp.c - /mcp: the doors of MCP, and where clients learn how to get in */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/routes.h"
#include "base/macros.h"
#include "mcp/mcp_http.h"

typedef void (*door_fn)(struct mcp_http *http, struct http_request *request,
                        const struct mcp_user *user);

/* From here on it is MCP's: nothing of REST's shapes is answered. */
static void pass(struct api_call *call, door_fn door)
{
    struct mcp_http *http = api_of(call)->mcp;
    struct http_request *r = api_take(call);
    if (!r)
        return;
    const struct api_user *user = http_user(r);
    door(http, r, &(struct mcp_user){.owner = user->caller.owner, .data = user});
}

static void on_post(struct api_call *call)
{
    pass(call, mcp_http_post);
}

static void on_get(struct api_call *call)
{
    pass(call, mcp_http_get);
}

static void on_delete(struct api_call *call)
{
    pass(call, mcp_http_delete);
}

/* RFC 9728. Tokens are the operator's or keys of ours, so no authorization server is named. */
static void on_metadata(struct api_call *call)
{
    json_t *scopes = json_array();
    for (size_t i = 0; i < SCOPE_COUNT; i++) {
        if (1u << i != SCOPE_INTERNAL)
            json_array_append_new(scopes, json_string(scope_info((enum scope_index)i)->word));
    }
    scoped_json json_t *resource = json_sprintf("%s/mcp", api_of(call)->public_url);
    api_answer(call, 200,
               json_pack("{s:O, s:s, s:o, s:[s]}", "resource", resource, "resource_name", "Cove",
                         "scopes_supported", scopes, "bearer_methods_supported", "header"));
}

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_POST, .pattern = "/mcp", .flags = API_ONLY_ROOT | API_APART | API_RESOURCE, .body_max = MCP_MESSAGE_MAX_BYTES,
     .handler = on_post, .id = "mcpSend", .tag = "mcp", .summary = "Send a message of MCP"},
    {.method = METHOD_GET, .pattern = "/mcp", .flags = API_ONLY_ROOT | API_APART | API_RESOURCE, .handler = on_get,
     .id = "mcpStream", .tag = "mcp", .summary = "Listen to a session of MCP"},
    {.method = METHOD_DELETE, .pattern = "/mcp", .flags = API_ONLY_ROOT | API_APART | API_RESOURCE, .handler = on_delete,
     .id = "mcpEnd", .tag = "mcp", .summary = "End a session of MCP"},
    {.method = METHOD_GET, .pattern = "/mcp/events", .flags = API_ONLY_ROOT | API_APART | API_RESOURCE, .handler = on_get,
     .id = "mcpEvents", .tag = "mcp", .summary = "Listen to what changes"},
    {.method = METHOD_GET, .pattern = "/.well-known/oauth-protected-resource", .flags = API_ONLY_ROOT | API_APART | API_OPEN,
     .handler = on_metadata, .id = "mcpResource", .tag = "mcp", .summary = "How to get in"},
    {.method = METHOD_GET, .pattern = API_METADATA, .flags = API_ONLY_ROOT | API_APART | API_OPEN,
     .handler = on_metadata, .id = "mcpResourceAtPath", .tag = "mcp", .summary = "How to get in"},
};
/* clang-format on */
const struct api_group rest_mcp_group = {rows, ARRAY_LEN(rows)};
