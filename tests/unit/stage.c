/* stage.c - timers that wait for the test, and a spawner's client that notes what is asked */
/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"

/* --- time ------------------------------------------------------------------------------------ */

struct loop_timer {
    struct loop_timer *next;
    uint64_t at_ms;
    loop_timer_fn fn;
    void *ctx;
};

static struct {
    struct loop_timer *first;
    uint64_t now_ms;
} timers;

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx);
void __wrap_loop_timer_free(struct loop_timer *timer);

struct loop_timer *__wrap_loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                         void *ctx)
{
    (void)loop;
    struct loop_timer *t = xcalloc(1, sizeof(*t));
    *t = (struct loop_timer){timers.first, timers.now_ms + delay_ms, fn, ctx};
    timers.first = t;
    return t;
}

static bool unlink_timer(struct loop_timer *timer)
{
    struct loop_timer **at = &timers.first;
    while (*at && *at != timer)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = timer->next;
    return true;
}

int64_t __wrap_clock_now_ns(void);

int64_t __wrap_clock_now_ns(void)
{
    return (int64_t)(timers.now_ms + 1) * 1000000;
}

void __wrap_loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return;
    unlink_timer(timer);
    free(timer);
}

static struct loop_timer *find_due(void)
{
    struct loop_timer *due = NULL;
    for (struct loop_timer *t = timers.first; t; t = t->next) {
        if (t->at_ms <= timers.now_ms && (!due || t->at_ms < due->at_ms))
            due = t;
    }
    return due;
}

void stage_begin(void)
{
    timers.first = NULL; /* those of a test that failed */
}

bool stage_has_timers(void)
{
    return timers.first;
}

static void on_stop(void *ctx, unsigned events)
{
    (void)events;
    loop_stop(ctx);
}

/* Lets the loop see everything that is there, and wait for nothing. */
void stage_settle(struct loop *loop)
{
    struct error err;
    for (int i = 0; i < 4; i++) {
        struct loop_watch *now; /* a pipe that can be written is an event at once */
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(loop_watch_new(&now, loop, fds[1], LOOP_WRITE, on_stop, loop, &err), 0);
        loop_run(loop);
        loop_watch_free(now);
        close(fds[0]);
        close(fds[1]);
    }
}

void stage_advance(struct loop *loop, uint64_t ms)
{
    uint64_t end = timers.now_ms + ms;
    while (timers.now_ms < end) {
        timers.now_ms++;
        for (struct loop_timer *t; (t = find_due());) {
            t->at_ms = UINT64_MAX; /* its owner frees it */
            t->fn(t->ctx);
            stage_settle(loop);
        }
    }
}

/* --- the spawner ----------------------------------------------------------------------------- */

void spawner_client_ask(struct spawner_client *c, struct spawn_message *m, spawner_reply_fn reply,
                        void *ctx)
{
    assert_true(c->count < STAGE_ASKS_MAX);
    c->asks[c->count].m = *m;
    c->asks[c->count].reply = reply;
    c->asks[c->count++].ctx = ctx;
}

void spawner_client_ask_with(struct spawner_client *c, struct spawn_message *m, const int *fds,
                             size_t fd_count, spawner_reply_fn reply, void *ctx)
{
    (void)fds;
    (void)fd_count;
    spawner_client_ask(c, m, reply, ctx);
}

void spawner_client_redirect(struct spawner_client *c, const void *ctx, spawner_reply_fn reply,
                             void *other)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->asks[i].ctx == ctx) {
            c->asks[i].reply = reply;
            c->asks[i].ctx = other;
        }
    }
}

void spawner_client_explain(const struct spawner_client *c, const struct spawn_message *m,
                            struct error *err)
{
    (void)c;
    error_set(err, ERROR_ISOLATION, "%s", m->failure.step);
}

bool spawner_client_read_stats(struct spawner_client *c, const struct spawn_sealed *where,
                               struct spawn_stats *out)
{
    (void)where;
    if (c->counters)
        *out = *c->counters;
    return c->counters;
}

void spawner_client_forget_stats(struct spawner_client *c, const struct spawn_sealed *where)
{
    (void)c, (void)where;
}

/* The oldest open question of that verb is answered; `m` NULL: refused. */
void stage_reply(struct spawner_client *c, enum spawn_verb verb, struct spawn_message *m,
                 const int *given, size_t given_count)
{
    struct error err;
    int fds[SPAWNER_REPLY_FDS];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = i < given_count ? given[i] : -1;
    for (size_t i = 0; i < c->count; i++) {
        if (c->asks[i].m.verb != verb)
            continue;
        spawner_reply_fn reply = c->asks[i].reply;
        void *ctx = c->asks[i].ctx;
        c->count--;
        memmove(&c->asks[i], &c->asks[i + 1], (c->count - i) * sizeof(c->asks[0]));
        error_set(&err, ERROR_UNAVAILABLE, "the spawner is gone");
        if (reply)
            reply(ctx, m, fds, m ? NULL : &err);
        for (size_t j = 0; j < given_count; j++)
            scoped_close_fd(&fds[j]);
        return;
    }
    fail_msg("nobody asked the spawner for %d", (int)verb);
}

bool stage_is_asked(const struct spawner_client *c, enum spawn_verb verb)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->asks[i].m.verb == verb)
            return true;
    }
    return false;
}
