/* test_session.c - a session from its first moment to its last trace, with its sandbox */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_life(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t generation = world_execute(&w);
        assert_int_equal(write(w.cell[1], "hello", 5), 5);
        world_say(&w, KERNEL_DATA, KERNEL_FIRST | KERNEL_MAIN, generation, "text/plain\0002", 12);
        world_close_cell(&w);
        world_say_done(&w, generation, (int32_t)i);
        const struct world_ended *e = world_last_ended(&w, i + 1);
        assert_int_equal(e->state, i == 0 ? EXECUTION_COMPLETED : EXECUTION_FAILED);
        assert_int_equal(e->exit_code, i);
        assert_string_equal(e->out, "hello");
        assert_true(e->has_results);
        world_assert_state(&w, SESSION_READY);
    }
    world_close(&w);
}

static void test_exception(void **state)
{
    (void)state;
    struct world w;
    static const char *const bodies[] = {"{\"name\": \"E\"}", "nonsense", "[]", "{\"name\": 5}"};
    world_open(&w);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        uint32_t generation = world_execute(&w);
        world_say(&w, KERNEL_ERROR, 0, generation, bodies[i], strlen(bodies[i]));
        world_say_done(&w, generation, 0);
        const struct world_ended *e = world_last_ended(&w, i + 1);
        assert_int_equal(e->kind, REASON_EXCEPTION);
        assert_int_equal(e->exit_code, 1);
    }
    world_close(&w);
}

static void test_busy(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    assert_int_equal(world_try_execute(&w, false, -1, &err), -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    assert_int_equal(session_ask(w.session, KERNEL_VARIABLES, NULL, 0, world_on_answer, &w, &err),
                     -1);
    assert_int_equal(err.code, ERROR_CONFLICT);
    world_say_done(&w, generation, 0);
    world_last_ended(&w, 1);
    world_close(&w);
}

static void test_close_at_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.is_closing_at_end = true;
    world_say_done(&w, world_execute(&w), 0); /* the caller closes it from inside `ended` */
    world_last_ended(&w, 1);
    world_assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_not_created(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_init(&w);
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &world_session_events, &w, &err),
        0);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    world_reply_with(&w, SPAWN_CREATE, NULL, -1);
    world_assert_state(&w, SESSION_FAILED);
    world_last_ended(&w, 1);
    assert_int_equal(session_reset(w.session, &err), -1); /* there is nothing to start it in */
    world_close(&w);
}

/* Created, and not sealed yet as far as anybody knows. */
static void open_unsealed(struct world *w)
{
    struct error err;
    struct spawn_message created = {
        .verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    int pair[2];
    world_init(w);
    assert_int_equal(session_open(&w->session, w->loop, &w->spawner, &w->template,
                                  &world_session_events, w, &err),
                     0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->init = pair[1];
    world_reply_with(w, SPAWN_CREATE, &created, pair[0]);
}

/* A zygote's child speaks to us while the spawner has yet to read that it was sealed. */
static void test_sealed_late(void **state)
{
    (void)state;
    struct world w;
    open_unsealed(&w);
    world_expect_init(&w, GUEST_START, 0);
    world_become_ready(&w);
    strbuf_clear(&w.states);
    assert_false(session_await_seal(w.session));
    world_tell(&w, SPAWN_SEALED, (struct spawn_stats){0});
    assert_string_equal(strbuf_str(&w.states), "ready "); /* once more */
    assert_true(session_await_seal(w.session));
    world_tell(&w, SPAWN_SEALED, (struct spawn_stats){0});
    assert_string_equal(strbuf_str(&w.states), "ready "); /* nobody waits any more */
    world_close(&w);
}

/* Whichever is quicker: our first word to init, or its death. */
static void check_not_sealed(bool is_dead)
{
    struct world w;
    struct error err;
    struct spawn_message m = {
        .verb = SPAWN_SEALED, .flags = SPAWN_FAILED, .sandbox = WORLD_SANDBOX};
    snprintf(m.failure.step, sizeof(m.failure.step), "mount /proc");
    world_init(&w);
    struct spawn_message created = {
        .verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    int pair[2];
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &world_session_events, &w, &err),
        0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.init = pair[1];
    if (is_dead)
        close(take_fd(&w.init));
    world_reply_with(&w, SPAWN_CREATE, &created, pair[0]);
    world_settle(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    session_on_event(w.session, &m);
    world_assert_state(&w, SESSION_FAILED);
    assert_string_equal(session_info(w.session)->error.msg, "mount /proc");
    world_last_ended(&w, 1);
    world_close(&w);
}

static void test_not_sealed(void **state)
{
    (void)state;
    check_not_sealed(false);
    check_not_sealed(true);
}

/* Sealed, and its pid 1 dies at once: whichever is heard first, who asked for it is answered. */
static void check_dead_at_once(bool is_heard_first)
{
    struct world w;
    struct error err;
    open_unsealed(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    close(take_fd(&w.init));
    if (is_heard_first)
        world_settle(&w);
    world_tell(&w, SPAWN_SEALED, (struct spawn_stats){0});
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    assert_string_equal(strbuf_str(&w.states), "failed ");
    assert_string_equal(session_info(w.session)->error.msg, "the sandbox is gone");
    world_assert_state(&w, SESSION_TERMINATING); /* there is nothing to reset it in */
    world_last_ended(&w, 1);
    world_close(&w);
}

static void test_dead_at_once(void **state)
{
    (void)state;
    check_dead_at_once(true);
    check_dead_at_once(false);
}

/* One that was ready before is over, and nothing else: its reset is not its creation. */
static void test_dead_at_reset(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_reset(&w);
    world_assert_state(&w, SESSION_CREATING);
    strbuf_clear(&w.states);
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    assert_string_equal(strbuf_str(&w.states), "");
    world_assert_state(&w, SESSION_TERMINATING);
    world_close(&w);
}

static void test_close_while_busy(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    session_close(w.session);
    session_close(w.session);
    assert_true(world_is_asked(&w, SPAWN_DESTROY));
    world_say_done(&w, generation, 0); /* it answers in the last moment */
    if (world_is_asked(&w, SPAWN_STATS))
        world_reply(&w, SPAWN_STATS, (struct spawn_stats){0});
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.is_over = 1});
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_CANCELLED);
    world_assert_state(&w, SESSION_TERMINATED);
    world_close(&w);
}

/* The counters that were asked for may come after the end, or never. */
static void test_close_while_counting(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    uint32_t generation = world_execute(&w);
    w.requests[0].cell.wants_usage = true;
    world_say_done(&w, generation, 0);
    assert_true(world_is_asked(&w, SPAWN_STATS));
    assert_int_equal(w.ended_count, 0);
    session_close(w.session);
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){.is_over = 1});
    world_last_ended(&w, 1);
    world_close(&w);
    assert_int_equal(w.ended_count, 1);
}

static void test_close_while_creating(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct spawn_message m = {.verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
    int pair[2];
    world_init(&w);
    assert_int_equal(
        session_open(&w.session, w.loop, &w.spawner, &w.template, &world_session_events, &w, &err),
        0);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    session_close(w.session);
    assert_false(world_is_asked(&w, SPAWN_DESTROY)); /* of what, nobody knows yet */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w.init = pair[1];
    world_reply_with(&w, SPAWN_CREATE, &m, pair[0]);
    assert_true(world_is_asked(&w, SPAWN_DESTROY));
    world_close(&w);
    world_last_ended(&w, 1);
}

static void test_spawner_gone(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    world_execute(&w);
    assert_int_equal(world_try_execute(&w, true, -1, &err), 0);
    session_on_event(w.session, NULL);
    world_last_ended(&w, 2);
    world_assert_state(&w, SESSION_TERMINATED);
    session_on_event(w.session, NULL);
    world_close(&w);
    assert_int_equal(w.ended_count, 2);
}

static void test_lifetime(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    world_execute(&w);
    world_tell(&w, SPAWN_EXITED, (struct spawn_stats){.lifetime_over = 1, .is_over = 1});
    assert_int_equal(world_last_ended(&w, 1)->state, EXECUTION_TIMEOUT);
    assert_int_equal(session_info(w.session)->error.code, ERROR_TIMEOUT);
    world_close(&w);
}

static void test_other_sandboxes(void **state)
{
    (void)state;
    struct world w;
    struct spawn_message m = {.verb = SPAWN_EXITED, .sandbox = WORLD_SANDBOX + 1};
    world_open(&w);
    session_on_event(w.session, &m);
    world_assert_state(&w, SESSION_READY);
    world_close(&w);
}

/* One seat: taken from the first moment to the last trace. */
static void test_seat(void **state)
{
    (void)state;
    struct world w;
    struct session *second;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 1};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    world_init(&w);
    w.template.capacity = capacity;
    world_open_sealed(&w);
    world_become_ready(&w);
    assert_int_equal(
        session_open(&second, w.loop, &w.spawner, &w.template, &world_session_events, &w, &err),
        -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_false(world_is_asked(&w, SPAWN_CREATE));
    session_close(w.session);
    assert_false(capacity_has_room(capacity, &w.template.limits)); /* it is not gone yet */
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){0});
    world_assert_state(&w, SESSION_TERMINATED);
    assert_true(capacity_has_room(capacity, &w.template.limits));
    world_close(&w);
    capacity_free(capacity);
}

static void test_give_way(void **state)
{
    (void)state;
    struct world w;
    struct capacity *capacity;
    struct error err;
    const struct capacity_order order = {.max_sandboxes = 1};
    assert_int_equal(capacity_open(&capacity, &order, &err), 0);
    world_init(&w);
    w.template.capacity = capacity;
    world_open_sealed(&w);
    world_become_ready(&w);
    session_give_way(w.session);
    world_assert_state(&w, SESSION_TERMINATING);
    assert_true(capacity_has_room(capacity, &w.template.limits));
    world_reply(&w, SPAWN_DESTROY, (struct spawn_stats){0});
    world_assert_state(&w, SESSION_TERMINATED);
    world_close(&w);
    capacity_free(capacity);
}

/* Whatever is heard while it ends brings it back to no other state. */
static void test_no_way_back(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct world w;
        uint32_t generation = 0;
        struct error err;
        world_open(&w);
        if (way == 0) {
            assert_int_equal(
                session_ask(w.session, KERNEL_VARIABLES, NULL, 0, world_on_answer, &w, &err), 0);
            generation = world_hear(&w, KERNEL_VARIABLES);
        } else if (way == 1) {
            world_reset(&w);
            world_expect_init(&w, GUEST_KILL, 0);
        } else {
            world_kernel_dies(&w, 1, 0);
        }
        session_close(w.session);
        if (way == 0)
            world_say_done(&w, generation, 0);
        else if (way == 1)
            world_init_says(&w, GUEST_EXITED, 0, 0, SIGKILL);
        else
            session_give(w.session, &world_session_events, &w);
        world_assert_state(&w, SESSION_TERMINATING);
        world_expect_silence(&w);
        world_close(&w);
        assert_int_equal(w.answers, way == 0);
    }
}

/* The owner of a stock: closes what has failed, and frees it when it is over. */
struct owner {
    bool is_inside; /* a call of ours */
    bool is_over;
};

static void on_owned_changed(void *ctx, struct session *session)
{
    struct owner *o = ctx;
    assert_false(o->is_inside);
    o->is_inside = true;
    if (session_info(session)->state == SESSION_FAILED)
        session_close(session);
    o->is_inside = false;
    if (session_info(session)->state != SESSION_TERMINATED)
        return;
    o->is_over = true;
    session_free(session);
}

static const struct session_events owned_events = {.changed = on_owned_changed};

/* A session without a sandbox has nobody to wait for, but is not over inside the call that closes
 * it: who is told FAILED goes on with it afterwards. */
static void test_free_at_end(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct world w;
        struct error err;
        struct owner owner = {.is_over = false};
        struct spawn_message made = {
            .verb = SPAWN_CREATE, .flags = SPAWN_REPLY, .sandbox = WORLD_SANDBOX};
        struct spawn_message failed = {
            .verb = SPAWN_SEALED, .flags = SPAWN_FAILED, .sandbox = WORLD_SANDBOX};
        int pair[2];
        world_init(&w);
        assert_int_equal(
            session_open(&w.session, w.loop, &w.spawner, &w.template, &owned_events, &owner, &err),
            0);
        if (way == 0) {
            world_reply_with(&w, SPAWN_CREATE, NULL, -1);
        } else {
            assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
            w.init = pair[1];
            world_reply_with(&w, SPAWN_CREATE, &made, pair[0]);
            session_on_event(w.session, &failed);
        }
        world_advance(&w, 1);
        assert_true(owner.is_over);
        w.session = NULL;
        world_release(&w);
    }
}

/* What is let go of keeps nothing open, not even what waited to be read. */
static void test_detach(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct session_record record;
    world_open(&w);
    world_execute(&w);
    assert_int_equal(world_try_execute(&w, true, memfd_create("in", MFD_CLOEXEC), &err), 0);
    session_detach(take_ptr(&w.session), &record);
    assert_true(record.has_execution);
    assert_int_equal(w.spawner.count, 0);
    assert_int_equal(w.ended_count, 0);
    world_release(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    signal(SIGPIPE, SIG_IGN);
    check_one(&check, "executions come and go", test_life);
    check_one(&check, "an exception is a failure, whatever its words", test_exception);
    check_one(&check, "busy is a conflict", test_busy);
    check_one(&check, "it can be closed when an execution ends", test_close_at_end);
    check_one(&check, "a sandbox that cannot be made", test_not_created);
    check_one(&check, "a seal that is told after the interpreter is ready", test_sealed_late);
    check_one(&check, "a sandbox that cannot be sealed", test_not_sealed);
    check_one(&check, "a sandbox that dies before it is ready", test_dead_at_once);
    check_one(&check, "a sandbox that dies during a reset", test_dead_at_reset);
    check_one(&check, "a close cancels what runs, once", test_close_while_busy);
    check_one(&check, "a close does not wait for counters", test_close_while_counting);
    check_one(&check, "a close while it is created", test_close_while_creating);
    check_one(&check, "without a spawner all ends", test_spawner_gone);
    check_one(&check, "a lifetime ends it", test_lifetime);
    check_one(&check, "news of other sandboxes", test_other_sandboxes);
    check_one(&check, "it has a seat as long as it lives", test_seat);
    check_one(&check, "one that gives way has none", test_give_way);
    check_one(&check, "an ending session has no way back", test_no_way_back);
    check_one(&check, "one without a sandbox is over a turn later", test_free_at_end);
    check_one(&check, "what is let go of keeps nothing open", test_detach);
    return check_run(&check, "session");
}
