/* scrub.c - one walk for what holds for every entry, then a table of places
 *
 * Files that share an inode are changed more than once to the same state; that is fine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "image/tree.h"

#define XATTRS_MAX_BYTES (64 * KIB)

/* In order: what is below a place comes after it. */
static const struct place {
    const char *parent;
    const char *name;
    mode_t mode;  /* 0: must not be there */
    bool is_kept; /* an existing folder keeps its content */
} places[] = {
    {"", "dev", 0755, false},  {"", "proc", 0755, false}, {"", "sys", 0, false},
    {"", "run", 0, false},     {"", "tmp", 01777, false}, {"", "workspace", 0755, false},
    {"", "data", 0755, false}, {"", "mnt", 0755, true},   {"mnt", "data", 0755, false},
};

static mode_t wanted_mode(const struct stat *st)
{
    mode_t mode = st->st_mode & 01777; /* set-id bits go */
    if (S_ISDIR(st->st_mode))
        return (mode & 01000) ? 01777 : (mode | 0755) & 0755;
    return (mode | 0444) & 0755;
}

/* The fd is O_PATH, so that a device is never opened; /proc/self/fd leads to the file itself. */
static int drop_xattrs(int fd, const char *path, struct error *err)
{
    char names[XATTRS_MAX_BYTES], self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t len = listxattr(self, names, sizeof(names));
    if (len < 0 && errno == ENOTSUP)
        return 0;
    if (len < 0)
        return error_sys(err, "list attributes of '%s'", path);
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        /* A label that the kernel's security module gives to every file is not the image's. */
        if (removexattr(self, name) < 0 && errno != ENODATA &&
            strcmp(name, "security.selinux") != 0)
            return error_sys(err, "remove attribute '%s' of '%s'", name, path);
    }
    return 0;
}

static int scrub_entry(const struct tree_entry *entry, struct error *err)
{
    /* Owner before mode: changing the owner clears bits of the mode. */
    if (geteuid() == 0 && (entry->st.st_uid != 0 || entry->st.st_gid != 0) &&
        fchownat(entry->dir_fd, entry->name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0)
        return error_sys(err, "give '%s' to root", entry->path);
    if (S_ISLNK(entry->st.st_mode))
        return 0;

    scoped_fd int fd = openat(entry->dir_fd, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, "open '%s'", entry->path);
    mode_t mode = wanted_mode(&entry->st);
    if ((entry->st.st_mode & 07777) != mode && fchmodat(entry->dir_fd, entry->name, mode, 0) < 0)
        return error_sys(err, "set the mode of '%s'", entry->path);
    return drop_xattrs(fd, entry->path, err);
}

static int visit(void *ctx, const struct tree_entry *entry, struct error *err)
{
    (void)ctx;
    mode_t type = entry->st.st_mode & S_IFMT;
    if (entry->is_leaving)
        return 0;
    if (type == S_IFREG || type == S_IFDIR || type == S_IFLNK)
        return scrub_entry(entry, err);
    if (unlinkat(entry->dir_fd, entry->name, 0) < 0)
        return error_sys(err, "remove '%s'", entry->path);
    return 0;
}

static bool is_folder(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int set_place(int root_fd, const struct place *place, struct error *err)
{
    scoped_fd int parent =
        tree_open(root_fd, place->parent[0] ? place->parent : ".", O_RDONLY | O_DIRECTORY);
    if (parent < 0)
        return error_sys(err, "open '/%s'", place->parent);
    if (place->is_kept && is_folder(parent, place->name))
        return 0;
    if (tree_remove(parent, place->name, err) < 0)
        return -1;
    if (place->mode == 0)
        return 0;
    if (mkdirat(parent, place->name, 0755) < 0 || fchmodat(parent, place->name, place->mode, 0) < 0)
        return error_sys(err, "make '/%s'", place->name);
    return 0;
}

int scrub_root(int root_fd, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (set_place(root_fd, &places[i], err) < 0)
            return error_wrap(err, "prepare the root");
    }
    if (fchmod(root_fd, 0755) < 0)
        return error_sys(err, "set the mode of the root");
    if (geteuid() == 0 && fchown(root_fd, 0, 0) < 0)
        return error_sys(err, "give the root to root");
    if (tree_walk(root_fd, visit, NULL, err) < 0)
        return error_wrap(err, "prepare the root");
    return 0;
}
