/* test_metrics.c - what is counted is told, in the form that Prometheus reads */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "check.h"
#include "http/method.h"

static const char *const routes[] = {"createSession", "getHealth"};
#define NO_ROUTE ARRAY_LEN(routes)

static struct metrics *new_metrics(void)
{
    return metrics_new(routes, ARRAY_LEN(routes));
}

static char *text_of(struct metrics *m)
{
    struct strbuf text;
    strbuf_init(&text, METRICS_MAX_BYTES);
    metrics_write(m, &text);
    assert_false(text.overflow);
    return strbuf_take(&text);
}

/* Whether the text has this very line. */
static bool has_line(const char *text, const char *line)
{
    scoped_free char *whole = xasprintf("\n%s\n", line);
    return strstr(text, whole) != NULL;
}

static void expect_line(struct metrics *m, const char *line)
{
    scoped_free char *text = text_of(m);
    if (!has_line(text, line))
        fail_msg("no line '%s'", line);
}

static void expect_no(struct metrics *m, const char *part)
{
    scoped_free char *text = text_of(m);
    assert_null(strstr(text, part));
}

static void test_counts(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    const size_t *ok = METRIC_AT(0, METHOD_POST, METRIC_CLASS(201));
    metrics_add(m, METRIC_HTTP_REQUESTS, ok, 1);
    metrics_add(m, METRIC_HTTP_REQUESTS, ok, 1);
    metrics_add(m, METRIC_HTTP_REQUESTS, METRIC_AT(NO_ROUTE, METHOD_COUNT, METRIC_CLASS(0)), 1);
    metrics_add(m, METRIC_HTTP_BYTES_IN, METRIC_PLAIN, 9007199254740);
    metrics_set(m, METRIC_SANDBOXES, METRIC_PLAIN, 7);
    metrics_set(m, METRIC_SANDBOXES, METRIC_PLAIN, 5);
    metrics_add(m, METRIC_EXECUTIONS, METRIC_AT(METRIC_STATE(EXECUTION_LOST), true), 3);
    metrics_add(m, METRIC_REASONS, METRIC_AT(METRIC_REASON(REASON_INFRASTRUCTURE)), 1);
    metrics_add(m, METRIC_REASONS, METRIC_AT(METRIC_REASON(REASON_TIMEOUT)), 2);
    expect_line(
        m, "cove_http_requests_total{route=\"createSession\",method=\"POST\",status=\"2xx\"} 2");
    expect_line(m, "cove_http_requests_total{route=\"none\",method=\"other\",status=\"none\"} 1");
    expect_line(m, "cove_http_request_bytes_total 9007199254740");
    expect_line(m, "cove_sandboxes 5");
    expect_line(m, "cove_executions_total{state=\"lost\",stateless=\"true\"} 3");
    expect_line(m, "cove_executions_total{state=\"lost\",stateless=\"false\"} 0");
    expect_line(m, "cove_execution_reasons_total{reason=\"infrastructure\"} 1");
    expect_line(m, "cove_execution_reasons_total{reason=\"timeout\"} 2");
    expect_line(m, "cove_build_info{version=\"" COVE_VERSION "\"} 1");
}

static void test_sparse(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    expect_no(m, "route=");
    expect_line(m, "cove_execution_reasons_total{reason=\"oom\"} 0"); /* few, and rates need a 0 */
    metrics_observe(m, METRIC_HTTP_SECONDS, METRIC_AT(1), 0);
    expect_line(m, "cove_http_request_duration_seconds_count{route=\"getHealth\"} 1");
    expect_no(m, "createSession");
}

static void test_histogram(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    const double values[] = {0.0001, 0.00011, 0.25, 2000};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        metrics_observe(m, METRIC_CREATE_SECONDS, METRIC_AT(true), values[i]);
#define NAME "cove_session_create_duration_seconds"
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"0.0001\"} 1"); /* a bound is inside */
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"0.00025\"} 2");
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"0.1\"} 2");
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"0.25\"} 3");
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"1800\"} 3");
    expect_line(m, NAME "_bucket{pooled=\"true\",le=\"+Inf\"} 4");
    expect_line(m, NAME "_sum{pooled=\"true\"} 2000.25021");
    expect_line(m, NAME "_count{pooled=\"true\"} 4");
    expect_line(m, NAME "_count{pooled=\"false\"} 0");
#undef NAME
}

static void test_templates(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    size_t at;
    assert_true(metrics_name_template(m, "tpl_a", &at));
    metrics_set(m, METRIC_POOL_PARKED, METRIC_AT(at), 4);
    assert_true(metrics_name_template(m, "tpl_b", &at));
    metrics_set(m, METRIC_POOL_PARKED, METRIC_AT(at), 6);
    expect_line(m, "cove_pool_parked{template=\"tpl_a\"} 4");
    expect_line(m, "cove_pool_parked{template=\"tpl_b\"} 6");
    metrics_forget_templates(m);
    expect_no(m, "tpl_");
    for (size_t i = 0; i < METRICS_TEMPLATES_MAX; i++)
        assert_true(metrics_name_template(m, "tpl_c", &at));
    assert_false(metrics_name_template(m, "tpl_d", &at));
    expect_no(m, "tpl_d");
}

static void test_process(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    scoped_free char *text = text_of(m);
    const char *const names[] = {"process_resident_memory_bytes",
                                 "process_virtual_memory_bytes",
                                 "process_open_fds",
                                 "process_max_fds",
                                 "process_threads",
                                 "process_start_time_seconds"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        scoped_free char *mark = xasprintf("\n%s ", names[i]);
        const char *found = strstr(text, mark);
        assert_non_null(found);
        assert_true(strtod(found + strlen(mark), NULL) > 0);
    }
}

/* --- the rules of the format ------------------------------------------------------------------ */

/* The name of a sample's family: without the suffix that a histogram adds. */
static size_t family_len(const char *line, bool is_histogram)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    size_t len = strcspn(line, "{ ");
    for (size_t i = 0; is_histogram && i < ARRAY_LEN(suffixes); i++) {
        size_t tail = strlen(suffixes[i]);
        if (len > tail && strncmp(line + len - tail, suffixes[i], tail) == 0)
            return len - tail;
    }
    return len;
}

static void check_sample(const char *line, const char *family, bool is_histogram)
{
    char *end;
    const char *value = strrchr(line, ' ');
    assert_non_null(value);
    (void)strtod(value + 1, &end);
    assert_true(end > value + 1 && *end == '\0');
    assert_int_equal(family_len(line, is_histogram), strlen(family));
    assert_memory_equal(line, family, strlen(family));
    const char *brace = strchr(line, '{');
    assert_true(!brace || value[-1] == '}');
    assert_null(strstr(line, ",}"));
}

static void test_form(void **state)
{
    (void)state;
    scoped(metrics) struct metrics *m = new_metrics();
    size_t at;
    metrics_observe(m, METRIC_HTTP_SECONDS, METRIC_AT(0), 0.1);
    metrics_name_template(m, "tpl_a", &at);
    scoped_free char *text = text_of(m);
    char family[128] = "", type[32] = "";
    scoped_strbuf struct strbuf seen;
    strbuf_init(&seen, 64 * KIB);
    size_t families = 0;
    char *rest = text;
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *line; (line = strsep(&rest, "\n")) && rest;) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127s", family), 1);
            scoped_free char *mark = xasprintf(" %s ", family); /* each family once */
            assert_null(strstr(strbuf_str(&seen), mark));
            strbuf_add_str(&seen, mark);
            families++;
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char again[128];
            assert_int_equal(sscanf(line, "# TYPE %127s %31s", again, type), 2);
            assert_string_equal(again, family);
            bool is_total =
                strlen(family) > 6 && strcmp(family + strlen(family) - 6, "_total") == 0;
            assert_int_equal(is_total, strcmp(type, "counter") == 0);
        } else {
            check_sample(line, family, strcmp(type, "histogram") == 0);
        }
    }
    assert_int_equal(families, METRIC_COUNT);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "counters and gauges by their labels", test_counts);
    check_one(&check, "a sparse metric tells only what has happened", test_sparse);
    check_one(&check, "buckets add up", test_histogram);
    check_one(&check, "templates come and go, and have an end", test_templates);
    check_one(&check, "this process", test_process);
    check_one(&check, "every line follows the rules of the format", test_form);
    return check_run(&check, "metrics");
}
