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
#include "base/strbuf.h"
#include "core/linux_feature.h"
#include "core/tier.h"
#include "core/workspace.h"
#include "coved/coved.h"
#include "coved/greet.h"
#include "coved/prepare.h"
#include "store/sqlite.h"

#define CONNECTIONS_MAX 16384
#define WORDS_MAX       1024 /* for the names of all layers */
#define STATUS_AGAIN    1    /* the spawner starts the next one */

static int fail(struct coved *c, const struct error *err)
{
    greet_failure(c, err);
    if (c->loop)
        stop_now(c, SPAWN_REFUSAL);
    c->status = SPAWN_REFUSAL;
    return -1;
}

/* The next step, behind the callback of one that ended with `err` (NULL: well). What fails, that
 * or this, is told and ends the process. */
static void go_on(struct coved *c, const struct error *err,
                  int (*step)(struct coved *c, struct error *err))
{
    struct error local;
    if (c->is_stopping)
        return;
    if (err)
        fail(c, err);
    else if (step(c, &local) < 0)
        fail(c, &local);
}

/* --- clients ---------------------------------------------------------------------------------- */

static int open_http(struct coved *c, struct error *err)
{
    struct http_server_config config = {.ctx = &c->server,
                                        .authorize = auth_authorize,
                                        .on_end = observe_request,
                                        .connection_max = CONNECTIONS_MAX};
    c->mcp = mcp_door_open(&c->api, (c->config.mcp_compatible_names ? MCP_DOOR_ALIASES : 0) |
                                        (c->config.mcp_structured ? MCP_DOOR_STRUCTURED : 0));
    c->table = api_table_new(c->config.upload_max_bytes);
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
    const struct upkeep_order order = {.loop = c->loop,
                                       .store = c->store,
                                       .log = &c->log,
                                       .shelf = c->shelf,
                                       .retention_ms = c->config.retention_ms};
    c->beats = node_new(&node);
    c->upkeep = upkeep_new(&order);
    c->executors = executors_new(
        &(struct executors_order){.loop = c->loop, .store = c->store, .log = &c->log});
}

/* --- ready ------------------------------------------------------------------------------------ */

/* All that are not in force are told, those that a tier does not ask for among them. */
static void tell_layers(const struct coved *c)
{
    enum tier tier = tier_of(c->api.layers, c->api.is_rootless);
    const char *limit;
    scoped_strbuf struct strbuf layers, limits;
    strbuf_init(&layers, WORDS_MAX);
    strbuf_init(&limits, WORDS_MAX);
    for (enum layer l = 0; l < LAYER_COUNT; l++) {
        if (!(c->api.layers & 1u << l))
            strbuf_add_fmt(&layers, "%s%s", layers.len ? ", " : "", layer_info(l)->name);
    }
    for (size_t i = 0; (limit = tier_missing_limit(c->api.layers, i)); i++)
        strbuf_add_fmt(&limits, "%s%s", limits.len ? ", " : "", limit);
    if (layers.len == 0)
        return;
    bool is_worse = tier == TIER_NONE || tier == TIER_T3;
    LOG_AT(&c->log, is_worse ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
           "this host lacks layers of isolation: see `cove doctor`",
           LOG_STR("tier", tier_name(tier)), LOG_STR("layers", strbuf_str(&layers)),
           LOG_STR("limits", limits.len ? strbuf_str(&limits) : NULL));
}

static void tell_kernel_features(const struct coved *c)
{
    scoped_strbuf struct strbuf names;
    strbuf_init(&names, WORDS_MAX);
    for (enum linux_feature f = 0; f < LINUX_FEATURE_COUNT; f++) {
        if (!(c->api.kernel_features & 1u << f))
            strbuf_add_fmt(&names, "%s%s", names.len ? ", " : "", linux_feature_name(f));
    }
    if (names.len > 0)
        log_info(&c->log, "a younger kernel has more: other means stand in for it",
                 LOG_STR("missing", strbuf_str(&names)));
}

static void on_probed(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct coved *c = ctx;
    (void)fds;
    (void)err; /* what broke the spawner is told when a sandbox is wanted */
    if (!m)
        return;
    c->api.layers = tier_layers(&m->probe);
    tell_layers(c);
    c->api.kernel_features = linux_feature_find(&m->probe);
    tell_kernel_features(c);
}

/* Not before: a server that cannot listen leaves nothing, and is not started again. */
static void start_pools(struct coved *c)
{
    struct error err;
    if (catalog_start(c->catalog, &err) < 0)
        log_warn(&c->log, "a pool cannot be filled", LOG_STR("error", err.msg));
}

static int serve(struct coved *c, struct error *err)
{
    struct spawn_message probe = {.verb = SPAWN_PROBE};
    struct plane_info info;
    if (open_http(c, err) < 0)
        return -1;
    prepare_urls(c);
    c->links.base = c->url;
    c->api.public_url = c->url;
    c->api.has_address = !c->listen.path[0] || c->config.public_url;
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
    return 0;
}

static void on_recovered(void *ctx, const struct error *err)
{
    go_on(ctx, err, serve);
}

/* --- sessions --------------------------------------------------------------------------------- */

static int open_plane(struct coved *c, struct error *err)
{
    const struct config *o = &c->config;
    const struct plane_order order = {.loop = c->loop,
                                      .spawner = c->spawner,
                                      .store = c->store,
                                      .catalog = c->catalog,
                                      .archive = c->archive,
                                      .links = &c->links,
                                      .log = &c->log,
                                      .node = c->node,
                                      .epoch = c->api.epoch,
                                      .output_bytes = o->output_bytes,
                                      .timeout_ms = o->timeout_ms,
                                      .timeout_max_ms = o->timeout_max_ms,
                                      .ttl_ms = o->ttl_ms,
                                      .idle_ms = o->idle_timeout_ms,
                                      .max_executions = o->max_executions,
                                      .gateway = c->gateway,
                                      .network = server_config_network(o)};
    if (plane_open(&c->plane, &order, err) < 0)
        return -1;
    c->api.plane = c->plane;
    plane_watch(c->plane, &observe_plane, &c->api);
    plane_recover(c->plane, on_recovered, c);
    return 0;
}

static void on_keys(void *ctx, const struct error *err)
{
    go_on(ctx, err, open_plane);
}

static int open_auth(struct coved *c, struct error *err)
{
    const struct auth_order order = {.loop = c->loop,
                                     .store = c->store,
                                     .log = &c->log,
                                     .token = c->config.token,
                                     .internal_token = c->config.internal_token,
                                     .trusts_loopback = c->config.trust_loopback,
                                     .keys = {.per_minute = c->config.key_rate}};
    if (auth_open(&c->auth, &order, err) < 0)
        return -1;
    c->api.auth = c->auth;
    auth_load(c->auth, on_keys, c);
    return 0;
}

static void on_templates(void *ctx, const struct error *err)
{
    go_on(ctx, err, open_auth);
}

/* Where the operator grants no way out at all, there are no packages; who asks for some is told. */
static void open_builder(struct coved *c)
{
    struct error err;
    const struct config *o = &c->config;
    c->packages = (struct packages_source){
        .recipes_dir = o->recipes_dir,
        .installers_dir = c->installers,
        .addresses =
            {[RUNNER_INDEX_PYTHON] = o->python_index, [RUNNER_INDEX_NPM] = o->npm_registry},
    };
    struct builder_order order = {.loop = c->loop,
                                  .spawner = c->spawner,
                                  .capacity = c->capacity,
                                  .gateway = c->gateway,
                                  .network = server_config_network(o),
                                  .source = &c->packages,
                                  .timeout_ms = o->build_timeout_ms,
                                  .allow_degraded = o->allow_degraded};
    builder_limits(&order.limits, o->build_disk_bytes);
    if (builder_open(&c->builder, &order, &err) < 0)
        log_info(&c->log, "there are no packages here", LOG_STR("reason", err.msg));
}

static int open_catalog(struct coved *c, struct error *err)
{
    const struct config *o = &c->config;
    const struct capacity_order seats = {.max_sandboxes =
                                             o->max_sessions ? o->max_sessions : o->max_sandboxes};
    struct catalog_order order = {.loop = c->loop,
                                  .log = &c->log,
                                  .spawner = c->spawner,
                                  .data_dirs = c->data_dirs,
                                  .recipes_dir = o->recipes_dir,
                                  .copier = c->copier,
                                  .idle_freeze_ms = o->idle_freeze_ms,
                                  .allow_degraded = o->allow_degraded};
    server_config_bounds(o, &order.bounds);
    if (capacity_open(&c->capacity, &seats, err) < 0)
        return -1;
    order.capacity = c->capacity;
    open_builder(c);
    order.builder = c->builder;
    order.packages = &c->packages;
    return catalog_open(&c->catalog, &order, err);
}

static int load_catalog(struct coved *c, struct error *err)
{
    const struct gateway_order way_out = {.loop = c->loop,
                                          .spawner = c->spawner,
                                          .log = &c->log,
                                          .bytes_max = c->config.egress_bytes,
                                          .connections_max =
                                              (uint32_t)c->config.egress_connections};
    c->gateway = gateway_new(&way_out);
    gateway_give_trust(c->gateway, take_fd(&c->trust_fd));
    if (open_catalog(c, err) < 0)
        return -1;
    c->api.capacity = c->capacity;
    c->api.catalog = c->catalog;
    const struct shelf_order shelf = {.store = c->store, .catalog = c->catalog, .log = &c->log};
    c->api.shelf = c->shelf = shelf_new(&shelf);
    shelf_load(c->shelf, on_templates, c);
    return 0;
}

static void on_node(void *ctx, const struct store_answer *answer)
{
    struct coved *c = ctx;
    if (!answer->err)
        c->api.epoch = answer->nodes[0].epoch;
    go_on(c, answer->err, load_catalog);
}

/* --- spawner and store ------------------------------------------------------------------------ */

/* After the store, which sees to it that nobody else is at work in the same folder. */
static int open_storage(struct coved *c, struct error *err)
{
    const struct storage_order order = {.loop = c->loop, .log = &c->log, .dir = c->dir};
    if (storage_open(c->storage, &order, err) < 0)
        return -1;
    c->api.blob = storage_blob(c->storage);
    c->api.artifacts = storage_artifacts(c->storage);
    c->api.redirect_bytes = c->config.s3_redirect_bytes;
    const struct workspaces_order saves = {.loop = c->loop,
                                           .blob = c->api.blob,
                                           .store = c->store,
                                           .log = &c->log,
                                           .retention_ms = c->config.workspace_retention_ms};
    c->api.workspaces = workspaces_new(&saves);
    c->uploads = uploads_new(c->loop, c->api.blob, &c->log);
    return 0;
}

static void open_archive(struct coved *c)
{
    const struct config *o = &c->config;
    const struct archive_order order = {.loop = c->loop,
                                        .store = c->store,
                                        .blob = c->api.artifacts,
                                        .log = &c->log,
                                        /* bytes never outlive the execution that made them */
                                        .retention_ms =
                                            MIN(o->artifact_retention_ms, o->retention_ms),
                                        .disk_bytes = o->artifact_disk_bytes,
                                        .execution_bytes = o->artifact_max_bytes};
    c->links = (struct links){.keys = {o->file_secret, o->file_secret_previous},
                              .ttl_ms = o->link_ttl_ms,
                              .ttl_max_ms = o->link_ttl_max_ms};
    c->api.links = &c->links;
    c->api.archive = c->archive = archive_new(&order);
}

static int load_store(struct coved *c, struct error *err)
{
    const struct store_order order = {.place = c->database, .sync = c->config.sync};
    const struct store_node node = {.id = c->node, .heartbeat_ns = clock_wall_ns(), .doc = "{}"};
    if (store_open(&c->store, c->loop, &sqlite_ops, &order, err) < 0)
        return -1;
    c->api.store = c->store;
    if (open_storage(c, err) < 0)
        return -1;
    open_archive(c);
    store_begin_node(c->store, &node, on_node, c);
    return 0;
}

static void on_hello(void *ctx, const struct spawn_message *m, int *fds, const struct error *err)
{
    struct coved *c = ctx;
    (void)fds;
    if (m) {
        c->api.is_rootless = m->hello_reply.is_rootless;
        spawner_client_watch(c->spawner);
    }
    go_on(c, m ? NULL : err, load_store);
}

static void on_event(void *ctx, const struct spawn_message *m)
{
    struct coved *c = ctx;
    if (c->builder && m)
        builder_on_event(c->builder, m);
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
