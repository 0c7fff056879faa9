/* test_selfstat.c - the figures of this process follow what it does */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/selfstat.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/memory.h"
#include "check.h"

static struct selfstat_info info_of(const struct selfstat *self)
{
    struct selfstat_info info;
    selfstat_get_info(self, &info);
    return info;
}

static void test_fds(void **state)
{
    (void)state;
    scoped(selfstat) struct selfstat *self = selfstat_new();
    uint64_t before = info_of(self).open_fds;
    scoped_fd int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
    scoped_fd int two = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(one >= 0 && two >= 0);
    assert_int_equal(info_of(self).open_fds, before + 2);
    scoped_fd int high = fcntl(one, F_DUPFD_CLOEXEC, 900); /* behind a gap */
    assert_true(high >= 900);
    assert_int_equal(info_of(self).open_fds, before + 3);
}

/* As the folder that shows them, which is open itself while one looks. */
static void test_all_fds(void **state)
{
    (void)state;
    scoped(selfstat) struct selfstat *self = selfstat_new();
    DIR *dir = opendir("/proc/self/fd");
    uint64_t listed = 0;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        listed += e->d_name[0] != '.';
    assert_int_equal(info_of(self).open_fds, listed);
    closedir(dir);
}

static void test_memory(void **state)
{
    (void)state;
    scoped(selfstat) struct selfstat *self = selfstat_new();
    const size_t size = 32 * MIB;
    struct selfstat_info before = info_of(self);
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(block, MAP_FAILED);
    memset(block, 1, size);
    struct selfstat_info after = info_of(self);
    munmap(block, size);
    assert_true(after.resident_bytes >= before.resident_bytes + size * 9 / 10);
    assert_true(after.virtual_bytes >= before.virtual_bytes + size);
    assert_true(after.cpu_seconds >= before.cpu_seconds && after.cpu_seconds > 0);
    assert_int_equal(after.threads, 1);
}

/* What is given back to the allocator counts no more, though it may keep it. */
static void test_heap(void **state)
{
    (void)state;
    void *volatile blocks[1000];
    if (mallinfo2().uordblks == 0)
        check_skip("a sanitizer's allocator does not tell");
    scoped(selfstat) struct selfstat *self = selfstat_new();
    uint64_t before = info_of(self).heap_bytes;
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        blocks[i] = xmalloc(4 * KIB);
    void *volatile large = xmalloc(32 * MIB);
    uint64_t held = info_of(self).heap_bytes;
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        free(blocks[i]);
    free(large);
    assert_in_range(held - before, 35 * MIB, 37 * MIB);
    assert_in_range(info_of(self).heap_bytes, before, before + 64 * KIB);
}

/* Fields are found by their place, which blanks and braces in the name must not shift. */
static void test_name(void **state)
{
    (void)state;
    scoped(selfstat) struct selfstat *self = selfstat_new();
    assert_int_equal(prctl(PR_SET_NAME, "a) R 1 (b", 0, 0, 0), 0);
    assert_int_equal(info_of(self).threads, 1);
    assert_true(info_of(self).resident_bytes > 100 * KIB);
}

int main(void)
{
    struct check check = {0};
    check_one(&check, "open files are counted", test_fds);
    check_one(&check, "as many as /proc shows", test_all_fds);
    check_one(&check, "memory and time grow", test_memory);
    check_one(&check, "what was freed is not in use", test_heap);
    check_one(&check, "a name that looks like fields", test_name);
    return check_run(&check, "selfstat");
}
