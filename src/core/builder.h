/* builder.h - has package layers made: one build for all who want the same, in a sandbox of its own
 *
 * A build is a run (run.h) of the language's installer in the image that the packages are for. Who
 * asks for a layer that is there gets it at once. Who stops waiting does not stop the build. A
 * build that failed is forgotten: the next who asks has it tried again. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/capacity.h"
#include "core/gateway.h"
#include "core/packages.h"
#include "event/loop.h"
#include "runtime/spawner_client.h"

/* Whom this machine trusts: installers trust the same, so that an index of the operator's own can
 * be reached. */
#define BUILDER_CERTIFICATES "/etc/ssl/certs/ca-certificates.crt"

struct builder;
struct builder_waiter;

/* Borrowed as long as the builder lives. */
struct builder_order {
    struct loop *loop;
    struct spawner_client *spawner;
    struct capacity *capacity;     /* NULL: no limit */
    struct gateway *gateway;       /* by which installers reach the index, and nothing else... */
    struct network_bounds network; /* ...as the operator has it */
    const struct packages_source *source;
    struct spawn_limits limits; /* of a build */
    uint64_t timeout_ms;
    bool allow_degraded;
    /* What an installer says, while it works; NULL: nobody listens. */
    void (*said)(void *ctx, const void *data, size_t len);
    void *ctx;
};

/* The limits of a build whose files may take `disk_bytes`: they live in memory. */
void builder_limits(struct spawn_limits *out, uint64_t disk_bytes);

MUST_CHECK int builder_open(struct builder **out, const struct builder_order *order,
                            struct error *err);
void builder_free(
    struct builder *builder); /* nobody is told any more; after the spawner's client */
SCOPED_DEFINE(builder)

/* `err` is NULL: the layer can be mounted. */
typedef void (*builder_fn)(void *ctx, const struct error *err);

/* Has the layer of these packages made, unless it is there. `fn` comes once, later. The packages
 * are borrowed for the call. The answer is for builder_forget(). */
struct builder_waiter *builder_need(struct builder *builder, const struct packages *packages,
                                    builder_fn fn, void *ctx);
void builder_forget(struct builder_waiter *waiter); /* he is not told */

/* To be told of every event: the sandboxes of builds are unknown to others. */
void builder_on_event(struct builder *builder, const struct spawn_message *m);
