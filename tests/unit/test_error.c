/* test_error.c - the one error type */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "check.h"

struct errno_case {
    const char *name;
    int number;
    enum error_code code;
    const char *words;
};

static const struct errno_case errnos[] = {
    {"a missing file is not found", ENOENT, ERROR_NOT_FOUND, "open 'x': no such file or directory"},
    {"a refused call is denied", EACCES, ERROR_DENIED, "open 'x': permission denied"},
    {"a full disk is unavailable", ENOSPC, ERROR_UNAVAILABLE, "open 'x': no space left on device"},
    {"anything else is internal", EIO, ERROR_INTERNAL, "open 'x': input/output error"},
};

static void test_sys(void **state)
{
    const struct errno_case *row = *state;
    struct error err = {.hint = "of before", .retry_ms = 7};
    errno = row->number;
    assert_int_equal(error_sys(&err, "open '%s'", "x"), -1);
    assert_int_equal(errno, row->number);
    assert_int_equal(err.code, row->code);
    assert_int_equal(err.sys_errno, row->number);
    assert_string_equal(err.msg, row->words);
    assert_string_equal(err.hint, "");
    assert_int_equal(err.retry_ms, 0);
}

static void test_set_wrap_hint(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(error_set(&err, ERROR_LIMIT, "too many %s", "boxes"), -1);
    assert_int_equal(error_hint(&err, "wait %d s", 3), -1);
    assert_int_equal(error_wrap(&err, "create '%s'", "a"), -1);
    assert_string_equal(err.msg, "create 'a': too many boxes");
    assert_string_equal(err.hint, "wait 3 s");
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(err.sys_errno, 0);
}

static void test_long(void **state)
{
    (void)state;
    char big[2000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    struct error err;
    error_set(&err, ERROR_INTERNAL, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    error_wrap(&err, "context");
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    assert_memory_equal(err.msg, "context: xxx", 12);
    error_wrap(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    errno = ENOENT;
    error_sys(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    error_hint(&err, "%s", big);
    assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
}

static void test_table(void **state)
{
    (void)state;
    for (int code = 0; code < ERROR_CODE_COUNT; code++) {
        const struct error_info *info = error_info((enum error_code)code);
        assert_in_range(info->http_status, 400, 599);
        assert_in_range(info->exit_status, 64, 78); /* sysexits; 124 and up belong to programs */
        assert_true(info->rpc_code < 0);
        assert_non_null(info->name);
        for (int other = 0; other < code; other++)
            assert_string_not_equal(error_info((enum error_code)other)->name, info->name);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    check_rows(&check, errnos, test_sys);
    check_one(&check, "a context goes before the cause and keeps the hint", test_set_wrap_hint);
    check_one(&check, "long messages are cut, never overrun", test_long);
    check_one(&check, "every code has its answers, and a name of its own", test_table);
    return check_run(&check, "error");
}
