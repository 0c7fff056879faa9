/* test_rest_health.c - what is told to whom, and when the server is not ready */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answered.h"
#include "api/metrics.h"
#include "api/observe.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "blob/blob_ops.h"
#include "check.h"
#include "core/capacity.h"
#include "http/http_server.h"

/* --- a server, played --------------------------------------------------------------------------
 */

#define ALL_LAYERS ((1u << LAYER_COUNT) - 1)
#define DETAIL     "/var/lib/somewhere"

static struct plane_info plane_info;
static struct store_info store_info;
static struct pool_info pool_info;
static struct runner_list runners;
static struct api api;

void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out);
void __wrap_store_get_info(struct store *store, struct store_info *out);
void __wrap_capacity_get_info(const struct capacity *capacity, struct capacity_info *out);
struct catalog_kind *__wrap_catalog_next(const struct catalog *catalog,
                                         const struct catalog_kind *kind);
bool __wrap_catalog_get_pool(const struct catalog_kind *kind, struct pool_info *out);
const char *__wrap_catalog_id(const struct catalog_kind *kind);
const struct runner_list *__wrap_catalog_runners(const struct catalog *catalog);
struct http_server_counts __wrap_http_server_counts(const struct http_server *server);

void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out)
{
    (void)plane;
    *out = plane_info;
}

void __wrap_store_get_info(struct store *store, struct store_info *out)
{
    (void)store;
    *out = store_info;
}

void __wrap_capacity_get_info(const struct capacity *capacity, struct capacity_info *out)
{
    (void)capacity;
    *out = (struct capacity_info){.live = 4, .max_sandboxes = 10};
}

/* One template. */
struct catalog_kind *__wrap_catalog_next(const struct catalog *catalog,
                                         const struct catalog_kind *kind)
{
    static int one;
    (void)catalog;
    return kind ? NULL : (struct catalog_kind *)(void *)&one;
}

bool __wrap_catalog_get_pool(const struct catalog_kind *kind, struct pool_info *out)
{
    (void)kind;
    *out = pool_info;
    return true;
}

const char *__wrap_catalog_id(const struct catalog_kind *kind)
{
    (void)kind;
    return "tpl_one";
}

const struct runner_list *__wrap_catalog_runners(const struct catalog *catalog)
{
    (void)catalog;
    return &runners;
}

struct http_server_counts __wrap_http_server_counts(const struct http_server *server)
{
    (void)server;
    return (struct http_server_counts){.connections = 3, .accepted = 30, .refused = 2};
}

static int setup(void **state)
{
    (void)state;
    plane_info = (struct plane_info){.running = 1, .queued = 2};
    plane_info.sessions[STORE_SESSION_READY] = 3;
    store_info = (struct store_info){.commits = 5};
    pool_info = (struct pool_info){.parked = 2, .target = 4, .taken = 9, .missed = 1};
    runners = (struct runner_list){.count = 1};
    api = (struct api){
        .capacity = (struct capacity *)&api,
        .layers = ALL_LAYERS,
        .data_dir = "/",
        .started_ns = clock_now_ns() - 90 * 1000000000ll,
        .node = "here",
    };
    return 0;
}

static void ask(const char *id, unsigned scopes)
{
    struct api_call call = {.api = &api, .scopes = scopes};
    answered_ask(&rest_health_group, id, &call);
}

static const char *text_at(const char *first, const char *second, const char *third)
{
    const json_t *at = json_object_get(answered.document, first);
    at = second ? json_object_get(at, second) : at;
    at = third ? json_object_get(at, third) : at;
    return json_is_string(at) ? json_string_value(at) : "(none)";
}

/* --- /health -----------------------------------------------------------------------------------
 */

static void test_stranger(void **state)
{
    setup(state);
    ask("getHealth", 0);
    assert_int_equal(answered.status, 200);
    assert_int_equal(json_object_size(answered.document), 1);
    assert_string_equal(text_at("status", NULL, NULL), "ok");
}

static void test_known(void **state)
{
    setup(state);
    ask("getHealth", SCOPE_EXECUTE);
    assert_string_equal(text_at("status", NULL, NULL), "ok");
    assert_string_equal(text_at("version", NULL, NULL), COVE_VERSION);
    assert_string_equal(text_at("tier", NULL, NULL), "T1");
    double uptime = json_real_value(json_object_get(answered.document, "uptime_seconds"));
    assert_true(uptime >= 90 && uptime < 120);
    assert_int_equal(json_array_size(json_object_get(answered.document, "layers")), LAYER_COUNT);
    scoped_json json_t *figures =
        json_pack("{s:O, s:O}", "capacity", json_object_get(answered.document, "capacity"), "load",
                  json_object_get(answered.document, "load"));
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, KIB);
    json_add(&text, figures, JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text),
                        "{\"capacity\":{\"sessions\":4,\"max_sessions\":10},\"load\":{\"sessions\":"
                        "3,\"running\":1,\"queued\":2}}");
    assert_string_equal(text_at("components", "database", "state"), "ok");
    assert_true(json_is_null(json_object_get(
        json_object_get(json_object_get(answered.document, "components"), "pools"), "message")));
}

/* Rows change one thing of a server that is well. */
struct trouble_case {
    const char *name;
    void (*make)(void);
    const char *component, *status;
    bool has_detail; /* which only the operator is told */
};

static void break_store(void)
{
    store_info.is_failing = true;
    snprintf(store_info.why, sizeof(store_info.why), "%s is full", DETAIL);
}

static void fill_queue(void)
{
    store_info.queued = STORE_QUEUE_MAX - 1;
}

static void lose_dir(void)
{
    api.data_dir = DETAIL "/that/is/not/there";
}

static void tell_trouble(const struct blob *blob, struct blob_health *out)
{
    (void)blob;
    *out = (struct blob_health){.kind = "s3", .is_failing = true, .why = DETAIL};
}

static void lose_blobs(void)
{
    static const struct blob_ops ops = {.get_health = tell_trouble};
    static struct blob blob = {.ops = &ops};
    api.blob = &blob;
}

static void lose_layers(void)
{
    api.layers = LAYER_BIT(RLIMITS);
}

static void forget_layers(void)
{
    api.layers = 0; /* nobody has tried yet */
}

static void lose_landlock(void)
{
    api.layers &= ~LAYER_BIT(LANDLOCK);
}

static void lose_images(void)
{
    runners = (struct runner_list){0};
    snprintf(runners.broken.msg, sizeof(runners.broken.msg), "%s is broken", DETAIL);
}

static void recover(void)
{
    plane_info.is_recovering = true;
}

static void drain(void)
{
    api.is_draining = true;
}

static void empty_pool(void)
{
    pool_info.parked = 0;
    snprintf(pool_info.error.msg, sizeof(pool_info.error.msg), "mount '%s'", DETAIL);
}

static void lose_interpreter(void)
{
    snprintf(pool_info.cold.msg, sizeof(pool_info.cold.msg), "open '%s'", DETAIL);
}

static const struct trouble_case troubles[] = {
    {"the database cannot be written", break_store, "database", "failing", true},
    {"the database is slow", fill_queue, "database", "degraded", false},
    {"the data directory is gone", lose_dir, "storage", "failing", true},
    {"blobs cannot be kept", lose_blobs, "storage", "failing", true},
    {"no layer of isolation", lose_layers, "runtime", "failing", false},
    {"one layer less", lose_landlock, "runtime", "degraded", false},
    {"no image", lose_images, "runtime", "failing", true},
    {"recovery", recover, "runtime", "degraded", false},
    {"draining", drain, "runtime", "degraded", false},
    {"no warm interpreter", lose_interpreter, "pools", "degraded", true},
    {"a pool that cannot be filled", empty_pool, "pools", "degraded", true},
};

static void test_trouble(void **state)
{
    const struct trouble_case *c = *state;
    setup(state);
    c->make();
    ask("getHealth", 0);
    assert_int_equal(answered.status, 200); /* it answers */
    assert_string_equal(text_at("status", NULL, NULL), c->status);
    ask("getHealth", SCOPE_SESSIONS_READ | SCOPE_EXECUTE);
    assert_string_equal(text_at("status", NULL, NULL), c->status);
    assert_string_equal(text_at("components", c->component, "state"), c->status);
    assert_string_not_equal(text_at("components", c->component, "message"), "(none)");
    scoped_free char *told = json_dumps(answered.document, 0);
    assert_null(strstr(told, DETAIL));
    ask("getHealth", SCOPE_ADMIN);
    const char *words = text_at("components", c->component, "message");
    assert_int_equal(strstr(words, DETAIL) != NULL, c->has_detail);
}

static void test_old_trouble(void **state)
{
    setup(state);
    empty_pool();
    pool_info.parked = 1; /* it has recovered */
    ask("getHealth", 0);
    assert_string_equal(text_at("status", NULL, NULL), "ok");
}

/* --- /health/ready -----------------------------------------------------------------------------
 */

struct ready_case {
    const char *name;
    void (*make)(void);
    const char *word; /* NULL: it is ready */
};

static void nothing(void)
{
}

static const struct ready_case readies[] = {
    {"ready", nothing, NULL},
    {"not while it recovers", recover, "recovering"},
    {"not when it is about to stop", drain, "draining"},
    {"not when it cannot write", break_store, "database_unavailable"},
    {"not without isolation", lose_layers, "isolation_unavailable"},
    {"with an empty pool", empty_pool, NULL},
    {"before layers were tried", forget_layers, NULL},
};

static void test_ready(void **state)
{
    const struct ready_case *c = *state;
    setup(state);
    c->make();
    ask("getReady", 0);
    assert_int_equal(answered.status, c->word ? 503 : 200);
    if (c->word) {
        assert_string_equal(answered.failure.word, c->word);
        assert_null(strstr(answered.failure.msg, DETAIL));
    } else {
        assert_string_equal(text_at("status", NULL, NULL), "ready");
    }
}

/* --- /metrics, and what is counted -------------------------------------------------------------
 */

static const struct http_record records[] = {
    {.method = METHOD_GET, .status = 200, .bytes_out = 10, .duration_ns = 200000},
    {.method = METHOD_HEAD, .status = 404, .bytes_in = 5, .duration_ns = 300000},
};

static void expect_line(const char *text, const char *line)
{
    scoped_free char *whole = xasprintf("\n%s\n", line);
    if (!strstr(text, whole))
        fail_msg("no line '%s'", line);
}

static void test_observed(void **state)
{
    setup(state);
    api.metrics = observe_metrics();
    api.server = (struct http_server *)&api;
    scoped(api_table) struct api_table *table = api_table_new(0);
    struct api_server server = {&api, table};
    size_t count;
    const struct route *routes = api_table_routes(table, &count);
    for (size_t i = 0; i < count; i++) {
        struct http_record r = records[0];
        r.route = &routes[i];
        r.method = routes[i].method;
        observe_request(&r, &server);
    }
    observe_request(&records[1], &server);
    const struct plane_ending ending = {.id = "exe_1",
                                        .state = EXECUTION_FAILED,
                                        .kind = REASON_OOM,
                                        .duration_ms = 12,
                                        .cpu_us = 2500000};
    observe_plane.ended(&api, &ending);
    observe_plane.created(&api, 0.2, true);

    scoped_strbuf struct strbuf out;
    strbuf_init(&out, METRICS_MAX_BYTES);
    observe_write(&api, &out);
    const char *text = strbuf_str(&out);
    /* below the prefix, and at the root */
    expect_line(text,
                "cove_http_requests_total{route=\"getHealth\",method=\"GET\",status=\"2xx\"} 2");
    expect_line(
        text, "cove_http_requests_total{route=\"createSession\",method=\"POST\",status=\"2xx\"} 1");
    expect_line(text, "cove_http_requests_total{route=\"none\",method=\"HEAD\",status=\"4xx\"} 1");
    expect_line(text, "cove_http_request_duration_seconds_count{route=\"none\"} 1");
    expect_line(text, "cove_http_request_bytes_total 5");
    expect_line(text, "cove_http_connections 3");
    expect_line(text, "cove_executions_total{state=\"failed\",stateless=\"true\"} 1");
    expect_line(text, "cove_execution_reasons_total{reason=\"oom\"} 1");
    expect_line(text, "cove_execution_cpu_seconds_total 2.5");
    expect_line(text,
                "cove_session_create_duration_seconds_bucket{pooled=\"true\",le=\"0.00025\"} 1");
    expect_line(text, "cove_sessions{state=\"ready\"} 3");
    expect_line(text, "cove_executions_running 1");
    expect_line(text, "cove_executions_queued 2");
    expect_line(text, "cove_sandboxes_max 10");
    expect_line(text, "cove_pool_taken_total{template=\"tpl_one\"} 9");
    expect_line(text, "cove_pool_missed_total{template=\"tpl_one\"} 1");
    expect_line(text, "cove_store_commits_total 5");
    expect_line(text, "cove_isolation_tier{tier=\"T1\"} 1");
    expect_line(text, "cove_isolation_tier{tier=\"T2\"} 0");
    metrics_free(api.metrics);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "a stranger is told the status", test_stranger);
    check_one(&check, "a token tells the rest", test_known);
    check_rows(&check, troubles, test_trouble);
    check_one(&check, "a pool that has recovered", test_old_trouble);
    check_rows(&check, readies, test_ready);
    check_one(&check, "what happens is counted, by the ids of routes", test_observed);
    int result = check_run(&check, "rest_health");
    answered_release();
    return result;
}
