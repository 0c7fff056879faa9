/* test_machine.c - figures from files of /proc and of cgroups, of both versions */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define MEMINFO "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\n"

struct file {
    const char *path, *text;
};

struct machine_case {
    const char *name;
    struct file files[12];
    struct machine expected; /* without the open files; memory_bytes 0: it fails */
};

static const struct machine_case cases[] = {
    {"without meminfo nothing is known", {{"/proc/loadavg", "0 0 0 1/7 9\n"}}, {0}},
    {"the machine alone",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/proc/sys/kernel/threads-max", "900\n"},
      {"/proc/loadavg", "0.10 0.20 0.30 2/145 4568\n"}},
     {1000 * 1024, 800 * 1024, 500, 145}},
    {"threads may be fewer than pids",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/proc/sys/kernel/threads-max", "90\n"},
      {"/proc/loadavg", "0 0 0 2/45 4568\n"}},
     {1000 * 1024, 800 * 1024, 90, 45}},
    {"an own group of version 2 limits",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "409600\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "204800\n"},
      {"/sys/fs/cgroup/a/b/pids.max", "40\n"},
      {"/sys/fs/cgroup/a/b/pids.current", "4\n"}},
     {409600, 204800, 40, 4}},
    {"what is cached and idle is not used",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/a\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/a/memory.max", "409600\n"},
      {"/sys/fs/cgroup/a/memory.current", "204800\n"},
      {"/sys/fs/cgroup/a/memory.stat", "file 9\ninactive_file 102400\n"}},
     {409600, 307200, 500, 0}},
    {"a group above limits, too",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
      {"/sys/fs/cgroup/a/memory.max", "409600\n"},
      {"/sys/fs/cgroup/a/memory.current", "400000\n"}},
     {409600, 9600, 500, 0}},
    {"so does a larger one that is nearly full",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "102400\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "2400\n"},
      {"/sys/fs/cgroup/a/memory.max", "409600\n"},
      {"/sys/fs/cgroup/a/memory.current", "400000\n"}},
     {102400, 9600, 500, 0}},
    {"the topmost, in a container",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/memory.max", "409600\n"},
      {"/sys/fs/cgroup/memory.current", "1\n"}},
     {409600, 409599, 500, 0}},
    {"groups of version 1 limit",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "5:pids:/p\n4:memory:/a\n0::/\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "409600\n"},
      {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "204800\n"},
      {"/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 5\ntotal_inactive_file 4800\n"},
      {"/sys/fs/cgroup/pids/p/pids.max", "30\n"},
      {"/sys/fs/cgroup/pids/p/pids.current", "3\n"}},
     {409600, 209600, 30, 3}},
    {"a limit above the machine's size is none",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "4:memory:/\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "204800\n"}},
     {1000 * 1024, 800 * 1024, 500, 0}},
    {"a group over its limit leaves nothing",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/a\n"},
      {"/proc/sys/kernel/pid_max", "500\n"},
      {"/sys/fs/cgroup/a/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/memory.current", "2000\n"}},
     {1000, 0, 500, 0}},
};

static void write_file(const char *root, const struct file *f)
{
    scoped_free char *path = xasprintf("%s%s", root, f->path);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(f->text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_case(void **state)
{
    const struct machine_case *row = *state;
    struct machine m = {0};
    struct error err;
    char *root = check_temp_dir();
    for (const struct file *f = row->files; f->path; f++)
        write_file(root, f);
    int status = machine_read(&m, root, &err);
    check_remove_dir(root);
    if (row->expected.memory_bytes == 0) {
        assert_int_equal(status, -1);
        assert_int_equal(err.code, ERROR_UNAVAILABLE);
        return;
    }
    assert_int_equal(status, 0);
    assert_int_equal(m.memory_bytes, row->expected.memory_bytes);
    assert_int_equal(m.available_bytes, row->expected.available_bytes);
    assert_int_equal(m.pids_max, row->expected.pids_max);
    assert_int_equal(m.pids_now, row->expected.pids_now);
}

static void test_here(void **state)
{
    (void)state;
    struct machine m;
    struct error err;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(machine_read(&m, "", &err), 0);
    assert_true(m.available_bytes > 0 && m.available_bytes <= m.memory_bytes);
    assert_true(m.pids_now > 0 && m.pids_now < m.pids_max);
    assert_int_equal(m.files_max, MIN(files.rlim_cur, (rlim_t)UINT32_MAX));
}

int main(void)
{
    struct check check = {0};
    check_rows(&check, cases, test_case);
    check_one(&check, "reads the machine that it runs on", test_here);
    return check_run(&check, "machine");
}
