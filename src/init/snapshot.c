/* snapshot.c - copies of the workspace, and the way back to one of them
 *
 * A copy lies beside the workspace in the sandbox's own storage, in its limits. It is made and read
 * by the files worker with the tenant's rights: who spoils it, or changes files while it is made,
 * spoils the tenant's own way back. Copies share what did not change between them by hard links; in
 * a copy nothing is ever written, so that is safe.
 *
 * What did not change is told by the time of the last change of a file's inode, which nobody inside
 * can set. The copy keeps that of its original as its own time of access. A change within the same
 * tick of the clock would go unseen, so a file that was changed just now has no such time kept and
 * counts as changed.
 *
 * An overlay would be quicker for large files, but landlock judges a file by the mounts above it:
 * on a mount that is made after the seal nothing may be written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "init/init.h"
#include "init/tree.h"

#define PLACE      "/dev/shm"
#define FOLDER     ".cove"
#define DEPTH_MAX  64
#define COPY_BYTES 65536
#define TICK_NS    20000000ll /* more than any clock's granularity */

static char buffer[COPY_BYTES];
static struct timespec began; /* by the clock that stamps files */

static int64_t to_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* --- directories ----------------------------------------------------------------------------- */

static int open_beneath(int root, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* --- copying one entry ----------------------------------------------------------------------- */

static int copy_bytes(int in, int out, off_t left)
{
    struct error err;
    while (left > 0) {
        ssize_t n = read(in, buffer, (size_t)MIN(left, (off_t)sizeof(buffer)));
        if (n <= 0)
            return n < 0 ? errno : 0; /* shorter now */
        if (fd_write_all(out, buffer, (size_t)n, &err) < 0)
            return errno;
        left -= n;
    }
    return 0;
}

/* Holes stay holes. */
static int copy_sparse(int in, int out, off_t size)
{
    int error = 0;
    for (off_t at = 0, end; at < size && !error; at = end) {
        at = lseek(in, at, SEEK_DATA);
        if (at < 0)
            break;
        end = lseek(in, at, SEEK_HOLE);
        if (end < 0 || lseek(in, at, SEEK_SET) < 0 || lseek(out, at, SEEK_SET) < 0)
            return errno;
        error = copy_bytes(in, out, MIN(end, size) - at);
    }
    if (!error && ftruncate(out, size) < 0)
        error = errno;
    return error;
}

static int copy_data(int in, int out, const struct stat *st)
{
    bool is_sparse = st->st_blocks * 512 < st->st_size;
    return is_sparse ? copy_sparse(in, out, st->st_size) : copy_bytes(in, out, st->st_size);
}

/* `access` becomes the time of access of what is written. */
static int copy_file(int from, int to, const char *name, const struct stat *seen,
                     const struct timespec *access)
{
    struct stat st;
    scoped_fd int in = tree_open_file(from, name, seen->st_mode);
    if (in < 0 || fstat(in, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EAGAIN; /* another one meanwhile */
    mode_t mode = (st.st_mode & 07777) | 0400;
    scoped_fd int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    if (out < 0)
        return errno;
    int error = copy_data(in, out, &st);
    const struct timespec times[2] = {*access, st.st_mtim};
    if (!error && ((mode & 07000 && fchmod(out, mode) < 0) || futimens(out, times) < 0))
        error = errno;
    return error;
}

static int copy_link(int from, int to, const char *name)
{
    char target[GUEST_PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return errno;
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? errno : 0;
}

/* --- save ------------------------------------------------------------------------------------ */

/* Where a walk stands, in two or three trees at once. */
struct pair {
    int other; /* save: the copy; restore: the tree that is looked at beside */
    int base;  /* save: the copy before, or -1 */
    int depth;
};

static bool is_same(const struct stat *original, const struct stat *copy)
{
    return S_ISREG(original->st_mode) && S_ISREG(copy->st_mode) && copy->st_atim.tv_sec != 0 &&
           original->st_size == copy->st_size && to_ns(&original->st_ctim) == to_ns(&copy->st_atim);
}

static int save_file(int from, const char *name, const struct stat *st, const struct pair *p)
{
    struct stat before;
    if (p->base >= 0 && fstatat(p->base, name, &before, AT_SYMLINK_NOFOLLOW) == 0 &&
        is_same(st, &before))
        return linkat(p->base, name, p->other, name, 0) < 0 ? errno : 0;
    const struct timespec never = {0};
    bool is_settled = to_ns(&st->st_ctim) + TICK_NS < to_ns(&began);
    return copy_file(from, p->other, name, st, is_settled ? &st->st_ctim : &never);
}

static int save_entry(int from, const char *name, const struct stat *st, void *ctx);

static int save_dir(int from, const char *name, const struct stat *st, const struct pair *p)
{
    if (p->depth == DEPTH_MAX)
        return ELOOP;
    if (mkdirat(p->other, name, 0700) < 0)
        return errno;
    scoped_fd int in = tree_open_dir(from, name);
    scoped_fd int out = tree_open_dir(p->other, name);
    scoped_fd int base = p->base < 0 ? -1 : tree_open_dir(p->base, name);
    if (in < 0 || out < 0)
        return errno;
    struct pair inner = {.other = out, .base = base, .depth = p->depth + 1};
    int error = tree_each(in, save_entry, &inner);
    return error ? error : tree_finish_dir(p->other, name, st);
}

static int save_entry(int from, const char *name, const struct stat *st, void *ctx)
{
    const struct pair *p = ctx;
    if (S_ISREG(st->st_mode))
        return save_file(from, name, st, p);
    if (S_ISDIR(st->st_mode))
        return save_dir(from, name, st, p);
    if (S_ISLNK(st->st_mode))
        return copy_link(from, p->other, name);
    if (S_ISFIFO(st->st_mode) && mkfifoat(p->other, name, st->st_mode & 0777) < 0)
        return errno;
    return 0; /* a socket lives no longer than who listens on it */
}

/* --- restore --------------------------------------------------------------------------------- */

static bool is_same_link(int a, int b, const char *name)
{
    char one[GUEST_PATH_MAX], two[GUEST_PATH_MAX];
    ssize_t n = readlinkat(a, name, one, sizeof(one)), m = readlinkat(b, name, two, sizeof(two));
    return n > 0 && n == m && memcmp(one, two, (size_t)n) == 0;
}

/* First everything goes that is not as it was: that makes the room for what has to come. */
static int prune_entry(int at, const char *name, const struct stat *st, void *ctx)
{
    const struct pair *p = ctx;
    struct stat copy = {0};
    bool is_there = fstatat(p->other, name, &copy, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && S_ISDIR(st->st_mode) && S_ISDIR(copy.st_mode) && p->depth < DEPTH_MAX) {
        scoped_fd int in = tree_open_to_change(at, name);
        scoped_fd int other = tree_open_dir(p->other, name);
        struct pair inner = {.other = other, .base = -1, .depth = p->depth + 1};
        return in < 0 || other < 0 ? errno : tree_each(in, prune_entry, &inner);
    }
    if (is_there && (is_same(st, &copy) || (S_ISLNK(st->st_mode) && S_ISLNK(copy.st_mode) &&
                                            is_same_link(at, p->other, name))))
        return 0;
    return tree_remove(at, name, NULL);
}

/* Here the walk is through the copy, and `other` is the workspace. */
static int fill_entry(int from, const char *name, const struct stat *st, void *ctx)
{
    const struct pair *p = ctx;
    struct stat there;
    bool is_there = fstatat(p->other, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (S_ISDIR(st->st_mode)) {
        if (!is_there && mkdirat(p->other, name, 0700) < 0)
            return errno;
        scoped_fd int in = tree_open_dir(from, name);
        scoped_fd int out = tree_open_dir(p->other, name);
        struct pair inner = {.other = out, .base = -1, .depth = p->depth + 1};
        int error = in < 0 || out < 0 ? errno : tree_each(in, fill_entry, &inner);
        return error ? error : tree_finish_dir(p->other, name, st);
    }
    if (is_there)
        return 0;
    if (S_ISREG(st->st_mode))
        return copy_file(from, p->other, name, st, &began);
    if (S_ISLNK(st->st_mode))
        return copy_link(from, p->other, name);
    return mkfifoat(p->other, name, st->st_mode & 0777) < 0 ? errno : 0;
}

/* --- operations ------------------------------------------------------------------------------ */

static int open_copies(bool may_make)
{
    scoped_fd int place = open(PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0 || (may_make && mkdirat(place, FOLDER, 0700) < 0 && errno != EEXIST))
        return -1;
    return open_beneath(place, FOLDER);
}

static int save(int root, int copies, const char *name, const char *base_name)
{
    struct stat st = {0};
    if (mkdirat(copies, name, 0700) < 0)
        return errno;
    scoped_fd int copy = open_beneath(copies, name);
    scoped_fd int base = open_beneath(copies, base_name);
    struct pair p = {.other = copy, .base = base};
    int error = copy < 0 || fstat(root, &st) < 0 ? errno : tree_each(root, save_entry, &p);
    if (error == 0 && fchmod(copy, (st.st_mode & 07777) | 0700) < 0)
        error = errno;
    if (error)
        tree_remove(copies, name, NULL);
    return error;
}

static int restore(int root, int copies, const char *name)
{
    struct stat st;
    scoped_fd int copy = open_beneath(copies, name);
    if (copy < 0 || fstat(copy, &st) < 0)
        return errno;
    struct pair pruned = {.other = copy, .base = -1}, filled = {.other = root, .base = -1};
    int error = tree_each(root, prune_entry, &pruned);
    if (error == 0)
        error = tree_each(copy, fill_entry, &filled);
    if (error == 0 && fchmod(root, st.st_mode & 07777) < 0)
        error = errno;
    return error;
}

int init_snapshot(const struct guest_message *m, int root)
{
    char name[16], base[16];
    bool is_save = m->value == GUEST_FILES_SAVE;
    snprintf(name, sizeof(name), "%u", m->argc);
    snprintf(base, sizeof(base), "%u", m->envc);
    umask(0);
    clock_gettime(CLOCK_REALTIME_COARSE, &began);
    scoped_fd int copies = open_copies(is_save);
    if (copies < 0)
        return errno;
    if (is_save)
        return save(root, copies, name, base);
    return m->value == GUEST_FILES_RESTORE ? restore(root, copies, name)
                                           : tree_remove(copies, name, NULL);
}
