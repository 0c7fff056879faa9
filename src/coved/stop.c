/* stop.c - the way out: requests first, then what they used, in the opposite order of the start */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>

#include "api/metrics.h"
#include "base/memory.h"
#include "core/workspace.h"
#include "coved/coved.h"

#define DRAIN_MS 5000 /* less than the spawner waits before it kills us */

static void on_drained(void *ctx)
{
    struct coved *c = ctx;
    loop_stop(c->loop);
}

void stop_now(struct coved *c, int status)
{
    if (!c->is_stopping || status)
        c->status = status;
    c->is_stopping = true;
    loop_stop(c->loop);
}

void stop_begin(struct coved *c)
{
    if (c->is_stopping || !c->http) {
        stop_now(c, c->status);
        return;
    }
    c->is_stopping = true;
    c->api.is_draining = true;
    log_info(&c->log, "stopping", LOG_U64("connections", http_server_counts(c->http).connections));
    mcp_door_stop(c->mcp);
    http_server_drain(c->http, DRAIN_MS, on_drained, c);
}

/* The spawner takes a client that hangs up for one that has gone: it kills who lingers, and starts
 * another. So that is left to the end of the process, however long the rest takes: this has no
 * owner. */
static void stay_on_the_line(void)
{
    (void)!fcntl(SPAWN_CLIENT_FD, F_DUPFD_CLOEXEC, SPAWN_CLIENT_FD + 1);
}

/* The store answers what is under way while it is freed, so those who asked come after it. */
void stop_release(struct coved *c)
{
    stay_on_the_line();
    log_tell_loss(&c->log);
    for (size_t i = 0; i < COVED_SIGNALS; i++) {
        if (c->signals[i])
            loop_signal_free(c->signals[i]);
    }
    http_server_free(c->http);
    scoped_close_fd(&c->trust_fd);
    scoped_close_fd(&c->listen_fd);
    node_free(c->beats);
    upkeep_stop(c->upkeep);
    workspaces_stop(c->api.workspaces);
    executors_stop(c->executors);
    if (c->plane)
        plane_flush(c->plane);
    store_free(c->store);
    archive_free(c->archive);
    workspaces_free(c->api.workspaces);
    attempt_free_all(&c->api);
    upkeep_free(c->upkeep);
    executors_free(c->executors);
    plane_free(c->plane);
    mcp_door_free(c->mcp);
    uploads_free(c->uploads);
    placing_free_all(&c->api);
    storage_free(c->storage);
    if (c->catalog)
        catalog_free(c->catalog);
    builder_free(c->builder);
    gateway_free(c->gateway);
    if (c->spawner)
        spawner_client_free(c->spawner);
    if (c->capacity)
        capacity_free(c->capacity);
    auth_free(c->auth);
    shelf_free(c->shelf);
    api_table_free(c->table);
    metrics_free(c->api.metrics);
    tls_free(c->tls);
    if (c->loop)
        loop_free(c->loop);
    for (char **host = c->hosts; host && *host; host++)
        free(*host);
    free(c->hosts);
    free(c->origins);
    free(c->dir);
    free(c->database);
    free(c->copier);
    free(c->installers);
    free(c->node);
    free(c->address);
    free(c->url);
    free(c->token_file);
}
