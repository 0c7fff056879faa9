/* test_kernel_answer.c - what interpreters say is passed on when it has the form, and not else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define ROW        "{\"name\":\"x\",\"type\":\"int\",\"size\":28,\"shape\":null,\"preview\":\"1\"}"
#define LIST(rows) "{\"variables\":[" rows "],\"truncated\":false}"

struct list {
    const char *name, *body;
    const char *told; /* NULL: refused */
};

static const struct list lists[] = {
    {"none", LIST(""), LIST("")},
    {"one", LIST(ROW), LIST(ROW)},
    {"a shape",
     LIST("{\"name\":\"a\",\"type\":\"array\",\"size\":null,\"shape\":[2,3],\"preview\":\"\"}"),
     LIST("{\"name\":\"a\",\"type\":\"array\",\"size\":null,\"shape\":[2,3],\"preview\":\"\"}")},
    {"cut", "{\"truncated\": true, \"variables\": []}", "{\"variables\":[],\"truncated\":true}"},
    {"what nobody asked for is left out",
     "{\"variables\":[{\"extra\":[1],\"name\":\"x\",\"type\":\"int\",\"size\":28,\"shape\":null,"
     "\"preview\":\"1\"}],\"truncated\":false,\"more\":1}",
     LIST(ROW)},
    {"no JSON", "hello", NULL},
    {"nothing", "", NULL},
    {"a list", "[]", NULL},
    {"no list", "{\"variables\":{},\"truncated\":false}", NULL},
    {"no word of the rest", "{\"variables\":[]}", NULL},
    {"a row that is none", LIST("1"), NULL},
    {"a row without a name", LIST("{\"type\":\"\",\"size\":1,\"shape\":null,\"preview\":\"\"}"),
     NULL},
    {"a name that is a number",
     LIST("{\"name\":1,\"type\":\"\",\"size\":1,\"shape\":null,\"preview\":\"\"}"), NULL},
    {"a negative size",
     LIST("{\"name\":\"\",\"type\":\"\",\"size\":-1,\"shape\":null,\"preview\":\"\"}"), NULL},
    {"a shape of words",
     LIST("{\"name\":\"\",\"type\":\"\",\"size\":1,\"shape\":[\"a\"],\"preview\":\"\"}"), NULL},
    {"deep", LIST("{\"name\":\"\",\"type\":\"\",\"size\":1,\"shape\":[[[1]]],\"preview\":\"\"}"),
     NULL},
    {"two documents", LIST("") LIST(""), NULL},
    {"bytes that are no text", "{\"variables\":[],\"truncated\":false,\"\xff\":1}", NULL},
};

static void assert_told(int status, json_t *answer, const char *told, const struct error *err)
{
    if (!told) {
        assert_int_equal(status, -1);
        assert_int_equal(err->code, ERROR_UNAVAILABLE);
        assert_string_equal(err->word, KERNEL_ANSWER_INVALID);
        return;
    }
    if (status < 0)
        fail_msg("%s", err->msg);
    char *text = json_dumps(answer, JSON_COMPACT);
    assert_string_equal(text, told);
    free(text);
    json_decref(answer);
}

static void test_list(void **state)
{
    const struct list *row = *state;
    struct error err;
    json_t *answer = NULL;
    int status = kernel_answer_variables(&answer, row->body, strlen(row->body), &err);
    assert_told(status, answer, row->told, &err);
}

static char *repeat(const char *head, const char *each, size_t count, const char *tail)
{
    size_t len = strlen(each);
    char *text = xcalloc(strlen(head) + count * len + strlen(tail) + 1, 1);
    char *at = text + strlen(head);
    memcpy(text, head, strlen(head));
    for (size_t i = 0; i < count; i++, at += len)
        memcpy(at, each, len);
    memcpy(at, tail, strlen(tail));
    return text;
}

static void test_many(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct error err;
        json_t *answer = NULL;
        scoped_free char *body = repeat("{\"truncated\":true,\"variables\":[" ROW, "," ROW,
                                        KERNEL_ANSWER_ROWS_MAX - 1 + more, "]}");
        int status = kernel_answer_variables(&answer, body, strlen(body), &err);
        assert_int_equal(status, more ? -1 : 0);
        json_decref(answer);
    }
    struct error err;
    json_t *answer = NULL;
    scoped_free char *large =
        repeat("{\"truncated\":true,\"variables\":[],\"a\":\"", "x", KERNEL_ANSWER_LIST_MAX, "\"}");
    int status = kernel_answer_variables(&answer, large, strlen(large), &err);
    assert_told(status, answer, NULL, &err);
}

struct value {
    const char *name, *body;
    size_t len;
    const char *told;
};
#define BODY(text) text, sizeof(text) - 1
#define DATA(mime, encoding, value)                                                                \
    "{\"mime_type\":\"" mime "\",\"encoding\":\"" encoding "\",\"value\":" value "}"

static const struct value values[] = {
    {"an object", BODY("application/json\0{\"a\": [1]}"),
     DATA("application/json", "json", "{\"a\":[1]}")},
    {"a number",
     BODY("application/json\0"
          "42"),
     DATA("application/json", "json", "42")},
    {"null", BODY("application/json\0null"), DATA("application/json", "json", "null")},
    {"a text", BODY("text/plain\0a\nb"), DATA("text/plain", "text", "\"a\\nb\"")},
    {"a text with a NUL", BODY("text/plain\0a\0b"), DATA("text/plain", "text", "\"a\\u0000b\"")},
    {"a text that is none", BODY("text/plain\0\xff"),
     DATA("text/plain", "text", "\"\xef\xbf\xbd\"")},
    {"an empty one", BODY("text/plain\0"), DATA("text/plain", "text", "\"\"")},
    {"bytes", BODY("image/png\0\x89PNG"), DATA("image/png", "base64", "\"iVBORw==\"")},
    {"two values",
     BODY("application/json\0"
          "1,2"),
     NULL},
    {"a way out of the list",
     BODY("application/json\0"
          "1],[2"),
     NULL},
    {"no value", BODY("application/json\0"), NULL},
    {"no JSON", BODY("application/json\0NaN"), NULL},
    {"no type", BODY("42"), NULL},
    {"an empty type",
     BODY("\0"
          "42"),
     NULL},
    {"a type that is none",
     BODY("json\0"
          "42"),
     NULL},
    {"a type with a line",
     BODY("text/plain\r\nX: y\0"
          "42"),
     NULL},
    {"half a type",
     BODY("text/\0"
          "42"),
     NULL},
    {"nothing", BODY(""), NULL},
};

static void test_value(void **state)
{
    const struct value *row = *state;
    struct error err;
    json_t *answer = NULL;
    int status = kernel_answer_value(&answer, row->body, row->len, &err);
    assert_told(status, answer, row->told, &err);
}

static void test_large_value(void **state)
{
    (void)state;
    struct error err;
    json_t *answer = NULL;
    const size_t head = sizeof("text/plain");
    scoped_free char *body = repeat("text/plain", "x", KERNEL_ANSWER_VALUE_MAX + 2, "");
    body[head - 1] = '\0';
    assert_int_equal(kernel_answer_value(&answer, body, head + KERNEL_ANSWER_VALUE_MAX, &err), 0);
    json_decref(answer);
    answer = NULL;
    assert_int_equal(kernel_answer_value(&answer, body, head + KERNEL_ANSWER_VALUE_MAX + 1, &err),
                     -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    scoped_free char *deep = repeat("application/json", "[", 1000, "");
    deep[sizeof("application/json") - 1] = '\0';
    assert_int_equal(kernel_answer_value(&answer, deep, strlen("application/json") + 1000, &err),
                     -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, lists, test_list);
    check_one(&check, "more variables or bytes than are taken", test_many);
    check_rows(&check, values, test_value);
    check_one(&check, "a value that is too large or too deep", test_large_value);
    return check_run(&check, "kernel_answer");
}
