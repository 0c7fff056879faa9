/* test_execution_json.c - the document about an execution, whatever the execution was */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/execution_json.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "wire/layer.h"

#define KEPT    64 /* bytes of each stream */
#define MORNING (1800000000ll * 1000000000)

static const struct spawn_limits limits = {.memory_bytes = 256 * MIB};

static void begin(struct execution *e)
{
    execution_init(e, &limits, 1000, KEPT);
    snprintf(e->id, sizeof(e->id), "exe_1");
    e->created_ns = MORNING;
}

/* The text is what a tree of it would be written as. */
static void expect_as_tree(const struct execution *e)
{
    scoped_strbuf struct strbuf text;
    scoped_strbuf struct strbuf again;
    execution_text(&text, e, &(struct execution_names){.language = "python"});
    scoped_json json_t *document = json_parse_own(text.data, text.len);
    assert_non_null(document);
    strbuf_init(&again, 1 * MIB);
    json_add(&again, document, JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), strbuf_str(&again));
}

/* The value at one name of the document, as text. */
static void expect(const struct execution *e, const char *name, const char *wanted)
{
    expect_as_tree(e);
    scoped_json json_t *document = execution_json(e, "python");
    const json_t *value = json_object_get(document, name);
    assert_non_null(value);
    scoped_free char *text =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    assert_string_equal(text, wanted);
}

/* --- how it ended ----------------------------------------------------------------------------- */

struct end_case {
    const char *name;
    bool has_ended;
    int exit_code, signal;
    const char *code_told, *signal_told;
};

static const struct end_case end_cases[] = {
    {"one that never began has neither code nor signal", false, 0, 0, "null", "null"},
    {"an exit code of zero is told", true, 0, 0, "0", "null"},
    {"any other is, too", true, 255, 0, "255", "null"},
    {"a signal is told by its name, without a code", true, 0, SIGKILL, "null", "\"SIGKILL\""},
    {"one without a name by its number", true, 0, 40, "null", "\"40\""},
    {"a signal is told although nobody told the end", false, 0, SIGSEGV, "null", "\"SIGSEGV\""},
};

static void test_end(void **state)
{
    const struct end_case *c = *state;
    struct execution e;
    begin(&e);
    e.facts.has_ended = c->has_ended;
    e.facts.exit_code = c->exit_code;
    e.facts.signal = c->signal;
    expect(&e, "exit_code", c->code_told);
    expect(&e, "signal", c->signal_told);
    execution_release(&e);
}

struct reason_case {
    const char *name;
    struct verdict verdict;
    const char *told;
};

static const struct reason_case reason_cases[] = {
    {"what completed has no reason", {.state = EXECUTION_COMPLETED}, "null"},
    {"time is told in seconds",
     {.kind = REASON_TIMEOUT, .limit = 1500, .used = 1600, .message = "m", .hint = "h"},
     "{\"hint\":\"h\",\"kind\":\"timeout\",\"limit\":1.5,\"message\":\"m\",\"used\":1.6}"},
    {"memory in bytes",
     {.kind = REASON_OOM, .limit = 1ull << 40, .used = 7, .message = "m", .hint = "h"},
     "{\"hint\":\"h\",\"kind\":\"oom\",\"limit\":1099511627776,\"message\":\"m\",\"used\":7}"},
    {"what has no amount and no hint has null",
     {.kind = REASON_EXIT, .message = "it \"failed\""},
     "{\"hint\":null,\"kind\":\"exit\",\"limit\":null,\"message\":\"it \\\"failed\\\"\",\"used\":"
     "null}"},
};

static void test_reason(void **state)
{
    const struct reason_case *c = *state;
    struct execution e;
    begin(&e);
    e.verdict = c->verdict;
    expect(&e, "reason", c->told);
    execution_release(&e);
}

/* --- what it printed -------------------------------------------------------------------------- */

struct output_case {
    const char *name, *bytes;
    size_t len;
    const char *told;
};

static const struct output_case output_cases[] = {
    {"nothing is an empty text", "", 0, "\"\""},
    {"text is told as it is", "a\n\"b\"", 5, "\"a\\n\\\"b\\\"\""},
    {"a NUL is no end", "a\0b", 3, "\"a\\u0000b\""},
    {"what is no UTF-8 is replaced", "a\xff\xc3", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
    {"so is half of a surrogate", "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
};

static void test_output(void **state)
{
    const struct output_case *c = *state;
    struct execution e;
    begin(&e);
    output_add(&e.out, c->bytes, c->len);
    expect(&e, "stdout", c->told);
    expect(&e, "stderr", "\"\"");
    expect(&e, "truncated", "{}");
    execution_release(&e);
}

static void test_truncated(void **state)
{
    (void)state;
    char line[KEPT + 36];
    struct execution e;
    begin(&e);
    memset(line, 'x', sizeof(line));
    output_add(&e.err, line, sizeof(line));
    e.results.is_cut = e.artifacts.is_cut = true;
    expect(&e, "truncated",
           "{\"artifacts\":true,\"results\":true,\"stderr\":{\"kept_bytes\":64,\"total_bytes\":"
           "100}}");
    execution_release(&e);
}

/* --- what it showed and made ------------------------------------------------------------------ */

#define PUT(e, is_new, body) result_list_add(&(e)->results, is_new, is_new, body, sizeof(body) - 1)

static void test_results(void **state)
{
    (void)state;
    struct execution e;
    begin(&e);
    expect(&e, "results", "[]");
    assert_true(PUT(&e, true, "text/plain\0 4\xff"));
    assert_true(PUT(&e, false, "image/svg+xml\0<svg/>"));
    assert_true(PUT(&e, false, "application/json\0{\"a\":1}"));
    assert_true(PUT(&e, false, "image/png\0\x89PNG\0"));
    assert_true(PUT(&e, true, "text/html\0<b>"));
    expect(&e, "results",
           "[{\"data\":{\"application/json\":\"{\\\"a\\\":1}\",\"image/png\":\"iVBORwA=\","
           "\"image/svg+xml\":\"<svg/>\",\"text/plain\":\" 4\xef\xbf\xbd\"},\"main\":true},"
           "{\"data\":{\"text/html\":\"<b>\"},\"main\":true}]");
    execution_release(&e);
}

static void test_exception(void **state)
{
    (void)state;
    struct execution e;
    begin(&e);
    expect(&e, "error", "null");
    e.exception = (struct exception){
        .name = xstrdup("E\xff"), .value = xstrdup("wrong"), .traceback = xstrdup("at \"x\"")};
    expect(&e, "error",
           "{\"name\":\"E\xef\xbf\xbd\",\"traceback\":\"at \\\"x\\\"\",\"value\":\"wrong\"}");
    execution_release(&e);
}

static void test_artifacts(void **state)
{
    (void)state;
    struct execution e;
    begin(&e);
    struct artifact *whole = artifact_list_add(&e.artifacts);
    *whole = (struct artifact){.path = xstrdup("a/plot.png"),
                               .size = 1ull << 33,
                               .mtime_ns = MORNING,
                               .has_content = true};
    memset(whole->sha256, 0xab, sizeof(whole->sha256));
    *artifact_list_add(&e.artifacts) = (struct artifact){.path = xstrdup("odd\xff")};
    scoped_json json_t *document = execution_json(&e, "python");
    const json_t *list = json_object_get(document, "artifacts"), *first = json_array_get(list, 0),
                 *second = json_array_get(list, 1);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(first, "path")), "a/plot.png");
    assert_string_equal(json_string_value(json_object_get(first, "mime_type")), "image/png");
    assert_int_equal(json_integer_value(json_object_get(first, "size")), 1ll << 33);
    assert_string_equal(json_string_value(json_object_get(first, "modified_at")),
                        "2027-01-15T08:00:00.000Z");
    const char *hash = json_string_value(json_object_get(first, "sha256"));
    assert_int_equal(strlen(hash), 64);
    assert_int_equal(strspn(hash, "ab"), 64);
    /* what could not be read has no hash, and what has no name that JSON can hold has another */
    assert_true(json_is_null(json_object_get(second, "sha256")));
    assert_true(json_is_null(json_object_get(second, "modified_at")));
    assert_string_equal(json_string_value(json_object_get(second, "path")), "odd\xef\xbf\xbd");
    execution_release(&e);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void test_facts(void **state)
{
    (void)state;
    static const char *const members[] = {"id",
                                          "session_id",
                                          "language",
                                          "state",
                                          "exit_code",
                                          "signal",
                                          "reason",
                                          "stdout",
                                          "stderr",
                                          "truncated",
                                          "results",
                                          "error",
                                          "artifacts",
                                          "usage",
                                          "created_at",
                                          "started_at",
                                          "ended_at",
                                          "duration_ms",
                                          "limits_not_in_force"};
    struct execution e;
    begin(&e);
    e.verdict.state = EXECUTION_TIMEOUT;
    e.facts.stats.cpu_us = 12345;
    e.facts.stats.memory_peak_bytes = 4096;
    e.ended_ns = MORNING + 250 * 1000000;
    e.duration_ms = 250.12345;
    scoped_json json_t *document = execution_json(&e, "bash");
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(document, members[i]));
    assert_int_equal(json_object_size(document), ARRAY_LEN(members));
    assert_string_equal(json_string_value(json_object_get(document, "language")), "bash");
    expect(&e, "state", "\"timeout\"");
    expect(&e, "session_id", "null");
    expect(&e, "usage", "{\"cpu_ms\":12.345,\"peak_memory_bytes\":4096}");
    expect(&e, "limits_not_in_force", "[]"); /* nothing is known of it */
    e.layers = ~LAYER_BIT(CG_CPU);
    expect(&e, "limits_not_in_force", "[\"cpus\"]");
    e.layers = ~0u;
    expect(&e, "limits_not_in_force", "[]");
    expect(&e, "created_at", "\"2027-01-15T08:00:00.000Z\"");
    expect(&e, "started_at", "null"); /* it never was */
    expect(&e, "ended_at", "\"2027-01-15T08:00:00.250Z\"");
    expect(&e, "duration_ms", "250.123");
    execution_release(&e);
}

static void test_names(void **state)
{
    (void)state;
    struct execution e;
    scoped_strbuf struct strbuf text;
    begin(&e);
    const struct execution_names names = {
        .id = "exe_2", .session_id = "ses_1", .language = "bash", .created_ns = MORNING + 1000000};
    execution_text(&text, &e, &names);
    assert_non_null(strstr(strbuf_str(&text), "{\"id\":\"exe_2\",\"session_id\":\"ses_1\","
                                              "\"language\":\"bash\","));
    assert_non_null(strstr(strbuf_str(&text), "\"created_at\":\"2027-01-15T08:00:00.001Z\","));
    execution_release(&e);
}

struct milli_case {
    const char *name;
    double ms;
    const char *told;
};

static const struct milli_case milli_cases[] = {
    {"no time at all", 0, "0.0"},
    {"thousandths", 0.001, "0.001"},
    {"what is less is rounded", 0.0004, "0.0"},
    {"upwards, too", 0.9996, "1.0"},
    {"a tenth has one digit", 12.5, "12.5"},
    {"a hundredth two", 12.05, "12.05"},
    {"three of them", 12.055, "12.055"},
    {"a zero inside stays", 7.101, "7.101"},
    {"ten years", 315360000000.125, "315360000000.125"},
};

static void test_milli(void **state)
{
    const struct milli_case *c = *state;
    struct execution e;
    scoped_free char *wanted = xasprintf(",\"duration_ms\":%s}", c->told);
    scoped_strbuf struct strbuf text;
    begin(&e);
    e.duration_ms = c->ms;
    execution_text(&text, &e, &(struct execution_names){.language = "bash"});
    assert_string_equal(strstr(strbuf_str(&text), ",\"duration_ms\""), wanted);
    expect_as_tree(&e);
    execution_release(&e);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, end_cases, test_end);
    check_rows(&check, milli_cases, test_milli);
    check_one(&check, "who tells it may give it other names", test_names);
    check_rows(&check, reason_cases, test_reason);
    check_rows(&check, output_cases, test_output);
    check_one(&check, "what is not whole is told with its size", test_truncated);
    check_one(&check, "text is text, anything else base64", test_results);
    check_one(&check, "an exception has three texts", test_exception);
    check_one(&check, "artifacts have what is known of them", test_artifacts);
    check_one(&check, "every fact has its place and unit", test_facts);
    return check_run(&check, "execution_json");
}
