/* test_image_scrub.c - what an unpacked root loses before it becomes an image */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

struct root {
    char *path;
    int fd;
};

static void put(int dir_fd, const char *path, mode_t mode)
{
    scoped_fd int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void folder(int dir_fd, const char *path, mode_t mode)
{
    assert_int_equal(mkdirat(dir_fd, path, 0755), 0);
    assert_int_equal(fchmodat(dir_fd, path, mode, 0), 0);
}

static struct root root_make(void)
{
    struct root root = {.path = check_temp_dir()};
    root.fd = open(root.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(root.fd >= 0);
    return root;
}

static void root_scrub(struct root *root)
{
    struct error err = {.msg = ""};
    int answer = scrub_root(root->fd, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(answer, 0);
}

static void root_end(struct root *root)
{
    close(root->fd);
    check_remove_dir(root->path);
}

struct mode_case {
    const char *name;
    bool is_folder;
    mode_t before, after;
};

static const struct mode_case modes[] = {
    {"an ordinary file stays", false, 0644, 0644},
    {"a program stays", false, 0755, 0755},
    {"a secret file is opened to readers", false, 0600, 0644},
    {"a secret program is opened to readers only", false, 0700, 0744},
    {"a file for all to write is closed", false, 0666, 0644},
    {"a set-user-id program loses the bit", false, 04755, 0755},
    {"a set-group-id program loses the bit", false, 02755, 0755},
    {"a secret folder is opened", true, 0700, 0755},
    {"a folder for all to write is closed", true, 0777, 0755},
    {"a set-group-id folder loses the bit", true, 02755, 0755},
    {"a sticky folder stays for all", true, 01777, 01777},
};

static void test_mode(void **state)
{
    const struct mode_case *row = *state;
    struct root root = root_make();
    struct stat st;
    (row->is_folder ? folder : put)(root.fd, "x", row->before);
    root_scrub(&root);
    assert_int_equal(fstatat(root.fd, "x", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, row->after);
    root_end(&root);
}

static void expect_folder(int fd, const char *path, mode_t mode)
{
    struct stat st;
    assert_int_equal(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 07777, mode);
}

static void test_places(void **state)
{
    (void)state;
    struct root root = root_make();
    folder(root.fd, "dev", 0755);
    put(root.fd, "dev/thing", 0644);
    folder(root.fd, "run", 0755);
    put(root.fd, "run/secret", 0600);
    folder(root.fd, "sys", 0755);
    folder(root.fd, "mnt", 0755);
    put(root.fd, "mnt/kept", 0644);
    assert_int_equal(symlinkat("/etc", root.fd, "data"), 0);
    put(root.fd, "workspace", 0644);
    root_scrub(&root);

    expect_folder(root.fd, "dev", 0755);
    expect_folder(root.fd, "proc", 0755);
    expect_folder(root.fd, "tmp", 01777);
    expect_folder(root.fd, "workspace", 0755);
    expect_folder(root.fd, "data", 0755);
    expect_folder(root.fd, "mnt/data", 0755);
    assert_int_equal(faccessat(root.fd, "mnt/kept", F_OK, 0), 0);
    assert_int_equal(faccessat(root.fd, "dev/thing", F_OK, 0), -1);
    assert_int_equal(faccessat(root.fd, "run", F_OK, 0), -1);
    assert_int_equal(faccessat(root.fd, "sys", F_OK, 0), -1);
    root_end(&root);
}

/* A link where we make folders must not lead us out of the root. */
static void test_link_out(void **state)
{
    (void)state;
    struct root root = root_make(), outside = root_make();
    assert_int_equal(symlinkat(outside.path, root.fd, "mnt"), 0);
    assert_int_equal(symlinkat(outside.path, root.fd, "tmp"), 0);
    put(outside.fd, "kept", 0600);
    root_scrub(&root);
    struct stat st;
    assert_int_equal(fstatat(outside.fd, "kept", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(faccessat(outside.fd, "data", F_OK, 0), -1);
    expect_folder(root.fd, "mnt/data", 0755);
    root_end(&root);
    root_end(&outside);
}

static void test_special(void **state)
{
    (void)state;
    struct root root = root_make();
    assert_int_equal(mkfifoat(root.fd, "pipe", 0666), 0);
    if (geteuid() == 0)
        assert_int_equal(mknodat(root.fd, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
    root_scrub(&root);
    assert_int_equal(faccessat(root.fd, "pipe", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(faccessat(root.fd, "null", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    root_end(&root);
}

static void test_attributes(void **state)
{
    (void)state;
    struct root root = root_make();
    put(root.fd, "tool", 0755);
    scoped_free char *path = xasprintf("%s/tool", root.path);
    if (setxattr(path, "user.note", "x", 1, 0) < 0) {
        assert_int_equal(errno, ENOTSUP);
        root_end(&root);
        skip();
    }
    root_scrub(&root);
    assert_int_equal(getxattr(path, "user.note", NULL, 0), -1);
    root_end(&root);
}

static void test_owner(void **state)
{
    (void)state;
    struct root root = root_make();
    struct stat st;
    put(root.fd, "x", 0644);
    if (geteuid() == 0)
        assert_int_equal(fchownat(root.fd, "x", 12, 34, 0), 0);
    root_scrub(&root);
    assert_int_equal(fstatat(root.fd, "x", &st, 0), 0);
    assert_int_equal(st.st_uid, geteuid());
    root_end(&root);
}

int main(void)
{
    static struct check check;
    check_rows(&check, modes, test_mode);
    check_one(&check, "makes the places where a sandbox mounts, and empties them", test_places);
    check_one(&check, "does not follow links out of the root", test_link_out);
    check_one(&check, "removes pipes and devices", test_special);
    check_one(&check, "removes extended attributes", test_attributes);
    check_one(&check, "gives everything to whoever makes the image", test_owner);
    return check_run(&check, "image_scrub");
}
