/* test_loop.c - fds, timers and signals, and the promise that nothing is called after its free */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

struct world {
    struct loop *loop;
    struct loop_watch *watches[2];
    struct loop_timer *timers[3];
    struct loop_signal *signal;
    int pair[2];
    unsigned events;
    unsigned calls;
    int signal_seen;
    char order[8];
};

static void world_open(struct world *w)
{
    struct error err;
    *w = (struct world){.pair = {-1, -1}};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->pair), 0);
}

static void world_close(struct world *w)
{
    loop_free(w->loop);
    close(w->pair[0]);
    close(w->pair[1]);
}

static void watch(struct world *w, size_t i, unsigned events, loop_watch_fn fn)
{
    struct error err;
    assert_int_equal(loop_watch_new(&w->watches[i], w->loop, w->pair[i], events, fn, w, &err), 0);
}

static void on_event(void *ctx, unsigned events)
{
    struct world *w = ctx;
    w->events = events;
    w->calls++;
    loop_watch_free(w->watches[0]);
}

static void test_read(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    watch(&w, 0, LOOP_READ, on_event);
    assert_true(fcntl(w.pair[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(write(w.pair[1], "x", 1), 1);
    loop_run(w.loop); /* ends, since the watch freed itself */
    assert_int_equal(w.events, LOOP_READ);
    assert_int_equal(w.calls, 1);
    world_close(&w);
}

static void test_write(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    watch(&w, 0, LOOP_WRITE, on_event);
    loop_run(w.loop);
    assert_int_equal(w.events, LOOP_WRITE);
    world_close(&w);
}

/* A watch that waits for nothing sleeps; then it waits for something else. */
static void test_set(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(write(w.pair[1], "x", 1), 1);
    watch(&w, 0, LOOP_READ, on_event);
    loop_watch_set(w.watches[0], 0);
    loop_run(w.loop); /* nothing is left to wait for */
    assert_int_equal(w.calls, 0);
    loop_watch_set(w.watches[0], LOOP_WRITE);
    loop_run(w.loop);
    assert_int_equal(w.events, LOOP_WRITE);
    world_close(&w);
}

static void test_hangup(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    watch(&w, 0, LOOP_HANGUP, on_event);
    assert_int_equal(shutdown(w.pair[1], SHUT_RDWR), 0);
    loop_run(w.loop);
    assert_true(w.events & LOOP_HANGUP);
    world_close(&w);
}

/* The writing end of a pipe whose reader is gone must be told, whatever was asked for. */
static void test_broken_pipe(void **state)
{
    (void)state;
    struct world w;
    int pipe_fds[2];
    struct error err;
    world_open(&w);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(pipe_fds[1], w.order, sizeof(w.order)) > 0)
        ; /* full: only the end of the reader can wake the watch */
    close(pipe_fds[0]);
    assert_int_equal(
        loop_watch_new(&w.watches[0], w.loop, pipe_fds[1], LOOP_WRITE, on_event, &w, &err), 0);
    loop_run(w.loop);
    assert_int_equal(w.calls, 1);
    close(pipe_fds[1]);
    world_close(&w);
}

static void test_file(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    struct loop_watch *none = NULL;
    world_open(&w);
    scoped_fd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(loop_watch_new(&none, w.loop, fd, LOOP_READ, on_event, &w, &err), -1);
    assert_int_equal(err.sys_errno, EPERM); /* what feed.c looks for */
    assert_int_equal(loop_watch_new(&none, w.loop, -1, LOOP_READ, on_event, &w, &err), -1);
    assert_null(none);
    world_close(&w);
}

static void free_both(void *ctx, unsigned events)
{
    (void)events;
    struct world *w = ctx;
    w->calls++;
    loop_watch_free(w->watches[0]);
    loop_watch_free(w->watches[1]);
}

/* Both are ready in the same turn; the first frees the second. */
static void test_no_call_after_free(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(write(w.pair[0], "x", 1), 1);
    assert_int_equal(write(w.pair[1], "x", 1), 1);
    watch(&w, 0, LOOP_READ, free_both);
    watch(&w, 1, LOOP_READ, free_both);
    loop_run(w.loop);
    assert_int_equal(w.calls, 1);
    world_close(&w);
}

/* A number that is closed and opened again in a callback belongs to the new file. */
static void swap_fd(void *ctx, unsigned events)
{
    (void)events;
    struct world *w = ctx;
    w->calls++;
    loop_watch_free(w->watches[0]);
    int fresh[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fresh), 0);
    assert_int_equal(dup3(fresh[0], w->pair[0], O_CLOEXEC), w->pair[0]);
    assert_int_equal(write(fresh[1], "y", 1), 1);
    close(fresh[0]);
    close(fresh[1]);
    watch(w, 0, LOOP_READ, on_event);
}

static void test_same_number(void **state)
{
    (void)state;
    struct world w;
    char byte = 0;
    world_open(&w);
    assert_int_equal(write(w.pair[1], "x", 1), 1);
    watch(&w, 0, LOOP_READ, swap_fd);
    loop_run(w.loop);
    assert_int_equal(w.calls, 2);
    assert_int_equal(read(w.pair[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    world_close(&w);
}

static void on_first(void *ctx)
{
    struct world *w = ctx;
    w->order[w->calls++] = '1';
    loop_timer_free(w->timers[0]);
    loop_timer_free(w->timers[2]); /* it never fires */
}

static void on_second(void *ctx)
{
    struct world *w = ctx;
    w->order[w->calls++] = '2';
    loop_timer_free(w->timers[1]);
}

static void on_never(void *ctx)
{
    struct world *w = ctx;
    w->order[w->calls++] = '!';
}

static void test_timers(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    w.timers[1] = loop_timer_new(w.loop, 20, on_second, &w);
    w.timers[0] = loop_timer_new(w.loop, 0, on_first, &w);
    w.timers[2] = loop_timer_new(w.loop, 10, on_never, &w);
    loop_run(w.loop);
    assert_string_equal(w.order, "12");
    world_close(&w);
}

static void on_due(void *ctx)
{
    loop_stop(ctx);
}

static void on_noise(void *ctx, unsigned events)
{
    (void)ctx;
    (void)events;
}

/* Least of all in a loop that never waits, and so sees each millisecond begin. */
static void test_early(void **state)
{
    (void)state;
    struct loop *loop;
    struct loop_watch *noise;
    struct error err;
    int fd = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(loop_open(&loop, &err), 0);
    assert_int_equal(loop_watch_new(&noise, loop, fd, LOOP_READ, on_noise, NULL, &err), 0);
    for (int i = 0; i < 50; i++) {
        int64_t start_ns = clock_now_ns();
        struct loop_timer *timer = loop_timer_new(loop, 2, on_due, loop);
        loop_run(loop);
        assert_true(clock_now_ns() - start_ns >= 2 * 1000000);
        loop_timer_free(timer);
    }
    loop_watch_free(noise);
    close(fd);
    loop_free(loop);
}

static void on_signal(void *ctx, int signal)
{
    struct world *w = ctx;
    w->signal_seen = signal;
    loop_signal_free(w->signal);
}

static void test_signal(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    assert_int_equal(loop_signal_new(&w.signal, w.loop, SIGUSR1, on_signal, &w, &err), 0);
    raise(SIGUSR1);
    loop_run(w.loop);
    assert_int_equal(w.signal_seen, SIGUSR1);
    assert_int_equal(loop_signal_new(&w.signal, w.loop, SIGKILL, on_signal, &w, &err), -1);
    assert_int_equal(err.sys_errno, EINVAL);
    world_close(&w);
}

static void stop(void *ctx)
{
    struct world *w = ctx;
    w->calls++;
    loop_stop(w->loop);
}

static void test_stop(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    watch(&w, 0, LOOP_READ, on_event); /* never ready: only the stop ends the run */
    w.timers[0] = loop_timer_new(w.loop, 0, stop, &w);
    loop_run(w.loop);
    assert_int_equal(w.calls, 1);
    loop_timer_free(w.timers[0]);
    loop_watch_free(w.watches[0]);
    world_close(&w);
}

/* As when something fails before the loop runs at all. */
static void test_stop_before_free(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    watch(&w, 0, LOOP_READ, on_event);
    loop_stop(w.loop);
    loop_watch_free(w.watches[0]);
    world_close(&w);
}

static void on_turn(void *ctx)
{
    struct world *w = ctx;
    w->calls++;
}

static void on_last(void *ctx)
{
    struct world *w = ctx;
    loop_timer_free(w->timers[0]);
}

static void test_turn(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct loop_turn *turn = loop_turn_new(w.loop, on_turn, &w);
    w.timers[0] = loop_timer_new(w.loop, 1, on_last, &w);
    loop_run(w.loop); /* which it does not keep from ending */
    assert_true(w.calls >= 1);
    loop_turn_free(turn);
    world_close(&w);
}

/* How often a loop turns that waits for a few milliseconds, with so many answers that never come. A
 * loop that sleeps meanwhile turns for each event. */
static unsigned count_turns(struct world *w, unsigned answers)
{
    w->calls = 0;
    struct loop_turn *turn = loop_turn_new(w->loop, on_turn, w);
    w->timers[0] = loop_timer_new(w->loop, 5, on_last, w);
    for (unsigned i = 0; i < answers; i++)
        loop_expect(w->loop);
    loop_run(w->loop);
    for (unsigned i = 0; i < answers; i++)
        loop_met(w->loop);
    loop_turn_free(turn);
    return w->calls;
}

#define TURNS_OF_A_SLEEPER 4
#define TRIES              1000 /* the processor may be somebody else's */

static bool is_selfish;

/* In place of the one of libc: who is let go first beside a compiler keeps the processor for longer
 * than the loop looks out for an answer, each time. */
int sched_yield(void)
{
    return is_selfish ? 0 : (int)syscall(SYS_sched_yield);
}

static void test_expect(void **state)
{
    (void)state;
    struct world w;
    struct timespec before, after;
    unsigned turns = 0;
    world_open(&w);
    is_selfish = true;
    assert_in_range(count_turns(&w, 1), 1, TURNS_OF_A_SLEEPER); /* none has come at once */
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    unsigned tries = 0;
    for (; turns <= TURNS_OF_A_SLEEPER && tries < TRIES; tries++) {
        loop_expect(w.loop);
        loop_met(w.loop);
        turns = count_turns(&w, 1);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true(turns > TURNS_OF_A_SLEEPER);
    /* ...for a moment: it slept for the rest of the time */
    int64_t ns = (after.tv_sec - before.tv_sec) * 1000000000ll + after.tv_nsec - before.tv_nsec;
    assert_true(ns < (int64_t)tries * 2500000);
    assert_in_range(count_turns(&w, 1), 1, TURNS_OF_A_SLEEPER); /* that one did not come at once */
    for (int i = 0; i < 10; i++) {
        loop_expect(w.loop);
        loop_met(w.loop);
        assert_in_range(count_turns(&w, 2), 1, TURNS_OF_A_SLEEPER); /* it waits for several */
    }
    is_selfish = false;
    world_close(&w);
}

/* --- letting others go first --- */

/* A child that never sleeps, on the one processor that both have. */
static pid_t start_hog(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    while (pid == 0)
        ;
    return pid;
}

/* A thousand times its share would be more than a second. */
static void test_yield(void **state)
{
    (void)state;
    struct world w;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    world_open(&w);
    pid_t pid = start_hog();
    int64_t start = clock_now_ns();
    for (int i = 0; i < 1000; i++)
        loop_yield(w.loop);
    int64_t took = clock_now_ns() - start;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sched_setaffinity(0, sizeof(before), &before);
    world_close(&w);
    assert_true(took < 500000000);
}

static void test_null(void **state)
{
    (void)state;
    loop_free(NULL);
    loop_watch_free(NULL);
    loop_timer_free(NULL);
    loop_signal_free(NULL);
    loop_turn_free(NULL);
}

/* --- work ------------------------------------------------------------------------------------ */

struct labour {
    struct world *w;
    pthread_t thread;
    unsigned runs, dones, rounds;
};

static void run_labour(void *ctx)
{
    struct labour *l = ctx;
    l->thread = pthread_self();
    l->runs++;
}

static void end_labour(void *ctx)
{
    struct labour *l = ctx;
    l->dones++;
    assert_int_equal(l->runs, l->dones);
    if (l->dones < l->rounds)
        loop_work(l->w->loop, run_labour, end_labour, l);
}

static void test_work(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct labour l = {.w = &w, .rounds = 1};
    loop_work(w.loop, run_labour, end_labour, &l);
    assert_int_equal(l.dones, 0); /* never from inside the call */
    loop_run(w.loop);
    assert_int_equal(l.dones, 1);
    assert_false(pthread_equal(l.thread, pthread_self()));
    world_close(&w);
}

static void test_work_at_the_end(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct labour l = {.w = &w, .rounds = 3};
    loop_work(w.loop, run_labour, end_labour, &l);
    loop_stop(w.loop);
    world_close(&w);
    assert_int_equal(l.dones, 3);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a readable fd is told, and made non-blocking", test_read);
    check_one(&check, "a writable fd is told", test_write);
    check_one(&check, "what is waited for can be changed", test_set);
    check_one(&check, "the end of the other side is told", test_hangup);
    check_one(&check, "a writer hears that its reader is gone", test_broken_pipe);
    check_one(&check, "a file cannot be watched", test_file);
    check_one(&check, "a watch freed in the same turn is not called", test_no_call_after_free);
    check_one(&check, "a number that is used again belongs to the new file", test_same_number);
    check_one(&check, "timers fire in order, and not after their free", test_timers);
    check_one(&check, "timers are never early", test_early);
    check_one(&check, "a signal is told; one that cannot be caught is an error", test_signal);
    check_one(&check, "a stop ends the run", test_stop);
    check_one(&check, "a loop that was stopped can be freed", test_stop_before_free);
    check_one(&check, "the end of each turn is told", test_turn);
    check_one(&check, "an answer that comes at once is not slept for", test_expect);
    check_one(&check, "those who are busy are not let go first each time", test_yield);
    check_one(&check, "freeing nothing is fine", test_null);
    check_one(&check, "has work done by another thread", test_work);
    check_one(&check, "waits at its end for work, and for what comes of it", test_work_at_the_end);
    return check_run(&check, "loop");
}
