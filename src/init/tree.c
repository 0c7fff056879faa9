/* tree.c - how the files worker walks through directories that their owner may have closed */
/* SPDX-License-Identifier: Apache-2.0 */
#include "init/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scoped.h"

#define PULSE_ENTRIES 1024
#define NS_PER_SECOND 1000000000ll

int tree_open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES || fchmodat(at, name, 0700, 0) < 0)
        return fd;
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int tree_open_to_change(int at, const char *name)
{
    struct stat st;
    int fd = tree_open_dir(at, name);
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        (void)!fchmod(fd, st.st_mode | 0700);
    return fd;
}

int tree_each(int fd, tree_visit_fn visit, void *ctx)
{
    int error = 0, copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return errno;
    while (error == 0) {
        struct stat st;
        errno = 0; /* at the end it stays so: half a folder is no copy of it */
        struct dirent *e = readdir(dir);
        if (!e) {
            error = errno;
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            error = visit(fd, e->d_name, &st, ctx);
        else if (errno != ENOENT) /* gone meanwhile */
            error = errno;
    }
    closedir(dir);
    return error;
}

/* --- removing -------------------------------------------------------------------------------- */

struct doom {
    int at;         /* the directory that gets what is not empty */
    unsigned first; /* of those that are left */
    unsigned next;
    unsigned count; /* of all that was looked at */
    void (*pulse)(void);
};

static void doom_name(unsigned number, char out[32])
{
    snprintf(out, 32, ".cove-doomed.%u", number);
}

static bool remove_plain(int at, const char *name)
{
    return unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static int hoist(struct doom *d, int from, const char *name, char to[32])
{
    int status;
    do {
        doom_name(d->next++, to);
        status = (int)syscall(SYS_renameat2, from, name, d->at, to, 1 /* NOREPLACE */);
    } while (status < 0 && errno == EEXIST);
    return status;
}

/* However deep the tree is, it is flattened: no path grows, and no stack. */
static int doom(int from, const char *name, const struct stat *st, void *ctx)
{
    struct doom *d = ctx;
    char to[32];
    (void)st;
    if (d->pulse && ++d->count % PULSE_ENTRIES == 0)
        d->pulse();
    if (remove_plain(from, name))
        return 0;
    if (hoist(d, from, name, to) == 0)
        return 0;
    if (errno != EACCES)
        return errno == ENOENT ? 0 : errno;
    scoped_fd int fd = tree_open_to_change(from, name); /* what has a new parent is written to */
    return fd < 0 || hoist(d, from, name, to) < 0 ? errno : 0;
}

int tree_remove(int at, const char *name, void (*pulse)(void))
{
    struct doom d = {.at = at, .pulse = pulse};
    struct stat st = {0};
    int error = doom(at, name, &st, &d);
    for (; error == 0 && d.first < d.next; d.first++) {
        char dead[32];
        doom_name(d.first, dead);
        scoped_fd int fd = tree_open_to_change(at, dead);
        if (fd < 0)
            continue;
        error = tree_each(fd, doom, &d);
        if (error == 0 && unlinkat(at, dead, AT_REMOVEDIR) < 0)
            error = errno;
    }
    return error;
}

int tree_open_file(int at, const char *name, mode_t mode)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC;
    int fd = openat(at, name, flags);
    if (fd >= 0 || errno != EACCES || fchmodat(at, name, (mode & 07777) | 0400, 0) < 0)
        return fd;
    return openat(at, name, flags);
}

int tree_finish_dir(int at, const char *name, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    if (fchmodat(at, name, (st->st_mode & 07777) | 0500, 0) < 0 ||
        utimensat(at, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    return 0;
}

int64_t tree_to_ns(const struct timespec *time)
{
    int64_t ns;
    if (__builtin_mul_overflow((int64_t)time->tv_sec, NS_PER_SECOND, &ns) ||
        __builtin_add_overflow(ns, (int64_t)time->tv_nsec, &ns))
        return time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

struct timespec tree_from_ns(int64_t ns)
{
    int64_t seconds = ns / NS_PER_SECOND, rest = ns % NS_PER_SECOND;
    if (rest < 0) {
        seconds--;
        rest += NS_PER_SECOND;
    }
    return (struct timespec){.tv_sec = seconds, .tv_nsec = rest};
}
