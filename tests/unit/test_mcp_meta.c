/* test_mcp_meta.c - which era a request is of, and headers that say something else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_meta.h"

#include <string.h>

#include "check.h"

#define KEY(name) "\"io.modelcontextprotocol/" name "\""
#define FULL      KEY("protocolVersion") ":\"2026-07-28\"," KEY("clientCapabilities") ":{}"

static const char *version_header; /* NULL: absent */

static const char *header(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "mcp-protocol-version") == 0 ? version_header : NULL;
}

struct row {
    const char *name, *meta; /* NULL: none */
    const char *header;
    bool is_http;
    const char *agreed;
    const char *want; /* NULL: refused, with this code */
    int code;
};

/* clang-format off */
static const struct row rows[] = {
    {"no marks at all", NULL, NULL, true, NULL, "2025-11-25", 0},
    {"no marks on stdio", NULL, NULL, false, NULL, "2025-11-25", 0},
    {"what was agreed on", NULL, NULL, true, "2025-03-26", "2025-03-26", 0},
    {"what was agreed on, and a header", NULL, "2025-06-18", true, "2025-03-26", "2025-03-26", 0},
    {"a legacy header alone", NULL, "2025-06-18", true, NULL, "2025-06-18", 0},
    {"modern on HTTP", FULL, "2026-07-28", true, NULL, "2026-07-28", 0},
    {"modern on stdio", FULL, NULL, false, NULL, "2026-07-28", 0},
    {"modern within a session", FULL, "2026-07-28", true, "2025-11-25", "2026-07-28", 0},
    {"a modern header, and no _meta", NULL, "2026-07-28", true, NULL, NULL, RPC_INVALID_PARAMS},
    {"a modern header, and no version", KEY("clientCapabilities") ":{}", "2026-07-28", true, NULL, NULL, RPC_INVALID_PARAMS},
    {"no capabilities", KEY("protocolVersion") ":\"2026-07-28\"", "2026-07-28", true, NULL, NULL, RPC_INVALID_PARAMS},
    {"capabilities that are none", KEY("protocolVersion") ":\"2026-07-28\"," KEY("clientCapabilities") ":1", "2026-07-28", true, NULL, NULL, RPC_INVALID_PARAMS},
    {"a version that is no text", KEY("protocolVersion") ":1", "2026-07-28", true, NULL, NULL, RPC_INVALID_PARAMS},
    {"no header", FULL, NULL, true, NULL, NULL, RPC_HEADER_MISMATCH},
    {"another header", FULL, "2025-11-25", true, NULL, NULL, RPC_HEADER_MISMATCH},
    {"an unknown version", KEY("protocolVersion") ":\"v999\"," KEY("clientCapabilities") ":{}", "v999", true, NULL, NULL, RPC_UNSUPPORTED_VERSION},
    {"an unknown version on stdio", KEY("protocolVersion") ":\"v999\"," KEY("clientCapabilities") ":{}", NULL, false, NULL, NULL, RPC_UNSUPPORTED_VERSION},
    {"a legacy version as a mark", KEY("protocolVersion") ":\"2025-11-25\"," KEY("clientCapabilities") ":{}", "2025-11-25", true, NULL, NULL, RPC_UNSUPPORTED_VERSION},
    {"an unknown header alone", NULL, "v999", true, NULL, NULL, RPC_UNSUPPORTED_VERSION},
};
/* clang-format on */

static void test_row(void **state)
{
    const struct row *row = *state;
    char text[512];
    struct rpc_message m;
    struct rpc_fault fault;
    struct mcp_refusal refusal = {0};
    const struct mcp_delivery delivery = {.header = row->is_http ? header : NULL};
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"%s%s%s}",
             row->meta ? ",\"params\":{\"_meta\":{" : "", row->meta ? row->meta : "",
             row->meta ? "}}" : "");
    assert_int_equal(rpc_parse(&m, text, strlen(text), sizeof(text), &fault), 0);
    version_header = row->header;
    const struct mcp_version *got = mcp_meta_version(
        &m, &delivery, row->agreed ? mcp_version_find(row->agreed) : NULL, &refusal);
    if (row->want) {
        assert_non_null(got);
        assert_string_equal(got->name, row->want);
    } else {
        assert_null(got);
        assert_int_equal(refusal.code, row->code);
        assert_int_equal(refusal.status, 400);
    }
    json_decref(refusal.data);
    rpc_release(&m);
}

struct header_row {
    const char *name, *header, *text;
    bool want;
};

static const struct header_row header_rows[] = {
    {"the same", "run_code", "run_code", true},
    {"blanks around it", " \trun_code ", "run_code", true},
    {"another", "run_cod", "run_code", false},
    {"other case", "RUN_CODE", "run_code", false},
    {"base64", "=?base64?SGVsbG8=?=", "Hello", true},
    {"base64 of another", "=?base64?SGVsbG8=?=", "hello", false},
    {"base64 without padding", "=?base64?SGVsbG8?=", "Hello", false},
    {"base64 with other letters", "=?base64?SGVs!!!bG8=?=", "Hello", false},
    {"base64 without its mark is text", "SGVsbG8=", "SGVsbG8=", true},
    {"half a mark is text", "=?base64?SGVsbG8=", "=?base64?SGVsbG8=", true},
    {"a mark with nothing in it",
     "=?base64?"
     "?=",
     "", true},
    {"nothing", "", "", true},
};

static void test_header(void **state)
{
    const struct header_row *row = *state;
    assert_int_equal(mcp_meta_header_is(row->header, row->text), row->want);
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, rows, test_row);
    check_rows(&check, header_rows, test_header);
    return check_run(&check, "mcp_meta");
}
