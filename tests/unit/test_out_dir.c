/* test_out_dir.c - names from a sandbox, written below one folder and nowhere else */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "base/scoped.h"
#include "base/strbuf.h"
#include "check.h"

/* A folder `out` to write into, and a folder `outside` that must stay as it is. */
struct world {
    char *base;
    char *out;
    char *outside;
    struct out_dir *dir;
};

static char *at(const char *folder, const char *name)
{
    return xasprintf("%s/%s", folder, name);
}

static void put(const char *folder, const char *name, const char *content)
{
    scoped_free char *path = at(folder, name);
    struct error err;
    scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, content, strlen(content), &err), 0);
}

static void world_open(struct world *w)
{
    struct error err;
    w->base = check_temp_dir();
    w->out = at(w->base, "out");
    w->outside = at(w->base, "outside");
    assert_int_equal(mkdir(w->outside, 0755), 0);
    put(w->outside, "victim", "untouched");
    assert_int_equal(out_dir_open(&w->dir, w->out, &err), 0);
}

static void world_close(struct world *w)
{
    out_dir_free(w->dir);
    free(w->out);
    free(w->outside);
    check_remove_dir(w->base);
}

static void write_file(struct world *w, const char *path, uint32_t mode, const char *content)
{
    out_dir_begin(w->dir, path, mode);
    for (const char *p = content; *p; p++) /* in the smallest pieces */
        out_dir_data(w->dir, p, 1);
    out_dir_end(w->dir);
}

static void assert_content(const char *folder, const char *name, const char *content)
{
    scoped_free char *path = at(folder, name);
    scoped_free char *text = check_read_file(path);
    assert_string_equal(text, content);
}

static void assert_no_failure(const struct world *w)
{
    struct error err = {.msg = ""};
    int result = out_dir_failure(w->dir, &err);
    if (result < 0)
        fail_msg("%s", err.msg);
}

static void assert_failure(const struct world *w, int sys_errno)
{
    struct error err;
    assert_int_equal(out_dir_failure(w->dir, &err), -1);
    assert_int_equal(err.sys_errno, sys_errno);
    assert_null(strstr(err.msg, w->base)); /* names below the folder are enough */
}

static unsigned file_count;

static int count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)st;
    (void)ftw;
    file_count += type != FTW_D;
    return 0;
}

static unsigned count_files(const char *folder)
{
    file_count = 0;
    assert_int_equal(nftw(folder, count_file, 16, FTW_PHYS), 0);
    return file_count;
}

static void assert_outside_untouched(const struct world *w)
{
    assert_content(w->outside, "victim", "untouched");
    assert_int_equal(count_files(w->outside), 1);
}

static void test_good(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    write_file(&w, "a", 0100644, "first");
    write_file(&w, "deep/er/and/deeper/b", 0100600, "second");
    write_file(&w, "deep/er/c", 0100600, "");
    assert_no_failure(&w);
    assert_content(w.out, "a", "first");
    assert_content(w.out, "deep/er/and/deeper/b", "second");
    assert_content(w.out, "deep/er/c", "");
    assert_int_equal(count_files(w.out), 3);
    world_close(&w);
}

static void test_replace(void **state)
{
    (void)state;
    struct world w;
    char byte;
    world_open(&w);
    put(w.out, "a", "old");
    scoped_free char *path = at(w.out, "a");
    scoped_fd int before = open(path, O_RDONLY | O_CLOEXEC);
    out_dir_begin(w.dir, "a", 0644);
    out_dir_data(w.dir, "new", 3);
    assert_content(w.out, "a", "old"); /* until it is whole */
    out_dir_end(w.dir);
    assert_no_failure(&w);
    assert_content(w.out, "a", "new");
    assert_int_equal(read(before, &byte, 1), 1);
    assert_int_equal(byte, 'o'); /* who has the old one open keeps it */
    assert_int_equal(count_files(w.out), 1);
    world_close(&w);
}

struct mode_case {
    const char *name;
    uint32_t given;
    mode_t made;
};

static const struct mode_case modes[] = {
    {"a plain mode is kept", 0100644, 0644},
    {"a private mode is kept", 0100600, 0600},
    {"an executable stays one", 0100755, 0755},
    {"others may not write", 0100777, 0755},
    {"no set-uid, set-gid or sticky bit", 0107755, 0755},
    {"the type is not a mode", 0777777, 0755},
    {"no rights at all", 0100000, 0},
};

static void test_mode(void **state)
{
    const struct mode_case *row = *state;
    struct world w;
    struct stat st;
    mode_t mask = umask(0); /* it must not be what helps */
    world_open(&w);
    write_file(&w, "f/x", row->given, "x");
    umask(mask);
    assert_no_failure(&w);
    scoped_free char *file = at(w.out, "f/x"), *folder = at(w.out, "f");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | row->made);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    world_close(&w);
}

struct link_case {
    const char *name;
    const char *link; /* planted below out */
    const char *target;
    const char *path; /* written then */
};

static const struct link_case links[] = {
    {"a link as the first folder", "a", "../outside", "a/victim"},
    {"a link as a folder in between", "real/a", "../../outside", "real/a/victim"},
    {"a link as the last folder", "real/er/a", "../../../outside", "real/er/a/victim"},
    {"a link to the folder above", "a", "..", "a/outside/victim"},
    {"an absolute link", "a", "/", "a/victim"},
    {"a link to itself", "a", "a", "a/victim"},
    {"a link that leads nowhere", "a", "nowhere", "a/victim"},
    {"a link that stays inside", "a", "real", "a/victim"},
};

static void test_link(void **state)
{
    const struct link_case *row = *state;
    struct world w;
    world_open(&w);
    scoped_free char *real = at(w.out, "real"), *er = at(w.out, "real/er"),
                     *link = at(w.out, row->link);
    assert_int_equal(mkdir(real, 0755), 0);
    assert_int_equal(mkdir(er, 0755), 0);
    assert_int_equal(symlink(row->target, link), 0);
    write_file(&w, row->path, 0644, "evil");
    assert_failure(&w, ELOOP);
    assert_outside_untouched(&w);
    assert_int_equal(count_files(w.out), 1); /* the link */
    write_file(&w, "next", 0644, "fine");    /* the others still come */
    assert_content(w.out, "next", "fine");
    world_close(&w);
}

/* The name itself is a link: it is replaced, not followed. */
static void test_last_link(void **state)
{
    (void)state;
    struct world w;
    struct stat st;
    world_open(&w);
    scoped_free char *link = at(w.out, "a");
    assert_int_equal(symlink("../outside/victim", link), 0);
    write_file(&w, "a", 0644, "mine");
    assert_no_failure(&w);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_content(w.out, "a", "mine");
    assert_outside_untouched(&w);
    world_close(&w);
}

static void test_folder_in_the_way(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    scoped_free char *folder = at(w.out, "a");
    assert_int_equal(mkdir(folder, 0755), 0);
    write_file(&w, "a", 0644, "x");
    assert_failure(&w, EISDIR);
    assert_int_equal(count_files(w.out), 0);
    world_close(&w);
}

static void test_file_in_the_way(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(w.out, "a", "file");
    write_file(&w, "a/b", 0644, "x");
    assert_failure(&w, ENOTDIR);
    assert_content(w.out, "a", "file");
    assert_int_equal(count_files(w.out), 1);
    world_close(&w);
}

static void test_first_failure(void **state)
{
    (void)state;
    struct world w;
    struct error err;
    world_open(&w);
    put(w.out, "file", "x");
    scoped_free char *folder = at(w.out, "folder");
    assert_int_equal(mkdir(folder, 0755), 0);
    write_file(&w, "file/first", 0644, "x");
    write_file(&w, "folder", 0644, "x");
    assert_int_equal(out_dir_failure(w.dir, &err), -1);
    assert_non_null(strstr(err.msg, "'file/first'"));
    world_close(&w);
}

static void test_unfinished(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    out_dir_begin(w.dir, "sub/half", 0644);
    out_dir_data(w.dir, "half", 4);
    out_dir_free(w.dir);
    w.dir = NULL;
    assert_int_equal(count_files(w.out), 0);
    world_close(&w);
}

/* In a child, since a limit on the size of files stays. */
static void test_disk_full(void **state)
{
    (void)state;
    struct world w;
    int status;
    world_open(&w);
    put(w.out, "a", "old");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit limit = {1000, 1000};
        struct error err;
        char block[600] = "x";
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        out_dir_begin(w.dir, "a", 0644);
        for (int i = 0; i < 5; i++)
            out_dir_data(w.dir, block, sizeof(block));
        out_dir_end(w.dir);
        _exit(out_dir_failure(w.dir, &err) < 0 && err.sys_errno == EFBIG ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_content(w.out, "a", "old"); /* and nothing partial beside it */
    assert_int_equal(count_files(w.out), 1);
    world_close(&w);
}

/* Names that a sandbox might choose because we use them ourselves. */
static void test_own_names(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    write_file(&w, ".cove-partial", 0644, "mine");
    write_file(&w, "a", 0644, "x");
    write_file(&w, "sub/.cove-partial/b", 0644, "y");
    write_file(&w, "sub/c", 0644, "z");
    assert_no_failure(&w);
    assert_content(w.out, ".cove-partial", "mine");
    assert_content(w.out, "sub/.cove-partial/b", "y");
    assert_content(w.out, "sub/c", "z");
    assert_int_equal(count_files(w.out), 4);
    world_close(&w);
}

static void test_long_names(void **state)
{
    (void)state;
    struct world w;
    char name[256], path[1024];
    world_open(&w);
    memset(name, 'n', 255);
    name[255] = '\0';
    snprintf(path, sizeof(path), "%s/%s/%s", name, name, name);
    write_file(&w, path, 0644, "deep");
    assert_no_failure(&w);
    assert_content(w.out, path, "deep");
    world_close(&w);
}

static void test_open(void **state)
{
    (void)state;
    char *base = check_temp_dir();
    struct out_dir *dir = NULL;
    struct error err;
    put(base, "file", "x");
    scoped_free char *file = at(base, "file"), *missing = at(base, "no/such");
    assert_int_equal(out_dir_open(&dir, file, &err), -1);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_int_equal(out_dir_open(&dir, missing, &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_null(dir);
    out_dir_free(NULL);
    check_remove_dir(base);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "files appear below the folder", test_good);
    check_one(&check, "an existing file is replaced at once, when the new one is whole",
              test_replace);
    check_rows(&check, modes, test_mode);
    check_rows(&check, links, test_link);
    check_one(&check, "a link as the name is replaced", test_last_link);
    check_one(&check, "a folder in the way is a failure", test_folder_in_the_way);
    check_one(&check, "a file in the way of a folder is a failure", test_file_in_the_way);
    check_one(&check, "the first failure is the one that is told", test_first_failure);
    check_one(&check, "an unfinished file vanishes", test_unfinished);
    check_one(&check, "a failed write leaves the old file and nothing else", test_disk_full);
    check_one(&check, "no name of ours collides with one of a sandbox", test_own_names);
    check_one(&check, "the longest names fit", test_long_names);
    check_one(&check, "what is no folder cannot be opened", test_open);
    return check_run(&check, "out_dir");
}
