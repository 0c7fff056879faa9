/* test_memwatch.c - the memory of a tree of processes, counted from outside */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/memwatch.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scoped.h"
#include "check.h"

#define AMOUNT (24 * MIB)
#define SLACK  (8 * MIB) /* what a child has of its own anyway, also under a sanitizer */

static NORETURN void wait_for_kill(void)
{
    for (;;)
        pause();
}

/* Touches `AMOUNT` bytes mapped with `flags` (0: none), `depth` forks below the caller. */
static NORETURN void take_memory(int flags, int depth, int ready_fd)
{
    for (; depth > 0; depth--) {
        if (fork() != 0)
            wait_for_kill();
    }
    char *memory = flags ? mmap(NULL, AMOUNT, PROT_READ | PROT_WRITE, flags, -1, 0) : NULL;
    if (memory && memory != MAP_FAILED)
        memset(memory, 1, AMOUNT);
    (void)!write(ready_fd, memory == MAP_FAILED ? "n" : "y", 1);
    wait_for_kill();
}

/* The sum of a child that does that. */
static uint64_t sum_of(int flags, int depth)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        take_memory(flags, depth, ready[1]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ready[0]);
    uint64_t sum = memwatch_sum(pid, -1, UINT64_MAX);
    kill(-pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return sum;
}

struct memory_case {
    const char *name;
    int flags;
    int depth;
};

static const struct memory_case cases[] = {
    {"private memory is counted", MAP_PRIVATE | MAP_ANONYMOUS, 0},
    {"shared memory is counted", MAP_SHARED | MAP_ANONYMOUS, 0},
    {"private memory of a child is counted", MAP_PRIVATE | MAP_ANONYMOUS, 1},
    {"shared memory of a grandchild is counted", MAP_SHARED | MAP_ANONYMOUS, 2},
};

/* A map without any memory, of which a byte in each 2 MiB is read: tables for 24 MiB. */
static NORETURN void take_tables(int ready_fd)
{
    const size_t step = 2 * MIB, size = AMOUNT / (4 * KIB) * step;
    const volatile char *map =
        mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0; map != MAP_FAILED && at < size; at += step)
        (void)map[at];
    (void)!write(ready_fd, map == MAP_FAILED ? "n" : "y", 1);
    wait_for_kill();
}

static void test_page_tables(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    uint64_t without = sum_of(0, 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        take_tables(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ready[0]);
    uint64_t quick = memwatch_sum(pid, -1, UINT64_MAX), exact = memwatch_sum(pid, -1, 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_in_range(quick, without + AMOUNT - SLACK, without + AMOUNT + SLACK);
    assert_in_range(exact, AMOUNT, without + AMOUNT + SLACK);
}

static void test_case(void **state)
{
    const struct memory_case *row = *state;
    uint64_t without = sum_of(0, row->depth), with = sum_of(row->flags, row->depth);
    assert_true(with >= without + AMOUNT - SLACK);
    assert_true(with <= without + AMOUNT + SLACK);
}

/* A process whose child has the same pages, copy on write. */
static void test_shared_pages(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        char *memory =
            mmap(NULL, AMOUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 1, AMOUNT);
        if (fork() >= 0)
            (void)!write(ready[1], "y", 1); /* both do, and both wait to be killed */
        for (;;)
            pause();
    }
    close(ready[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    uint64_t quick = memwatch_sum(pid, -1, UINT64_MAX), exact = memwatch_sum(pid, -1, 0);
    kill(-pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(quick >= 2 * AMOUNT);
    assert_true(exact >= AMOUNT && exact <= quick - AMOUNT / 2);
}

static void test_storage(void **state)
{
    (void)state;
    scoped_fd int shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shm < 0)
        check_skip("no /dev/shm here");
    scoped_fd int file = openat(shm, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || posix_fallocate(file, 0, AMOUNT) != 0)
        check_skip("/dev/shm cannot be written");
    uint64_t none = memwatch_sum(INT32_MAX, -1, UINT64_MAX),
             some = memwatch_sum(INT32_MAX, shm, UINT64_MAX);
    assert_int_equal(none, 0); /* neither process nor storage */
    assert_true(some >= AMOUNT);
}

int main(void)
{
    struct check check = {.count = 0};
    if (unshare(CLONE_NEWNET) < 0) /* sockets of the host's count, and come and go */
        (void)!unshare(CLONE_NEWUSER | CLONE_NEWNET);
    check_rows(&check, cases, test_case);
    check_one(&check, "above the limit, pages that a fork shares count once", test_shared_pages);
    check_one(&check, "tables of a map that is only read are counted", test_page_tables);
    check_one(&check, "what lies in the storage is counted", test_storage);
    return check_run(&check, "memwatch");
}
