/* mcp_version.c - the table, newest first */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_version.h"

#include <string.h>

#include "base/macros.h"

/* clang-format off */
static const struct mcp_version versions[] = {
    {"2026-07-28", MCP_MODERN, MCP_HAS_LINKS | MCP_HAS_STRUCTURE | MCP_HAS_RESULT_TYPE, -32602},
    {"2025-11-25", MCP_LEGACY, MCP_HAS_LINKS | MCP_HAS_STRUCTURE | MCP_HAS_PRIMING,     -32002},
    {"2025-06-18", MCP_LEGACY, MCP_HAS_LINKS | MCP_HAS_STRUCTURE,                       -32002},
    {"2025-03-26", MCP_LEGACY, 0,                                                       -32002},
    {"2024-11-05", MCP_LEGACY, 0,                                                       -32002},
};
/* clang-format on */

const struct mcp_version *mcp_version_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (strcmp(versions[i].name, name) == 0)
            return &versions[i];
    }
    return NULL;
}

const struct mcp_version *mcp_version_newest(enum mcp_era era)
{
    size_t i = 0;
    while (versions[i].era != era)
        i++;
    return &versions[i];
}

bool mcp_version_has(const struct mcp_version *version, enum mcp_traits trait)
{
    return version->traits & trait;
}

json_t *mcp_version_names(enum mcp_era era)
{
    json_t *names = json_array();
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (versions[i].era == era)
            json_array_append_new(names, json_string(versions[i].name));
    }
    return names;
}
