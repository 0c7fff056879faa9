/* test_session_cells.c - executions that wait, are cut short, or leave something behind */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/session_inside.h"

static void test_queue(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    world_open_sealed(&w);
    for (int i = 0; i < SESSION_QUEUE_MAX; i++) /* before it is ready */
        assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    assert_int_equal(world_try_execute(&w, true, -1, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2);
    for (int i = 0; i < SESSION_QUEUE_MAX; i++) {
        world_assert_state(&w, SESSION_BUSY);
        world_say_done(&w, world_hear(&w, KERNEL_EXECUTE), 0);
        assert_int_equal(world_last_ended(&w, (size_t)i + 1)->who, i); /* in their order */
    }
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_queue_at_close(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    world_execute(&w);
    for (int i = 0; i < 3; i++) /* with an input each, which must not be left open */
        assert_int_equal(world_try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), 0);
    session_close(w.session);
    world_assert_state(&w, SESSION_TERMINATING);
    assert_int_equal(world_try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), -1);
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    world_last_ended(&w, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(w.ended[i].who, i);
        assert_int_equal(w.ended[i].state, EXECUTION_CANCELLED);
    }
    world_close(&w);
}

/* An input that is never read is not left open, whoever refuses it. */
static void test_refused_input(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    unsigned before = check_count_fds();
    assert_int_equal(world_try_execute(&w, false, memfd_create("in", MFD_CLOEXEC), &err), -1);
    check_fds(before);
    world_say_done(&w, generation, 0);
    world_kernel_dies(&w, 1, 0);
    world_assert_state(&w, SESSION_FAILED);
    before = check_count_fds();
    assert_int_equal(world_try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), -1);
    check_fds(before);
    world_close(&w);
}

static void test_timeout(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    world_advance(&w, 999);
    world_expect_silence(&w);
    world_advance(&w, 1);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_say(&w, KERNEL_ERROR, 0, generation, "{\"name\": \"KeyboardInterrupt\"}", 29);
    world_say_done(&w, generation, 130);
    world_init_lists(&w); /* behind the interrupt, which then has gone out */
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    world_assert_state(&w, SESSION_READY); /* its state lives on */
    world_advance(&w, 1000);
    world_expect_silence(&w);
    world_close(&w);
}

static void test_timeout_kill(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    world_advance(&w, 1000);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_advance(&w, 119);
    world_expect_silence(&w);
    world_advance(&w, 1);
    world_expect_init(&w, GUEST_KILL, 0);
    world_advance(&w, 24);
    assert_false(world_is_asked(&w, SPAWN_CULL));
    world_advance(&w, 1);
    assert_true(world_is_asked(&w, SPAWN_CULL)); /* a spawner that does not answer */
    world_advance(&w, 999);
    assert_false(world_is_asked(&w, SPAWN_KILL)); /* which would take the files along */
    world_advance(&w, 1);
    assert_true(world_is_asked(&w, SPAWN_KILL));
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* A bomb leaves init no turn: the spawner's word is enough. */
static void test_timeout_cull(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    world_advance(&w, 1145);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_reply(&w, SPAWN_CULL, (struct spawn_stats){0});
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    world_assert_state(&w, SESSION_FAILED);
    world_advance(&w, 2000);
    assert_false(world_is_asked(&w, SPAWN_KILL));
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    assert_int_equal(w.ended_count, 1);
    world_close(&w);
}

/* The answer may come when nobody waits for it. */
static void test_cull_after_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    world_advance(&w, 1145);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    world_reply(&w, SPAWN_CULL, (struct spawn_stats){0});
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

/* It answers when the kill is on its way: the interpreter dies all the same. */
static void test_done_after_kill(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    world_advance(&w, 1120);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_say_done(&w, generation, 0);
    if (world_is_asked(&w, SPAWN_STATS))
        world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
    world_last_ended(&w, 2);
    assert_int_equal(w.ended[0].state, EXECUTION_TIMEOUT);
    assert_int_equal(w.ended[1].state, EXECUTION_CANCELLED); /* and not runner_died */
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_interrupt(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    session_interrupt(w.session); /* nothing runs */
    session_cancel(w.session);
    world_expect_silence(&w);
    uint32_t generation = world_execute(&w);
    session_interrupt(w.session);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_say_done(&w, generation, 130);
    world_init_lists(&w); /* behind the interrupt, which then has gone out */
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    world_assert_state(&w, SESSION_READY);
    world_execute(&w);
    session_interrupt(w.session);
    session_interrupt(w.session); /* the second one kills */
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(world_last_ended(&w, 2)->state, EXECUTION_CANCELLED);
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_cancel(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    session_cancel(w.session);
    session_cancel(w.session);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_silence(&w);
    world_advance(&w, 40); /* the code had perhaps not begun */
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_advance(&w, 40);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_advance(&w, 919);
    world_expect_silence(&w);
    world_advance(&w, 1);
    world_expect_init(&w, GUEST_KILL, 0);
    world_kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    world_close(&w);
}

/* While its artifacts are read it is over already, and told as what it was. */
static void test_cancel_after_end(void **state)
{
    (void)state;
    static void (*const ways[])(struct session *) = {session_cancel, session_interrupt};
    struct world w;
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        uint32_t generation = world_execute(&w);
        w.requests[i].cell.wants_artifacts = true;
        world_say_done(&w, generation, 0);
        ways[i](w.session);
        ways[i](w.session);
        world_init_lists(&w);
        assert_int_equal(world_last_ended(&w, i + 1)->state, EXECUTION_COMPLETED);
        world_expect_silence(&w);
        world_assert_state(&w, SESSION_READY);
    }
    world_close(&w);
}

static bool has_heard(const struct world *w)
{
    char first;
    return recv(w->channel, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* One with a file, which init is asked to put. */
static void execute_with_file(struct world *w, struct execution_input *input)
{
    struct error err;
    struct world_request *r = &w->requests[w->request_count++];
    *r = (struct world_request){.w = w};
    r->cell = (struct cell_request){.code = "1",
                                    .code_len = 1,
                                    .inputs = input,
                                    .input_count = 1,
                                    .stdin_fd = -1,
                                    .timeout_ms = 1000,
                                    .output_bytes = 1000};
    assert_int_equal(session_execute(w->session, &r->cell, false, w->events, r, &err), 0);
    world_expect_init(w, GUEST_FILES, GUEST_FILES_PUT);
}

static void init_has_put(struct world *w, uint32_t epoch, int error)
{
    const struct guest_message m = {.verb = GUEST_FILES_DONE, .flags = epoch, .value = error};
    assert_int_equal(send(w->init, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
    world_settle(w);
}

/* While files are put there is nothing to interrupt, and no reason to lose the variables. */
static void test_cancel_put(void **state)
{
    (void)state;
    static void (*const ways[])(struct session *) = {session_cancel, session_interrupt};
    struct execution_input input = {.path = (char[]){"in"}, .fd = memfd_create("in", MFD_CLOEXEC)};
    struct world w;
    size_t count = 0;
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        execute_with_file(&w, &input); /* a worker that says what it missed */
        ways[i](w.session);
        ways[i](w.session);
        world_expect_silence(&w);
        assert_int_equal(w.ended_count, count); /* not inside the call */
        init_has_put(&w, w.files_epoch, EPROTO);
        assert_int_equal(world_last_ended(&w, ++count)->state, EXECUTION_CANCELLED);
        execute_with_file(&w, &input); /* one that does not end */
        uint32_t stale = w.files_epoch;
        ways[i](w.session);
        world_advance(&w, 999);
        ways[i](w.session); /* which is no reason to wait longer */
        world_advance(&w, 2);
        world_expect_silence(&w);
        assert_int_equal(world_last_ended(&w, ++count)->state, EXECUTION_CANCELLED);
        world_assert_state(&w, SESSION_READY);
        execute_with_file(&w, &input);
        init_has_put(&w, stale, 0); /* is not the end of the next one's */
        assert_false(has_heard(&w));
        init_has_put(&w, w.files_epoch, 0);
        world_say_done(&w, world_hear(&w, KERNEL_EXECUTE), 0);
        assert_int_equal(world_last_ended(&w, ++count)->state, EXECUTION_COMPLETED);
        world_expect_silence(&w);
    }
    world_close(&w);
    close(input.fd);
}

/* A worker that was stopped by what an earlier execution left does not hold it for ever, nor does
 * what it says after that change anything. */
static void test_timeout_put(void **state)
{
    (void)state;
    struct execution_input input = {.path = (char[]){"in"}, .fd = memfd_create("in", MFD_CLOEXEC)};
    struct world w;
    world_open(&w);
    uint32_t stale = w.files_epoch;
    for (size_t i = 0; i < 3; i++) {
        execute_with_file(&w, &input);
        world_advance(&w, 999);
        assert_int_equal(w.ended_count, i);
        world_advance(&w, 1);
        if (i == 0)
            world_advance(&w, 120);
        else /* it ends when no more comes, or its end was on its way already */
            init_has_put(&w, w.files_epoch, i == 1 ? EPROTO : 0);
        assert_int_equal(world_last_ended(&w, i + 1)->state, EXECUTION_TIMEOUT);
        world_expect_silence(&w);
        world_assert_state(&w, SESSION_READY); /* nothing ran, and nothing is lost */
        assert_false(has_heard(&w));
    }
    execute_with_file(&w, &input);
    world_advance(&w, 900);
    init_has_put(&w, stale, 0);
    assert_false(has_heard(&w));
    init_has_put(&w, w.files_epoch, 0);
    uint32_t generation = world_hear(&w, KERNEL_EXECUTE);
    world_advance(&w, 900); /* the code has a time of its own */
    world_say_done(&w, generation, 0);
    assert_int_equal(world_last_ended(&w, 4)->state, EXECUTION_COMPLETED);
    world_close(&w);
    close(input.fd);
}

/* Whatever ends it after that, it was cancelled. */
static void test_cancel_put_dies(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct execution_input input = {.path = (char[]){"in"},
                                        .fd = memfd_create("in", MFD_CLOEXEC)};
        struct world w;
        world_open(&w);
        execute_with_file(&w, &input);
        if (way == 0) {
            session_cancel(w.session);
            world_kernel_dies(&w, 0, SIGKILL);
            world_assert_state(&w, SESSION_FAILED);
        } else if (way == 1) {
            world_reset(&w);
            world_expect_init(&w, GUEST_KILL, 0);
            world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
            world_expect_start(&w);
        } else {
            session_close(w.session);
            world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
        }
        assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
        world_close(&w);
        close(input.fd);
    }
}

/* Children of earlier executions hold their pipes: all but the last few lose them. */
static void test_late_pipes(void **state)
{
    (void)state;
    struct world w;
    int held[8];
    world_open(&w);
    for (int i = 0; i < 8; i++) {
        uint32_t generation = world_execute(&w);
        held[i] = take_fd(&w.cell[1]);
        world_close_cell(&w);
        world_say_done(&w, generation, 0);
        assert_int_equal(write(held[i], "late", 4), 4);
        world_settle(&w);
    }
    for (int i = 0; i < 8; i++) {
        bool is_lost = write(held[i], "later", 5) < 0;
        assert_int_equal(is_lost, i < 4);
        close(held[i]);
    }
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(w.ended[i].out, "");
    world_settle(&w);
    world_close(&w);
}

/* Files that an earlier execution changed within this tick of the clock are not this one's: it
 * waits, with files to put or without. */
static void test_tick(void **state)
{
    (void)state;
    for (size_t inputs = 0; inputs < 2; inputs++) {
        struct world w;
        struct error err;
        struct execution_input input = {.path = (char[]){"in"},
                                        .fd = memfd_create("in", MFD_CLOEXEC)};
        world_open(&w);
        w.listed_ns = clock_file_ns() + 3600000000000;
        uint32_t generation = world_execute(&w);
        w.requests[0].cell.wants_artifacts = true;
        world_say_done(&w, generation, 0);
        world_expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
        world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        world_last_ended(&w, 1);
        struct world_request *r = &w.requests[w.request_count++];
        *r = (struct world_request){.w = &w, .cell = w.requests[0].cell};
        r->cell.inputs = &input;
        r->cell.input_count = inputs;
        assert_int_equal(
            session_execute(w.session, &r->cell, false, &world_execution_events, r, &err), 0);
        if (inputs > 0) {
            world_expect_init(&w, GUEST_FILES, GUEST_FILES_PUT);
            world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        }
        assert_false(has_heard(&w));
        world_advance(&w, 50); /* but not for ever: the clock may have been set back */
        world_say_done(&w, world_hear(&w, KERNEL_EXECUTE), 0);
        world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        world_last_ended(&w, 2);
        world_close(&w);
        close(input.fd);
    }
}

static void test_results_are_told(void **state)
{
    (void)state;
    struct world w;
    const unsigned whole = KERNEL_FIRST | KERNEL_LAST;
    world_open(&w);
    w.events = &world_streamed_events;
    uint32_t generation = world_execute(&w);
    assert_int_equal(write(w.cell[1], "a", 1), 1);
    world_show(&w, KERNEL_FIRST, generation, "b");
    assert_string_equal(w.told, ""); /* it may have another form */
    world_show(&w, KERNEL_LAST, generation, "c");
    assert_string_equal(w.told, ">a =b |c ");
    world_show(&w, KERNEL_FIRST, generation, "d");
    assert_string_equal(w.told, ">a =b |c ");
    world_show(&w, whole, generation, "e");
    assert_string_equal(w.told, ">a =b |c =d =e ");
    world_show(&w, 0, generation, "late"); /* and never told twice */
    world_show(&w, whole | KERNEL_MAIN, generation, "f");
    world_show(&w, KERNEL_FIRST, generation, "g");
    assert_string_equal(w.told, ">a =b |c =d =e =f ");
    assert_int_equal(write(w.cell[1], "h", 1), 1);
    world_close_cell(&w);
    world_say_done(&w, generation, 0);
    assert_string_equal(w.told, ">a =b |c =d =e =f >h =g ");
    world_last_ended(&w, 1);
    world_close(&w);
}

/* Nor is there anything to interrupt while it waits for the clock. */
static void test_cancel_tick(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    w.listed_ns = clock_file_ns() + 3600000000000;
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_artifacts = true;
    world_say_done(&w, generation, 0);
    world_init_lists(&w);
    struct world_request *r = &w.requests[w.request_count++];
    *r = (struct world_request){.w = &w, .cell = w.requests[0].cell};
    assert_int_equal(session_execute(w.session, &r->cell, false, &world_execution_events, r, &err),
                     0);
    session_cancel(w.session);
    world_advance(&w, 1);
    world_expect_silence(&w);
    assert_false(has_heard(&w));
    assert_int_equal(world_last_ended(&w, 2)->state, EXECUTION_CANCELLED);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

/* A kernel that says that it left the files alone saves init a look at them. */
static void test_untouched(void **state)
{
    (void)state;
    struct world w;
    const int32_t code = 0;
    world_open(&w);
    for (size_t i = 0; i < 2; i++) {
        uint32_t generation = world_execute(&w);
        w.requests[i].cell.wants_artifacts = true;
        world_say(&w, KERNEL_DONE, i ? KERNEL_UNTOUCHED : 0, generation, &code, sizeof(code));
        if (i == 0) {
            world_expect_init(&w, GUEST_FILES, GUEST_FILES_LIST_NOW);
            world_init_says(&w, GUEST_FILES_DONE, 0, 0, 0);
        }
        world_expect_silence(&w);
        assert_false(world_last_ended(&w, i + 1)->artifacts_cut && i);
    }
    world_close(&w);
}

/* What went well needs no answer of the spawner's; anything else, or what nobody can read, does. */
static void test_counters(void **state)
{
    (void)state;
    static const struct spawn_stats counters = {.cpu_us = 7};
    static const struct {
        uint32_t layers; /* that the sandbox is told to be sealed by */
        const struct spawn_stats *counters;
        int32_t code;
        bool is_asked;
    } rows[] = {
        {1, &counters, 0, false},
        {1, &counters, 3, true}, /* it may have met a limit */
        {1, NULL, 0, true},      /* they cannot be read here */
        {0, &counters, 0, true}, /* nobody has said where they are */
    };
    struct world w;
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct spawn_message sealed = {
            .verb = SPAWN_SEALED, .sandbox = WORLD_SANDBOX, .sealed.layers = rows[i].layers};
        session_on_event(w.session, &sealed);
        w.spawner.counters = rows[i].counters;
        uint32_t generation = world_execute(&w);
        w.requests[i].cell.wants_usage = true;
        world_say_done(&w, generation, rows[i].code);
        assert_int_equal(world_is_asked(&w, SPAWN_STATS), rows[i].is_asked);
        if (rows[i].is_asked)
            world_reply(&w, SPAWN_STATS, counters);
        world_last_ended(&w, i + 1);
    }
    world_close(&w);
}

/* The interpreter can be heard of before the spawner has said that its sandbox is sealed. */
static void open_unsealed(struct world *w)
{
    world_open(w);
    w->session->is_sealed = false;
    w->session->sealed.layers = 0;
}

static void test_counters_before_the_seal(void **state)
{
    (void)state;
    static const struct spawn_stats counters = {.cpu_us = 7};
    static const struct {
        const struct spawn_stats *counters;
        int32_t code;
        bool is_asked, is_asked_then;
    } rows[] = {
        {&counters, 0, false, false},
        {NULL, 0, false, true},
        {&counters, 3, true, false}, /* the spawner has to be asked in any case */
    };
    const struct spawn_message sealed = {
        .verb = SPAWN_SEALED, .sandbox = WORLD_SANDBOX, .sealed.layers = 1};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        open_unsealed(&w);
        w.spawner.counters = rows[i].counters;
        uint32_t generation = world_execute(&w);
        w.requests[0].cell.wants_usage = true;
        world_say_done(&w, generation, rows[i].code);
        assert_int_equal(world_is_asked(&w, SPAWN_STATS), rows[i].is_asked);
        assert_int_equal(w.ended_count, 0);
        session_on_event(w.session, &sealed);
        if (rows[i].is_asked_then)
            assert_true(world_is_asked(&w, SPAWN_STATS));
        if (rows[i].is_asked || rows[i].is_asked_then)
            world_reply(&w, SPAWN_STATS, counters);
        world_last_ended(&w, 1);
        world_close(&w);
    }
}

/* Nobody will say that it is sealed any more. */
static void test_close_before_the_seal(void **state)
{
    (void)state;
    struct world w;
    open_unsealed(&w);
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_usage = true;
    world_say_done(&w, generation, 0);
    assert_int_equal(w.ended_count, 0);
    session_close(w.session);
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    world_last_ended(&w, 1);
    world_close(&w);
}

/* Its group may be another's by then, and the counters with it. */
static void test_counters_after_close(void **state)
{
    (void)state;
    static const struct spawn_stats anothers = {.cpu_us = 7};
    const struct spawn_message sealed = {
        .verb = SPAWN_SEALED, .sandbox = WORLD_SANDBOX, .sealed.layers = 1};
    struct world w;
    world_open(&w);
    session_on_event(w.session, &sealed);
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_usage = true;
    session_close(w.session);
    assert_true(world_is_asked(&w, SPAWN_DESTROY));
    w.spawner.counters = &anothers;
    world_say_done(&w, generation, 0);
    assert_true(world_is_asked(&w, SPAWN_STATS));
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    world_last_ended(&w, 1);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "results are told as they come, each once", test_results_are_told);
    check_one(&check, "a workspace that was left alone is not looked at", test_untouched);
    check_one(&check, "counters are read, or asked for", test_counters);
    check_one(&check, "who is over before its seal is told waits for that, and asks nobody",
              test_counters_before_the_seal);
    check_one(&check, "and ends all the same when it is closed then", test_close_before_the_seal);
    check_one(&check, "counters of one that was closed are asked for", test_counters_after_close);
    check_one(&check, "what waits has its turn in order, up to a limit", test_queue);
    check_one(&check, "a close refuses what waits", test_queue_at_close);
    check_one(&check, "an input that was refused is closed", test_refused_input);
    check_one(&check, "a timeout interrupts, and the state lives on", test_timeout);
    check_one(&check, "a timeout kills what does not listen", test_timeout_kill);
    check_one(&check, "a timeout needs no turn of init's", test_timeout_cull);
    check_one(&check, "a kill by the spawner may come too late", test_cull_after_end);
    check_one(&check, "a DONE after the kill saves nothing", test_done_after_kill);
    check_one(&check, "an interrupt, and a second one", test_interrupt);
    check_one(&check, "a cancel kills after a while", test_cancel);
    check_one(&check, "a cancel of what has ended changes nothing", test_cancel_after_end);
    check_one(&check, "a cancel before the code begins interrupts nothing", test_cancel_put);
    check_one(&check, "and is one, whatever dies then", test_cancel_put_dies);
    check_one(&check, "so is one in the wait for the clock", test_cancel_tick);
    check_one(&check, "files have a time limit, too", test_timeout_put);
    check_one(&check, "pipes of earlier executions are few", test_late_pipes);
    check_one(&check, "a file of an earlier execution is not this one's", test_tick);
    return check_run(&check, "session_cells");
}
