/* test_layer_copy.c - what is taken over, what refuses the whole, and that nothing else is touched
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "box/layer_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

struct place {
    char *path;
    int from, to;
};

static int make_dir(const char *parent, const char *name)
{
    scoped_free char *path = xasprintf("%s/%s", parent, name);
    assert_int_equal(mkdir(path, 0755), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void open_place(struct place *p)
{
    p->path = check_temp_dir();
    p->from = make_dir(p->path, "from");
    p->to = make_dir(p->path, "to");
}

static void close_place(struct place *p)
{
    close(p->from);
    close(p->to);
    check_remove_dir(p->path);
}

static void put(int dir, const char *name, const char *text, mode_t mode)
{
    scoped_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static struct layer_copy plenty(void)
{
    return (struct layer_copy){.bytes_max = 1 << 20, .entries_max = 1000};
}

/* --- what is taken --------------------------------------------------------------------------- */

static void test_takes(void **state)
{
    (void)state;
    struct place p;
    struct stat st;
    struct layer_copy copy = plenty();
    char target[16] = "";
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000, .tv_nsec = 5}};
    open_place(&p);
    assert_int_equal(mkdirat(p.from, "a", 0700), 0);
    put(p.from, "a/f", "hello", 0600);
    put(p.from, "a/run", "x", 0700);
    put(p.from, "a/\xff\n", "odd", 0644);
    assert_int_equal(symlinkat("../a/./f", p.from, "a/l"), 0);
    assert_int_equal(utimensat(p.from, "a/f", times, 0), 0);
    assert_int_equal(layer_copy_tree(&copy, p.from, p.to), 0);
    assert_int_equal(copy.entries, 5);
    assert_int_equal(copy.bytes, 5 + 1 + 3 + 8);
    assert_int_equal(fstatat(p.to, "a/f", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_mtim.tv_sec, 1000000000);
    assert_int_equal(st.st_mtim.tv_nsec, 5);
    assert_int_equal(fstatat(p.to, "a/run", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(p.to, "a", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(fstatat(p.to, "a/\xff\n", &st, 0), 0);
    assert_int_equal(readlinkat(p.to, "a/l", target, sizeof(target)), 8);
    close_place(&p);
}

/* --- what is not ----------------------------------------------------------------------------- */

static void make_setuid(int dir)
{
    put(dir, "s", "x", 04755);
}

static void make_fifo(int dir)
{
    assert_int_equal(mkfifoat(dir, "pipe", 0644), 0);
}

static void make_link_out(int dir)
{
    assert_int_equal(symlinkat("..", dir, "out"), 0);
}

static void make_link_to_root(int dir)
{
    assert_int_equal(symlinkat("/", dir, "out"), 0);
}

static void make_sparse(int dir)
{
    put(dir, "f", "", 0644);
    scoped_fd int fd = openat(dir, "f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 1ll << 40), 0);
}

static void make_many(int dir)
{
    char name[16];
    for (int i = 0; i < 1001; i++) {
        snprintf(name, sizeof(name), "%d", i);
        put(dir, name, "", 0644);
    }
}

static void make_deep(int dir)
{
    int at = dup(dir);
    for (int i = 0; i < LAYER_DEPTH_MAX; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = below;
    }
    close(at);
}

static const struct refusal_case {
    const char *name;
    void (*make)(int dir);
    int error;
} refusals[] = {
    {"a file that changes who runs it", make_setuid, EINVAL},
    {"a pipe", make_fifo, EINVAL},
    {"a link to what is above", make_link_out, EINVAL},
    {"a link from the root", make_link_to_root, EINVAL},
    {"a file that is larger than all may be", make_sparse, EFBIG},
    {"more files than there may be", make_many, EFBIG},
    {"directories too deep inside each other", make_deep, EINVAL},
};

static void test_refuses(void **state)
{
    const struct refusal_case *row = *state;
    struct place p;
    struct layer_copy copy = plenty();
    unsigned fds = check_count_fds();
    open_place(&p);
    assert_int_equal(mkdirat(p.from, "below", 0755), 0);
    row->make(p.from);
    assert_int_equal(layer_copy_tree(&copy, p.from, p.to), -1);
    assert_int_equal(errno, row->error);
    assert_non_null(copy.step);
    assert_int_equal(layer_empty(p.to), 0); /* what was copied goes again */
    close_place(&p);
    assert_int_equal(check_count_fds(), fds);
}

/* --- removing -------------------------------------------------------------------------------- */

static void test_empties(void **state)
{
    (void)state;
    struct place p;
    open_place(&p);
    put(p.from, "kept", "x", 0644);
    assert_int_equal(symlinkat("../from", p.to, "link"), 0);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof(name), "d%d", i);
        assert_int_equal(mkdirat(p.to, name, 0755), 0);
        snprintf(name, sizeof(name), "d%d/f", i);
        put(p.to, name, "x", 0644);
    }
    assert_int_equal(layer_empty(p.to), 0);
    assert_int_equal(faccessat(p.from, "kept", F_OK, 0), 0); /* no link was followed */
    assert_int_equal(unlinkat(AT_FDCWD, p.path, AT_REMOVEDIR), -1);
    scoped_free char *to = xasprintf("%s/to", p.path);
    assert_int_equal(rmdir(to), 0); /* so it is empty */
    close_place(&p);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "takes files, directories and links that stay inside", test_takes);
    check_rows(&check, refusals, test_refuses);
    check_one(&check, "empties a directory and follows no link", test_empties);
    return check_run(&check, "layer_copy");
}
