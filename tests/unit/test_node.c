/* test_node.c - beats go on whatever becomes of one, and end when somebody else is this node */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/node.h"

#include <string.h>

#include "base/memory.h"
#include "check.h"

/* --- time, the store and the plane, played -----------------------------------------------------
 */

struct loop_timer {
    loop_timer_fn fn;
    void *ctx;
};

static struct loop_timer *due;
static uint64_t due_ms;
static store_fn waiting;
static void *waiting_ctx;
static struct store_node beat;
static char document[4096];
static int beats, replaced;
static struct node *node;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t ms, loop_timer_fn fn,
                                         void *ctx);
void __wrap_loop_timer_free(struct loop_timer *timer);
void __wrap_store_beat_node(struct store *store, const struct store_node *record, store_fn fn,
                            void *ctx);
void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out);
void __wrap_capacity_get_info(const struct capacity *capacity, struct capacity_info *out);

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t ms, loop_timer_fn fn,
                                         void *ctx)
{
    (void)loop;
    assert_null(due);
    due = xcalloc(1, sizeof(*due));
    *due = (struct loop_timer){fn, ctx};
    due_ms = ms;
    return due;
}

void __wrap_loop_timer_free(struct loop_timer *timer)
{
    if (timer)
        due = NULL;
    free(timer);
}

void __wrap_store_beat_node(struct store *store, const struct store_node *record, store_fn fn,
                            void *ctx)
{
    (void)store;
    assert_null(waiting); /* one at a time */
    waiting = fn;
    waiting_ctx = ctx;
    beat = *record;
    snprintf(document, sizeof(document), "%s", record->doc);
    beats++;
}

void __wrap_plane_get_info(const struct plane *plane, struct plane_info *out)
{
    (void)plane;
    *out = (struct plane_info){.running = 2, .queued = 1};
    out->sessions[STORE_SESSION_READY] = 3;
    out->sessions[STORE_SESSION_BUSY] = 2;
}

void __wrap_capacity_get_info(const struct capacity *capacity, struct capacity_info *out)
{
    (void)capacity;
    *out = (struct capacity_info){.live = 9, .max_sandboxes = 100};
}

static void answer(const struct error *err)
{
    store_fn fn = take_ptr(&waiting);
    fn(waiting_ctx, &(struct store_answer){.err = err});
}

static void pass_time(void)
{
    assert_non_null(due);
    due->fn(due->ctx);
}

static void on_replaced(void *ctx)
{
    assert_string_equal(ctx, "ctx");
    replaced++;
    node_free(take_ptr(&node));
}

static int begin(void **state)
{
    static char ctx[] = "ctx";
    (void)state;
    beats = replaced = 0;
    const struct node_order order = {
        .id = "here",
        .epoch = 7,
        .capacity = (const struct capacity *)"some",
        .replaced = on_replaced,
        .ctx = ctx,
    };
    node = node_new(&order);
    return 0;
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void test_beats(void **state)
{
    begin(state);
    assert_int_equal(beats, 1);
    assert_string_equal(beat.id, "here");
    assert_int_equal(beat.epoch, 7);
    assert_true(beat.heartbeat_ns > 1600000000ll * 1000000000);
    assert_string_equal(
        document, "{\"capacity\":{\"sessions\":9,\"max_sessions\":100},\"load\":{"
                  "\"sessions\":5,\"running\":2,\"queued\":1},\"version\":\"" COVE_VERSION "\"}");
    assert_null(due); /* the next comes when this one was answered */
    answer(NULL);
    assert_int_equal(due_ms, NODE_BEAT_MS);
    pass_time();
    assert_int_equal(beats, 2);
    const struct error busy = {.code = ERROR_UNAVAILABLE, .msg = "the disk is full"};
    answer(&busy);
    pass_time();
    assert_int_equal(beats, 3);
    answer(NULL);
    node_free(node);
    assert_null(due);
    assert_int_equal(replaced, 0);
}

static void test_replaced(void **state)
{
    begin(state);
    const struct error other = {.code = ERROR_CONFLICT, .msg = "another epoch"};
    answer(&other);
    assert_int_equal(replaced, 1);
    assert_null(due);
    assert_int_equal(beats, 1);
}

static void test_freed(void **state)
{
    begin(state);
    node_free(take_ptr(&node));
    const struct error other = {.code = ERROR_CONFLICT, .msg = "another epoch"};
    answer(&other); /* nobody is there to be told */
    assert_int_equal(replaced, 0);
    assert_null(due);
}

static void test_unlimited(void **state)
{
    (void)state;
    scoped_json json_t *figures = node_figures(NULL, NULL);
    const json_t *capacity = json_object_get(figures, "capacity");
    assert_true(json_is_null(json_object_get(capacity, "max_sessions")));
    assert_int_equal(json_integer_value(json_object_get(capacity, "sessions")), 5);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "beats go on, also after one that failed", test_beats);
    check_one(&check, "another epoch ends them", test_replaced);
    check_one(&check, "freed while a beat is under way", test_freed);
    check_one(&check, "without a limit", test_unlimited);
    return check_run(&check, "node");
}
