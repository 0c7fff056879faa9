/* test_doc.c - members that are there or not, times and figures */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/doc.h"

#include "check.h"
#include "codec/json.h"

#define SECOND 1000000000ll

static void test_members(void **state)
{
    (void)state;
    scoped_json json_t *d = json_pack("{s:s, s:i, s:n, s:{s:{s:f}}}", "text", "a", "number", 3,
                                      "null", "usage", "cpu", "ms", 1.5);
    assert_string_equal(doc_text(d, "text", "-"), "a");
    assert_string_equal(doc_text(d, "number", "-"), "-");
    assert_string_equal(doc_text(NULL, "text", "-"), "-");
    assert_true(doc_number(d, "number", 0) == 3);
    assert_true(doc_number(d, "text", 7) == 7);
    assert_true(doc_has(d, "number") && !doc_has(d, "null") && !doc_has(d, "other"));
    assert_true(json_number_value(doc_at(d, "usage.cpu.ms")) == 1.5);
    assert_null(doc_at(d, "usage.gpu.ms"));
    assert_null(doc_at(d, "text.deeper"));
}

struct time_row {
    const char *name;
    const char *text;
    int64_t want;
};

static const struct time_row times[] = {
    {"a time", "1970-01-02T00:00:05.678Z", 86405 * SECOND},
    {"without a fraction", "1970-01-01T00:01:00Z", 60 * SECOND},
    {"no time", "yesterday", 0},
    {"a date alone", "1970-01-02", 0},
    {"nothing", "", 0},
};

static void test_time(void **state)
{
    const struct time_row *row = *state;
    scoped_json json_t *d = json_pack("{s:s}", "at", row->text);
    assert_int_equal(doc_time(d, "at"), row->want);
}

struct span_row {
    const char *name;
    int64_t from, to;
    const char *want;
};

static const struct span_row spans[] = {
    {"seconds", SECOND, 120 * SECOND, "119s"},
    {"minutes", SECOND, 121 * SECOND, "2m"},
    {"many minutes", SECOND, 7200 * SECOND, "119m"},
    {"hours", SECOND, 7201 * SECOND, "2h"},
    {"days", SECOND, (48 * 3600 + 1) * SECOND, "2d"},
    {"backwards is no time", 10 * SECOND, SECOND, "0s"},
    {"no beginning", 0, SECOND, "-"},
    {"no end", SECOND, 0, "-"},
};

static void test_span(void **state)
{
    const struct span_row *row = *state;
    char text[DOC_TEXT_BYTES];
    doc_format_span(row->from, row->to, text);
    assert_string_equal(text, row->want);
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        double bytes;
        const char *want;
    } sizes[] = {{0, "-"},           {5, "5 B"},         {999, "999 B"},
                 {1000, "1.0 kB"},   {9960, "10 kB"},    {268435456, "268 MB"},
                 {1.1e12, "1.1 TB"}, {999.6e6, "1.0 GB"}};
    char text[DOC_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        doc_format_bytes(sizes[i].bytes, text);
        assert_string_equal(text, sizes[i].want);
    }
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "members", test_members);
    check_rows(&check, times, test_time);
    check_rows(&check, spans, test_span);
    check_one(&check, "sizes", test_bytes);
    return check_run(&check, "doc");
}
