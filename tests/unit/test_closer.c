/* test_closer.c - closes that wait, and those behind them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/closer.h"

#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "base/memory.h"
#include "linger.h"

#define PATIENCE_MS 60000
#define AT_ONCE_NS  10000000000ll /* what waited would wait for LINGER_SECONDS */

/* Waits until the other end of this pipe is closed. */
static void expect_closed(int reader)
{
    char byte;
    struct pollfd p = {.fd = reader, .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(read(reader, &byte, 1), 0);
    close(reader);
}

static int add_pipe(struct closer *c)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    closer_add(c, ends[1]);
    return ends[0];
}

static void test_closes(void **state)
{
    (void)state;
    int readers[100];
    scoped(closer) struct closer *c = closer_new();
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        readers[i] = add_pipe(c);
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        expect_closed(readers[i]);
}

/* One less than there are threads stand, and what comes behind them is closed. */
static void test_one_that_waits(void **state)
{
    (void)state;
    int peers[CLOSER_THREADS_MAX - 1];
    int64_t start_ns = clock_now_ns();
    struct closer *c = closer_new();
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        closer_add(c, linger_open(&peers[i]));
    for (int i = 0; i < 20; i++)
        expect_closed(add_pipe(c));
    closer_free(c); /* does not wait for them either */
    assert_true(clock_now_ns() - start_ns < AT_ONCE_NS);
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        close(peers[i]); /* which ends their wait */
}

static void test_more_than_threads(void **state)
{
    (void)state;
    int peers[CLOSER_THREADS_MAX];
    scoped(closer) struct closer *c = closer_new();
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        closer_add(c, linger_open(&peers[i]));
    int reader = add_pipe(c);
    close(peers[0]);
    expect_closed(reader); /* as soon as one goes on */
    for (size_t i = 1; i < ARRAY_LEN(peers); i++)
        close(peers[i]);
}

static void test_last_words(void **state)
{
    (void)state;
    struct closer *c = closer_new();
    int reader = add_pipe(c);
    closer_free(c);
    expect_closed(reader); /* what was taken is closed all the same */
    closer_free(closer_new());
    closer_free(NULL);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "closes what it is given", test_closes);
    check_one(&check, "a close that waits holds up nobody", test_one_that_waits);
    check_one(&check, "more that wait than there are threads", test_more_than_threads);
    check_one(&check, "what was taken is closed behind its end", test_last_words);
    return check_run(&check, "closer");
}
