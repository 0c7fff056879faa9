/* mcp_state.h - what a client carries for us, so that we need not remember it
 *
 * The text is opaque to the client and not secret: signed, so that it comes back as it was, for the
 * same purpose, from the same caller, and in time. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"

#define MCP_STATE_KEY_BYTES 32
#define MCP_STATE_TTL_S     3600
#define MCP_STATE_MAX_BYTES (64 * 1024) /* as text */

struct mcp_state_key {
    uint8_t bytes[MCP_STATE_KEY_BYTES];
};

void mcp_state_draw_key(struct mcp_state_key *out);

/* What it is for; all of it is signed with the state. */
struct mcp_state_claim {
    const char *owner, *method, *name;
};

/* New text; NULL: the state is too large. */
char *mcp_state_seal(const struct mcp_state_key *key, const struct mcp_state_claim *claim,
                     const json_t *state, int64_t now_s);

/* New state; NULL: it is none of ours, not for this, or too old. */
json_t *mcp_state_open(const struct mcp_state_key *key, const struct mcp_state_claim *claim,
                       const char *text, int64_t now_s);
