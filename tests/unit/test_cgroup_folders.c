/* test_cgroup_folders.c - a tree of plain folders, whose groups list and have what the test says */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/cgroup_inside.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

#define SLOT 4242

/* One hierarchy without cgroup.kill, whose group lists what the test says. */
struct fake {
    char *dir;
    struct cgroup_tree tree;
    struct cgroup cg;
};

static void fake_open(struct fake *f, const char *procs, size_t len)
{
    struct error err;
    f->dir = check_temp_dir();
    f->tree = (struct cgroup_tree){.version = 1, .count = 1, .where = {-1, 0, -1, -1, -1}};
    f->tree.parent_fd[0] = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(f->tree.parent_fd[0], "7", 0755), 0);
    f->cg = (struct cgroup){.slot = 7};
    scoped_fd int fd =
        openat(f->tree.parent_fd[0], "7/cgroup.procs", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(fd_write_all(fd, procs, len, &err), 0);
}

static void fake_close(struct fake *f)
{
    cgroup_tree_close(&f->tree);
    check_remove_dir(f->dir);
}

/* Ends with status 7 when told to; so an end by SIGKILL is one that somebody sent. */
static pid_t start_bystander(int *tell_fd)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        close(fds[1]);
        _exit(read(fds[0], &byte, 1) == 0 ? 7 : 1);
    }
    close(fds[0]);
    *tell_fd = fds[1];
    return pid;
}

#define NOBODY "2147483646\n" /* above every pid */

/* Whatever the size of a buffer: at every place where it could end, the number is read whole. */
static void test_cut_number(void **state)
{
    (void)state;
    static const size_t places[] = {4096, 4095, 8192, 8191, 16384, 16383, 65536};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int tell_fd, status;
        pid_t pid = start_bystander(&tell_fd);
        char digits[16];
        scoped_strbuf struct strbuf list;
        strbuf_init(&list, 1 * MIB);
        size_t len = (size_t)snprintf(digits, sizeof(digits), "%d", pid);
        while (list.len + 2 * strlen(NOBODY) < places[i] - len)
            strbuf_add_str(&list, NOBODY);
        while (list.len < places[i] - len - 1)
            strbuf_add_char(&list, '0');                  /* leading zeros of a pid 0 */
        strbuf_add_fmt(&list, "\n%s00\n" NOBODY, digits); /* cut after `digits` it is ours */
        struct fake f;
        fake_open(&f, list.data, list.len);
        cgroup_kill(&f.cg, &f.tree);
        close(tell_fd);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        fake_close(&f);
    }
}

static void assert_killed(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_long_list(void **state)
{
    (void)state;
    int tell_fd;
    pid_t pid = start_bystander(&tell_fd);
    scoped_strbuf struct strbuf list;
    struct fake f;
    strbuf_init(&list, 1 * MIB);
    for (int i = 0; i < 5000; i++)
        strbuf_add_str(&list, NOBODY);
    strbuf_add_fmt(&list, "%d\n", pid);
    fake_open(&f, list.data, list.len);
    cgroup_kill(&f.cg, &f.tree);
    assert_killed(pid);
    close(tell_fd);
    fake_close(&f);
}

/* 0 is a process outside of our pid namespace, and would be our own group for kill(). */
static void test_never_killed(void **state)
{
    (void)state;
    static const char list[] = "0\n1\n\n4294967295\n18446744073709551615\n";
    struct fake f;
    fake_open(&f, list, strlen(list));
    cgroup_kill(&f.cg, &f.tree);
    fake_close(&f);
}

static void note_slot(void *ctx, unsigned slot)
{
    unsigned *seen = ctx;
    assert_int_equal(slot, SLOT);
    ++*seen;
}

static void test_other_names(void **state)
{
    (void)state;
    static const char *const names[] = {"cove-self", "-1", "7x", "4294967296", "x7"};
    struct fake f;
    unsigned seen = 0;
    fake_open(&f, "", 0);
    assert_int_equal(unlinkat(f.tree.parent_fd[0], "7/cgroup.procs", 0), 0);
    assert_int_equal(unlinkat(f.tree.parent_fd[0], "7", AT_REMOVEDIR), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(mkdirat(f.tree.parent_fd[0], names[i], 0755), 0);
    assert_int_equal(mkdirat(f.tree.parent_fd[0], "4242", 0755), 0);
    cgroup_tree_each(&f.tree, note_slot, &seen);
    assert_int_equal(seen, 1);
    fake_close(&f);
}

/* Version 1 counts buffers of sockets by files of their own, which a kernel may lack. */
static void test_counts_memory(void **state)
{
    (void)state;
    struct fake f;
    fake_open(&f, "", 0);
    f.tree.where[CGROUP_MEMORY] = -1;
    assert_false(cgroup_tree_counts_memory(&f.tree));
    f.tree.where[CGROUP_MEMORY] = 0;
    f.tree.where[CGROUP_UNIFIED] = -1;
    assert_false(cgroup_tree_counts_memory(&f.tree));
    scoped_fd int fd = openat(f.tree.parent_fd[0], "memory.kmem.tcp.limit_in_bytes",
                              O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(cgroup_tree_counts_memory(&f.tree));
    assert_int_equal(unlinkat(f.tree.parent_fd[0], "memory.kmem.tcp.limit_in_bytes", 0), 0);
    f.tree.where[CGROUP_UNIFIED] = 0; /* version 2 counts them with the rest */
    assert_true(cgroup_tree_counts_memory(&f.tree));
    fake_close(&f);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "a pid at the end of a buffer is read whole", test_cut_number);
    check_one(&check, "a list longer than a buffer is killed to its end", test_long_list);
    check_one(&check, "impossible pids are never killed", test_never_killed);
    check_one(&check, "only slots are found", test_other_names);
    check_one(&check, "a group that does not count sockets does not count memory",
              test_counts_memory);
    return check_run(&check, "cgroup_folders");
}
