/* rest_node.c - /nodes, /runners, /containers: what there is to run code with, and what runs where
 *
 * A container is what an operator sees of a live session: here a sandbox of our own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/page.h"
#include "api/routes.h"
#include "api/runner_json.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/node.h"
#include "core/tail.h"
#include "runtime/spawner_client.h"

#define RUNTIME   "native"
#define NS_PER_MS INT64_C(1000000)

static json_t *time_json(int64_t wall_ns)
{
    char text[CLOCK_TEXT_BYTES];
    clock_format(wall_ns, text);
    return json_string(text);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static const char *own_state(const struct api *api)
{
    struct plane_info info;
    plane_get_info(api->plane, &info);
    if (info.is_recovering)
        return "recovering";
    return api->is_draining ? "draining" : "ready";
}

static const char *other_state(const struct store_node *record)
{
    bool is_lost = clock_wall_ns() - record->heartbeat_ns > NODE_LOST_MS * NS_PER_MS;
    return is_lost ? "lost" : "ready";
}

/* What a node told about itself with its last beat; new. */
static json_t *told_json(const struct store_node *record)
{
    struct error ignored;
    json_t *told = NULL;
    const struct json_limits limits = {.max_bytes = STORE_RECORD_MAX_BYTES};
    if (record->doc && json_parse(&told, record->doc, strlen(record->doc), &limits, &ignored) == 0)
        return told;
    return json_object();
}

static json_t *member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return value ? json_incref(value) : json_null();
}

/* Node:
 *   id            string
 *   state         "ready"|"recovering"|"draining"|"lost": no heartbeat for 16 s
 *   self          boolean: the one that answers
 *   runtime       "native"
 *   version       string|null
 *   epoch         integer: how often it has begun
 *   heartbeat_at  time
 *   capacity      {"sessions": integer, "max_sessions": integer|null}|null
 *   load          {"sessions": integer, "running": integer, "queued": integer}|null */
static json_t *node_json(const struct api *api, const struct store_node *record)
{
    bool is_self = strcmp(record->id, api->node) == 0;
    scoped_json json_t *told =
        is_self ? node_figures(api->plane, api->capacity) : told_json(record);
    if (is_self)
        json_object_set_new(told, "version", json_string(COVE_VERSION));
    return json_pack("{s:s, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "id", record->id, "state",
                     is_self ? own_state(api) : other_state(record), "self", is_self, "runtime",
                     RUNTIME, "version", member(told, "version"), "epoch",
                     json_number(record->epoch), "heartbeat_at", time_json(record->heartbeat_ns),
                     "capacity", member(told, "capacity"), "load", member(told, "load"));
}

/* NodeList: {"nodes": [Node]} */
static void on_nodes_known(void *ctx, const struct store_answer *answer)
{
    struct api_call *call = ctx;
    if (answer->err) {
        api_fail(call, answer->err);
        return;
    }
    json_t *nodes = json_array();
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(nodes, node_json(api_of(call), &answer->nodes[i]));
    api_answer(call, 200, json_pack("{s:o}", "nodes", nodes));
}

static void on_nodes(struct api_call *call)
{
    const struct store_filter all = {.limit = STORE_PAGE_MAX};
    store_list_nodes(api_of(call)->store, &all, on_nodes_known, call);
}

/* --- runners ---------------------------------------------------------------------------------- */

/* RunnerList */
static void on_runners(struct api_call *call)
{
    api_answer(call, 200, runner_json_list(api_of(call)->catalog));
}

/* --- containers ------------------------------------------------------------------------------- */

static json_t *limits_json(const struct spawn_limits *l)
{
    return json_pack("{s:o, s:o, s:o, s:f, s:o, s:o}", "memory_bytes", json_number(l->memory_bytes),
                     "disk_bytes", json_number(l->disk_bytes), "inodes", json_number(l->inodes),
                     "cpus", (double)l->cpu_milli / 1e3, "pids", json_number(l->pids), "open_files",
                     json_number(l->open_files));
}

/* Container:
 *   id            string: that of the session in it
 *   runtime       "native"
 *   node          string
 *   sandbox       integer: as the spawner counts
 *   state         as a session's
 *   frozen        boolean: it is idle, and its processes stand still
 *   template, language, owner  string; owner "" is the operator
 *   created_at, last_used_at   time
 *   limits        {"memory_bytes", "disk_bytes", "inodes", "cpus": number, "pids", "open_files"}
 *   usage         of one container; in lists, and when it cannot be told: null
 *                 {"cpu_ms": number, "peak_memory_bytes", "disk_bytes", "pids": integer} */
static json_t *container_json(const struct api *api, const struct plane_session_view *v)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:b, s:s, s:s, s:s, s:o, s:o, s:o, s:n}", "id",
                     v->id, "runtime", RUNTIME, "node", api->node, "sandbox",
                     json_number(v->sandbox), "state", store_session_names[v->state], "frozen",
                     v->info->is_frozen, "template", v->template_name, "language", v->language,
                     "owner", v->owner, "created_at", time_json(v->info->created_ns),
                     "last_used_at", time_json(v->info->last_used_ns), "limits",
                     limits_json(v->limits), "usage");
}

static bool is_container_id(const char *text)
{
    return id_is_valid(ID_SESSION, text);
}

/* clang-format off */
static const struct param list_rows[] = {
    PAGE_LIMIT_ROW(struct page),
    {.name = "cursor", .type = PARAM_STRING, .offset = offsetof(struct page, cursor), .max_len = ID_BYTES, .check = is_container_id,
     .help = PAGE_CURSOR_HELP},
};
static const struct param_table list_table = PARAM_TABLE(struct page, "ListContainers", list_rows);
/* clang-format on */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Their ids behind `after` (NULL: all), sorted: a page can go on where the last ended, whoever has
 * come or gone meanwhile. Owned; the ids are the plane's. */
static const char **list_ids(const struct plane *plane, const char *after, size_t *count)
{
    const char **ids = NULL;
    size_t room = 0;
    struct plane_session_view view = {0};
    *count = 0;
    while (plane_view(plane, view.id, &view)) {
        if (after && strcmp(view.id, after) <= 0)
            continue;
        if (*count == room) {
            room = room ? 2 * room : 64;
            ids = xrealloc(ids, room * sizeof(*ids));
        }
        ids[(*count)++] = view.id;
    }
    if (*count > 0)
        qsort(ids, *count, sizeof(*ids), compare_ids);
    return ids;
}

/* ContainerList: {"containers": [Container], "next_cursor": string|null}, by id */
static void on_containers(struct api_call *call)
{
    const struct api *api = api_of(call);
    const struct page *asked = api_query(call);
    struct plane_session_view view;
    size_t count;
    scoped_free const char **ids = list_ids(api->plane, asked->cursor, &count);
    size_t page = MIN(count, (size_t)asked->limit);
    json_t *containers = json_array();
    for (size_t i = 0; i < page; i++) {
        if (plane_find_view(api->plane, ids[i], &view))
            json_array_append_new(containers, container_json(api, &view));
    }
    api_answer(call, 200, page_json("containers", containers, page < count ? ids[page - 1] : NULL));
}

/* False: there is none, and the call was answered. */
static bool find_container(struct api_call *call, struct plane_session_view *out)
{
    struct error err;
    const char *id = api_parameter(call, "id");
    if (plane_find_view(api_of(call)->plane, id, out))
        return true;
    error_set(&err, ERROR_NOT_FOUND, "no container '%.64s' lives here", id);
    error_word(&err, "container_not_found");
    api_fail(call, &err);
    return false;
}

/* A container whose usage is asked for. */
struct usage_question {
    struct api_call *call;
    json_t *container;
};

static json_t *usage_json(const struct spawn_stats *s)
{
    return json_pack("{s:f, s:o, s:o, s:o}", "cpu_ms", (double)s->cpu_us / 1e3, "peak_memory_bytes",
                     json_number(s->memory_peak_bytes), "disk_bytes",
                     json_number(s->disk_used_bytes), "pids", json_number(s->pids_now));
}

/* Without an answer the rest is told all the same: the sandbox may have ended meanwhile. */
static void on_usage_known(void *ctx, const struct spawn_message *m, int fds[SPAWNER_REPLY_FDS],
                           const struct error *err)
{
    scoped_free struct usage_question *q = ctx;
    (void)fds, (void)err;
    if (m)
        json_object_set_new(q->container, "usage", usage_json(&m->stats));
    api_answer(q->call, 200, q->container);
}

static void on_container(struct api_call *call)
{
    struct plane_session_view view;
    if (!find_container(call, &view))
        return;
    struct usage_question *q = xcalloc(1, sizeof(*q));
    *q = (struct usage_question){call, container_json(api_of(call), &view)};
    struct spawn_message m = {.verb = SPAWN_STATS, .sandbox = view.sandbox};
    spawner_client_ask(api_of(call)->spawner, &m, on_usage_known, q);
}

/* ContainerLogs: what its executions printed last, as far as it is kept
 *   id             string
 *   entries        [{"time": time, "stream": "stdout"|"stderr", "text": string}], oldest first
 *   dropped_bytes  integer: what was printed before */
static void on_logs(struct api_call *call)
{
    static const char *const streams[] = {"stdout", "stderr"};
    struct plane_session_view view;
    struct tail_piece piece;
    scoped_strbuf struct strbuf text;
    size_t at = 0;
    strbuf_init(&text, TAIL_MAX_BYTES);
    if (!find_container(call, &view))
        return;
    json_t *entries = json_array();
    while (view.tail && tail_read(view.tail, &at, &piece, &text)) {
        json_array_append_new(entries,
                              json_pack("{s:o, s:s, s:o}", "time", time_json(piece.wall_ns),
                                        "stream", streams[piece.stream], "text",
                                        json_text(strbuf_str(&text), text.len)));
        strbuf_clear(&text);
    }
    api_answer(call, 200,
               json_pack("{s:s, s:o, s:o}", "id", view.id, "entries", entries, "dropped_bytes",
                         json_number(view.tail ? tail_dropped(view.tail) : 0)));
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct api_reply nodes_reply[] = {{200, "NodeList", NULL, "All of them."}, {0}};
static const struct api_reply runners_reply[] = {{200, "RunnerList", NULL, "All of them."}, {0}};
static const struct api_reply list_reply[] = {
    {200, "ContainerList", NULL, "A page of those of live sessions on this node."}, {0}};
static const struct api_reply container_reply[] = {{200, "Container", NULL, "The container."}, {0}};
static const struct api_reply logs_reply[] = {
    {200, "ContainerLogs", NULL, "What its executions printed last."}, {0}};
static const int not_found[] = {404, 0};

/* clang-format off */
static const struct api_route rows[] = {
    {.method = METHOD_GET, .pattern = "/runners", .handler = on_runners, .id = "listRunners", .tag = "operation",
     .summary = "List languages", .help = "Any token will do.", .replies = runners_reply},
    {.method = METHOD_GET, .pattern = "/nodes", .scope = SCOPE_ADMIN, .handler = on_nodes, .id = "listNodes",
     .tag = "operation", .summary = "List the machines that hold sandboxes", .replies = nodes_reply},
    {.method = METHOD_GET, .pattern = "/containers", .scope = SCOPE_ADMIN, .query = &list_table,
     .handler = on_containers,
     .id = "listContainers", .tag = "operation", .summary = "List what runs here", .replies = list_reply},
    {.method = METHOD_GET, .pattern = "/containers/{id}", .scope = SCOPE_ADMIN, .handler = on_container,
     .id = "getContainer", .tag = "operation", .summary = "Read a container, with what it uses now",
     .replies = container_reply, .errors = not_found},
    {.method = METHOD_GET, .pattern = "/containers/{id}/logs", .scope = SCOPE_ADMIN, .handler = on_logs,
     .id = "getContainerLogs", .tag = "operation", .summary = "Read what a container printed last",
     .replies = logs_reply, .errors = not_found},
};
/* clang-format on */
const struct api_group rest_node_group = {rows, ARRAY_LEN(rows)};
