/* test_mcp_lines.c - bytes in, lines out: where lines end, what is refused, what is left out */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_lines.h"

#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

#define LINE_MAX_TEST 4096
#define MARKS                                                                                      \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define PONG "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"
#define HOLD(id)                                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":" id                                                              \
    ",\"method\":\"tools/call\",\"params\":{\"name\":\"hold\",\"_meta\":{\"progressToken\":1}}}\n"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id    \
    "}}\n"
#define LISTEN                                                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"subscriptions/listen\",\"params\":{"               \
    "\"notifications\":{\"toolsListChanged\":true}," MARKS "}}\n"

static struct {
    struct mcp_server *server;
    struct mcp_lines *lines;
    struct strbuf said;
    size_t waiting;
    unsigned idles, cancels, admits_left;
    struct mcp_call *held;
} me;

/* --- a service, and what carries bytes -------------------------------------------------------- */

/* Ends with the client's word, as tools do whose work can be ended. */
static void on_cancel(void *ctx)
{
    me.cancels++;
    mcp_answer_text(ctx, "cancelled");
}

static void run_hold(struct mcp_call *call)
{
    mcp_on_cancel(call, on_cancel, call);
    me.held = call;
}

static const struct mcp_tool hold = {.name = "hold", .description = "d", .run = run_hold};
static const struct mcp_tool *const tools[] = {&hold, NULL};
static const struct mcp_service service = {
    .name = "t", .version = "1", .tools = tools, .features = MCP_TELLS_TOOLS};

static void on_send(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    assert_true(len > 1 && text[len - 1] == '\n' && !memchr(text, '\n', len - 1));
    strbuf_add(&me.said, text, len);
}

static size_t on_waiting(void *ctx)
{
    (void)ctx;
    return me.waiting;
}

static bool on_admit(void *ctx, const struct mcp_user *user, struct error *err)
{
    (void)ctx;
    assert_true(strcmp(user->owner, "me") == 0);
    if (me.admits_left > 0 && me.admits_left--)
        return true;
    error_set(err, ERROR_LIMIT, "not so fast");
    return false;
}

static void on_idle(void *ctx)
{
    (void)ctx;
    me.idles++;
}

static void begin(void)
{
    me.server = mcp_server_new(&service);
    strbuf_init(&me.said, 4 * MIB);
    me.waiting = me.idles = me.cancels = 0;
    me.admits_left = 100000;
    me.lines = mcp_lines_new(&(struct mcp_lines_order){.server = me.server,
                                                       .user = {.owner = "me"},
                                                       .send = on_send,
                                                       .waiting = on_waiting,
                                                       .admit = on_admit,
                                                       .idle = on_idle,
                                                       .line_max = LINE_MAX_TEST});
}

static void end(void)
{
    mcp_lines_free(take_ptr(&me.lines));
    mcp_server_free(me.server);
    strbuf_release(&me.said);
}

static void take(const char *text)
{
    mcp_lines_take(me.lines, text, strlen(text));
}

/* What was said since the last look. */
static bool has_said(const char *text)
{
    bool is_it = strcmp(strbuf_str(&me.said), text) == 0;
    strbuf_clear(&me.said);
    return is_it;
}

static bool has_told(const char *part)
{
    bool is_it = strstr(strbuf_str(&me.said), part);
    strbuf_clear(&me.said);
    return is_it;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void test_where_lines_end(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *said;
    } rows[] = {
        {"one line", PING "\n", PONG},
        {"CR LF", PING "\r\n", PONG},
        {"blanks around it", " \t" PING " \r\n", PONG},
        {"blank lines are nothing", "\n\r\n \t \n", ""},
        {"two in one piece", PING "\n" PING "\n", PONG PONG},
        {"one without an end waits", PING, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin();
        take(rows[i].text);
        if (!has_said(rows[i].said))
            fail_msg("%s", rows[i].name);
        end();
    }
}

static void test_pieces_and_the_last_line(void **state)
{
    (void)state;
    begin();
    for (const char *p = PING "\n"; *p; p++)
        mcp_lines_take(me.lines, p, 1);
    assert_true(has_said(PONG));
    take(PING);
    assert_true(has_said(""));
    mcp_lines_end(me.lines);
    assert_true(has_said(PONG));
    end();
}

static void test_what_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *code;
        size_t len;
    } rows[] = {
        {"what\n", "-32700", 5},
        {"\xff\n", "-32700", 2},
        {"\0\n", "-32700", 2},
        {"{\"a\":1\n", "-32700", 7},
        {"[]\n", "-32600", 3},
        {"{}\n", "-32600", 3},
        {"[" PING "]\n", "-32600", sizeof("[" PING "]\n") - 1},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        mcp_lines_take(me.lines, rows[i].text, rows[i].len);
        if (!has_told(rows[i].code))
            fail_msg("%s", rows[i].text);
        take(PING "\n");
        assert_true(has_said(PONG));
    }
    end();
}

static void test_a_line_that_is_too_long(void **state)
{
    (void)state;
    scoped_free char *long_line = xmalloc(LINE_MAX_TEST + 2);
    memset(long_line, 'x', LINE_MAX_TEST + 2);
    begin();
    mcp_lines_take(me.lines, long_line, LINE_MAX_TEST + 1);
    mcp_lines_take(me.lines, long_line, LINE_MAX_TEST);
    assert_true(has_said("")); /* its end may be far away */
    take("\n" PING "\n");
    assert_true(strstr(strbuf_str(&me.said), "too long"));
    assert_true(has_told(PONG));
    end();
}

/* --- requests --------------------------------------------------------------------------------- */

static void test_answers_come_as_they_are_ready(void **state)
{
    (void)state;
    begin();
    take(HOLD("2") PING "\n");
    assert_true(has_said(PONG));
    assert_true(mcp_lines_is_busy(me.lines));
    assert_true(me.idles == 0);
    mcp_answer_text(me.held, "late");
    assert_true(has_told("late"));
    assert_true(me.idles == 1);
    assert_true(!mcp_lines_is_busy(me.lines));
    end();
}

static void test_a_cancelled_one_says_nothing(void **state)
{
    (void)state;
    begin();
    take(HOLD("2"));
    take(CANCEL("3"));
    assert_true(me.cancels == 0);
    take(CANCEL("2"));
    assert_true(me.cancels == 1);
    assert_true(has_said(""));
    assert_true(!mcp_lines_is_busy(me.lines));
    end();
}

static void test_who_leaves_has_cancelled(void **state)
{
    (void)state;
    begin();
    take(HOLD("2") HOLD("3"));
    strbuf_clear(&me.said);
    mcp_lines_free(take_ptr(&me.lines));
    assert_true(me.cancels == 2);
    assert_true(has_said(""));
    mcp_server_free(me.server);
    strbuf_release(&me.said);
}

static void test_who_only_listens_is_not_waited_for(void **state)
{
    (void)state;
    begin();
    take(LISTEN);
    assert_true(has_told("acknowledged"));
    mcp_tell_changed(me.server, MCP_TELLS_TOOLS);
    assert_true(has_told("list_changed"));
    assert_true(mcp_lines_is_busy(me.lines));
    mcp_lines_end(me.lines);
    assert_true(!mcp_lines_is_busy(me.lines));
    assert_true(me.idles == 1);
    end();
}

static void test_what_may_be_left_out_is(void **state)
{
    (void)state;
    begin();
    take(HOLD("2"));
    me.waiting = MCP_LINES_FULL + 1;
    mcp_progress(me.held, 1, 0, "one");
    assert_true(has_said(""));
    me.waiting = 0;
    mcp_progress(me.held, 2, 0, "two");
    assert_true(has_told("notifications/progress"));
    me.waiting = MCP_LINES_FULL + 1; /* answers are never left out */
    mcp_answer_text(me.held, "done");
    assert_true(has_told("done"));
    end();
}

static void test_too_many_are_refused_and_words_get_through(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < MCP_CALLS_MAX; i++) {
        scoped_free char *line =
            xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"h%d\",\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"hold\"}}\n",
                      i);
        take(line);
    }
    assert_true(has_said(""));
    take(PING "\n");
    assert_true(has_told("under way"));
    take(CANCEL("\"h7\""));
    take(PING "\n");
    assert_true(has_said(PONG));
    end();
}

static void test_the_door_is_asked_each_time(void **state)
{
    (void)state;
    begin();
    me.admits_left = 1;
    take(PING "\n" PING "\n");
    assert_true(strstr(strbuf_str(&me.said), PONG));
    assert_true(has_told("not so fast"));
    take(CANCEL("5")); /* a word is no request */
    assert_true(has_said(""));
    end();
}

int main(void)
{
    struct check check = {.count = 0};
    json_set_alloc_funcs(xmalloc, free);
    check_one(&check, "lines end with LF or CR LF, and blank ones are nothing",
              test_where_lines_end);
    check_one(&check, "pieces may be cut anywhere, and the last line needs no end",
              test_pieces_and_the_last_line);
    check_one(&check, "what cannot be read is an error, and the next line counts",
              test_what_cannot_be_read);
    check_one(&check, "a line that is too long is dropped to its end",
              test_a_line_that_is_too_long);
    check_one(&check, "answers come as they are ready", test_answers_come_as_they_are_ready);
    check_one(&check, "a cancelled request is not answered", test_a_cancelled_one_says_nothing);
    check_one(&check, "who leaves has cancelled", test_who_leaves_has_cancelled);
    check_one(&check, "who only listens is not waited for",
              test_who_only_listens_is_not_waited_for);
    check_one(&check, "progress is left out while nobody reads", test_what_may_be_left_out_is);
    check_one(&check, "too many are refused, and words get through",
              test_too_many_are_refused_and_words_get_through);
    check_one(&check, "the door is asked for each request", test_the_door_is_asked_each_time);
    return check_run(&check, "mcp_lines");
}
