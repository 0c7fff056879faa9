/* test_spool.c - blobs on their way from one disk to another, which fails, is slow, or comes late
 *
 * The far store has a gate before it: it holds puts back until the test lets them go, or fails
 * them. Timers come at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/spool.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "blob/blob_ops.h"
#include "blob/disk.h"
#include "check.h"

#define KEY "artifacts/exe_1/aa"

struct loop_timer *__real_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
static uint64_t longest_ms;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    longest_ms = MAX(longest_ms, delay_ms);
    return __real_loop_timer_new(loop, MIN(delay_ms, 2), fn, ctx);
}

/* --- the gate --------------------------------------------------------------------------------- */

struct gate {
    struct blob blob;
    struct blob *inner;
    unsigned failures; /* of puts that are still to come */
    unsigned puts;     /* that were begun */
    bool is_shut;
    struct blob_put *held; /* one that was ended while the gate was shut */
};

struct gate_put {
    struct blob_put base;
    struct gate *gate;
    struct blob_put *inner;
    struct blob_put_order order;
};

static void on_inner_done(void *ctx, const struct error *err)
{
    struct gate_put *p = ctx;
    struct error broken;
    const struct gate_put copy = *p;
    free(p);
    error_set(&broken, ERROR_UNAVAILABLE, "the storage is dead");
    copy.order.on_done(copy.order.ctx, copy.gate->failures > 0 ? &broken : err);
    if (copy.gate->failures > 0)
        copy.gate->failures--;
}

static void on_inner_drain(void *ctx)
{
    const struct gate_put *p = ctx;
    p->order.on_drain(p->order.ctx);
}

/* What is to fail goes somewhere else, so that it does not appear. */
static struct blob_put *gate_put_open(struct blob *blob, const struct blob_put_order *order)
{
    struct gate *g = (struct gate *)blob;
    struct gate_put *p = xcalloc(1, sizeof(*p));
    *p = (struct gate_put){.base.ops = blob->ops, .gate = g, .order = *order};
    struct blob_put_order inner = *order;
    g->puts++;
    inner.key = g->failures > 0 ? "broken" : order->key;
    inner.on_done = on_inner_done;
    inner.on_drain = on_inner_drain;
    inner.ctx = p;
    p->inner = blob_put_open(g->inner, &inner);
    return &p->base;
}

static bool gate_put_write(struct blob_put *put, const void *data, size_t len)
{
    return blob_put_write(((struct gate_put *)put)->inner, data, len);
}

static void gate_put_end(struct blob_put *put)
{
    struct gate_put *p = (struct gate_put *)put;
    if (p->gate->is_shut)
        p->gate->held = p->inner;
    else
        blob_put_end(p->inner);
}

static void gate_put_abort(struct blob_put *put)
{
    struct gate_put *p = (struct gate_put *)put;
    blob_put_abort(p->inner);
    p->gate->held = NULL;
    free(p);
}

static struct blob_get *gate_get_open(struct blob *blob, const struct blob_get_order *order)
{
    return blob_get_open(((struct gate *)blob)->inner, order);
}

static void gate_stat(struct blob *blob, const char *key, blob_stat_fn fn, void *ctx)
{
    blob_stat(((struct gate *)blob)->inner, key, fn, ctx);
}

static void gate_remove(struct blob *blob, const char *key, blob_fn fn, void *ctx)
{
    blob_remove(((struct gate *)blob)->inner, key, fn, ctx);
}

static const struct blob_ops gate_ops = {.put_open = gate_put_open,
                                         .put_write = gate_put_write,
                                         .put_end = gate_put_end,
                                         .put_abort = gate_put_abort,
                                         .get_open = gate_get_open,
                                         .stat = gate_stat,
                                         .remove = gate_remove};

/* --- the world -------------------------------------------------------------------------------- */

struct world {
    char *dir;
    struct loop *loop;
    struct blob *near, *far, *spool;
    struct gate gate;
    struct log log;
    unsigned answers;
    bool is_found;
    struct blob_info info;
    struct strbuf got;
};

static struct blob *open_disk(struct world *w, const char *name)
{
    struct error err;
    struct blob *blob;
    scoped_free char *dir = xasprintf("%s/%s", w->dir, name);
    if (disk_open(&blob, w->loop, &(struct disk_order){.dir = dir}, &err) < 0)
        fail_msg("%s", err.msg);
    return blob;
}

static void open_spool(struct world *w)
{
    const struct spool_order order = {.loop = w->loop,
                                      .log = &w->log,
                                      .near = w->near,
                                      .far = &w->gate.blob,
                                      .prefix = "artifacts/"};
    w->spool = spool_new(&order);
}

static void world_open(struct world *w)
{
    struct error err;
    *w = (struct world){.dir = check_temp_dir(), .log = {.fd = -1, .level = LOG_LEVEL_COUNT}};
    longest_ms = 0;
    assert_int_equal(loop_open(&w->loop, &err), 0);
    strbuf_init(&w->got, 64 * MIB);
    w->near = open_disk(w, "near");
    w->far = open_disk(w, "far");
    w->gate = (struct gate){.blob.ops = &gate_ops, .inner = w->far};
    open_spool(w);
}

static void world_close(struct world *w)
{
    blob_free(w->spool);
    blob_free(w->near);
    blob_free(w->far);
    loop_free(w->loop);
    strbuf_release(&w->got);
    check_remove_dir(w->dir);
}

static void on_done(void *ctx, const struct error *err)
{
    struct world *w = ctx;
    w->is_found = !err;
    w->answers++;
    loop_stop(w->loop);
}

static void on_stat(void *ctx, const struct error *err, const struct blob_info *info)
{
    struct world *w = ctx;
    if (info)
        w->info = *info;
    on_done(w, err);
}

static void wait_for_answer(struct world *w)
{
    unsigned before = w->answers;
    while (w->answers == before)
        loop_run(w->loop);
}

static void put(struct world *w, const char *key, const void *data, size_t len)
{
    const struct blob_put_order order = {.key = key, .size = len, .on_done = on_done, .ctx = w};
    struct blob_put *p = blob_put_open(w->spool, &order);
    blob_put_write(p, data, len);
    blob_put_end(p);
    wait_for_answer(w);
    assert_true(w->is_found);
}

static bool is_in(struct world *w, struct blob *blob, const char *key)
{
    blob_stat(blob, key, on_stat, w);
    wait_for_answer(w);
    return w->is_found;
}

static void wait_moved(struct world *w, const char *key)
{
    while (!is_in(w, w->far, key) || is_in(w, w->near, key))
        ;
}

static void on_data(void *ctx, const void *data, size_t len)
{
    struct world *w = ctx;
    strbuf_add(&w->got, data, len);
}

static void get(struct world *w, const char *key)
{
    strbuf_clear(&w->got);
    blob_get_open(w->spool, &(struct blob_get_order){
                                .key = key, .on_data = on_data, .on_done = on_done, .ctx = w});
    wait_for_answer(w);
}

static void assert_text(struct world *w, const char *key, const char *text)
{
    get(w, key);
    assert_true(w->is_found);
    assert_string_equal(strbuf_str(&w->got), text);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void test_move(void **state)
{
    (void)state;
    struct world w;
    const size_t big = 5 * MIB + 7;
    scoped_free char *data = xmalloc(big);
    memset(data, 'x', big);
    world_open(&w);
    put(&w, KEY, "text", 4);
    put(&w, "artifacts/exe_1/empty", "", 0);
    put(&w, "artifacts/exe_2/big", data, big);
    put(&w, "other/stays", "y", 1); /* none of what is moved */
    wait_moved(&w, KEY);
    wait_moved(&w, "artifacts/exe_1/empty");
    wait_moved(&w, "artifacts/exe_2/big");
    assert_text(&w, KEY, "text");
    get(&w, "artifacts/exe_2/big");
    assert_int_equal(w.got.len, big);
    assert_memory_equal(w.got.data, data, big);
    assert_true(is_in(&w, w.near, "other/stays") && !is_in(&w, w.far, "other/stays"));
    assert_true(is_in(&w, w.spool, KEY) && !w.info.is_near);
    assert_false(is_in(&w, w.spool, "artifacts/exe_1/none"));
    assert_int_equal(w.gate.puts, 3); /* each once */
    world_close(&w);
}

static void test_failures(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.gate.failures = 9;
    put(&w, KEY, "text", 4);
    put(&w, "artifacts/exe_2/bb", "more", 4);
    assert_text(&w, KEY, "text");
    assert_true(is_in(&w, w.spool, KEY));
    wait_moved(&w, KEY);
    wait_moved(&w, "artifacts/exe_2/bb");
    assert_text(&w, KEY, "text");
    assert_int_equal(w.gate.failures, 0);
    assert_true(longest_ms >= 64000 / 2 && longest_ms <= 60000); /* it grows, up to a minute */
    world_close(&w);
}

/* A blob that is put while another is moved is found when that is done. */
static void test_one_by_one(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.gate.is_shut = true;
    put(&w, KEY, "text", 4);
    while (!w.gate.held)
        is_in(&w, w.near, KEY);
    put(&w, "artifacts/exe_0/earlier", "1", 1);
    put(&w, "artifacts/exe_9/later", "2", 1);
    assert_int_equal(w.gate.puts, 1);
    assert_true(is_in(&w, w.spool, KEY) && w.info.is_near);
    w.gate.is_shut = false;
    blob_put_end(take_ptr(&w.gate.held));
    wait_moved(&w, KEY);
    wait_moved(&w, "artifacts/exe_0/earlier");
    wait_moved(&w, "artifacts/exe_9/later");
    world_close(&w);
}

/* It would be back when the move is done. */
static void test_removal_waits(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.gate.is_shut = true;
    put(&w, KEY, "text", 4);
    while (!w.gate.held)
        is_in(&w, w.near, KEY);
    unsigned before = w.answers;
    blob_remove(w.spool, KEY, on_done, &w);
    is_in(&w, w.near, KEY);
    is_in(&w, w.near, KEY);
    assert_int_equal(w.answers, before + 2); /* not that of the removal */
    w.gate.is_shut = false;
    blob_put_end(take_ptr(&w.gate.held));
    wait_for_answer(&w);
    assert_true(w.is_found);
    assert_false(is_in(&w, w.near, KEY) || is_in(&w, w.far, KEY));
    world_close(&w);
}

/* Whoever opens the folder next goes on; what is under way when it is freed appears nowhere. */
static void test_next_process(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.gate.is_shut = true;
    put(&w, KEY, "text", 4);
    while (!w.gate.held)
        is_in(&w, w.near, KEY);
    blob_free(take_ptr(&w.spool));
    assert_false(is_in(&w, w.far, KEY));
    w.gate.is_shut = false;
    open_spool(&w);
    wait_moved(&w, KEY);
    assert_text(&w, KEY, "text");
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "moves each once, and finds it where it is", test_move);
    check_one(&check, "tries again, with pauses that grow", test_failures);
    check_one(&check, "moves one after the other", test_one_by_one);
    check_one(&check, "a removal waits for the move", test_removal_waits);
    check_one(&check, "the next process goes on", test_next_process);
    return check_run(&check, "spool");
}
