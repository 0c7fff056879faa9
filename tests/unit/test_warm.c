/* test_warm.c - a warm interpreter: when it is there, and that none is left behind */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/warm.h"

#include "check.h"
#include "stage.h"

#define ZYGOTE 9

struct world {
    struct loop *loop;
    struct spawner_client spawner;
    struct session_template template;
    struct warm *warm;
    unsigned changes;
};

static void on_changed(void *ctx)
{
    struct world *w = ctx;
    w->changes++;
}

static void open_world(struct world *w)
{
    struct error err;
    *w = (struct world){.template = {.kernel_fd = -1}};
    stage_begin();
    assert_int_equal(loop_open(&w->loop, &err), 0);
    const struct warm_order order = {
        .template = &w->template, .memory_bytes = 64 * MIB, .changed = on_changed, .ctx = w};
    assert_int_equal(warm_open(&w->warm, w->loop, &w->spawner, &order, &err), 0);
}

static void close_world(struct world *w)
{
    assert_false(stage_has_timers());
    assert_int_equal(w->spawner.count, 0);
    loop_free(w->loop);
}

static void reply_zygote(struct world *w)
{
    struct spawn_message m = {.verb = SPAWN_ZYGOTE, .sandbox = ZYGOTE};
    stage_reply(&w->spawner, SPAWN_ZYGOTE, &m, NULL, 0);
}

static void expect_destroyed(struct world *w)
{
    assert_int_equal(w->spawner.count, 1);
    assert_int_equal(w->spawner.asks[0].m.sandbox, ZYGOTE);
    stage_reply(&w->spawner, SPAWN_DESTROY, &(struct spawn_message){.verb = SPAWN_DESTROY}, NULL,
                0);
}

static void test_in_use(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    reply_zygote(&w);
    assert_int_equal(warm_zygote(w.warm), 0);
    warm_on_event(w.warm, &(struct spawn_message){.verb = SPAWN_SEALED, .sandbox = ZYGOTE});
    assert_int_equal(warm_zygote(w.warm), ZYGOTE);
    assert_int_equal(w.changes, 1);
    warm_stop(w.warm);
    warm_free(w.warm);
    expect_destroyed(&w);
    close_world(&w);
}

/* The template goes while its interpreter is asked for; the sanitizer sees who is told of it. */
static void test_freed_before_answer(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    warm_stop(w.warm);
    warm_free(w.warm);
    reply_zygote(&w);
    expect_destroyed(&w);
    close_world(&w);
}

static void test_freed_before_refusal(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    warm_stop(w.warm);
    warm_free(w.warm);
    stage_reply(&w.spawner, SPAWN_ZYGOTE, NULL, NULL, 0);
    assert_int_equal(w.changes, 0);
    close_world(&w);
}

/* At the end of the process nobody waits for answers. */
static void test_freed_with_spawner(void **state)
{
    (void)state;
    for (int is_stopped = 0; is_stopped < 2; is_stopped++) { /* its template has gone just before */
        struct world w;
        open_world(&w);
        if (is_stopped)
            warm_stop(w.warm);
        warm_free(w.warm);
        w.spawner.count = 0;
        close_world(&w);
    }
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "is there when it is sealed, until it is stopped", test_in_use);
    check_one(&check, "one that is not wanted any more is ended when it comes",
              test_freed_before_answer);
    check_one(&check, "one that is not wanted any more may fail", test_freed_before_refusal);
    check_one(&check, "needs no answer when the spawner goes, too", test_freed_with_spawner);
    return check_run(&check, "warm");
}
