/* test_rest_node.c - nodes, runners and containers as documents */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answered.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "check.h"
#include "core/node.h"
#include "core/tail.h"
#include "runtime/spawner_client.h"

/* --- a server, played --------------------------------------------------------------------------
 */

static struct api api = {.node = "here"};
static struct store_node nodes[3];
static struct tail *tail;
static spawner_reply_fn stats_fn;
static void *stats_ctx;
static uint64_t stats_of;

void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out);
bool __wrap_plane_view(const struct plane *plane, const char *after,
                       struct plane_session_view *out);
bool __wrap_plane_find_view(const struct plane *plane, const char *id,
                            struct plane_session_view *out);
void __wrap_store_list_nodes(struct store *store, const struct store_filter *filter, store_fn fn,
                             void *ctx);
void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx);
const struct runner_list *__wrap_catalog_runners(const struct catalog *catalog);
bool __wrap_catalog_has_sessions(const struct catalog *catalog, const struct runner *runner);

void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out)
{
    (void)plane;
    *out = (struct plane_info){.running = 1};
}

static const struct spawn_limits limits = {.memory_bytes = 256 * MIB,
                                           .disk_bytes = 128 * MIB,
                                           .inodes = 1000,
                                           .cpu_milli = 500,
                                           .pids = 64,
                                           .open_files = 256};
static const struct session_info info = {.state = SESSION_READY,
                                         .is_frozen = true,
                                         .created_ns = 1000000000,
                                         .last_used_ns = 2000000000};

static void fill_view(const char *id, struct plane_session_view *out)
{
    *out = (struct plane_session_view){.id = id,
                                       .owner = "key_1",
                                       .template_name = "python",
                                       .language = "python",
                                       .state = STORE_SESSION_BUSY,
                                       .info = &info,
                                       .sandbox = 17,
                                       .limits = &limits,
                                       .tail = tail};
}

/* In the order in which the plane happens to have them. */
static const char *const ids[] = {"ses_2", "ses_4", "ses_1", "ses_3"};

bool __wrap_plane_view(const struct plane *plane, const char *after, struct plane_session_view *out)
{
    size_t at = 0;
    (void)plane;
    while (after && strcmp(ids[at++], after) != 0)
        continue;
    if (at == ARRAY_LEN(ids))
        return false;
    fill_view(ids[at], out);
    return true;
}

bool __wrap_plane_find_view(const struct plane *plane, const char *id,
                            struct plane_session_view *out)
{
    (void)plane;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        if (strcmp(ids[i], id) == 0) {
            fill_view(ids[i], out);
            return true;
        }
    }
    return false;
}

void __wrap_store_list_nodes(struct store *store, const struct store_filter *filter, store_fn fn,
                             void *ctx)
{
    (void)store;
    assert_int_equal(filter->limit, STORE_PAGE_MAX);
    fn(ctx, &(struct store_answer){.count = ARRAY_LEN(nodes), .nodes = nodes});
}

void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx)
{
    (void)client;
    assert_int_equal(m->verb, SPAWN_STATS);
    stats_of = m->sandbox;
    stats_fn = reply;
    stats_ctx = ctx;
}

static char *alias[] = {(char *)"py", NULL};
static char *none[] = {NULL};
static struct runner runner_items[] = {
    {.language = (char *)"python",
     .version = (char *)"3.11",
     .image = (char *)"python",
     .aliases = {alias, 1},
     .extensions = {alias, 1}},
    {.language = (char *)"awk",
     .image = (char *)"own",
     .aliases = {none, 0},
     .extensions = {none, 0}},
};
static const struct runner_list runners = {.items = runner_items, .count = 2};

const struct runner_list *__wrap_catalog_runners(const struct catalog *catalog)
{
    (void)catalog;
    return &runners;
}

bool __wrap_catalog_has_sessions(const struct catalog *catalog, const struct runner *runner)
{
    (void)catalog;
    return runner == &runner_items[0];
}

static struct api_call call;
static char *parameters[3];

static void ask(const char *route, const char *id)
{
    parameters[0] = (char *)"id";
    parameters[1] = (char *)id;
    call = (struct api_call){.api = &api, .parameters = parameters};
    answered.status = 0;
    answered_ask(&rest_node_group, route, &call);
}

static void expect(const json_t *value, const char *wanted)
{
    scoped_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, wanted);
}

/* --- nodes -------------------------------------------------------------------------------------
 */

static void test_nodes(void **state)
{
    (void)state;
    int64_t now = clock_wall_ns();
    nodes[0] = (struct store_node){.id = "here", .epoch = 3, .heartbeat_ns = 0, .doc = "{}"};
    nodes[1] = (struct store_node){
        .id = "there",
        .epoch = 1,
        .heartbeat_ns = now,
        .doc = "{\"version\":\"9\",\"capacity\":{\"sessions\":1,\"max_sessions\":2},\"load\":{}}"};
    nodes[2] = (struct store_node){
        .id = "gone", .heartbeat_ns = now - (NODE_LOST_MS + 1000) * 1000000ll, .doc = "not JSON"};
    ask("listNodes", NULL);
    assert_int_equal(answered.status, 200);
    json_t *list = json_object_get(answered.document, "nodes");
    assert_int_equal(json_array_size(list), 3);
    expect(json_array_get(list, 0),
           "{\"id\":\"here\",\"state\":\"ready\",\"self\":true,\"runtime\":\"native\",\"version\":"
           "\"" COVE_VERSION "\",\"epoch\":3,\"heartbeat_at\":\"1970-01-01T00:00:00.000Z\","
           "\"capacity\":{\"sessions\":0,\"max_sessions\":null},\"load\":{\"sessions\":0,"
           "\"running\":1,\"queued\":0}}");
    json_t *other = json_array_get(list, 1), *gone = json_array_get(list, 2);
    expect(json_object_get(other, "state"), "\"ready\"");
    expect(json_object_get(other, "self"), "false");
    expect(json_object_get(other, "version"), "\"9\"");
    expect(json_object_get(other, "capacity"), "{\"sessions\":1,\"max_sessions\":2}");
    expect(json_object_get(gone, "state"), "\"lost\"");
    expect(json_object_get(gone, "version"), "null");
    expect(json_object_get(gone, "load"), "null");
    api.is_draining = true;
    ask("listNodes", NULL);
    api.is_draining = false;
    list = json_object_get(answered.document, "nodes");
    expect(json_object_get(json_array_get(list, 0), "state"), "\"draining\"");
}

static void test_runners(void **state)
{
    (void)state;
    ask("listRunners", NULL);
    expect(
        answered.document,
        "{\"runners\":[{\"language\":\"python\",\"version\":\"3.11\",\"image\":\"python\","
        "\"aliases\":[\"py\"],\"extensions\":[\"py\"],\"has_sessions\":true,\"packages\":[]},{\"language\":"
        "\"awk\",\"version\":null,\"image\":\"own\",\"aliases\":[],\"extensions\":[],"
        "\"has_sessions\":false,\"packages\":[]}]}");
}

/* --- containers --------------------------------------------------------------------------------
 */

#define CONTAINER(id, usage)                                                                       \
    "{\"id\":\"" id "\",\"runtime\":\"native\",\"node\":\"here\",\"sandbox\":17,\"state\":"        \
    "\"busy\",\"frozen\":true,\"template\":\"python\",\"language\":\"python\",\"owner\":"          \
    "\"key_1\",\"created_at\":\"1970-01-01T00:00:01.000Z\",\"last_used_at\":"                      \
    "\"1970-01-01T00:00:02.000Z\",\"limits\":{\"memory_bytes\":268435456,\"disk_bytes\":"          \
    "134217728,\"inodes\":1000,\"cpus\":0.5,\"pids\":64,\"open_files\":256},\"usage\":" usage "}"

/* As the table of rest_node.c reads it. */
static void ask_page(const char *cursor, int64_t limit)
{
    for (size_t i = 0; i < rest_node_group.count; i++) {
        const struct api_route *row = &rest_node_group.rows[i];
        if (strcmp(row->id, "listContainers") != 0)
            continue;
        struct error err;
        char number[24];
        const struct param_text fields[] = {{"limit", number}, {"cursor", cursor}};
        snprintf(number, sizeof(number), "%d", (int)limit);
        void *wish = xcalloc(1, row->query->size);
        assert_int_equal(params_read_query(wish, row->query, fields, cursor ? 2 : 1, &err), 0);
        call = (struct api_call){.api = &api, .query = wish};
        row->handler(&call);
        params_release(wish, row->query);
        free(wish);
    }
}

static void expect_page(const char *wanted, const char *next)
{
    size_t i;
    const json_t *item;
    char found[64] = "";
    json_array_foreach(json_object_get(answered.document, "containers"), i, item)
    {
        size_t len = strlen(found);
        snprintf(found + len, sizeof(found) - len, "%s ",
                 json_string_value(json_object_get(item, "id")));
    }
    assert_string_equal(found, wanted);
    expect(json_object_get(answered.document, "next_cursor"), next);
}

static void test_list(void **state)
{
    (void)state;
    ask_page(NULL, 50);
    expect_page("ses_1 ses_2 ses_3 ses_4 ", "null");
    expect(json_array_get(json_object_get(answered.document, "containers"), 0),
           CONTAINER("ses_1", "null"));
    ask_page(NULL, 4);
    expect_page("ses_1 ses_2 ses_3 ses_4 ", "null");
    ask_page(NULL, 2);
    expect_page("ses_1 ses_2 ", "\"ses_2\"");
}

/* Ids that a client can send are whole ones; none of ours is behind the last of those. */
static void test_page(void **state)
{
    (void)state;
    ask_page("ses_20000000000000000000000000", 1); /* which is gone */
    expect_page("ses_3 ", "\"ses_3\"");
    ask_page("ses_3zzzzzzzzzzzzzzzzzzzzzzzzz", 1);
    expect_page("ses_4 ", "null");
    ask_page("ses_7zzzzzzzzzzzzzzzzzzzzzzzzz", 1);
    expect_page("", "null");
}

static void test_usage(void **state)
{
    (void)state;
    int fds[SPAWNER_REPLY_FDS] = {0};
    const struct spawn_message m = {
        .stats = {
            .cpu_us = 1500, .memory_peak_bytes = 4096, .disk_used_bytes = 512, .pids_now = 3}};
    ask("getContainer", "ses_1");
    assert_int_equal(answered.status, 0); /* not before the spawner has answered */
    assert_int_equal(stats_of, 17);
    stats_fn(stats_ctx, &m, fds, NULL);
    assert_int_equal(answered.status, 200);
    expect(answered.document,
           CONTAINER("ses_1", "{\"cpu_ms\":1.5,\"peak_memory_bytes\":4096,\"disk_bytes\":"
                              "512,\"pids\":3}"));
    const struct error gone = {.code = ERROR_NOT_FOUND, .msg = "no such sandbox"};
    ask("getContainer", "ses_1");
    stats_fn(stats_ctx, NULL, fds, &gone);
    assert_int_equal(answered.status, 200);
    expect(answered.document, CONTAINER("ses_1", "null"));
}

static void test_logs(void **state)
{
    (void)state;
    ask("getContainerLogs", "ses_1");
    expect(answered.document, "{\"id\":\"ses_1\",\"entries\":[],\"dropped_bytes\":0}");
    tail = tail_new(TAIL_MAX_BYTES);
    tail_add(tail, EXECUTION_STDOUT, "one\n", 4, 1000000000);
    tail_add(tail, EXECUTION_STDERR, "t\xffo\0!", 5, 1000000000);
    ask("getContainerLogs", "ses_1");
    expect(answered.document,
           "{\"id\":\"ses_1\",\"entries\":[{\"time\":\"1970-01-01T00:00:01.000Z\","
           "\"stream\":\"stdout\",\"text\":\"one\\n\"},{\"time\":"
           "\"1970-01-01T00:00:01.000Z\",\"stream\":\"stderr\",\"text\":\"t\xef\xbf\xbd"
           "o\\u0000!\"}],\"dropped_bytes\":0}");
    static char page[3 * TAIL_MAX_BYTES];
    memset(page, 'x', sizeof(page));
    tail_add(tail, EXECUTION_STDOUT, page, sizeof(page), 9000000000);
    ask("getContainerLogs", "ses_1");
    const json_t *entries = json_object_get(answered.document, "entries");
    assert_int_equal(json_array_size(entries), 1);
    size_t kept = json_string_length(json_object_get(json_array_get(entries, 0), "text"));
    assert_true(kept > TAIL_MAX_BYTES - 100 && kept <= TAIL_MAX_BYTES);
    assert_int_equal(json_integer_value(json_object_get(answered.document, "dropped_bytes")),
                     9 + sizeof(page) - kept);
    tail_free(tail);
    tail = NULL;
}

static void test_missing(void **state)
{
    (void)state;
    static const char *const routes[] = {"getContainer", "getContainerLogs"};
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        ask(routes[i], "ses_5");
        assert_int_equal(answered.status, 404);
        assert_string_equal(answered.failure.word, "container_not_found");
    }
}

static void test_scopes(void **state)
{
    (void)state;
    for (size_t i = 0; i < rest_node_group.count; i++) {
        const struct api_route *row = &rest_node_group.rows[i];
        bool is_for_all = strcmp(row->id, "listRunners") == 0;
        assert_int_equal(row->scope, is_for_all ? 0 : SCOPE_ADMIN);
        assert_int_equal(row->flags & API_OPEN, 0);
    }
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "nodes, by themselves and by what others told", test_nodes);
    check_one(&check, "runners", test_runners);
    check_one(&check, "containers, sorted", test_list);
    check_one(&check, "a page goes on behind what may have gone", test_page);
    check_one(&check, "what a container uses, as far as it can be told", test_usage);
    check_one(&check, "what a container printed last", test_logs);
    check_one(&check, "containers that are not there", test_missing);
    check_one(&check, "others' containers are the operator's to see", test_scopes);
    int result = check_run(&check, "rest_node");
    answered_release();
    return result;
}
