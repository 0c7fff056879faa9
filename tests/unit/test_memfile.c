/* test_memfile.c - a copy in memory that runs, and that nobody can change */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "box/syscalls.h"
#include "check.h"

static void test_copy(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, "content");
    struct error err;
    int fd = -1;
    char text[16];
    assert_int_equal(memfile_load(&fd, AT_FDCWD, path, 0755, &err), 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pread(fd, text, sizeof(text), 0), 7);
    assert_memory_equal(text, "content", 7);
    close(fd);
    check_remove_dir(dir);
}

static void test_sealed(void **state)
{
    (void)state;
    char *dir = check_temp_dir();
    scoped_free char *path = check_temp_file(dir, "content"), *again = NULL;
    struct error err;
    int fd = -1;
    assert_int_equal(memfile_load(&fd, AT_FDCWD, path, 0755, &err), 0);
    again = xasprintf("/proc/self/fd/%d", fd);
    scoped_fd int other = open(again, O_RDWR | O_CLOEXEC);
    const int fds[2] = {fd, other}; /* also for who opens it anew */
    for (size_t i = 0; i < 2 && fds[i] >= 0; i++) {
        assert_int_equal(pwrite(fds[i], "X", 1, 0), -1);
        assert_int_equal(errno, EPERM);
        assert_int_equal(ftruncate(fds[i], 0), -1);
        assert_int_equal(ftruncate(fds[i], 100), -1);
        assert_int_equal(fcntl(fds[i], F_ADD_SEALS, 0), -1);
        assert_ptr_equal(mmap(NULL, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0), MAP_FAILED);
    }
    close(fd);
    check_remove_dir(dir);
}

static void test_runs(void **state)
{
    (void)state;
    struct error err;
    int fd = -1, status;
    assert_int_equal(memfile_load(&fd, AT_FDCWD, "/bin/true", 0111, &err), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *const argv[] = {(char *)"true", NULL}, *const envp[] = {NULL};
        sys_execveat(fd, argv, envp);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd);
}

static void test_unreadable(void **state)
{
    (void)state;
    struct error err;
    struct stat st;
    int fd = -1;
    assert_int_equal(memfile_load(&fd, AT_FDCWD, "/bin/true", 0111, &err), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0111);
    close(fd);
}

static void test_missing(void **state)
{
    (void)state;
    struct error err;
    int fd = -7;
    assert_int_equal(memfile_load(&fd, AT_FDCWD, "/nonexistent", 0755, &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_int_equal(fd, -7);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "the content is the file's", test_copy);
    check_one(&check, "nobody can write, cut, grow, map or unseal it", test_sealed);
    check_one(&check, "it runs", test_runs);
    check_one(&check, "it can be executed and not read", test_unreadable);
    check_one(&check, "a missing file is an error", test_missing);
    return check_run(&check, "memfile");
}
