/* test_json.c - strict and bounded in, clean out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/json.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

static const struct json_limits limits = {.max_bytes = 64, .max_depth = 3};

struct parse_case {
    const char *name;
    const char *text;
    const char *back; /* printed again; NULL: refused */
    enum error_code code;
    const char *words; /* part of the message */
};

static const struct parse_case cases[] = {
    {"reads an object and keeps its order", "{\"b\": 1, \"a\": [true, null, 1.5]}",
     "{\"b\":1,\"a\":[true,null,1.5]}"},
    {"reads an array", " [ ] ", "[]"},
    {"reads nesting up to the limit", "[[[1]]]", "[[[1]]]"},
    {"counts no bracket inside a string", "[\"[[[[\\\"[[[\"]", "[\"[[[[\\\"[[[\"]"},
    {"refuses deeper nesting", "[[[[1]]]]", NULL, ERROR_TOO_LARGE, "deeper than 3"},
    {"refuses a longer text", "[11111111111111111111111111111111111111111111111111111111111111111]",
     NULL, ERROR_TOO_LARGE, "longer than 64"},
    {"refuses nothing", "", NULL, ERROR_INVALID, "JSON line"},
    {"refuses a value that is neither object nor array", "1", NULL, ERROR_INVALID, "JSON line 1"},
    {"refuses a duplicate key", "{\"a\":1,\n\"a\":2}", NULL, ERROR_INVALID, "line 2"},
    {"refuses a second document", "{} {}", NULL, ERROR_INVALID, "end of file"},
    {"refuses a comment", "{} // x", NULL, ERROR_INVALID, "JSON line"},
    {"refuses a trailing comma", "[1,]", NULL, ERROR_INVALID, "JSON line"},
    {"refuses invalid UTF-8", "[\"\xff\"]", NULL, ERROR_INVALID, "decode byte 0xff"},
    {"refuses an escaped NUL", "[\"\\u0000\"]", NULL, ERROR_INVALID, "\\u0000"},
    {"refuses half of a surrogate pair", "[\"\\ud800\"]", NULL, ERROR_INVALID, "JSON line"},
    {"refuses a number that is too large", "[99999999999999999999]", NULL, ERROR_INVALID,
     "too big"},
    {"refuses NaN", "[NaN]", NULL, ERROR_INVALID, "JSON line"},
};

static void test_parse(void **state)
{
    const struct parse_case *row = *state;
    json_t *value = NULL;
    struct error err = {.msg = ""};
    int result = json_parse(&value, row->text, strlen(row->text), &limits, &err);
    if (!row->back) {
        assert_int_equal(result, -1);
        assert_null(value);
        assert_int_equal(err.code, row->code);
        assert_non_null(strstr(err.msg, row->words));
        return;
    }
    assert_int_equal(result, 0);
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 1000);
    json_add(&text, value, JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), row->back);
    json_decref(value);
}

static void test_depth_default(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 2];
    const struct json_limits wide = {.max_bytes = sizeof(text)};
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    scoped_json json_t *value = NULL;
    struct error err;
    assert_int_equal(json_parse(&value, text, 2 * JSON_DEPTH_MAX, &wide, &err), 0);
    memset(text, '[', sizeof(text));
    json_t *none = NULL;
    assert_int_equal(json_parse(&none, text, sizeof(text), &wide, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
}

static void test_text(void **state)
{
    (void)state;
    scoped_json json_t *value = json_pack("[o, o, o, o, o]",
                                          json_text("a\xff"
                                                    "b\0c\n",
                                                    6),
                                          json_text("", 0), json_text_or_null(NULL),
                                          json_text_or_null("\xc3\xa9"), json_number(5));
    scoped_strbuf struct strbuf text;
    strbuf_init(&text, 1000);
    json_add(&text, value, JSON_STYLE_COMPACT);
    assert_string_equal(strbuf_str(&text), "[\"a\xef\xbf\xbd"
                                           "b\\u0000c\\n\",\"\",null,\"\xc3\xa9\",5]");
}

static void test_add_text(void **state)
{
    (void)state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{"", 0},      {"plain", 5},      {"\"q\" \\ /\b\f\n\r\t\x7f", 14},
                {"a\0b", 3},  {"\n\n", 2},       {"\xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x98\x80", 11},
                {"a\xff", 2}, {all, sizeof(all)}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        scoped_json json_t *value = json_text(rows[i].bytes, rows[i].len);
        scoped_strbuf struct strbuf text;
        scoped_strbuf struct strbuf same;
        strbuf_init(&text, 4000);
        strbuf_init(&same, 4000);
        json_add(&text, value, JSON_STYLE_COMPACT);
        json_add_text(&same, rows[i].bytes, rows[i].len);
        assert_string_equal(strbuf_str(&same), strbuf_str(&text));
    }
}

/* Texts, and values as they can be built: byte by byte what jansson writes. */
static void test_as_jansson(void **state)
{
    static const char *const texts[] = {
        "[]",
        "{}",
        "[[],{},[[[]]]]",
        "{\"a\":{\"b\":[1,-2,0,9223372036854775807,-9223372036854775808]},\"\":null}",
        "[true,false,null,\"\",\"\\u0001\\u007f\\\"\\\\/\\u00e9\"]",
        "{\"\\u0001\\\"\":1,\"z\":2,\"a\":3}",
        "[0.0,-0.0,1.0,-1.5,46.007,0.1,1e3,1e15,123456789012345678.0,1e300,1e-7,5e-324,0.0001]",
        "[1e16,2.5e-5,1.7976931348623157e308,100000.0,1e22,0.30000000000000004,1e5,1e-300]",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        scoped_json json_t *value = json_parse_own(texts[i], strlen(texts[i]));
        assert_non_null(value);
        scoped_free char *wanted =
            json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) | JSON_COMPACT);
        scoped_strbuf struct strbuf text;
        strbuf_init(&text, 4000);
        json_add(&text, value, JSON_STYLE_COMPACT);
        assert_string_equal(strbuf_str(&text), wanted);
    }
}

static void test_number(void **state)
{
    (void)state;
    scoped_json json_t *small = json_number(INT64_MAX), *large = json_number(UINT64_MAX);
    assert_true(json_is_integer(small) && json_integer_value(small) == INT64_MAX);
    assert_true(json_is_real(large) && json_real_value(large) > 1.8e19);
}

static void test_write(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, "");
    FILE *file = fopen(path, "we");
    struct error err;
    scoped_json json_t *value = json_pack("{s:[i]}", "a", 1);
    assert_int_equal(json_write(fileno(file), value, JSON_STYLE_PRETTY, &err), 0);
    assert_int_equal(json_write(fileno(file), value, JSON_STYLE_COMPACT, &err), 0);
    fclose(file);
    scoped_free char *got = check_read_file(path);
    assert_string_equal(got, "{\n  \"a\": [\n    1\n  ]\n}\n{\"a\":[1]}\n");
    assert_int_equal(json_write(-1, value, JSON_STYLE_COMPACT, &err), -1);
    check_remove_dir(dir);
}

/* A program may print NUL; a client may not say it. */
static void test_own(void **state)
{
    static const char text[] = "{\"stdout\":\"a\\u0000b\"}";
    struct error err;
    const struct json_limits usual = {.max_bytes = 64};
    json_t *refused;
    (void)state;
    scoped_json json_t *value = json_parse_own(text, strlen(text));
    assert_non_null(value);
    assert_int_equal(json_string_length(json_object_get(value, "stdout")), 3);
    assert_int_equal(json_parse(&refused, text, strlen(text), &usual, &err), -1);
}

int main(void)
{
    struct check check = {.count = 0};
    json_set_alloc_funcs(xmalloc, free);
    check_rows(&check, cases, test_parse);
    check_one(&check, "limits the depth when nobody asks for it", test_depth_default);
    check_one(&check, "makes any bytes a valid string", test_text);
    check_one(&check, "writes values as jansson does", test_as_jansson);
    check_one(&check, "writes a string as the value is written", test_add_text);
    check_one(&check, "keeps numbers that jansson's integers cannot hold", test_number);
    check_one(&check, "writes lines and pages", test_write);
    check_one(&check, "reads NUL in what we wrote, and only there", test_own);
    return check_run(&check, "json");
}
