/* test_rpc.c - which texts are messages, and of which kind */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <string.h>

#include "base/scoped.h"
#include "check.h"

#define MAX_BYTES 1024

struct row {
    const char *name, *text;
    int code; /* 0: it is a message */
    enum rpc_kind kind;
};

/* clang-format off */
static const struct row rows[] = {
    {"a request with a number", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", 0, RPC_REQUEST},
    {"a request with text", "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\",\"params\":{}}", 0, RPC_REQUEST},
    {"a notification", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", 0, RPC_NOTIFICATION},
    {"a result", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0, RPC_RESPONSE},
    {"an error", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}", 0, RPC_RESPONSE},
    {"no JSON", "{", RPC_PARSE, 0},
    {"nothing", "", RPC_PARSE, 0},
    {"two messages", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}{}", RPC_PARSE, 0},
    {"a key twice", "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"method\":\"b\"}", RPC_PARSE, 0},
    {"a batch", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}]", RPC_INVALID_REQUEST, 0},
    {"no version", "{\"id\":1,\"method\":\"a\"}", RPC_INVALID_REQUEST, 0},
    {"another version", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", RPC_INVALID_REQUEST, 0},
    {"null as id", "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", RPC_INVALID_REQUEST, 0},
    {"a fraction as id", "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"a\"}", RPC_INVALID_REQUEST, 0},
    {"an object as id", "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", RPC_INVALID_REQUEST, 0},
    {"a number as method", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", RPC_INVALID_REQUEST, 0},
    {"an empty method", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", RPC_INVALID_REQUEST, 0},
    {"a list of parameters", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[]}", RPC_INVALID_REQUEST, 0},
    {"neither method nor answer", "{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST, 0},
    {"result and error", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", RPC_INVALID_REQUEST, 0},
    {"an answer without an id", "{\"jsonrpc\":\"2.0\",\"result\":{}}", RPC_INVALID_REQUEST, 0},
};
/* clang-format on */

static void test_row(void **state)
{
    const struct row *row = *state;
    struct rpc_message m;
    struct rpc_fault fault;
    int got = rpc_parse(&m, row->text, strlen(row->text), MAX_BYTES, &fault);
    if (row->code) {
        assert_int_equal(got, -1);
        assert_int_equal(fault.code, row->code);
        assert_true(fault.text[0]);
        rpc_fault_release(&fault);
        return;
    }
    assert_int_equal(got, 0);
    assert_int_equal(m.kind, row->kind);
    rpc_release(&m);
}

static void test_fault_has_the_id(void **state)
{
    (void)state;
    struct rpc_message m;
    struct rpc_fault fault;
    const char *text = "{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"method\":\"a\",\"params\":1}";
    assert_int_equal(rpc_parse(&m, text, strlen(text), MAX_BYTES, &fault), -1);
    assert_string_equal(json_string_value(fault.id), "seven");
    rpc_fault_release(&fault);
}

static void test_too_large(void **state)
{
    (void)state;
    struct rpc_message m;
    struct rpc_fault fault;
    const char *text = "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}";
    assert_int_equal(rpc_parse(&m, text, strlen(text), strlen(text) - 1, &fault), -1);
    assert_int_equal(fault.code, RPC_INVALID_REQUEST);
    rpc_fault_release(&fault);
}

static void test_ids_are_told_apart(void **state)
{
    (void)state;
    scoped_json json_t *number = json_integer(1), *text = json_string("1");
    scoped_free char *a = rpc_id_text(number), *b = rpc_id_text(text);
    assert_string_not_equal(a, b);
}

static void test_errors_without_an_id_have_none(void **state)
{
    (void)state;
    scoped_json json_t *message = rpc_error(NULL, RPC_PARSE, "no", NULL);
    assert_null(json_object_get(message, "id"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(message, "error"), "code")),
                     RPC_PARSE);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_one(&check, "what is wrong names the id that it could read", test_fault_has_the_id);
    check_one(&check, "refuses what is longer than the limit", test_too_large);
    check_one(&check, "\"1\" and 1 are two ids", test_ids_are_told_apart);
    check_one(&check, "an error about nothing readable has no id",
              test_errors_without_an_id_have_none);
    return check_run(&check, "rpc");
}
