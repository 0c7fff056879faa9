/* test_meter.c - files as both versions of cgroups have them */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/meter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define SLOT 12
#define NEST 3

static const struct {
    const char *path, *text;
} files[] = {
    {"12/memory.max_usage_in_bytes", "4096\n"},
    {"12/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"},
    {"12/pids.events", "max 5\n"},
    {"12/cpuacct.usage", "7000999\n"},
    {"3/12/memory.peak", "8192\n"},
    {"3/12/memory.events", "low 0\noom 9\noom_kill 1\noom_group_kill 4\n"},
    {"3/12/pids.events", "max 6\n"},
    {"3/12/cpu.stat", "usage_usec 11\nuser_usec 5\nsystem_usec 6\n"},
};

/* A directory that stands for every hierarchy. */
static int make_tree(char path[])
{
    assert_non_null(mkdtemp(path));
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(mkdirat(dir, "12", 0755) | mkdirat(dir, "3", 0755), 0);
    assert_int_equal(mkdirat(dir, "3/12", 0755), 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        scoped_fd int fd = openat(dir, files[i].path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        size_t len = strlen(files[i].text);
        assert_int_equal(write(fd, files[i].text, len), len);
    }
    return dir;
}

static void remove_tree(int dir, const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_int_equal(unlinkat(dir, files[i].path, 0), 0);
    assert_int_equal(unlinkat(dir, "3/12", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(dir, "3", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(dir, "12", AT_REMOVEDIR), 0);
    close(dir);
    assert_int_equal(rmdir(path), 0);
}

static void expect(const struct spawn_stats *s, uint64_t cpu_us, uint64_t peak, unsigned kills,
                   unsigned refused)
{
    assert_int_equal(s->cpu_us, cpu_us);
    assert_int_equal(s->memory_peak_bytes, peak);
    assert_int_equal(s->oom_kills, kills);
    assert_int_equal(s->pids_refused, refused);
}

static bool meter_read(const struct meter *m, uint32_t slot, uint32_t nest, struct spawn_stats *out)
{
    struct meter_files open;
    meter_open(m, slot, nest, &open);
    bool is_whole = meter_read_files(m, &open, out);
    assert_int_equal(meter_read_cpu_us(m, open.fds[METER_CPU]), out->cpu_us);
    meter_close(&open);
    return is_whole;
}

static void test_versions(void **state)
{
    (void)state;
    char path[] = "/tmp/cove-meter-XXXXXX";
    int dir = make_tree(path);
    struct spawn_stats s = {.disk_used_bytes = 77};
    const struct meter first = {.dirs = {dir, dir, dir}, .versions = {1, 1, 1}};
    const struct meter second = {.dirs = {dir, dir, dir}, .versions = {2, 2, 2}};
    const struct meter hybrid = {.dirs = {dir, dir, dir}, .versions = {1, 1, 2}};
    assert_true(meter_read(&first, SLOT, SPAWN_NO_NEST, &s));
    expect(&s, 7000, 4096, 2, 5);
    assert_true(meter_read(&first, SLOT, NEST, &s)); /* version 1 does not nest */
    expect(&s, 7000, 4096, 2, 5);
    assert_true(meter_read(&second, SLOT, NEST, &s));
    expect(&s, 11, 8192, 1, 6);
    assert_true(meter_read(&hybrid, SLOT, NEST, &s));
    expect(&s, 11, 4096, 2, 5);
    assert_int_equal(s.disk_used_bytes, 77);
    remove_tree(dir, path);
}

static void test_missing(void **state)
{
    (void)state;
    char path[] = "/tmp/cove-meter-XXXXXX";
    int dir = make_tree(path);
    struct spawn_stats s = {.memory_peak_bytes = 1, .oom_kills = 2, .pids_refused = 3};
    const struct meter second = {.dirs = {dir, dir, dir}, .versions = {2, 2, 2}};
    const struct meter none = {.dirs = {-1, -1, -1}};
    const struct meter some = {.dirs = {dir, -1, -1}, .versions = {1}};
    assert_false(meter_read(&second, SLOT, SPAWN_NO_NEST, &s)); /* no group of that name there */
    assert_false(meter_read(&second, SLOT + 1, NEST, &s));
    assert_false(meter_read(&none, SLOT, NEST, &s));
    expect(&s, 0, 1, 2, 5); /* one file has the same name in both versions */
    assert_false(meter_read(&some, SLOT, NEST, &s));
    assert_int_equal(s.memory_peak_bytes, 4096);
    remove_tree(dir, path);
}

static void test_numbers(void **state)
{
    (void)state;
    char path[] = "/tmp/cove-meter-XXXXXX";
    int dir = make_tree(path);
    assert_int_equal(meter_read_number(dir, "3/12/memory.events", "oom"), 9);
    assert_int_equal(meter_read_number(dir, "3/12/memory.events", "oom_group_kill"), 4);
    assert_int_equal(meter_read_number(dir, "3/12/memory.events", "oom_"), 0);
    assert_int_equal(meter_read_number(dir, "3/12/memory.events", NULL), 0);
    assert_int_equal(meter_read_number(dir, "3/12/memory.peak", NULL), 8192);
    assert_int_equal(meter_read_number(dir, "3/12/nothing", NULL), 0);
    remove_tree(dir, path);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "reads the files of either version, and of both at once", test_versions);
    check_one(&check, "leaves alone what is not counted", test_missing);
    check_one(&check, "finds a number by its whole key", test_numbers);
    return check_run(&check, "meter");
}
