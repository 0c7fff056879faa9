/* test_mcp_task.c - calls that became tasks: who sees them, what comes of them, how many there are
 *
 * The clocks are the test's. A peer is closed after each request, as HTTP does it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_task.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"
#include "mcp/mcp_peer.h"

#define NS_PER_MS 1000000ll
#define HELD_MAX  (2 * MCP_TASKS_MAX)

static struct {
    struct mcp_server *server;
    const char *owner;
    struct strbuf sent;
    json_t *answer; /* the last one; NULL: none */
    unsigned ends;
    int status;
    struct mcp_call *held[HELD_MAX]; /* by the tool `hold`, in their order */
    size_t held_count;
    unsigned cancels;
    unsigned finds; /* of the service */
    bool was_cancelled;
    struct mcp_task_view view; /* what it tells; created_ns 0: unknown */
    int64_t now_ns;
} me;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    return me.now_ns;
}

int64_t __wrap_clock_wall_ns(void);
int64_t __wrap_clock_wall_ns(void)
{
    return me.now_ns + 1700000000000000000ll;
}

static void pass_ms(int64_t ms)
{
    me.now_ns += ms * NS_PER_MS;
}

/* --- a service -------------------------------------------------------------------------------- */

static void on_cancel(void *ctx)
{
    (void)ctx;
    me.cancels++;
}

static void run_hold(struct mcp_call *call)
{
    static const struct mcp_task_order any = {0};
    mcp_on_cancel(call, on_cancel, NULL);
    me.held[me.held_count++] = call;
    mcp_task_begin(call, &any);
}

static void run_ask(struct mcp_call *call)
{
    const struct mcp_task_order named = {.id = "asking"};
    mcp_task_begin(call, &named);
    if (mcp_input(call, "b")) {
        assert_non_null(mcp_input(call, "a"));
        assert_int_equal(json_integer_value(mcp_state(call)), 7);
        mcp_answer_text(call, "thanks");
        return;
    }
    mcp_need_input(call,
                   json_pack("{s:{s:s, s:{}}, s:{s:s, s:{}}}", "a", "method", "elicitation/create",
                             "params", "b", "method", "elicitation/create", "params"),
                   json_integer(7));
}

static void find_task(struct mcp_call *call, const char *id, bool is_cancelled)
{
    assert_non_null(id);
    me.finds++;
    me.was_cancelled = is_cancelled;
    if (!me.view.created_ns) {
        mcp_task_unknown(call);
        return;
    }
    if (mcp_task_tell(call, &me.view))
        mcp_answer_text(call, "told by the service");
}

static const struct mcp_tool hold = {.name = "hold", .description = "d", .run = run_hold};
static const struct mcp_tool must = {
    .name = "must", .description = "d", .needs_task = true, .run = run_hold};
static const struct mcp_tool ask = {.name = "ask", .description = "d", .run = run_ask};
static const struct mcp_tool *const tools[] = {&hold, &must, &ask, NULL};
static const struct mcp_service service = {
    .name = "test", .version = "1", .tools = tools, .features = MCP_TASKS, .find_task = find_task};

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

static struct mcp_peer *give_lasting(const char *method, json_t *params)
{
    static int id;
    struct rpc_message m;
    struct rpc_fault fault;
    const struct mcp_delivery delivery = {.outlet = &outlet};
    struct mcp_peer *peer =
        mcp_peer_new(&(struct mcp_peer_order){.server = me.server, .user = {.owner = me.owner}});
    scoped_json json_t *message = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", ++id,
                                            "method", method, "params", params);
    scoped_free char *text = json_dumps(message, 0);
    assert_int_equal(rpc_parse(&m, text, strlen(text), MCP_MESSAGE_MAX_BYTES, &fault), 0);
    mcp_receive(peer, &m, &delivery);
    return peer;
}

/* With the marks of the modern era; `params` is taken. */
static json_t *marked(json_t *params, bool knows_tasks)
{
    json_t *can = json_pack("{s:{}, s:{}}", "elicitation", "extensions");
    if (knows_tasks)
        json_object_set_new(json_object_get(can, "extensions"), MCP_TASKS_EXTENSION, json_object());
    json_object_set_new(params, "_meta",
                        json_pack("{s:s, s:o}", "io.modelcontextprotocol/protocolVersion",
                                  "2026-07-28", "io.modelcontextprotocol/clientCapabilities", can));
    return params;
}

static void give(const char *method, json_t *params, bool knows_tasks)
{
    mcp_peer_close(give_lasting(method, marked(params, knows_tasks)));
}

static void call_tool(const char *name)
{
    give("tools/call", json_pack("{s:s}", "name", name), true);
}

static void ask_for(const char *method, const char *id)
{
    give(method, json_pack("{s:s}", "taskId", id), true);
}

static const json_t *result(void)
{
    const json_t *value = json_object_get(me.answer, "result");
    assert_non_null(value);
    return value;
}

static const char *member(const char *name)
{
    return json_string_value(json_object_get(result(), name));
}

static int error_code(void)
{
    assert_non_null(me.answer);
    return (int)json_integer_value(json_object_get(json_object_get(me.answer, "error"), "code"));
}

static char *begin_task(void)
{
    call_tool("hold");
    assert_string_equal(member("resultType"), "task");
    assert_string_equal(member("status"), "working");
    return xstrdup(member("taskId"));
}

static const char *status_of(const char *id)
{
    ask_for("tasks/get", id);
    assert_string_equal(member("resultType"), "complete");
    assert_string_equal(member("taskId"), id);
    return member("status");
}

static struct mcp_call *last(void)
{
    return me.held[me.held_count - 1];
}

static int begin(void **state)
{
    (void)state;
    memset(&me, 0, sizeof(me));
    me.owner = "o";
    me.now_ns = 1;
    strbuf_init(&me.sent, 1 * MIB);
    me.server = mcp_server_new(&service);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mcp_server_free(me.server);
    strbuf_release(&me.sent);
    json_decref(me.answer);
    return 0;
}

/* --- cases ------------------------------------------------------------------------------------ */

static void test_life(void **state)
{
    (void)state;
    scoped_free char *id = begin_task();
    assert_int_equal(json_integer_value(json_object_get(result(), "ttlMs")), MCP_TASK_TTL_MS);
    assert_null(json_object_get(result(), "result"));
    assert_int_equal(me.cancels, 0); /* although its client has gone */
    assert_string_equal(status_of(id), "working");
    assert_null(json_object_get(result(), "result"));
    pass_ms(1500);
    mcp_answer_text(last(), "done");
    assert_string_equal(status_of(id), "completed");
    assert_string_not_equal(member("createdAt"), member("lastUpdatedAt"));
    const json_t *inner = json_object_get(result(), "result");
    assert_int_equal(json_array_size(json_object_get(inner, "content")), 1);
    assert_int_equal(me.finds, 0);
}

static void test_answered_before(void **state)
{
    (void)state;
    scoped_free char *one = begin_task(), *other = begin_task();
    assert_string_not_equal(one, other);
    assert_true(strlen(one) >= 26);
    mcp_fail(last(), RPC_INTERNAL, NULL, "it broke");
    assert_string_equal(status_of(other), "failed");
    assert_string_equal(member("statusMessage"), "it broke");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(result(), "error"), "code")),
        RPC_INTERNAL);
    assert_null(json_object_get(result(), "result"));
    mcp_answer_error(me.held[0], "bad luck"); /* a tool that fails has completed */
    assert_string_equal(status_of(one), "completed");
    assert_true(json_is_true(json_object_get(json_object_get(result(), "result"), "isError")));
}

static void test_who_knows_no_tasks(void **state)
{
    (void)state;
    static const char *const methods[] = {"tasks/get", "tasks/update", "tasks/cancel"};
    give("tools/call", json_pack("{s:s}", "name", "hold"), false);
    assert_int_equal(me.cancels, 1); /* a call like any other: who leaves has cancelled */
    mcp_answer_text(last(), "done");
    assert_int_equal(mcp_tasks_count(me.server), 0);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        give(methods[i], json_pack("{s:s, s:{}}", "taskId", "x", "inputResponses"), false);
        assert_int_equal(error_code(), RPC_MISSING_CAPABILITY);
        assert_int_equal(me.status, 400);
    }
    give("tools/call", json_pack("{s:s}", "name", "must"), false);
    assert_int_equal(error_code(), RPC_MISSING_CAPABILITY);
    scoped_free char *text = json_dumps(json_object_get(me.answer, "error"), JSON_COMPACT);
    assert_non_null(strstr(text, "{\"extensions\":{\"" MCP_TASKS_EXTENSION "\":{}}}"));
    assert_int_equal(me.held_count, 1);
}

static void test_legacy(void **state)
{
    (void)state;
    struct mcp_peer *peer = give_lasting("tools/call", json_pack("{s:s}", "name", "must"));
    assert_int_equal(me.ends, 0); /* it runs, and is waited for */
    mcp_answer_text(last(), "done");
    assert_int_equal(me.ends, 1);
    mcp_peer_close(peer);
    mcp_peer_close(give_lasting("tasks/get", json_pack("{s:s}", "taskId", "x")));
    assert_int_equal(error_code(), RPC_NO_METHOD);
    give("server/discover", json_object(), false);
    const json_t *can = json_object_get(result(), "capabilities");
    assert_non_null(json_object_get(json_object_get(can, "extensions"), MCP_TASKS_EXTENSION));
    give("tasks/list", json_object(), true);
    assert_int_equal(error_code(), RPC_NO_METHOD);
    ask_for("tasks/result", "x");
    assert_int_equal(error_code(), RPC_NO_METHOD);
}

static void test_others_do_not_see_it(void **state)
{
    (void)state;
    scoped_free char *id = begin_task();
    me.owner = "other";
    static const char *const methods[] = {"tasks/get", "tasks/cancel"};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        ask_for(methods[i], id);
        assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    }
    give("tasks/update", json_pack("{s:s, s:{}}", "taskId", id, "inputResponses"), true);
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    assert_int_equal(me.cancels, 0);
    give("tasks/get", json_object(), true);
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    me.owner = "o";
    assert_string_equal(status_of(id), "working");
}

static void test_cancel(void **state)
{
    (void)state;
    scoped_free char *id = begin_task();
    for (int i = 0; i < 3; i++) {
        ask_for("tasks/cancel", id);
        assert_string_equal(member("resultType"), "complete");
        assert_null(json_object_get(result(), "status"));
    }
    assert_int_equal(me.cancels, 1);
    mcp_progress(last(), 1, 0, "still there");
    assert_string_equal(status_of(id), "working"); /* it is, until its handler says so */
    assert_string_equal(member("statusMessage"), "it is being cancelled");
    mcp_answer_text(last(), "too late");
    assert_string_equal(status_of(id), "cancelled");
    assert_null(json_object_get(result(), "result"));
    ask_for("tasks/cancel", id);
    assert_string_equal(member("resultType"), "complete");
    assert_int_equal(me.cancels, 1);
}

static void test_ended_by_others(void **state)
{
    (void)state;
    scoped_free char *id = begin_task();
    mcp_task_set_kept(last());
    mcp_task_end_cancelled(last());
    assert_string_equal(status_of(id), "cancelled");
    assert_int_equal(me.finds, 0);
}

static void update(json_t *answers)
{
    give("tasks/update", json_pack("{s:s, s:o}", "taskId", "asking", "inputResponses", answers),
         true);
}

static void test_questions(void **state)
{
    (void)state;
    call_tool("ask");
    assert_null(json_object_get(result(), "inputRequests"));
    assert_string_equal(status_of("asking"), "input_required");
    assert_int_equal(json_object_size(json_object_get(result(), "inputRequests")), 2);
    assert_null(json_object_get(result(), "requestState"));
    update(json_pack("{s:{s:s}, s:{}}", "a", "action", "accept", "nobody asked"));
    assert_string_equal(member("resultType"), "complete");
    assert_string_equal(status_of("asking"), "input_required");
    assert_null(json_object_get(json_object_get(result(), "inputRequests"), "a"));
    assert_non_null(json_object_get(json_object_get(result(), "inputRequests"), "b"));
    update(json_pack("{s:i}", "b", 1));
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    ask_for("tasks/update", "asking");
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    update(json_pack("{s:{s:s}}", "b", "action", "accept"));
    assert_null(json_object_get(result(), "status"));
    assert_string_equal(status_of("asking"), "completed");
    update(json_pack("{s:{s:s}}", "b", "action", "accept")); /* nobody waits for it */
    assert_string_equal(member("resultType"), "complete");
}

static void test_cancel_while_asking(void **state)
{
    (void)state;
    call_tool("ask");
    ask_for("tasks/cancel", "asking");
    assert_string_equal(status_of("asking"), "cancelled");
    assert_null(json_object_get(result(), "inputRequests"));
}

static void test_time(void **state)
{
    (void)state;
    scoped_free char *old = begin_task(), *quick = begin_task();
    mcp_answer_text(last(), "done");
    pass_ms(MCP_TASK_TTL_MS - 1);
    assert_string_equal(status_of(quick), "completed");
    pass_ms(2);
    ask_for("tasks/get", quick);
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    assert_int_equal(mcp_tasks_count(me.server), 1);
    assert_string_equal(status_of(old), "working"); /* however long it takes */
    assert_int_equal(json_integer_value(json_object_get(result(), "ttlMs")),
                     MCP_TASK_TTL_MS + 1 + MCP_TASK_KEPT_MS);
    mcp_answer_text(me.held[0], "at last");
    pass_ms(MCP_TASK_KEPT_MS);
    assert_string_equal(status_of(old), "completed");
    pass_ms(1);
    mcp_tasks_sweep(me.server);
    assert_int_equal(mcp_tasks_count(me.server), 0);
}

static void test_limits(void **state)
{
    (void)state;
    for (int i = 0; i < MCP_TASKS_OWNER_MAX; i++)
        free(begin_task());
    call_tool("hold"); /* stays a call, which the client leaves */
    assert_int_equal(mcp_tasks_count(me.server), MCP_TASKS_OWNER_MAX);
    assert_int_equal(me.cancels, 1);
    mcp_answer_text(last(), "nobody waits");
    me.owner = "other"; /* nothing to him */
    free(begin_task());
    me.owner = "o";
    mcp_answer_text(me.held[3], "done"); /* what only we have stays for its time... */
    call_tool("hold");
    assert_int_equal(me.cancels, 2);
    mcp_answer_text(last(), "nobody waits");
    mcp_task_set_kept(me.held[5]); /* ...and what others have does not */
    mcp_answer_text(me.held[5], "done");
    free(begin_task());
    assert_int_equal(mcp_tasks_count(me.server), MCP_TASKS_OWNER_MAX + 1);
}

static void test_limits_of_all(void **state)
{
    (void)state;
    char owner[16];
    me.owner = owner;
    for (int i = 0; i < MCP_TASKS_MAX; i++) {
        snprintf(owner, sizeof(owner), "o%d", i % 16);
        free(begin_task());
    }
    snprintf(owner, sizeof(owner), "new");
    call_tool("hold");
    assert_int_equal(mcp_tasks_count(me.server), MCP_TASKS_MAX);
    mcp_answer_text(last(), "nobody waits");
    for (int i = 0; i < MCP_TASKS_MAX; i++)
        mcp_answer_text(me.held[i], "done");
    pass_ms(MCP_TASK_TTL_MS + 1);
    free(begin_task());
    assert_int_equal(mcp_tasks_count(me.server), 1);
}

static void test_bytes(void **state)
{
    (void)state;
    enum { TASKS = 5 };
    char *ids[TASKS];
    scoped_free char *text = xcalloc(1, 9 * MIB + 1);
    memset(text, 'x', 9 * MIB);
    for (int i = 0; i < TASKS; i++)
        ids[i] = begin_task();
    for (int i = 0; i < 4; i++)
        mcp_answer_text(me.held[i], text);
    assert_string_equal(status_of(ids[2]), "completed");
    assert_string_equal(status_of(ids[3]), "failed"); /* 36 MiB are too much */
    assert_non_null(
        strstr(json_string_value(json_object_get(json_object_get(result(), "error"), "message")),
               "no room"));
    mcp_answer_text(me.held[4], "small");
    assert_string_equal(status_of(ids[4]), "completed");
    for (int i = 0; i < TASKS; i++)
        free(ids[i]);
}

static void test_kept(void **state)
{
    (void)state;
    scoped_free char *id = begin_task();
    scoped_free char *created = xstrdup(member("createdAt"));
    mcp_task_set_kept(last());
    assert_string_equal(status_of(id), "working");
    assert_int_equal(me.finds, 0);
    pass_ms(5000);
    mcp_answer_text(last(), "done");
    me.view = (struct mcp_task_view){.status = MCP_TASK_COMPLETED,
                                     .created_ns = __wrap_clock_wall_ns() - 1,
                                     .ended_ns = __wrap_clock_wall_ns()};
    assert_string_equal(status_of(id), "completed");
    assert_int_equal(me.finds, 1);
    assert_string_equal(member("createdAt"), created); /* as it was told before */
    const json_t *content = json_object_get(json_object_get(result(), "result"), "content");
    assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "text")),
                        "told by the service");
    assert_string_equal(member("resultType"), "complete");
}

static void test_of_an_earlier_process(void **state)
{
    (void)state;
    me.view = (struct mcp_task_view){.created_ns = __wrap_clock_wall_ns()};
    assert_string_equal(status_of("old"), "working");
    assert_false(me.was_cancelled);
    ask_for("tasks/cancel", "old");
    assert_true(me.was_cancelled);
    assert_null(json_object_get(result(), "taskId"));
    me.view.status = MCP_TASK_CANCELLED;
    me.view.ended_ns = __wrap_clock_wall_ns();
    assert_string_equal(status_of("old"), "cancelled");
    pass_ms(MCP_TASK_TTL_MS + 1);
    ask_for("tasks/get", "old");
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
    ask_for("tasks/cancel", "old");
    assert_int_equal(error_code(), RPC_INVALID_PARAMS);
}

static void test_listening(void **state)
{
    (void)state;
    scoped_free char *id = begin_task(), *over = begin_task();
    mcp_answer_text(last(), "done");
    json_t *filter = json_pack("{s:{s:[s, s, s]}}", "notifications", "taskIds", id, over, "x");
    give("subscriptions/listen", json_deep_copy(filter), false);
    assert_int_equal(error_code(), RPC_MISSING_CAPABILITY);
    struct mcp_peer *peer = give_lasting("subscriptions/listen", marked(filter, true));
    scoped_free char *agreed = xasprintf("\"notifications\":{\"taskIds\":[\"%s\"]}", id);
    assert_non_null(strstr(strbuf_str(&me.sent), agreed)); /* what goes on, and is his */
    strbuf_clear(&me.sent);
    mcp_progress(me.held[0], 1, 2, "half way");
    mcp_log(me.held[0], MCP_ERROR, "t", "loud");
    assert_non_null(strstr(strbuf_str(&me.sent), "\"statusMessage\":\"half way\""));
    assert_null(strstr(strbuf_str(&me.sent), "notifications/progress"));
    assert_null(strstr(strbuf_str(&me.sent), "loud"));
    strbuf_clear(&me.sent);
    mcp_task_set_kept(me.held[0]);
    mcp_answer_text(me.held[0], "the end");
    assert_non_null(strstr(strbuf_str(&me.sent), "\"method\":\"notifications/tasks\""));
    assert_non_null(strstr(strbuf_str(&me.sent), "\"status\":\"completed\""));
    assert_non_null(strstr(strbuf_str(&me.sent), "the end"));
    assert_non_null(strstr(strbuf_str(&me.sent), "subscriptionId"));
    mcp_peer_close(peer);
}

static void on_drop(void *ctx)
{
    *(unsigned *)ctx += 1;
}

static void test_left_alone(void **state)
{
    (void)state;
    unsigned drops = 0;
    scoped_free char *id = begin_task(), *over = begin_task(), *third = begin_task();
    assert_true(*over && *third);
    for (size_t i = 0; i < me.held_count; i++)
        mcp_task_on_drop(me.held[i], on_drop, &drops);
    mcp_answer_text(me.held[1], "done");
    mcp_task_on_drop(me.held[2], NULL, NULL);
    assert_string_equal(status_of(id), "working");
    mcp_server_free(me.server); /* with it under way: it is not cancelled */
    me.server = mcp_server_new(&service);
    assert_int_equal(me.cancels, 0);
    assert_int_equal(drops, 1);
}

#define CASE(words, test)                                                                          \
    {                                                                                              \
        words, test, begin, end, NULL                                                              \
    }

int main(void)
{
    static const struct CMUnitTest cases[] = {
        CASE("a task goes on without its client", test_life),
        CASE("an error of the protocol is a failure, one of a tool is not", test_answered_before),
        CASE("who knows no tasks gets none", test_who_knows_no_tasks),
        CASE("the legacy era has no tasks", test_legacy),
        CASE("others do not see it", test_others_do_not_see_it),
        CASE("it is cancelled once, and when it is", test_cancel),
        CASE("it may be ended by others", test_ended_by_others),
        CASE("it asks, and goes on when all is answered", test_questions),
        CASE("it is cancelled while it asks", test_cancel_while_asking),
        CASE("it is kept for its time", test_time),
        CASE("an owner has so many", test_limits),
        CASE("there are so many of all", test_limits_of_all),
        CASE("results take so much memory", test_bytes),
        CASE("what the service keeps is told by it", test_kept),
        CASE("the service knows those of an earlier process", test_of_an_earlier_process),
        CASE("who listens is told", test_listening),
        CASE("a server ends with tasks under way", test_left_alone),
    };
    struct check check = {.count = ARRAY_LEN(cases)};
    memcpy(check.tests, cases, sizeof(cases));
    return check_run(&check, "mcp_task");
}
