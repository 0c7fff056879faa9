/* scratch.c - mkdir, flock, and the removal of what others left
 *
 * Between its making and its lock a new folder looks abandoned, and somebody may take it away. That
 * is noticed, and another one made. (A lock on the parent would prevent it, but in /tmp anybody
 * could hold that one for ever.) */
/* SPDX-License-Identifier: Apache-2.0 */
#include "image/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/parse.h"
#include "image/tree.h"

#define RANDOM_BYTES 8
#define TRIES_MAX    16

struct scratch {
    int parent_fd;
    int fd; /* holds the lock */
    char *path;
    const char *name; /* in path */
};

/* Removes `name` when it is ours and nobody holds its lock. What cannot be removed is left for the
 * next time: it is not worth failing new work. */
static void remove_abandoned(int parent_fd, const char *name)
{
    struct error ignored;
    struct stat st;
    scoped_fd int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid())
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)!tree_remove(parent_fd, name, &ignored);
}

static void remove_all_abandoned(int parent_fd, const char *prefix)
{
    int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        scoped_close_fd(&fd);
        return;
    }
    struct dirent *item;
    while ((item = readdir(dir))) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) == 0)
            remove_abandoned(parent_fd, item->d_name);
    }
    closedir(dir);
}

/* Locks the folder just made; false when somebody else has taken it for abandoned. */
static bool hold(struct scratch *scratch)
{
    struct stat st;
    scratch->fd =
        openat(scratch->parent_fd, scratch->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (scratch->fd >= 0 && flock(scratch->fd, LOCK_EX | LOCK_NB) == 0 &&
        fstat(scratch->fd, &st) == 0 && st.st_nlink > 0)
        return true;
    scoped_close_fd(&scratch->fd);
    scratch->fd = -1;
    return false;
}

/* Answers 0 also when the folder was lost again, with no name set. */
static int make(struct scratch *scratch, const char *parent_dir, const char *prefix,
                struct error *err)
{
    uint8_t random[RANDOM_BYTES];
    char hex[2 * RANDOM_BYTES + 1];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return error_sys(err, "get random bytes");
    format_hex(random, sizeof(random), hex);
    free(scratch->path);
    scratch->path = xasprintf("%s/%s%s", parent_dir, prefix, hex);
    scratch->name = strrchr(scratch->path, '/') + 1;
    if (mkdirat(scratch->parent_fd, scratch->name, 0700) < 0) {
        scratch->name = NULL;
        return error_sys(err, "make a folder in '%s'", parent_dir);
    }
    if (!hold(scratch))
        scratch->name = NULL;
    return 0;
}

int scratch_open(struct scratch **out, const char *parent_dir, const char *prefix, unsigned mode,
                 struct error *err)
{
    scoped(scratch) struct scratch *scratch = xcalloc(1, sizeof(*scratch));
    *scratch = (struct scratch){.parent_fd = -1, .fd = -1};
    scratch->parent_fd = open(parent_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch->parent_fd < 0)
        return error_sys(err, "open '%s'", parent_dir);

    remove_all_abandoned(scratch->parent_fd, prefix);
    for (int i = 0; i < TRIES_MAX && !scratch->name; i++) {
        if (make(scratch, parent_dir, prefix, err) < 0)
            return -1;
    }
    if (!scratch->name)
        return error_set(err, ERROR_UNAVAILABLE, "lock a new folder in '%s'", parent_dir);
    if (fchmod(scratch->fd, mode) < 0)
        return error_sys(err, "set the mode of '%s'", scratch->path);
    *out = take_ptr(&scratch);
    return 0;
}

void scratch_free(struct scratch *scratch)
{
    struct error ignored; /* what is left is found by the next scratch_open() */
    if (!scratch)
        return;
    if (scratch->name)
        (void)!tree_remove(scratch->parent_fd, scratch->name, &ignored);
    scoped_close_fd(&scratch->fd);
    scoped_close_fd(&scratch->parent_fd);
    free(scratch->path);
    free(scratch);
}

int scratch_fd(const struct scratch *scratch)
{
    return scratch->fd;
}

int scratch_parent_fd(const struct scratch *scratch)
{
    return scratch->parent_fd;
}

const char *scratch_path(const struct scratch *scratch)
{
    return scratch->path;
}

const char *scratch_name(const struct scratch *scratch)
{
    return scratch->name;
}
