/* test_landlock.c - outside of a prepared root the rules cannot be had, and that is an error */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "box/syscalls.h"
#include "check.h"

/* Runs `fn` in a child; its answer is the exit status. */
static int in_child(int (*fn)(const char *root), const char *root)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 255 : fn(root));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void need_landlock(void)
{
    if (landlock_abi() == 0)
        check_skip("this kernel has no landlock");
}

static int apply(const char *root)
{
    (void)root;
    return landlock_apply() == 0 ? 0 : errno;
}

static int apply_in(const char *root)
{
    if (chroot(root) < 0 || chdir("/") < 0)
        return 254;
    return apply(root);
}

static void test_abi(void **state)
{
    (void)state;
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    assert_int_equal(landlock_abi(), abi < 0 ? 0 : abi);
}

static void test_no_landlock(void **state)
{
    (void)state;
    if (landlock_abi() > 0)
        check_skip("this kernel has landlock");
    assert_int_equal(in_child(apply, NULL), EOPNOTSUPP);
}

static const char *const folders[] = {"workspace", "data",    "mnt",  "mnt/data", "tmp",
                                      "dev",       "dev/shm", "proc", "etc"};

static char *make_root(void)
{
    char *root = check_temp_dir();
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        scoped_free char *path = xasprintf("%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    return root;
}

/* A root that lacks a place: no rule for it, so no domain at all. */
static void test_outside(void **state)
{
    (void)state;
    need_landlock();
    if (access("/workspace", F_OK) == 0)
        check_skip("this machine itself looks like a sandbox");
    assert_int_equal(in_child(apply, NULL), ENOENT);
}

static void test_each_place(void **state)
{
    (void)state;
    static const char *const needed[] = {"workspace", "tmp", "dev/shm", "proc"};
    need_landlock();
    if (geteuid() != 0)
        check_skip("only root can change its root");
    char *root = make_root();
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        scoped_free char *path = xasprintf("%s/%s", root, needed[i]);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(in_child(apply_in, root), ENOENT);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    check_remove_dir(root);
}

static bool can_create(const char *path)
{
    scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0;
}

/* The workspace, seen at a second place. */
static bool show_again(const char *root)
{
    scoped_free char *from = xasprintf("%s/workspace", root), *to = xasprintf("%s/data", root);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(from, to, NULL, MS_BIND, NULL) == 0;
}

/* Each failed expectation has an exit status of its own. */
static int try_writing(const char *root)
{
    if (!show_again(root) || apply_in(root) != 0)
        return 1;
    static const char *const good[] = {"/workspace/x", "/data/y", "/tmp/x", "/dev/shm/x"};
    static const char *const bad[] = {"/x",      "/etc/x", "/mnt/x",
                                      "/proc/x", "/dev/x", "/mnt/data/x"}; /* it is not there */
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        if (!can_create(good[i]))
            return 10 + (int)i;
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (can_create(bad[i]) || errno != EACCES)
            return 20 + (int)i;
    }
    if (mknod("/workspace/null", S_IFCHR | 0666, 0x103) == 0 || errno != EACCES)
        return 30;
    if (mkfifo("/workspace/fifo", 0666) < 0 || mkdir("/workspace/d", 0777) < 0)
        return 31;
    if (open("/etc/issue", O_RDONLY | O_CLOEXEC) < 0)
        return 32;
    if (open("/etc/issue", O_WRONLY | O_CLOEXEC) >= 0 || errno != EACCES)
        return 33;
    if (unlink("/etc/issue") == 0 || errno != EACCES)
        return 34;
    if (landlock_abi() >= 3 && (truncate("/etc/issue", 0) == 0 || errno != EACCES))
        return 35;
    return 0;
}

/* Even for root, on an ordinary file system where all can be written. */
static void test_domain(void **state)
{
    (void)state;
    need_landlock();
    if (geteuid() != 0)
        check_skip("only root can change its root");
    char *root = make_root();
    scoped_free char *issue = xasprintf("%s/etc/issue", root);
    close(open(issue, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    assert_int_equal(in_child(try_writing, root), 0);
    check_remove_dir(root);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "the version is the kernel's", test_abi);
    check_one(&check, "without landlock applying fails", test_no_landlock);
    check_one(&check, "outside of a prepared root applying fails", test_outside);
    check_one(&check, "with any of its places missing applying fails", test_each_place);
    check_one(&check, "only the places of a tenant can be written, even by root", test_domain);
    return check_run(&check, "landlock");
}
