/* test_session_preload.c - a session is ready when it has imported what its template says */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <string.h>

static const char *const modules[] = {"humanize", "a.b", NULL};

/* Until its kernel has been asked for them; answers with which generation. */
static uint32_t open_asked(struct world *w)
{
    world_init(w);
    w->template.preload = modules;
    world_open_sealed(w);
    world_init_says(w, GUEST_STARTED, 0, 0, 0);
    world_say(w, KERNEL_READY, 0, 0, "{}", 2);
    world_assert_state(w, SESSION_CREATING);
    return world_hear(w, KERNEL_IMPORT);
}

static void say_refusal(struct world *w, uint32_t generation)
{
    static const char refusal[] = "{\"name\": \"ModuleNotFoundError\", \"value\": \"No module "
                                  "named 'humanize'\", \"traceback\": \"\"}";
    world_say(w, KERNEL_ERROR, 0, generation, refusal, strlen(refusal));
}

static void assert_refused(struct world *w)
{
    world_assert_state(w, SESSION_FAILED);
    const struct error *err = &session_info(w->session)->error;
    assert_string_equal(err->msg, "preload: ModuleNotFoundError: No module named 'humanize'");
    assert_string_equal(err->word, "preload_failed");
    assert_int_equal(err->code, ERROR_INVALID);
}

static void test_ready(void **state)
{
    (void)state;
    struct world w;
    uint32_t generation = open_asked(&w);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2); /* a module may say anything */
    world_assert_state(&w, SESSION_CREATING);
    world_say(&w, KERNEL_REPLY, 0, generation, "{}", 2);
    world_assert_state(&w, SESSION_CREATING);
    world_say_done(&w, generation, 0);
    world_assert_state(&w, SESSION_READY);
    assert_string_equal(strbuf_str(&w.states), "ready ");
    uint32_t next = world_execute(&w);
    assert_int_equal(next, generation + 1);
    world_say_done(&w, next, 0);
    world_close_cell(&w);
    world_close(&w);
}

static void test_refusal(void **state)
{
    (void)state;
    struct world w;
    uint32_t generation = open_asked(&w);
    say_refusal(&w, generation);
    world_assert_state(&w, SESSION_CREATING);
    world_say_done(&w, generation, 1);
    assert_refused(&w);
    world_close(&w);
}

/* A new interpreter has to import them, too, and nothing is left of the last one's answer. */
static void test_reset(void **state)
{
    (void)state;
    struct world w;
    uint32_t generation = open_asked(&w);
    say_refusal(&w, generation);
    world_say_done(&w, generation, 1);
    assert_refused(&w);
    world_kernel_dies(&w, 0, 9);
    world_reset(&w);
    world_expect_start(&w);
    world_init_says(&w, GUEST_STARTED, 0, 0, 0);
    world_say(&w, KERNEL_READY, 0, 0, "{}", 2);
    generation = world_hear(&w, KERNEL_IMPORT);
    world_say_done(&w, generation, 0);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

static void test_death(void **state)
{
    (void)state;
    struct world w;
    (void)open_asked(&w);
    world_kernel_dies(&w, 3, 0);
    world_assert_state(&w, SESSION_FAILED);
    assert_string_equal(session_info(w.session)->error.msg, "the interpreter ended with status 3");
    world_close(&w);
}

static void test_late(void **state)
{
    (void)state;
    struct world w;
    (void)open_asked(&w);
    world_advance(&w, 30000);
    world_assert_state(&w, SESSION_FAILED);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT);
    world_close(&w);
}

static void test_close(void **state)
{
    (void)state;
    struct world w;
    (void)open_asked(&w);
    world_close(&w);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "it is ready when all are imported", test_ready);
    check_one(&check, "it fails in the interpreter's words", test_refusal);
    check_one(&check, "a reset imports them again", test_reset);
    check_one(&check, "the interpreter dies of it", test_death);
    check_one(&check, "it never ends", test_late);
    check_one(&check, "it is closed meanwhile", test_close);
    return check_run(&check, "session_preload");
}
