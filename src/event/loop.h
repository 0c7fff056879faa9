/* loop.h - the event loop: fds, timers, signals and work for other threads (libuv underneath)
 *
 * Handles belong to who made them and are ended with their _free function, also from inside their
 * own callback. A callback never comes after the free. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/scoped.h"

struct loop;

MUST_CHECK int loop_open(struct loop **out, struct error *err);
/* After every handle was freed; waits for work that is under way, and has it told as done. */
void loop_free(struct loop *loop);
SCOPED_DEFINE(loop)

void loop_run(struct loop *loop); /* until loop_stop(), or until nothing is left to wait for */
void loop_stop(struct loop *loop);

/* An answer is expected from another process, and has been met, or never will be. While it is the
 * only one, and the last came at once, the loop does not fall asleep for a moment: to be woken
 * takes longer than that. Others who want the processor go first. */
void loop_expect(struct loop *loop);
void loop_met(struct loop *loop);

/* Who has just been sent something goes first, if it was woken on our processor: what is left to be
 * done for it can wait. Where others are busy there, and keep us from going on for long, nobody is
 * let go first for a while: that would be they. */
void loop_yield(struct loop *loop);

enum loop_events { LOOP_READ = 1 << 0, LOOP_WRITE = 1 << 1, LOOP_HANGUP = 1 << 2 };

struct loop_watch;
typedef void (*loop_watch_fn)(void *ctx, unsigned events);

/* `fd` is borrowed and must stay open until the watch is freed; it is made non-blocking. */
MUST_CHECK int loop_watch_new(struct loop_watch **out, struct loop *loop, int fd, unsigned events,
                              loop_watch_fn fn, void *ctx, struct error *err);
void loop_watch_set(struct loop_watch *watch,
                    unsigned events); /* other ones from now on; 0: none */
void loop_watch_free(struct loop_watch *watch);

struct loop_timer;
typedef void (*loop_timer_fn)(void *ctx);

/* Calls `fn` once, never before the delay is over. */
struct loop_timer *loop_timer_new(struct loop *loop, uint64_t delay_ms, loop_timer_fn fn,
                                  void *ctx);
void loop_timer_free(struct loop_timer *timer);

/* Comes at the end of every turn, before the loop waits: for work that gathers during a turn. */
struct loop_turn;
typedef void (*loop_turn_fn)(void *ctx);

struct loop_turn *loop_turn_new(struct loop *loop, loop_turn_fn fn, void *ctx);
void loop_turn_free(struct loop_turn *turn);

struct loop_signal;
typedef void (*loop_signal_fn)(void *ctx, int signal);

MUST_CHECK int loop_signal_new(struct loop_signal **out, struct loop *loop, int signal,
                               loop_signal_fn fn, void *ctx, struct error *err);
void loop_signal_free(struct loop_signal *handle);

/* Takes `fd`, whose close may wait, and has another thread do it. */
void loop_close_fd(struct loop *loop, int fd);

/* What blocks is done by a few threads that all loops share: `run` on one of them, with `ctx` its
 * own for that time, then `done` on the loop's. It cannot be called off. The threads begin with the
 * first work: restrictions that hold for one thread only are to be in place before. */
typedef void (*loop_work_fn)(void *ctx);
void loop_work(struct loop *loop, loop_work_fn run, loop_work_fn done, void *ctx);
