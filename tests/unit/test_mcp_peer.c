/* test_mcp_peer.c - conversations without any transport: what is answered, once, and what is not
 *
 * A peer is given messages as text; what it sends and answers is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_peer.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

#define MODERN                                                                                     \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io."                  \
    "modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}"

static struct {
    struct mcp_server *server;
    struct mcp_peer *peer;
    struct strbuf sent; /* one message per line: of requests, and of none */
    json_t *answer;     /* the last one; NULL: it was cancelled */
    unsigned ends;      /* of requests */
    int status;
    struct mcp_call *held; /* by the tool `hold` */
    unsigned cancels;
} me;

/* --- a service -------------------------------------------------------------------------------- */

static void run_echo(struct mcp_call *call)
{
    const char *text = json_string_value(json_object_get(mcp_raw_arguments(call), "text"));
    mcp_answer_text(call, text ? text : "nothing");
}

static void on_cancel(void *ctx)
{
    (void)ctx;
    me.cancels++;
}

static void run_hold(struct mcp_call *call)
{
    mcp_on_cancel(call, on_cancel, NULL);
    me.held = call;
}

static void run_ask(struct mcp_call *call)
{
    const json_t *answer = mcp_input(call, "name");
    if (!answer) {
        mcp_need_input(call,
                       json_pack("{s:{s:s, s:{s:s}}}", "name", "method", "elicitation/create",
                                 "params", "message", "Who?"),
                       json_pack("{s:i}", "step", 1));
        return;
    }
    BUG_ON(json_integer_value(json_object_get(mcp_state(call), "step")) != 1);
    mcp_answer_text(call,
                    json_string_value(json_object_get(json_object_get(answer, "content"), "name")));
}

static void run_chat(struct mcp_call *call)
{
    mcp_progress(call, 1, 2, "one");
    mcp_progress(call, 1, 2, "not more than before");
    mcp_progress(call, 2, 2, NULL);
    mcp_log(call, MCP_DEBUG, "t", "quiet");
    mcp_log(call, MCP_ERROR, "t", "loud");
    mcp_answer_text(call, "done");
}

struct add_wish {
    int64_t a, b;
};
static const struct param add_rows[] = {
    {.name = "a",
     .type = PARAM_INTEGER,
     .is_required = true,
     .offset = offsetof(struct add_wish, a),
     .max = 100,
     .help = "One."},
    {.name = "b",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct add_wish, b),
     .max = 100,
     .help = "Other."},
};
static const struct param_table add_table = PARAM_TABLE(struct add_wish, "Add", add_rows);

static void run_add(struct mcp_call *call)
{
    const struct add_wish *wish = mcp_arguments(call);
    scoped_free char *text = xasprintf("%d", (int)(wish->a + wish->b));
    mcp_answer_text(call, text);
}

static const struct mcp_tool echo = {.name = "echo", .description = "d", .run = run_echo};
static const struct mcp_tool hold = {.name = "hold", .description = "d", .run = run_hold};
static const struct mcp_tool ask = {.name = "ask", .description = "d", .run = run_ask};
static const struct mcp_tool chat = {.name = "chat", .description = "d", .run = run_chat};
static const struct mcp_tool add = {.name = "add",
                                    .description = "d",
                                    .example = "{\"a\": 1}",
                                    .params = &add_table,
                                    .run = run_add};
static const struct mcp_tool *const tools[] = {&echo, &hold, &ask, &chat, &add, NULL};
static const struct mcp_service service = {.name = "test",
                                           .version = "1",
                                           .tools = tools,
                                           .features = MCP_TELLS_TOOLS | MCP_LOGS,
                                           .list_ttl_ms = 1000};

/* --- a transport ------------------------------------------------------------------------------ */

static void on_send(void *ctx, const json_t *message)
{
    (void)ctx;
    json_add(&me.sent, message, JSON_STYLE_COMPACT);
    strbuf_add_char(&me.sent, '\n');
}

static void on_end(void *ctx, const json_t *message, int status)
{
    (void)ctx;
    json_decref(me.answer);
    me.answer = message ? json_deep_copy(message) : NULL;
    me.status = status;
    me.ends++;
}

static const struct mcp_outlet outlet = {.send = on_send, .end = on_end};

static void give(const char *text)
{
    struct rpc_message m;
    struct rpc_fault fault;
    struct mcp_delivery delivery = {.outlet = &outlet};
    assert_int_equal(rpc_parse(&m, text, strlen(text), MCP_MESSAGE_MAX_BYTES, &fault), 0);
    mcp_receive(me.peer, &m, &delivery);
}

static const json_t *result(void)
{
    assert_non_null(me.answer);
    const json_t *value = json_object_get(me.answer, "result");
    assert_non_null(value);
    return value;
}

static const char *text_of_result(void)
{
    const json_t *content = json_object_get(result(), "content");
    return json_string_value(json_object_get(json_array_get(content, 0), "text"));
}

static int error_code(void)
{
    assert_non_null(me.answer);
    return (int)json_integer_value(json_object_get(json_object_get(me.answer, "error"), "code"));
}

static int begin(void **state)
{
    (void)state;
    memset(&me, 0, sizeof(me));
    strbuf_init(&me.sent, 64 * KIB);
    me.server = mcp_server_new(&service);
    me.peer = mcp_peer_new(&(struct mcp_peer_order){
        .server = me.server, .user = {.owner = "o"}, .send = on_send, .is_lasting = true});
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (me.peer)
        mcp_peer_close(me.peer);
    mcp_server_free(me.server);
    strbuf_release(&me.sent);
    json_decref(me.answer);
    return 0;
}

#define CALL(id, tool, arguments)                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\",\"arguments\":" arguments "}}"
#define MODERN_CALL(id, tool, more)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool    \
    "\"," MODERN more "}}}"
#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-06-18\",\"capabilities\":{\"elicitation\":{}}}}"

/* --- cases ------------------------------------------------------------------------------------ */

static void test_initialize(void **state)
{
    (void)state;
    give(INITIALIZE);
    assert_string_equal(json_string_value(json_object_get(result(), "protocolVersion")),
                        "2025-06-18");
    assert_string_equal(mcp_peer_version(me.peer)->name, "2025-06-18");
    give("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_int_equal(me.ends, 1);
}

static void test_bare(void **state)
{
    (void)state;
    give(CALL("1", "echo", "{\"text\":\"hello\"}"));
    assert_string_equal(text_of_result(), "hello");
    assert_null(json_object_get(result(), "resultType"));
}

static void test_modern(void **state)
{
    (void)state;
    give(MODERN_CALL("\"a\"", "echo", ""));
    assert_string_equal(json_string_value(json_object_get(result(), "resultType")), "complete");
    assert_string_equal(json_string_value(json_object_get(me.answer, "id")), "a");
    assert_null(mcp_peer_version(me.peer)); /* nothing is remembered of it */
}

static void test_eras_side_by_side(void **state)
{
    (void)state;
    give(INITIALIZE);
    give(MODERN_CALL("1", "echo", ""));
    assert_non_null(json_object_get(result(), "resultType"));
    give(CALL("2", "echo", "{}"));
    assert_null(json_object_get(result(), "resultType"));
}

static void test_arguments(void **state)
{
    (void)state;
    give(CALL("1", "add", "{\"a\":2,\"b\":3}"));
    assert_string_equal(text_of_result(), "5");
    give(CALL("2", "add", "{\"b\":3}"));
    assert_true(json_is_true(json_object_get(result(), "isError")));
    assert_non_null(strstr(text_of_result(), "a (required): One."));
    assert_non_null(strstr(text_of_result(), "Example: {\"a\": 1}"));
}

static void test_errors(void **state)
{
    (void)state;
    give(CALL("1", "nobody", "{}"));
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    give("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"no/such\"}");
    assert_int_equal(error_code(), RPC_NO_METHOD);
    assert_int_equal(me.status, 200);
    give("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{" MODERN "}}}");
    assert_int_equal(error_code(), RPC_NO_METHOD);
    assert_int_equal(me.status, 404);
    give("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"prompts/list\"}"); /* not offered */
    assert_int_equal(error_code(), RPC_NO_METHOD);
}

static void test_cancel(void **state)
{
    (void)state;
    give(CALL("7", "hold", "{}"));
    give(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"7\"}}");
    assert_int_equal(me.cancels, 0); /* another id */
    give(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}");
    give(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}");
    assert_int_equal(me.cancels, 1);
    assert_true(mcp_is_cancelled(me.held));
    mcp_progress(me.held, 1, 0, NULL);
    mcp_answer_text(me.held, "too late");
    assert_int_equal(me.ends, 1);
    assert_null(me.answer);
    assert_int_equal(me.sent.len, 0);
}

static void test_leaving(void **state)
{
    (void)state;
    give(CALL("7", "hold", "{}"));
    mcp_peer_close(take_ptr(&me.peer));
    assert_int_equal(me.cancels, 1);
    mcp_answer_text(me.held, "nobody hears it"); /* and the peer goes with it */
    assert_int_equal(me.ends, 1);
    assert_null(me.answer);
}

static void test_same_id(void **state)
{
    (void)state;
    give(CALL("7", "hold", "{}"));
    give(CALL("7", "echo", "{}"));
    assert_int_equal(error_code(), RPC_INVALID_REQUEST);
    mcp_answer_text(me.held, "first");
    assert_string_equal(text_of_result(), "first");
    give(CALL("7", "echo", "{}"));
    assert_string_equal(text_of_result(), "nothing");
}

static void test_too_many(void **state)
{
    (void)state;
    struct mcp_call *held[MCP_CALLS_MAX];
    for (int i = 0; i < MCP_CALLS_MAX; i++) {
        scoped_free char *text = xasprintf(CALL("%d", "hold", "{}"), i);
        give(text);
        held[i] = me.held;
    }
    assert_int_equal(me.ends, 0);
    give(CALL("1000", "echo", "{}"));
    assert_int_equal(error_code(), RPC_INVALID_REQUEST);
    for (int i = 0; i < MCP_CALLS_MAX; i++)
        mcp_answer_text(held[i], "");
    give(CALL("1000", "echo", "{}"));
    assert_string_equal(text_of_result(), "nothing");
}

static void test_progress_and_logs(void **state)
{
    (void)state;
    give("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"chat\","
         "\"_meta\":{\"progressToken\":\"t\"}}}");
    assert_non_null(strstr(strbuf_str(&me.sent), "\"message\":\"one\""));
    assert_null(strstr(strbuf_str(&me.sent), "not more"));
    assert_non_null(strstr(strbuf_str(&me.sent), "loud"));
    assert_null(strstr(strbuf_str(&me.sent), "quiet"));
    strbuf_clear(&me.sent);
    give(MODERN_CALL("2", "chat", "")); /* it wants neither */
    assert_int_equal(me.sent.len, 0);
    give(MODERN_CALL("3", "chat", ",\"io.modelcontextprotocol/logLevel\":\"debug\""));
    assert_non_null(strstr(strbuf_str(&me.sent), "quiet"));
}

static void test_legacy_questions(void **state)
{
    (void)state;
    give(INITIALIZE);
    give(CALL("1", "ask", "{}"));
    assert_non_null(strstr(strbuf_str(&me.sent), "\"method\":\"elicitation/create\""));
    assert_int_equal(me.ends, 1);
    give("{\"jsonrpc\":\"2.0\",\"id\":\"cove-9\",\"result\":{}}"); /* nobody asked that */
    give("{\"jsonrpc\":\"2.0\",\"id\":\"cove-1\",\"result\":{\"content\":{\"name\":\"Ada\"}}}");
    assert_string_equal(text_of_result(), "Ada");
    give("{\"jsonrpc\":\"2.0\",\"id\":\"cove-1\",\"result\":{\"content\":{\"name\":\"Bob\"}}}");
    assert_int_equal(me.ends, 2);
}

static void test_legacy_refusal_and_cancel(void **state)
{
    (void)state;
    give(INITIALIZE);
    give(CALL("1", "ask", "{}"));
    give("{\"jsonrpc\":\"2.0\",\"id\":\"cove-1\",\"error\":{\"code\":-1,\"message\":\"no\"}}");
    assert_int_equal(error_code(), RPC_INTERNAL);
    give(CALL("2", "ask", "{}"));
    give(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}");
    assert_int_equal(me.ends, 3);
    assert_null(me.answer);
}

static void test_modern_questions(void **state)
{
    (void)state;
    give(MODERN_CALL("1", "ask", ""));
    assert_string_equal(json_string_value(json_object_get(result(), "resultType")),
                        "input_required");
    scoped_free char *signed_state =
        xstrdup(json_string_value(json_object_get(result(), "requestState")));
    static const char retry[] =
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"ask\","
        "\"requestState\":\"%s%s\",\"inputResponses\":{\"name\":{\"content\":{\"name\":\"Ada\"}}}," MODERN
        "}}}";
    scoped_free char *bad = xasprintf(retry, signed_state, "0");
    give(bad);
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    scoped_free char *good = xasprintf(retry, signed_state, "");
    give(good);
    assert_string_equal(text_of_result(), "Ada");
}

static void test_nobody_is_asked_what_he_cannot(void **state)
{
    (void)state;
    give(CALL("1", "ask", "{}")); /* no initialize: no capabilities */
    assert_int_equal(error_code(), RPC_MISSING_CAPABILITY);
}

static void test_initialize_again(void **state)
{
    (void)state;
    give(INITIALIZE);
    give(CALL("1", "hold", "{}"));
    give("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{"
         "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}");
    assert_true(mcp_has_capability(me.held, "elicitation")); /* as it was when it was asked */
    mcp_answer_text(me.held, "");
    give(CALL("3", "hold", "{}"));
    assert_false(mcp_has_capability(me.held, "elicitation"));
    mcp_answer_text(me.held, "");
}

static void test_changes(void **state)
{
    (void)state;
    mcp_tell_changed(me.server, MCP_TELLS_TOOLS);
    assert_int_equal(me.sent.len, 0);
    give(INITIALIZE);
    mcp_tell_changed(me.server, MCP_TELLS_TOOLS);
    assert_non_null(strstr(strbuf_str(&me.sent), "notifications/tools/list_changed"));
    strbuf_clear(&me.sent);
    give("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"subscriptions/listen\",\"params\":{"
         "\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":true}," MODERN "}}}");
    assert_non_null(strstr(strbuf_str(&me.sent),
                           "\"notifications\":{\"toolsListChanged\":true}")); /* what there is */
    strbuf_clear(&me.sent);
    mcp_tell_changed(me.server, MCP_TELLS_TOOLS);
    assert_non_null(strstr(strbuf_str(&me.sent), "subscriptionId\":5"));
    assert_int_equal(me.ends, 1);
    mcp_server_stop(me.server);
    assert_int_equal(me.ends, 2);
    assert_non_null(json_object_get(result(), "_meta"));
}

#define CASE(words, test)                                                                          \
    {                                                                                              \
        words, test, begin, end, NULL                                                              \
    }

int main(void)
{
    static const struct CMUnitTest cases[] = {
        CASE("initialize agrees on a version", test_initialize),
        CASE("a request without any mark is served", test_bare),
        CASE("a modern request is served by itself", test_modern),
        CASE("both eras work in one conversation", test_eras_side_by_side),
        CASE("arguments are read, or it is told how to give them", test_arguments),
        CASE("what is not there is an error", test_errors),
        CASE("what was cancelled is not answered", test_cancel),
        CASE("who leaves has cancelled", test_leaving),
        CASE("an id is used once at a time", test_same_id),
        CASE("calls under way are few", test_too_many),
        CASE("progress and logs are for who wants them", test_progress_and_logs),
        CASE("a legacy client is asked by requests", test_legacy_questions),
        CASE("a client may refuse, or cancel", test_legacy_refusal_and_cancel),
        CASE("a modern client is asked by results", test_modern_questions),
        CASE("nobody is asked for what he cannot do", test_nobody_is_asked_what_he_cannot),
        CASE("a second initialize is for what comes after it", test_initialize_again),
        CASE("changes are told to who listens", test_changes),
    };
    struct check check = {.count = ARRAY_LEN(cases)};
    memcpy(check.tests, cases, sizeof(cases));
    return check_run(&check, "mcp_peer");
}
