/* mcp_peer.h - the other side of a conversation, for transports
 *
 * A transport makes a peer for each conversation that has a state (a process at stdio, a session
 * over HTTP), or for a single request that has none. It hands in messages, and is told what to
 * send: what belongs to a request by that request's outlet, the rest by the peer's. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mcp/mcp.h"

#define MCP_CALLS_MAX         256 /* of one peer, under way */
#define MCP_ASKS_MAX          64  /* questions to one client that are open */
#define MCP_SUBSCRIPTIONS_MAX 256 /* resources that one client listens to */
#define MCP_URI_MAX_BYTES     8192

struct mcp_peer;

/* Where messages of one request go. `end` is the last call, exactly once: with the answer, or NULL
 * when it was cancelled. Messages are borrowed. */
struct mcp_outlet {
    void (*send)(void *ctx, const json_t *message);
    /* `status` is what HTTP says about it. */
    void (*end)(void *ctx, const json_t *message, int status);
    void (*break_off)(void *ctx);    /* see mcp_break_stream(); NULL: it cannot */
    void (*begin_stream)(void *ctx); /* what follows is many messages; NULL: it is one anyway */
};

struct mcp_peer_order {
    struct mcp_server *server;
    struct mcp_user user;
    /* What belongs to no request; NULL: there is no way for it. */
    void (*send)(void *ctx, const json_t *message);
    void *ctx;
    bool is_lasting; /* a conversation: initialize is for it. Else: a single request */
};

struct mcp_peer *mcp_peer_new(const struct mcp_peer_order *order);
/* The client has left: what it asked for is cancelled, and `send` is not called any more. It is
 * freed when the last of its calls is answered. */
void mcp_peer_close(struct mcp_peer *peer);

const struct mcp_user *mcp_peer_user(const struct mcp_peer *peer);
const struct mcp_version *mcp_peer_version(const struct mcp_peer *peer); /* NULL: not said yet */
bool mcp_peer_is_busy(const struct mcp_peer *peer);                      /* calls are under way */

/* From now on its `send` is told of everything that changes here; initialize does the same. */
void mcp_peer_listen(struct mcp_peer *peer);

/* Requests of its that do nothing but listen are ended without an answer. */
void mcp_peer_unlisten(struct mcp_peer *peer);

/* How a message came. */
struct mcp_delivery {
    const struct mcp_outlet *outlet;
    void *ctx;              /* of the outlet */
    struct mcp_call **slot; /* told while the call is under way, for mcp_call_cancel() */
    /* The value of a header, by its name in lower case; NULL: there are none (stdio). */
    const char *(*header)(void *ctx, const char *name);
};

/* A request: the outlet's `end` follows, maybe from inside. True for anything else: it was taken,
 * and nothing follows. The message is taken. */
bool mcp_receive(struct mcp_peer *peer, struct rpc_message *message,
                 const struct mcp_delivery *delivery);

/* The client has gone from one request, or does not want it any more. */
void mcp_call_cancel(struct mcp_call *call);
