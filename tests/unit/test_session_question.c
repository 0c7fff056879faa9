/* test_session_question.c - what is asked about a namespace */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static uint32_t ask(struct world *w)
{
    struct error err;
    assert_int_equal(session_ask(w->session, KERNEL_VARIABLES, NULL, 0, world_on_answer, w, &err),
                     0);
    world_assert_state(w, SESSION_BUSY);
    return world_hear(w, KERNEL_VARIABLES);
}

static void test_question(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = ask(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0); /* waits */
    world_say(&w, KERNEL_REPLY, 0, generation, "first", 5);
    world_say(&w, KERNEL_REPLY, 0, generation, "second", 6);
    assert_int_equal(w.answers, 0);
    world_say_done(&w, generation, 0);
    assert_int_equal(w.answers, 1);
    assert_string_equal(strbuf_str(&w.answer), "first");
    world_assert_state(&w, SESSION_BUSY); /* with the one that waited */
    world_say_done(&w, world_hear(&w, KERNEL_EXECUTE), 0);
    generation = ask(&w);
    world_say(&w, KERNEL_ERROR, 0, generation, "{\"name\": \"NameError\", \"value\": \"x\"}", 35);
    world_say_done(&w, generation, 0);
    assert_int_equal(w.answer_error.code, ERROR_NOT_FOUND);
    generation = ask(&w);
    world_say(&w, KERNEL_ERROR, 0, generation, "{\"name\": \"ReferenceError\"}", 26); /* Node's */
    world_say_done(&w, generation, 0);
    assert_int_equal(w.answer_error.code, ERROR_NOT_FOUND);
    generation = ask(&w);
    world_say_done(&w, generation, 0); /* without an answer */
    assert_int_equal(w.answer_error.code, ERROR_UNAVAILABLE);
    assert_int_equal(w.answers, 4);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_question_late(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = ask(&w);
    world_advance(&w, 5000);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    assert_int_equal(w.answers, 0);
    world_say_done(&w, generation, 0); /* in time not to be killed */
    assert_int_equal(w.answer_error.code, ERROR_TIMEOUT);
    world_assert_state(&w, SESSION_READY);
    world_advance(&w, 2000);
    world_expect_silence(&w);
    ask(&w);
    world_advance(&w, 6000);
    world_expect_init(&w, GUEST_SIGNAL, SIGINT);
    world_expect_init(&w, GUEST_KILL, 0);
    world_kernel_dies(&w, 0, SIGKILL);
    assert_int_equal(w.answers, 2);
    assert_int_equal(w.answer_error.code, ERROR_TIMEOUT); /* not how it was ended */
    world_assert_state(&w, SESSION_FAILED);
    world_close(&w);
}

static void test_question_ends(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        struct world w;
        world_open(&w);
        ask(&w);
        if (way == 0)
            world_kernel_dies(&w, 1, 0);
        else if (way == 1)
            world_say(&w, 99, 0, 0, "", 0);
        else if (way == 2)
            world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
        else if (way == 3)
            session_on_event(w.session, NULL);
        else
            world_reset(&w);
        assert_int_equal(w.answers, 1);
        assert_true(w.answer_error.msg[0] != '\0');
        world_close(&w);
        assert_int_equal(w.answers, 1);
    }
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "a question has one answer", test_question);
    check_one(&check, "a question has its time", test_question_late);
    check_one(&check, "a question is answered whatever ends it", test_question_ends);
    return check_run(&check, "session_question");
}
