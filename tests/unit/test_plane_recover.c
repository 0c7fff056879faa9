/* test_plane_recover.c - what an earlier process left is gone on with when it is ours, not before
 *
 * Store, spawner and clock are played by the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "check.h"
#include "core/plane_inside.h"
#include "runtime/keeper.h"

#define ID "exe_0123456789abcdefghjkmnpqr"

/* --- those who are asked -----------------------------------------------------------------------
 */

void __wrap_keeper_list(struct spawner_client *client, keeper_list_fn fn, void *ctx);
void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx);
void __wrap_store_list_executions(struct store *store, const struct store_filter *filter,
                                  store_fn fn, void *ctx);
void __wrap_store_get_execution(struct store *store, const struct store_name *name, store_fn fn,
                                void *ctx);
void __wrap_store_list_sessions(struct store *store, const struct store_filter *filter, store_fn fn,
                                void *ctx);
void __wrap_store_change_execution(struct store *store, const struct store_execution_change *c,
                                   store_fn fn, void *ctx);
struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
void __wrap_loop_timer_free(struct loop_timer *timer);

static struct {
    bool can_read;
    store_fn lease, end; /* of what is being written */
    void *lease_ctx, *end_ctx;
    unsigned session_lists, pings;
    loop_timer_fn timer;
    void *timer_ctx;
} played;

static const struct store_execution row = {
    .id = ID, .owner = "key_a", .language = "python", .state = STORE_EXECUTION_RUNNING};

void __wrap_keeper_list(struct spawner_client *client, keeper_list_fn fn, void *ctx)
{
    (void)client;
    fn(ctx, 0, NULL, NULL); /* no sandbox lives */
}

void __wrap_spawner_client_ask(struct spawner_client *client, struct spawn_message *m,
                               spawner_reply_fn reply, void *ctx)
{
    (void)client;
    assert_int_equal(m->verb, SPAWN_PING);
    played.pings++;
    reply(ctx, m, NULL, NULL);
}

void __wrap_store_list_executions(struct store *store, const struct store_filter *filter,
                                  store_fn fn, void *ctx)
{
    (void)store, (void)filter;
    fn(ctx, &(struct store_answer){.executions = (struct store_execution *)&row, .count = 1});
}

void __wrap_store_get_execution(struct store *store, const struct store_name *name, store_fn fn,
                                void *ctx)
{
    (void)store, (void)name;
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the disk does not answer");
    fn(ctx, &(struct store_answer){.executions = (struct store_execution *)&row,
                                   .count = 1,
                                   .err = played.can_read ? NULL : &err});
}

void __wrap_store_list_sessions(struct store *store, const struct store_filter *filter, store_fn fn,
                                void *ctx)
{
    (void)store, (void)filter;
    played.session_lists++;
    fn(ctx, &(struct store_answer){0});
}

void __wrap_store_change_execution(struct store *store, const struct store_execution_change *c,
                                   store_fn fn, void *ctx)
{
    (void)store;
    if (c->new_node) {
        played.lease = fn;
        played.lease_ctx = ctx;
    } else {
        assert_int_equal(c->to, STORE_EXECUTION_LOST);
        played.end = fn;
        played.end_ctx = ctx;
    }
}

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    (void)loop, (void)delay_ms;
    played.timer = fn;
    played.timer_ctx = ctx;
    return NULL;
}

void __wrap_loop_timer_free(struct loop_timer *timer)
{
    assert_null(timer);
}

/* --- the scene ---------------------------------------------------------------------------------
 */

static void on_done(void *ctx, const struct error *err)
{
    snprintf(ctx, 64, "%.40s", err ? err->msg : "well");
}

static void answer_lease(const struct error *err)
{
    store_fn fn = played.lease;
    assert_non_null(fn);
    played.lease = NULL;
    fn(played.lease_ctx, &(struct store_answer){.err = err});
}

static void test_lease(void **state)
{
    (void)state;
    struct plane plane = {0};
    struct log log = {.fd = -1, .level = LOG_LEVEL_COUNT};
    struct error err;
    char done[64] = "";
    plane.order.log = &log;
    plane.order.node = "node";
    played = (typeof(played)){.can_read = true};
    plane_recover(&plane, on_done, done);
    for (int i = 0; i < 3; i++) { /* a lock that lasts */
        error_set(&err, ERROR_UNAVAILABLE, "the database is locked");
        answer_lease(&err);
        assert_string_equal(done, "");
        assert_int_equal(played.session_lists, 1); /* for leases only */
        assert_null(played.end);
        played.timer(played.timer_ctx);
    }
    answer_lease(NULL);
    assert_string_equal(done, "well");
    assert_int_equal(played.session_lists, 2);
    assert_int_equal(played.pings, 1);
    assert_non_null(played.end); /* it ran in no sandbox that lives, and that can be written now */
    played.end(played.end_ctx, &(struct store_answer){0});
    played.timer(played.timer_ctx); /* who reads its events has had time enough */
    map_release(&plane.jobs);
}

static void test_unread(void **state)
{
    (void)state;
    struct plane plane = {0};
    struct log log = {.fd = -1, .level = LOG_LEVEL_COUNT};
    char done[64] = "";
    plane.order.log = &log;
    plane.order.node = "node";
    played = (typeof(played)){0};
    plane_recover(&plane, on_done, done);
    assert_string_equal(done, "the disk does not answer");
    assert_int_equal(played.session_lists, 0);
    map_release(&plane.jobs);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "a lease that is not written is tried until it is", test_lease);
    check_one(&check, "what cannot be read is not left out", test_unread);
    return check_run(&check, "plane_recover");
}
