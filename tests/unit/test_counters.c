/* test_counters.c - files stay open while they are asked for, and never tell of another sandbox */
/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/counters.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

static const char *const names[] = {"memory.peak", "memory.events", "pids.events", "cpu.stat"};

struct world {
    char *path;
    struct loop *loop;
    struct counters counters;
    unsigned fds; /* without those of sandboxes */
};

static void put(const struct world *w, unsigned slot, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "%u/%s", slot, name);
    scoped_fd int fd =
        openat(w->counters.meter.dirs[0], path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void put_group(const struct world *w, unsigned slot, unsigned peak)
{
    char text[32];
    snprintf(text, sizeof(text), "%u", slot);
    mkdirat(w->counters.meter.dirs[0], text, 0755);
    snprintf(text, sizeof(text), "%u\n", peak);
    put(w, slot, "memory.peak", text);
    put(w, slot, "memory.events", "oom_kill 1\n");
    put(w, slot, "pids.events", "max 2\n");
    put(w, slot, "cpu.stat", "usage_usec 3\n");
}

/* As the kernel does with the files of a group that is removed: who has them open reads nothing. */
static void remove_group(const struct world *w, unsigned slot)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64];
        put(w, slot, names[i], "");
        snprintf(path, sizeof(path), "%u/%s", slot, names[i]);
        assert_int_equal(unlinkat(w->counters.meter.dirs[0], path, 0), 0);
    }
}

static void begin(struct world *w)
{
    struct error err;
    *w = (struct world){.path = check_temp_dir()};
    assert_int_equal(loop_open(&w->loop, &err), 0);
    counters_init(&w->counters, w->loop);
    for (int i = 0; i < SPAWN_METER_COUNT; i++) {
        w->counters.meter.dirs[i] = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->counters.meter.versions[i] = 2;
    }
    w->fds = check_count_fds();
}

static void end(struct world *w)
{
    counters_release(&w->counters);
    assert_int_equal(check_count_fds(), w->fds - SPAWN_METER_COUNT);
    loop_free(w->loop);
    check_remove_dir(w->path);
}

static uint64_t peak_of(struct world *w, unsigned slot)
{
    struct spawn_stats s = {0};
    assert_true(counters_read(&w->counters, slot, SPAWN_NO_NEST, &s));
    assert_true(s.oom_kills == 1 && s.pids_refused == 2 && s.cpu_us == 3);
    return s.memory_peak_bytes;
}

static void test_open(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put_group(&w, 1, 100);
    assert_int_equal(peak_of(&w, 1), 100);
    put(&w, 1, "memory.peak", "200\n");
    assert_int_equal(peak_of(&w, 1), 200);
    assert_int_equal(check_count_fds(), w.fds + METER_COUNTERS);
    end(&w);
}

/* The next sandbox has its number, and not its counters. */
static void test_gone(void **state)
{
    (void)state;
    struct world w;
    struct spawn_stats s = {.memory_peak_bytes = 7};
    begin(&w);
    put_group(&w, 1, 100);
    assert_int_equal(peak_of(&w, 1), 100);
    remove_group(&w, 1);
    assert_false(counters_read(&w.counters, 1, SPAWN_NO_NEST, &s));
    assert_int_equal(s.memory_peak_bytes, 7);
    assert_int_equal(check_count_fds(), w.fds);
    put_group(&w, 1, 300);
    assert_int_equal(peak_of(&w, 1), 300);
    remove_group(&w, 1);
    put_group(&w, 1, 400);
    assert_int_equal(peak_of(&w, 1), 400);
    end(&w);
}

static void test_many(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned slot = 0; slot < 2 * COUNTERS_HOT; slot++) {
            put_group(&w, slot, 10 * slot + round);
            assert_int_equal(peak_of(&w, slot), 10 * slot + round);
        }
    }
    assert_int_equal(check_count_fds(), w.fds + COUNTERS_HOT * METER_COUNTERS);
    end(&w);
}

/* Those that live keep theirs, however many have ended. */
static void test_forget(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put_group(&w, 0, 7);
    assert_int_equal(peak_of(&w, 0), 7);
    for (unsigned slot = 1; slot < 2 * COUNTERS_HOT; slot++) {
        put_group(&w, slot, slot);
        assert_int_equal(peak_of(&w, slot), slot);
        counters_forget(&w.counters, slot, SPAWN_NO_NEST);
        assert_int_equal(check_count_fds(), w.fds + METER_COUNTERS);
    }
    counters_forget(&w.counters, 0, 1); /* another's */
    assert_int_equal(check_count_fds(), w.fds + METER_COUNTERS);
    assert_int_equal(peak_of(&w, 0), 7);
    assert_int_equal(check_count_fds(), w.fds + METER_COUNTERS);
    end(&w);
}

static void on_look(void *ctx)
{
    loop_stop(ctx);
}

static void test_calm(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    put_group(&w, 1, 100);
    peak_of(&w, 1);
    while (check_count_fds() > w.fds) {
        struct loop_timer *look = loop_timer_new(w.loop, 20, on_look, w.loop);
        loop_run(w.loop);
        loop_timer_free(look);
    }
    assert_null(w.counters.timer);
    assert_int_equal(peak_of(&w, 1), 100);
    end(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "they stay open, and tell what is new", test_open);
    check_one(&check, "a group that is gone", test_gone);
    check_one(&check, "of many, only the last stay open", test_many);
    check_one(&check, "those of one that ends make room", test_forget);
    check_one(&check, "when nobody asks they are closed", test_calm);
    return check_run(&check, "counters");
}
