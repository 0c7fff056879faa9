/* test_store_record.c - every pair of states, against the documented ways between them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_record.h"

#include <string.h>

#include "check.h"

/* Rows: from; columns: to; in the order of the enums. A change that keeps the state counts. */
static const char *const session_ways[STORE_SESSION_STATES] = {
    /*               C R B F t T */
    /* creating    */ "1 1 0 1 1 1",
    /* ready       */ "1 1 1 1 1 1",
    /* busy        */ "1 1 1 1 1 1",
    /* failed      */ "1 1 0 1 1 1",
    /* terminating */ "0 0 0 0 1 1",
    /* terminated  */ "0 0 0 0 0 0",
};

static const char *const execution_ways[STORE_EXECUTION_STATES] = {
    /*             q r C F t c l */
    /* queued    */ "1 1 1 1 1 1 1",
    /* running   */ "1 1 1 1 1 1 1",
    /* completed */ "0 0 0 0 0 0 0",
    /* failed    */ "0 0 0 0 0 0 0",
    /* timeout   */ "0 0 0 0 0 0 0",
    /* cancelled */ "0 0 0 0 0 0 0",
    /* lost      */ "0 0 0 0 0 0 0",
};

static void test_sessions(void **state)
{
    (void)state;
    for (unsigned from = 0; from < STORE_SESSION_STATES; from++) {
        for (unsigned to = 0; to < STORE_SESSION_STATES; to++)
            assert_int_equal(store_session_may(from, to), session_ways[from][2 * to] == '1');
    }
}

static void test_executions(void **state)
{
    (void)state;
    for (unsigned from = 0; from < STORE_EXECUTION_STATES; from++) {
        for (unsigned to = 0; to < STORE_EXECUTION_STATES; to++)
            assert_int_equal(store_execution_may(from, to), execution_ways[from][2 * to] == '1');
    }
}

static void test_endings(void **state)
{
    (void)state;
    for (unsigned s = 0; s < STORE_SESSION_STATES; s++) {
        assert_int_equal(store_session_fits(s, 0), s != STORE_SESSION_TERMINATED);
        assert_int_equal(store_session_fits(s, 5),
                         s == STORE_SESSION_TERMINATED || s == STORE_SESSION_FAILED);
    }
    for (unsigned s = 0; s < STORE_EXECUTION_STATES; s++) {
        bool is_over = s != STORE_EXECUTION_QUEUED && s != STORE_EXECUTION_RUNNING;
        assert_int_equal(store_execution_fits(s, 0), !is_over);
        assert_int_equal(store_execution_fits(s, 5), is_over);
    }
}

static void test_words(void **state)
{
    (void)state;
    for (int i = 0; i < STORE_SESSION_STATES; i++)
        assert_int_equal(store_state_find(store_session_names, store_session_names[i]), i);
    for (int i = 0; i < STORE_EXECUTION_STATES; i++)
        assert_int_equal(store_state_find(store_execution_names, store_execution_names[i]), i);
    assert_int_equal(store_state_find(store_session_names, "queued"), -1);
    assert_int_equal(store_state_find(store_session_names, ""), -1);
    assert_string_equal(store_session_names[STORE_SESSION_TERMINATING], "terminating");
    assert_string_equal(store_execution_names[STORE_EXECUTION_LOST], "lost");
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "sessions go the documented ways", test_sessions);
    check_one(&check, "executions end once", test_executions);
    check_one(&check, "an end has a time, and nothing else has", test_endings);
    check_one(&check, "each state has its word", test_words);
    return check_run(&check, "store_record");
}
