/* mcp_door.h - MCP of a server: its tools, the protocol, the transport, as one thing */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scoped.h"

struct api;
struct mcp_door;

enum mcp_door_flags {
    MCP_DOOR_ALIASES = 1 << 0,    /* tools also have the names that other servers give them */
    MCP_DOOR_STRUCTURED = 1 << 1, /* results are data, too */
};

/* Sets api->mcp. When plane, catalog and auth are there. */
struct mcp_door *mcp_door_open(struct api *api, unsigned flags);
/* No new sessions; streams are closed, so that the server can drain. */
void mcp_door_stop(struct mcp_door *door);
void mcp_door_free(struct mcp_door *door); /* after HTTP server and plane, before auth and loop */
SCOPED_DEFINE(mcp_door)
