/* test_slot.c - slots across tables, processes and crashes */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/slot.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

#define COUNT 24

static void open_table(struct slot_table *table, const char *dir, unsigned count)
{
    struct error err;
    assert_int_equal(slot_table_open(table, dir, count, &err), 0);
}

static unsigned acquire(struct slot_table *table)
{
    struct error err;
    unsigned slot = UINT32_MAX;
    assert_int_equal(slot_acquire(table, &slot, &err), 0);
    assert_true(slot < table->count);
    return slot;
}

static void assert_full(struct slot_table *table)
{
    struct error err;
    unsigned slot = 4711;
    assert_int_equal(slot_acquire(table, &slot, &err), -1);
    assert_int_equal(err.code, ERROR_UNAVAILABLE);
    assert_int_equal(slot, 4711); /* a failure touches nothing */
}

static void test_two_tables(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table a, b;
    bool is_taken[COUNT] = {false};
    open_table(&a, dir, COUNT);
    open_table(&b, dir, COUNT);
    for (int i = 0; i < COUNT; i++) {
        unsigned slot = acquire(i % 3 ? &a : &b);
        assert_false(is_taken[slot]);
        is_taken[slot] = true;
    }
    assert_full(&a);
    assert_full(&b);
    slot_table_close(&a);
    slot_table_close(&b);
    check_remove_dir(dir);
}

static void test_reuse(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table a, b;
    open_table(&a, dir, COUNT);
    open_table(&b, dir, COUNT);
    for (int i = 0; i < COUNT; i++)
        acquire(&a);
    for (unsigned slot = 0; slot < COUNT; slot++) {
        assert_false(slot_try(&b, slot));
        slot_release(&a, slot);
        assert_true(slot_try(&b, slot));
        assert_false(slot_try(&a, slot));
    }
    assert_full(&a);
    slot_table_close(&a);
    slot_table_close(&b);
    check_remove_dir(dir);
}

/* The kernel grants a lock again to who holds it; the table must not. */
static void test_wrap_around(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table table;
    open_table(&table, dir, COUNT);
    unsigned kept = acquire(&table);
    for (int i = 0; i < 5 * COUNT; i++) {
        unsigned slot = acquire(&table);
        assert_int_not_equal(slot, kept);
        slot_release(&table, slot);
    }
    assert_false(slot_try(&table, kept));
    slot_table_close(&table);
    check_remove_dir(dir);
}

static void test_rest(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table table;
    open_table(&table, dir, COUNT);
    unsigned first = acquire(&table);
    slot_release(&table, first);
    for (int i = 1; i < COUNT; i++) {
        unsigned slot = acquire(&table);
        assert_int_not_equal(slot, first);
    }
    assert_int_equal(acquire(&table), first);
    slot_table_close(&table);
    check_remove_dir(dir);
}

static void test_bounds(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table table;
    open_table(&table, dir, 1);
    assert_int_equal(acquire(&table), 0);
    assert_full(&table);
    assert_false(slot_try(&table, 1));
    assert_false(slot_try(&table, UINT32_MAX));
    slot_table_close(&table);
    open_table(&table, dir, SLOT_COUNT_MAX);
    assert_true(slot_try(&table, 0)); /* closing gave it back */
    assert_true(slot_try(&table, SLOT_COUNT_MAX - 1));
    assert_false(slot_try(&table, SLOT_COUNT_MAX));
    slot_table_close(&table);
    check_remove_dir(dir);
}

/* A process that holds slots and dies without a word. */
static void test_holder_dies(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct slot_table theirs;
        struct error err;
        unsigned slot;
        if (slot_table_open(&theirs, dir, 3, &err) < 0)
            _exit(1);
        while (slot_acquire(&theirs, &slot, &err) == 0)
            ;
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct slot_table ours;
    open_table(&ours, dir, 3);
    assert_full(&ours);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 3; i++)
        acquire(&ours);
    slot_table_close(&ours);
    close(ready[0]);
    check_remove_dir(dir);
}

/* The sealed child must not keep a slot when the spawner has gone. */
static void test_exec_frees(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table table;
    open_table(&table, dir, 3);
    assert_true(fcntl(table.fd, F_GETFD) & FD_CLOEXEC);
    slot_table_close(&table);
    assert_int_equal(table.fd, -1);
    check_remove_dir(dir);
}

struct dir_case {
    const char *name;
    mode_t mode;
    bool is_good;
};

static const struct dir_case dirs[] = {
    {"a private folder is good", 0700, true},
    {"a folder that others may read is good", 0755, true},
    {"a folder that its group can write is refused", 0770, false},
    {"a folder that all can write is refused", 0707, false},
    {"also with the sticky bit", 01777, false},
};

static void test_dir(void **state)
{
    const struct dir_case *row = *state;
    char *dir = check_temp_dir();
    struct slot_table table = {.fd = -7};
    struct error err;
    assert_int_equal(chmod(dir, row->mode), 0);
    if (row->is_good) {
        open_table(&table, dir, 3);
        slot_table_close(&table);
    } else {
        assert_int_equal(slot_table_open(&table, dir, 3, &err), -1);
        assert_int_equal(err.code, ERROR_DENIED);
        assert_int_equal(table.fd, -7);
    }
    check_remove_dir(dir);
}

static void test_made(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = xasprintf("%s/run", dir);
    struct slot_table table;
    struct stat st;
    open_table(&table, path, 3);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    slot_table_close(&table);
    check_remove_dir(dir);
}

static void test_links(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *real = xasprintf("%s/real", dir), *link = xasprintf("%s/link", dir),
                     *slots = xasprintf("%s/slots", real), *victim = xasprintf("%s/victim", dir);
    struct slot_table table;
    struct error err;
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink("real", link), 0);
    assert_int_equal(slot_table_open(&table, link, 3, &err), -1);
    assert_int_equal(symlink("../victim", slots), 0);
    assert_int_equal(slot_table_open(&table, real, 3, &err), -1);
    assert_int_equal(access(victim, F_OK), -1);
    check_remove_dir(dir);
}

static void test_foreign_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        check_skip("only root can give a folder away");
    char *dir = check_temp_dir();
    struct slot_table table;
    struct error err;
    assert_int_equal(chown(dir, 12345, 12345), 0);
    assert_int_equal(slot_table_open(&table, dir, 3, &err), -1);
    assert_int_equal(err.code, ERROR_DENIED);
    check_remove_dir(dir);
}

static void test_parents(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    struct slot_table a, b, elsewhere;
    struct error err;
    open_table(&a, dir, COUNT);
    open_table(&b, dir, COUNT);
    open_table(&elsewhere, dir, COUNT);
    assert_false(slot_table_claim(&a)); /* it has joined nobody */
    assert_int_equal(slot_table_join(&a, 7, &err), 0);
    assert_int_equal(slot_table_join(&elsewhere, 8, &err), 0);
    assert_true(slot_table_claim(&a));
    slot_table_share(&a);
    assert_int_equal(slot_table_join(&b, 7, &err), 0); /* waits for nobody any more */
    assert_false(slot_table_claim(&a));
    assert_false(slot_table_claim(&b));
    assert_true(slot_table_claim(&elsewhere));
    slot_table_close(&b);
    assert_true(slot_table_claim(&a));
    unsigned slot = acquire(&a);
    assert_true(slot_is_held(&a, slot));
    assert_false(slot_is_held(&elsewhere, slot));
    slot_table_close(&a);
    slot_table_close(&elsewhere);
    check_remove_dir(dir);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "who is alone below a parent knows it", test_parents);
    check_one(&check, "two tables never give the same slot", test_two_tables);
    check_one(&check, "a released slot is free for the other table", test_reuse);
    check_one(&check, "a held slot is not given again when the search wraps", test_wrap_around);
    check_one(&check, "a freed slot rests until all others were given", test_rest);
    check_one(&check, "the first and the last slot work, none beyond", test_bounds);
    check_one(&check, "the slots of a killed process are free", test_holder_dies);
    check_one(&check, "the lock does not survive an exec", test_exec_frees);
    check_one(&check, "a missing folder is made, for us alone", test_made);
    check_one(&check, "links are not followed", test_links);
    check_one(&check, "a folder of somebody else is refused", test_foreign_owner);
    check_rows(&check, dirs, test_dir);
    return check_run(&check, "slot");
}
