/* test_session_kernel.c - interpreters that die, lie or are started anew */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_death_before_ready(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    world_open_sealed(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    assert_int_equal(write(w.streams[2], "no module named x\n", 18), 18);
    world_kernel_dies(&w, 3, 0);
    world_assert_state(&w, SESSION_FAILED);
    assert_string_equal(strbuf_str(&w.states), "failed ");
    const struct session_info *info = session_info(w.session);
    assert_string_equal(info->error.msg, "the interpreter ended with status 3");
    assert_string_equal(info->error.hint, "no module named x\n");
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED); /* what waited is told */
    assert_int_equal(world_try_execute(&w, true, -1, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    world_reset(&w);
    world_expect_init(&w, GUEST_KILL, 0);
    world_expect_init(&w, GUEST_START, 0);
    world_become_ready(&w);
    world_close(&w);
}

static void test_not_started(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    world_open_sealed(&w);
    world_init_says(&w, GUEST_STARTED, ENOENT, 0, 0);
    world_assert_state(&w, SESSION_FAILED);
    assert_non_null(strstr(session_info(w.session)->error.msg, "/kernel"));
    assert_int_equal(session_info(w.session)->error.sys_errno, ENOENT);
    world_close(&w);
}

static void test_never_ready(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    world_open_sealed(&w);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    world_advance(&w, 29999);
    world_assert_state(&w, SESSION_CREATING);
    world_advance(&w, 1);
    world_assert_state(&w, SESSION_FAILED);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT); /* still that */
    assert_string_equal(strbuf_str(&w.states), "failed ");                /* and told once */
    world_close(&w);
}

static void test_death_between(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_kernel_dies(&w, 0, SIGSEGV);
    world_assert_state(&w, SESSION_FAILED);
    assert_string_equal(strbuf_str(&w.states), "ready failed ");
    assert_non_null(strstr(session_info(w.session)->error.msg, "signal 11"));
    assert_int_equal(w.ended_count, 0);
    world_close(&w);
}

struct death_case {
    const char *name;
    int exit_code, signal;
    struct spawn_stats stats;
    enum reason_kind kind;
};

static const struct death_case death_cases[] = {
    {"a kernel that exits", 3, 0, {0}, REASON_RUNNER_DIED},
    {"a kernel that exits well", 0, 0, {0}, REASON_RUNNER_DIED},
    {"a kernel that crashes", 0, SIGSEGV, {0}, REASON_RUNNER_DIED},
    {"a kernel that was too large", 0, SIGKILL, {.oom_kills = 1}, REASON_OOM},
    {"a kernel that met its process limit", 1, 0, {.pids_refused = 7}, REASON_PIDS},
    {"a kernel that filled the disk",
     1,
     0,
     {.disk_used_bytes = WORLD_MEMORY_BYTES / 2, .inodes_free = 9},
     REASON_DISK},
};

static void test_death_during(void **state)
{
    const struct death_case *row = *state;
    struct world w;
    struct error err;
    world_open(&w);
    world_execute(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    assert_int_equal(write(w.cell[1], "last words", 10), 10);
    close(take_fd(&w.channel));
    world_settle(&w);
    world_expect_init(&w, GUEST_KILL, 0); /* whatever it left */
    world_init_says(&w, GUEST_EXITED, 0, row->exit_code, row->signal);
    assert_int_equal(w.ended_count, 0); /* first the counters */
    world_reply(&w, SPAWN_STATS, row->stats);
    world_assert_state(&w, SESSION_FAILED);
    world_last_ended(&w, 2);
    assert_int_equal(w.ended[0].kind, row->kind);
    assert_string_equal(w.ended[0].out, "last words");
    assert_int_equal(w.ended[1].state, EXECUTION_CANCELLED); /* the one that waited */
    world_close(&w);
}

/* Why it failed is told anew each time, nothing of the time before. */
static void test_death_after_another(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    world_open_sealed(&w);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    assert_int_equal(write(w.streams[2], "no module named x\n", 18), 18);
    world_kernel_dies(&w, 3, 0);
    assert_string_equal(session_info(w.session)->error.hint, "no module named x\n");
    world_reset(&w);
    world_expect_start(&w);
    world_become_ready(&w);
    world_execute(&w);
    world_kernel_dies(&w, 0, SIGSEGV);
    world_assert_state(&w, SESSION_FAILED);
    const struct session_info *info = session_info(w.session);
    assert_non_null(strstr(info->error.msg, "SIGSEGV"));
    assert_int_equal(info->error.code, ERROR_UNAVAILABLE);
    assert_string_equal(info->error.hint, "");
    world_close(&w);
}

/* Init's news may be quicker than the end of the channel. */
static void test_exit_before_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    world_init_says(&w, GUEST_EXITED, 0, 7, 0);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_non_null(strstr(world_last_ended(&w, 1)->message, "status 7"));
    close(take_fd(&w.channel));
    world_settle(&w);
    world_assert_state(&w, SESSION_FAILED);
    world_last_ended(&w, 1);
    world_close(&w);
}

/* It closes its channel and lives on: killed, and not waited for without end. */
static void test_closed_and_alive(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    close(take_fd(&w.channel));
    world_settle(&w);
    world_expect_init(&w, GUEST_KILL, 0);
    world_advance(&w, 500);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(world_last_ended(&w, 1)->kind, REASON_RUNNER_DIED);
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* The counters of a sandbox that went as a whole come with the spawner's news. */
static void test_init_dies(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    close(take_fd(&w.init));
    world_settle(&w);
    assert_int_equal(w.ended_count, 0);
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.oom_kills = 1, .is_over = 1});
    assert_int_equal(world_last_ended(&w, 1)->kind, REASON_OOM);
    world_assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_init_dies_silently(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    close(take_fd(&w.init));
    world_settle(&w);
    world_advance(&w, 500); /* no news */
    if (world_is_asked(&w, SPAWN_STATS))
        world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(world_last_ended(&w, 1)->kind, REASON_RUNNER_DIED);
    world_close(&w);
}

/* After its DONE the code is over; how its kernel fares later is another matter. */
static void test_death_after_done(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_artifacts = true;
    world_say_done(&w, generation, 0);
    world_expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
    assert_int_equal(w.ended_count, 0);
    world_init_says(&w, GUEST_EXITED, 0, 9, 0);
    world_expect_silence(&w); /* a kill would hit the one that looks for files */
    world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    const struct world_ended *e = world_last_ended(&w, 1);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_int_equal(e->exit_code, 0);
    assert_false(e->artifacts_cut);
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_old_frames(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t first = world_execute(&w);
    world_say_done(&w, first, 0);
    world_say_done(&w, first, 5); /* twice */
    world_last_ended(&w, 1);
    uint32_t second = world_execute(&w);
    assert_true(second > first);
    world_say(&w, KERNEL_DATA, KERNEL_FIRST, first, "text/plain\0x", 12);
    world_say(&w, KERNEL_ERROR, 0, first, "{}", 2);
    world_say_done(&w, first, 0);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2);
    assert_int_equal(w.ended_count, 1);
    world_assert_state(&w, SESSION_BUSY);
    world_say_done(&w, second, 0);
    const struct world_ended *e = world_last_ended(&w, 2);
    assert_int_equal(e->state, EXECUTION_COMPLETED);
    assert_false(e->has_results);
    world_close(&w);
}

static void test_future_frames(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    world_say_done(&w, generation + 1, 0); /* of a request that was never made */
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    const struct world_ended *e = world_last_ended(&w, 1);
    assert_int_equal(e->kind, REASON_RUNNER_DIED);
    assert_non_null(strstr(e->message, "nonsense"));
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_poison_between(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(send(w.channel, "x", 1, MSG_NOSIGNAL), 1);
    world_settle(&w);
    world_assert_state(&w, SESSION_FAILED);
    assert_non_null(strstr(session_info(w.session)->error.msg, "nonsense"));
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_non_null(strstr(session_info(w.session)->error.msg, "nonsense")); /* still that */
    assert_string_equal(strbuf_str(&w.states), "ready failed ");
    world_close(&w);
}

static void test_reset(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t old = world_execute(&w);
    world_say_done(&w, old, 0);
    world_reset(&w);
    world_assert_state(&w, SESSION_CREATING);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2); /* the old one has nothing more to say */
    world_assert_state(&w, SESSION_CREATING);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_expect_start(&w);
    world_become_ready(&w);
    uint32_t generation = world_execute(&w);
    assert_true(generation > old);
    world_say_done(&w, generation, 0);
    world_last_ended(&w, 2);
    world_close(&w);
}

static void test_reset_while_busy(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    world_execute(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    world_reset(&w);
    world_expect_init(&w, GUEST_KILL, 0);
    world_kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(world_last_ended(&w, 1)->state,
                     EXECUTION_CANCELLED); /* the caller wanted it so */
    world_assert_state(&w, SESSION_CREATING);
    world_expect_start(&w);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2);
    world_say_done(&w, world_hear(&w, KERNEL_EXECUTE), 0); /* what waited goes on in the new one */
    assert_int_equal(world_last_ended(&w, 2)->state, EXECUTION_COMPLETED);
    world_close(&w);
}

/* The code is over and its files are looked for: the reset comes after that. */
static void test_reset_while_collecting(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_artifacts = true;
    world_say_done(&w, generation, 0);
    world_expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
    world_reset(&w);
    world_expect_silence(&w);
    world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
    world_last_ended(&w, 1);
    world_assert_state(&w, SESSION_CREATING);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_expect_start(&w);
    world_become_ready(&w);
    world_close(&w);
}

/* Between the order to start and the news that it did, a second order would be refused. */
static void test_reset_while_starting(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    world_open_sealed(&w);
    world_reset(&w);
    world_expect_init(&w, GUEST_KILL, 0);
    world_expect_silence(&w);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_expect_start(&w);
    world_become_ready(&w);
    world_close(&w);
}

static void test_reset_refused(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    session_close(w.session);
    assert_int_equal(session_reset(w.session, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a kernel that dies before it is ready says why", test_death_before_ready);
    check_one(&check, "a kernel that cannot be started", test_not_started);
    check_one(&check, "a kernel that is never ready", test_never_ready);
    check_one(&check, "a kernel that dies between executions", test_death_between);
    check_rows(&check, death_cases, test_death_during);
    check_one(&check, "a second death is told with its own words", test_death_after_another);
    check_one(&check, "init's news may come before the channel's end", test_exit_before_end);
    check_one(&check, "a closed channel ends a kernel that lives", test_closed_and_alive);
    check_one(&check, "a sandbox that went is judged by its counters", test_init_dies);
    check_one(&check, "a sandbox that went without a word", test_init_dies_silently);
    check_one(&check, "a death after DONE changes no verdict", test_death_after_done);
    check_one(&check, "frames of an older request are dropped", test_old_frames);
    check_one(&check, "frames of a request to come end it", test_future_frames);
    check_one(&check, "nonsense between executions fails the session", test_poison_between);
    check_one(&check, "a reset starts another kernel", test_reset);
    check_one(&check, "a reset cancels what runs", test_reset_while_busy);
    check_one(&check, "a reset waits for the files", test_reset_while_collecting);
    check_one(&check, "a reset of one that starts", test_reset_while_starting);
    check_one(&check, "a reset of one that ends is refused", test_reset_refused);
    return check_run(&check, "session_kernel");
}
