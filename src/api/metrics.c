/* metrics.c - the table of metrics, and one array of numbers
 *
 * A metric has a cell for each combination of its labels' values; a histogram has one for each of
 * its buckets instead, and one for the sum. Numbers are doubles, which count exactly to 2^53. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/metrics.h"

#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "core/linux_feature.h"
#include "core/selfstat.h"
#include "core/tier.h"
#include "http/method.h"
#include "store/store_record.h"

/* --- the table -------------------------------------------------------------------------------- */

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

enum metric_label {
    NO_LABEL,
    BY_VERSION,
    BY_TIER,
    BY_LAYER,
    BY_KERNEL_FEATURE,
    BY_POOLED,
    BY_STATE,
    BY_STATELESS,
    BY_REASON,
    BY_SESSION_STATE,
    BY_TEMPLATE,
    BY_ROUTE,
    BY_METHOD,
    BY_CLASS,
    LABEL_COUNT
};

struct metric_row {
    const char *name;
    enum metric_type type;
    bool is_sparse;
    enum metric_label by[METRICS_LABELS_MAX];
    const char *help;
};

/* clang-format off */
static const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_BUILD] = {"cove_build_info", GAUGE, false, {BY_VERSION}, "1, with the version that runs."},
    [METRIC_TIER] = {"cove_isolation_tier", GAUGE, false, {BY_TIER}, "1 for the tier of isolation that holds here."},
    [METRIC_LAYER] = {"cove_isolation_layer", GAUGE, false, {BY_LAYER}, "1 for a layer of isolation that sandboxes have here."},
    [METRIC_KERNEL_FEATURE] = {"cove_kernel_feature", GAUGE, false, {BY_KERNEL_FEATURE},
        "1 for what this kernel has beyond the layers; without it other means stand in."},
    [METRIC_CREATE_SECONDS] = {"cove_session_create_duration_seconds", HISTOGRAM, false, {BY_POOLED},
        "Time from the request for a session until it was ready."},
    [METRIC_EXECUTION_SECONDS] = {"cove_execution_duration_seconds", HISTOGRAM, false, {BY_STATE},
        "Time that executions ran, by the state they ended in."},
    [METRIC_EXECUTIONS] = {"cove_executions_total", COUNTER, false, {BY_STATE, BY_STATELESS},
        "Executions that have ended."},
    [METRIC_REASONS] = {"cove_execution_reasons_total", COUNTER, false, {BY_REASON},
        "Executions that did not complete, by cause; timeout, oom, pids and disk are limits that were hit."},
    [METRIC_EXECUTION_CPU] = {"cove_execution_cpu_seconds_total", COUNTER, false, {0},
        "CPU time that executions have used."},
    [METRIC_SESSIONS] = {"cove_sessions", GAUGE, false, {BY_SESSION_STATE}, "Live sessions."},
    [METRIC_RUNNING] = {"cove_executions_running", GAUGE, false, {0}, "Executions that run now."},
    [METRIC_QUEUED] = {"cove_executions_queued", GAUGE, false, {0}, "Executions that wait now."},
    [METRIC_SANDBOXES] = {"cove_sandboxes", GAUGE, false, {0}, "Sandboxes that live here, parked ones included."},
    [METRIC_SANDBOXES_MAX] = {"cove_sandboxes_max", GAUGE, false, {0}, "Sandboxes that may live here."},
    [METRIC_POOL_PARKED] = {"cove_pool_parked", GAUGE, false, {BY_TEMPLATE}, "Sessions that are ready to be taken."},
    [METRIC_POOL_CREATING] = {"cove_pool_creating", GAUGE, false, {BY_TEMPLATE}, "Sessions being made for the pool."},
    [METRIC_POOL_TARGET] = {"cove_pool_target", GAUGE, false, {BY_TEMPLATE}, "Sessions that the pool wants to have ready."},
    [METRIC_POOL_TAKEN] = {"cove_pool_taken_total", COUNTER, false, {BY_TEMPLATE}, "Sessions taken from the pool."},
    [METRIC_POOL_MISSED] = {"cove_pool_missed_total", COUNTER, false, {BY_TEMPLATE},
        "Sessions taken of which none was ready."},
    [METRIC_POOL_COLD] = {"cove_pool_cold", GAUGE, false, {BY_TEMPLATE},
        "1 while the warm interpreter that its sessions are made from is missing: they start slowly."},
    [METRIC_HTTP_REQUESTS] = {"cove_http_requests_total", COUNTER, true, {BY_ROUTE, BY_METHOD, BY_CLASS},
        "Requests that have ended; status none: the peer left before the answer."},
    [METRIC_HTTP_SECONDS] = {"cove_http_request_duration_seconds", HISTOGRAM, true, {BY_ROUTE},
        "Time from the head of a request to the end of its answer."},
    [METRIC_HTTP_BYTES_IN] = {"cove_http_request_bytes_total", COUNTER, false, {0}, "Bytes of requests' bodies."},
    [METRIC_HTTP_BYTES_OUT] = {"cove_http_response_bytes_total", COUNTER, false, {0}, "Bytes of answers' bodies."},
    [METRIC_HTTP_CONNECTIONS] = {"cove_http_connections", GAUGE, false, {0}, "Connections that are open."},
    [METRIC_HTTP_ACCEPTED] = {"cove_http_connections_accepted_total", COUNTER, false, {0}, "Connections that were accepted."},
    [METRIC_HTTP_REFUSED] = {"cove_http_connections_refused_total", COUNTER, false, {0},
        "Connections that were refused because there were too many."},
    [METRIC_STORE_QUEUE] = {"cove_store_queue", GAUGE, false, {0}, "Calls of the database that wait or are under way."},
    [METRIC_STORE_COMMITS] = {"cove_store_commits_total", COUNTER, false, {0}, "Transactions that were committed."},
    [METRIC_STORE_WRITES] = {"cove_store_writes_total", COUNTER, false, {0}, "Writes in them."},
    [METRIC_STORE_FAILURES] = {"cove_store_failures_total", COUNTER, false, {0},
        "Calls that failed since the database was not available."},
    [METRIC_STORE_FAILING] = {"cove_store_failing", GAUGE, false, {0}, "1 when the last transaction could not be committed."},
    [METRIC_STORE_MEMORY] = {"cove_store_memory_bytes", GAUGE, false, {0}, "Memory in which the database keeps pages."},
    [METRIC_LOG_DROPPED] = {"cove_log_lines_dropped_total", COUNTER, false, {0},
        "Lines of the log that found no room: nobody reads it, or its disk is full."},
    [METRIC_PROCESS_CPU] = {"process_cpu_seconds_total", COUNTER, false, {0}, "CPU time of this process."},
    [METRIC_PROCESS_RESIDENT] = {"process_resident_memory_bytes", GAUGE, false, {0}, "Memory of this process."},
    [METRIC_HEAP] = {"cove_heap_bytes", GAUGE, false, {0}, "Memory that is in use; what stays of a peak is not."},
    [METRIC_PROCESS_VIRTUAL] = {"process_virtual_memory_bytes", GAUGE, false, {0}, "Address space of this process."},
    [METRIC_PROCESS_FDS] = {"process_open_fds", GAUGE, false, {0}, "Files that this process has open."},
    [METRIC_PROCESS_FDS_MAX] = {"process_max_fds", GAUGE, false, {0}, "Files that this process may have open."},
    [METRIC_PROCESS_THREADS] = {"process_threads", GAUGE, false, {0}, "Threads of this process."},
    [METRIC_PROCESS_START] = {"process_start_time_seconds", GAUGE, false, {0}, "When this process began, since the epoch."},
};
/* clang-format on */

/* From what a parked sandbox takes to the longest time limits. */
static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                5,      10,      30,     60,    300,    1800};
#define BUCKETS      (ARRAY_LEN(bounds) + 1) /* the last: more than that */
#define BUCKET_CELLS (BUCKETS + 1)           /* and the sum */

struct metrics {
    const char **routes;
    size_t route_count;
    char templates[METRICS_TEMPLATES_MAX][ID_BYTES];
    size_t template_count;
    struct selfstat *self;
    double *first[METRIC_COUNT]; /* cell of each metric */
    size_t series[METRIC_COUNT];
    double *cells;
};

/* --- labels ----------------------------------------------------------------------------------- */

static const char *version_word(const struct metrics *m, size_t at)
{
    (void)m, (void)at;
    return COVE_VERSION;
}

static const char *tier_word(const struct metrics *m, size_t at)
{
    (void)m;
    const char *name = tier_name((enum tier)at);
    return name ? name : "none";
}

static const char *layer_word(const struct metrics *m, size_t at)
{
    (void)m;
    return layer_info((enum layer)at)->name;
}

static const char *linux_feature_word(const struct metrics *m, size_t at)
{
    (void)m;
    return linux_feature_name((enum linux_feature)at);
}

static const char *bool_word(const struct metrics *m, size_t at)
{
    (void)m;
    return at ? "true" : "false";
}

static const char *state_word(const struct metrics *m, size_t at)
{
    (void)m;
    return execution_state_name((enum execution_state)(EXECUTION_COMPLETED + at));
}

static const char *reason_word(const struct metrics *m, size_t at)
{
    (void)m;
    return reason_kind_name((enum reason_kind)(REASON_TIMEOUT + at));
}

static const char *session_word(const struct metrics *m, size_t at)
{
    (void)m;
    return store_session_names[at];
}

static const char *template_word(const struct metrics *m, size_t at)
{
    return at < m->template_count ? m->templates[at] : NULL;
}

static const char *route_word(const struct metrics *m, size_t at)
{
    return at < m->route_count ? m->routes[at] : "none";
}

static const char *method_word(const struct metrics *m, size_t at)
{
    (void)m;
    return at < METHOD_COUNT ? method_name((enum method)at) : "other";
}

static const char *class_word(const struct metrics *m, size_t at)
{
    static const char *const words[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    (void)m;
    return words[at];
}

/* `word` is NULL for what is not there now. */
struct label_row {
    const char *name;
    size_t count; /* of values; 0: as many as there are routes, and one */
    const char *(*word)(const struct metrics *m, size_t at);
};

static const struct label_row label_rows[LABEL_COUNT] = {
    [NO_LABEL] = {"", 1, NULL},
    [BY_VERSION] = {"version", 1, version_word},
    [BY_TIER] = {"tier", TIER_T3 + 1, tier_word},
    [BY_LAYER] = {"layer", LAYER_COUNT, layer_word},
    [BY_KERNEL_FEATURE] = {"feature", LINUX_FEATURE_COUNT, linux_feature_word},
    [BY_POOLED] = {"pooled", 2, bool_word},
    [BY_STATE] = {"state", METRIC_STATE(EXECUTION_LOST) + 1, state_word},
    [BY_STATELESS] = {"stateless", 2, bool_word},
    [BY_REASON] = {"reason", METRIC_REASON(REASON_KINDS), reason_word},
    [BY_SESSION_STATE] = {"state", STORE_SESSION_TERMINATED, session_word}, /* live ones */
    [BY_TEMPLATE] = {"template", METRICS_TEMPLATES_MAX, template_word},
    [BY_ROUTE] = {"route", 0, route_word},
    [BY_METHOD] = {"method", METHOD_COUNT + 1, method_word},
    [BY_CLASS] = {"status", METRIC_CLASS(500) + 1, class_word},
};

static size_t label_count(const struct metrics *m, enum metric_label label)
{
    return label == BY_ROUTE ? m->route_count + 1 : label_rows[label].count;
}

/* --- cells ------------------------------------------------------------------------------------ */

static size_t cells_each(enum metric metric)
{
    return metric_rows[metric].type == HISTOGRAM ? BUCKET_CELLS : 1;
}

struct metrics *metrics_new(const char *const *routes, size_t count)
{
    struct metrics *m = xcalloc(1, sizeof(*m));
    size_t total = 0;
    m->routes = xcalloc(count + 1, sizeof(*m->routes));
    for (size_t i = 0; i < count; i++)
        m->routes[i] = routes[i];
    m->route_count = count;
    for (enum metric i = 0; i < METRIC_COUNT; i++) {
        m->series[i] = 1;
        for (size_t l = 0; l < METRICS_LABELS_MAX; l++)
            m->series[i] *= label_count(m, metric_rows[i].by[l]);
        total += m->series[i] * cells_each(i);
    }
    m->cells = xcalloc(total, sizeof(*m->cells));
    double *next = m->cells;
    for (enum metric i = 0; i < METRIC_COUNT; i++) {
        m->first[i] = next;
        next += m->series[i] * cells_each(i);
    }
    m->self = selfstat_new();
    metrics_set(m, METRIC_BUILD, METRIC_PLAIN, 1);
    metrics_set(m, METRIC_PROCESS_START, METRIC_PLAIN, (double)clock_wall_ns() / 1e9);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    selfstat_free(m->self);
    free(m->cells);
    free(m->routes);
    free(m);
}

static double *find(struct metrics *m, enum metric metric, const size_t *at)
{
    size_t index = 0;
    for (size_t l = 0; l < METRICS_LABELS_MAX; l++) {
        size_t count = label_count(m, metric_rows[metric].by[l]);
        BUG_ON(at[l] >= count);
        index = index * count + at[l];
    }
    return m->first[metric] + index * cells_each(metric);
}

void metrics_add(struct metrics *m, enum metric metric, const size_t *at, double amount)
{
    BUG_ON(metric_rows[metric].type == HISTOGRAM);
    *find(m, metric, at) += amount;
}

void metrics_set(struct metrics *m, enum metric metric, const size_t *at, double value)
{
    BUG_ON(metric_rows[metric].type == HISTOGRAM);
    *find(m, metric, at) = value;
}

void metrics_observe(struct metrics *m, enum metric metric, const size_t *at, double value)
{
    BUG_ON(metric_rows[metric].type != HISTOGRAM);
    double *cell = find(m, metric, at);
    size_t bucket = 0;
    while (bucket < ARRAY_LEN(bounds) && value > bounds[bucket])
        bucket++;
    cell[bucket]++;
    cell[BUCKETS] += value;
}

void metrics_forget_templates(struct metrics *m)
{
    m->template_count = 0;
}

bool metrics_name_template(struct metrics *m, const char *id, size_t *at)
{
    size_t len = strlen(id);
    if (m->template_count == METRICS_TEMPLATES_MAX || len >= ID_BYTES)
        return false;
    *at = m->template_count++;
    memcpy(m->templates[*at], id, len + 1);
    return true;
}

/* --- the text --------------------------------------------------------------------------------- */

/* Its labels, with a comma behind each: route="listSessions",method="GET", . False: one of them has
 * no such value now. No word of ours needs to be escaped. */
static bool add_labels(struct strbuf *out, const struct metrics *m, const struct metric_row *row,
                       size_t index)
{
    size_t at[METRICS_LABELS_MAX];
    for (size_t l = METRICS_LABELS_MAX; l-- > 0;) {
        at[l] = index % label_count(m, row->by[l]);
        index /= label_count(m, row->by[l]);
    }
    for (size_t l = 0; l < METRICS_LABELS_MAX && row->by[l] != NO_LABEL; l++) {
        const char *word = label_rows[row->by[l]].word(m, at[l]);
        if (!word)
            return false;
        strbuf_add_fmt(out, "%s=\"%s\",", label_rows[row->by[l]].name, word);
    }
    return true;
}

static void add_sample(struct strbuf *out, const char *name, const char *suffix, const char *labels,
                       double value)
{
    size_t len = strlen(labels); /* without its last comma */
    if (len > 0)
        strbuf_add_fmt(out, "%s%s{%.*s} %.15g\n", name, suffix, (int)len - 1, labels, value);
    else
        strbuf_add_fmt(out, "%s%s %.15g\n", name, suffix, value);
}

static void add_histogram(struct strbuf *out, const char *name, const char *labels,
                          const double *cell)
{
    double count = 0;
    for (size_t b = 0; b < ARRAY_LEN(bounds); b++) {
        count += cell[b];
        strbuf_add_fmt(out, "%s_bucket{%sle=\"%g\"} %.15g\n", name, labels, bounds[b], count);
    }
    count += cell[BUCKETS - 1];
    strbuf_add_fmt(out, "%s_bucket{%sle=\"+Inf\"} %.15g\n", name, labels, count);
    add_sample(out, name, "_sum", labels, cell[BUCKETS]);
    add_sample(out, name, "_count", labels, count);
}

static bool is_zero(const double *cell, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (cell[i] != 0)
            return false;
    }
    return true;
}

static void add_metric(struct strbuf *out, const struct metrics *m, enum metric metric)
{
    static const char *const types[] = {
        [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};
    const struct metric_row *row = &metric_rows[metric];
    scoped_strbuf struct strbuf labels;
    strbuf_init(&labels, KIB);
    strbuf_add_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                   types[row->type]);
    for (size_t i = 0; i < m->series[metric]; i++) {
        const double *cell = m->first[metric] + i * cells_each(metric);
        strbuf_clear(&labels);
        if ((row->is_sparse && is_zero(cell, cells_each(metric))) ||
            !add_labels(&labels, m, row, i))
            continue;
        if (row->type == HISTOGRAM)
            add_histogram(out, row->name, strbuf_str(&labels), cell);
        else
            add_sample(out, row->name, "", strbuf_str(&labels), *cell);
    }
}

static void look_at_process(struct metrics *m)
{
    struct selfstat_info info;
    selfstat_get_info(m->self, &info);
    metrics_set(m, METRIC_PROCESS_CPU, METRIC_PLAIN, info.cpu_seconds);
    metrics_set(m, METRIC_PROCESS_RESIDENT, METRIC_PLAIN, (double)info.resident_bytes);
    metrics_set(m, METRIC_HEAP, METRIC_PLAIN, (double)info.heap_bytes);
    metrics_set(m, METRIC_PROCESS_VIRTUAL, METRIC_PLAIN, (double)info.virtual_bytes);
    metrics_set(m, METRIC_PROCESS_FDS, METRIC_PLAIN, (double)info.open_fds);
    metrics_set(m, METRIC_PROCESS_FDS_MAX, METRIC_PLAIN, (double)info.max_fds);
    metrics_set(m, METRIC_PROCESS_THREADS, METRIC_PLAIN, (double)info.threads);
}

void metrics_write(struct metrics *m, struct strbuf *out)
{
    look_at_process(m);
    for (enum metric i = 0; i < METRIC_COUNT; i++)
        add_metric(out, m, i);
}
