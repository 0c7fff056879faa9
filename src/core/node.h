/* node.h - this machine as others see it in the store: its heartbeat, its capacity and load */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/json.h"
#include "core/capacity.h"
#include "core/plane.h"

#define NODE_BEAT_MS 5000
#define NODE_LOST_MS 16000 /* without a beat: three were missed */

struct node;

/* Borrowed as long as the node lives. */
struct node_order {
    struct loop *loop;
    struct store *store;
    const struct plane *plane;
    const struct capacity *capacity; /* NULL: no limit */
    const struct log *log;
    const char *id;
    uint64_t epoch; /* as store_begin_node() told */
    /* Another epoch has begun: somebody else is this node now, and this process is to stop, without
     * writing anything. Called once, from the loop; may free the node. */
    void (*replaced)(void *ctx);
    void *ctx;
};

/* Beats at once, and from then on. A beat that fails is tried again with the next. */
struct node *node_new(const struct node_order *order);
void node_free(struct node *node);
SCOPED_DEFINE(node)

/* {"capacity": {"sessions", "max_sessions"}, "load": {"sessions", "running", "queued"}}; new.
 *   capacity.sessions      sandboxes that live here, parked ones included
 *   capacity.max_sessions  that may; null: no limit is set
 *   load                   sessions of clients; executions that run, and that wait */
json_t *node_figures(const struct plane *plane, const struct capacity *capacity);
