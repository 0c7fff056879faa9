/* test_large_page.c - memory that is moved under a process, which notices nothing
 *
 * Each test moves the memory of a child: what is moved stays so. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "large_page.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define NONE_HERE 77 /* exit code of a child that got no large pages */
#define BLOCKS    2000
#define SPAN      (8 * MIB)

#if defined(__SANITIZE_ADDRESS__)
#define IS_WATCHED true
#else
#define IS_WATCHED false
#endif

/* In a child, whose checks are conditions: 0 is "all hold". */
static void run_child(int (*run)(void))
{
    int status;
    if (IS_WATCHED)
        check_skip("sanitizers know where memory lies");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(run());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NONE_HERE)
        check_skip("the kernel has no large pages for us");
    assert_int_equal(status, 0);
}

#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(2, "line %d: %s\n", __LINE__, #condition);                                     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* A line of smaps for the mapping that holds `at`, in KiB; its first line goes to `head`. */
static long look_up(const void *at, const char *key, char head[256])
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[256];
    bool is_in = false;
    unsigned long start, end;
    long found = -1;
    while (file && found < 0 && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            is_in = start <= (uintptr_t)at && (uintptr_t)at < end;
            if (is_in)
                memcpy(head, line, sizeof(line));
        } else if (is_in && strncmp(line, key, strlen(key)) == 0) {
            found = strtol(line + strlen(key), NULL, 10);
        }
    }
    if (file)
        fclose(file);
    return found;
}

static char *map_filled(void)
{
    char *at = large_page_map(SPAN);
    if (!at || madvise(at, SPAN, MADV_NOHUGEPAGE) < 0)
        return NULL;
    for (size_t i = 0; i < SPAN; i++)
        at[i] = (char)(i * 31 / 7);
    return at;
}

static bool is_filled(const char *at)
{
    for (size_t i = 0; i < SPAN; i++) {
        if (at[i] != (char)(i * 31 / 7))
            return false;
    }
    return true;
}

/* --- what stays ------------------------------------------------------------------------------ */

static char written[64 * 1024] = "a page of the program's own";
static const char constant[] = "what nobody writes to";

static int keep_all(void)
{
    unsigned char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = xmalloc(i * 7 + 1);
        memset(blocks[i], (int)(i % 251), i * 7 + 1);
    }
    memset(written + 4096, 'w', sizeof(written) - 4096);
    char *filled = map_filled();
    HOLDS(filled);
    if (!large_page_gather(NULL, NULL))
        return NONE_HERE;
    HOLDS(is_filled(filled));
    HOLDS(strcmp(written, "a page of the program's own") == 0 &&
          written[sizeof(written) - 1] == 'w');
    HOLDS(strcmp(constant, "what nobody writes to") == 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; k < i * 7 + 1; k++)
            HOLDS(blocks[i][k] == i % 251);
    }
    /* the allocator goes on, with what it had and with more */
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        memset(xmalloc(5000), 1, 5000);
    free(xmalloc(SPAN));
    return 0;
}

/* A copy and its parent write to what both have. */
static int fork_on(void)
{
    char *filled = map_filled();
    int status;
    HOLDS(filled);
    if (!large_page_gather(NULL, NULL))
        return NONE_HERE;
    pid_t pid = fork();
    if (pid == 0) {
        memset(filled, 'c', SPAN / 2);
        memcpy(written, "copy", 5);
        _exit(filled[0] == 'c' && written[0] == 'c' ? 0 : 1);
    }
    HOLDS(waitpid(pid, &status, 0) == pid && status == 0);
    HOLDS(is_filled(filled) && written[0] == 'a');
    HOLDS(large_page_gather(NULL, NULL)); /* and once more */
    HOLDS(is_filled(filled));
    return 0;
}

/* --- where it lies --------------------------------------------------------------------------- */

static int lie_large(void)
{
    char head[256], *filled = map_filled(), *left_out = map_filled(),
                    *sparse = large_page_map(SPAN);
    HOLDS(filled && left_out && sparse);
    HOLDS(madvise(sparse, SPAN, MADV_NOHUGEPAGE) == 0);
    sparse[0] = 1;
    if (!large_page_gather(left_out, left_out + SPAN))
        return NONE_HERE;
    HOLDS(look_up(filled, "AnonHugePages:", head) >= (long)(SPAN / KIB) / 2);
    HOLDS(look_up(left_out, "AnonHugePages:", head) == 0 && is_filled(left_out));
    HOLDS(look_up(sparse, "Rss:", head) == 4); /* nothing was made of what is not there */
    return 0;
}

/* More than is moved at a time. */
static int move_much(void)
{
    size_t size = 70 * MIB, left = 0;
    char head[256], *at = large_page_map(size);
    HOLDS(at && madvise(at, size, MADV_NOHUGEPAGE) == 0);
    for (size_t i = 0; i < size; i += 4096)
        memcpy(at + i + 8, &i, sizeof(i));
    if (!large_page_gather(NULL, NULL))
        return NONE_HERE;
    for (size_t i = 0; i < size; i += 4096) {
        size_t value;
        memcpy(&value, at + i + 8, sizeof(value));
        HOLDS(value == i);
        left += i % (2 * MIB) == 0 && look_up(at + i, "AnonHugePages:", head) == 0;
    }
    HOLDS(left == 0);
    return 0;
}

/* A private mapping of a file, as code has it, at the start of a large page. */
static char *map_file(size_t size)
{
    scoped_fd int fd = memfd_create("code", MFD_CLOEXEC);
    char *room = large_page_map(size);
    if (fd < 0 || !room || ftruncate(fd, (off_t)size) < 0)
        return NULL;
    for (size_t i = 0; i < size; i += 4096) {
        if (pwrite(fd, &i, sizeof(i), (off_t)i) < 0)
            return NULL;
    }
    return mmap(room, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
}

static int move_code(void)
{
    char head[256], *used = map_file(SPAN), *unused = map_file(SPAN);
    size_t sum = 0, value;
    HOLDS(used && used != MAP_FAILED && unused && unused != MAP_FAILED);
    for (size_t i = 0; i < SPAN; i += 4096)
        sum += (size_t)used[i];
    HOLDS(sum == 0);
    if (!large_page_gather(NULL, NULL))
        return NONE_HERE;
    HOLDS(look_up(used, "AnonHugePages:", head) >= (long)(SPAN / KIB));
    HOLDS(strstr(head, "r-xp") && !strchr(head, '/'));
    HOLDS(look_up(unused, "AnonHugePages:", head) == 0);
    HOLDS(strstr(head, "r-xp") && strstr(head, "memfd:code"));
    for (size_t i = 0; i < SPAN; i += 4096) {
        memcpy(&value, used + i, sizeof(value));
        HOLDS(value == i);
    }
    return 0;
}

static void test_keep(void **state)
{
    (void)state;
    run_child(keep_all);
}

static void test_fork(void **state)
{
    (void)state;
    run_child(fork_on);
}

static void test_large(void **state)
{
    (void)state;
    run_child(lie_large);
}

static void test_much(void **state)
{
    (void)state;
    run_child(move_much);
}

static void test_code(void **state)
{
    (void)state;
    run_child(move_code);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "what is moved is as it was, and the allocator goes on", test_keep);
    check_one(&check, "copies write to pages of their own", test_fork);
    check_one(&check, "what was written lies in large pages, and nothing else", test_large);
    check_one(&check, "much is moved bit by bit", test_much);
    check_one(&check, "code that is used is moved, and cannot be written to", test_code);
    return check_run(&check, "large_page");
}
