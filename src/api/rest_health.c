/* rest_health.c - /health, /health/ready and /metrics: how the server is
 *
 * A stranger learns whether it works, and nothing about what it is or does: everything else takes a
 * token, and words that may name files of the host take the operator's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "api/metrics.h"
#include "api/observe.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/strbuf.h"
#include "blob/blob.h"
#include "core/linux_feature.h"
#include "core/node.h"
#include "core/tier.h"

#define DISK_LOW_BYTES (256 * MIB)
#define QUEUE_LONG     (STORE_QUEUE_MAX / 2)

/* --- components ------------------------------------------------------------------------------- */

enum condition { CONDITION_OK, CONDITION_DEGRADED, CONDITION_FAILING };

static const char *const condition_names[] = {"ok", "degraded", "failing"};

struct finding {
    enum condition state;
    char words[640]; /* "": nothing to say */
};

/* What `detail` says may name files: it is for the operator. */
static void find(struct finding *out, enum condition state, const char *words, const char *detail)
{
    out->state = state;
    snprintf(out->words, sizeof(out->words), "%s%s%s", words, detail ? ": " : "",
             detail ? detail : "");
}

static bool is_recovering(const struct api *api)
{
    struct plane_info info;
    plane_get_info(api->plane, &info);
    return info.is_recovering;
}

static bool is_draining(const struct api *api)
{
    return api->is_draining;
}

static bool cannot_write(const struct api *api)
{
    struct store_info info;
    store_get_info(api->store, &info);
    return info.is_failing;
}

/* Layers are tried while the server answers already: as long as there are none, nobody knows. */
static bool cannot_seal(const struct api *api)
{
    return api->layers != 0 && tier_of(api->layers, api->is_rootless) == TIER_NONE;
}

static void look_at_database(const struct api *api, bool is_operator, struct finding *out)
{
    struct store_info info;
    store_get_info(api->store, &info);
    if (info.is_failing)
        find(out, CONDITION_FAILING, "what happens cannot be written down",
             is_operator ? info.why : NULL);
    else if (info.queued > QUEUE_LONG)
        find(out, CONDITION_DEGRADED, "too much waits to be written down", NULL);
}

static void look_at_blobs(const struct api *api, bool is_operator, struct finding *out)
{
    struct blob_health health;
    if (!api->blob)
        return;
    blob_get_health(api->blob, &health);
    if (health.is_failing)
        find(out, CONDITION_FAILING, "artifacts and workspaces cannot be kept or read",
             is_operator ? health.why : NULL);
}

static void look_at_disk(const struct api *api, bool is_operator, struct finding *out)
{
    struct statvfs disk;
    scoped_fd int fd = api->data_dir ? open(api->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!api->data_dir)
        return;
    if (fd < 0 || fstatvfs(fd, &disk) < 0)
        find(out, CONDITION_FAILING, "the data directory cannot be reached",
             is_operator ? api->data_dir : NULL);
    else if (disk.f_bavail == 0)
        find(out, CONDITION_FAILING, "the disk is full", is_operator ? api->data_dir : NULL);
    else if ((uint64_t)disk.f_bavail * disk.f_frsize < DISK_LOW_BYTES)
        find(out, CONDITION_DEGRADED, "the disk is nearly full",
             is_operator ? api->data_dir : NULL);
}

/* A disk that is low is no worse than blobs that cannot be kept. */
static void look_at_storage(const struct api *api, bool is_operator, struct finding *out)
{
    look_at_disk(api, is_operator, out);
    if (out->state != CONDITION_FAILING)
        look_at_blobs(api, is_operator, out);
}

static void look_at_runtime(const struct api *api, bool is_operator, struct finding *out)
{
    const struct runner_list *runners = catalog_runners(api->catalog);
    if (cannot_seal(api))
        find(out, CONDITION_FAILING, "sandboxes cannot be sealed here", NULL);
    else if (runners->count == 0)
        find(out, CONDITION_FAILING, "no image has a language",
             is_operator && runners->broken.msg[0] ? runners->broken.msg : NULL);
    else if (is_recovering(api))
        find(out, CONDITION_DEGRADED, "sessions of the process before are being taken over", NULL);
    else if (is_draining(api))
        find(out, CONDITION_DEGRADED, "the server is about to stop", NULL);
    else if (tier_of(api->layers, api->is_rootless) == TIER_T3)
        find(out, CONDITION_DEGRADED, "layers of isolation are missing", NULL);
}

/* Of those that cannot be filled only one that has nothing to give counts: others have recovered
 * from what they remember. */
static void look_at_pools(const struct api *api, bool is_operator, struct finding *out)
{
    struct pool_info info;
    for (const struct catalog_kind *k = NULL; (k = catalog_next(api->catalog, k));) {
        if (catalog_get_pool(k, &info) && info.error.msg[0] && info.target > 0 && info.parked == 0)
            find(out, CONDITION_DEGRADED, "a pool cannot be filled",
                 is_operator ? info.error.msg : NULL);
        else if (catalog_get_pool(k, &info) && info.cold.msg[0] && !out->words[0])
            find(out, CONDITION_DEGRADED, "no warm interpreter: sessions start slowly",
                 is_operator ? info.cold.msg : NULL);
    }
}

static const struct {
    const char *name;
    void (*look)(const struct api *api, bool is_operator, struct finding *out);
} components[] = {
    {"database", look_at_database},
    {"storage", look_at_storage},
    {"runtime", look_at_runtime},
    {"pools", look_at_pools},
};

/* {"database": {"state", "message"}, ...}; new. *worst is the worst of them. */
static json_t *components_json(const struct api *api, bool is_operator, enum condition *worst)
{
    json_t *all = json_object();
    *worst = CONDITION_OK;
    for (size_t i = 0; i < ARRAY_LEN(components); i++) {
        struct finding finding = {0};
        components[i].look(api, is_operator, &finding);
        *worst = MAX(*worst, finding.state);
        json_object_set_new(
            all, components[i].name,
            json_pack("{s:s, s:o}", "state", condition_names[finding.state], "message",
                      finding.words[0] ? json_text(finding.words, strlen(finding.words))
                                       : json_null()));
    }
    return all;
}

/* --- /health ---------------------------------------------------------------------------------- */

static json_t *missing_limits_json(uint32_t layers)
{
    const char *name;
    json_t *names = json_array();
    for (size_t i = 0; (name = tier_missing_limit(layers, i)); i++)
        json_array_append_new(names, json_string(name));
    return names;
}

static json_t *missing_features_json(const struct api *api)
{
    json_t *names = json_array();
    for (enum linux_feature f = 0; api->layers && f < LINUX_FEATURE_COUNT; f++) {
        if (!(api->kernel_features & 1u << f))
            json_array_append_new(names, json_string(linux_feature_name(f)));
    }
    return names;
}

static json_t *layers_json(uint32_t layers)
{
    json_t *names = json_array();
    for (enum layer l = 0; l < LAYER_COUNT; l++) {
        if (layers & (1u << l))
            json_array_append_new(names, json_string(layer_info(l)->name));
    }
    return names;
}

/* Health, for whoever has no token: {"status": "ok"|"degraded"|"failing"}. With one, also:
 *   version         string
 *   uptime_seconds  number
 *   tier            "T1"|"T2"|"T3"|null
 *   layers          [string], of isolation that hold here
 *   missing_layers  [string], the others
 *   missing_kernel_features  [string], that younger kernels have
 *   limits_not_in_force  [string], of the resources of each execution
 *   components      {"database"|"storage"|"runtime"|"pools": {"state": as status,
 *                    "message": string|null}}
 *   capacity        {"sessions": integer, "max_sessions": integer|null}
 *   load            {"sessions": integer, "running": integer, "queued": integer} */
static json_t *health_json(const struct api *api, unsigned scopes)
{
    enum condition worst;
    bool is_operator = scope_allows(scopes, SCOPE_ADMIN);
    int64_t uptime_ms = (clock_now_ns() - api->started_ns) / 1000000;
    scoped_json json_t *parts = components_json(api, is_operator, &worst);
    json_t *health = json_pack("{s:s}", "status", condition_names[worst]);
    if (scopes == 0)
        return health;
    scoped_json json_t *rest = json_pack(
        "{s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:O}", "version", COVE_VERSION, "uptime_seconds",
        (double)uptime_ms / 1e3, "tier",
        json_text_or_null(tier_name(tier_of(api->layers, api->is_rootless))), "layers",
        layers_json(api->layers), "missing_layers", layers_json(api->layers ? ~api->layers : 0),
        "missing_kernel_features", missing_features_json(api), "limits_not_in_force",
        missing_limits_json(api->layers), "components", parts);
    scoped_json json_t *figures = node_figures(api->plane, api->capacity);
    json_object_update(health, rest);
    json_object_update(health, figures);
    return health;
}

static void on_health(struct api_call *call)
{
    api_answer(call, 200, health_json(api_of(call), api_scopes(call)));
}

/* --- /health/ready ---------------------------------------------------------------------------- */

static const struct obstacle {
    bool (*is_there)(const struct api *api);
    const char *word, *message;
} obstacles[] = {
    {is_recovering, "recovering", "sessions of the process before are being taken over"},
    {is_draining, "draining", "the server is about to stop"},
    {cannot_write, "database_unavailable", "what happens cannot be written down"},
    {cannot_seal, "isolation_unavailable", "sandboxes cannot be sealed here"},
};

/* Ready: {"status": "ready"}; or an error. */
static void on_ready(struct api_call *call)
{
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(obstacles); i++) {
        if (!obstacles[i].is_there(api_of(call)))
            continue;
        error_set(&err, ERROR_UNAVAILABLE, "%s", obstacles[i].message);
        error_word(&err, obstacles[i].word);
        api_fail(call, &err);
        return;
    }
    api_answer(call, 200, json_pack("{s:s}", "status", "ready"));
}

/* --- /metrics --------------------------------------------------------------------------------- */

static void on_metrics(struct api_call *call)
{
    struct strbuf text;
    strbuf_init(&text, METRICS_MAX_BYTES);
    observe_write(api_of(call), &text);
    size_t len = text.len;
    struct http_request *r = api_take(call);
    if (r)
        http_respond_give(r, 200, METRICS_TYPE, strbuf_take(&text), len);
    strbuf_release(&text);
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply health_reply[] = {{200, "Health", NULL, "How it is."}, {0}};
static const struct api_reply ready_reply[] = {{200, "Ready", NULL, "Requests are welcome."}, {0}};
static const struct api_reply metrics_reply[] = {
    {200, NULL, "text/plain", "Text of Prometheus' exposition format 0.0.4."}, {0}};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/health", .flags = API_OPEN | API_KNOWS | API_AT_ROOT, .handler = on_health,
     .id = "getHealth", .tag = "operation", .summary = "How the server is",
     .help = "200 as long as it can answer: the status is in the document. Without a token there is nothing else in "
             "it.",
     .replies = health_reply},
    {.method = METHOD_GET, .pattern = "/health/ready", .flags = API_OPEN | API_AT_ROOT, .handler = on_ready,
     .id = "getReady", .tag = "operation", .summary = "Whether to send it requests",
     .help = "503 while it takes over what the process before has left, when it is about to stop, and when it cannot "
             "write.",
     .replies = ready_reply},
    {.method = METHOD_GET, .pattern = "/metrics", .scope = SCOPE_ADMIN, .flags = API_AT_ROOT, .handler = on_metrics,
     .id = "getMetrics", .tag = "operation", .summary = "Figures for Prometheus", .replies = metrics_reply},
};
/* clang-format on */
const struct api_group rest_health_group = {rows, ARRAY_LEN(rows)};
