/* test_image_digest.c - what changes the name of an image, and what does not */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/digest.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "check.h"

static void put(int dir_fd, const char *path, const char *content)
{
    struct error err;
    scoped_fd int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content), &err), 0);
    assert_int_equal(fchmod(fd, 0644), 0);
}

static void folder(int dir_fd, const char *path)
{
    assert_int_equal(mkdirat(dir_fd, path, 0755), 0);
    assert_int_equal(fchmodat(dir_fd, path, 0755, 0), 0);
}

/* The tree that every case starts from. */
static void make_tree(int fd)
{
    folder(fd, "bin");
    put(fd, "bin/sh", "shell");
    put(fd, "bin/ls", "list");
    folder(fd, "empty");
    assert_int_equal(symlinkat("bin/sh", fd, "link"), 0);
}

static void change_nothing(int fd)
{
    (void)fd;
}

static void change_time(int fd)
{
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
    assert_int_equal(utimensat(fd, "bin/sh", times, 0), 0);
    assert_int_equal(utimensat(fd, "bin", times, 0), 0);
}

static void change_order(int fd)
{
    assert_int_equal(unlinkat(fd, "bin/ls", 0), 0);
    put(fd, "bin/other", "");
    put(fd, "bin/ls", "list");
    assert_int_equal(unlinkat(fd, "bin/other", 0), 0);
}

static void change_owner(int fd)
{
    if (geteuid() == 0)
        assert_int_equal(fchownat(fd, "bin/sh", 1, 1, 0), 0);
}

static void change_content(int fd)
{
    put(fd, "bin/sh", "shelf");
}

static void change_mode(int fd)
{
    assert_int_equal(fchmodat(fd, "bin/sh", 0755, 0), 0);
}

static void change_folder_mode(int fd)
{
    assert_int_equal(fchmodat(fd, "empty", 01777, 0), 0);
}

static void change_name(int fd)
{
    assert_int_equal(renameat(fd, "bin/sh", fd, "bin/sj"), 0);
}

static void change_place(int fd)
{
    assert_int_equal(renameat(fd, "bin/sh", fd, "empty/sh"), 0);
}

static void change_target(int fd)
{
    assert_int_equal(unlinkat(fd, "link", 0), 0);
    assert_int_equal(symlinkat("bin/ls", fd, "link"), 0);
}

static void change_type(int fd)
{
    assert_int_equal(unlinkat(fd, "link", 0), 0);
    put(fd, "link", "bin/sh");
}

static void add_empty_folder(int fd)
{
    folder(fd, "empty/more");
}

/* "bin/sh" + "shell" and "bin/shs" + "hell" must not run together. */
static void move_boundary(int fd)
{
    assert_int_equal(unlinkat(fd, "bin/sh", 0), 0);
    put(fd, "bin/shs", "hell");
}

struct change_case {
    const char *name;
    void (*change)(int fd);
    bool is_same;
};

static const struct change_case changes[] = {
    {"equal trees have equal digests", change_nothing, true},
    {"times do not count", change_time, true},
    {"the order of making does not count", change_order, true},
    {"owners do not count", change_owner, true},
    {"content counts", change_content, false},
    {"a file's mode counts", change_mode, false},
    {"a folder's mode counts", change_folder_mode, false},
    {"a name counts", change_name, false},
    {"the folder of a file counts", change_place, false},
    {"a link's target counts", change_target, false},
    {"a link is not a file of the same text", change_type, false},
    {"an empty folder counts", add_empty_folder, false},
    {"names and content do not run together", move_boundary, false},
};

static int open_tree(char **path)
{
    *path = check_temp_dir();
    int fd = open(*path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    make_tree(fd);
    return fd;
}

static void test_change(void **state)
{
    const struct change_case *row = *state;
    struct digest_summary plain, changed;
    struct error err;
    char *path[2];
    scoped_fd int first = open_tree(&path[0]), second = open_tree(&path[1]);
    row->change(second);
    assert_int_equal(digest_tree(first, NULL, NULL, &plain, &err), 0);
    assert_int_equal(digest_tree(second, NULL, NULL, &changed, &err), 0);
    assert_int_equal(memcmp(plain.hash, changed.hash, SHA256_BYTES) == 0, row->is_same);
    check_remove_dir(path[0]);
    check_remove_dir(path[1]);
}

static void count(void *ctx, uint64_t entries)
{
    *(uint64_t *)ctx = entries;
}

static void test_summary(void **state)
{
    (void)state;
    struct digest_summary summary;
    struct error err;
    uint64_t told = 0;
    char *path;
    scoped_fd int fd = open_tree(&path);
    assert_int_equal(digest_tree(fd, count, &told, &summary, &err), 0);
    assert_int_equal(summary.entries, 5);
    assert_int_equal(summary.bytes, strlen("shell") + strlen("list"));
    assert_int_equal(told, 5);
    check_remove_dir(path);
}

static void test_pipe(void **state)
{
    (void)state;
    struct digest_summary summary;
    struct error err;
    char *path;
    scoped_fd int fd = open_tree(&path);
    assert_int_equal(mkfifoat(fd, "pipe", 0644), 0);
    assert_int_equal(digest_tree(fd, NULL, NULL, &summary, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    assert_non_null(strstr(err.msg, "'pipe'"));
    check_remove_dir(path);
}

int main(void)
{
    static struct check check;
    check_rows(&check, changes, test_change);
    check_one(&check, "counts entries and bytes, and tells them", test_summary);
    check_one(&check, "refuses a pipe, with its name", test_pipe);
    return check_run(&check, "image_digest");
}
