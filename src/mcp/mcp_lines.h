/* mcp_lines.h - MCP as lines: one message in each, both ways, over whatever carries bytes
 *
 * One conversation of both eras. Requests are served as they come and answered as they end, in any
 * order. What cannot be read is answered with an error and costs no more than its line; blank lines
 * are passed over, and lines may end with CR LF. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mcp/mcp_peer.h"

#define MCP_LINES_HELD_MAX (64 * MIB)  /* of requests that are under way */
#define MCP_LINES_FULL     (256 * KIB) /* that wait to be read: what may be left out is left out */

struct mcp_lines;

/* Borrowed as long as it lives. */
struct mcp_lines_order {
    struct mcp_server *server;
    struct mcp_user user;
    void (*send)(void *ctx, const char *text, size_t len); /* one line with its end; borrowed */
    size_t (*waiting)(void *ctx); /* bytes of it that nobody has read yet; NULL: none ever */
    /* Whether one more request may come in; false with *err. NULL: always. */
    bool (*admit)(void *ctx, const struct mcp_user *user, struct error *err);
    void (*idle)(void *ctx); /* the last request under way has ended; NULL: not asked */
    void *ctx;
    size_t line_max; /* 0: MCP_MESSAGE_MAX_BYTES */
};

struct mcp_lines *mcp_lines_new(const struct mcp_lines_order *order);
/* What is under way is cancelled, and nothing is called any more. */
void mcp_lines_free(struct mcp_lines *lines);
SCOPED_DEFINE(mcp_lines)

/* Bytes as they come, cut anywhere. */
void mcp_lines_take(struct mcp_lines *lines, const char *data, size_t len);
/* Nothing more comes: what has no end of a line is one, too. Who listens only is not waited for. */
void mcp_lines_end(struct mcp_lines *lines);

bool mcp_lines_is_busy(const struct mcp_lines *lines); /* requests are under way */
