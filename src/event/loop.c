/* loop.c - thin on libuv; its handles close asynchronously, so the memory is freed by the loop */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/loop.h"

#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "base/memory.h"
#include "event/closer.h"
#include "event/loop_inside.h"

#define ATTENTION_NS  500000
#define QUICK_NS      1000000 /* with the time that waking up takes, on a machine that is busy */
#define YIELD_NS      1000000 /* longer: whom we let go first is busy with something else */
#define UNYIELDING_NS 100000000

struct loop_watch {
    uv_poll_t uv;
    loop_watch_fn fn;
    void *ctx;
};

struct loop_timer {
    uv_timer_t uv;
    loop_timer_fn fn;
    void *ctx;
};

struct loop_turn {
    uv_prepare_t uv;
    loop_turn_fn fn;
    void *ctx;
};

struct loop_signal {
    uv_signal_t uv;
    loop_signal_fn fn;
    void *ctx;
};

struct work {
    uv_work_t uv;
    struct loop *loop;
    loop_work_fn run, done;
    void *ctx;
};

static int error_uv(struct error *err, int code, const char *what)
{
    errno = -code; /* libuv's codes are negated errno */
    return error_sys(err, "%s", what);
}

int loop_open(struct loop **out, struct error *err)
{
    struct loop *loop = xcalloc(1, sizeof(*loop));
    int code = uv_loop_init(&loop->uv);
    if (code < 0) {
        free(loop);
        return error_uv(err, code, "open event loop");
    }
    uv_idle_init(&loop->uv, &loop->attention);
    uv_unref((uv_handle_t *)&loop->attention); /* nobody waits for its end */
    loop->attention.data = loop;
    loop->closer = closer_new();
    *out = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    uv_close((uv_handle_t *)&loop->attention, NULL);
    while (loop->working > 0)
        uv_run(&loop->uv, UV_RUN_ONCE);
    uv_run(&loop->uv, UV_RUN_NOWAIT); /* lets closing handles close... */
    uv_run(&loop->uv, UV_RUN_NOWAIT); /* ...also when a stop was pending, which eats one run */
    BUG_ON(uv_loop_close(&loop->uv) != 0);
    closer_free(loop->closer);
    free(loop);
}

void loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

/* --- answers that are about to come --- */

static void on_attention(uv_idle_t *idle)
{
    const struct loop *loop = idle->data;
    if (clock_now_ns() - loop->asked_ns < ATTENTION_NS)
        sched_yield();
    else
        uv_idle_stop(idle);
}

void loop_expect(struct loop *loop)
{
    loop->asked_ns = clock_now_ns();
    if (loop->expected++ == 0 && loop->is_quick)
        uv_idle_start(&loop->attention, on_attention);
    else
        uv_idle_stop(&loop->attention);
}

void loop_met(struct loop *loop)
{
    BUG_ON(loop->expected == 0);
    uv_idle_stop(&loop->attention);
    loop->is_quick = --loop->expected == 0 && clock_now_ns() - loop->asked_ns < QUICK_NS;
}

void loop_yield(struct loop *loop)
{
    int64_t start = clock_now_ns();
    if (start < loop->unyielding_until_ns)
        return;
    sched_yield();
    int64_t now = clock_now_ns();
    if (now - start > YIELD_NS)
        loop->unyielding_until_ns = now + UNYIELDING_NS;
}

/* --- handles --- */

static void free_handle(uv_handle_t *handle)
{
    free(handle); /* each struct begins with its handle */
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct loop_watch *watch = (struct loop_watch *)handle;
    unsigned out = 0;
    if (events & UV_READABLE)
        out |= LOOP_READ;
    if (events & UV_WRITABLE)
        out |= LOOP_WRITE;
    if (events & UV_DISCONNECT || status < 0)
        out |= LOOP_HANGUP;
    watch->fn(watch->ctx, out);
}

void loop_watch_set(struct loop_watch *watch, unsigned events)
{
    int wanted = (events & LOOP_READ ? UV_READABLE : 0) | (events & LOOP_WRITE ? UV_WRITABLE : 0) |
                 (events & LOOP_HANGUP ? UV_DISCONNECT : 0);
    uv_poll_start(&watch->uv, wanted, on_poll); /* with none it stops */
}

int loop_watch_new(struct loop_watch **out, struct loop *loop, int fd, unsigned events,
                   loop_watch_fn fn, void *ctx, struct error *err)
{
    struct loop_watch *watch = xcalloc(1, sizeof(*watch));
    watch->fn = fn;
    watch->ctx = ctx;
    int code = uv_poll_init(&loop->uv, &watch->uv, fd);
    if (code < 0) {
        free(watch);
        return error_uv(err, code, "watch fd");
    }
    loop_watch_set(watch, events);
    *out = watch;
    return 0;
}

void loop_watch_free(struct loop_watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->uv, free_handle);
}

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *timer = (struct loop_timer *)handle;
    timer->fn(timer->ctx);
}

struct loop_timer *loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn, void *ctx)
{
    struct loop_timer *timer = xcalloc(1, sizeof(*timer));
    timer->fn = fn;
    timer->ctx = ctx;
    uv_timer_init(&loop->uv, &timer->uv);
    uv_update_time(&loop->uv); /* else the delay counts from the last turn */
    /* Its clock has whole milliseconds: the one that has begun does not count. */
    bool is_some = delay_ms > 0 && delay_ms < UINT64_MAX;
    uv_timer_start(&timer->uv, on_timer, delay_ms + is_some, 0);
    return timer;
}

void loop_timer_free(struct loop_timer *timer)
{
    if (timer)
        uv_close((uv_handle_t *)&timer->uv, free_handle);
}

static void on_turn(uv_prepare_t *handle)
{
    struct loop_turn *turn = (struct loop_turn *)handle;
    turn->fn(turn->ctx);
}

struct loop_turn *loop_turn_new(struct loop *loop, loop_turn_fn fn, void *ctx)
{
    struct loop_turn *turn = xcalloc(1, sizeof(*turn));
    turn->fn = fn;
    turn->ctx = ctx;
    uv_prepare_init(&loop->uv, &turn->uv);
    uv_prepare_start(&turn->uv, on_turn);
    uv_unref((uv_handle_t *)&turn->uv); /* it waits for nothing itself */
    return turn;
}

void loop_turn_free(struct loop_turn *turn)
{
    if (turn)
        uv_close((uv_handle_t *)&turn->uv, free_handle);
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct loop_signal *watch = (struct loop_signal *)handle;
    watch->fn(watch->ctx, signal);
}

int loop_signal_new(struct loop_signal **out, struct loop *loop, int signal, loop_signal_fn fn,
                    void *ctx, struct error *err)
{
    struct loop_signal *handle = xcalloc(1, sizeof(*handle));
    handle->fn = fn;
    handle->ctx = ctx;
    int code = uv_signal_init(&loop->uv, &handle->uv);
    if (code == 0)
        code = uv_signal_start(&handle->uv, on_signal, signal);
    if (code < 0) {
        loop_signal_free(handle);
        return error_uv(err, code, "watch signal");
    }
    *out = handle;
    return 0;
}

void loop_signal_free(struct loop_signal *handle)
{
    if (handle)
        uv_close((uv_handle_t *)&handle->uv, free_handle);
}

static void run_work(uv_work_t *uv)
{
    struct work *work = (struct work *)uv;
    work->run(work->ctx);
}

static void end_work(uv_work_t *uv, int status)
{
    struct work *work = (struct work *)uv;
    BUG_ON(status != 0); /* nobody cancels */
    work->loop->working--;
    work->done(work->ctx);
    free(work);
}

void loop_work(struct loop *loop, loop_work_fn run, loop_work_fn done, void *ctx)
{
    struct work *work = xcalloc(1, sizeof(*work));
    *work = (struct work){.loop = loop, .run = run, .done = done, .ctx = ctx};
    loop->working++;
    BUG_ON(uv_queue_work(&loop->uv, &work->uv, run_work, end_work) != 0);
}

void loop_close_fd(struct loop *loop, int fd)
{
    closer_add(loop->closer, fd);
}
