/* test_porter.c - a porter in a workspace whose tenant swaps names under it, a hundred thousand
 * times
 *
 * It opens /workspace, so it runs in a child whose root is a folder made for it. Beside the
 * workspace lies what it must never reach. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"
#include "init/porter.h"

#define ROUNDS          100000
#define SECRET          "SECRET-SECRET-SECRET"
#define EXCHANGE        2 /* RENAME_EXCHANGE */
#define SWAPS_A_TENANCY 4
#define ESCAPED         99

struct world {
    char *root;
    int fd; /* of the workspace */
    int outside;
    pid_t tenant;
};

static void put_file(int at, const char *name, const char *content)
{
    scoped_fd int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
}

static int make_dir(int at, const char *name)
{
    assert_int_equal(mkdirat(at, name, 0755), 0);
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void world_open(struct world *w)
{
    char place[] = "/dev/shm/cove-test-porter-XXXXXX"; /* of memory, as workspaces are */
    if (geteuid() != 0)
        check_skip("only root can change its root");
    assert_non_null(mkdtemp(place));
    *w = (struct world){.root = xstrdup(place)};
    scoped_fd int root = open(w->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w->fd = make_dir(root, "workspace");
    w->outside = make_dir(root, "outside");
    put_file(w->outside, "f", SECRET);
}

/* What is outside is as it was, and nothing more. */
static void check_outside(const struct world *w)
{
    scoped_free char *path = xasprintf("%s/outside/f", w->root);
    scoped_free char *content = check_read_file(path);
    assert_string_equal(content, SECRET);
    scoped_free char *folder = xasprintf("%s/outside", w->root);
    struct dirent **names;
    int count = scandir(folder, &names, NULL, NULL);
    assert_int_equal(count, 3); /* itself, the one above, the file */
    while (count > 0)
        free(names[--count]);
    free(names);
}

static void world_close(struct world *w)
{
    kill(w->tenant, SIGKILL);
    waitpid(w->tenant, NULL, 0);
    check_outside(w);
    close(w->fd);
    close(w->outside);
    check_remove_dir(w->root);
}

/* --- the host, which the porter is linked with -------------------------------------------------
 */

static size_t told, owed; /* bytes that came; those of a file that are still to be sent */

void porter_tell_entry(const struct stat *st, const char *name)
{
    (void)st;
    told += strlen(name);
}

void porter_tell_bytes(const void *data, size_t len)
{
    told += len;
    if (memmem(data, len, SECRET, strlen(SECRET)))
        _exit(ESCAPED);
}

void porter_tell_alive(void)
{
}

/* All of a file is asked for, and a little more. */
const struct files_frame *porter_receive(const char **bytes, size_t *len)
{
    static const struct files_frame go = {.type = FILES_GO, .size = sizeof(SECRET)};
    *bytes = "";
    *len = 0;
    return &go;
}

size_t porter_next_bytes(const char **bytes)
{
    size_t len = owed;
    *bytes = "written";
    owed = 0;
    return len;
}

/* --- the tenant ------------------------------------------------------------------------------ */

static void *swap_pairs(void *ctx)
{
    int fd = *(const int *)ctx;
    for (;;) {
        syscall(SYS_renameat2, fd, "dir", fd, "dir-link", EXCHANGE);
        syscall(SYS_renameat2, fd, "file", fd, "file-link", EXCHANGE);
    }
    return NULL;
}

/* A tree that is removed again and again, or the link in its place. */
static void *swap_trees(void *ctx)
{
    int fd = *(const int *)ctx;
    for (unsigned i = 0;; i++) {
        if (mkdirat(fd, "tree", 0755) == 0) {
            mkdirat(fd, "tree/deep", 0755);
            close(openat(fd, "tree/deep/f", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
            (void)!symlinkat("../outside", fd, "tree/deep/link");
        }
        (void)!symlinkat("../outside", fd, "tree-link");
        for (int k = 0; k < SWAPS_A_TENANCY; k++)
            syscall(SYS_renameat2, fd, "tree", fd, "tree-link", EXCHANGE);
        if (i % 2)
            unlinkat(fd, "tree-link", 0);
    }
    return NULL;
}

static void start_tenant(struct world *w)
{
    scoped_fd int dir = make_dir(w->fd, "dir");
    put_file(dir, "f", "harmless");
    put_file(w->fd, "file", "harmless");
    assert_int_equal(symlinkat("../outside", w->fd, "dir-link"), 0);
    assert_int_equal(symlinkat("../outside/f", w->fd, "file-link"), 0);
    w->tenant = fork();
    assert_true(w->tenant >= 0);
    if (w->tenant == 0) {
        (void)!nice(10); /* two that spin would have the machine to themselves */
        pthread_t other;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&other, NULL, swap_trees, &w->fd) == 0)
            swap_pairs(&w->fd);
        _exit(1);
    }
}

struct errand_case {
    int (*run)(struct porter *p);
    unsigned flags;
    const char *path, *other;
};

/* Each of them could go outside by a link that is there half of the time. */
static const struct errand_case errands[] = {
    {porter_read, 0, "dir/f", ""},
    {porter_read, 0, "file", ""},
    {porter_stat, 0, "dir/f", ""},
    {porter_list, 0, "dir", ""},
    {porter_write, FILES_PARENTS | FILES_REPLACE, "dir/new", ""},
    {porter_write, FILES_REPLACE, "dir/f2", ""},
    {porter_mkdir, FILES_PARENTS, "dir/a/b", ""},
    {porter_move, FILES_REPLACE, "dir/new", "dir/moved"},
    {porter_move, FILES_REPLACE | FILES_PARENTS, "dir/moved", "dir/a/moved"},
    {porter_pack, 0, "dir", ""},
    {porter_pack, 0, "", ""},
    {porter_remove, FILES_RECURSIVE, "tree", ""},
    {porter_remove, FILES_RECURSIVE, "dir/a", ""},
    {porter_remove, 0, "dir/f2", ""},
};

/* Both must happen, else nobody has raced. */
static void run_rounds(const struct world *w)
{
    static struct porter p;
    unsigned good = 0;
    if (chroot(w->root) < 0 || chdir("/") < 0)
        _exit(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct errand_case *row = &errands[i % ARRAY_LEN(errands)];
        p = (struct porter){.order = {.flags = row->flags, .count = 100, .mode = 0644}};
        snprintf(p.path, sizeof(p.path), "%s", row->path);
        snprintf(p.other, sizeof(p.other), "%s", row->other);
        owed = strlen("written");
        p.root = open(GUEST_WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        good += row->run(&p) == 0;
        close(p.root);
    }
    printf("# %u of %d went well, the others were refused\n", good, ROUNDS);
    fflush(stdout);
    _exit(good > ROUNDS / 100 && good < ROUNDS - ROUNDS / 100 && told > ROUNDS ? 0 : 2);
}

static void test_race(void **state)
{
    (void)state;
    struct world w;
    int status;
    world_open(&w);
    start_tenant(&w);
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_rounds(&w);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    world_close(&w);
}

int main(void)
{
    struct check check = {.count = 0};
    check_one(&check, "names that are swapped lead nowhere else", test_race);
    return check_run(&check, "porter");
}
