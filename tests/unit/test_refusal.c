/* test_refusal.c - every refusal has a status, a code and words; errors are JSON whatever they
 * quote */
/* SPDX-License-Identifier: Apache-2.0 */
#include "http/refusal.h"

#include <string.h>

#include "base/strbuf.h"
#include "check.h"
#include "codec/json.h"

static void test_table(void **state)
{
    (void)state;
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        const struct refusal_info *info = refusal_info((enum refusal)i);
        assert_in_range(info->status, 400, 599);
        assert_true(strlen(info->code) > 0 && strlen(info->message) > 0);
        assert_string_not_equal(refusal_reason(info->status), "Unknown");
    }
    assert_string_equal(refusal_reason(299), "Unknown");
}

struct row {
    const char *name, *message, *want;
};

static const struct row rows[] = {
    {"plain words", "no such thing", "no such thing"},
    {"quotes and backslashes", "a \"b\" \\c", "a \"b\" \\c"},
    {"control characters", "a\x01\n\x7f", "a\x01\n\x7f"},
    {"what is not UTF-8", "a\xff", "a\xef\xbf\xbd"},
    {"UTF-8", "\xc3\xa4", "\xc3\xa4"},
};

static void test_json(void **state)
{
    const struct row *row = *state;
    struct error err;
    json_t *value = NULL;
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 4096);
    refusal_add_json(&text, &(struct refusal_text){"code", row->message, NULL, "req_1"});
    const struct json_limits limits = {.max_bytes = 4096};
    assert_int_equal(json_parse(&value, text.data, text.len, &limits, &err), 0);
    scoped_json json_t *owned = value;
    json_t *error = json_object_get(owned, "error");
    assert_int_equal(json_object_size(error), 4);
    assert_string_equal(json_string_value(json_object_get(error, "message")), row->want);
    assert_string_equal(json_string_value(json_object_get(error, "code")), "code");
    assert_string_equal(json_string_value(json_object_get(error, "request_id")), "req_1");
    assert_true(json_is_null(json_object_get(error, "hint")));
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "every row is complete", test_table);
    check_rows(&check, rows, test_json);
    return check_run(&check, "refusal");
}
