/* mcp_methods.c - the table of methods, and those that are about the conversation itself */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mcp/mcp_inside.h"

#define BOTH (MCP_LEGACY | MCP_MODERN)

unsigned mcp_offers(const struct mcp_service *s)
{
    static const unsigned changes =
        MCP_TELLS_TOOLS | MCP_TELLS_PROMPTS | MCP_TELLS_RESOURCES | MCP_TELLS_UPDATES | MCP_TASKS;
    return (s->tools ? MCP_NEEDS_TOOLS : 0u) | (s->prompts ? MCP_NEEDS_PROMPTS : 0u) |
           (s->read_resource ? MCP_NEEDS_RESOURCES : 0u) |
           (s->complete ? MCP_NEEDS_COMPLETIONS : 0u) |
           (s->features & MCP_LOGS ? MCP_NEEDS_LOGS : 0u) |
           (s->features & MCP_TELLS_UPDATES ? MCP_NEEDS_UPDATES : 0u) |
           (s->features & MCP_TASKS ? MCP_NEEDS_TASKS : 0u) |
           (s->features & changes ? MCP_NEEDS_CHANGES : 0u);
}

/* --- the conversation ------------------------------------------------------------------------- */

/* What is offered, as clients are told: one row for each capability and each flag of one. */
static json_t *make_capabilities(const struct mcp_server *server)
{
    static const struct {
        unsigned need;
        const char *name;
    } rows[] = {{MCP_NEEDS_TOOLS, "tools"},
                {MCP_NEEDS_PROMPTS, "prompts"},
                {MCP_NEEDS_RESOURCES, "resources"},
                {MCP_NEEDS_COMPLETIONS, "completions"},
                {MCP_NEEDS_LOGS, "logging"}};
    static const struct {
        unsigned feature;
        const char *name, *flag;
    } flags[] = {{MCP_TELLS_TOOLS, "tools", "listChanged"},
                 {MCP_TELLS_PROMPTS, "prompts", "listChanged"},
                 {MCP_TELLS_RESOURCES, "resources", "listChanged"},
                 {MCP_TELLS_UPDATES, "resources", "subscribe"}};
    json_t *all = json_object();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (server->offers & rows[i].need)
            json_object_set_new(all, rows[i].name, json_object());
    }
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (server->service->features & flags[i].feature)
            json_object_set_new(json_object_get(all, flags[i].name), flags[i].flag, json_true());
    }
    return all;
}

static void add_instructions(const struct mcp_service *service, json_t *result)
{
    scoped_free char *text = service->instructions ? service->instructions(service->ctx) : NULL;
    if (text)
        json_object_set_new(result, "instructions", json_text(text, strlen(text)));
}

static json_t *make_info(const struct mcp_service *service)
{
    json_t *info = json_pack("{s:s, s:s}", "name", service->name, "version", service->version);
    if (service->title)
        json_object_set_new(info, "title", json_string(service->title));
    if (service->description)
        json_object_set_new(info, "description", json_string(service->description));
    return info;
}

/* A version that is not known is answered with the newest: the client decides whether it goes on.
 */
void mcp_handle_initialize(struct mcp_call *call)
{
    struct mcp_peer *peer = call->peer;
    const char *wanted = json_string_value(json_object_get(mcp_params(call), "protocolVersion"));
    json_t *capabilities = json_object_get(mcp_params(call), "capabilities");
    if (!wanted || !json_is_object(capabilities)) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL,
                 "initialize needs protocolVersion (text) and capabilities (an object)");
        return;
    }
    const struct mcp_version *version = mcp_version_find(wanted);
    peer->version =
        version && version->era == MCP_LEGACY ? version : mcp_version_newest(MCP_LEGACY);
    call->version = peer->version;
    json_decref(peer->capabilities);
    peer->capabilities = json_incref(capabilities);
    mcp_peer_listen(peer);
    json_t *result =
        json_pack("{s:s, s:o, s:o}", "protocolVersion", peer->version->name, "capabilities",
                  make_capabilities(peer->server), "serverInfo", make_info(peer->server->service));
    add_instructions(peer->server->service, result);
    mcp_answer(call, result);
}

void mcp_handle_discover(struct mcp_call *call)
{
    const struct mcp_server *server = call->peer->server;
    json_t *result = json_pack("{s:o, s:o}", "supportedVersions", mcp_version_names(MCP_MODERN),
                               "capabilities", make_capabilities(server));
    if (server->offers & MCP_NEEDS_TASKS)
        json_object_set_new(json_object_get(result, "capabilities"), "extensions",
                            json_pack("{s:{}}", MCP_TASKS_EXTENSION));
    add_instructions(server->service, result);
    mcp_answer(call, result);
}

static void on_ping(struct mcp_call *call)
{
    mcp_answer(call, json_object());
}

static void on_set_level(struct mcp_call *call)
{
    int level = mcp_level_find(json_string_value(json_object_get(mcp_params(call), "level")));
    if (level < 0) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL,
                 "level: must be debug, info, notice, warning, error, critical, alert or "
                 "emergency");
        return;
    }
    call->peer->level = (enum mcp_level)level;
    mcp_answer(call, json_object());
}

static void on_complete(struct mcp_call *call)
{
    const json_t *ref = json_object_get(mcp_params(call), "ref");
    const json_t *argument = json_object_get(mcp_params(call), "argument");
    if (!json_is_string(json_object_get(ref, "type")) ||
        !json_is_string(json_object_get(argument, "name")) ||
        !json_is_string(json_object_get(argument, "value"))) {
        mcp_fail(call, RPC_INVALID_PARAMS, NULL,
                 "completion/complete needs ref.type, argument.name and argument.value");
        return;
    }
    call->peer->server->service->complete(call);
}

/* --- the table -------------------------------------------------------------------------------- */

/* clang-format off */
static const struct mcp_method methods[] = {
    {"initialize",               MCP_LEGACY, 0,                     MCP_UNCACHED,        NULL,   mcp_handle_initialize},
    {"ping",                     MCP_LEGACY, 0,                     MCP_UNCACHED,        NULL,   on_ping},
    {"logging/setLevel",         MCP_LEGACY, MCP_NEEDS_LOGS,        MCP_UNCACHED,        NULL,   on_set_level},
    {"resources/subscribe",      MCP_LEGACY, MCP_NEEDS_UPDATES,     MCP_UNCACHED,        NULL,   mcp_handle_subscribe},
    {"resources/unsubscribe",    MCP_LEGACY, MCP_NEEDS_UPDATES,     MCP_UNCACHED,        NULL,   mcp_handle_unsubscribe},
    {"server/discover",          MCP_MODERN, 0,                     MCP_CACHED_LIST,     NULL,   mcp_handle_discover},
    {"subscriptions/listen",     MCP_MODERN, MCP_NEEDS_CHANGES,     MCP_UNCACHED,        NULL,   mcp_handle_listen},
    {"tools/list",               BOTH,       MCP_NEEDS_TOOLS,       MCP_CACHED_LIST,     NULL,   mcp_handle_tools_list},
    {"tools/call",               BOTH,       MCP_NEEDS_TOOLS,       MCP_UNCACHED,        "name", mcp_handle_tools_call},
    {"prompts/list",             BOTH,       MCP_NEEDS_PROMPTS,     MCP_CACHED_LIST,     NULL,   mcp_handle_prompts_list},
    {"prompts/get",              BOTH,       MCP_NEEDS_PROMPTS,     MCP_UNCACHED,        "name", mcp_handle_prompts_get},
    {"resources/list",           BOTH,       MCP_NEEDS_RESOURCES,   MCP_CACHED_RESOURCE, NULL,   mcp_handle_resources_list},
    {"resources/templates/list", BOTH,       MCP_NEEDS_RESOURCES,   MCP_CACHED_LIST,     NULL,   mcp_handle_templates_list},
    {"resources/read",           BOTH,       MCP_NEEDS_RESOURCES,   MCP_CACHED_RESOURCE, "uri",  mcp_handle_resources_read},
    {"tasks/get",                MCP_MODERN, MCP_NEEDS_TASKS,       MCP_UNCACHED,        "taskId", mcp_handle_task_get},
    {"tasks/update",             MCP_MODERN, MCP_NEEDS_TASKS,       MCP_UNCACHED,        "taskId", mcp_handle_task_update},
    {"tasks/cancel",             MCP_MODERN, MCP_NEEDS_TASKS,       MCP_UNCACHED,        "taskId", mcp_handle_task_cancel},
    {"completion/complete",      BOTH,       MCP_NEEDS_COMPLETIONS, MCP_UNCACHED,        NULL,   on_complete},
};
/* clang-format on */

const struct mcp_method *mcp_method_find(const struct mcp_server *server, const char *name,
                                         enum mcp_era era)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        const struct mcp_method *m = &methods[i];
        if (m->eras & era && (m->needs & server->offers) == m->needs && strcmp(m->name, name) == 0)
            return m;
    }
    return NULL;
}
