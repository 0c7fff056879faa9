/* start.c - the way in: spawner, store, templates, sessions of an earlier process, clients last
 *
 * Each step is asked for in the callback of the one before. Nobody is heard before everything that
 * he may ask for is there. Threads (the store's) begin when the process is confined already. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "api/observe.h"
#include "base/clock.h"
#include "base/memory.h"
#include "core/tier.h"
#include "coved/coved.h"
#include "coved/greet.h"
#include "coved/prepare.h"
#include "store/sqlite.h"

#define CONNECTIONS_MAX 16384
#define STATUS_AGAIN    1 /* the spawner starts the next one */

static int fail(struct coved *c, const struct error *err)
{
    greet_failure(c, err);
    if (c->loop)
        stop_now(c, SPAWN_REFUSAL);
    c->status = SPAWN_REFUSAL;
    return -1;
}

/* --- clients ---------------------------------------------------------------------------------- */

static int open_http(struct coved *c, struct error *err)
{
    struct http_server_config config = {.ctx = &c->server,
                                        .authorize = auth_authorize,
                                        .on_end = observe_request,
                                        .connection_max = CONNECTIONS_MAX};
    c->table = api_table_new();
    c->server = (struct api_server){.api = &c->api, .table = c->table};
    config.routes = api_table_routes(c->table, &config.route_count);
    prepare_guard(c, &config.guard);
    /* All who come from this machine have one address, so that would be a limit for all of them. */
    if (c->listen.is_loopback)
        config.connection_peer_max = CONNECTIONS_MAX;
    if (http_server_open(&c->http, c->loop, &config, err) < 0)
        return -1;
    c->api.server = c->http;
    const struct http_listen where = prepare_where(c);
    if (http_server_take(c->http, take_fd(&c->listen_fd), &where, err) < 0)
        return -1;
    if (!where.path)
        c->listen.port = http_server_port(c->http); /* it may have been any */
    return 0;
}

static void on_node_lost(void *ctx)
{
    struct coved *c = ctx;
    log_error(&c->log, "another server has begun with this database; leaving it alone");
    stop_now(c, 1);
}

static void begin_upkeep(struct coved *c)
{
    const struct node_order node = {.loop = c->loop,
                                    .store = c->store,
                                    .plane = c->plane,
                                    .capacity = c->capacity,
                                    .log = &c->log,
                                    .id = c->node,
                                    .epoch = c->api.epoch,
                                    .replaced = on_node_lost,
                                    .ctx = c};
    const struct upkeep_order order = {
        .loop = c->loop, .store = c->store, .log = &c->log, .retention_ms = c->config.retention_ms};
    c->beats = node_new(&node);
    c->upkeep = upkeep_new(&order);
}

/* --- ready ------------------------------------------------------------------------------------ */

static void on_probed(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct coved *c = ctx;
    (void)fds;
    (void)err; /* what broke the spawner is told when a sandbox is wanted */
    if (!m)
        return;
    c->api.layers = tier_layers(&m->probe);
    enum tier tier = tier_of(c->api.layers, c->api.is_rootless);
    if (tier == TIER_NONE || tier == TIER_T3)
        log_warn(&c->log, "this host lacks layers of isolation: see `cove doctor`",
                 LOG_STR("tier", tier_name(tier)));
}

/* Not before: a server that cannot listen leaves nothing, and is not started again. */
static void start_pools(struct coved *c)
{
    struct error err;
    if (catalog_start(c->catalog, &err) < 0)
        log_warn(&c->log, "a pool cannot be filled", LOG_STR("error", err.msg));
}

static void on_recovered(void *ctx, const struct error *err)
{
    struct coved *c = ctx;
    struct spawn_message probe = {.verb = SPAWN_PROBE};
    struct error local;
    struct plane_info info;
    if (c->is_stopping)
        return;
    if (err) {
        fail(c, err);
        return;
    }
    if (open_http(c, &local) < 0) {
        fail(c, &local);
        return;
    }
    prepare_urls(c);
    c->api.public_url = c->url;
    begin_upkeep(c);
    /* Not before: trying the layers takes as long as all the rest of the start. */
    spawner_client_ask(c->spawner, &probe, on_probed, c);
    plane_get_info(c->plane, &info);
    log_info(&c->log, "serving", LOG_STR("address", c->address), LOG_STR("node", c->node),
             LOG_U64("epoch", c->api.epoch), LOG_U64("ready", info.sessions[STORE_SESSION_READY]),
             LOG_U64("busy", info.sessions[STORE_SESSION_BUSY]),
             LOG_INT("start_ms", (clock_now_ns() - c->started_ns) / 1000000));
    start_pools(c);
    greet(c);
}

/* --- sessions --------------------------------------------------------------------------------- */

static void on_keys(void *ctx, const struct error *err)
{
    struct coved *c = ctx;
    const struct config *o = &c->config;
    const struct plane_order order = {.loop = c->loop,
                                      .spawner = c->spawner,
                                      .store = c->store,
                                      .catalog = c->catalog,
                                      .log = &c->log,
                                      .node = c->node,
                                      .epoch = c->api.epoch,
                                      .output_bytes = o->output_bytes,
                                      .timeout_ms = o->timeout_ms,
                                      .timeout_max_ms = o->timeout_max_ms,
                                      .ttl_ms = o->ttl_ms,
                                      .idle_ms = o->idle_timeout_ms,
                                      .max_executions = o->max_executions};
    struct error local;
    if (c->is_stopping)
        return;
    if (err) {
        fail(c, err);
        return;
    }
    if (plane_open(&c->plane, &order, &local) < 0) {
        fail(c, &local);
        return;
    }
    c->api.plane = c->plane;
    plane_watch(c->plane, &observe_plane, &c->api);
    plane_recover(c->plane, on_recovered, c);
}

static void on_templates(void *ctx, const struct error *err)
{
    struct coved *c = ctx;
    const struct auth_order order = {.store = c->store,
                                     .log = &c->log,
                                     .token = c->config.token,
                                     .internal_token = c->config.internal_token,
                                     .trusts_loopback = c->config.trust_loopback,
                                     .keys = {.per_minute = c->config.key_rate}};
    struct error local;
    if (c->is_stopping)
        return;
    if (err) {
        fail(c, err);
        return;
    }
    if (auth_open(&c->auth, &order, &local) < 0) {
        fail(c, &local);
        return;
    }
    c->api.auth = c->auth;
    auth_load(c->auth, on_keys, c);
}

static int open_catalog(struct coved *c, struct error *err)
{
    const struct config *o = &c->config;
    const struct capacity_order seats = {.max_sandboxes =
                                             o->max_sessions ? o->max_sessions : o->max_sandboxes};
    struct catalog_order order = {.loop = c->loop,
                                  .spawner = c->spawner,
                                  .data_dirs = c->data_dirs,
                                  .recipes_dir = o->recipes_dir,
                                  .copier = c->copier,
                                  .allow_degraded = o->allow_degraded};
    server_config_bounds(o, &order.bounds);
    if (capacity_open(&c->capacity, &seats, err) < 0)
        return -1;
    order.capacity = c->capacity;
    return catalog_open(&c->catalog, &order, err);
}

static void on_node(void *ctx, const struct store_answer *answer)
{
    struct coved *c = ctx;
    struct error err;
    if (c->is_stopping)
        return;
    if (answer->err) {
        fail(c, answer->err);
        return;
    }
    c->api.epoch = answer->nodes[0].epoch;
    if (open_catalog(c, &err) < 0) {
        fail(c, &err);
        return;
    }
    c->api.capacity = c->capacity;
    c->api.catalog = c->catalog;
    const struct shelf_order shelf = {.store = c->store, .catalog = c->catalog, .log = &c->log};
    c->api.shelf = c->shelf = shelf_new(&shelf);
    shelf_load(c->shelf, on_templates, c);
}

/* --- spawner and store ------------------------------------------------------------------------ */

static void begin_node(struct coved *c)
{
    const struct store_node node = {.id = c->node, .heartbeat_ns = clock_wall_ns(), .doc = "{}"};
    store_begin_node(c->store, &node, on_node, c);
}

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct coved *c = ctx;
    const struct store_order order = {.place = c->database, .sync = c->config.sync};
    struct error local;
    (void)fds;
    if (c->is_stopping)
        return;
    if (!m) {
        fail(c, err);
        return;
    }
    c->api.is_rootless = m->hello_reply.is_rootless;
    if (store_open(&c->store, c->loop, &sqlite_ops, &order, &local) < 0) {
        fail(c, &local);
        return;
    }
    c->api.store = c->store;
    begin_node(c);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct coved *c = ctx;
    if (!m) {
        log_error(&c->log, "the spawner is gone");
        stop_now(c, 1);
    } else if (c->plane) {
        plane_on_event(c->plane, m);
    } else if (c->catalog) {
        catalog_on_event(c->catalog, m);
    }
}

/* --- begin ------------------------------------------------------------------------------------ */

/* SIGHUP asks for another process in place of this one, as after an upgrade; sandboxes stay. */
static void on_signal(void *ctx, int signal)
{
    struct coved *c = ctx;
    if (!c->is_stopping || signal != SIGHUP)
        c->status = signal == SIGHUP ? STATUS_AGAIN : 0;
    stop_begin(c);
}

static int watch_signals(struct coved *c, struct error *err)
{
    static const int wanted[COVED_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < COVED_SIGNALS; i++) {
        if (loop_signal_new(&c->signals[i], c->loop, wanted[i], on_signal, c, err) < 0)
            return -1;
    }
    return 0;
}

int start_begin(struct coved *c)
{
    struct error err;
    c->api.metrics = observe_metrics();
    if (prepare_paths(c, &err) < 0 || prepare_socket(c, &err) < 0 ||
        prepare_confinement(c, &err) < 0 || prepare_secrets(c, &err) < 0 ||
        loop_open(&c->loop, &err) < 0 || watch_signals(c, &err) < 0 ||
        spawner_client_join(&c->spawner, c->loop, SPAWN_CLIENT_FD, on_hello, on_event, c, &err) < 0)
        return fail(c, &err);
    c->api = (struct api){.loop = c->loop,
                          .log = &c->log,
                          .spawner = c->spawner,
                          .metrics = c->api.metrics,
                          .data_dir = c->dir,
                          .node = c->node,
                          .started_ns = c->started_ns};
    return 0;
}
