/* test_session_idle.c - what becomes of a session that nobody uses */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void test_idle(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.template.idle_ms = 500;
    world_open_sealed(&w);
    world_become_ready(&w);
    world_advance(&w, 499);
    uint32_t generation = world_execute(&w);
    world_advance(&w, 900); /* longer than it may be idle, but it is not */
    world_assert_state(&w, SESSION_BUSY);
    world_say_done(&w, generation, 0);
    world_advance(&w, 499);
    world_assert_state(&w, SESSION_READY);
    world_advance(&w, 1);
    world_assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_idle_failed(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.template.idle_ms = 500;
    world_open_sealed(&w);
    world_become_ready(&w);
    world_kernel_dies(&w, 1, 0);
    world_assert_state(&w, SESSION_FAILED);
    world_advance(&w, 499);
    world_assert_state(&w, SESSION_FAILED);
    world_advance(&w, 1);
    world_assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "an idle session is closed", test_idle);
    check_one(&check, "so is one that has failed", test_idle_failed);
    return check_run(&check, "session_idle");
}
