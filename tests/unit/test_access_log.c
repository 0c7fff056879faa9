/* test_access_log.c - what is in a line, and what never is */
/* SPDX-License-Identifier: Apache-2.0 */
#include "api/access_log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "http/http_server.h"

static int pair[2];
static char line[LOG_LINE_MAX_BYTES];

static struct log open_log(enum log_level level)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    return (struct log){.fd = pair[0], .level = level};
}

/* The one line without its time; "" when there is none. */
static const char *read_line(void)
{
    ssize_t len = read(pair[1], line, sizeof(line) - 1);
    line[len > 0 ? len - 1 : 0] = '\0';
    char more;
    assert_true(read(pair[1], &more, 1) < 0);
    close(pair[0]);
    close(pair[1]);
    const char *level = strstr(line, "\"level\"");
    return level ? level : "";
}

static const struct api_route row = {.id = "getSession"};
static struct api_user user = {.caller = {.owner = "key_1"}};

struct line_case {
    const char *name;
    struct http_record record;
    const struct api_route *row;
    const char *line;
};

static const struct line_case lines[] = {
    {"a request with a key",
     {.id = "req_1",
      .peer = "127.0.0.1",
      .method = METHOD_GET,
      .path = "/api/v1/sessions/secret-name",
      .user = &user,
      .status = 200,
      .bytes_in = 1,
      .bytes_out = 2345,
      .duration_ns = 312400},
     &row,
     "\"level\":\"info\",\"message\":\"request\",\"request\":\"req_1\",\"method\":\"GET\",\"route\":"
     "\"getSession\",\"status\":200,\"ms\":0.312,\"bytes_in\":1,\"bytes_out\":2345,\"owner\":"
     "\"key_1\",\"peer\":\"127.0.0.1\"}"},
    {"a request that was not understood, of a peer that left",
     {.id = "req_2", .peer = "unix", .method = METHOD_COUNT, .duration_ns = 12000000000},
     NULL,
     "\"level\":\"info\",\"message\":\"request\",\"request\":\"req_2\",\"method\":null,\"route\":"
     "null,\"status\":0,\"ms\":12000.000,\"bytes_in\":0,\"bytes_out\":0,\"owner\":null,\"peer\":"
     "\"unix\"}"},
};

static void test_request(void **state)
{
    const struct line_case *c = *state;
    struct log log = open_log(LOG_LEVEL_INFO);
    access_log_request(&log, &c->record, c->row);
    assert_string_equal(read_line(), c->line);
    assert_null(log.request_id); /* of that line only */
}

static void test_quiet(void **state)
{
    (void)state;
    struct log log = open_log(LOG_LEVEL_WARN);
    access_log_request(&log, &lines[0].record, &row);
    access_log_request(NULL, &lines[0].record, &row);
    assert_string_equal(read_line(), "");
}

static void test_execution(void **state)
{
    (void)state;
    struct log log = open_log(LOG_LEVEL_INFO);
    struct plane_ending ending = {
        .id = "exe_1",
        .owner = "key_1",
        .session_id = "ses_1",
        .state = EXECUTION_TIMEOUT,
        .kind = REASON_TIMEOUT,
        .duration_ms = 1000.25,
        .cpu_us = 1500,
    };
    access_log_execution(&log, &ending);
    assert_string_equal(
        read_line(), "\"level\":\"info\",\"message\":\"execution ended\",\"execution\":\"exe_1\","
                     "\"session\":\"ses_1\",\"owner\":\"key_1\",\"state\":\"timeout\",\"reason\":"
                     "\"timeout\",\"ms\":1000.250,\"cpu_ms\":1.500}");
    log = open_log(LOG_LEVEL_INFO);
    ending.state = EXECUTION_COMPLETED;
    ending.kind = REASON_NONE;
    ending.session_id = NULL;
    access_log_execution(&log, &ending);
    assert_non_null(strstr(read_line(), "\"session\":null,\"owner\":\"key_1\",\"state\":"
                                        "\"completed\",\"reason\":null"));
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, lines, test_request);
    check_one(&check, "says nothing when it is not wanted", test_quiet);
    check_one(&check, "an execution, by its ids", test_execution);
    return check_run(&check, "access_log");
}
