/* observe.c - counts what happens, and looks at everything else when somebody asks */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/observe.h"

#include "api/access_log.h"
#include "api/metrics.h"
#include "base/memory.h"
#include "core/capacity.h"
#include "core/linux_feature.h"
#include "core/tier.h"
#include "http/http_server.h"

/* --- routes have numbers: their place in all groups ------------------------------------------- */

static size_t count_routes(void)
{
    size_t count = 0;
    for (size_t g = 0; api_groups[g]; g++)
        count += api_groups[g]->count;
    return count;
}

struct metrics *observe_metrics(void)
{
    size_t count = 0;
    scoped_free const char **ids = xcalloc(count_routes() + 1, sizeof(*ids));
    for (size_t g = 0; api_groups[g]; g++) {
        for (size_t i = 0; i < api_groups[g]->count; i++)
            ids[count++] = api_groups[g]->rows[i].id;
    }
    return metrics_new(ids, count);
}

/* One behind the last for NULL: no route was found. */
static size_t number_of(const struct api_route *row)
{
    size_t before = 0;
    for (size_t g = 0; api_groups[g]; g++) {
        const struct api_group *group = api_groups[g];
        if (row >= group->rows && row < group->rows + group->count)
            return before + (size_t)(row - group->rows);
        before += group->count;
    }
    return before;
}

/* --- hooks ------------------------------------------------------------------------------------ */

void observe_request(const struct http_record *record, void *ctx)
{
    const struct api_server *server = ctx;
    struct metrics *m = server->api->metrics;
    const struct api_route *row =
        record->route ? api_table_row(server->table, record->route) : NULL;
    size_t route = number_of(row);
    metrics_add(m, METRIC_HTTP_REQUESTS,
                METRIC_AT(route, record->method, METRIC_CLASS(record->status)), 1);
    metrics_observe(m, METRIC_HTTP_SECONDS, METRIC_AT(route), (double)record->duration_ns / 1e9);
    metrics_add(m, METRIC_HTTP_BYTES_IN, METRIC_PLAIN, (double)record->bytes_in);
    metrics_add(m, METRIC_HTTP_BYTES_OUT, METRIC_PLAIN, (double)record->bytes_out);
    access_log_request(server->api->log, record, row);
}

static void on_created(void *ctx, double ms, bool is_pooled)
{
    const struct api *api = ctx;
    metrics_observe(api->metrics, METRIC_CREATE_SECONDS, METRIC_AT(is_pooled), ms / 1e3);
}

static void on_ended(void *ctx, const struct plane_ending *ending)
{
    const struct api *api = ctx;
    struct metrics *m = api->metrics;
    size_t state = METRIC_STATE(ending->state);
    metrics_observe(m, METRIC_EXECUTION_SECONDS, METRIC_AT(state), ending->duration_ms / 1e3);
    metrics_add(m, METRIC_EXECUTIONS, METRIC_AT(state, !ending->session_id), 1);
    if (ending->kind != REASON_NONE)
        metrics_add(m, METRIC_REASONS, METRIC_AT(METRIC_REASON(ending->kind)), 1);
    metrics_add(m, METRIC_EXECUTION_CPU, METRIC_PLAIN, (double)ending->cpu_us / 1e6);
    access_log_execution(api->log, ending);
}

const struct plane_events observe_plane = {.created = on_created, .ended = on_ended};

/* --- gauges ----------------------------------------------------------------------------------- */

static void set(const struct api *api, enum metric metric, uint64_t value)
{
    metrics_set(api->metrics, metric, METRIC_PLAIN, (double)value);
}

static void look_at_plane(const struct api *api)
{
    struct plane_info info;
    plane_get_info(api->plane, &info);
    for (size_t i = 0; i < STORE_SESSION_TERMINATED; i++)
        metrics_set(api->metrics, METRIC_SESSIONS, METRIC_AT(i), (double)info.sessions[i]);
    set(api, METRIC_RUNNING, info.running);
    set(api, METRIC_QUEUED, info.queued);
}

static void look_at_capacity(const struct api *api)
{
    struct capacity_info info;
    if (!api->capacity)
        return;
    capacity_get_info(api->capacity, &info);
    set(api, METRIC_SANDBOXES, info.live);
    set(api, METRIC_SANDBOXES_MAX, info.max_sandboxes);
}

static void look_at_pools(const struct api *api)
{
    struct metrics *m = api->metrics;
    struct pool_info info;
    size_t at;
    metrics_forget_templates(m);
    for (const struct catalog_kind *k = NULL; (k = catalog_next(api->catalog, k));) {
        if (!catalog_get_pool(k, &info) || !metrics_name_template(m, catalog_id(k), &at))
            continue;
        metrics_set(m, METRIC_POOL_PARKED, METRIC_AT(at), (double)info.parked);
        metrics_set(m, METRIC_POOL_CREATING, METRIC_AT(at), (double)info.creating);
        metrics_set(m, METRIC_POOL_TARGET, METRIC_AT(at), (double)info.target);
        metrics_set(m, METRIC_POOL_TAKEN, METRIC_AT(at), (double)info.taken);
        metrics_set(m, METRIC_POOL_MISSED, METRIC_AT(at), (double)info.missed);
        metrics_set(m, METRIC_POOL_COLD, METRIC_AT(at), info.wants_warm && !info.is_warm);
    }
}

static void look_at_store(const struct api *api)
{
    struct store_info info;
    store_get_info(api->store, &info);
    set(api, METRIC_STORE_QUEUE, info.queued);
    set(api, METRIC_STORE_COMMITS, info.commits);
    set(api, METRIC_STORE_WRITES, info.written);
    set(api, METRIC_STORE_FAILURES, info.failed + info.dropped);
    set(api, METRIC_STORE_FAILING, info.is_failing);
    set(api, METRIC_STORE_MEMORY, info.memory_bytes);
}

static void look_at_server(const struct api *api)
{
    if (!api->server)
        return;
    struct http_server_counts counts = http_server_counts(api->server);
    set(api, METRIC_HTTP_CONNECTIONS, counts.connections);
    set(api, METRIC_HTTP_ACCEPTED, counts.accepted);
    set(api, METRIC_HTTP_REFUSED, counts.refused);
}

static void look_at_tier(const struct api *api)
{
    enum tier now = tier_of(api->layers, api->is_rootless);
    for (enum tier t = TIER_NONE; t <= TIER_T3; t++)
        metrics_set(api->metrics, METRIC_TIER, METRIC_AT(t), api->layers != 0 && t == now);
    for (enum layer l = 0; l < LAYER_COUNT; l++)
        metrics_set(api->metrics, METRIC_LAYER, METRIC_AT(l), (api->layers & 1u << l) != 0);
    for (enum linux_feature f = 0; f < LINUX_FEATURE_COUNT; f++)
        metrics_set(api->metrics, METRIC_KERNEL_FEATURE, METRIC_AT(f),
                    (api->kernel_features & 1u << f) != 0);
}

static void look_at_log(const struct api *api)
{
    if (api->log && api->log->loss)
        set(api, METRIC_LOG_DROPPED, api->log->loss->total);
}

void observe_write(const struct api *api, struct strbuf *out)
{
    look_at_tier(api);
    look_at_plane(api);
    look_at_capacity(api);
    look_at_pools(api);
    look_at_store(api);
    look_at_server(api);
    look_at_log(api);
    metrics_write(api->metrics, out);
}
