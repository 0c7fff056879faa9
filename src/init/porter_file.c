/* porter_file.c - what a porter does with one file: read, write, and what has to do with its name
 *
 * What is written has no name until it is whole: who opens the file meanwhile has the old one, and
 * when the host or the porter is gone so is the rest of it, with nothing to remove. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/scoped.h"
#include "init/beneath.h"
#include "init/porter.h"
#include "init/tree.h"

#define RENAME_KEEP   1   /* RENAME_NOREPLACE */
#define ALIVE_EACH    256 /* frames that were taken, between two signs of life */
#define DRAFT_PATTERN ".cove-%016llx.part"

/* How it is now, by its name. */
static int tell_named(int at, const char *name)
{
    struct stat st;
    if (fstatat(at, *name ? name : ".", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    porter_tell_entry(&st, "");
    return 0;
}

int porter_stat(struct porter *p)
{
    const char *name;
    scoped_fd int at = beneath_open_parent(p->root, p->path, false, &name);
    return at < 0 ? errno : tell_named(at, name);
}

/* --- reading --------------------------------------------------------------------------------- */

/* What is no regular file is not even opened: to open a FIFO wakes who waits at its other end. */
static int open_regular(struct porter *p, struct stat *st)
{
    const char *name;
    scoped_fd int at = beneath_open_parent(p->root, p->path, false, &name);
    if (at < 0 || fstatat(at, *name ? name : ".", st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (!S_ISREG(st->st_mode)) {
        porter_tell_entry(st, "");
        errno = S_ISDIR(st->st_mode) ? EISDIR : S_ISLNK(st->st_mode) ? ELOOP : ENXIO;
        return -1;
    }
    scoped_fd int fd = beneath_open(at, name, O_RDONLY, 0);
    if (fd < 0 || fstat(fd, st) < 0)
        return -1;
    if (!S_ISREG(st->st_mode)) { /* another one meanwhile */
        errno = EAGAIN;
        return -1;
    }
    return take_fd(&fd);
}

static int send_part(int fd, uint64_t at, uint64_t left)
{
    static char buffer[FILES_BYTES_MAX];
    while (left > 0) {
        ssize_t n = pread(fd, buffer, (size_t)MIN(left, sizeof(buffer)), (off_t)at);
        if (n <= 0)
            return n < 0 ? errno : ESTALE; /* it became shorter */
        porter_tell_bytes(buffer, (size_t)n);
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
    return 0;
}

int porter_read(struct porter *p)
{
    struct stat st;
    const char *bytes;
    size_t len;
    scoped_fd int fd = open_regular(p, &st);
    if (fd < 0)
        return errno;
    porter_tell_entry(&st, "");
    const struct files_frame *go = porter_receive(&bytes, &len);
    if (go->type != FILES_GO || go->offset > INT64_MAX || go->size > INT64_MAX)
        return EPROTO;
    return send_part(fd, go->offset, go->size);
}

/* --- writing --------------------------------------------------------------------------------- */

int porter_open_draft(int at)
{
    return beneath_open(at, "", O_TMPFILE | O_WRONLY, 0600);
}

/* Linking an fd by an empty path takes a capability, or a newer kernel; else /proc has its name. */
static int link_draft(int draft, int at, const char *name)
{
    char path[32];
    if (linkat(draft, "", at, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno == EEXIST)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", draft);
    return linkat(AT_FDCWD, path, at, name, AT_SYMLINK_FOLLOW);
}

/* A name for the moment until it gets its own, since a link replaces nothing. */
static int replace(int draft, int at, const char *name)
{
    unsigned long long number;
    char other[48];
    do {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            return errno;
        snprintf(other, sizeof(other), DRAFT_PATTERN, number);
        if (link_draft(draft, at, other) == 0) {
            if (renameat(at, other, at, name) == 0)
                return 0;
            int error = errno;
            unlinkat(at, other, 0);
            return error;
        }
    } while (errno == EEXIST);
    return errno;
}

int porter_name_draft(int draft, int at, const char *name, bool replaces, bool *is_new)
{
    *is_new = link_draft(draft, at, name) == 0;
    if (*is_new)
        return 0;
    if (errno != EEXIST || !replaces)
        return errno;
    return replace(draft, at, name);
}

static int take_bytes(int fd)
{
    struct error err;
    const char *bytes;
    size_t len;
    for (unsigned count = 0; (len = porter_next_bytes(&bytes)) > 0; count++) {
        if (fd_write_all(fd, bytes, len, &err) < 0)
            return errno;
        if (count % ALIVE_EACH == 0)
            porter_tell_alive();
    }
    return 0;
}

/* The permissions are those of the file that it replaces, else those of the order. */
static mode_t choose_mode(const struct porter *p, int at, const char *name)
{
    struct stat st;
    bool is_there = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    return (is_there ? st.st_mode : p->order.mode) & 0777;
}

int porter_write(struct porter *p)
{
    const char *name;
    bool is_new;
    struct stat st;
    scoped_fd int at = beneath_open_parent(p->root, p->path, p->order.flags & FILES_PARENTS, &name);
    scoped_fd int draft = at < 0 || !*name ? -1 : porter_open_draft(at);
    if (draft < 0)
        return *name ? errno : EISDIR;
    int error = take_bytes(draft);
    if (error)
        return error;
    if (fchmod(draft, choose_mode(p, at, name)) < 0)
        return errno;
    error = porter_name_draft(draft, at, name, p->order.flags & FILES_REPLACE, &is_new);
    if (error)
        return error;
    if (fstat(draft, &st) < 0)
        return errno;
    p->flags |= is_new ? FILES_CREATED : 0;
    porter_tell_entry(&st, "");
    return 0;
}

/* --- names ----------------------------------------------------------------------------------- */

int porter_mkdir(struct porter *p)
{
    struct stat st;
    const char *name;
    scoped_fd int at = beneath_open_parent(p->root, p->path, p->order.flags & FILES_PARENTS, &name);
    if (at < 0)
        return errno;
    if (mkdirat(at, name, 0755) == 0)
        p->flags |= FILES_CREATED;
    else if (errno != EEXIST)
        return errno;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return EEXIST;
    porter_tell_entry(&st, "");
    return 0;
}

int porter_move(struct porter *p)
{
    const char *name, *other;
    bool replaces = p->order.flags & FILES_REPLACE;
    scoped_fd int from = beneath_open_parent(p->root, p->path, false, &name);
    if (from < 0)
        return errno;
    scoped_fd int to =
        beneath_open_parent(p->root, p->other, p->order.flags & FILES_PARENTS, &other);
    if (to < 0)
        return errno;
    struct stat st;
    bool is_new = fstatat(to, other, &st, AT_SYMLINK_NOFOLLOW) < 0;
    if (syscall(SYS_renameat2, from, name, to, other, replaces ? 0 : RENAME_KEEP) < 0)
        return errno;
    p->flags |= is_new ? FILES_CREATED : 0;
    return tell_named(to, other);
}

int porter_remove(struct porter *p)
{
    const char *name;
    scoped_fd int at = beneath_open_parent(p->root, p->path, false, &name);
    if (at < 0)
        return errno;
    if (unlinkat(at, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return errno;
    if (unlinkat(at, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY || !(p->order.flags & FILES_RECURSIVE))
        return errno;
    return tree_remove(at, name, porter_tell_alive);
}
