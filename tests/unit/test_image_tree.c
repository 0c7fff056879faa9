/* test_image_tree.c - walking and removing trees, also hostile ones */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

#define DEEP (3 * TREE_DEPTH_MAX)

struct tree {
    char *path;
    int fd;
};

static struct tree tree_make(void)
{
    struct tree tree = {.path = check_temp_dir()};
    tree.fd = open(tree.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(tree.fd >= 0);
    return tree;
}

static void tree_end(struct tree *tree)
{
    close(tree->fd);
    check_remove_dir(tree->path);
}

static void touch(int dir_fd, const char *path)
{
    scoped_fd int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
}

static int record(void *ctx, const struct tree_entry *entry, struct error *err)
{
    (void)err;
    strbuf_add_fmt(ctx, "%s%s ", entry->path, entry->is_leaving ? "/" : "");
    return strcmp(entry->name, "skipped") == 0 ? TREE_SKIP : 0;
}

static void test_order(void **state)
{
    (void)state;
    struct tree tree = tree_make();
    scoped_strbuf struct strbuf seen;
    strbuf_init(&seen, 4096);
    struct error err;
    assert_int_equal(mkdirat(tree.fd, "b", 0755), 0);
    assert_int_equal(mkdirat(tree.fd, "b/skipped", 0755), 0);
    assert_int_equal(mkdirat(tree.fd, "B", 0755), 0);
    touch(tree.fd, "b/skipped/x");
    touch(tree.fd, "b/z");
    touch(tree.fd, "a");
    assert_int_equal(symlinkat("..", tree.fd, "c"), 0);
    assert_int_equal(tree_walk(tree.fd, record, &seen, &err), 0);
    assert_string_equal(strbuf_str(&seen), "B B/ a b b/skipped b/z b/ c ");
    tree_end(&tree);
}

/* A chain of folders, one in the other, made without long paths. */
static void make_chain(int dir_fd, unsigned depth)
{
    int fd = dup(dir_fd);
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    touch(fd, "bottom");
    close(fd);
}

static int ignore(void *ctx, const struct tree_entry *entry, struct error *err)
{
    (void)ctx;
    (void)entry;
    (void)err;
    return 0;
}

static void test_deep(void **state)
{
    (void)state;
    struct tree tree = tree_make();
    struct error err;
    make_chain(tree.fd, DEEP);
    assert_int_equal(tree_walk(tree.fd, ignore, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_TOO_LARGE);
    assert_int_equal(tree_remove(tree.fd, "d", &err), 0);
    assert_int_equal(faccessat(tree.fd, "d", F_OK, 0), -1);
    tree_end(&tree);
}

static void test_remove(void **state)
{
    (void)state;
    struct tree tree = tree_make(), outside = tree_make();
    struct error err;
    touch(outside.fd, "kept");
    assert_int_equal(mkdirat(tree.fd, "x", 0755), 0);
    assert_int_equal(mkdirat(tree.fd, "x/closed", 0755), 0);
    touch(tree.fd, "x/closed/file");
    assert_int_equal(symlinkat(outside.path, tree.fd, "x/out"), 0);
    assert_int_equal(fchmodat(tree.fd, "x/closed", 0, 0), 0);
    assert_int_equal(tree_remove(tree.fd, "x", &err), 0);
    assert_int_equal(faccessat(tree.fd, "x", F_OK, 0), -1);
    assert_int_equal(faccessat(outside.fd, "kept", F_OK, 0), 0);

    assert_int_equal(symlinkat(outside.path, tree.fd, "link"), 0);
    assert_int_equal(tree_remove(tree.fd, "link", &err), 0);
    assert_int_equal(faccessat(outside.fd, "kept", F_OK, 0), 0);
    assert_int_equal(tree_remove(tree.fd, "absent", &err), 0);
    tree_end(&tree);
    tree_end(&outside);
}

struct open_case {
    const char *name;
    const char *path;
    int error;         /* 0: opens */
    int error_in_root; /* the same for tree_open_in_root() */
};

static const struct open_case open_cases[] = {
    {"opens a file", "in/file", 0, 0},
    {"a way up and back stays inside", "in/../in/file", 0, 0},
    {"a way out is refused, or ends at the root", "../../../etc/passwd", EXDEV, ENOENT},
    {"an absolute path is refused, or begins at the root", "/in/file", EXDEV, 0},
    {"a link is refused, or followed inside", "link", ELOOP, 0},
    {"a link on the way is refused, or followed inside", "folder/file", ELOOP, 0},
    {"an absolute link is refused, or begins at the root", "absolute", ELOOP, 0},
    {"a link to the outside is refused, or ends at the root", "out", ELOOP, ENOENT},
};

static void expect_open(int fd, int error)
{
    int why = errno;
    if (error) {
        assert_int_equal(fd, -1);
        assert_int_equal(why, error);
        return;
    }
    assert_true(fd >= 0);
    close(fd);
}

static void test_open(void **state)
{
    const struct open_case *row = *state;
    struct tree tree = tree_make();
    assert_int_equal(mkdirat(tree.fd, "in", 0755), 0);
    touch(tree.fd, "in/file");
    assert_int_equal(symlinkat("in/file", tree.fd, "link"), 0);
    assert_int_equal(symlinkat("in", tree.fd, "folder"), 0);
    assert_int_equal(symlinkat("/in/file", tree.fd, "absolute"), 0);
    assert_int_equal(symlinkat("../../../../etc/passwd", tree.fd, "out"), 0);
    expect_open(tree_open(tree.fd, row->path, O_RDONLY), row->error);
    expect_open(tree_open_in_root(tree.fd, row->path, O_RDONLY), row->error_in_root);
    tree_end(&tree);
}

/* Somebody else renames all the time, which the kernel must take for a possible way out. */
static void test_open_busy(void **state)
{
    (void)state;
    struct tree tree = tree_make();
    assert_int_equal(mkdirat(tree.fd, "in", 0755), 0);
    assert_int_equal(mkdirat(tree.fd, "there", 0755), 0);
    touch(tree.fd, "in/file");
    pid_t pid = fork();
    assert_true(pid >= 0);
    while (pid == 0) {
        renameat(tree.fd, "there", tree.fd, "back");
        renameat(tree.fd, "back", tree.fd, "there");
    }
    int failures = 0;
    for (int i = 0; i < 20000; i++) {
        int fd = tree_open(tree.fd, "in/../in/../in/file", O_RDONLY);
        failures += fd < 0;
        if (fd >= 0)
            close(fd);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(failures, 0);
    tree_end(&tree);
}

int main(void)
{
    static struct check check;
    check_one(&check, "visits names in byte order, folders twice, links as links", test_order);
    check_one(&check, "refuses to walk a tree that is too deep, but removes it", test_deep);
    check_one(&check, "removes closed folders, and nothing through a link", test_remove);
    check_rows(&check, open_cases, test_open);
    check_one(&check, "a busy host is no reason to fail", test_open_busy);
    return check_run(&check, "image_tree");
}
