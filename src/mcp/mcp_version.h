/* mcp_version.h - the versions of the protocol, and everything in which they differ
 *
 * Two eras: in the legacy one a client says initialize and has a session; in the modern one each
 * request says in its _meta which version it speaks. What else depends on the version is a column
 * here, so that no other file compares names of versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "codec/json.h"

enum mcp_era { MCP_LEGACY = 1 << 0, MCP_MODERN = 1 << 1 };

enum mcp_traits {
    MCP_HAS_LINKS = 1 << 0,      /* content of type resource_link */
    MCP_HAS_STRUCTURE = 1 << 1,  /* structuredContent */
    MCP_HAS_PRIMING = 1 << 2,    /* streams begin with an event that has an id and no data */
    MCP_HAS_RESULT_TYPE = 1 << 3 /* results say what they are, who made them, how long they hold */
};

struct mcp_version {
    const char *name;
    enum mcp_era era;
    unsigned traits;
    int not_found; /* code for a resource that is not there */
};

const struct mcp_version *mcp_version_find(const char *name); /* NULL: not spoken here */
const struct mcp_version *mcp_version_newest(enum mcp_era era);
bool mcp_version_has(const struct mcp_version *version, enum mcp_traits trait);

/* New: the names of all of an era, newest first. */
json_t *mcp_version_names(enum mcp_era era);
